//! The administrative listener: metrics, health, drain, what the endpoints look like and why calls went where they went.
//!
//! It has a socket of its own, on loopback, apart from the one that clients use. A web page in a browser on the same machine can
//! reach loopback too, so requests that a browser made on behalf of some page are refused.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use maitred_obs::Meters;
use maitred_runtime::Runtime;
use serde_json::json;
use tokio::net::TcpListener;

/// The Prometheus text format's content type.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the pages are made from.
#[derive(Clone, Debug)]
pub struct Console {
    /// The cores.
    pub runtime: Arc<Runtime>,
    /// The metrics.
    pub meters: Arc<Meters>,
}

/// Serves the pages until `stop` completes.
///
/// # Errors
/// When the socket fails.
pub async fn serve(
    listener: TcpListener,
    console: Console,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    axum::serve(listener, router(console))
        .with_graceful_shutdown(stop)
        .await
}

fn router(console: Console) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/endpoints", get(endpoints))
        .route("/admin/v1/decisions", get(decisions))
        .route("/admin/v1/decisions/{id}", get(decision))
        .route("/pools/{pool}/endpoints/{address}/drain", post(drain))
        .fallback(|| async {
            (
                StatusCode::NOT_FOUND,
                problem("there is no such page; see docs/operating.md"),
            )
        })
        .layer(middleware::from_fn(refuse_pages))
        .with_state(console)
}

fn problem(message: &str) -> Json<serde_json::Value> {
    Json(json!({ "error": message }))
}

/// Refuses what a browser sends on behalf of a page: a request with an `Origin`, or one whose `Host` is a name that somebody
/// pointed at loopback.
async fn refuse_pages(request: Request, next: Next) -> Response {
    let headers = request.headers();
    if headers.contains_key(ORIGIN) || !names_this_machine(headers) {
        let why = problem("this listener is for programs on this machine, not for web pages");
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    next.run(request).await
}

fn names_this_machine(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST) else { return true };
    let Ok(host) = host.to_str() else { return false };
    let name = host
        .rsplit_once(':')
        .map_or(host, |(name, port)| if port.ends_with(']') { host } else { name });
    name.eq_ignore_ascii_case("localhost")
        || host.parse::<SocketAddr>().is_ok()
        || name
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse::<std::net::IpAddr>()
            .is_ok()
}

async fn metrics(State(console): State<Console>) -> impl IntoResponse {
    ([(CONTENT_TYPE, METRICS)], console.meters.page())
}

/// Ready as long as some pool can serve and the gateway is not on its way out; the body names the pools that cannot.
async fn ready(State(console): State<Console>) -> (StatusCode, Json<serde_json::Value>) {
    let runtime = &console.runtime;
    let not_ready: Vec<_> = runtime.pools_not_ready().iter().map(ToString::to_string).collect();
    let pools = runtime.snapshot().settings().pools.len();
    let is_ready = !runtime.is_draining() && not_ready.len() < pools;
    let status = if is_ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let body = json!({ "ready": is_ready, "draining": runtime.is_draining(), "pools_not_ready": not_ready });
    (status, Json(body))
}

async fn endpoints(State(console): State<Console>) -> impl IntoResponse {
    Json(json!({ "endpoints": console.runtime.samples() }))
}

/// How many decision records there are, and of which calls.
async fn decisions(State(console): State<Console>) -> impl IntoResponse {
    Json(console.runtime.decisions().list())
}

/// Why a call went where it went.
async fn decision(State(console): State<Console>, Path(id): Path<String>) -> Response {
    match console.runtime.decisions().find(&id) {
        Some(decision) => Json(decision.to_record()).into_response(),
        None => {
            let why = problem(
                "no decision record of such a call; it may still be running, have asked no pool, or be pushed out by newer ones: see \
                 `decisions` in the configuration",
            );
            (StatusCode::NOT_FOUND, why).into_response()
        }
    }
}

async fn drain(
    State(console): State<Console>,
    Path((pool, address)): Path<(String, String)>,
) -> (StatusCode, Json<serde_json::Value>) {
    if console.runtime.drain_endpoint(&pool, &address) {
        (StatusCode::ACCEPTED, Json(json!({ "draining": address })))
    } else {
        (
            StatusCode::NOT_FOUND,
            problem("no such endpoint in that pool; GET /endpoints lists them"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_served() {
        let check = |host: &'static str, served: bool| {
            let headers = HeaderMap::from_iter([(HOST, axum::http::HeaderValue::from_static(host))]);
            assert_eq!(names_this_machine(&headers), served, "{host}");
        };
        check("127.0.0.1:9091", true);
        check("127.0.0.1", true);
        check("localhost:9091", true);
        check("LOCALHOST", true);
        check("[::1]:9091", true);
        check("[::1]", true);
        check("evil.example:9091", false);
        check("localhost.evil.example", false);
        assert!(names_this_machine(&HeaderMap::new()));
    }
}
