//! Triton Inference Server with the TensorRT-LLM backend. Not run here; from its documentation and public source.
//!
//! - Metrics are on a port of their own, 8002 by default; the OpenAI frontend repeats them on its own port.
//! - `/v2/health/ready` says 400 while the server is not ready. The OpenAI frontend has `/health/ready` instead.
//! - One family holds a figure per label value: requests by `request_type`, the KV pool by `kv_cache_block_type`.

use super::facts::{EngineFacts, HealthRow, MetricRows, WrongModel, gone, selected, sum};
use crate::readiness::ReadinessStep;

const REQUESTS: &str = "nv_trt_llm_request_metrics";
const KV_BLOCKS: &str = "nv_trt_llm_kv_cache_block_metrics";

pub(crate) const FACTS: EngineFacts = EngineFacts {
    name: "triton-tensorrt-llm",
    about: "Triton Inference Server with the TensorRT-LLM backend and the OpenAI frontend.",
    metrics: MetricRows {
        queued: &[selected(REQUESTS, &[("request_type", "waiting")])],
        running: &[selected(REQUESTS, &[("request_type", "scheduled")])],
        kv_used: &[selected(KV_BLOCKS, &[("kv_cache_block_type", "fraction")])],
        block_size: &[selected(KV_BLOCKS, &[("kv_cache_block_type", "tokens_per")])],
        blocks: &[selected(KV_BLOCKS, &[("kv_cache_block_type", "max")])],
        lora: None,
        progress: &[sum("nv_inference_exec_count")],
        started: &[],
    },
    metrics_path: "/metrics",
    metrics_port: Some(8002),
    health: HealthRow {
        path: "/v2/health/ready",
        unavailable: &[400, 503],
    },
    readiness: &[
        ReadinessStep::Health,
        ReadinessStep::ListModels,
        ReadinessStep::KvPool,
        ReadinessStep::Infer,
    ],
    wrong_model: WrongModel::Refused,
    overload_texts: &["maximum queue size", "queue is full", "overload", "too many requests"],
    too_long: &[],
    model_gone: &[gone(400, "Unknown model: ", ""), gone(404, "Unknown model: ", "")],
};
