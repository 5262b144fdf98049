//! What is told of the audit.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::register;
use crate::metric;

/// The audit's meters. Clones are the same meters.
#[derive(Clone, Debug, Default)]
pub struct AuditMeters {
    /// Entries that found no room.
    pub lost: Counter,
    entries: Counter,
    errors: Counter,
    head: Gauge,
    size: Gauge,
}

impl AuditMeters {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            entries: register(registry, &metric::AUDIT_ENTRIES, Counter::default()),
            head: register(registry, &metric::AUDIT_HEAD, Gauge::default()),
            size: register(registry, &metric::AUDIT_SIZE, Gauge::default()),
            lost: register(registry, &metric::AUDIT_LOST, Counter::default()),
            errors: register(registry, &metric::AUDIT_ERRORS, Counter::default()),
        }
    }

    /// So many entries more are on the disk, the newest of them with the number `head`.
    pub fn written(&self, entries: u64, head: u64) {
        self.entries.inc_by(entries);
        self.head.set(i64::try_from(head).unwrap_or(i64::MAX));
    }

    /// All its files together have so many bytes.
    pub fn holds(&self, bytes: u64) {
        self.size.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// The disk has not taken what was to be written.
    pub fn failed(&self) {
        self.errors.inc();
    }
}
