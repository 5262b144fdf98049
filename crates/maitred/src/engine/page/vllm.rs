//! vLLM 0.32.0's page.

use maitred_sim::FinishReason;

use super::prometheus::{Kind, Page, escaped};
use super::{Dates, LoraSeries, Sees, Source};

pub(super) fn write(page: &mut Page, source: &Source<'_>, unix: impl Dates) {
    process(page, source);
    if source.sees == Sees::Process {
        return;
    }
    let model = format!("engine=\"0\",model_name=\"{}\"", escaped(source.model));
    gauges(page, source, &model);
    counters(page, source, &model);
    histograms(page, source, &model);
    adapters(page, source, unix);
    cache_config(page, source);
    face(page, source);
}

fn process(page: &mut Page, source: &Source<'_>) {
    let version = r#"implementation="CPython",major="3",minor="12",patchlevel="9",version="3.12.9""#;
    page.gauge("python_info", version, 1.0, "The interpreter that is imitated.");
    page.gauge(
        "process_start_time_seconds",
        "",
        source.born,
        "When the process started.",
    );
}

fn gauges(page: &mut Page, source: &Source<'_>, model: &str) {
    let gauges = source.gauges;
    page.gauge(
        "vllm:num_requests_running",
        model,
        gauges.running.into(),
        "Requests in the batch.",
    );
    page.gauge(
        "vllm:num_requests_waiting",
        model,
        gauges.waiting.into(),
        "Requests in the queue.",
    );
    let name = "vllm:num_requests_waiting_by_reason";
    page.family(name, Kind::Gauge, "Requests in the queue, by what they wait for.");
    let capacity = gauges.waiting - gauges.deferred.min(gauges.waiting);
    for (reason, waiting) in [("capacity", capacity), ("deferred", gauges.deferred)] {
        page.series(name, &format!("{model},reason=\"{reason}\""), waiting.into());
    }
    let name = "vllm:engine_sleep_state";
    page.family(name, Kind::Gauge, "Whether the engine sleeps, and how deep.");
    for (state, value) in [("awake", 1.0), ("weights_offloaded", 0.0), ("discard_all", 0.0)] {
        page.series(name, &format!("{model},sleep_state=\"{state}\""), value);
    }
    page.gauge(
        "vllm:kv_cache_usage_perc",
        model,
        gauges.kv_usage(),
        "Used share of the KV cache, 0 to 1.",
    );
}

/// A counter and, as the client library adds it, when it was created.
fn counter(page: &mut Page, source: &Source<'_>, name: &str, series: &[(String, u64)]) {
    page.family(&format!("{name}_total"), Kind::Counter, "Counted since the start.");
    for (labels, value) in series {
        page.series(&format!("{name}_total"), labels, *value as f64);
    }
    created(page, source, name, series.iter().map(|(labels, _)| labels.as_str()));
}

fn created<'a>(page: &mut Page, source: &Source<'_>, name: &str, labels: impl Iterator<Item = &'a str>) {
    page.family(&format!("{name}_created"), Kind::Gauge, "When counting began.");
    for labels in labels {
        page.series(&format!("{name}_created"), labels, source.born);
    }
}

fn counters(page: &mut Page, source: &Source<'_>, model: &str) {
    let counters = &source.state.model.stats().counters;
    let one = |value: u64| [(model.to_owned(), value)];
    let by = |label: &str, values: &[(&str, u64)]| -> Vec<(String, u64)> {
        values
            .iter()
            .map(|(name, value)| (format!("{model},{label}=\"{name}\""), *value))
            .collect()
    };
    counter(page, source, "vllm:prefix_cache_queries", &one(counters.prefix_queries));
    counter(page, source, "vllm:prefix_cache_hits", &one(counters.prefix_hits));
    counter(page, source, "vllm:external_prefix_cache_queries", &one(0));
    counter(page, source, "vllm:external_prefix_cache_hits", &one(0));
    counter(page, source, "vllm:num_preemptions", &one(counters.preemptions));
    counter(page, source, "vllm:prompt_tokens", &one(counters.prompt_tokens));
    let computed = counters.prompt_tokens - counters.cached_tokens;
    let sources = [
        ("local_compute", computed),
        ("local_cache_hit", counters.cached_tokens),
        ("external_kv_transfer", 0),
    ];
    counter(page, source, "vllm:prompt_tokens_by_source", &by("source", &sources));
    counter(page, source, "vllm:prompt_tokens_cached", &one(counters.cached_tokens));
    counter(page, source, "vllm:generation_tokens", &one(counters.generation_tokens));
    let reasons = ["stop", "length", "abort", "error", "repetition"];
    let finished: Vec<(String, u64)> = reasons
        .iter()
        .map(|reason| {
            let all = [FinishReason::Stop, FinishReason::Length, FinishReason::Abort];
            let known = all.into_iter().find(|known| known.label() == *reason);
            let labels = format!(
                "engine=\"0\",finished_reason=\"{reason}\",model_name=\"{}\"",
                escaped(source.model)
            );
            (labels, known.map_or(0, |known| counters.finished(known)))
        })
        .collect();
    counter(page, source, "vllm:request_success", &finished);
}

