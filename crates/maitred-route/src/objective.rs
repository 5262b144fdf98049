//! How many answers of a route are degraded, and whether that is too many: a state machine that is fed what happens to calls, with
//! the time.
//!
//! The share of calls that could not get what they asked for is taken over a window that slides in steps. It is a breach when the
//! share over the whole window and over its newest part are both above the objective: the whole says that it matters, the newest
//! part that it is still so. The first of these is the objective itself, as a rate at which what is allowed is burnt: at a burn
//! rate of 1 the share is just the objective. It is over when the whole window is clearly in order again. Calls that were refused a
//! degraded answer because fallback is closed count as well, so that it does not open by being closed.
//!
//! A warning comes before that. An upstream that runs out of quota answers 429 to more and more attempts, which other endpoints
//! hide at first. So the share of attempts that were refused so is compared between the older and the newer half of the window, and
//! if the line through both meets the objective within one more window, that is said.
//!
//! It remembers counts per step and nothing of single calls, so its size is fixed.

use std::time::Duration;

use maitred_types::Time;

/// Steps of a window.
const STEPS: usize = 24;
/// The newest part of a window, in steps.
const NEWEST: usize = 2;
/// Calls below which a share says nothing.
const LEAST_CALLS: u64 = 20;
/// Refused attempts in the newer half of the window below which a slope says nothing.
const LEAST_REFUSED: u64 = 8;
/// What the share must come down to, of what may be, for a breach to be over: one that hovers is one breach.
const OVER: f64 = 0.8;
/// How much larger the newer half's share must be for a slope.
const RISING: f64 = 1.5;

/// How much may be degraded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    /// The share of calls that may be degraded, 0 to 1.
    pub ratio: f64,
    /// Over how long it is taken.
    pub window: Duration,
}

/// How a call ended, as far as the objective is concerned. Calls that ended in an error before any of it, or were the caller's own
/// fault, say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// What was asked for has answered.
    Full,
    /// Something else has answered.
    Degraded,
    /// Something else would have, but fallback is closed.
    Withheld,
}

/// How it stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// In order.
    #[default]
    Calm,
    /// In order, and it will soon not be.
    Warning,
    /// More than may be.
    Breach,
}

impl State {
    /// Every state, in order.
    pub const ALL: [Self; 3] = [Self::Calm, Self::Warning, Self::Breach];

    /// The word on pages, in metrics and logs.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Warning => "warning",
            Self::Breach => "breach",
        }
    }
}

/// What is counted in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Step {
    calls: u64,
    degraded: u64,
    attempts: u64,
    refused: u64,
}

impl Step {
    fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.degraded += other.degraded;
        self.attempts += other.attempts;
        self.refused += other.refused;
    }

    fn degraded_share(self) -> f64 {
        share(self.degraded, self.calls)
    }

    fn refused_share(self) -> f64 {
        share(self.refused, self.attempts)
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a few minutes")]
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The figures of a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Calls in it.
    pub calls: u64,
    /// Those of them that something else answered, or would have.
    pub degraded: u64,
    /// Their share, 0 to 1.
    pub ratio: f64,
    /// The share of the newest part of the window.
    pub newest_ratio: f64,
    /// The share of attempts that were refused because a quota is spent or there is too much to do, in the newer half.
    pub refused_ratio: f64,
}

/// The objective of one route.
#[derive(Clone, Debug)]
pub struct Objective {
    allowance: Allowance,
    steps: [Step; STEPS],
    /// The number of the newest step, from the beginning of time.
    newest: u64,
    state: State,
}

impl Objective {
    /// One of which nothing is known yet.
    #[must_use]
    pub fn new(allowance: Allowance, now: Time) -> Self {
        let mut objective = Self {
            allowance,
            steps: [Step::default(); STEPS],
            newest: 0,
            state: State::Calm,
        };
        objective.newest = objective.step_of(now);
        objective
    }

    /// How much may be.
    #[must_use]
    pub const fn allowance(&self) -> Allowance {
        self.allowance
    }

    /// How it stands.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// A call has ended. Says the new state, if it is another.
    pub fn served(&mut self, served: Served, now: Time) -> Option<State> {
        self.count(
            Step {
                calls: 1,
                degraded: u64::from(served != Served::Full),
                ..Step::default()
            },
            now,
        )
    }

    /// An attempt at what was asked for has ended; whether it was refused because a quota is spent or there is too much to do. Says the
    /// new state, if it is another.
    pub fn attempted(&mut self, is_refused: bool, now: Time) -> Option<State> {
        self.count(
            Step {
                attempts: 1,
                refused: u64::from(is_refused),
                ..Step::default()
            },
            now,
        )
    }

    /// Lets time pass. Says the new state, if it is another.
    pub fn advance(&mut self, now: Time) -> Option<State> {
        self.count(Step::default(), now)
    }

    /// The figures of the window that ends now.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let (all, newest) = (self.sum(0, STEPS), self.sum(0, NEWEST));
        Figures {
            calls: all.calls,
            degraded: all.degraded,
            ratio: all.degraded_share(),
            newest_ratio: newest.degraded_share(),
            refused_ratio: self.sum(0, STEPS / 2).refused_share(),
        }
    }

    fn step_of(&self, now: Time) -> u64 {
        let step = (self.allowance.window.as_nanos() / STEPS as u128).max(1);
        u64::try_from(u128::from(now.as_nanos()) / step).unwrap_or(u64::MAX)
    }

    fn place(step: u64) -> usize {
        usize::try_from(step % STEPS as u64).unwrap_or(0)
    }

    fn count(&mut self, what: Step, now: Time) -> Option<State> {
        // Threads may be a little behind each other; what comes late counts in the newest step.
        let step = self.step_of(now).max(self.newest);
        let begun = (step - self.newest).min(STEPS as u64);
        for gone in 0..begun {
            self.steps[Self::place(step - gone)] = Step::default();
        }
        self.newest = step;
        self.steps[Self::place(step)].add(what);
        let state = self.judged();
        let before = std::mem::replace(&mut self.state, state);
        (before != state).then_some(state)
    }

    /// The sum of so many steps, after so many newer ones.
    fn sum(&self, after: usize, count: usize) -> Step {
        let mut sum = Step::default();
        for back in after..(after + count).min(STEPS) {
            if let Some(step) = self.newest.checked_sub(back as u64) {
                sum.add(self.steps[Self::place(step)]);
            }
        }
        sum
    }

    fn judged(&self) -> State {
        let figures = self.figures();
        let allowed = self.allowance.ratio;
        let is_above = |least: f64| figures.calls >= LEAST_CALLS && figures.ratio > least;
        let is_going_on = figures.newest_ratio > allowed;
        match self.state {
            State::Breach if is_above(allowed * OVER) => State::Breach,
            _ if is_above(allowed) && is_going_on => State::Breach,
            _ if self.will_be_above() => State::Warning,
            _ => State::Calm,
        }
    }

    /// Whether the share of refused attempts rises so that it meets the objective within one more window.
    fn will_be_above(&self) -> bool {
        let (newer, older) = (self.sum(0, STEPS / 2), self.sum(STEPS / 2, STEPS / 2));
        let (now, before) = (newer.refused_share(), older.refused_share());
        // Half a window lies between the two, and a window and a quarter between the middle of the newer and the end of the next.
        let ahead = now + (now - before) * 2.5;
        older.attempts >= LEAST_CALLS
            && newer.refused >= LEAST_REFUSED
            && now > before * RISING
            && ahead > self.allowance.ratio
    }
}

#[cfg(test)]
mod tests;
