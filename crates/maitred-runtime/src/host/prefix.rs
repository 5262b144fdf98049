//! The prefix index of a pool, as the tasks around it and the data path see it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use maitred_obs::PrefixSample;
use maitred_sched::{PrefixSnapshot, SnapshotError};
use maitred_types::{Address, EndpointId, Time};

use super::PoolHost;
use crate::sample;

/// While the index is off, one prompt in so many is cut into blocks. Twice as often as the core looks one up, so that it finds one at
/// hand when one is due.
const SAMPLE: u32 = 4;

/// Whether prompts are worth being cut into blocks; read by each call without the pool's lock.
#[derive(Debug)]
pub(super) struct ChainSwitch {
    is_on: AtomicBool,
    asked: AtomicU32,
}

impl ChainSwitch {
    pub(super) const fn new() -> Self {
        Self {
            is_on: AtomicBool::new(true),
            asked: AtomicU32::new(0),
        }
    }

    pub(super) fn set(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Nothing else is read that hangs on it, so the order among threads does not matter.
    fn wants(&self) -> bool {
        if self.is_on.load(Ordering::Relaxed) {
            return true;
        }
        // The factor is 2^32 over the golden ratio: which calls are taken follows no rhythm that traffic could have.
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        asked.wrapping_mul(0x9e37_79b9) < u32::MAX / SAMPLE
    }
}

/// The process behind an endpoint, if its page says when it was started: the mark of its life. In milliseconds of Unix time.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast saturates, and what is no time matches nothing else"
)]
pub(super) fn mark(started: f64) -> u64 {
    (started * 1_000.0).round() as u64
}

impl PoolHost {
    /// The prefix index as metrics show it.
    pub(crate) fn prefix_sample(&self) -> PrefixSample {
        let figures = self.core.lock().pool.prefix_figures();
        sample::of_prefixes(&self.name, &figures)
    }

    /// Whether a call's prompt is to be cut into blocks and looked up. Where calls share too little the core looks up a sample of them
    /// only, and hashing the others' prompts would be work for nothing.
    #[must_use]
    pub fn wants_chain(&self) -> bool {
        self.chains.wants()
    }

    /// Keeps when the process behind an endpoint was started, in seconds of Unix time as its page says.
    pub(crate) fn keep_started(&self, id: EndpointId, started: Option<f64>) {
        let mut core = self.core.lock();
        if let Some(wanted) = core.wanted.values_mut().find(|wanted| wanted.id == id) {
            wanted.mark = started.map(mark);
        }
    }

    /// The endpoints that are wanted and whose mark is known.
    pub(crate) fn marked(&self) -> Vec<(Address, EndpointId, u64)> {
        let core = self.core.lock();
        let marked = core.wanted.iter();
        marked
            .filter_map(|(address, wanted)| Some((address.clone(), wanted.id, wanted.mark?)))
            .collect()
    }

    /// What one endpoint holds, as bytes, at most `budget` of them.
    pub(crate) fn export_prefixes(&self, id: EndpointId, mark: u64, budget: usize) -> Option<Vec<u8>> {
        self.core.lock().pool.export_prefixes(id, mark, budget)
    }

    pub(crate) fn import_prefixes(
        &self,
        id: EndpointId,
        mark: u64,
        snapshot: &PrefixSnapshot,
        now: Time,
    ) -> Result<u64, SnapshotError> {
        self.with_core(now, |core| core.pool.import_prefixes(id, mark, snapshot, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_prompts_are_cut_into_blocks_or_one_in_four() {
        let switch = ChainSwitch::new();
        let wanted = |switch: &ChainSwitch| (0..10_000).filter(|_| switch.wants()).count();
        assert_eq!(wanted(&switch), 10_000);
        switch.set(false);
        let some = wanted(&switch);
        assert!((2_450..2_550).contains(&some), "{some}");
        switch.set(true);
        assert_eq!(wanted(&switch), 10_000);
    }
}
