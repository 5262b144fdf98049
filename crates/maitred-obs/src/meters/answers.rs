//! What is told of the answer cache.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Counters, register};
use crate::metric;

/// The cache's meters. Clones are the same meters.
#[derive(Clone, Debug, Default)]
pub struct AnswerMeters {
    /// Calls that were answered from it.
    pub found: Counter,
    /// Calls that might have been.
    pub missed: Counter,
    bytes: Gauge,
}

impl AnswerMeters {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let lookups: Counters = register(registry, &metric::ANSWER_LOOKUPS, Family::default());
        let of = |result: &str| lookups.get_or_create(&vec![("result", result.to_owned())]).clone();
        Self {
            found: of("found"),
            missed: of("missed"),
            bytes: register(registry, &metric::ANSWER_BYTES, Gauge::default()),
        }
    }

    /// So many bytes are held.
    pub fn holds(&self, bytes: u64) {
        self.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}