fn histograms(page: &mut Page, source: &Source<'_>, model: &str) {
    let all = &source.state.model.stats().histograms;
    let name = format!("model_name=\"{}\"", escaped(source.model));
    let rows = [
        ("vllm:request_prompt_tokens", &all.prompt_tokens),
        ("vllm:request_generation_tokens", &all.generation_tokens),
        ("vllm:iteration_tokens_total", &all.step_tokens),
        ("vllm:request_params_max_tokens", &all.max_tokens),
        ("vllm:time_to_first_token_seconds", &all.first_token),
        ("vllm:inter_token_latency_seconds", &all.between_tokens),
        ("vllm:request_time_per_output_token_seconds", &all.per_output_token),
        ("vllm:e2e_request_latency_seconds", &all.end_to_end),
        ("vllm:request_queue_time_seconds", &all.queued),
        ("vllm:request_inference_time_seconds", &all.inference),
        ("vllm:request_prefill_time_seconds", &all.prefill),
        ("vllm:request_decode_time_seconds", &all.decode),
        ("vllm:request_num_preemptions", &all.preemptions),
        ("vllm:request_prefill_kv_computed_tokens", &all.computed_tokens),
    ];
    for (family, histogram) in rows {
        page.histogram(
            family,
            ("engine=\"0\"", &name),
            histogram,
            "Observed since the start, in the engine's time.",
        );
        created(page, source, family, [model].into_iter());
    }
}

/// One series per label set that was ever current, with the time at which it last was.
fn adapters(page: &mut Page, source: &Source<'_>, unix: impl Dates) {
    let name = "vllm:lora_requests_info";
    page.family(
        name,
        Kind::Gauge,
        "Adapters in use; the newest value is the current one.",
    );
    for LoraSeries {
        running,
        waiting,
        updated,
    } in &source.state.model.stats().lora
    {
        let (max, running, waiting) = (
            source.max_loras,
            escaped(&source.names(*running)),
            escaped(&source.names(*waiting)),
        );
        let labels =
            format!("max_lora=\"{max}\",running_lora_adapters=\"{running}\",waiting_lora_adapters=\"{waiting}\"");
        page.series(name, &labels, unix(*updated));
    }
}

fn cache_config(page: &mut Page, source: &Source<'_>) {
    let (block_size, blocks) = (source.state.model.block_size(), source.state.model.blocks());
    let tokens = u64::from(block_size) * u64::from(blocks);
    let labels = format!(
        "_block_size_resolved=\"True\",block_size=\"{block_size}\",cache_dtype=\"auto\",enable_prefix_caching=\"True\",\
         engine=\"0\",gpu_memory_utilization=\"0.9\",kv_cache_size_tokens=\"{tokens}\",num_cpu_blocks=\"None\",\
         num_gpu_blocks=\"{blocks}\",num_gpu_blocks_override=\"None\",prefix_caching_hash_algo=\"sha256\",\
         sliding_window=\"None\",user_specified_block_size=\"False\""
    );
    page.gauge("vllm:cache_config_info", &labels, 1.0, "How the KV cache is laid out.");
}

fn face(page: &mut Page, source: &Source<'_>) {
    let name = "http_requests_total";
    page.family(name, Kind::Counter, "Answers by path, method and class of status.");
    for ((path, method, class), count) in &source.face().answers {
        let labels = format!("handler=\"{path}\",method=\"{method}\",status=\"{class}xx\"");
        page.series(name, &labels, *count as f64);
    }
}
