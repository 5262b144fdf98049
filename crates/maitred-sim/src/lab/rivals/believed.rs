//! What a rival believes the endpoints to have cached: what it sent there, in a bounded LRU per endpoint.

use maitred_types::PromptChain;

use crate::kv::KeyMap;
use crate::lab::EndpointFacts;

/// How a believed cache is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Belief {
    /// Tokens per entry: every entry stands for as many of the engine's blocks as these fill.
    pub entry_tokens: u32,
    /// Entries per endpoint.
    pub capacity: Capacity,
    /// What counts as a match.
    pub matching: Matching,
}

/// How many entries an endpoint has.
#[derive(Clone, Copy, Debug)]
pub(super) enum Capacity {
    /// As many as the endpoint has KV blocks, whatever an entry holds.
    KvBlocks,
    /// As many as hold the tokens of the endpoint's KV pool.
    KvTokens,
}

/// What counts as a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Matching {
    /// The leading entries that the endpoint has, up to the first that it has not.
    Contiguous,
    /// Every entry that the endpoint has, up to the first that no endpoint has.
    UntilNobodyHolds,
}

/// One memory per endpoint.
#[derive(Debug)]
pub(super) struct BelievedCaches {
    belief: Belief,
    /// The engine's blocks in one entry.
    stride: usize,
    block_size: u32,
    caches: Vec<LruSet>,
}

impl BelievedCaches {
    pub(super) fn new(endpoints: &[EndpointFacts], belief: Belief) -> Self {
        let block_size = endpoints.first().map_or(1, |facts| facts.block_size.max(1));
        let entry_tokens = belief.entry_tokens.max(block_size);
        let capacity = |facts: &EndpointFacts| match belief.capacity {
            Capacity::KvBlocks => facts.blocks,
            Capacity::KvTokens => facts.blocks.saturating_mul(facts.block_size) / entry_tokens,
        };
        Self {
            belief,
            stride: (entry_tokens / block_size) as usize,
            block_size,
            caches: endpoints.iter().map(|facts| LruSet::new(capacity(facts))).collect(),
        }
    }

    /// The hashes of a chain's entries.
    fn entries<'a>(&self, chain: &'a PromptChain) -> impl DoubleEndedIterator<Item = u64> + 'a {
        let stride = self.stride;
        chain.hashes().chunks_exact(stride).map(move |chunk| chunk[stride - 1])
    }

    /// Sets `tokens` to the prompt tokens that each endpoint is believed to have.
    pub(super) fn matched(&self, chain: &PromptChain, tokens: &mut [u32]) {
        let per_entry = self
            .block_size
            .saturating_mul(u32::try_from(self.stride).unwrap_or(u32::MAX));
        if self.belief.matching == Matching::Contiguous {
            for (cache, tokens) in self.caches.iter().zip(tokens) {
                let held = self.entries(chain).take_while(|hash| cache.holds(*hash)).count();
                *tokens = per_entry.saturating_mul(u32::try_from(held).unwrap_or(u32::MAX));
            }
            return;
        }
        tokens.fill(0);
        for hash in self.entries(chain) {
            let mut is_held = false;
            for (cache, tokens) in self.caches.iter().zip(&mut *tokens) {
                if cache.holds(hash) {
                    *tokens = tokens.saturating_add(per_entry);
                    is_held = true;
                }
            }
            if !is_held {
                break;
            }
        }
    }

    /// Notes that an endpoint will have this prompt. Its last entry is the first to be forgotten, as in an engine.
    pub(super) fn insert(&mut self, endpoint: usize, chain: &PromptChain) {
        let entries = self.entries(chain).rev();
        for hash in entries {
            self.caches[endpoint].touch(hash);
        }
    }

    /// Forgets an endpoint.
    pub(super) fn clear(&mut self, endpoint: usize) {
        if let Some(cache) = self.caches.get_mut(endpoint) {
            *cache = LruSet::new(cache.capacity);
        }
    }

    /// What an endpoint would lose to make room for `entries` more: how often each of the lost ones was asked for, oldest first.
    pub(super) fn evicted(&self, endpoint: usize, entries: u32) -> impl Iterator<Item = u32> + '_ {
        let cache = &self.caches[endpoint];
        let held = u32::try_from(cache.slots.len()).unwrap_or(u32::MAX);
        let lost = (held.saturating_add(entries)).saturating_sub(cache.capacity).min(held);
        cache.oldest().take(lost as usize)
    }
}

/// Marks the end of the list.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Slot {
    hash: u64,
    newer: u32,
    older: u32,
    uses: u32,
}

/// A set that forgets what was touched least recently.
#[derive(Clone, Debug)]
struct LruSet {
    capacity: u32,
    places: KeyMap<u64, u32>,
    slots: Vec<Slot>,
    newest: u32,
    oldest: u32,
}

impl LruSet {
    fn new(capacity: u32) -> Self {
        Self {
            capacity: capacity.max(1),
            places: KeyMap::default(),
            slots: Vec::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    fn holds(&self, hash: u64) -> bool {
        self.places.contains_key(&hash)
    }

    fn touch(&mut self, hash: u64) {
        let place = match self.places.get(&hash) {
            Some(place) => {
                let place = *place;
                self.unlink(place);
                place
            }
            None => self.vacate(hash),
        };
        self.slots[place as usize].uses = self.slots[place as usize].uses.saturating_add(1);
        self.link_newest(place);
    }

    /// A slot for a new hash: a fresh one, or that of the oldest. It is in no list.
    fn vacate(&mut self, hash: u64) -> u32 {
        let slot = Slot {
            hash,
            newer: NONE,
            older: NONE,
            uses: 0,
        };
        let held = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
        let place = if held < self.capacity {
            self.slots.push(slot);
            held
        } else {
            let place = self.oldest;
            self.unlink(place);
            self.places.remove(&self.slots[place as usize].hash);
            self.slots[place as usize] = slot;
            place
        };
        self.places.insert(hash, place);
        place
    }

    fn unlink(&mut self, place: u32) {
        let Slot { newer, older, .. } = self.slots[place as usize];
        match self.slots.get_mut(newer as usize) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn link_newest(&mut self, place: u32) {
        let older = self.newest;
        self.slots[place as usize].newer = NONE;
        self.slots[place as usize].older = older;
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = place,
            None => self.oldest = place,
        }
        self.newest = place;
    }

    fn oldest(&self) -> impl Iterator<Item = u32> + '_ {
        let mut place = self.oldest;
        std::iter::from_fn(move || {
            let slot = self.slots.get(place as usize)?;
            place = slot.newer;
            Some(slot.uses)
        })
    }
}

/// The chains of calls that are under way at one endpoint, each block counted once however many of them have it.
#[derive(Debug, Default)]
pub(super) struct LiveChains {
    uses: KeyMap<u64, u32>,
}

impl LiveChains {
    /// How many different blocks there are.
    pub(super) fn blocks(&self) -> usize {
        self.uses.len()
    }

    /// How many leading blocks of the chain are there. All of a chain is there or none of it, so a bisection finds it.
    pub(super) fn matched(&self, chain: &PromptChain) -> usize {
        chain.hashes().partition_point(|hash| self.uses.contains_key(hash))
    }

    pub(super) fn add(&mut self, chain: &PromptChain) {
        for hash in chain.hashes() {
            *self.uses.entry(*hash).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, chain: &PromptChain) {
        for hash in chain.hashes() {
            if let Some(uses) = self.uses.get_mut(hash) {
                *uses -= 1;
                if *uses == 0 {
                    self.uses.remove(hash);
                }
            }
        }
    }
}
