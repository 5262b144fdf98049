//! What is told of the ledger.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::{Counters, register};
use crate::metric;

/// The ledger's meters. Clones are the same meters.
#[derive(Clone, Debug, Default)]
pub struct LedgerMeters {
    /// Rows that the database has taken.
    pub rows: Counter,
    /// Calls settled for gateways that died.
    pub interrupted: Counter,
    /// Calls that went on before their beginning was durable.
    pub late: Counter,
    refused: Counters,
    errors: Counters,
    open: Gauge,
    spool: Gauge,
    behind: Gauge<f64, AtomicU64>,
}

impl LedgerMeters {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            rows: register(registry, &metric::LEDGER_ROWS, Counter::default()),
            interrupted: register(registry, &metric::LEDGER_INTERRUPTED, Counter::default()),
            open: register(registry, &metric::LEDGER_OPEN, Gauge::default()),
            spool: register(registry, &metric::LEDGER_SPOOL, Gauge::default()),
            behind: register(registry, &metric::LEDGER_BEHIND, Gauge::default()),
            late: register(registry, &metric::LEDGER_LATE, Counter::default()),
            refused: register(registry, &metric::LEDGER_REFUSED, Family::default()),
            errors: register(registry, &metric::LEDGER_ERRORS, Family::default()),
        }
    }

    /// Counts a call that was refused.
    pub fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&vec![("reason", reason.to_owned())]).inc();
    }

    /// Counts a failure.
    pub fn error(&self, kind: &'static str) {
        self.errors.get_or_create(&vec![("kind", kind.to_owned())]).inc();
    }

    /// Failures of that kind so far.
    #[must_use]
    pub fn errors(&self, kind: &'static str) -> u64 {
        self.errors.get_or_create(&vec![("kind", kind.to_owned())]).get()
    }

    /// How many calls have begun and not ended.
    pub fn open_calls(&self, calls: usize) {
        self.open.set(i64::try_from(calls).unwrap_or(i64::MAX));
    }

    /// How large the spool is.
    pub fn spool_bytes(&self, bytes: u64) {
        self.spool.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// How far behind the database is, in milliseconds.
    pub fn behind_ms(&self, millis: u64) {
        self.behind.set(std::time::Duration::from_millis(millis).as_secs_f64());
    }
}
