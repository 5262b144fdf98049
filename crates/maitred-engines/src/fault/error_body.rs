//! Reads whatever an engine, or a proxy before it, sends as the body of an error.

use serde_json::Value;

use super::scrub::{bounded, scrub};
use crate::Engine;

/// Most bytes that are kept of an engine's message.
pub const MAX_EXCERPT: usize = 512;
/// Most bytes that are kept of a type, parameter or code.
const MAX_WORD: usize = 64;
/// Most bytes of a body that are looked at.
const MAX_BODY: usize = 64 << 10;

/// Codes and types by which hosted APIs, and maitred itself, say that the caller has had what it may have: OpenAI's, Anthropic's,
/// Google's.
const QUOTA_WORDS: [&str; 6] = [
    "insufficient_quota",
    "rate_limit_exceeded",
    "rate_limit_error",
    "quota_exceeded",
    "billing_hard_limit_reached",
    "RESOURCE_EXHAUSTED",
];

/// The form that an error body came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorForm {
    /// `{"error":{"message":…,"type":…,"param":…,"code":…}}`: OpenAI's, vLLM's, llama.cpp's.
    OpenAi,
    /// `{"type":"error","error":{"type":…,"message":…}}`: Anthropic's.
    Anthropic,
    /// `{"object":"error","message":…}` or merely `{"message":…}`: SGLang's, trtllm-serve's, Dynamo's.
    Flat,
    /// `{"error":"text"}`: vLLM's middleware, Triton.
    Text,
    /// `{"detail":…}`: the FastAPI framework, when no handler of the engine was reached.
    Framework,
    /// HTML, as proxies send it.
    Html,
    /// Plain text, or JSON of no known form.
    Plain,
    /// Nothing.
    Empty,
}

/// What an error body says: scrubbed of secrets and stack traces, and bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamErrorBody {
    /// The form it came in.
    pub form: ErrorForm,
    /// The message, at most [`MAX_EXCERPT`] bytes; empty if there is none.
    pub message: String,
    /// The error's type, such as `BadRequestError`.
    pub kind: Option<String>,
    /// The parameter at fault.
    pub param: Option<String>,
    /// The code; numbers as text.
    pub code: Option<String>,
}

impl UpstreamErrorBody {
    /// Reads a body of any form. Never fails: what is not understood becomes an excerpt.
    #[must_use]
    pub fn read(body: &[u8]) -> Self {
        let body = body.get(..MAX_BODY).unwrap_or(body).trim_ascii();
        match serde_json::from_slice::<Value>(body) {
            Ok(json) => Self::from_json(&json).unwrap_or_else(|| Self::plain(ErrorForm::Plain, &json.to_string())),
            Err(_) => Self::from_text(&String::from_utf8_lossy(body)),
        }
    }

    /// Whether this says that the endpoint has too much to do, rather than that something is broken: by its code, or, where
    /// the code leaves it open, by the engine's own words. The words of a proxy do not count.
    #[must_use]
    pub fn is_overload(&self, engine: Engine) -> bool {
        let says = |text: &str| {
            let text = text.to_ascii_lowercase();
            engine.facts().overload_texts.iter().any(|known| text.contains(known))
        };
        let framed = !matches!(self.form, ErrorForm::Html | ErrorForm::Plain | ErrorForm::Empty);
        match self.code.as_deref() {
            Some("429") => true,
            None | Some("503") => framed && (says(&self.message) || self.kind.as_deref().is_some_and(says)),
            Some(_) => false,
        }
    }

    /// Whether this, which came with a 429, says that what the gateway may use there is spent, rather than that there is too much
    /// to do: by its code where that is a word, else by its type. A 429 that says nothing is taken for too much to do.
    #[must_use]
    pub(super) fn is_quota_spent(&self) -> bool {
        let is_word = |text: &&str| !text.bytes().all(|byte| byte.is_ascii_digit());
        let word = self.code.as_deref().filter(is_word).or(self.kind.as_deref());
        word.is_some_and(|word| QUOTA_WORDS.iter().any(|known| word.eq_ignore_ascii_case(known)))
    }

    /// Whether this says that the call is longer than the model's context window.
    #[must_use]
    pub(super) fn is_too_long(&self, engine: Engine) -> bool {
        self.code.as_deref() == Some("context_length_exceeded")
            || engine.facts().too_long.iter().any(|text| text.is_said(&self.message))
    }

    /// Whether this, which came with `status`, says that the endpoint does not serve `asked`, the model or adapter that the
    /// gateway asked for. Nothing that a caller sends and the engine repeats makes it say so.
    #[must_use]
    pub(super) fn is_model_gone(&self, engine: Engine, status: u16, asked: &str) -> bool {
        if matches!(self.form, ErrorForm::Html | ErrorForm::Plain | ErrorForm::Empty) {
            return false;
        }
        let rows = engine.facts().model_gone;
        (status == 404 && self.code.as_deref() == Some("model_not_found"))
            || rows.iter().any(|row| row.is_said(status, &self.message, asked))
    }

    fn from_json(json: &Value) -> Option<Self> {
        let object = json.as_object()?;
        match object.get("error") {
            Some(inner @ Value::Object(_)) => {
                let anthropic = object.get("type").and_then(Value::as_str) == Some("error");
                let form = if anthropic {
                    ErrorForm::Anthropic
                } else {
                    ErrorForm::OpenAi
                };
                return Some(Self::fields(form, inner));
            }
            Some(Value::String(text)) => return Some(Self::plain(ErrorForm::Text, text)),
            _ => {}
        }
        if object.get("message").is_some_and(Value::is_string) {
            return Some(Self::fields(ErrorForm::Flat, json));
        }
        object.get("detail").map(Self::from_detail)
    }

    fn fields(form: ErrorForm, object: &Value) -> Self {
        let word = |key: &str| match object.get(key)? {
            Value::String(text) if !text.is_empty() => Some(scrub(text, MAX_WORD)),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        let message = object.get("message").and_then(Value::as_str).unwrap_or_default();
        Self {
            kind: word("type"),
            param: word("param"),
            code: word("code"),
            ..Self::plain(form, message)
        }
    }

    /// FastAPI gives a text, or a list of what failed to validate.
    fn from_detail(detail: &Value) -> Self {
        let first = detail.as_array().and_then(|list| list.first());
        let message = match (detail, first) {
            (Value::String(text), _) => text.as_str(),
            (_, Some(first)) => first.get("msg").and_then(Value::as_str).unwrap_or_default(),
            _ => "",
        };
        let place = first.and_then(|first| first.get("loc")).and_then(Value::as_array);
        let param = place.map(|place| {
            let parts: Vec<_> = place
                .iter()
                .map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned))
                .collect();
            bounded(&parts.join("."), MAX_WORD).to_owned()
        });
        Self {
            param,
            ..Self::plain(ErrorForm::Framework, message)
        }
    }

    fn from_text(text: &str) -> Self {
        if text.is_empty() {
            return Self::plain(ErrorForm::Empty, "");
        }
        if !text.starts_with('<') {
            return Self::plain(ErrorForm::Plain, text);
        }
        let between = |open: &str, close: &str| Some(text.split_once(open)?.1.split_once(close)?.0);
        let title = between("<title>", "</title>").or_else(|| between("<h1>", "</h1>"));
        Self::plain(ErrorForm::Html, title.unwrap_or("HTML"))
    }

    fn plain(form: ErrorForm, message: &str) -> Self {
        Self {
            form,
            message: scrub(message, MAX_EXCERPT),
            kind: None,
            param: None,
            code: None,
        }
    }
}

#[cfg(test)]
mod tests;
