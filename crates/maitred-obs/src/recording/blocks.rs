//! From blocks of text to blocks of tokens, under names that tell nothing.

use std::collections::BTreeMap;

use hmac::{Hmac, KeyInit as _, Mac as _};
use maitred_types::ModelName;
use sha2::Sha256;

use super::RecordedCall;

/// Most blocks of one call that are written: with blocks of 64 tokens two million tokens. Keeps a line below a megabyte.
const MAX_IDS: usize = 1 << 15;
/// Ids have so many bits, which every reader of JSON takes exactly.
const ID_BITS: u32 = 53;
/// Models of which the size of a block is remembered; what comes after them takes the size that it comes with.
const MAX_MODELS: usize = 1 << 10;
/// How much what is learned of a model's tokens must differ from what the file goes by before the file follows.
const TOLERANCE: f32 = 0.1;

/// Makes the ids of one file.
#[derive(Debug)]
pub(super) struct Blocks {
    keyed: Hmac<Sha256>,
    tokens: u32,
    /// Tokens per block of text, per model. It stands still while what is learned wavers, for equal prompts must be cut alike.
    sizes: BTreeMap<ModelName, f32>,
}

impl Blocks {
    #[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
    pub(super) fn new(key: [u8; 32], tokens: u32) -> Self {
        Self {
            keyed: Hmac::new_from_slice(&key).expect("HMAC takes a key of any length"),
            tokens: tokens.max(1),
            sizes: BTreeMap::new(),
        }
    }

    /// Tokens of a block in the file.
    pub(super) const fn tokens(&self) -> u32 {
        self.tokens
    }

    /// A name for something of this sort.
    pub(super) fn name(&self, sort: &[u8], what: &[u8]) -> u64 {
        let mut keyed = self.keyed.clone();
        keyed.update(sort);
        keyed.update(&[0]);
        keyed.update(what);
        let bytes = keyed.finalize().into_bytes();
        let first = bytes.first_chunk::<8>().copied().unwrap_or_default();
        u64::from_le_bytes(first) >> (u64::BITS - ID_BITS)
    }

    /// The ids of a prompt's full blocks of tokens; none if its blocks are not known. Each is named by the block of text in which it
    /// ends, whose hash contains all text before. What the estimate of tokens leaves over at the end is named as the call's own.
    pub(super) fn ids(&mut self, call: &RecordedCall) -> Vec<u64> {
        let Some(chain) = &call.chain else { return Vec::new() };
        let count = (call.input.get() / self.tokens) as usize;
        let per_block = self.size(&call.model, chain.tokens_per_block());
        let hashes = chain.hashes();
        let id = |at: usize| {
            let hash = hashes.get(place(at, self.tokens, per_block)).or(hashes.last());
            let is_known = place(at, self.tokens, per_block) < hashes.len();
            let mut what = [0; 17];
            what[..8].copy_from_slice(&hash.copied().unwrap_or_default().to_le_bytes());
            what[8..16].copy_from_slice(&(at as u64).to_le_bytes());
            what[16] = u8::from(is_known);
            self.name(b"block", &what)
        };
        if count > MAX_IDS {
            // A list that is not complete would be taken for wrong.
            return Vec::new();
        }
        (0..count).map(id).collect()
    }

    fn size(&mut self, model: &ModelName, learned: f32) -> f32 {
        let is_full = self.sizes.len() >= MAX_MODELS;
        match self.sizes.get_mut(model) {
            Some(size) => {
                if (learned / *size - 1.0).abs() > TOLERANCE {
                    *size = learned;
                }
                *size
            }
            None if is_full => learned,
            None => {
                self.sizes.insert(model.clone(), learned);
                learned
            }
        }
    }
}

/// The block of text in which the block of tokens number `at` ends.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of blocks are small, and a float cast saturates"
)]
fn place(at: usize, tokens: u32, per_block: f32) -> usize {
    let end = (at + 1) as f64 * f64::from(tokens);
    (end / f64::from(per_block)).ceil() as usize - 1
}
