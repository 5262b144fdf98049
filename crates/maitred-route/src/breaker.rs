//! A breaker: leaves a target alone that does not answer, and comes back with one call.
//!
//! There is one breaker for each target of a route's plans. It works where there is only one target as well: then its calls fail at once,
//! and are told when to come again, instead of waiting for a dead target one by one.
//!
//! * **Failure** and **having too much to do** are told apart. [`BreakerOptions::failures`] failures in a row open the breaker for
//!   `base · 2^level`, at most `max`; each opening raises the level by one, and `forgive_after` good answers in a row lower it by
//!   one. A target that has too much to do, or whose quota is spent, is not broken: it is left alone for as long as it asks for by
//!   `Retry-After`, and not at all if it asks for nothing. That never changes the level.
//! * When the time is over **one** call is let through as a probe. Its good answer closes the breaker, its failure opens it for longer. A
//!   probe of which nothing is heard for [`BreakerOptions::probe`] is given up, and the next call is one.
//! * A call counts only against the state that it was let through in: twenty calls under which a target dies are one reason, not four, and
//!   one that was let through before an opening cannot close it.
//! * What says nothing about the target (a client that went away, a call that is wrong in itself) ends a probe without a verdict.
//!
//! # How the data path uses it
//!
//! Keep one breaker for each [`TargetId`](crate::TargetId) behind a lock that is never held across an await, for as long as the
//! target's pool or provider lives: a reload that changes other things must not forget what is broken. For each hop of a plan:
//!
//! 1. [`Breaker::ask`] before quota is reserved. [`Admission::Closed`] means that the hop is not tried: go on with
//!    [`Plan::next`](crate::Plan::next) for its reason, or, where nothing follows, answer with the fault of that reason and `until` as
//!    `Retry-After`.
//! 2. Keep the [`Pass`], and hand it back to [`Breaker::end`] exactly once: with the first good output (do not wait for the end of the
//!    stream), or with the fault with which the hop ended. A dropped pass does no harm but to a probe, which then counts as unheard of.
//! 3. Attempts inside the hop on other endpoints of a pool are one call to the breaker. Ejection inside a pool is the scheduler's.
//! 4. Each [`Turn`] goes to the log and the metrics.

use std::time::Duration;

use maitred_types::{DegradeReason, Time};

/// No opening is longer than `base · 2^16`, whatever the options say.
const LEVEL_MAX: u32 = 16;

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerOptions {
    /// Failures in a row that open it; at least one.
    pub failures: u32,
    /// How long it is open the first time.
    pub base: Duration,
    /// How long it is open at most, be it for failures or because the target asks for it.
    pub max: Duration,
    /// Good answers in a row after which an opening counts one less.
    pub forgive_after: u32,
    /// How long a probe may be silent.
    pub probe: Duration,
}

impl Default for BreakerOptions {
    fn default() -> Self {
        Self {
            failures: 5,
            base: Duration::from_secs(5),
            max: Duration::from_secs(300),
            forgive_after: 10,
            probe: Duration::from_secs(30),
        }
    }
}

/// Whether a call may go to the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Open(Pass),
    /// Not now.
    Closed {
        /// Why: [`DegradeReason::Unavailable`] after failures, otherwise what the target said.
        reason: DegradeReason,
        /// When to ask again.
        until: Time,
    },
}

/// A call that was let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The state that it counts against.
    epoch: u64,
    is_probe: bool,
}

impl Pass {
    /// Whether the target's fate hangs on it.
    #[must_use]
    pub const fn is_probe(self) -> bool {
        self.is_probe
    }
}

/// What came of a call, as far as it speaks of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// A good answer has begun.
    Good,
    /// It failed, or gave no output in time.
    Failed,
    /// It has too much to do, or its operator refuses further calls for now.
    Busy {
        /// [`DegradeReason::Overload`] or [`DegradeReason::Quota`].
        reason: DegradeReason,
        /// How long it wants to be left alone.
        retry_after: Option<Duration>,
    },
    /// Nothing.
    Silent,
}

/// How a breaker's state has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The target is left alone from now on.
    Opened {
        /// Why.
        reason: DegradeReason,
        /// Until then.
        until: Time,
    },
    /// It gets calls again.
    Closed,
}

