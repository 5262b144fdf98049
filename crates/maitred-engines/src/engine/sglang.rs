//! SGLang. Seen: 0.5.23 (CPU), unless a line says otherwise.
//!
//! - Start: the port opens about two seconds before the engine can serve. In that time `/v1/models` and `/metrics` already
//!   say 200 and list everything, while `/health` says 503.
//! - A wrong model name is answered 200 with the name repeated, so an inference proves nothing about the model: the model
//!   list must be read as well, and neither suffices alone.
//! - SIGTERM: `/health` turns 503 at once, running streams end normally, and new calls are still served until the port
//!   closes. A 503 after readiness is therefore a drain and no fault.
//! - Scheduler killed: running streams are cut, without error object or `[DONE]`; the framing is broken too. Health probes
//!   and new calls hang for seconds, then the port closes.
//! - Error bodies are flat (`"object":"error"`) except under `/v1/responses` and `/v1/messages`, and carry Python file
//!   paths, which are cut away before anybody sees them.
//! - A full queue refuses with 503; in a stream the refusal is the first event of a 200 answer.
//! - Since 0.5.11 the KV pool is described by the gauges `sglang:page_size` and `sglang:num_pages`; before that, by labels
//!   of `sglang:cache_config_info`.
//! - Prompt and output counters move when a request ends, `sglang:realtime_tokens_total` while it runs: all are added, since
//!   the sum must only ever grow. `sglang:token_usage` is rounded to hundredths.

use super::facts::{EngineFacts, GoneName, GoneText, HealthRow, LengthText, MetricRows, WrongModel, label, sum, value};
use crate::readiness::ReadinessStep;

pub(crate) const FACTS: EngineFacts = EngineFacts {
    name: "sglang",
    about: "SGLang's HTTP server, started with `--enable-metrics`.",
    metrics: MetricRows {
        queued: &[value("sglang:num_queue_reqs")],
        running: &[value("sglang:num_running_reqs")],
        kv_used: &[value("sglang:token_usage")],
        block_size: &[
            value("sglang:page_size"),
            label("sglang:cache_config_info", "page_size"),
        ],
        blocks: &[
            value("sglang:num_pages"),
            label("sglang:cache_config_info", "num_pages"),
        ],
        lora: None,
        progress: &[
            sum("sglang:realtime_tokens_total"),
            sum("sglang:prompt_tokens_total"),
            sum("sglang:generation_tokens_total"),
        ],
        started: &[value("process_start_time_seconds")],
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
    wrong_model: WrongModel::Served,
    overload_texts: &[
        "queue is full",
        "higher priority request",
        "overload",
        "too many requests",
    ],
    too_long: &[
        LengthText {
            before: "The input (",
            after: " tokens) is longer than the model's context length",
        },
        LengthText {
            before: "Requested token count exceeds the model's maximum context length of ",
            after: " tokens",
        },
    ],
    model_gone: &[
        // Only where the pool's own name asks for an adapter: callers can name others, in `lora_path`.
        adapter_gone("The following requested LoRA adapters are not loaded: "),
        adapter_gone("Got LoRA adapter that has never been loaded: "),
    ],
};

const fn adapter_gone(before: &'static str) -> GoneText {
    GoneText {
        status: 400,
        before,
        named: GoneName::Adapter,
        after: "",
    }
}
