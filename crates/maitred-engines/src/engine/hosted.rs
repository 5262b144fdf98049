//! A hosted API that speaks OpenAI's dialect. Not run here; from the published error pages of OpenAI, Azure, Groq, Mistral, DeepSeek,
//! OpenRouter and Together.
//!
//! - There is no metrics page, no health probe, and no inference is spent on finding out whether it works.
//! - 429 means two things. A rate limit passes by itself, says `code: rate_limit_exceeded` and when to come back. A spent quota does not
//!   pass until somebody pays, and says `code: insufficient_quota`; others say 402 for it.
//! - A prompt that is too long is 400 with `code: context_length_exceeded`.
//! - 403 is also said to callers from countries that are not served: the operator must look at it as at a key that is refused.
//! - 503 and 529 mean that there is too much to do.

use super::facts::{EngineFacts, HealthRow, LengthText, MetricRows, WrongModel, gone};

pub(crate) const FACTS: EngineFacts = EngineFacts {
    name: "hosted",
    about: "A hosted API that speaks OpenAI's dialect.",
    metrics: MetricRows {
        queued: &[],
        running: &[],
        kv_used: &[],
        block_size: &[],
        blocks: &[],
        lora: None,
        progress: &[],
        started: &[],
    },
    metrics_path: "",
    metrics_port: None,
    health: HealthRow {
        path: "",
        unavailable: &[],
    },
    readiness: &[],
    wrong_model: WrongModel::Refused,
    overload_texts: &["overload", "too many requests", "capacity", "rate limit"],
    too_long: &[
        LengthText {
            before: "This model's maximum context length is ",
            after: " tokens",
        },
        LengthText {
            before: "prompt is too long: ",
            after: " tokens > ",
        },
    ],
    model_gone: &[
        gone(404, "The model `", "` does not exist"),
        gone(404, "The model '", "' does not exist"),
        gone(404, "The model `", "` has been deprecated"),
    ],
};
