//! Quota: what tenants, users, keys, models and tasks may use, held exactly.
//!
//! A call reserves what it may use at most before anything is forwarded, settles with the truth once, and is refunded what it did
//! not use. What was admitted is never cut. At every instant what is spent and what is reserved together stay within each
//! limit; only a call that uses more than it reserved can pass it, by that excess, which is charged all the same.
//!
//! Either every limit that applies has room, or nothing is taken from any. The table of counters is bounded: counters that say nothing
//! any more are dropped first, and when none can be, the call is refused rather than let through unmetered. A call that is refused makes
//! none, and one tenant has half of them at the most.

mod bank;
mod calendar;
mod counter;
mod limit;
mod limits;
mod past;
mod purse;
mod shared;
mod table;
mod terms;

use std::fmt;
use std::time::Duration;

use maitred_types::{FaultKind, Time, UnixMillis};
use smallvec::SmallVec;

pub use bank::Bank;
pub use past::{Lookback, Past};
pub use shared::{Question, SharedOptions, SharedQuota, WithoutStore};
pub use terms::{Ask, FORGET_MILLIS, Known, LEASE_MILLIS, Terms, Word};

pub use limit::{Dimensions, Limit, LimitMatch, Measure};

use counter::{Counter, Mark, Want};
use limits::{Concerned, Limits, Series};
use table::{Place, Slot as _, Table};

/// Both clocks at one instant: the monotone one for rates, the civil one for days and months.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// On the monotone clock.
    pub now: Time,
    /// In civil time, UTC.
    pub unix: UnixMillis,
}

/// Whose call it is, and for what.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subject<'a> {
    /// The tenant.
    pub tenant: &'a str,
    /// The user, if one is known. Calls without one share a counter where limits are per user.
    pub user: Option<&'a str>,
    /// The key's public id, if a key was shown.
    pub key: Option<&'a str>,
    /// The model, as the client names it.
    pub model: &'a str,
    /// The task, if the call belongs to one. Limits per task do not apply to others.
    pub task: Option<&'a str>,
}

/// What a call uses, or may use at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Tokens in and out.
    pub tokens: u64,
    /// Money, in billionths of the currency's unit.
    pub money: u64,
}

/// Which limits there are: another one whenever some are added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edition(pub u64);

/// What a call holds until it is settled. Give it back to [`Quota::settle`] exactly once.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use = "a reservation that is not settled holds its place for ever"]
pub struct Reservation {
    holds: SmallVec<[Hold; 4]>,
    /// Limits of this series and later ones were not there yet.
    next: Series,
    /// How the tightest limit on calls stands after this one.
    pub calls: Option<Standing>,
    /// How the tightest limit on tokens stands after this one.
    pub tokens: Option<Standing>,
    /// Whether something of it was taken without knowing what other gateways have used.
    pub is_blind: bool,
    /// Whether a limit on tokens or money is for the call, so that it must not use more than it reserved.
    pub limits_output: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hold {
    place: Place,
    reserved: u64,
    mark: Mark,
}

impl Reservation {
    /// What a call holds that no limit is for, of those that there were at `edition`.
    pub fn of_nothing(edition: Edition) -> Self {
        Self {
            next: edition.0,
            ..Self::default()
        }
    }

    /// Whether no limit is for the call.
    #[must_use]
    pub fn is_of_nothing(&self) -> bool {
        self.holds.is_empty()
    }

    /// Which limits there were when it was made.
    #[must_use]
    pub const fn edition(&self) -> Edition {
        Edition(self.next)
    }

    /// Keeps how a limit stands if it is the tightest of its sort.
    fn tell(&mut self, measure: Measure, standing: Standing) {
        self.limits_output |= measure.is_of_usage();
        let tightest = match measure {
            Measure::Calls { .. } | Measure::ConcurrentCalls => &mut self.calls,
            Measure::TokensPerMinute | Measure::TokensPerDay | Measure::TokensPerTask => &mut self.tokens,
            Measure::MoneyPerMonth => return,
        };
        if tightest.is_none_or(|other| standing.remaining < other.remaining) {
            *tightest = Some(standing);
        }
    }
}

/// How a limit stands: what rate-limit headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The limit's amount.
    pub limit: u64,
    /// What is left.
    pub remaining: u64,
    /// When it is whole again, if nothing more is used.
    pub reset_after: Duration,
}

