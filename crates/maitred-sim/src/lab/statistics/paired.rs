//! Whether one policy is better than another, seen over the same seeds.

use serde::Serialize;

/// A value and the bounds between which it lies with 95 % confidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    /// The estimate.
    pub mean: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

impl Interval {
    /// The mean of `samples` with its interval; that of fewer than two has no width.
    #[must_use]
    pub fn of(samples: &[f64]) -> Self {
        if samples.len() < 2 {
            let value = samples.first().copied().unwrap_or_default();
            return Self {
                mean: value,
                low: value,
                high: value,
            };
        }
        mean_interval(samples)
    }
}

/// A comparison over pairs that differ in nothing but the policy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Paired {
    /// How many pairs.
    pub pairs: usize,
    /// Ours less theirs.
    pub difference: Interval,
    /// Ours over theirs, as a geometric mean; absent where a value is not positive. 0.9 is ten per cent less.
    pub ratio: Option<Interval>,
}

impl Paired {
    /// Whether the confidence interval leaves out "no difference".
    #[must_use]
    pub fn is_significant(&self) -> bool {
        self.difference.low > 0.0 || self.difference.high < 0.0
    }
}

/// Compares `ours` with `theirs`, pair by pair, by Student's paired t. `None` for fewer than two pairs, or if their numbers
/// differ.
///
/// The ratio's interval is that of the mean of logarithms, since policies differ by factors more nearly than by amounts.
#[must_use]
pub fn paired(ours: &[f64], theirs: &[f64]) -> Option<Paired> {
    if ours.len() != theirs.len() || ours.len() < 2 {
        return None;
    }
    let pairs = || ours.iter().copied().zip(theirs.iter().copied());
    let differences: Vec<f64> = pairs().map(|(our, their)| our - their).collect();
    let ratio = pairs().all(|(our, their)| our > 0.0 && their > 0.0).then(|| {
        let logs: Vec<f64> = pairs().map(|(our, their)| (our / their).ln()).collect();
        let interval = mean_interval(&logs);
        Interval {
            mean: interval.mean.exp(),
            low: interval.low.exp(),
            high: interval.high.exp(),
        }
    });
    Some(Paired {
        pairs: ours.len(),
        difference: mean_interval(&differences),
        ratio,
    })
}

/// The mean of at least two samples with its interval.
pub(super) fn mean_interval(samples: &[f64]) -> Interval {
    let count = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / count;
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    let error = (squares / (count - 1.0) / count).sqrt();
    let half = student_t(samples.len() - 1) * error;
    Interval {
        mean,
        low: mean - half,
        high: mean + half,
    }
}

/// The 97.5 % quantile of Student's t with `freedom` degrees, from 1: a table, and above it the expansion of Cornish and Fisher,
/// which is exact there to four digits.
pub(super) fn student_t(freedom: usize) -> f64 {
    const TABLE: [f64; 12] = [
        12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010, 2.1788,
    ];
    if let Some(value) = TABLE.get(freedom.saturating_sub(1)) {
        return *value;
    }
    let (z, n) = (1.959_964_f64, freedom as f64);
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / n + second / n.powi(2) + third / n.powi(3)
}