/// The breaker of one target.
#[derive(Clone, Debug)]
pub struct Breaker {
    options: BreakerOptions,
    state: State,
    /// Grows with every change of state.
    epoch: u64,
    /// Failures in a row.
    failed: u32,
    /// Good answers in a row.
    good: u32,
    /// How many doublings the next opening carries.
    level: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Calls pass.
    Closed,
    /// None does before `until`; then one, as a probe, that began at `probing`.
    Open {
        reason: DegradeReason,
        until: Time,
        probing: Option<Time>,
    },
}

impl Breaker {
    /// A breaker of a target of which nothing is known yet.
    #[must_use]
    pub const fn new(options: BreakerOptions) -> Self {
        Self {
            options,
            state: State::Closed,
            epoch: 0,
            failed: 0,
            good: 0,
            level: 0,
        }
    }

    /// Other options, from the next opening on.
    pub const fn set_options(&mut self, options: BreakerOptions) {
        self.options = options;
    }

    /// Whether a call may go to the target now.
    pub fn ask(&mut self, now: Time) -> Admission {
        let State::Open { reason, until, probing } = self.state else {
            return self.pass(false);
        };
        // A probe of which nothing was heard for so long has been lost.
        let again = probing.map_or(until, |began| began + self.options.probe);
        if now < again {
            return Admission::Closed { reason, until: again };
        }
        self.state = State::Open {
            reason,
            until,
            probing: Some(now),
        };
        self.epoch += 1;
        self.pass(true)
    }

    /// Whether a call would be let through, without letting one through.
    #[must_use]
    pub fn would_pass(&self, now: Time) -> bool {
        match self.state {
            State::Closed => true,
            State::Open { until, probing, .. } => now >= probing.map_or(until, |began| began + self.options.probe),
        }
    }

    const fn pass(&self, is_probe: bool) -> Admission {
        Admission::Open(Pass {
            epoch: self.epoch,
            is_probe,
        })
    }

    /// Learns what came of a call.
    pub fn end(&mut self, pass: Pass, end: CallEnd, now: Time) -> Option<Turn> {
        if pass.epoch != self.epoch {
            return None;
        }
        match end {
            CallEnd::Good => self.good(pass),
            CallEnd::Failed => self.failure(pass, now),
            CallEnd::Busy { reason, retry_after } => self.busy(pass, (reason, retry_after), now),
            CallEnd::Silent => {
                self.give_up_probe();
                None
            }
        }
    }

    fn good(&mut self, pass: Pass) -> Option<Turn> {
        self.failed = 0;
        self.good += 1;
        if self.good >= self.options.forgive_after.max(1) {
            self.good = 0;
            self.level = self.level.saturating_sub(1);
        }
        pass.is_probe.then(|| {
            self.turn(State::Closed);
            Turn::Closed
        })
    }

    fn failure(&mut self, pass: Pass, now: Time) -> Option<Turn> {
        self.good = 0;
        self.failed += 1;
        if !pass.is_probe && self.failed < self.options.failures.max(1) {
            return None;
        }
        let BreakerOptions { base, max, .. } = self.options;
        let length = base.saturating_mul(1 << self.level).min(max);
        self.level = (self.level + 1).min(LEVEL_MAX);
        Some(self.open(DegradeReason::Unavailable, now + length))
    }

    fn busy(
        &mut self,
        pass: Pass,
        (reason, retry_after): (DegradeReason, Option<Duration>),
        now: Time,
    ) -> Option<Turn> {
        // Who has too much to do is there.
        self.failed = 0;
        match retry_after.filter(|wait| !wait.is_zero()) {
            Some(wait) => Some(self.open(reason, now + wait.min(self.options.max))),
            None => pass.is_probe.then(|| {
                self.turn(State::Closed);
                Turn::Closed
            }),
        }
    }

    /// The next call is a probe.
    fn give_up_probe(&mut self) {
        if let State::Open { reason, until, .. } = self.state {
            self.turn(State::Open {
                reason,
                until,
                probing: None,
            });
        }
    }

    fn open(&mut self, reason: DegradeReason, until: Time) -> Turn {
        self.failed = 0;
        self.turn(State::Open {
            reason,
            until,
            probing: None,
        });
        Turn::Opened { reason, until }
    }

    const fn turn(&mut self, state: State) {
        self.state = state;
        self.epoch += 1;
    }
}

#[cfg(test)]
mod tests;
