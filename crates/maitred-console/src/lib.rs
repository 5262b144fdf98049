//! The administrative listener: metrics, health, drain, what the endpoints look like and why calls went where they went.
//!
//! It has a socket of its own, apart from the one that clients use. What it serves is the one table [`ROUTES`], in which each
//! line says which role it needs; who is asking is found out before any page is run, and whatever is not in the table is for
//! nobody.

mod changes;
mod door;
mod gate;
mod keys;
mod pages;
mod routes;
pub mod usage;

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Request};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Json, Response};
use axum::{Router, serve as serve_connections};
use maitred_obs::Meters;
use maitred_runtime::Runtime;
use serde_json::json;

pub use door::Door;
pub use routes::{Need, ROUTES, Route};

use door::Peer;

/// Largest body of a request, in bytes.
const BODY_MAX: usize = 64 << 10;
/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(30);

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
pub async fn serve(door: Door, console: Console, stop: impl Future<Output = ()> + Send + 'static) -> io::Result<()> {
    let service = router(console).into_make_service_with_connect_info::<Peer>();
    serve_connections(door, service).with_graceful_shutdown(stop).await
}

fn router(console: Console) -> Router {
    let pages = ROUTES
        .iter()
        .fold(Router::new(), |router, route| router.route(route.path, (route.page)()));
    pages
        .fallback(|| async {
            let why = problem("there is no such page; see docs/administration.md");
            (StatusCode::NOT_FOUND, why)
        })
        .layer(middleware::from_fn_with_state(console.clone(), gate::admit))
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(middleware::from_fn(in_time))
        .with_state(console)
}

async fn in_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(PATIENCE, next.run(request)).await {
        Ok(response) => response,
        Err(_elapsed) => (StatusCode::REQUEST_TIMEOUT, problem("this took too long")).into_response(),
    }
}

/// The body of an answer that is an error.
pub(crate) fn problem(message: &str) -> Json<serde_json::Value> {
    Json(json!({ "error": message }))
}
