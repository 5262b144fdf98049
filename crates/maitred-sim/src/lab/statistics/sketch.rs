//! Quantiles in constant memory.

/// How far a quantile may be from the exact one, as a fraction of it.
pub const RELATIVE_ERROR: f64 = 0.005;
/// What is smaller counts as zero: a nanosecond, where seconds are counted.
const FLOOR: f64 = 1e-9;
/// What is larger counts as this much.
const CEILING: f64 = 1e9;
/// ln γ, where γ = (1 + α) / (1 − α) is the ratio of a bucket's bounds and α the relative error.
const LOG_RATIO: f64 = 0.010_000_083_335_000_06;

/// A histogram with logarithmic buckets, as in `DDSketch` (Masson, Rim and Lee, VLDB 2019): bucket `i` holds what lies in
/// (γⁱ⁻¹, γⁱ], and stands for 2·γⁱ / (γ + 1), which is within [`RELATIVE_ERROR`] of everything in it. Buckets outside the range
/// seen take no memory; the whole range would take 33 KB.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sketch {
    /// The bucket that `counts[0]` counts.
    first: usize,
    counts: Vec<u64>,
    /// Values that count as zero.
    zeros: u64,
    count: u64,
    sum: f64,
    min: f64,
    max: f64,
}

impl Sketch {
    /// Of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts `value`. What is not a number is left out; what is negative counts as zero.
    pub fn add(&mut self, value: f64) {
        if value.is_nan() {
            return;
        }
        let value = value.clamp(0.0, CEILING);
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = if self.count == 0 { value } else { self.max.max(value) };
        self.count += 1;
        self.sum += value;
        if value < FLOOR {
            self.zeros += 1;
        } else {
            let bucket = bucket_of(value);
            self.reach(bucket);
            self.counts[bucket - self.first] += 1;
        }
    }

    /// Counts everything that `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 {
            other.min
        } else {
            self.min.min(other.min)
        };
        self.max = if self.count == 0 {
            other.max
        } else {
            self.max.max(other.max)
        };
        self.count += other.count;
        self.sum += other.sum;
        self.zeros += other.zeros;
        for (offset, count) in other.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            self.reach(other.first + offset);
            self.counts[other.first + offset - self.first] += count;
        }
    }

    /// How many values have been counted.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Their mean, exactly; zero of nothing.
    #[must_use]
    pub fn mean(&self) -> f64 {
        super::fraction(self.sum, self.count as f64)
    }

    /// The smallest value, exactly; zero of nothing.
    #[must_use]
    pub const fn min(&self) -> f64 {
        self.min
    }

    /// The largest value, exactly; zero of nothing.
    #[must_use]
    pub const fn max(&self) -> f64 {
        self.max
    }

    /// The value at rank ⌈q·n⌉ (nearest rank, as in a sorted list), within [`RELATIVE_ERROR`]; zero of nothing.
    #[must_use]
    pub fn quantile(&self, q: f64) -> f64 {
        let rank = (q.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0);
        if rank >= self.count as f64 {
            return self.max;
        }
        let mut below = self.zeros as f64;
        if below >= rank {
            return self.min;
        }
        for (offset, count) in self.counts.iter().enumerate() {
            below += *count as f64;
            if below >= rank {
                return value_of(self.first + offset).clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// The share of values up to `value`, within the resolution of a bucket; zero of nothing.
    #[must_use]
    pub fn share_up_to(&self, value: f64) -> f64 {
        if value >= self.max {
            return if self.count == 0 { 0.0 } else { 1.0 };
        }
        let up_to = if value < FLOOR { 0 } else { bucket_of(value) + 1 };
        let buckets = up_to.saturating_sub(self.first).min(self.counts.len());
        let counted = self.zeros + self.counts[..buckets].iter().sum::<u64>();
        super::fraction(counted as f64, self.count as f64)
    }

    /// Makes room for `bucket`.
    fn reach(&mut self, bucket: usize) {
        if self.counts.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            let missing = self.first - bucket;
            self.counts.splice(0..0, std::iter::repeat_n(0, missing));
            self.first = bucket;
        }
        let length = bucket - self.first + 1;
        if length > self.counts.len() {
            self.counts.resize(length, 0);
        }
    }
}

/// The bucket of a value between [`FLOOR`] and [`CEILING`].
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and ln(CEILING / FLOOR) / LOG_RATIO, which is 4145"
)]
fn bucket_of(value: f64) -> usize {
    ((value / FLOOR).ln() / LOG_RATIO).ceil().max(0.0) as usize
}

fn value_of(bucket: usize) -> f64 {
    let upper = FLOOR * (bucket as f64 * LOG_RATIO).exp();
    2.0 * upper / (LOG_RATIO.exp() + 1.0)
}
