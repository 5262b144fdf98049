//! The pages.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Json, Response};
use maitred_obs::EndpointSample;
use maitred_runtime::{Actor, Deed};
use serde_json::json;

use crate::{Console, problem};

/// The Prometheus text format's content type.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Why something is not done that could not be entered.
pub(crate) const NOT_ENTERED: &str =
    "nothing is done: the audit cannot be written, and what is not in it must not happen; the operator must look at it";

pub(crate) async fn health() -> &'static str {
    "ok\n"
}

/// Who the asker is taken for.
pub(crate) async fn whoami(Extension(actor): Extension<Actor>) -> impl IntoResponse {
    Json(json!({ "name": &*actor.name, "role": actor.role.name() }))
}

pub(crate) async fn metrics(State(console): State<Console>) -> impl IntoResponse {
    ([(CONTENT_TYPE, METRICS)], console.meters.page())
}

/// Ready as long as some pool can serve and the gateway is not on its way out; the body names the pools that cannot, where
/// anybody who reaches the listener may see the endpoints anyway.
pub(crate) async fn ready(State(console): State<Console>) -> (StatusCode, Json<serde_json::Value>) {
    let runtime = &console.runtime;
    let not_ready: Vec<_> = runtime.pools_not_ready().iter().map(ToString::to_string).collect();
    let pools = runtime.snapshot().settings().pools.len();
    let is_ready = !runtime.is_draining() && not_ready.len() < pools;
    let status = if is_ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let mut body = json!({ "ready": is_ready, "draining": runtime.is_draining() });
    if runtime.snapshot().settings().admin.access.is_empty() {
        body["pools_not_ready"] = not_ready.into();
    }
    (status, Json(body))
}

pub(crate) async fn endpoints(State(console): State<Console>) -> impl IntoResponse {
    Json(json!({ "endpoints": console.runtime.samples() }))
}

/// How the objectives of routes that can degrade answers stand.
pub(crate) async fn degradation(State(console): State<Console>) -> impl IntoResponse {
    Json(json!({ "routes": console.runtime.objectives() }))
}

/// How many decision records there are, and of which calls.
pub(crate) async fn decisions(State(console): State<Console>) -> impl IntoResponse {
    Json(console.runtime.decisions().list())
}

/// Why a call went where it went.
pub(crate) async fn decision(State(console): State<Console>, Path(id): Path<String>) -> Response {
    let found = console
        .runtime
        .decisions()
        .find(&id)
        .map(|decision| decision.to_record());
    let found = match found {
        None if console.runtime.decisions().archive().is_some() => {
            let runtime = Arc::clone(&console.runtime);
            let archived = tokio::task::spawn_blocking(move || runtime.decisions().find_archived(&id));
            archived.await.unwrap_or_default()
        }
        found => found,
    };
    match found {
        Some(record) => Json(record).into_response(),
        None => {
            let why = problem(
                "no decision record of such a call; it may still be running, have shown no valid key, or be older than what is kept: \
                 see `decisions` in the configuration",
            );
            (StatusCode::NOT_FOUND, why).into_response()
        }
    }
}

pub(crate) async fn drain(
    State(console): State<Console>,
    Extension(actor): Extension<Actor>,
    Path((pool, address)): Path<(String, String)>,
) -> (StatusCode, Json<serde_json::Value>) {
    let runtime = &console.runtime;
    let is_it = |sample: &EndpointSample| sample.pool == pool && sample.endpoint == address;
    if runtime.samples().iter().any(is_it) {
        let target = format!("{pool}/{address}");
        let deed = Deed {
            action: "drain endpoint",
            target: &target,
            diff: serde_json::Value::Null,
            version: None,
        };
        if runtime.enter_act(&actor, deed).await.is_err() {
            return (StatusCode::SERVICE_UNAVAILABLE, problem(NOT_ENTERED));
        }
    }
    if runtime.drain_endpoint(&pool, &address) {
        (StatusCode::ACCEPTED, Json(json!({ "draining": address })))
    } else {
        (
            StatusCode::NOT_FOUND,
            problem("no such endpoint in that pool; GET /endpoints lists them"),
        )
    }
}
