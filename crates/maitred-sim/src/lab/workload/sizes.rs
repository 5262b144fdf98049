//! How long texts are.

use fastrand::Rng;

use crate::lengths::{LengthLimits, OutputLength};

/// A log-normal length with bounds, in tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LengthPlan {
    /// Mean before the bounds are applied.
    pub mean: f64,
    /// Standard deviation over mean; zero makes all equal.
    pub variation: f64,
    /// Shortest.
    pub min: u32,
    /// Longest.
    pub max: u32,
}

impl LengthPlan {
    /// A length of this mean and variation, up to eight times the mean.
    #[must_use]
    pub fn new(mean: u32, variation: f64) -> Self {
        Self {
            mean: f64::from(mean),
            variation,
            min: 1,
            max: mean.saturating_mul(8).max(1),
        }
    }

    pub(super) fn draw(&self, rng: &mut Rng) -> u32 {
        let length = OutputLength {
            mean: self.mean,
            variation: self.variation,
        };
        let limits = LengthLimits {
            max_tokens: self.max,
            min_tokens: self.min,
            ignore_eos: false,
        };
        length.draw(limits, rng.u64(..)).0
    }
}
