//! SGLang 0.5.23's page.

use super::prometheus::{Kind, Page, escaped};
use super::{Sees, Source};

pub(super) fn write(page: &mut Page, source: &Source<'_>) {
    page.gauge("sglang:routing_keys_active", "", 0.0, "Routing keys in use.");
    // The page is complete before the engine can serve; only a fault hides its families.
    if source.sees == Sees::Process && source.state.life != super::Life::Loading {
        return;
    }
    let model = escaped(source.model);
    let engine = format!("engine_type=\"unified\",model_name=\"{model}\"");
    let rank = format!("{engine},moe_ep_rank=\"0\",pp_rank=\"0\",tp_rank=\"0\"");
    let stats = source.state.model.stats();
    let counters = &stats.counters;
    counter(page, "sglang:prompt_tokens_total", &engine, counters.prompt_tokens);
    counter(
        page,
        "sglang:generation_tokens_total",
        &engine,
        counters.generation_tokens,
    );
    counter(
        page,
        "sglang:num_requests_total",
        &engine,
        counters.stopped + counters.cut,
    );
    page.family(
        "sglang:cached_tokens_total",
        Kind::Counter,
        "Prompt tokens found in the cache.",
    );
    let device = format!("cache_source=\"device\",{engine}");
    page.series("sglang:cached_tokens_total", &device, counters.cached_tokens as f64);
    gauges(page, source, &rank);
    let parts = [
        ("prefill_compute", counters.computed_tokens),
        ("decode", counters.generation_tokens),
    ];
    page.family("sglang:realtime_tokens_total", Kind::Counter, "Tokens computed so far.");
    for (mode, tokens) in parts {
        let labels = format!(
            "engine_type=\"unified\",mode=\"{mode}\",model_name=\"{model}\",moe_ep_rank=\"0\",pp_rank=\"0\",tp_rank=\"0\""
        );
        page.series("sglang:realtime_tokens_total", &labels, tokens as f64);
    }
    let all = &stats.histograms;
    let streamed = "engine_type=\"unified\",is_streaming=\"true\"";
    let bare = "engine_type=\"unified\"";
    let rows = [
        ("sglang:time_to_first_token_seconds", streamed, &all.first_token),
        ("sglang:e2e_request_latency_seconds", streamed, &all.end_to_end),
        ("sglang:inter_token_latency_seconds", bare, &all.between_tokens),
    ];
    let name = format!("model_name=\"{model}\"");
    for (family, before, histogram) in rows {
        page.histogram(
            family,
            (before, &name),
            histogram,
            "Observed since the start, in the engine's time.",
        );
    }
}

fn counter(page: &mut Page, name: &str, labels: &str, value: u64) {
    page.family(name, Kind::Counter, "Counted since the start.");
    let (engine, model) = labels.split_once(',').unwrap_or((labels, ""));
    page.series(name, &format!("{engine},is_streaming=\"true\",{model}"), value as f64);
}

fn gauges(page: &mut Page, source: &Source<'_>, rank: &str) {
    let gauges = source.gauges;
    let (block_size, blocks) = (source.state.model.block_size(), gauges.kv_usable);
    let used = u64::from(gauges.kv_used) * u64::from(block_size);
    let all = u64::from(blocks) * u64::from(block_size);
    let counters = &source.state.model.stats().counters;
    let hit_rate = counters.prefix_hits as f64 / counters.prefix_queries.max(1) as f64;
    // The engine rounds its share to hundredths.
    let usage = (gauges.kv_usage() * 100.0).round() / 100.0;
    let rows = [
        ("sglang:max_total_num_tokens", all as f64, "Tokens that the pool holds."),
        ("sglang:page_size", block_size.into(), "Tokens per page."),
        ("sglang:num_pages", blocks.into(), "Pages of the pool."),
        ("sglang:context_len", source.context.into(), "Tokens of the context."),
        (
            "sglang:num_running_reqs",
            gauges.running.into(),
            "Requests in the batch.",
        ),
        ("sglang:num_queue_reqs", gauges.waiting.into(), "Requests in the queue."),
        (
            "sglang:num_grammar_queue_reqs",
            0.0,
            "Requests that wait for a grammar.",
        ),
        (
            "sglang:cache_hit_rate",
            hit_rate,
            "Share of prompt tokens found in the cache.",
        ),
        ("sglang:token_usage", usage, "Used share of the pool."),
        (
            "sglang:full_token_usage",
            gauges.kv_usage(),
            "Used share of the pool, not rounded.",
        ),
        ("sglang:num_used_tokens", used as f64, "Used tokens of the pool."),
        (
            "sglang:kv_available_tokens",
            (all - used) as f64,
            "Tokens of the pool that are free.",
        ),
        (
            "sglang:kv_used_tokens",
            used as f64,
            "Tokens of the pool that are in use.",
        ),
        ("sglang:utilization", 0.0, "Utilization."),
    ];
    for (name, value, help) in rows {
        page.gauge(name, rank, value, help);
    }
}
