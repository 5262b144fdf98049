//! Fractions as whole numbers, so that what is written down and read again is the same to the last bit.

/// A whole, in millionths.
pub(super) const PPM: u64 = 1_000_000;

/// Millionths as a fraction.
#[expect(clippy::cast_precision_loss, reason = "sums stay far below 2^53")]
pub(super) fn ratio(millionths: u64) -> f64 {
    millionths as f64 / 1e6
}

/// A fraction in millionths. What is below nothing is nothing.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast from a float saturates, and negative numbers become nothing as is wanted"
)]
pub(super) fn ppm(fraction: f64) -> u64 {
    (fraction * 1e6).round() as u64
}
