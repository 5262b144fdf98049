//! Whether the index is worth its work, measured on the calls themselves.
//!
//! For each call that is looked up, it is seen what the candidate that holds most of its prompt holds. Over a window of calls, and of time,
//! that is a share of all prompt tokens. Traffic without shared prefixes gives exactly nothing. When the share is too small the index is
//! switched off but for one call in eight drawn at random; those keep a small index alive, and
//! when they show sharing again it is switched on. A beginning that every candidate holds is no reason to choose one of them, but one to stay
//! on: without it each call would be taken to have its whole prompt computed, and idle endpoints to have no room. A pair of calls that share something is rarely in the sample as a pair, so that
//! what the sample shows is less than what there is; the limit is low for that reason.

use std::time::Duration;

use fastrand::Rng;
use maitred_types::Time;

use crate::options::PrefixOptions;

/// One in so many calls is looked at while the index is off.
const SAMPLE: f32 = 8.0;
/// Looked-up calls that are enough to switch on again.
const SHORT_WINDOW: u32 = 64;

/// What a window of calls, or all of them, add up to, in prompt tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sums {
    pub(super) calls: u64,
    pub(super) prompt: f64,
    pub(super) best: f64,
    pub(super) random: f64,
    pub(super) chosen: f64,
}

impl Sums {
    fn add(&mut self, seen: &Seen) {
        self.calls += 1;
        self.prompt += f64::from(seen.prompt);
        self.best += f64::from(seen.best);
        self.random += f64::from(seen.random);
    }

    fn shared(&self) -> f64 {
        if self.prompt > 0.0 {
            self.best / self.prompt
        } else {
            0.0
        }
    }
}

/// One look-up, in prompt tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) prompt: f32,
    /// What the candidate that holds most of it holds.
    pub(crate) best: f32,
    /// What the candidates hold on average.
    pub(crate) random: f32,
}

/// What a look-up led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Switch {
    On,
    Off,
}

#[derive(Debug)]
pub(super) struct Benefit {
    is_on: bool,
    /// Look-ups that are due while the index is off.
    credit: f32,
    rng: Rng,
    window: Sums,
    since: Time,
    pub(super) all: Sums,
    pub(super) skipped: u64,
    pub(super) switches: u64,
}

impl Benefit {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            is_on: true,
            credit: 0.0,
            rng: Rng::with_seed(seed),
            window: Sums::default(),
            since: Time::ZERO,
            all: Sums::default(),
            skipped: 0,
            switches: 0,
        }
    }

    pub(super) const fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether a call is to be looked up. To be asked once per call, those without a chain included.
    pub(super) fn wants(&mut self, has_chain: bool) -> bool {
        if self.is_on {
            return has_chain;
        }
        self.credit = (self.credit + self.rng.f32() * 2.0 / SAMPLE).min(2.0);
        let is_due = has_chain && self.credit >= 1.0;
        if is_due {
            self.credit -= 1.0;
        } else {
            self.skipped += u64::from(has_chain);
        }
        is_due
    }

    /// Counts a look-up, and decides at the end of a window.
    pub(super) fn saw(&mut self, seen: &Seen, options: &PrefixOptions, now: Time) -> Option<Switch> {
        self.all.add(seen);
        if self.window.calls == 0 {
            self.since = now;
        }
        self.window.add(seen);
        let (calls, time) = if self.is_on {
            (options.window, options.window_time)
        } else {
            (options.window.min(SHORT_WINDOW), Duration::ZERO)
        };
        if self.window.calls < u64::from(calls) || now.since(self.since) < time {
            return None;
        }
        let shared = std::mem::take(&mut self.window).shared();
        let is_worth_it = shared >= f64::from(options.min_gain);
        if is_worth_it == self.is_on {
            return None;
        }
        self.is_on = is_worth_it;
        self.credit = 0.0;
        self.switches += 1;
        Some(if is_worth_it { Switch::On } else { Switch::Off })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn look(benefit: &mut Benefit, best: f32, now: Time) -> Option<Switch> {
        let seen = Seen {
            prompt: 1_000.0,
            best,
            random: best / 4.0,
        };
        benefit
            .wants(true)
            .then(|| benefit.saw(&seen, &PrefixOptions::default(), now))?
    }

    #[test]
    fn without_sharing_it_goes_off_and_comes_back_with_it() {
        let (mut benefit, mut now) = (Benefit::new(1), Time::ZERO);
        let mut play = |benefit: &mut Benefit, best: f32, calls: u32| {
            (0..calls).find_map(|call| {
                now = now + SECOND / 10;
                look(benefit, best, now).map(|switch| (switch, call))
            })
        };
        assert_eq!(play(&mut benefit, 300.0, 10_000), None);
        let (switch, calls) = play(&mut benefit, 0.0, 10_000).unwrap();
        assert_eq!(switch, Switch::Off);
        assert!(calls < 2_200, "{calls}");
        let before = benefit.all.calls;
        assert_eq!(play(&mut benefit, 0.0, 8_000), None);
        let sampled = benefit.all.calls - before;
        assert!((850..1_150).contains(&sampled), "{sampled} of 8,000 are looked up");
        let (switch, calls) = play(&mut benefit, 30.0, 10_000).unwrap();
        assert_eq!(switch, Switch::On);
        assert!(calls < 1_200, "{calls}");
        assert_eq!(benefit.switches, 2);
    }

    #[test]
    fn what_all_hold_keeps_it_on() {
        let (mut benefit, mut now) = (Benefit::new(1), Time::ZERO);
        let everywhere = Seen {
            prompt: 1_000.0,
            best: 900.0,
            random: 900.0,
        };
        let off = (0..10_000).find_map(|_| {
            now = now + SECOND;
            benefit.saw(&everywhere, &PrefixOptions::default(), now)
        });
        assert_eq!(off, None, "or all prompts would be taken to be computed");
    }

    #[test]
    fn a_burst_is_no_window() {
        let mut benefit = Benefit::new(1);
        let off = (0..100_000).find_map(|_| look(&mut benefit, 0.0, Time::from_millis(5)));
        assert_eq!(off, None, "a conversation's next turn takes longer than that");
    }

    #[test]
    fn a_caller_that_sends_few_chains_while_off_is_heard_with_all_of_them() {
        let mut benefit = Benefit::new(1);
        benefit.is_on = false;
        let heard = (0..800).filter(|call| benefit.wants(call % 16 == 0)).count();
        assert!(heard >= 48, "{heard} of 50");
    }
}
