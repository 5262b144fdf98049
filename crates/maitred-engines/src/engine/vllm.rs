//! vLLM. Seen: 0.32.0 (V1 engine, CPU build), unless a line says otherwise.
//!
//! - Start: the port opens only when the model is loaded and `/health` says 200; there is no phase of listening without
//!   serving. A proxy before it may show one all the same, so readiness is checked in full.
//! - `/health` says 503 only when the engine process has died under the server, which then ends itself; the first probe
//!   after the death may still say 200.
//! - Engine killed: a running stream ends with an error object as an event of the 200 stream, then `[DONE]`, cleanly
//!   framed. New calls get a 500 with the same words, then the port closes.
//! - SIGTERM: running streams end at once with `finish_reason` "abort" on a chunk that still carries text, then `[DONE]`.
//!   The port is closed within a second. In its messages dialect the reason "abort" has no counterpart, and the final
//!   `message_delta` says `stop_reason` null.
//! - Admission limits (`--max-num-queued-reqs`, `--max-num-queued-tokens`) refuse with 503.
//! - Several data-parallel ranks behind one server share a page, told apart by the label `engine`. Each rank that is an
//!   endpoint of its own needs a mapping with that label; without one, the first rank's series counts.
//! - `vllm:kv_cache_usage_perc` is a share from 0 to 1 despite its name, and counts without the one block that the engine
//!   never hands out: 17 used of 20 show as 17/19.

use super::facts::{EngineFacts, HealthRow, LengthText, LoraRow, MetricRows, WrongModel, gone, label, sum, value};
use crate::readiness::ReadinessStep;

pub(crate) const FACTS: EngineFacts = EngineFacts {
    name: "vllm",
    about: "vLLM's OpenAI server.",
    metrics: MetricRows {
        queued: &[value("vllm:num_requests_waiting")],
        running: &[value("vllm:num_requests_running")],
        kv_used: &[
            value("vllm:kv_cache_usage_perc"),
            // The name before the V1 engine became the only one.
            value("vllm:gpu_cache_usage_perc"),
        ],
        block_size: &[label("vllm:cache_config_info", "block_size")],
        blocks: &[label("vllm:cache_config_info", "num_gpu_blocks")],
        lora: Some(LoraRow {
            family: "vllm:lora_requests_info",
            max_label: "max_lora",
            running_label: "running_lora_adapters",
            waiting_label: "waiting_lora_adapters",
        }),
        progress: &[sum("vllm:prompt_tokens_total"), sum("vllm:generation_tokens_total")],
        started: &[
            value("process_start_time_seconds"),
            // The process figures are missing when several API processes share one page.
            value("vllm:generation_tokens_created"),
        ],
    },
    metrics_path: "/metrics",
    metrics_port: None,
    health: HealthRow {
        path: "/health",
        unavailable: &[503],
    },
    readiness: &[
        ReadinessStep::Health,
        ReadinessStep::ListModels,
        ReadinessStep::KvPool,
        ReadinessStep::Infer,
    ],
    wrong_model: WrongModel::Refused,
    overload_texts: &["queue", "overload", "too many requests"],
    too_long: &[
        LengthText {
            before: "This model's maximum context length is ",
            after: " tokens",
        },
        LengthText {
            before: "max_tokens=",
            after: " cannot be greater than max_model_len=",
        },
    ],
    model_gone: &[gone(404, "The model `", "` does not exist")],
};
