//! The KV pool: blocks with reference counts, a map from hashes to cached blocks, and a free list in LRU order.
//!
//! The order is vLLM's. Free blocks wait in a queue; allocation takes from its head, and what it takes loses its cached
//! content. A request gives its blocks back last block first, so of one prefix the deepest blocks are lost first. A hash hit on
//! a free block takes it out of the queue.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::prefix::BlockHash;

/// The place of a block in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BlockId(u32);

/// Block 0 is never handed out, as in vLLM, where it pads attention tables. Here it is the free list's anchor.
const ANCHOR: BlockId = BlockId(0);

impl BlockId {
    const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Most changes of the cache that wait to be asked for; later ones are not told.
const CHANGES_MAX: usize = 1 << 16;

/// What happened to the cache. The first block with a content tells; a twin is silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheChange {
    /// The content with this hash can be found.
    Stored(BlockHash),
    /// It is there no more.
    Removed(BlockHash),
}

#[derive(Clone, Copy, Debug)]
struct Block {
    references: u32,
    hash: Option<BlockHash>,
    previous: BlockId,
    next: BlockId,
}

impl Block {
    const NEW: Self = Self {
        references: 0,
        hash: None,
        previous: ANCHOR,
        next: ANCHOR,
    };
}

/// Keys are hashes already; one multiplication spreads those that are not.
#[derive(Debug, Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(29) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// A map over keys that need no protection against crafted collisions. Never iterated.
pub(crate) type KeyMap<K, V> = HashMap<K, V, BuildHasherDefault<KeyHasher>>;

/// The pool.
///
/// Blocks that were never used lie at the head of the queue, in the order of their numbers. They are not kept one by one, so
/// that an engine costs memory only for what it has used.
#[derive(Clone, Debug)]
pub(crate) struct BlockPool {
    /// Blocks that were used at least once, behind the anchor.
    blocks: Vec<Block>,
    cached: KeyMap<BlockHash, BlockId>,
    usable: u32,
    free: u32,
    /// What happened since it was last asked, if anybody asks.
    changes: Option<Vec<CacheChange>>,
}

impl BlockPool {
    /// A pool of `blocks` blocks, of which one is never used. At least two.
    pub(crate) fn new(blocks: u32) -> Self {
        let usable = blocks.max(2) - 1;
        Self {
            blocks: vec![Block::NEW],
            cached: KeyMap::default(),
            usable,
            free: usable,
            changes: None,
        }
    }

    /// From here on changes of the cache are noted.
    pub(crate) fn note_changes(&mut self) {
        self.changes.get_or_insert_default();
    }

    /// What happened to the cache since this was last called.
    pub(crate) fn take_changes(&mut self) -> Vec<CacheChange> {
        self.changes.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn note(&mut self, change: CacheChange) {
        if let Some(changes) = &mut self.changes
            && changes.len() < CHANGES_MAX
        {
            changes.push(change);
        }
    }

    /// Blocks that can be used.
    pub(crate) const fn usable(&self) -> u32 {
        self.usable
    }

    /// Blocks that no sequence holds; some of them may still cache something.
    pub(crate) const fn free(&self) -> u32 {
        self.free
    }

    /// Blocks that sequences hold.
    pub(crate) const fn used(&self) -> u32 {
        self.usable - self.free
    }

    /// The block that caches `hash`, and whether it is free.
    pub(crate) fn find(&self, hash: BlockHash) -> Option<(BlockId, bool)> {
        let block = *self.cached.get(&hash)?;
        Some((block, self.blocks[block.index()].references == 0))
    }

    /// Takes a share of a cached block.
    pub(crate) fn share(&mut self, block: BlockId) {
        if self.blocks[block.index()].references == 0 {
            self.unlink(block);
        }
        self.blocks[block.index()].references += 1;
    }

    /// Takes the least recently freed block; what it cached is lost. `None` when no block is free.
    pub(crate) fn allocate(&mut self) -> Option<BlockId> {
        let fresh = u32::try_from(self.blocks.len()).unwrap_or(u32::MAX);
        if fresh <= self.usable {
            self.blocks.push(Block {
                references: 1,
                ..Block::NEW
            });
            self.free -= 1;
            return Some(BlockId(fresh));
        }
        let block = self.blocks[ANCHOR.index()].next;
        if block == ANCHOR {
            return None;
        }
        self.unlink(block);
        let taken = &mut self.blocks[block.index()];
        taken.references = 1;
        if let Some(hash) = taken.hash.take() {
            self.cached.remove(&hash);
            self.note(CacheChange::Removed(hash));
        }
        Some(block)
    }

    /// Makes the content of a held block findable. The first block with a content keeps its name; a twin stays unnamed.
    pub(crate) fn publish(&mut self, block: BlockId, hash: BlockHash) {
        if self.blocks[block.index()].hash.is_none() {
            let holder = *self.cached.entry(hash).or_insert(block);
            if holder == block {
                self.blocks[block.index()].hash = Some(hash);
                self.note(CacheChange::Stored(hash));
            }
        }
    }

    /// Gives a sequence's blocks back, last block first.
    pub(crate) fn release(&mut self, blocks: &mut Vec<BlockId>) {
        while let Some(block) = blocks.pop() {
            let references = &mut self.blocks[block.index()].references;
            debug_assert!(*references > 0, "{block:?} released twice");
            *references -= 1;
            if *references == 0 {
                self.append(block);
            }
        }
    }

    fn append(&mut self, block: BlockId) {
        let last = self.blocks[ANCHOR.index()].previous;
        self.blocks[block.index()].previous = last;
        self.blocks[block.index()].next = ANCHOR;
        self.blocks[last.index()].next = block;
        self.blocks[ANCHOR.index()].previous = block;
        self.free += 1;
    }

    fn unlink(&mut self, block: BlockId) {
        let Block { previous, next, .. } = self.blocks[block.index()];
        self.blocks[previous.index()].next = next;
        self.blocks[next.index()].previous = previous;
        self.free -= 1;
    }

    /// Checks the pool against the blocks that sequences say they hold.
    pub(crate) fn check<'a>(&self, held: impl Iterator<Item = &'a BlockId>) -> Result<(), &'static str> {
        let mut references = vec![0_u32; self.blocks.len()];
        for block in held {
            references[block.index()] += 1;
        }
        let fresh = self.usable as usize + 1 - self.blocks.len();
        let mut free = u32::try_from(fresh).unwrap_or(u32::MAX);
        let mut block = self.blocks[ANCHOR.index()].next;
        while block != ANCHOR {
            free += 1;
            if references[block.index()] != 0 {
                return Err("a held block is on the free list");
            }
            if free > self.usable {
                return Err("the free list does not end");
            }
            block = self.blocks[block.index()].next;
        }
        if free != self.free {
            return Err("the free count differs from the free list");
        }
        let held = references.iter().filter(|count| **count > 0).count();
        if held + free as usize != self.usable as usize {
            return Err("free and held blocks do not add up to the pool");
        }
        for (index, block) in self.blocks.iter().enumerate() {
            if block.references != references[index] {
                return Err("a reference count differs from the number of holders");
            }
            let named = block.hash.and_then(|hash| self.cached.get(&hash));
            if block.hash.is_some() && named.map(|block| block.index()) != Some(index) {
                return Err("a named block is not the one its hash leads to");
            }
        }
        if self.blocks.iter().filter(|block| block.hash.is_some()).count() != self.cached.len() {
            return Err("a hash leads to a block without that name");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
