//! LoRA adapters: which exist, which are on the GPU, who uses them.

use std::time::Duration;

use maitred_types::{ModelName, Time};

/// Most adapters that one engine can name.
pub const MAX_ADAPTERS: usize = 64;

/// The place of an adapter in [`LoraOptions::adapters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AdapterIndex(u8);

impl AdapterIndex {
    /// The adapter at `index`; `None` beyond [`MAX_ADAPTERS`].
    #[must_use]
    pub fn new(index: usize) -> Option<Self> {
        u8::try_from(index).ok().filter(|_| index < MAX_ADAPTERS).map(Self)
    }

    /// The index.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }

    const fn bit(self) -> u64 {
        1 << self.0
    }
}

/// How an engine handles adapters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoraOptions {
    /// The adapters' names. Those beyond [`MAX_ADAPTERS`] cannot be asked for.
    pub adapters: Vec<ModelName>,
    /// How many are on the GPU at once (`max_loras`). At least one.
    pub resident: usize,
    /// How long a step is held up by bringing one onto the GPU. Published figures lie between 0.1 and 1 s.
    pub load_time: Duration,
}

/// The adapters' state.
#[derive(Clone, Debug)]
pub(crate) struct Adapters {
    running: [u32; MAX_ADAPTERS],
    waiting: [u32; MAX_ADAPTERS],
    /// When each adapter was last placed; `None` when it is not on the GPU.
    resident: [Option<Time>; MAX_ADAPTERS],
    known: usize,
    slots: usize,
}

impl Adapters {
    pub(crate) fn new(options: Option<&LoraOptions>) -> Self {
        Self {
            running: [0; MAX_ADAPTERS],
            waiting: [0; MAX_ADAPTERS],
            resident: [None; MAX_ADAPTERS],
            known: options.map_or(0, |options| options.adapters.len().min(MAX_ADAPTERS)),
            slots: options.map_or(0, |options| options.resident.max(1)),
        }
    }

    pub(crate) const fn knows(&self, adapter: AdapterIndex) -> bool {
        adapter.get() < self.known
    }

    /// Whether the engine has adapters at all.
    pub(crate) const fn any(&self) -> bool {
        self.known > 0
    }

    /// Whether a slot can be had for `adapter`: its own, a free one, or that of an adapter which no running request uses.
    pub(crate) fn has_slot(&self, adapter: AdapterIndex) -> bool {
        self.resident[adapter.get()].is_some() || self.resident_count() < self.slots || self.oldest_idle().is_some()
    }

    /// Puts `adapter` into a slot, if need be that of the adapter that has been idle longest; whether it must be loaded.
    pub(crate) fn place(&mut self, adapter: AdapterIndex, now: Time) -> bool {
        let must_load = self.resident[adapter.get()].is_none();
        if must_load
            && self.resident_count() >= self.slots
            && let Some(index) = self.oldest_idle()
        {
            self.resident[index] = None;
        }
        self.resident[adapter.get()] = Some(now);
        must_load
    }

    fn resident_count(&self) -> usize {
        self.resident.iter().flatten().count()
    }

    fn oldest_idle(&self) -> Option<usize> {
        let idle = (0..self.known).filter(|index| self.running[*index] == 0);
        idle.filter_map(|index| self.resident[index].map(|placed| (placed, index)))
            .min()
            .map(|(_, index)| index)
    }

    pub(crate) fn enqueue(&mut self, adapter: Option<AdapterIndex>) {
        if let Some(adapter) = adapter {
            self.waiting[adapter.get()] += 1;
        }
    }

    pub(crate) fn dequeue(&mut self, adapter: Option<AdapterIndex>) {
        if let Some(adapter) = adapter {
            self.waiting[adapter.get()] -= 1;
        }
    }

    pub(crate) fn start(&mut self, adapter: Option<AdapterIndex>) {
        if let Some(adapter) = adapter {
            self.running[adapter.get()] += 1;
        }
    }

    pub(crate) fn stop(&mut self, adapter: Option<AdapterIndex>) {
        if let Some(adapter) = adapter {
            self.running[adapter.get()] -= 1;
        }
    }

    /// How many are on the GPU at once.
    pub(crate) const fn slots(&self) -> usize {
        self.slots
    }

    /// The adapters that running and waiting requests use, as bit sets.
    pub(crate) fn in_use(&self) -> (u64, u64) {
        let bits = |counts: &[u32; MAX_ADAPTERS]| {
            let used = (0..self.known).filter(|index| counts[*index] > 0);
            used.filter_map(AdapterIndex::new)
                .fold(0, |bits, adapter| bits | adapter.bit())
        };
        (bits(&self.running), bits(&self.waiting))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_go_to_the_adapter_idle_longest_and_never_from_one_in_use() {
        let names = ["a", "b", "c"].map(ModelName::from).to_vec();
        let mut adapters = Adapters::new(Some(&LoraOptions {
            adapters: names,
            resident: 2,
            load_time: Duration::from_millis(200),
        }));
        let [a, b, c] = [0, 1, 2].map(|index| AdapterIndex::new(index).unwrap());
        let place = |adapters: &mut Adapters, adapter, millis| {
            assert!(adapters.has_slot(adapter));
            adapters.place(adapter, Time::from_millis(millis))
        };
        assert!(place(&mut adapters, a, 1));
        assert!(place(&mut adapters, b, 2));
        assert!(!place(&mut adapters, a, 3), "it is there already");
        assert!(place(&mut adapters, c, 4), "in b's place, which was used before a");
        assert!(place(&mut adapters, b, 5), "in a's place");
        adapters.start(Some(b));
        adapters.start(Some(c));
        assert!(!adapters.has_slot(a));
        assert!(adapters.has_slot(b));
        adapters.stop(Some(b));
        assert!(place(&mut adapters, a, 7));
        assert!(!adapters.knows(AdapterIndex::new(3).unwrap()));
        assert_eq!(AdapterIndex::new(MAX_ADAPTERS), None);
    }

    #[test]
    fn use_is_told_apart() {
        let options = LoraOptions {
            adapters: vec!["a".into(), "b".into()],
            resident: 1,
            load_time: Duration::ZERO,
        };
        let mut adapters = Adapters::new(Some(&options));
        let [a, b] = [0, 1].map(AdapterIndex::new);
        adapters.start(a);
        adapters.enqueue(b);
        assert_eq!(adapters.in_use(), (0b01, 0b10));
        adapters.dequeue(b);
        adapters.stop(a);
        assert_eq!(adapters.in_use(), (0, 0));
    }
}
