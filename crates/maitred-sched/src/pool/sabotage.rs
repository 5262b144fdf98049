//! Ways to break the code on purpose, so that tests can see that the checks fire. Outside of tests there are none.

use crate::pool::Pool;

/// A way to break the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sabotage {
    /// A lease can be finished more than once.
    FinishTwice,
    /// A finished lease stays in its endpoint's count.
    LoseRelease,
    /// Excluded and unready endpoints are candidates.
    SkipHardFilters,
    /// Caps are not looked at.
    SkipCaps,
    /// A waiting call that leaves is not counted.
    LoseTicket,
    /// The limits of room are not looked at.
    SkipRoom,
    /// As many calls wait as come.
    EndlessRoom,
    /// Who came last goes first.
    LastFirst,
    /// Choices depend on something outside.
    #[cfg(test)]
    AmbientChance,
}

#[cfg(test)]
impl Pool {
    pub(super) fn is_sabotaged(&self, way: Sabotage) -> bool {
        self.sabotage == Some(way)
    }

    /// Under [`Sabotage::AmbientChance`]: seeds the generator with something that is different each time.
    pub(super) fn disturb(&mut self) {
        use std::sync::atomic::{AtomicU64, Ordering};
        static TIMES: AtomicU64 = AtomicU64::new(0);
        if self.is_sabotaged(Sabotage::AmbientChance) {
            self.rng.seed(TIMES.fetch_add(1, Ordering::Relaxed));
        }
    }
}

#[cfg(not(test))]
#[expect(clippy::unused_self, reason = "the tests' twins of these functions read the pool")]
impl Pool {
    pub(super) const fn is_sabotaged(&self, _way: Sabotage) -> bool {
        false
    }

    pub(super) const fn disturb(&self) {}
}
