//! The admin path: faults and commands while the endpoint runs. Loopback only, without a key.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use serde_json::json;
use tokio::sync::mpsc;

use super::body::read_capped;
use super::core::Core;
use super::faults::{FaultPatch, Faults};
use super::restart::Restart;
use super::server::{Answering, Never};

/// What an endpoint can be told to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// End as if killed.
    Crash,
    /// The scheduler dies under the face.
    Die,
    /// What SIGTERM does.
    Terminate,
    /// End, and begin again at the same address.
    Restart(Restart),
    /// Look at the faults again.
    Regate,
}

/// Batches of KV events that are lost when that is asked for.
const LOST: u32 = 2;

/// The admin path.
#[derive(Clone, Debug)]
pub(super) struct Admin {
    /// The engine.
    pub(super) core: Arc<Core>,
    /// Where commands go.
    pub(super) commands: mpsc::Sender<Command>,
}

impl Answering for Admin {
    type Body = Full<Bytes>;
    type Cut = Never;

    async fn answer(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Never> {
        Ok(self.respond(request).await)
    }
}

impl Admin {
    async fn respond(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (method, path) = (request.method().as_str().to_owned(), request.uri().path().to_owned());
        let command = match (method.as_str(), path.as_str()) {
            ("GET", "/sim/state") => return reply(StatusCode::OK, &self.state()),
            ("DELETE", "/sim/faults") => return self.changed(self.core.set_faults(|_| Faults::default())).await,
            ("POST", "/sim/faults") => {
                let Ok(body) = read_capped(request.into_body()).await else {
                    return reply(StatusCode::BAD_REQUEST, &json!({"error": "no body"}));
                };
                return match FaultPatch::from_json(&body) {
                    Ok(patch) => self.changed(self.core.patch_faults(&patch)).await,
                    Err(error) => reply(StatusCode::BAD_REQUEST, &json!({ "error": error.to_string() })),
                };
            }
            ("POST", "/sim/lose-kv-events") => {
                self.core.lose_kv_events(LOST);
                return reply(StatusCode::ACCEPTED, &json!({ "lost": LOST }));
            }
            ("POST", "/sim/restart") => {
                let Ok(body) = read_capped(request.into_body()).await else {
                    return reply(StatusCode::BAD_REQUEST, &json!({"error": "no body"}));
                };
                match Restart::from_json(&body) {
                    Ok(restart) => Command::Restart(restart),
                    Err(error) => return reply(StatusCode::BAD_REQUEST, &json!({ "error": error.to_string() })),
                }
            }
            ("POST", "/sim/crash") => Command::Crash,
            ("POST", "/sim/die") => Command::Die,
            ("POST", "/sim/terminate") => Command::Terminate,
            _ => {
                let paths = "GET /sim/state, POST or DELETE /sim/faults, POST /sim/crash, /sim/die, /sim/terminate, /sim/restart, /sim/lose-kv-events";
                return reply(StatusCode::NOT_FOUND, &json!({ "error": format!("there are {paths}") }));
            }
        };
        drop(self.commands.send(command).await);
        reply(StatusCode::ACCEPTED, &json!({"accepted": path}))
    }

    async fn changed(&self, faults: Faults) -> Response<Full<Bytes>> {
        drop(self.commands.send(Command::Regate).await);
        reply(StatusCode::OK, &json!(faults))
    }

    fn state(&self) -> serde_json::Value {
        self.core.with(|state| {
            let (gauges, counters) = (state.model.gauges(), state.model.stats().counters);
            json!({
                "life": state.life.label(),
                "requests": state.model.requests(),
                "running": gauges.running,
                "waiting": gauges.waiting,
                "kv_used": gauges.kv_used,
                "kv_usable": gauges.kv_usable,
                "preemptions": counters.preemptions,
                "prompt_tokens": counters.prompt_tokens,
                "cached_tokens": counters.cached_tokens,
                "generation_tokens": counters.generation_tokens,
                "stopped": counters.stopped,
                "cut": counters.cut,
                "aborted": counters.aborted,
                "faults": state.faults,
            })
        })
    }
}

fn reply(status: StatusCode, body: &serde_json::Value) -> Response<Full<Bytes>> {
    let mut reply = Response::new(Full::new(Bytes::from(body.to_string())));
    *reply.status_mut() = status;
    reply
}
