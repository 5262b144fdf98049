//! Cutting bytes into equal blocks and hashing them in a chain, whatever pieces they come in.

use smallvec::SmallVec;
use twox_hash::XxHash3_64;

/// Bytes of a partial block that are kept without an allocation; the usual block.
const INLINE: usize = 256;

/// The chain as far as it has come.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    /// Bytes per block.
    block: usize,
    /// The last full block's hash; before the first one the seed.
    last: u64,
    partial: SmallVec<[u8; INLINE]>,
    hashes: Vec<u64>,
    /// No more hashes than this are kept; what comes after them is dropped.
    room: usize,
}

impl Blocks {
    /// A chain of at most `room` blocks of `block` bytes behind `seed`.
    pub(super) fn new(block: usize, seed: u64, room: usize) -> Self {
        Self {
            block: block.max(1),
            last: seed,
            partial: SmallVec::new(),
            hashes: Vec::new(),
            room,
        }
    }

    /// Makes room for the hashes of so many bytes.
    pub(super) fn reserve(&mut self, bytes: usize) {
        self.hashes.reserve((bytes / self.block + 1).min(self.room));
    }

    /// Adds bytes. Runs that hold whole blocks are hashed where they lie.
    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        if !self.partial.is_empty() {
            let room = self.block - self.partial.len();
            let Some((head, rest)) = bytes.split_at_checked(room) else {
                self.partial.extend_from_slice(bytes);
                return;
            };
            self.partial.extend_from_slice(head);
            let hash = XxHash3_64::oneshot(&self.partial);
            self.partial.clear();
            self.close(hash);
            bytes = rest;
        }
        let mut blocks = bytes.chunks_exact(self.block);
        for block in &mut blocks {
            self.close(XxHash3_64::oneshot(block));
        }
        self.partial.extend_from_slice(blocks.remainder());
    }

    /// The hash of everything, the partial block included; for something that is not cut but named as a whole.
    pub(super) fn digest(&self) -> u64 {
        link(self.last, XxHash3_64::oneshot(&self.partial))
    }

    /// Whether no more is kept.
    pub(super) fn is_full(&self) -> bool {
        self.hashes.len() >= self.room
    }

    /// The hashes so far. The chain goes on behind them, for at most `room` more blocks.
    pub(super) fn take_hashes(&mut self, room: usize) -> Vec<u64> {
        self.room = room;
        std::mem::take(&mut self.hashes)
    }

    /// A block is full, and its own hash is `own`.
    fn close(&mut self, own: u64) {
        self.last = link(self.last, own);
        if !self.is_full() {
            self.hashes.push(self.last);
        }
    }
}

/// The hash of a block whose own hash is `own` and that follows `before`: Steele, Lea and Flood's finaliser of `SplitMix64`. For
/// either argument it is a bijection of the other, so two chains that differ in one block stay apart.
///
/// A block's own hash does not wait for the block before it, so the processor can work on several blocks at once.
pub(super) const fn link(before: u64, own: u64) -> u64 {
    let z = before.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ own;
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
