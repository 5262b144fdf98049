//! The one place that reads the operating system's clocks.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use maitred_types::{Time, UnixMillis};

/// Reads the monotone and the civil clock. Copies share their origin, so their times are comparable.
///
/// The monotone side is Tokio's, so that a test under paused time moves this clock too.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: tokio::time::Instant,
}

impl Clock {
    /// A clock whose origin is now. Make one per process and pass copies.
    #[must_use]
    pub fn start() -> Self {
        Self { origin: instant_now() }
    }

    /// The present on the monotone clock.
    #[must_use]
    pub fn now(&self) -> Time {
        Time::ZERO + instant_now().duration_since(self.origin)
    }

    /// The present in civil time. It may jump; use it for expiry dates and records only.
    #[must_use]
    pub fn unix_now(&self) -> UnixMillis {
        #[expect(
            clippy::disallowed_methods,
            reason = "the shell's clock is the one place that may read it"
        )]
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        UnixMillis::new(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
    }

    /// `time` as an instant that Tokio's timers understand.
    #[must_use]
    pub fn instant(&self, time: Time) -> tokio::time::Instant {
        self.origin + time.since(Time::ZERO)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the shell's clock is the one place that may read it"
)]
fn instant_now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}
