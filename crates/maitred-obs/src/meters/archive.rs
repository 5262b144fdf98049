//! What is told of the archive of decision records.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Counters, Meters, register};
use crate::metric;

impl Meters {
    /// The handle for what concerns the archive of decision records.
    #[must_use]
    pub fn archive(&self) -> ArchiveMeters {
        self.families.archive.clone()
    }
}

/// The archive's meters. Clones are the same meters.
#[derive(Clone, Debug, Default)]
pub struct ArchiveMeters {
    /// Records that were written.
    pub kept: Counter,
    dropped: Counters,
    lost: Arc<AtomicU64>,
    bytes: Gauge,
}

impl ArchiveMeters {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            kept: register(registry, &metric::DECISIONS_ARCHIVED, Counter::default()),
            dropped: register(registry, &metric::DECISIONS_DROPPED, Family::default()),
            lost: Arc::default(),
            bytes: register(registry, &metric::DECISION_BYTES, Gauge::default()),
        }
    }

    /// Counts a record that is lost.
    pub fn dropped(&self, reason: &'static str) {
        self.lost.fetch_add(1, Ordering::Relaxed);
        self.dropped.get_or_create(&vec![("reason", reason.to_owned())]).inc();
    }

    /// Records that are lost so far, for whatever reason.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// So many bytes are held.
    pub fn holds(&self, bytes: u64) {
        self.bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// So many bytes more are held.
    pub fn grown(&self, bytes: u64) {
        self.bytes.inc_by(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}
