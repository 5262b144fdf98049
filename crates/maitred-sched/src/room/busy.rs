//! Which part of its time an endpoint spends on prompts.

use maitred_types::Time;

/// Seconds over which it is taken, with older ones fading.
const WINDOW: f64 = 4.0;
/// An endpoint is never taken to have less than this part of its time for output.
const LEAST_LEFT: f64 = 0.05;

/// Seconds of prefill work sent lately.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Busy {
    seconds: f64,
    at: Time,
}

impl Busy {
    pub(crate) fn add(&mut self, seconds: f64, now: Time) {
        self.seconds = self.value(now) + seconds;
        self.at = now;
    }

    fn value(&self, now: Time) -> f64 {
        self.seconds * (-now.since(self.at).as_secs_f64() / WINDOW).exp()
    }

    /// The part of the endpoint's time that is left for output. What is generated takes so much longer than on an endpoint that
    /// computes no prompts: while a chunk of a prompt is computed, nobody gets a token.
    pub(crate) fn left(&self, now: Time) -> f64 {
        (1.0 - self.value(now) / WINDOW).max(LEAST_LEFT)
    }
}