/// Why a call may not go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaRefusal {
    /// A limit has no room.
    Exceeded {
        /// Which one: its index in the list of limits.
        limit: u16,
        /// What is left of it.
        remaining: u64,
        /// What the call may need.
        wanted: u64,
        /// When there will be room, if nothing more is used; `None` when there never will, because the call is larger than the limit or
        /// the limit is for a task's whole life.
        retry_after: Option<Duration>,
    },
    /// The table of counters is full, and none can be dropped.
    TableFull,
    /// What other gateways have used cannot be known, and nothing is let go without knowing.
    StoreGone,
}

impl QuotaRefusal {
    /// What this is called towards the client.
    #[must_use]
    pub const fn fault(&self) -> FaultKind {
        match self {
            Self::Exceeded { .. } => FaultKind::QuotaExceeded,
            Self::TableFull | Self::StoreGone => FaultKind::QuotaUnavailable,
        }
    }
}

impl fmt::Display for QuotaRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exceeded { remaining, wanted, .. } => {
                write!(f, "{remaining} left where the call may need {wanted}")
            }
            Self::TableFull => f.write_str("the gateway keeps as many quota counters as it may, all of them in use"),
            Self::StoreGone => f.write_str("what other gateways have used of the quota cannot be known at the moment"),
        }
    }
}

/// All limits, and how far each is used.
#[derive(Debug)]
pub struct Quota {
    limits: Limits,
    table: Table<Counter>,
}

impl Quota {
    /// The most limits there can be.
    pub const MAX_LIMITS: usize = Limits::MAX;

    /// Nothing used yet. At most `counters` counters are kept; limits beyond [`Quota::MAX_LIMITS`] are not taken.
    #[must_use]
    pub fn new(limits: Vec<Limit>, counters: usize) -> Self {
        Self {
            table: Table::new(counters),
            limits: Limits::new(limits),
        }
    }

    /// Takes other limits. What is used of a limit that stays (the same name, measure and dimensions) stays used, and reservations
    /// live on: a lowered amount cuts off nobody, but lets nobody in until there is room.
    pub fn reconfigure(&mut self, limits: Vec<Limit>, counters: usize) {
        self.limits.replace(limits);
        self.table.set_cap(counters);
    }

