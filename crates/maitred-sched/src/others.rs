//! Requests of others on an endpoint: what its pages count beyond what is known.
//!
//! A page is late by more than anybody says, is rounded, smoothed or frozen, and so are its counts. What a gateway sent itself and what other
//! gateways tell, it knows. So a page teaches one thing only: its excess over what was known at its time,
//!
//! ```text
//! e = L_S − own(t_S) − told(t_S)
//! ```
//!
//! Requests of others can only add to it. An excess of one sign is therefore a load, and one that scatters around zero is the error of
//! the page. With m the mean of e and s the mean of |e|, both fading over `memory`:
//!
//! ```text
//! F(t) = max(0, m + b·(e − m)·h/(h + t − t_S)),    b = max(0, m/s)
//! ```
//!
//! Pages that have been true so far are believed at once (b = 1), also when a load appears where none was; of pages that are off either
//! way the mean alone is left, in which their errors cancel (b = 0, m ≈ 0). And as the requests that a page counted end, within about
//! the time h that an answer takes, what it said falls back to the mean: its age counts in answers, not in scrapes.
//!
//! That the mean signed over the mean absolute error tells drift from noise is Trigg's tracking signal (D. Trigg, *Monitoring a
//! forecasting system*, 1964).

use std::time::Duration;

use maitred_types::Time;

use crate::backlog::seconds;

/// The shortest time, in seconds, that an answer is taken to take.
const SHORTEST_HOLD: f64 = 0.001;

/// The excess of an endpoint's pages.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Others {
    /// Mean of the excess.
    mean: f64,
    /// Mean of its size.
    size: f64,
    /// What the newest one adds to the mean, as far as it is believed.
    newest: f64,
    at: Time,
    /// Seconds that an answer takes; zero before the first page.
    hold: f64,
}

impl Others {
    /// Takes the excess of a page of `at`. `memory` is over how long the past fades, `hold` how many seconds an answer takes.
    pub(crate) fn learn(&mut self, excess: f64, (memory, hold): (Duration, f64), at: Time) {
        let is_first = self.hold <= 0.0;
        let weight = if is_first || memory.is_zero() {
            1.0
        } else {
            -(-seconds(self.at, at) / memory.as_secs_f64()).exp_m1()
        };
        self.mean += weight * (excess - self.mean);
        self.size += weight * (excess.abs() - self.size);
        self.newest = self.belief() * (excess - self.mean);
        (self.at, self.hold) = (at, hold.max(SHORTEST_HOLD));
    }

    /// How far the newest page is believed, from 0 to 1.
    fn belief(&self) -> f64 {
        if self.size > 0.0 {
            (self.mean / self.size).clamp(0.0, 1.0)
        } else {
            // Never off so far.
            1.0
        }
    }

    /// The most that they can be until the next page.
    pub(crate) const fn most(&self) -> f64 {
        self.mean.max(self.mean + self.newest).max(0.0)
    }

    /// Requests of others.
    #[inline]
    pub(crate) fn now(&self, now: Time) -> f64 {
        self.at_most(1.0, now)
    }

    /// Requests of others, where at most this part of what pages said is to be believed.
    #[inline]
    pub(crate) fn at_most(&self, trust: f64, now: Time) -> f64 {
        if self.hold <= 0.0 {
            return 0.0;
        }
        let fresh = self.hold / (self.hold + seconds(self.at, now));
        (self.mean * trust + self.newest * fresh.min(trust)).max(0.0)
    }
}

#[cfg(test)]
mod tests;
