//! Passive ejection: an endpoint whose calls fail is left alone for a while.
//!
//! * `failures` failures in a row eject. The length is `base · 2^level`, at most `max`; each ejection raises the level by one,
//!   each `forgive_after` successes in a row lower it by one.
//! * A lease counts only against the state that it was booked in: when an endpoint dies under twenty leases, twenty
//!   failures arrive, and they are one reason, not seven.
//! * When the time is over the endpoint is **on probation**: one call at a time. The first output ends the probation, the
//!   first failure ejects again at once. An endpoint that hangs thus costs one call per ejection.
//! * Having too much to do is no failure, and a client that goes away says nothing.
//! * **Panic rule**: when every ready endpoint that a call may use is ejected or has its one probation call, ejection is
//!   ignored and all of them are candidates, since a guess beats a certain refusal. Endpoints that load, drain or have gone
//!   are never candidates, however bad things are: those are not guesses. Output from an endpoint that was picked in panic ends
//!   its ejection.

use std::time::Duration;

use maitred_types::Time;

use crate::OutlierOptions;

/// No ejection is longer than `base · 2^16`, whatever the options say.
const MAX_LEVEL: u32 = 16;

/// The record of one endpoint's calls, as far as ejection needs it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outlier {
    failed: u32,
    succeeded: u32,
    level: u32,
    ejected_at: Option<Time>,
}

impl Outlier {
    /// Failures in a row.
    pub(crate) const fn failed(&self) -> u32 {
        self.failed
    }

    /// How many doublings the next ejection carries.
    pub(crate) const fn level(&self) -> u32 {
        self.level
    }

    /// Whether a lease booked at `booked_at` says anything about the time after the last ejection.
    pub(crate) fn counts(&self, booked_at: Time) -> bool {
        self.ejected_at.is_none_or(|at| booked_at > at)
    }

    pub(crate) fn success(&mut self, booked_at: Time, options: &OutlierOptions) {
        if !self.counts(booked_at) {
            return;
        }
        self.failed = 0;
        self.succeeded += 1;
        if self.succeeded >= options.forgive_after.max(1) {
            self.succeeded = 0;
            self.level = self.level.saturating_sub(1);
        }
    }

    /// Counts a failure; the end of the ejection if it is one too many.
    pub(crate) fn failure(&mut self, lease: Failed, now: Time, options: &OutlierOptions) -> Option<Time> {
        if !self.counts(lease.booked_at) {
            return None;
        }
        self.succeeded = 0;
        self.failed += 1;
        if !lease.trial && self.failed < options.failures.max(1) {
            return None;
        }
        self.failed = 0;
        self.ejected_at = Some(now);
        let length = length(self.level, options);
        self.level = (self.level + 1).min(MAX_LEVEL);
        Some(now + length)
    }
}

/// A lease that failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    pub(crate) booked_at: Time,
    pub(crate) trial: bool,
}

fn length(level: u32, options: &OutlierOptions) -> Duration {
    options.base.saturating_mul(1 << level.min(MAX_LEVEL)).min(options.max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Time {
        Time::from_millis(secs * 1000)
    }

    fn fail(outlier: &mut Outlier, booked: u64, now: u64) -> Option<u64> {
        let lease = Failed {
            booked_at: at(booked),
            trial: false,
        };
        outlier
            .failure(lease, at(now), &OutlierOptions::default())
            .map(|until| until.since(at(now)).as_secs())
    }

    #[test]
    fn ejections_double_up_to_the_cap() {
        let mut outlier = Outlier::default();
        let mut now = 1;
        for expected in [5, 10, 20, 40, 80, 160, 300, 300] {
            assert_eq!(fail(&mut outlier, now, now), None);
            assert_eq!(fail(&mut outlier, now, now), None);
            assert_eq!(fail(&mut outlier, now, now), Some(expected));
            now += 1000;
        }
    }

    #[test]
    fn a_death_under_many_leases_is_one_reason() {
        let mut outlier = Outlier::default();
        let ejections = (0..20).filter_map(|_| fail(&mut outlier, 1, 2)).count();
        assert_eq!((ejections, outlier.level()), (1, 1));
    }

    #[test]
    fn a_success_breaks_the_row_and_ten_forgive() {
        let options = OutlierOptions::default();
        let mut outlier = Outlier::default();
        fail(&mut outlier, 1, 1);
        fail(&mut outlier, 1, 1);
        outlier.success(at(1), &options);
        assert_eq!(fail(&mut outlier, 1, 1), None);
        fail(&mut outlier, 1, 1);
        assert_eq!(fail(&mut outlier, 1, 1), Some(5));
        // Successes of leases from before the ejection forgive nothing.
        (0..50).for_each(|_| outlier.success(at(1), &options));
        assert_eq!(outlier.level(), 1);
        (0..10).for_each(|_| outlier.success(at(2), &options));
        assert_eq!(outlier.level(), 0);
    }

    #[test]
    fn the_one_call_of_a_probation_decides() {
        let mut outlier = Outlier::default();
        let trial = Failed {
            booked_at: at(1),
            trial: true,
        };
        let until = outlier.failure(trial, at(1), &OutlierOptions::default());
        assert_eq!(until, Some(at(6)));
    }
}
