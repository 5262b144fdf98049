//! A prompt as a chain of hashed blocks.

use std::sync::Arc;

/// The full blocks of a prompt, each named by a hash that contains the hash of the block before it.
///
/// Two prompts that agree in the hash at some place therefore agree in everything before it, so the longest common prefix is
/// found by bisection. The model and the adapter are part of the first block's seed. A partial block at the end is left out,
/// since engines keep full blocks only. Cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct PromptChain {
    hashes: Arc<[u64]>,
    tokens_per_block: f32,
}

impl PromptChain {
    /// A chain of blocks that hold `tokens_per_block` tokens each, exactly or on average. What is not a positive number counts as one.
    #[must_use]
    pub fn new(hashes: impl Into<Arc<[u64]>>, tokens_per_block: f32) -> Self {
        Self {
            hashes: hashes.into(),
            tokens_per_block: if tokens_per_block > 0.0 && tokens_per_block.is_finite() {
                tokens_per_block
            } else {
                1.0
            },
        }
    }

    /// The blocks' hashes, first block first.
    #[must_use]
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// How many full blocks there are.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.hashes.len()
    }

    /// Tokens in one block; an average where blocks are cut from text and not from tokens.
    #[must_use]
    pub const fn tokens_per_block(&self) -> f32 {
        self.tokens_per_block
    }
}
