//! What the head of a response means, and what its body adds when it is a refusal.

use std::time::Duration;

use super::error_body::{ErrorForm, UpstreamErrorBody};
use crate::Engine;

/// Longest `Retry-After` that is believed, in seconds; a longer one is cut.
const MAX_RETRY_AFTER: u64 = 3600;

/// The parts of a response head that matter here.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResponseHead<'a> {
    /// The HTTP status.
    pub status: u16,
    /// `content-type`, as sent.
    pub content_type: Option<&'a str>,
    /// `retry-after`, as sent.
    pub retry_after: Option<&'a str>,
}

/// What to think of an endpoint's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadVerdict {
    /// 2xx: relay it, once its body or first event proves good.
    Relay,
    /// The call is at fault, and every endpoint would say so: relay it.
    ClientError,
    /// 404: the body says whether path or model is meant. Only [`judge_head`] says this; read the body and ask
    /// [`judge_refusal`].
    NotFound,
    /// The path does not exist on this engine: relay it.
    UnknownPath,
    /// 3xx other than 304: it points elsewhere, and the gateway goes only where it is configured to go. Callers can bring it about
    /// by the path they ask for, so the endpoint is not to blame; what it points at is not shown.
    Redirect,
    /// The endpoint does not serve the model or adapter, though the pool lists it: another one may.
    ModelGone,
    /// The call is longer than the model's context window: every endpoint of the model would say so. Relay it, unless another
    /// model is there for such calls.
    TooLong,
    /// What the gateway may use at the endpoint is spent: another one may have something left.
    QuotaSpent {
        /// When it would like to be asked again.
        retry_after: Option<Duration>,
    },
    /// The endpoint has too much to do: another one may have less.
    Overload {
        /// When it would like to be asked again.
        retry_after: Option<Duration>,
    },
    /// The endpoint is broken, or what stands before it: another one may work.
    ServerError,
    /// The endpoint refused the gateway's own credential: no fault of the caller's, and no other endpoint helps unless it
    /// has another credential.
    RefusedCredential,
}

impl HeadVerdict {
    /// The word for logs and metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Relay => "relay",
            Self::ClientError => "client_error",
            Self::NotFound => "not_found",
            Self::UnknownPath => "unknown_path",
            Self::Redirect => "redirect",
            Self::ModelGone => "model_gone",
            Self::TooLong => "too_long",
            Self::QuotaSpent { .. } => "quota_spent",
            Self::Overload { .. } => "overload",
            Self::ServerError => "server_error",
            Self::RefusedCredential => "refused_credential",
        }
    }
}

impl ResponseHead<'_> {
    /// Whether the body is a stream of server-sent events.
    #[must_use]
    pub fn is_event_stream(&self) -> bool {
        self.media_type()
            .is_some_and(|media| media.eq_ignore_ascii_case("text/event-stream"))
    }

    /// Whether the body is JSON.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.media_type().is_some_and(|media| {
            let media = media.to_ascii_lowercase();
            media == "application/json" || media.ends_with("+json")
        })
    }

    fn media_type(&self) -> Option<&str> {
        Some(self.content_type?.split(';').next()?.trim())
    }

    /// `retry-after` in seconds. The form with a date is not read: it needs a clock, and no engine sends it.
    fn retry_after(&self) -> Option<Duration> {
        let seconds: u64 = self.retry_after?.trim().parse().ok()?;
        Some(Duration::from_secs(seconds.min(MAX_RETRY_AFTER)))
    }
}

/// Judges a response by its head alone.
#[must_use]
pub fn judge_head(head: &ResponseHead<'_>) -> HeadVerdict {
    let retry_after = head.retry_after();
    match head.status {
        200..=299 => HeadVerdict::Relay,
        401 | 403 => HeadVerdict::RefusedCredential,
        404 => HeadVerdict::NotFound,
        // The caller's own condition holds: it has the thing already.
        304 => HeadVerdict::ClientError,
        300..=399 => HeadVerdict::Redirect,
        // 529 is Anthropic's own "overloaded".
        429 | 529 => HeadVerdict::Overload { retry_after },
        503 if head.retry_after.is_some() => HeadVerdict::Overload { retry_after },
        // The endpoint gave up waiting for the request: no fault of its content.
        408 => HeadVerdict::ServerError,
        // Not implemented: every endpoint of this engine would say the same.
        501 => HeadVerdict::ClientError,
        400..=499 => HeadVerdict::ClientError,
        _ => HeadVerdict::ServerError,
    }
}

/// Judges a response that is not 2xx by head and body; `asked` is the model's name as it stood in the call to the endpoint. Never
/// says [`HeadVerdict::NotFound`].
#[must_use]
pub fn judge_refusal(engine: Engine, head: &ResponseHead<'_>, body: &UpstreamErrorBody, asked: &str) -> HeadVerdict {
    match judge_head(head) {
        HeadVerdict::NotFound | HeadVerdict::ClientError if body.is_model_gone(engine, head.status, asked) => {
            HeadVerdict::ModelGone
        }
        HeadVerdict::ClientError if matches!(head.status, 400 | 413 | 422) && body.is_too_long(engine) => {
            HeadVerdict::TooLong
        }
        HeadVerdict::Overload { retry_after } if head.status == 429 && body.is_quota_spent() => {
            HeadVerdict::QuotaSpent { retry_after }
        }
        // Payment required. Engines do not say it, so of one it would be the caller's own.
        HeadVerdict::ClientError if head.status == 402 && engine == Engine::Hosted => {
            HeadVerdict::QuotaSpent { retry_after: None }
        }
        HeadVerdict::NotFound => match body.form {
            ErrorForm::Framework | ErrorForm::Html | ErrorForm::Plain | ErrorForm::Empty => HeadVerdict::UnknownPath,
            // The engine knows the path and misses something else, such as a stored response.
            ErrorForm::OpenAi | ErrorForm::Anthropic | ErrorForm::Flat | ErrorForm::Text => HeadVerdict::ClientError,
        },
        HeadVerdict::ServerError if head.status == 503 && body.is_overload(engine) => {
            HeadVerdict::Overload { retry_after: None }
        }
        verdict => verdict,
    }
}

#[cfg(test)]
mod tests;
