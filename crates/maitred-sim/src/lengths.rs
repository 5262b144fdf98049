//! How long answers are.

use crate::request::FinishReason;

/// The distribution of answer lengths: log-normal, which is what published traces look like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OutputLength {
    /// Mean, in tokens.
    pub mean: f64,
    /// Coefficient of variation: standard deviation over mean. Zero makes every answer as long as the mean.
    pub variation: f64,
}

/// What the client allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LengthLimits {
    /// Most tokens, from `max_tokens` or from the context that is left.
    pub max_tokens: u32,
    /// Fewest tokens.
    pub min_tokens: u32,
    /// Whether the answer goes on to `max_tokens` in any case, as load generators ask with `ignore_eos`.
    pub ignore_eos: bool,
}

impl OutputLength {
    /// The length drawn from `seed` within `limits`, and why the answer ends there. Never below one token.
    #[must_use]
    pub fn draw(&self, limits: LengthLimits, seed: u64) -> (u32, FinishReason) {
        let max = limits.max_tokens.max(1);
        if limits.ignore_eos {
            return (max, FinishReason::Length);
        }
        let wanted = self.sample(seed).max(limits.min_tokens).max(1);
        if wanted <= max {
            (wanted, FinishReason::Stop)
        } else {
            (max, FinishReason::Length)
        }
    }

    fn sample(&self, seed: u64) -> u32 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let spread = (1.0 + self.variation * self.variation).ln();
        // Box and Muller's transform; 1 − u lies in (0, 1], where the logarithm is finite.
        let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * rng.f64()).cos();
        let tokens = (self.mean.max(1.0).ln() - spread / 2.0 + spread.sqrt() * normal).exp();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to the range just before"
        )]
        let tokens = tokens.round().clamp(1.0, f64::from(u32::MAX)) as u32;
        tokens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_lengths_have_the_mean_and_variation_asked_for() {
        let length = OutputLength {
            mean: 300.0,
            variation: 0.8,
        };
        let limits = LengthLimits {
            max_tokens: u32::MAX,
            ..LengthLimits::default()
        };
        let drawn: Vec<f64> = (0..20_000).map(|seed| f64::from(length.draw(limits, seed).0)).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let variance = drawn.iter().map(|length| (length - mean).powi(2)).sum::<f64>() / drawn.len() as f64;
        assert!((mean - 300.0).abs() < 6.0, "{mean}");
        assert!(
            (variance.sqrt() / mean - 0.8).abs() < 0.05,
            "{}",
            variance.sqrt() / mean
        );
    }

    #[test]
    fn limits_hold() {
        let length = OutputLength {
            mean: 50.0,
            variation: 0.0,
        };
        let check = |max_tokens, min_tokens, ignore_eos, expected| {
            assert_eq!(
                length.draw(
                    LengthLimits {
                        max_tokens,
                        min_tokens,
                        ignore_eos
                    },
                    3
                ),
                expected
            );
        };
        check(100, 0, false, (50, FinishReason::Stop));
        check(20, 0, false, (20, FinishReason::Length));
        check(100, 80, false, (80, FinishReason::Stop));
        check(100, 0, true, (100, FinishReason::Length));
        check(0, 0, false, (1, FinishReason::Length));
        assert_eq!(
            length
                .draw(
                    LengthLimits {
                        max_tokens: 9,
                        ..Default::default()
                    },
                    1
                )
                .0,
            9
        );
    }
}
