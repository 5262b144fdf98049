//! What the metrics page says of each endpoint, read at the moment the page is asked for.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use serde::Serialize;

use crate::metric::{self, Metric};

/// Where an endpoint is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EndpointState {
    /// It has not yet shown that it can infer.
    Loading,
    /// It gets calls.
    Ready,
    /// It failed too often and gets no calls for a while.
    Ejected,
    /// It gets no new calls; running ones finish.
    Draining,
}

impl EndpointState {
    /// All states, in the order of a life.
    pub const ALL: [Self; 4] = [Self::Loading, Self::Ready, Self::Ejected, Self::Draining];

    /// The word for metrics and the admin page.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Ready => "ready",
            Self::Ejected => "ejected",
            Self::Draining => "draining",
        }
    }
}

/// One life of an endpoint at one moment. An address has more than one while an old life drains and a new one has begun. A figure the endpoint never reported is `None` and does not appear on the page.
#[derive(Clone, Debug, Serialize)]
pub struct EndpointSample {
    /// The pool it belongs to.
    pub pool: String,
    /// Its address.
    pub endpoint: String,
    /// Its place in the pool. Place and incarnation together name a life.
    pub slot: usize,
    /// How many lives at that place came before.
    pub incarnation: u32,
    /// Where it is in its life.
    pub state: EndpointState,
    /// Share of the pool's recent picks, 0 to 1.
    pub share: f64,
    /// Picks in its present life.
    pub picks: u64,
    /// Failed attempts in its present life.
    pub errors: u64,
    /// Attempts of this gateway under way.
    pub in_flight: u64,
    /// Requests waiting, as reported.
    pub waiting: Option<f64>,
    /// Requests running, as reported.
    pub running: Option<f64>,
    /// KV use 0 to 1, as reported.
    pub kv_used: Option<f64>,
    /// KV use 0 to 1, carried forward.
    pub kv_estimate: Option<f64>,
    /// Seconds of prefill work before a new call, as reckoned.
    pub queue_seconds: f64,
    /// Seconds since the last good report.
    pub age: Option<f64>,
    /// What the prefix index knows of it.
    pub cache: CacheSample,
    /// The figures of the configuration's own choice, by name, as reported.
    pub custom: BTreeMap<String, f64>,
}

/// What the prefix index knows of one life of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CacheSample {
    /// Prompt tokens that it is taken to hold.
    pub held_tokens: u64,
    /// Prompt tokens that it can hold, as guessed.
    pub capacity_tokens: Option<u64>,
    /// The learnt part of that guess.
    pub scale: f64,
    /// Cached tokens predicted, of answers that report theirs.
    pub predicted: u64,
    /// Cached tokens that these answers reported.
    pub reported: u64,
    /// Tokens by which single predictions were wrong, in either direction.
    pub error: u64,
}

/// Gives the samples of all endpoints of all pools.
pub type SampleSource = Arc<dyn Fn() -> Vec<EndpointSample> + Send + Sync>;

/// Turns samples into metrics when the page is asked for.
pub(crate) struct EndpointCollector(pub(crate) SampleSource);

impl fmt::Debug for EndpointCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EndpointCollector")
    }
}

type Reading = fn(&EndpointSample) -> Option<f64>;

const GAUGES: [(&Metric, Reading); 11] = [
    (&metric::ENDPOINT_SHARE, |sample| Some(sample.share)),
    (&metric::ENDPOINT_IN_FLIGHT, |sample| Some(as_f64(sample.in_flight))),
    (&metric::ENDPOINT_WAITING, |sample| sample.waiting),
    (&metric::ENDPOINT_RUNNING, |sample| sample.running),
    (&metric::ENDPOINT_KV, |sample| sample.kv_used),
    (&metric::ENDPOINT_KV_ESTIMATE, |sample| sample.kv_estimate),
    (&metric::ENDPOINT_QUEUE, |sample| Some(sample.queue_seconds)),
    (&metric::ENDPOINT_AGE, |sample| sample.age),
    (&metric::ENDPOINT_HELD, |sample| Some(as_f64(sample.cache.held_tokens))),
    (&metric::ENDPOINT_CAPACITY, |sample| {
        sample.cache.capacity_tokens.map(as_f64)
    }),
    (&metric::ENDPOINT_SCALE, |sample| Some(sample.cache.scale)),
];

