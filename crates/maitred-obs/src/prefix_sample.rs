//! What the metrics page says of each pool's prefix index, read at the moment the page is asked for.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::metric::{self, Metric};

/// One pool's prefix index at one moment. All but `is_on`, `bytes` and `blocks` are counts since the process began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PrefixSample {
    /// The pool.
    pub pool: String,
    /// Whether every prompt is looked up.
    pub is_on: bool,
    /// Bytes in use.
    pub bytes: u64,
    /// Blocks known, each counted once.
    pub blocks: u64,
    /// Blocks that left because their endpoint holds no more.
    pub evicted: u64,
    /// Blocks that were forgotten because the bytes did not suffice.
    pub lost: u64,
    /// Calls looked up.
    pub looked_up: u64,
    /// Calls not looked up, since the index was off.
    pub skipped: u64,
    /// Calls looked up and not noted, since live calls' prompts took up their part of the bytes.
    pub untracked: u64,
    /// Prompt tokens of calls looked up.
    pub asked: f64,
    /// Of these, what the candidate that held most held.
    pub best: f64,
    /// What a candidate drawn at random would have held.
    pub random: f64,
    /// What the chosen one held.
    pub chosen: f64,
    /// Cached tokens predicted, of answers that report theirs.
    pub predicted: u64,
    /// Cached tokens that these answers reported.
    pub reported: u64,
    /// Tokens by which single predictions were wrong, in either direction.
    pub error: u64,
    /// Answers that read less from the cache than was certain.
    pub shortfalls: u64,
    /// Answers that read more than was predicted.
    pub surpluses: u64,
}

/// Gives the samples of all pools.
pub type PrefixSource = Arc<dyn Fn() -> Vec<PrefixSample> + Send + Sync>;

/// Turns samples into metrics when the page is asked for.
pub(crate) struct PrefixCollector(pub(crate) PrefixSource);

impl fmt::Debug for PrefixCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrefixCollector")
    }
}

type Reading<T> = fn(&PrefixSample) -> T;
/// A label's words and the figure behind each.
type Words<T> = &'static [(&'static str, Reading<T>)];

const GAUGES: [(&Metric, Reading<u64>); 3] = [
    (&metric::PREFIX_ON, |sample| u64::from(sample.is_on)),
    (&metric::PREFIX_BYTES, |sample| sample.bytes),
    (&metric::PREFIX_BLOCKS, |sample| sample.blocks),
];

/// Each with its label.
const COUNTERS: [(&Metric, &str, Words<u64>); 4] = [
    (
        &metric::PREFIX_BLOCKS_GONE,
        "cause",
        &[("evicted", |sample| sample.evicted), ("lost", |sample| sample.lost)],
    ),
    (
        &metric::PREFIX_LOOKUPS,
        "result",
        &[
            ("looked_up", |sample| sample.looked_up),
            ("skipped", |sample| sample.skipped),
            ("untracked", |sample| sample.untracked),
        ],
    ),
    (
        &metric::PREFIX_CACHED,
        "figure",
        &[
            ("predicted", |sample| sample.predicted),
            ("reported", |sample| sample.reported),
            ("error", |sample| sample.error),
        ],
    ),
    (
        &metric::PREFIX_SURPRISES,
        "kind",
        &[
            ("shortfall", |sample| sample.shortfalls),
            ("surplus", |sample| sample.surpluses),
        ],
    ),
];

/// The words of [`metric::PREFIX_PROMPT`] and the figure behind each.
const PROMPT: [(&str, Reading<f64>); 4] = [
    ("asked", |sample| sample.asked),
    ("best", |sample| sample.best),
    ("random", |sample| sample.random),
    ("chosen", |sample| sample.chosen),
];

impl Collector for PrefixCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let samples = (self.0)();
        for (metric, reading) in GAUGES {
            let mut family = encoder.encode_descriptor(metric.name, metric.help, None, MetricType::Gauge)?;
            for sample in &samples {
                let labels = [("pool", sample.pool.as_str())];
                ConstGauge::new(reading(sample)).encode(family.encode_family(&labels)?)?;
            }
        }
        for (metric, label, words) in COUNTERS {
            let mut family = encoder.encode_descriptor(metric.name, metric.help, None, MetricType::Counter)?;
            for sample in &samples {
                for (word, reading) in words {
                    let labels = [("pool", sample.pool.as_str()), (label, *word)];
                    ConstCounter::new(reading(sample)).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        let metric = &metric::PREFIX_PROMPT;
        let mut family = encoder.encode_descriptor(metric.name, metric.help, None, MetricType::Counter)?;
        for sample in &samples {
            for (word, reading) in PROMPT {
                let labels = [("pool", sample.pool.as_str()), ("held_by", word)];
                ConstCounter::new(reading(sample)).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}
