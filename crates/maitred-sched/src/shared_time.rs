//! An endpoint's time, split evenly at each moment among the calls that it has.
//!
//! This is what an hour of an endpoint is charged by: while four calls are there, each uses a quarter of its time, whatever it came
//! for. So the shares of all calls add up to the time during which there was any, to the nanosecond. Time without a call is
//! nobody's share.

use std::time::Duration;

use maitred_types::Time;

/// One endpoint's time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SharedTime {
    /// What a call would have that has been there all along, in nanoseconds.
    each: u64,
    /// Nanoseconds that did not come out even yet; fewer than there are calls.
    rest: u64,
    /// Up to when this is true.
    at: Time,
}

impl SharedTime {
    /// Time has passed, with so many `own` calls and so many of `others`: of other gateways, as far as they told.
    pub(crate) fn advance(&mut self, now: Time, own: u32, others: u32) {
        let elapsed = u64::try_from(now.since(self.at).as_nanos()).unwrap_or(u64::MAX);
        self.at = self.at.max(now);
        if own == 0 {
            return;
        }
        let among = u64::from(own) + u64::from(others);
        let spent = elapsed.saturating_add(self.rest);
        self.each = self.each.saturating_add(spent / among);
        self.rest = spent % among;
    }

    /// Where it stands; a call that comes now keeps it.
    pub(crate) const fn mark(&self) -> u64 {
        self.each
    }

    /// The share of a call that came at `mark`, if it leaves now, when there are `own` calls. The last one has what did not come out even.
    pub(crate) const fn since(&self, mark: u64, own: u32) -> Duration {
        let rest = if own == 1 { self.rest } else { 0 };
        Duration::from_nanos(self.each.saturating_sub(mark).saturating_add(rest))
    }

    /// One of `own` calls leaves.
    pub(crate) const fn left(&mut self, own: u32) {
        if own <= 1 {
            self.rest = 0;
        }
    }
}

#[cfg(test)]
mod tests;
