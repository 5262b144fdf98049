//! How fast waiting calls are released: what a promise of "try again in so many seconds" rests on.

use std::time::Duration;

use maitred_types::Time;

/// After so many seconds of waiting calls, what was measured before counts for a third.
const MEMORY: f64 = 10.0;
/// Seconds for which the assumed pace counts before anything has been measured.
const PRIOR: f64 = 0.25;
/// Seconds of measuring after which the pace may be held against a call.
const LEARNT: f64 = 1.0;

/// Tokens per second, over the time in which calls waited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    tokens: f64,
    seconds: f64,
    /// Seconds measured in all, up to `LEARNT`.
    measured: f64,
    /// What was assumed last, and the seconds that it still counts for.
    prior: f64,
    prior_seconds: f64,
    /// Up to when time has been counted; `None` while nobody waits.
    since: Option<Time>,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            tokens: 0.0,
            seconds: PRIOR,
            measured: 0.0,
            prior: 0.0,
            prior_seconds: PRIOR,
            since: None,
        }
    }
}

impl Pace {
    /// Takes what is believed of the pace, as long as little has been measured.
    pub(super) fn assume(&mut self, tokens_per_second: f64) {
        if !self.is_learnt() {
            let news = tokens_per_second - self.prior;
            self.prior = tokens_per_second;
            self.tokens += news * self.prior_seconds;
        }
    }

    pub(super) const fn begin(&mut self, now: Time) {
        if self.since.is_none() {
            self.since = Some(now);
        }
    }

    pub(super) fn released(&mut self, tokens: u64, now: Time) {
        self.count(now);
        self.tokens += tokens as f64;
    }

    /// Nobody waits any more.
    pub(super) fn end(&mut self, now: Time) {
        self.count(now);
        self.since = None;
    }

    pub(super) fn count(&mut self, now: Time) {
        let Some(since) = self.since else { return };
        let seconds = now.since(since).as_secs_f64();
        let kept = (-seconds / MEMORY).exp();
        self.tokens *= kept;
        self.prior_seconds *= kept;
        self.seconds = self.seconds * kept + seconds;
        self.measured = (self.measured + seconds).min(LEARNT);
        self.since = Some(now);
    }

    pub(super) fn is_learnt(&self) -> bool {
        self.measured >= LEARNT
    }

    /// Tokens per second; never zero.
    pub(super) fn tokens_per_second(&self) -> f64 {
        (self.tokens / self.seconds).max(1.0)
    }

    /// How long so many tokens take.
    pub(super) fn time_for(&self, tokens: u64) -> Duration {
        Duration::try_from_secs_f64(tokens as f64 / self.tokens_per_second()).unwrap_or(Duration::MAX)
    }
}
