//! Calls as a client makes them, and how they end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use maitred_runtime::{Clock, Tasks};
use maitred_types::Time;
use serde_json::{Value, json};

use crate::admin::{Peer, UNSENDABLE};

/// Where chat calls go.
const CHAT: &str = "/v1/chat/completions";
/// What prompts are made longer with.
const FILLER: &str = "Please. ";
/// Largest answer that is read, in bytes.
const ANSWER_MAX: usize = 16 << 20;
/// How long a call may take.
const PATIENCE: Duration = Duration::from_secs(90);

/// Somebody who calls.
#[derive(Clone)]
pub(super) struct Caller {
    /// Where, and with which key.
    pub(super) peer: Peer,
    /// The model that is asked for.
    pub(super) model: String,
    /// The header that names a call's task.
    pub(super) task_header: String,
    /// What the ids of its calls begin with.
    pub(super) prefix: String,
    /// A header that it sends besides.
    pub(super) header: Option<(&'static str, &'static str)>,
    /// Bytes that its prompts have besides.
    pub(super) filler: usize,
    /// Whether endpoints are told to generate as many tokens as they may. Real ones need not know how.
    pub(super) is_exact: bool,
    pub(super) clock: Clock,
    /// The connections.
    pub(super) tasks: Tasks,
    /// The number of its next call.
    pub(super) next: Arc<AtomicU64>,
}

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    /// As a stream.
    pub(super) stream: bool,
    /// Most tokens of the answer.
    pub(super) tokens: u32,
}

/// How an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It is complete.
    Complete,
    /// It is an error with this code.
    Refused(String),
    /// It began, and an error with this code came in place of its end.
    Broken(String),
    /// It began, and stopped without a word.
    Cut,
    /// There was none.
    Lost(String),
}

/// What a client got.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    /// The call's id.
    pub(super) id: String,
    /// The status; nothing if there was no answer.
    pub(super) status: Option<StatusCode>,
    pub(super) headers: HeaderMap,
    /// The whole body.
    pub(super) body: String,
    pub(super) ending: Ending,
    /// How long it took.
    pub(super) took: Duration,
}

impl Answered {
    /// Whether the client got what it asked for.
    pub(super) fn is_complete(&self) -> bool {
        self.ending == Ending::Complete
    }

    /// Whether some of the answer's text has come in a stream.
    pub(super) fn has_output(&self) -> bool {
        events(&self.body).any(|event| has_output(&event))
    }

    /// Whether the status is one that blames the server.
    pub(super) fn is_5xx(&self) -> bool {
        self.status.is_some_and(|status| status.is_server_error())
    }

    /// A header, if it is there and is text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// `Retry-After`, in seconds.
    pub(super) fn retry_after(&self) -> Option<u64> {
        self.header("retry-after")?.parse().ok()
    }

    /// The answer, if it came as one object.
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// Prompt and output tokens, as the answer says.
    pub(super) fn usage(&self) -> Option<(u64, u64)> {
        let objects = std::iter::once(self.json()).chain(events(&self.body));
        let told = objects.filter_map(|object| {
            let usage = &object["usage"];
            Some((usage["prompt_tokens"].as_u64()?, usage["completion_tokens"].as_u64()?))
        });
        told.last()
    }

    /// The models that it names, each once: in the answer, or in the events of a stream.
    pub(super) fn models(&self) -> Vec<String> {
        let objects = std::iter::once(self.json()).chain(events(&self.body));
        let mut models: Vec<_> = objects
            .filter_map(|object| object["model"].as_str().map(str::to_owned))
            .collect();
        models.dedup();
        models
    }

    /// How it ended, in a few words.
    pub(super) fn words(&self) -> String {
        let status = self
            .status
            .map_or_else(String::new, |status| format!("{} ", status.as_u16()));
        let ending = match &self.ending {
            Ending::Complete => "complete",
            Ending::Refused(code) => code,
            Ending::Broken(code) => return format!("{status}broken by {code}"),
            Ending::Cut => "cut off",
            Ending::Lost(why) => return why.clone(),
        };
        format!("{status}{ending}")
    }
}

/// The objects in the events of a stream, as far as they have come whole.
fn events(body: &str) -> impl Iterator<Item = Value> + '_ {
    let data = body.split("\n\n").flat_map(str::lines);
    let data = data.filter_map(|line| line.strip_prefix("data:"));
    data.filter_map(|data| serde_json::from_str(data.trim()).ok())
}

/// Whether there is output in an event.
fn has_output(event: &Value) -> bool {
    event["choices"][0]["delta"]["content"]
        .as_str()
        .is_some_and(|text| !text.is_empty())
}

/// How a body that has come to its end ended.
fn ending(status: StatusCode, body: &str, broke_off: bool) -> Ending {
    let code = |object: &Value| {
        let error = &object["error"];
        let code = error["code"].as_str().or(error["type"].as_str());
        (!error.is_null()).then(|| code.unwrap_or("an error without a code").to_owned())
    };
    if !status.is_success() {
        let code = serde_json::from_str(body).ok().as_ref().and_then(code);
        return Ending::Refused(code.unwrap_or_else(|| "no error object".to_owned()));
    }
    if let Some(code) = events(body).find_map(|event| code(&event)) {
        return Ending::Broken(code);
    }
    let is_whole = serde_json::from_str::<Value>(body).is_ok_and(|object| object["choices"].is_array());
    let is_done = body.trim_end().ends_with("data: [DONE]");
    if (is_whole || is_done) && !broke_off {
        Ending::Complete
    } else {
        Ending::Cut
    }
}