    /// The limits, by index.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        self.limits.as_slice()
    }

    /// Which limits there are.
    #[must_use]
    pub const fn edition(&self) -> Edition {
        Edition(self.limits.next())
    }

    /// Reserves what a call may use at most.
    ///
    /// # Errors
    /// Some limit has no room; then nothing is taken from any. Of several the one that takes longest is told.
    pub fn reserve(&mut self, subject: &Subject<'_>, most: Amount, at: Moment) -> Result<Reservation, QuotaRefusal> {
        let mut found: Found = SmallVec::new();
        let mut missing = 0;
        let mut refusal: Option<QuotaRefusal> = None;
        let concerning = self.limits.concerning(subject);
        let more = (concerning.len(), subject.tenant);
        self.table.make_room(more, &self.limits, at);
        for Concerned { number, series, limit } in concerning {
            let wanted = limit.measure.of(most);
            let want = Want { amount: wanted, at };
            let place = self.table.look((series, limit), subject);
            let room = if let Some(counter) = place.and_then(|place| self.table.get_mut(place)) {
                counter.room(limit, want)
            } else {
                missing += 1;
                Counter::new((series, limit), at).room(limit, want)
            };
            match room {
                Ok(()) => found.push((number, place, wanted)),
                Err(no_room) => {
                    let exceeded = QuotaRefusal::Exceeded {
                        limit: number,
                        remaining: no_room.remaining,
                        wanted,
                        retry_after: no_room.retry_after,
                    };
                    refusal = Some(later(refusal, exceeded));
                }
            }
        }
        match refusal {
            Some(refusal) => Err(refusal),
            None if missing > 0 && !self.table.has_room(missing, subject.tenant) => Err(QuotaRefusal::TableFull),
            None => Ok(self.take(&found, subject, at)),
        }
    }

    /// Takes what was found to fit. There is room for the counters that are not there yet.
    fn take(&mut self, found: &Found, subject: &Subject<'_>, at: Moment) -> Reservation {
        let mut reservation = Reservation {
            next: self.limits.next(),
            ..Reservation::default()
        };
        for (number, place, wanted) in found {
            let Some(Concerned { series, limit, .. }) = self.limits.get(*number) else {
                continue;
            };
            let make = || Counter::new((series, limit), at);
            let place = place.or_else(|| self.table.find((series, limit), subject, make));
            let Some((place, counter)) = place.and_then(|place| Some((place, self.table.get_mut(place)?))) else {
                continue;
            };
            let mark = counter.take(limit, Want { amount: *wanted, at });
            let standing = counter.standing(limit, at);
            reservation.tell(limit.measure, standing);
            reservation.holds.push(Hold {
                place,
                reserved: *wanted,
                mark,
            });
        }
        reservation
    }

    /// Ends a reservation with what was really used: less gives the rest back, more is charged as well. A call that was never
    /// forwarded has used nothing.
    pub fn settle(&mut self, reservation: Reservation, used: Amount, at: Moment) {
        self.end(reservation, |limit| limit.measure.of(used), at);
    }

    /// Ends a reservation as if it had never been made: the call goes on elsewhere, where it reserves anew, and is one call there
    /// too.
    pub fn give_back(&mut self, reservation: Reservation, at: Moment) {
        self.end(reservation, |_| 0, at);
    }

    fn end(&mut self, reservation: Reservation, spent: impl Fn(&Limit) -> u64, at: Moment) {
        for hold in reservation.holds {
            let Some(counter) = self.table.get_mut(hold.place) else {
                continue;
            };
            // The limit may be gone since the reservation was made.
            let Some(limit) = self.limits.of(counter.series()) else {
                continue;
            };
            counter.settle(limit, (hold.reserved, spent(limit)), hold.mark, at);
        }
    }

    /// How every counter of a subject stands, for administrators: limit index and standing.
    pub fn standings(&mut self, subject: &Subject<'_>, at: Moment) -> Vec<(u16, Standing)> {
        let mut all = Vec::new();
        for Concerned { number, series, limit } in self.limits.concerning(subject) {
            let standing = match self.table.look((series, limit), subject) {
                Some(place) => self.table.get_mut(place).map(|counter| counter.standing(limit, at)),
                None => None,
            };
            let unused = Standing {
                limit: limit.amount,
                remaining: limit.amount,
                reset_after: Duration::ZERO,
            };
            all.push((number, standing.unwrap_or(unused)));
        }
        all
    }

    /// Checks the bookkeeping against every reservation that is not settled.
    ///
    /// # Errors
    /// Says which promise is broken.
    pub fn check(&self, open: &[&Reservation]) -> Result<(), QuotaViolation> {
        for (place, counter) in self.table.iter() {
            let holds = open.iter().flat_map(|reservation| &reservation.holds);
            let reserved: u64 = holds
                .filter(|hold| hold.place == place && counter.still_holds(hold.mark))
                .map(|hold| hold.reserved)
                .sum();
            if reserved != counter.reserved() {
                return Err(QuotaViolation("reservations and their sum differ"));
            }
            if counter.is_beyond_by_reserving() {
                return Err(QuotaViolation("spent and reserved pass a hard limit"));
            }
        }
        if self.table.len() > self.table.cap() {
            return Err(QuotaViolation("there are more counters than may be"));
        }
        Ok(())
    }
}

/// The limits that are for a call: which, where its counter is if there is one, and how much is wanted.
type Found = SmallVec<[(u16, Option<Place>, u64); 4]>;

/// A broken promise of the bookkeeping: which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuotaViolation(pub &'static str);

/// The refusal that takes longer to pass.
fn later(one: Option<QuotaRefusal>, other: QuotaRefusal) -> QuotaRefusal {
    let wait = |refusal: &QuotaRefusal| match refusal {
        QuotaRefusal::Exceeded { retry_after, .. } => retry_after.unwrap_or(Duration::MAX),
        QuotaRefusal::TableFull | QuotaRefusal::StoreGone => Duration::ZERO,
    };
    match one {
        Some(one) if wait(&one) >= wait(&other) => one,
        _ => other,
    }
}

#[cfg(test)]
mod tests;
