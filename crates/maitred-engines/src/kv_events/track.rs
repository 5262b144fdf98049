//! What is known of one endpoint's cache from its events: which blocks are there, and whether anything was missed.

use std::collections::HashSet;

use super::batch::{BlockHash, KvBatch, KvEvent};

/// Most blocks that are known by name, per endpoint. An engine with more than that is followed by counts alone.
const KNOWN_MAX: usize = 1 << 20;

/// How a batch's number goes on from the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequence {
    /// It is the first that is seen, or the next one.
    Next,
    /// Some before it are missing, from this number on.
    Gap {
        /// The first one that is missing.
        first: u64,
    },
    /// It has been seen before.
    Seen,
    /// The count has begun again: the engine has restarted.
    Restart,
}

/// What a batch did to the cache, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KvChange {
    /// Whether everything was cleared before the rest.
    pub cleared: bool,
    /// Blocks that are there now and were not before.
    pub stored: u32,
    /// Blocks that are there no more.
    pub removed: u32,
    /// Tokens per block, where it was said.
    pub block_size: Option<u32>,
}

/// One endpoint's cache as its events tell it.
#[derive(Clone, Debug, Default)]
pub struct KvTrack {
    known: HashSet<BlockHash>,
    /// Whether `known` holds every block there is, so that a name that is not known says something.
    is_whole: bool,
    next: Option<u64>,
}

impl KvTrack {
    /// Nothing known.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Blocks that are known by name.
    #[must_use]
    pub fn known(&self) -> usize {
        self.known.len()
    }

    /// The number that the next batch should have; `None` before the first.
    #[must_use]
    pub const fn next(&self) -> Option<u64> {
        self.next
    }

    /// Forgets everything: another life of the engine, or a gap that cannot be filled.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// Says how a batch's number goes on, without taking it. Numbers count from 0 in each life of an engine, so a smaller one
    /// than expected that comes live is another life, unless it was the last one.
    #[must_use]
    pub const fn look(&self, sequence: u64) -> Sequence {
        match self.next {
            None => Sequence::Next,
            Some(next) if sequence == next => Sequence::Next,
            Some(next) if sequence > next => Sequence::Gap { first: next },
            Some(next) if sequence + 1 == next => Sequence::Seen,
            Some(_) => Sequence::Restart,
        }
    }

    /// Takes a batch with its number, whatever [`KvTrack::look`] says of it.
    pub fn take(&mut self, sequence: u64, batch: &KvBatch) -> KvChange {
        // From its first batch on, an engine's every block is told.
        if sequence == 0 {
            self.known.clear();
            self.is_whole = true;
        }
        self.next = Some(sequence.saturating_add(1));
        let mut change = KvChange::default();
        for event in &batch.events {
            self.apply(event, &mut change);
        }
        change
    }

    fn apply(&mut self, event: &KvEvent, change: &mut KvChange) {
        match event {
            KvEvent::Stored(stored) if stored.place.is_own() => {
                if stored.block_size > 0 {
                    change.block_size = Some(stored.block_size);
                }
                for hash in &stored.hashes {
                    change.stored += u32::from(self.learn(*hash));
                }
            }
            KvEvent::Removed(removed) if removed.place.is_own() => {
                for hash in &removed.hashes {
                    // One that was stored before the subscription began is gone all the same.
                    let was_there = self.known.remove(hash) || !self.is_whole;
                    change.removed += u32::from(was_there);
                }
            }
            // What lies in another memory does not shorten the prefill that is reckoned with.
            KvEvent::Stored(_) | KvEvent::Removed(_) => {}
            KvEvent::Cleared => {
                self.known.clear();
                self.is_whole = true;
                *change = KvChange {
                    cleared: true,
                    block_size: change.block_size,
                    ..KvChange::default()
                };
            }
        }
    }

    /// Notes a block; says whether it is new.
    fn learn(&mut self, hash: BlockHash) -> bool {
        if self.known.len() < KNOWN_MAX {
            return self.known.insert(hash);
        }
        let is_new = !self.known.contains(&hash);
        // Not all names fit, so one that is not known says nothing any more.
        self.is_whole &= !is_new;
        is_new
    }
}