impl Collector for EndpointCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let samples = one_per_address((self.0)());
        for (metric, reading) in GAUGES {
            let mut family = encoder.encode_descriptor(metric.name, metric.help, None, MetricType::Gauge)?;
            for sample in &samples {
                if let Some(value) = reading(sample) {
                    ConstGauge::new(value).encode(family.encode_family(&sample.labels())?)?;
                }
            }
        }
        for (metric, reading) in [
            (
                &metric::ENDPOINT_PICKS,
                EndpointSample::picks as fn(&EndpointSample) -> u64,
            ),
            (&metric::ENDPOINT_ERRORS, EndpointSample::errors),
        ] {
            let mut family = encoder.encode_descriptor(metric.name, metric.help, None, MetricType::Counter)?;
            for sample in &samples {
                ConstCounter::new(reading(sample)).encode(family.encode_family(&sample.labels())?)?;
            }
        }
        encode_custom(&mut encoder, &samples)?;
        encode_states(&mut encoder, &samples)
    }
}

/// Makes one sample of all lives of an address, since a metrics page must not have a series twice: counts are added up, and the
/// rest is the newest life's, which is the one that does not drain.
fn one_per_address(samples: Vec<EndpointSample>) -> Vec<EndpointSample> {
    let mut merged: BTreeMap<(String, String), EndpointSample> = BTreeMap::new();
    for sample in samples {
        match merged.entry((sample.pool.clone(), sample.endpoint.clone())) {
            Entry::Vacant(place) => {
                place.insert(sample);
            }
            Entry::Occupied(mut place) => place.get_mut().merge(sample),
        }
    }
    merged.into_values().collect()
}

impl EndpointSample {
    /// Takes in another life of the same address.
    fn merge(&mut self, mut other: Self) {
        if self.state == EndpointState::Draining {
            std::mem::swap(self, &mut other);
        }
        self.share += other.share;
        self.picks += other.picks;
        self.errors += other.errors;
        self.in_flight += other.in_flight;
    }

    fn picks(&self) -> u64 {
        self.picks
    }

    fn errors(&self) -> u64 {
        self.errors
    }

    fn labels(&self) -> [(&'static str, &str); 2] {
        [("pool", self.pool.as_str()), ("endpoint", self.endpoint.as_str())]
    }
}

fn encode_custom(encoder: &mut DescriptorEncoder<'_>, samples: &[EndpointSample]) -> fmt::Result {
    let metric = &metric::ENDPOINT_CUSTOM;
    let mut family = encoder.encode_descriptor(metric.name, metric.help, None, MetricType::Gauge)?;
    for sample in samples {
        for (name, value) in &sample.custom {
            let [pool, endpoint] = sample.labels();
            ConstGauge::new(*value).encode(family.encode_family(&[pool, endpoint, ("name", name)])?)?;
        }
    }
    Ok(())
}

fn encode_states(encoder: &mut DescriptorEncoder<'_>, samples: &[EndpointSample]) -> fmt::Result {
    let metric = &metric::ENDPOINT_STATE;
    let mut family = encoder.encode_descriptor(metric.name, metric.help, None, MetricType::Gauge)?;
    for sample in samples {
        for state in EndpointState::ALL {
            let [pool, endpoint] = sample.labels();
            let labels = [pool, endpoint, ("state", state.label())];
            let value = i64::from(state == sample.state);
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

#[expect(
    clippy::cast_precision_loss,
    reason = "attempts under way and tokens held are far below 2^53"
)]
fn as_f64(count: u64) -> f64 {
    count as f64
}
