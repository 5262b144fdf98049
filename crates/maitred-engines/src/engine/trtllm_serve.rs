//! `trtllm-serve` of TensorRT-LLM. Not run here; from its documentation and public source as of 1.1 and later.
//!
//! - The Prometheus page is `/prometheus/metrics` and exists only when the server runs with `return_perf_metrics: true`;
//!   `/metrics` is a JSON list of iteration statistics.
//! - `/health` says 503 when the executor is not healthy.
//! - Error bodies are flat (`"object":"error"`), those of failed validation `{"error": "text"}` with 400.

use super::facts::{EngineFacts, GoneName, GoneText, HealthRow, MetricRows, WrongModel, gone, sum, value};
use crate::readiness::ReadinessStep;

pub(crate) const FACTS: EngineFacts = EngineFacts {
    name: "trtllm-serve",
    about: "TensorRT-LLM's own OpenAI server, run with `return_perf_metrics: true`.",
    metrics: MetricRows {
        queued: &[value("trtllm_num_requests_waiting")],
        running: &[value("trtllm_num_requests_running")],
        kv_used: &[value("trtllm_kv_cache_utilization")],
        block_size: &[value("trtllm_kv_cache_tokens_per_block")],
        blocks: &[value("trtllm_kv_cache_max_blocks")],
        lora: None,
        progress: &[sum("trtllm_prompt_tokens_total"), sum("trtllm_generation_tokens_total")],
        started: &[value("process_start_time_seconds")],
    },
    metrics_path: "/prometheus/metrics",
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
    wrong_model: WrongModel::Unknown,
    overload_texts: &["queue is full", "overload", "too many requests"],
    too_long: &[],
    model_gone: &[
        gone(404, "The model `", "` does not exist"),
        gone(404, "The model '", "' does not exist"),
        gone(404, "Model '", "' not found"),
        GoneText {
            status: 404,
            before: "Model not found",
            named: GoneName::Nothing,
            after: "",
        },
    ],
};
