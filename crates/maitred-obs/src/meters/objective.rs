//! How objectives of degraded answers stand.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::Serialize;

use super::{Labels, register};
use crate::metric;

/// How the objective of one route stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectiveSample {
    /// The route: the name that clients ask for.
    pub model: String,
    /// `calm`, `warning` or `breach`.
    pub state: &'static str,
    /// Whether calls go on to other models now: `open` or `closed`.
    pub fallback: &'static str,
    /// Calls in the window.
    pub calls: u64,
    /// Those of them that another model answered, or would have if fallback were open.
    pub degraded: u64,
    /// Their share, 0 to 1.
    pub ratio: f64,
    /// Their share in the newest twelfth of the window.
    pub newest_ratio: f64,
    /// The share of attempts, in the newer half of the window, that were refused for a spent quota or too much to do.
    pub refused_ratio: f64,
    /// The share that the objective allows.
    pub allowed_ratio: f64,
    /// How many times what is allowed is used up: 1 is just the objective.
    pub burn_rate: f64,
    /// The length of the window.
    pub window_seconds: f64,
}

type Floats = Family<Labels, Gauge<f64, AtomicU64>>;

/// The gauges.
pub(super) struct ObjectiveFamilies {
    ratio: Floats,
    burn_rate: Floats,
    state: Family<Labels, Gauge>,
}

impl ObjectiveFamilies {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            ratio: register(registry, &metric::DEGRADED_RATIO, Floats::default()),
            burn_rate: register(registry, &metric::DEGRADED_BURN_RATE, Floats::default()),
            state: register(registry, &metric::DEGRADATION_STATE, Family::default()),
        }
    }

    pub(super) fn set(&self, samples: &[ObjectiveSample]) {
        // Routes that are gone have no figures.
        self.ratio.clear();
        self.burn_rate.clear();
        self.state.clear();
        for sample in samples {
            let labels = vec![("model", sample.model.clone())];
            self.ratio.get_or_create(&labels).set(sample.ratio);
            self.burn_rate.get_or_create(&labels).set(sample.burn_rate);
            for state in ["calm", "warning", "breach"] {
                let labels = vec![("model", sample.model.clone()), ("state", state.to_owned())];
                self.state.get_or_create(&labels).set(i64::from(sample.state == state));
            }
        }
    }
}