impl Caller {
    /// Makes a call and waits for its end.
    pub(super) async fn ask(&self, ask: Ask) -> Answered {
        let id = self.id();
        let begun = self.clock.now();
        let asked = async { Ok::<_, anyhow::Error>(self.open(&id, ask).await?.rest().await) };
        let lost = match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok(answered)) => return answered,
            Ok(Err(error)) => format!("{error:#}"),
            Err(_elapsed) => format!("no end within {} s", PATIENCE.as_secs()),
        };
        Answered {
            id,
            status: None,
            headers: HeaderMap::new(),
            body: String::new(),
            ending: Ending::Lost(lost),
            took: self.clock.now().since(begun),
        }
    }

    /// Begins a stream of so many tokens, and waits for the first of them.
    pub(super) async fn begin(&self, tokens: u32) -> anyhow::Result<Open> {
        let mut open = self.open(&self.id(), Ask { stream: true, tokens }).await?;
        loop {
            if events(&open.text()).any(|event| has_output(&event)) {
                return Ok(open);
            }
            if !tokio::time::timeout(PATIENCE, open.more()).await.unwrap_or(false) {
                let answered = open.rest().await;
                bail!("a stream got no output: {}", answered.words());
            }
        }
    }

    fn id(&self) -> String {
        format!("{}-{}", self.prefix, self.next.fetch_add(1, Ordering::Relaxed))
    }

    async fn open(&self, id: &str, ask: Ask) -> anyhow::Result<Open> {
        let begun = self.clock.now();
        let filler = FILLER.repeat(self.filler / FILLER.len());
        let mut body = json!({
            "model": self.model,
            "max_tokens": ask.tokens,
            "messages": [{ "role": "user", "content": format!("This is call {id} of a drill. {filler}Say something.") }],
        });
        if ask.stream {
            body["stream"] = true.into();
            body["stream_options"] = json!({ "include_usage": true });
        }
        if self.is_exact {
            body["ignore_eos"] = true.into();
        }
        let mut request = self.peer.request(Method::POST, CHAT)?;
        if let Some((name, value)) = self.header {
            request = request.header(name, value);
        }
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .header("x-request-id", id)
            .header("x-maitred-endpoint", "?")
            .header(self.task_header.as_str(), id)
            .body(Full::new(Bytes::from(body.to_string())))
            .context(UNSENDABLE)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(self.peer.connect().await?)).await?;
        self.tasks.spawn_until_stop(async {
            // How the connection ends is seen in the answer.
            drop(connection.await);
        });
        let (head, body) = sender.send_request(request).await?.into_parts();
        Ok(Open {
            id: id.to_owned(),
            begun,
            clock: self.clock,
            status: head.status,
            headers: head.headers,
            body,
            read: Vec::new(),
            broke_off: false,
            _sender: sender,
        })
    }
}

/// An answer that has begun.
pub(super) struct Open {
    id: String,
    begun: Time,
    clock: Clock,
    status: StatusCode,
    headers: HeaderMap,
    body: Incoming,
    read: Vec<u8>,
    broke_off: bool,
    /// The connection ends with it.
    _sender: http1::SendRequest<Full<Bytes>>,
}

impl Open {
    /// The endpoint that gives it, as the gateway says.
    pub(super) fn endpoint(&self) -> Option<&str> {
        self.headers.get("x-maitred-endpoint")?.to_str().ok()
    }

    fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.read)
    }

    /// Reads a piece. Says whether there was one.
    async fn more(&mut self) -> bool {
        match self.body.frame().await {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    self.read.extend_from_slice(&data);
                }
                self.broke_off = self.read.len() > ANSWER_MAX;
                !self.broke_off
            }
            Some(Err(_)) => {
                self.broke_off = true;
                false
            }
            None => false,
        }
    }

    /// Reads on to the end.
    pub(super) async fn rest(mut self) -> Answered {
        while self.more().await {}
        let body = self.text().into_owned();
        Answered {
            ending: ending(self.status, &body, self.broke_off),
            id: self.id,
            status: Some(self.status),
            headers: self.headers,
            body,
            took: self.clock.now().since(self.begun),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_from_its_bytes() {
        let check = |status: u16, body: &str, broke_off, expected| {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(ending(status, body, broke_off), expected, "{body}");
        };
        let whole = r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#;
        let error = r#"{"error":{"code":"no_endpoint","type":"server_error"}}"#;
        check(200, whole, false, Ending::Complete);
        check(200, whole, true, Ending::Cut);
        check(
            200,
            "data: {\"choices\":[]}\n\ndata: [DONE]\n\n",
            false,
            Ending::Complete,
        );
        check(200, "data: {\"choices\":[]}\n\n", false, Ending::Cut);
        check(
            200,
            &format!("data: {error}\n\n"),
            true,
            Ending::Broken("no_endpoint".into()),
        );
        check(503, error, false, Ending::Refused("no_endpoint".into()));
        check(502, "<html>", false, Ending::Refused("no error object".into()));
    }
}
