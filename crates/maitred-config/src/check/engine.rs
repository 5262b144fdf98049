//! What an endpoint's engine is known to be and to report.

use std::sync::Arc;

use maitred_engines::{CustomFigure, Engine, Figure, LoraSpec, MetricMapping};
use maitred_sched::{EndpointOptions, SignalSet};

use crate::forms::FigureText;
use crate::raw;
use crate::settings::{EngineSettings, KvEventSettings};

/// What is special about one endpoint.
#[derive(Clone, Copy, Default)]
pub(super) struct Special<'a> {
    pub(super) engine: Option<Engine>,
    pub(super) max_in_flight: Option<u32>,
    pub(super) cache: Option<raw::Cache>,
    pub(super) kv_events: Option<&'a raw::KvEvents>,
}

/// The engine settings of an endpoint of `pool`.
pub(super) fn settings(pool: &raw::Pool, special: Special<'_>) -> EngineSettings {
    let engine = special.engine.unwrap_or(pool.engine.0);
    let mapping = match engine == pool.engine.0 {
        true => engine.mapping().overlaid_with(&overlay(&pool.metrics)),
        false => engine.mapping(),
    };
    let cache = special.cache.unwrap_or(pool.cache);
    EngineSettings {
        engine,
        metrics_path: pool
            .scrape
            .path
            .as_ref()
            .map_or(engine.metrics_path(), |path| path.as_str())
            .to_owned(),
        metrics_port: pool.scrape.port.or(engine.metrics_port()),
        options: EndpointOptions {
            max_in_flight: special.max_in_flight,
            block_size: cache.block_size,
            blocks: cache.blocks,
            reports: reports(&mapping, cache),
        },
        mapping: Arc::new(mapping),
        kv_events: special.kv_events.or(pool.kv_events.as_ref()).map(kv_events),
    }
}

fn kv_events(raw: &raw::KvEvents) -> KvEventSettings {
    KvEventSettings {
        port: raw.port,
        replay_port: raw.replay_port,
        topic: raw
            .topic
            .as_ref()
            .map_or_else(String::new, |topic| topic.as_str().to_owned()),
    }
}

/// What `metrics` says, as a mapping that is laid over the engine's own.
pub(super) fn overlay(metrics: &raw::Metrics) -> MetricMapping {
    let figures = |texts: &[FigureText]| -> Vec<Figure> { texts.iter().map(|text| text.get().clone()).collect() };
    let custom = metrics.custom.iter().map(|custom| CustomFigure {
        name: custom.name.as_str().to_owned(),
        figure: custom.metric.get().clone(),
    });
    MetricMapping {
        queued: figures(&metrics.queued),
        running: figures(&metrics.running),
        kv_used: figures(&metrics.kv_used),
        block_size: figures(&metrics.block_size),
        blocks: figures(&metrics.blocks),
        lora: metrics.lora.as_ref().map(|lora| LoraSpec {
            family: lora.family.as_str().to_owned(),
            max_label: lora.max_label.as_str().to_owned(),
            running_label: lora.running_label.as_str().to_owned(),
            waiting_label: lora.waiting_label.as_str().to_owned(),
        }),
        progress: figures(&metrics.progress),
        started: figures(&metrics.started),
        custom: custom.collect(),
    }
}

/// The signals that a page with this mapping gives, the configured ones included.
fn reports(mapping: &MetricMapping, cache: raw::Cache) -> SignalSet {
    let sized = |figures: &[Figure], configured: Option<u32>| !figures.is_empty() || configured.is_some();
    let blocks = sized(&mapping.block_size, cache.block_size) && sized(&mapping.blocks, cache.blocks);
    let known = [
        (SignalSet::QUEUED, !mapping.queued.is_empty()),
        (SignalSet::RUNNING, !mapping.running.is_empty()),
        (SignalSet::KV, !mapping.kv_used.is_empty()),
        (SignalSet::BLOCKS, blocks),
        (SignalSet::LORA, mapping.lora.is_some()),
        (SignalSet::PROGRESS, !mapping.progress.is_empty()),
    ];
    known
        .into_iter()
        .filter(|(_, known)| *known)
        .fold(SignalSet::NONE, |set, (signal, _)| set.union(signal))
}
