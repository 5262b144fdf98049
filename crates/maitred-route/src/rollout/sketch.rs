//! Quantiles of a stream of positive numbers in bounded memory, with a window that forgets.

use serde::{Deserialize, Serialize};

/// Width of a bucket: each ends at so many times its beginning.
const STEP: f64 = 1.05;
/// Where the second bucket begins: 1 µs in nanoseconds, a millionth in billionths of a currency's unit.
const LOWEST: f64 = 1_000.0;
/// Buckets; the last begins at 7 × 10¹³, which is 19 hours.
const BUCKETS: usize = 512;
/// When so many values are held, all counts are halved: values fade, and what is old counts for little.
const WINDOW: u32 = 32_768;
/// So many values must lie beyond a quantile for it to be told.
const BEYOND_MIN: f64 = 20.0;

/// A histogram with buckets of equal relative width (5 %), 2 KiB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sketch {
    counts: Vec<u32>,
    total: u32,
}

impl Sketch {
    pub(super) fn new() -> Self {
        Self {
            counts: vec![0; BUCKETS],
            total: 0,
        }
    }

    pub(super) fn add(&mut self, value: u64) {
        if let Some(count) = self.counts.get_mut(bucket(value)) {
            *count += 1;
            self.total += 1;
        }
        if self.total >= WINDOW {
            for count in &mut self.counts {
                *count /= 2;
            }
            self.total = self.counts.iter().sum();
        }
    }

    /// The number below which this part of the values lie, to within a bucket. None while too few are held to tell.
    pub(super) fn quantile(&self, part: f64) -> Option<u64> {
        let total = f64::from(self.total);
        let beyond = total * (1.0 - part);
        if beyond < BEYOND_MIN {
            return None;
        }
        let mut left = beyond;
        for (index, count) in self.counts.iter().enumerate().rev() {
            left -= f64::from(*count);
            if left < 0.0 {
                // The upper end, so that no more than the asked part lies beyond.
                return Some(upper_end(index));
            }
        }
        None
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and cut to the number of buckets"
)]
fn bucket(value: u64) -> usize {
    #[expect(clippy::cast_precision_loss, reason = "buckets are far wider than what is lost")]
    let value = value as f64;
    if value < LOWEST {
        return 0;
    }
    let place = ((value / LOWEST).ln() / STEP.ln()) as usize + 1;
    place.min(BUCKETS - 1)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive, and far below what 64 bits hold"
)]
fn upper_end(index: usize) -> u64 {
    let steps = i32::try_from(index).unwrap_or(i32::MAX);
    (LOWEST * STEP.powi(steps)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_within_a_bucket() {
        let mut sketch = Sketch::new();
        for value in 1..=10_000_u64 {
            sketch.add(value * 1_000_000);
        }
        for (part, expected) in [(0.5, 5e9), (0.95, 9.5e9), (0.99, 9.9e9)] {
            let found = sketch.quantile(part).unwrap() as f64;
            assert!((expected..expected * 1.06).contains(&found), "{part}: {found}");
        }
    }

    #[test]
    fn nothing_is_told_of_a_tail_that_was_hardly_seen() {
        let mut sketch = Sketch::new();
        for _ in 0..1_000 {
            sketch.add(5_000_000);
        }
        assert!(sketch.quantile(0.95).is_some());
        assert_eq!(sketch.quantile(0.99), None);
    }

    #[test]
    fn what_is_old_fades() {
        let mut sketch = Sketch::new();
        for value in [1_000_000, 8_000_000] {
            for _ in 0..4 * WINDOW {
                sketch.add(value);
            }
        }
        assert!(sketch.quantile(0.5).unwrap() > 7_000_000);
        assert!(sketch.total < WINDOW);
    }

    #[test]
    fn any_number_has_a_bucket() {
        let mut sketch = Sketch::new();
        for value in [0, 1, 999, 1_000, u64::MAX] {
            sketch.add(value);
        }
        assert_eq!(sketch.total, 5);
    }
}
