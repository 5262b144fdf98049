//! What was used before a limit was there, so that neither a restart nor a new limit gives anybody an amount a second time.
//!
//! The core says what it needs to know ([`Quota::lookbacks`]); whoever has a ledger answers, stretch by stretch and oldest first, with
//! [`Quota::recall`]. What the ledger cannot know by then is what is under way: calls that reserved before a limit was added, and end
//! after it. They are charged by [`Quota::charge_late`] when they end.

use std::time::Duration;

use maitred_types::UnixMillis;

use super::limits::Concerned;
use super::limits::Series;
use super::{Amount, Counter, Dimensions, Limit, Measure, Moment, Quota, Reservation, Subject, calendar, counter};

/// How far back tokens of tasks are looked for.
const TASK_PAST: Duration = Duration::from_secs(32 * 24 * 3600);
/// Stretches of an hour tell when a task made no call for a day.
const TASK_GRAIN: Duration = Duration::from_secs(3600);
/// A minute's limit remembers by pieces of ten seconds.
const MINUTE_GRAIN: Duration = Duration::from_secs(1);
/// Into how many stretches the past of a limit on calls is divided.
const RATE_STRETCHES: u32 = 1_600;

/// What has to be known of the past for limits of one measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookback {
    /// The limits.
    limits: Vec<Series>,
    /// The measure.
    pub measure: Measure,
    /// What calls have to be told apart by.
    pub by: Dimensions,
    /// Calls that arrived from then on.
    pub since: UnixMillis,
    /// Calls that arrived within a stretch of this length may be added up; all of them, if there is none.
    pub grain: Option<Duration>,
}

/// What calls of one owner used that arrived within one stretch.
#[derive(Clone, Copy, Debug)]
pub struct Past<'a> {
    /// The owner, as far as it was to be told apart.
    pub subject: Subject<'a>,
    /// When the first of them arrived.
    pub first: UnixMillis,
    /// When the last of them arrived.
    pub last: UnixMillis,
    /// How many there were.
    pub calls: u64,
    /// What they used.
    pub used: Amount,
}

impl Quota {
    /// What has to be known of the past, for limits that were added since this was asked last. Places are not in it: calls of an earlier
    /// start hold none, and calls that run already have theirs.
    pub fn lookbacks(&mut self, at: Moment) -> Vec<Lookback> {
        lookbacks(self.limits.take_new(), at)
    }

    /// Charges a call that ends for limits that were added after it reserved. Settle it all the same.
    pub fn charge_late(&mut self, reservation: &Reservation, subject: &Subject<'_>, used: Amount, at: Moment) {
        if reservation.next == self.limits.next() {
            return;
        }
        let past = Past {
            subject: *subject,
            first: at.unix,
            last: at.unix,
            calls: 1,
            used,
        };
        let next = reservation.next;
        self.count(|one| one.series >= next, &past, at);
    }

    /// Counts what was used in the past for the limits that a lookback is for. Of one owner the stretches have to come oldest first. Says
    /// whether there was room for all counters.
    pub fn recall(&mut self, lookback: &Lookback, past: &Past<'_>, at: Moment) -> bool {
        self.count(|one| lookback.is_for(one), past, at)
    }

    fn count(&mut self, is_for: impl Fn(&Concerned<'_>) -> bool, past: &Past<'_>, at: Moment) -> bool {
        let mut is_whole = true;
        let concerning = self.limits.concerning(&past.subject);
        let then = before(at, past.last);
        for Concerned { series, limit, .. } in concerning.into_iter().filter(is_for) {
            let make = || Counter::new((series, limit), then);
            let more = (1, past.subject.tenant);
            let place = match self.table.look((series, limit), &past.subject) {
                None => {
                    self.table.make_room(more, &self.limits, at);
                    let has_room = self.table.has_room(more.0, more.1);
                    has_room
                        .then(|| self.table.find((series, limit), &past.subject, make))
                        .flatten()
                }
                found => found,
            };
            match place.and_then(|place| self.table.get_mut(place)) {
                Some(counter) => {
                    let amount = match limit.measure {
                        Measure::Calls { .. } => past.calls,
                        measure => measure.of(past.used),
                    };
                    counter.recall(limit, amount, (before(at, past.first), then, at));
                }
                None => is_whole = false,
            }
        }
        is_whole
    }
}

/// What has to be known of the past for these limits.
pub(super) fn lookbacks<'a>(limits: impl IntoIterator<Item = Concerned<'a>>, at: Moment) -> Vec<Lookback> {
    let mut all: Vec<Lookback> = Vec::new();
    for Concerned { series, limit, .. } in limits {
        let Some((since, grain)) = reach(limit, at) else {
            continue;
        };
        let by = limit.dimensions().and(limit.only.dimensions());
        match all.iter_mut().find(|other| other.measure == limit.measure) {
            Some(same) => {
                same.limits.push(series);
                same.by = same.by.and(by);
                same.since = same.since.min(since);
                same.grain = same.grain.min(grain);
            }
            None => all.push(Lookback {
                limits: vec![series],
                measure: limit.measure,
                by,
                since,
                grain,
            }),
        }
    }
    all
}

impl Lookback {
    pub(super) fn is_for(&self, one: &Concerned<'_>) -> bool {
        self.limits.contains(&one.series)
    }
}

/// Since when a limit has to know what was used, and how finely.
fn reach(limit: &Limit, at: Moment) -> Option<(UnixMillis, Option<Duration>)> {
    let back = |time: Duration| {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        UnixMillis::new(at.unix.get().saturating_sub(millis))
    };
    match limit.measure {
        Measure::ConcurrentCalls => None,
        Measure::Calls { period, burst } => {
            let far = counter::rate_past(limit.amount, (period, burst));
            let grain = (far / RATE_STRETCHES).max(Duration::from_millis(1));
            Some((back(far), Some(grain)))
        }
        Measure::TokensPerMinute => Some((back(counter::MEMORY), Some(MINUTE_GRAIN))),
        Measure::TokensPerDay => Some((calendar::begin_of_day(at.unix), None)),
        Measure::MoneyPerMonth => Some((calendar::begin_of_month(at.unix), None)),
        Measure::TokensPerTask => Some((back(TASK_PAST), Some(TASK_GRAIN))),
    }
}

/// A civil moment of the past on both clocks. The monotone one has to have run for as long; where it has not, it is its beginning.
pub(super) fn before(at: Moment, then: UnixMillis) -> Moment {
    let age = Duration::from_millis(at.unix.get().saturating_sub(then.get()));
    Moment {
        now: at.now.saturating_sub(age),
        unix: then.min(at.unix),
    }
}

#[cfg(test)]
mod tests;
