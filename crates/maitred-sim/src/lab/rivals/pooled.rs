//! One cache of the summed size.

use crate::kv::{BlockId, BlockPool};
use crate::lab::{EndpointFacts, LabCall};
use crate::prefix::BlockHash;

/// What a pooled cache came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PooledHits {
    /// Prompt tokens.
    pub input_tokens: u64,
    /// Those of them that it held.
    pub cached_tokens: u64,
}

impl PooledHits {
    /// The part of the prompt tokens that it held.
    #[must_use]
    pub fn hit_rate(&self) -> f64 {
        super::super::statistics::fraction(self.cached_tokens as f64, self.input_tokens as f64)
    }
}

/// One LRU cache with the blocks of the whole fleet, through which all calls go in the order of their arrival: no placement
/// over caches of the same size that are emptied in the same way has more hits, but for luck. A call's prompt and answer are there
/// at once when it comes, and nothing is held while it is computed, so it is above what an engine of that size would reach.
#[derive(Debug)]
pub struct PooledCache {
    pool: BlockPool,
    block_size: u32,
    hits: PooledHits,
}

impl PooledCache {
    /// With the blocks of `endpoints`.
    #[must_use]
    pub fn new(endpoints: &[EndpointFacts]) -> Self {
        let usable = endpoints.iter().map(|facts| facts.blocks.saturating_sub(1));
        Self {
            pool: BlockPool::new(usable.fold(1_u32, u32::saturating_add)),
            block_size: endpoints.first().map_or(1, |facts| facts.block_size.max(1)),
            hits: PooledHits::default(),
        }
    }

    /// Lets a call pass.
    pub fn arrive(&mut self, call: &LabCall) {
        let input = call.input.get();
        let hashes = call.chain.hashes();
        let most = (input.saturating_sub(1) / self.block_size) as usize;
        let mut held: Vec<BlockId> = Vec::with_capacity(hashes.len());
        for hash in hashes {
            let Some((block, _)) = self.pool.find(BlockHash::new(*hash)) else {
                break;
            };
            self.pool.share(block);
            held.push(block);
        }
        let cached = u32::try_from(held.len().min(most)).unwrap_or(u32::MAX);
        self.hits.input_tokens += u64::from(input);
        self.hits.cached_tokens += u64::from(cached * self.block_size);
        let answered = call.answered(call.output);
        for hash in &answered.hashes()[held.len()..] {
            let Some(block) = self.pool.allocate() else {
                break;
            };
            self.pool.publish(block, BlockHash::new(*hash));
            held.push(block);
        }
        self.pool.release(&mut held);
    }

    /// What it came to so far.
    #[must_use]
    pub const fn hits(&self) -> PooledHits {
        self.hits
    }
}
