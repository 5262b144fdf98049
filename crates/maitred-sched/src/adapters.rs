//! Which LoRA adapters an endpoint has at hand.
//!
//! Names are kept as hashes. Between two scrapes the own leases count too: an adapter for which a call of ours is under way
//! is at least waited for, so a burst of calls for one adapter does not load it everywhere.

use smallvec::SmallVec;

use crate::hash::name_hash;
use crate::signals::LoraSignal;

/// Adapters taken from one list of an endpoint's page; the rest is ignored.
const MAX_NAMES: usize = 256;

/// Where an adapter stands on an endpoint, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdapterPlace {
    Running,
    Waiting,
    FreeSlot,
    /// The endpoint says nothing about adapters.
    Unknown,
    Full,
}

/// The adapters of one endpoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct Adapters {
    max: Option<u32>,
    running: SmallVec<[u64; 4]>,
    waiting: SmallVec<[u64; 4]>,
    /// Adapters of own live leases, with their number.
    own: SmallVec<[(u64, u32); 4]>,
}

impl Adapters {
    pub(crate) fn take(&mut self, lora: Option<&LoraSignal>) {
        self.running.clear();
        self.waiting.clear();
        self.max = lora.map(|told| told.max);
        let Some(told) = lora else { return };
        let hashes = |names: &[maitred_types::ModelName]| -> SmallVec<[u64; 4]> {
            names
                .iter()
                .take(MAX_NAMES)
                .map(|name| name_hash(name.as_str()))
                .collect()
        };
        self.running = hashes(&told.running);
        self.waiting = hashes(&told.waiting);
    }

    pub(crate) fn place(&self, adapter: u64) -> AdapterPlace {
        let Some(max) = self.max else {
            return if self.has_own(adapter) {
                AdapterPlace::Waiting
            } else {
                AdapterPlace::Unknown
            };
        };
        if self.running.contains(&adapter) {
            AdapterPlace::Running
        } else if self.waiting.contains(&adapter) || self.has_own(adapter) {
            AdapterPlace::Waiting
        } else if self.taken() < max as usize {
            AdapterPlace::FreeSlot
        } else {
            AdapterPlace::Full
        }
    }

    pub(crate) fn book(&mut self, adapter: u64) {
        match self.own.iter_mut().find(|(own, _)| *own == adapter) {
            Some((_, leases)) => *leases += 1,
            None => self.own.push((adapter, 1)),
        }
    }

    pub(crate) fn release(&mut self, adapter: u64) {
        let Some(at) = self.own.iter().position(|(own, _)| *own == adapter) else {
            return;
        };
        self.own[at].1 -= 1;
        if self.own[at].1 == 0 {
            self.own.swap_remove(at);
        }
    }

    fn has_own(&self, adapter: u64) -> bool {
        self.own.iter().any(|(own, _)| *own == adapter)
    }

    /// Slots in use or spoken for.
    fn taken(&self) -> usize {
        let waiting = self.waiting.iter().filter(|name| !self.running.contains(name));
        let own = self
            .own
            .iter()
            .filter(|(name, _)| !self.running.contains(name) && !self.waiting.contains(name));
        self.running.len() + waiting.count() + own.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_an_adapter_follows_the_page_and_own_leases() {
        let (a, b, c) = (name_hash("a"), name_hash("b"), name_hash("c"));
        let mut adapters = Adapters::default();
        assert_eq!(adapters.place(a), AdapterPlace::Unknown);
        adapters.take(Some(&LoraSignal {
            max: 2,
            running: vec!["a".into()],
            waiting: vec!["a".into()],
        }));
        assert_eq!(adapters.place(a), AdapterPlace::Running);
        assert_eq!(adapters.place(b), AdapterPlace::FreeSlot);
        adapters.book(b);
        adapters.book(b);
        assert_eq!(adapters.place(b), AdapterPlace::Waiting);
        assert_eq!(adapters.place(c), AdapterPlace::Full);
        adapters.release(b);
        assert_eq!(adapters.place(c), AdapterPlace::Full);
        adapters.release(b);
        assert_eq!(adapters.place(c), AdapterPlace::FreeSlot);
        adapters.take(None);
        assert_eq!(adapters.place(a), AdapterPlace::Unknown);
    }
}
