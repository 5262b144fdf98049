//! What many calls come to: quantiles, means, shares, goodput, and whether a difference is one.
//!
//! Everything here takes memory that does not grow with the number of calls.

mod paired;
mod shares;
mod sketch;
mod tally;

pub use paired::{Interval, Paired, paired};
pub use shares::{ShareSeries, WINDOWS_MAX};
pub use sketch::{RELATIVE_ERROR, Sketch};
pub use tally::{CALIBRATION_BINS, Calibration, CalibrationBin, Objective, SHARE_GROUPS_MAX, Tally};

/// `part` of `whole` as a fraction; none of nothing is zero.
#[must_use]
pub fn fraction(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// The largest of `work` over its mean: 1 is perfect balance, the number of endpoints is one that does everything. One of
/// nothing at all is 1.
#[must_use]
pub fn imbalance(work: &[f64]) -> f64 {
    let total: f64 = work.iter().sum();
    if total > 0.0 {
        work.iter().copied().fold(0.0, f64::max) * work.len() as f64 / total
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests;
