//! The one clock of the measurement.

use std::sync::LazyLock;
use std::time::Instant;

/// Nanoseconds since the first call of this function in this process.
pub(crate) fn now_ns() -> u64 {
    static ORIGIN: LazyLock<Instant> = LazyLock::new(now);
    u64::try_from(now().duration_since(*ORIGIN).as_nanos()).unwrap_or(u64::MAX)
}

#[expect(
    clippy::disallowed_methods,
    reason = "a measurement reads the clock, here and nowhere else"
)]
fn now() -> Instant {
    Instant::now()
}
