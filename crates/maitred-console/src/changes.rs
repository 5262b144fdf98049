//! Pages about what was changed at run time, and back.

use axum::Extension;
use axum::extract::{Path, RawQuery, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use maitred_runtime::{Actor, Change, NotChanged};
use serde_json::{Value, json};

use crate::keys::{refused, told};
use crate::{Console, problem};

/// Changes in one answer.
const LISTED: usize = 200;

/// The newest changes, or with `?before=VERSION` the newest before that one. Keys are named by their public ids; their hashes are left out.
pub(crate) async fn list(State(console): State<Console>, RawQuery(query): RawQuery) -> Response {
    let before = match query.as_deref() {
        None => Ok(u64::MAX),
        Some(query) => query.strip_prefix("before=").unwrap_or_default().parse(),
    };
    let Ok(before) = before else {
        let why = problem("what can be asked is `?before=VERSION`, a whole number");
        return (StatusCode::BAD_REQUEST, why).into_response();
    };
    let Some(made) = console.runtime.changes_before(before, LISTED) else {
        return refused(NotChanged::Unsupported);
    };
    let listed: Vec<Value> = made
        .iter()
        .map(|made| {
            let mut line = json!(**made);
            leave_out_hashes(&mut line["diff"]);
            line
        })
        .collect();
    Json(json!({ "changes": listed })).into_response()
}

/// What restoring a version would change.
pub(crate) async fn preview(State(console): State<Console>, Path(version): Path<String>) -> Response {
    let Ok(version) = version.parse() else {
        return no_number();
    };
    match console.runtime.preview_restoration(version) {
        Ok(mut diff) => {
            leave_out_hashes(&mut diff);
            Json(json!({ "diff": diff })).into_response()
        }
        Err(error) => refused(error),
    }
}

/// Everything is as it was after the change of that number.
pub(crate) async fn restore(
    State(console): State<Console>,
    Extension(actor): Extension<Actor>,
    Path(version): Path<String>,
) -> Response {
    let Ok(version) = version.parse() else {
        return no_number();
    };
    let made = console
        .runtime
        .change(&actor, move |_, _| Ok(Change::restore(version)))
        .await;
    told(made.map(|mut changed| {
        leave_out_hashes(&mut changed.diff);
        changed
    }))
}

fn no_number() -> Response {
    let why = problem("a version is a whole number; `maitred changes list` shows them");
    (StatusCode::UNPROCESSABLE_ENTITY, why).into_response()
}

/// Differences are no deeper than a few members, whoever made them.
fn leave_out_hashes(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("hash");
            members.values_mut().for_each(leave_out_hashes);
        }
        Value::Array(items) => items.iter_mut().for_each(leave_out_hashes),
        _ => {}
    }
}
