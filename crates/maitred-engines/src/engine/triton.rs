//! Triton Inference Server with any other backend. Not run here; from its documentation and public source.
//!
//! - It reports how many requests wait, for each model and version; they are added. It has no gauge of running requests:
//!   `nv_inference_exec_count`, which others read as one, is a counter of executions since the start and would make every
//!   endpoint look busier for ever. Here it is the measure of progress, and running requests are left to the gateway's own
//!   count.
//! - It knows no KV cache. A backend that has one needs a mapping of its own.
//! - `/v2/health/ready` says 400 while the server is not ready. The OpenAI frontend has `/health/ready` instead.

use super::facts::{EngineFacts, HealthRow, MetricRows, WrongModel, gone, sum};
use crate::readiness::ReadinessStep;

pub(crate) const FACTS: EngineFacts = EngineFacts {
    name: "triton",
    about: "Triton Inference Server with any other backend and the OpenAI frontend.",
    metrics: MetricRows {
        queued: &[sum("nv_inference_pending_request_count")],
        running: &[],
        kv_used: &[],
        block_size: &[],
        blocks: &[],
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
    readiness: &[ReadinessStep::Health, ReadinessStep::ListModels, ReadinessStep::Infer],
    wrong_model: WrongModel::Refused,
    overload_texts: &["maximum queue size", "queue is full", "overload", "too many requests"],
    too_long: &[],
    model_gone: &[gone(400, "Unknown model: ", ""), gone(404, "Unknown model: ", "")],
};
