//! Pages as Triton has them, with the names that the model server protocol lists. Not compared with a real one.

use super::prometheus::{Kind, Page, escaped};
use super::{Sees, Source};

/// Any backend: it knows of pending requests and executions only.
pub(super) fn write(page: &mut Page, source: &Source<'_>) {
    if source.sees == Sees::Process {
        return;
    }
    let labels = format!("model=\"{}\",version=\"1\"", escaped(source.model));
    let counters = &source.state.model.stats().counters;
    let pending = source.gauges.waiting.into();
    page.gauge(
        "nv_inference_pending_request_count",
        &labels,
        pending,
        "Requests that wait.",
    );
    page.family("nv_inference_exec_count", Kind::Counter, "Batches executed.");
    page.series("nv_inference_exec_count", &labels, counters.steps as f64);
    page.family(
        "nv_inference_request_success",
        Kind::Counter,
        "Requests that ended well.",
    );
    page.series(
        "nv_inference_request_success",
        &labels,
        (counters.stopped + counters.cut) as f64,
    );
}

/// The TensorRT-LLM backend: one family per subject, one label value per figure.
pub(super) fn write_tensorrt_llm(page: &mut Page, source: &Source<'_>) {
    write(page, source);
    if source.sees == Sees::Process {
        return;
    }
    let model = escaped(source.model);
    let gauges = source.gauges;
    let requests = [
        ("active", f64::from(gauges.running + gauges.waiting)),
        ("scheduled", gauges.running.into()),
        ("waiting", gauges.waiting.into()),
    ];
    group(page, "nv_trt_llm_request_metrics", "request_type", &model, &requests);
    let blocks = [
        ("fraction", gauges.kv_usage()),
        ("free", f64::from(gauges.kv_usable - gauges.kv_used)),
        ("max", gauges.kv_usable.into()),
        ("tokens_per", source.state.model.block_size().into()),
        ("used", gauges.kv_used.into()),
    ];
    group(
        page,
        "nv_trt_llm_kv_cache_block_metrics",
        "kv_cache_block_type",
        &model,
        &blocks,
    );
}

fn group(page: &mut Page, name: &str, label: &str, model: &str, rows: &[(&str, f64)]) {
    page.family(name, Kind::Gauge, "Figures of the TensorRT-LLM backend.");
    for (value_name, value) in rows {
        page.series(
            name,
            &format!("{label}=\"{value_name}\",model=\"{model}\",version=\"1\""),
            *value,
        );
    }
}
