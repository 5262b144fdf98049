//! The prefill queue of an endpoint in seconds, by dead reckoning.
//!
//! Engines prefill first come, first served, in chunks. So what stands before a new call is the work of the own leases that
//! have no output yet, less what has been computed since the last first token:
//!
//! ```text
//! Q̂(t) = W − min(t − t₀, W_head + W_chunk) + max(0, t − t₀ − W_head − W_chunk) + F(t)
//! ```
//!
//! W is the work of the own leases without output, W_head that of the oldest of them, W_chunk that of one more chunk, which an
//! engine may compute along with it, and t₀ the last first token, or the booking that ended a rest. What is later than that is
//! taken to be the queue's fault: an endpoint that hangs, or that others keep busy, grows longer in our eyes with every moment
//! that it owes us a first token, until it is seen to have failed.
//!
//! F is foreign work: requests that the page shows waiting and that are not ours, at the mean work of ours, drained since the page
//! was asked for in proportion to their part of the queue; and what first tokens that came later than reckoned say about
//! work that no page has shown yet. The own log is never reset by a page.

use maitred_types::Time;

use crate::heard::Heard;
use crate::lease::Lease;
use crate::pace::{Pace, Work};

/// Tokens that an engine computes at once beyond the oldest request's.
const CHUNK_TOKENS: f64 = 4_096.0;
/// Weight of a new surprise in the mean one.
const SURPRISE_WEIGHT: f64 = 0.3;
/// Seconds after which a surprise counts half.
const SURPRISE_HALF_LIFE: f64 = 1.0;

/// What an endpoint has to prefill.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backlog {
    /// Work of own leases without output.
    pending: Work,
    /// Of these, the oldest one's.
    head: Work,
    /// Since when the engine can have worked on the head.
    since: Time,
    /// Seconds of foreign work that waited when the newest page was asked for.
    foreign: f64,
    foreign_at: Time,
    /// Mean of late less reckoned seconds of recent first tokens.
    surprise: f64,
    surprise_at: Time,
    /// Mean size of these surprises.
    doubt: f64,
}

impl Backlog {
    pub(crate) fn booked(&mut self, work: Work, now: Time) {
        if self.pending.tokens <= 0.0 {
            self.head = work;
            self.since = now;
        }
        self.pending = self.pending.plus(work);
    }

    /// Takes a lease's work out, because it has output or has ended. `head` is the work of the oldest that is left, if any.
    pub(crate) fn left(&mut self, work: Work, head: Option<Work>, now: Time) {
        self.since = now;
        match head {
            Some(head) => {
                self.pending = self.pending.minus(work);
                self.head = head;
            }
            // Sums of floats leave crumbs.
            None => (self.pending, self.head) = (Work::NONE, Work::NONE),
        }
    }

    /// Takes what a page asked for at `sampled_at` shows of others: seconds of work that waits.
    pub(crate) const fn see_foreign(&mut self, seconds: f64, sampled_at: Time) {
        self.foreign = seconds;
        self.foreign_at = sampled_at;
    }

    /// Learns from a first token that came `late` seconds after the reckoned moment; negative when early.
    pub(crate) fn learn(&mut self, late: f64, now: Time) {
        let before = self.surprise_now(now);
        self.surprise = before + SURPRISE_WEIGHT * (late - before);
        self.surprise_at = now;
        self.doubt += SURPRISE_WEIGHT * (late.abs() - self.doubt);
    }

    fn surprise_now(&self, now: Time) -> f64 {
        self.surprise * (-seconds(self.surprise_at, now) / SURPRISE_HALF_LIFE).exp2()
    }

    /// Mean size of what recent first tokens were off by, in seconds.
    pub(crate) const fn doubt(&self) -> f64 {
        self.doubt
    }

    /// When the turn came of a lease that has just begun to answer: with its booking if nothing stood before it then, otherwise with
    /// the last first token since. `None` where there was no such token, so that nobody saw it come.
    pub(crate) fn turn(&self, lease: &Lease) -> Option<Time> {
        if lease.ahead.tokens <= 0.0 {
            Some(lease.booked_at)
        } else {
            (self.since > lease.booked_at).then_some(self.since)
        }
    }

    /// Work of own leases without output.
    pub(crate) const fn pending(&self) -> Work {
        self.pending
    }

    /// Own work that stands before a new call.
    #[inline]
    pub(crate) fn own(&self, pace: &Pace, now: Time) -> f64 {
        if self.pending.tokens <= 0.0 {
            return 0.0;
        }
        let all = pace.seconds(self.pending);
        let due = (pace.seconds(self.head) + pace.token * CHUNK_TOKENS).min(all);
        let spent = seconds(self.since, now);
        let late = (spent - due - 2.0 * pace.fixed).max(0.0);
        all - spent.min(due) + late
    }

    /// Own work that stands before a new call, as work.
    pub(crate) fn ahead(&self, pace: &Pace, now: Time) -> Work {
        let all = pace.seconds(self.pending);
        if all <= 0.0 {
            return Work::NONE;
        }
        self.pending.times((self.own(pace, now) / all).clamp(0.0, 1.0))
    }

    /// All work that stands before a new call, in seconds.
    #[inline]
    pub(crate) fn seconds(&self, pace: &Pace, heard: &Heard, now: Time) -> f64 {
        let own = self.own(pace, now);
        match heard.seconds(pace, pace.seconds(self.pending), now) {
            // Being late is what the work of others looks like from here; where they tell of it, it is not counted twice.
            Some(told) => own.max(self.left_now(pace, now) + told),
            None => own + self.foreign_now(pace, now),
        }
    }

    /// Own work that would be left if the engine did nothing else.
    fn left_now(&self, pace: &Pace, now: Time) -> f64 {
        let all = pace.seconds(self.pending);
        let due = (pace.seconds(self.head) + pace.token * CHUNK_TOKENS).min(all);
        all - seconds(self.since, now).min(due)
    }

    #[inline]
    fn foreign_now(&self, pace: &Pace, now: Time) -> f64 {
        if self.foreign <= 0.0 {
            return 0.0;
        }
        let share = self.foreign / (self.foreign + pace.seconds(self.pending));
        (self.foreign - share * seconds(self.foreign_at, now)).max(0.0)
    }
}

/// Seconds from `earlier` to `later`; cheaper than by way of a `Duration`, and asked for every endpoint in every pick.
#[inline]
pub(crate) fn seconds(earlier: Time, later: Time) -> f64 {
    later.as_nanos().saturating_sub(earlier.as_nanos()) as f64 * 1e-9
}
