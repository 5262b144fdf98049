//! How much of an endpoint's KV cache is there for prefixes, learnt from what its answers say.
//!
//! The capacity starts as the endpoint's own number of blocks times their size, less what running calls hold there beside what the
//! index counts. It is scaled by what answers report: an answer that read less from the cache than was predicted with certainty
//! takes 2 % away, one that read more adds 1 % (additive increase, multiplicative decrease, as of D.-M. Chiu, R. Jain, *Analysis of
//! the Increase and Decrease Algorithms for Congestion Avoidance*, Computer Networks 17, 1989). Where KV events are live the engine
//! says itself when it lets go of blocks, and the scale is left alone.

use std::num::NonZeroU32;

use crate::prefix::UNIT;

/// Block size taken where nobody says one.
const DEFAULT_BLOCK: u32 = 16;
/// What is left of the scale after a shortfall.
const SHRINK: f32 = 0.98;
/// What a surplus adds to the scale.
const GROW: f32 = 0.01;
/// Bounds of the scale. Above one is what a second tier in host memory adds.
const SCALE_BOUNDS: (f32, f32) = (0.02, 4.0);

/// Predicted against reported cache hits, as sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calibration {
    /// Answers that said how much of their prompt was read from the cache, and for which there was a prediction.
    pub answers: u64,
    /// Tokens predicted.
    pub predicted: u64,
    /// Tokens reported.
    pub reported: u64,
    /// Tokens by which single predictions were wrong, in either direction.
    pub error: u64,
}

impl Calibration {
    pub(super) const fn add(&mut self, predicted: u64, reported: u64) {
        self.answers += 1;
        self.predicted += predicted;
        self.reported += reported;
        self.error += predicted.abs_diff(reported);
    }
}

/// One endpoint's cache, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stock {
    /// Tokens that its KV cache holds, where that is known.
    tokens: Option<u64>,
    block_size: u32,
    scale: f32,
    /// KV tokens that running calls hold beside what the index counts.
    pub(super) beside: u64,
    /// Blocks in its cache as its events say; `None` without live events.
    stored: Option<u64>,
    pub(super) calibration: Calibration,
}

impl Stock {
    pub(super) const NEW: Self = Self {
        tokens: None,
        block_size: DEFAULT_BLOCK,
        scale: 1.0,
        beside: 0,
        stored: None,
        calibration: Calibration {
            answers: 0,
            predicted: 0,
            reported: 0,
            error: 0,
        },
    };

    /// Takes the sizes of its KV cache; none is 0.
    pub(super) fn size(&mut self, block_size: Option<u32>, blocks: Option<u32>) {
        self.block_size = block_size.filter(|size| *size > 0).unwrap_or(DEFAULT_BLOCK);
        let blocks = blocks.filter(|blocks| *blocks > 0);
        self.tokens = blocks.map(|blocks| u64::from(blocks) * u64::from(self.block_size));
    }

    pub(super) const fn block_size(&self) -> u32 {
        self.block_size
    }

    pub(super) const fn scale(&self) -> f32 {
        self.scale
    }

    pub(super) const fn has_events(&self) -> bool {
        self.stored.is_some()
    }

    /// The tokens that prefixes may take up there; `None` for no limit but the engine's own word.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive number of tokens"
    )]
    pub(super) fn capacity(&self, default: u32) -> Option<u64> {
        if self.has_events() {
            return None;
        }
        let all = self.tokens.unwrap_or_else(|| u64::from(default)) as f64 * f64::from(self.scale);
        Some((all as u64).saturating_sub(self.beside))
    }

    pub(super) const fn shrink(&mut self) {
        if self.stored.is_none() {
            self.scale = (self.scale * SHRINK).max(SCALE_BOUNDS.0);
        }
    }

    pub(super) const fn grow(&mut self) {
        if self.stored.is_none() {
            self.scale = (self.scale + GROW).min(SCALE_BOUNDS.1);
        }
    }

    /// `tokens` in whole blocks of this endpoint, at most `most`: engines keep full blocks only.
    pub(super) fn whole_blocks(&self, tokens: f32, most: f32) -> f32 {
        let block = self.block_size as f32;
        (tokens.min(most) / block).floor() * block
    }

    /// Counts blocks that the engine says it has stored. `held` is what the index holds for it, in [`UNIT`]ths.
    pub(super) fn stored(&mut self, blocks: u32, held: u64) {
        let before = self.stored.unwrap_or_else(|| held.div_ceil(self.block_units()));
        self.stored = Some(before.saturating_add(u64::from(blocks)));
    }

    /// Counts blocks that the engine says it has let go of; says how much of what the index holds goes with them, in [`UNIT`]ths. The
    /// engine's cache holds what others sent too, so only the index's share of it.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive number of tokens"
    )]
    pub(super) fn removed(&mut self, blocks: u32, held: u64) -> u64 {
        let unit = self.block_units();
        let before = self
            .stored
            .unwrap_or_else(|| held.div_ceil(unit))
            .max(u64::from(blocks));
        self.stored = Some(before - u64::from(blocks));
        let share = (held as f64 / (before.max(1) as f64 * unit as f64)).min(1.0);
        ((u64::from(blocks) * unit) as f64 * share) as u64
    }

    pub(super) const fn cleared(&mut self) {
        self.stored = Some(0);
    }

    /// Its events have a gap: what it holds is guessed again.
    pub(super) const fn lost_track(&mut self) {
        self.stored = None;
    }

    fn block_units(&self) -> u64 {
        u64::from(self.block_size) * u64::from(UNIT)
    }
}

/// A block's size in [`UNIT`]ths of a token, from its tokens.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "clamped to what fits before"
)]
pub(super) fn unit(tokens_per_block: f32) -> NonZeroU32 {
    let units = (tokens_per_block * UNIT as f32).round().clamp(1.0, 1e9);
    NonZeroU32::new(units as u32).unwrap_or(NonZeroU32::MIN)
}
