//! A page as `trtllm-serve` has it, with the names that the model server protocol lists. Not compared with a real one.

use super::prometheus::{Kind, Page, escaped};
use super::{Sees, Source};

pub(super) fn write(page: &mut Page, source: &Source<'_>) {
    page.gauge(
        "process_start_time_seconds",
        "",
        source.born,
        "When the process started.",
    );
    if source.sees == Sees::Process {
        return;
    }
    let labels = format!("engine_type=\"undefined\",model_name=\"{}\"", escaped(source.model));
    let gauges = source.gauges;
    let rows = [
        (
            "trtllm_num_requests_running",
            f64::from(gauges.running),
            "Requests in the batch.",
        ),
        (
            "trtllm_num_requests_waiting",
            gauges.waiting.into(),
            "Requests in the queue.",
        ),
        (
            "trtllm_kv_cache_utilization",
            gauges.kv_usage(),
            "Used share of the KV cache, 0 to 1.",
        ),
        (
            "trtllm_kv_cache_tokens_per_block",
            source.state.model.block_size().into(),
            "Tokens per block.",
        ),
        (
            "trtllm_kv_cache_max_blocks",
            gauges.kv_usable.into(),
            "Blocks of the KV cache.",
        ),
    ];
    for (name, value, help) in rows {
        page.gauge(name, &labels, value, help);
    }
    let stats = source.state.model.stats();
    page.family(
        "trtllm_request_success_total",
        Kind::Counter,
        "Requests that ended well.",
    );
    let ended = stats.counters.stopped + stats.counters.cut;
    page.series("trtllm_request_success_total", &labels, ended as f64);
    let help = "Observed since the start, in the engine's time.";
    page.histogram(
        "trtllm_time_to_first_token_seconds",
        (&labels, ""),
        &stats.histograms.first_token,
        help,
    );
    page.histogram(
        "trtllm_e2e_request_latency_seconds",
        (&labels, ""),
        &stats.histograms.end_to_end,
        help,
    );
}
