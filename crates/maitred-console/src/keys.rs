//! Pages that change keys, tenants and limits at run time.

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse, Json, Response};
use maitred_runtime::{Actor, Change, ChangeRefusal, Changed, NewKey, NotChanged};
use maitred_types::UnixMillis;
use serde_json::{Value, json};

use crate::{Console, problem};

/// Longest time that a key which is replaced stays good, in seconds: 90 days.
const OVERLAP_MAX: u64 = 90 * 86_400;
/// For how long it does if nothing is said: a day.
const OVERLAP: u64 = 86_400;

/// All keys, by their hashes' public parts.
pub(crate) async fn list(State(console): State<Console>) -> Json<Value> {
    let (roster, base) = (console.runtime.roster(), console.runtime.base());
    Json(json!({ "keys": roster.list_keys(&base) }))
}

/// A new key. This answer is the only thing that ever shows it.
pub(crate) async fn create(
    State(console): State<Console>,
    Extension(actor): Extension<Actor>,
    Json(fields): Json<Value>,
) -> Response {
    let Some(key) = console.runtime.new_key() else {
        return no_randomness();
    };
    let hash = console.runtime.hash_of(&key);
    let made = console
        .runtime
        .change(&actor, move |_, _| Change::create_key(fields.clone(), &hash));
    shown(&key, made.await)
}

/// A new key in the place of another, which stays good for a while.
pub(crate) async fn rotate(
    State(console): State<Console>,
    Extension(actor): Extension<Actor>,
    Path(id): Path<String>,
    Json(fields): Json<Value>,
) -> Response {
    let overlap = match &fields["overlap_seconds"] {
        Value::Null => Some(OVERLAP),
        given => given.as_u64().filter(|seconds| *seconds <= OVERLAP_MAX),
    };
    let Some(overlap) = overlap else {
        let why = format!("`overlap_seconds` is a number of seconds up to {OVERLAP_MAX}");
        return (StatusCode::UNPROCESSABLE_ENTITY, problem(&why)).into_response();
    };
    let Some(key) = console.runtime.new_key() else {
        return no_randomness();
    };
    let hash = console.runtime.hash_of(&key);
    let now = console.runtime.clock().unix_now();
    let overlap = now..UnixMillis::new(now.get() + overlap * 1_000);
    let rotation = console.runtime.change(&actor, move |roster, base| {
        roster.rotation(base, &id, &hash, overlap.clone())
    });
    shown(&key, rotation.await)
}

/// A key is not let in from now on.
pub(crate) async fn revoke(
    State(console): State<Console>,
    Extension(actor): Extension<Actor>,
    Path(id): Path<String>,
) -> Response {
    told(
        console
            .runtime
            .change(&actor, move |_, _| Change::revoke_key(&id))
            .await,
    )
}

pub(crate) async fn tenants(State(console): State<Console>) -> Json<Value> {
    let (roster, base) = (console.runtime.roster(), console.runtime.base());
    Json(json!({ "tenants": roster.list_tenants(&base) }))
}

pub(crate) async fn put_tenant(
    State(console): State<Console>,
    Extension(actor): Extension<Actor>,
    Json(fields): Json<Value>,
) -> Response {
    told(
        console
            .runtime
            .change(&actor, move |_, _| Change::put_tenant(fields.clone()))
            .await,
    )
}

/// The limits that were made at run time.
pub(crate) async fn limits(State(console): State<Console>) -> Json<Value> {
    Json(json!({ "limits": console.runtime.roster().list_limits() }))
}

pub(crate) async fn put_limit(
    State(console): State<Console>,
    Extension(actor): Extension<Actor>,
    Json(fields): Json<Value>,
) -> Response {
    told(
        console
            .runtime
            .change(&actor, move |_, _| Change::put_limit(fields.clone()))
            .await,
    )
}

pub(crate) async fn remove_limit(
    State(console): State<Console>,
    Extension(actor): Extension<Actor>,
    Path(name): Path<String>,
) -> Response {
    told(
        console
            .runtime
            .change(&actor, move |_, _| Change::remove_limit(&name))
            .await,
    )
}

fn shown(key: &NewKey, made: Result<Changed, NotChanged>) -> Response {
    match made {
        Ok(changed) => {
            let body = json!({
                "key": key.expose(),
                "id": key.id().as_str(),
                "version": changed.version,
                "diff": changed.diff,
            });
            (StatusCode::CREATED, [(CACHE_CONTROL, "no-store")], Json(body)).into_response()
        }
        Err(error) => refused(error),
    }
}

pub(crate) fn told(made: Result<Changed, NotChanged>) -> Response {
    match made {
        Ok(changed) if changed.is_pending => {
            let body = json!({
                "version": changed.version,
                "diff": changed.diff,
                "pending": true,
                "note": "in force on this gateway; the others will be told when the server by which they share changes is back",
            });
            (StatusCode::ACCEPTED, Json(body)).into_response()
        }
        Ok(changed) => Json(json!({ "version": changed.version, "diff": changed.diff })).into_response(),
        Err(error) => refused(error),
    }
}

pub(crate) fn refused(error: NotChanged) -> Response {
    let (status, why) = match error {
        NotChanged::Refused(refusal) => {
            let status = match refusal {
                ChangeRefusal::Form(_) => StatusCode::UNPROCESSABLE_ENTITY,
                ChangeRefusal::Unknown(_) => StatusCode::NOT_FOUND,
                ChangeRefusal::Conflict(_) => StatusCode::CONFLICT,
            };
            (status, refusal.to_string())
        }
        NotChanged::Unsupported => (
            StatusCode::CONFLICT,
            "nothing can be changed at run time here: name in `admin.changes` the file in which changes are kept"
                .to_owned(),
        ),
        NotChanged::Unavailable(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
    };
    (status, problem(&why)).into_response()
}

fn no_randomness() -> Response {
    let why = problem("the system gives no random bytes");
    (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
}
