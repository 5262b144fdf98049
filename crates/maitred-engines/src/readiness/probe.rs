//! The requests of the readiness steps, and how their answers are judged.

use serde_json::Value;

use super::{ReadinessStep, WhyNot};
use crate::Engine;
use crate::fault::UpstreamErrorBody;

/// Which path the test inference takes; a pool of embedding models generates no tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InferencePath {
    /// `/v1/completions`, which needs no chat template.
    #[default]
    Completions,
    /// `/v1/chat/completions`.
    Chat,
    /// `/v1/embeddings`.
    Embeddings,
}

/// An HTTP method of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `GET`.
    Get,
    /// `POST`, with `content-type: application/json`.
    Post,
}

/// A request to send to an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The method.
    pub method: Method,
    /// The path.
    pub path: &'static str,
    /// The JSON body; empty for `GET`.
    pub body: String,
}

impl Probe {
    /// The request of `step`.
    #[must_use]
    pub fn new(engine: Engine, step: ReadinessStep, model: &str, inference: InferencePath) -> Self {
        let get = |path| Self {
            method: Method::Get,
            path,
            body: String::new(),
        };
        match step {
            ReadinessStep::Health => get(engine.health_path()),
            ReadinessStep::ListModels => get("/v1/models"),
            ReadinessStep::KvPool => get(engine.metrics_path()),
            ReadinessStep::Infer => Self {
                method: Method::Post,
                path: inference.path(),
                body: inference.body(model),
            },
        }
    }
}

impl InferencePath {
    /// The path itself.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Completions => "/v1/completions",
            Self::Chat => "/v1/chat/completions",
            Self::Embeddings => "/v1/embeddings",
        }
    }

    /// The smallest request that makes the engine run its model once.
    #[must_use]
    pub fn body(self, model: &str) -> String {
        let model = Value::from(model);
        match self {
            Self::Completions => format!(r#"{{"model":{model},"prompt":"Hi","max_tokens":1,"temperature":0}}"#),
            Self::Chat => format!(
                r#"{{"model":{model},"messages":[{{"role":"user","content":"Hi"}}],"max_tokens":1,"temperature":0}}"#
            ),
            Self::Embeddings => format!(r#"{{"model":{model},"input":"Hi"}}"#),
        }
    }
}

/// A model that an endpoint lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The base model, if this is an adapter.
    pub parent: Option<String>,
    /// The longest prompt and answer together, in tokens, if the engine says so.
    pub max_model_len: Option<u32>,
}

/// Looks for `model` in the answer to `GET /v1/models`.
///
/// # Errors
/// [`WhyNot::NotListed`] when it is not there, [`WhyNot::Malformed`] when the body is no model list.
pub fn judge_models(body: &[u8], model: &str) -> Result<Listed, WhyNot> {
    let list: Value = serde_json::from_slice(body).map_err(|_| WhyNot::Malformed)?;
    let models = list.get("data").and_then(Value::as_array).ok_or(WhyNot::Malformed)?;
    let found = models
        .iter()
        .find(|entry| entry.get("id").and_then(Value::as_str) == Some(model));
    let found = found.ok_or(WhyNot::NotListed)?;
    Ok(Listed {
        parent: found.get("parent").and_then(Value::as_str).map(str::to_owned),
        max_model_len: found
            .get("max_model_len")
            .and_then(Value::as_u64)
            .and_then(|length| u32::try_from(length).ok()),
    })
}

/// Judges the answer to the test inference: it must hold a choice, or an embedding, and no error.
///
/// # Errors
/// Says what it holds instead.
pub fn judge_inference(status: u16, body: &[u8]) -> Result<(), WhyNot> {
    if status != 200 {
        let message = UpstreamErrorBody::read(body).message;
        return Err(if message.is_empty() {
            WhyNot::Status(status)
        } else {
            WhyNot::Refused(message)
        });
    }
    let answer: Value = serde_json::from_slice(body).map_err(|_| WhyNot::Malformed)?;
    if answer.get("error").is_some_and(|error| !error.is_null()) {
        return Err(WhyNot::Refused(UpstreamErrorBody::read(body).message));
    }
    let has = |key| {
        answer
            .get(key)
            .and_then(Value::as_array)
            .is_some_and(|list| !list.is_empty())
    };
    if !has("choices") && !has("data") {
        return Err(WhyNot::NoOutput);
    }
    let aborted = |choice: &Value| choice.get("finish_reason").and_then(Value::as_str) == Some("abort");
    match answer.get("choices").and_then(Value::as_array) {
        Some(choices) if choices.iter().any(aborted) => Err(WhyNot::NoOutput),
        _ => Ok(()),
    }
}
