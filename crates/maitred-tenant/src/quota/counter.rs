//! One counter: how much of a limit one owner has used.

use std::time::Duration;

use maitred_types::Time;

use super::limits::Series;
use super::table::Slot;
use super::{Limit, Measure, Moment, Standing, calendar};

/// Pieces of a minute that are remembered. One more than a minute has, so that what is remembered is never less than a minute.
const SEGMENTS: u64 = 7;
const SEGMENT_SECONDS: u64 = 10;
/// How long anything is remembered.
pub(super) const MEMORY: Duration = Duration::from_secs(SEGMENTS * SEGMENT_SECONDS);
/// A task that made no call for so long is over.
const TASK_LIFE: Duration = Duration::from_secs(24 * 3600);

type Pieces = [u64; 7];
const NO_PIECES: Pieces = [0; 7];
const _: () = assert!(NO_PIECES.len() as u64 == SEGMENTS);

/// What a call wants of a counter, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    pub(super) amount: u64,
    pub(super) at: Moment,
}

/// There is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRoom {
    pub(super) remaining: u64,
    pub(super) retry_after: Option<Duration>,
}

/// In which stretch of time a reservation was made; what is settled later belongs there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark(u64);

impl Mark {
    /// No stretch in particular.
    pub(super) const NONE: Self = Self(0);
}

/// What was used, by the way a measure forgets it.
#[derive(Clone, Debug)]
enum Memory {
    /// When the next call would be due if they came evenly (the generic cell rate algorithm, ITU-T I.371).
    Rate { due: Time },
    /// Nothing but what is held.
    Held,
    /// The newest pieces of time; the piece with number `n` is at `n % SEGMENTS`.
    Sliding { newest: u64, pieces: Pieces },
    /// A civil day or month.
    Calendar { period: u64 },
    /// Everything, until a day after the newest.
    Life { latest: Time, life: u64 },
}

/// How much one owner has used of one limit.
#[derive(Clone, Debug)]
pub(super) struct Counter {
    series: Series,
    memory: Memory,
    /// Spent and reserved together, as far as it is remembered.
    used: u64,
    /// Of it, what is reserved.
    reserved: u64,
    /// What was charged beyond its reservation.
    excess: u64,
    /// The limit's amount when it was last looked at.
    amount: u64,
    /// What was used when the limit was last lowered below it.
    grandfathered: u64,
}

impl Counter {
    pub(super) fn new((series, limit): (Series, &Limit), at: Moment) -> Self {
        let memory = match limit.measure {
            Measure::Calls { .. } => Memory::Rate { due: at.now },
            Measure::ConcurrentCalls => Memory::Held,
            Measure::TokensPerMinute => Memory::Sliding {
                newest: piece(at.now),
                pieces: NO_PIECES,
            },
            Measure::TokensPerDay => Memory::Calendar {
                period: calendar::day(at.unix),
            },
            Measure::MoneyPerMonth => Memory::Calendar {
                period: calendar::month(at.unix),
            },
            Measure::TokensPerTask => Memory::Life {
                latest: at.now,
                life: 0,
            },
        };
        Self {
            series,
            memory,
            used: 0,
            reserved: 0,
            excess: 0,
            amount: limit.amount,
            grandfathered: 0,
        }
    }

    /// Forgets what is over.
    fn roll(&mut self, limit: &Limit, at: Moment) {
        if limit.amount < self.amount {
            self.grandfathered = self.used;
        }
        self.amount = limit.amount;
        match &mut self.memory {
            Memory::Rate { .. } | Memory::Held => {}
            Memory::Sliding { newest, pieces } => {
                let present = piece(at.now);
                let first = (*newest + 1).max(present.saturating_sub(SEGMENTS - 1));
                for number in first..=present {
                    pieces[place(number)] = 0;
                }
                if present > *newest + SEGMENTS {
                    *pieces = NO_PIECES;
                }
                *newest = present.max(*newest);
                self.used = pieces.iter().fold(0, |sum: u64, piece| sum.saturating_add(*piece));
                self.reserved = self.reserved.min(self.used);
            }
            Memory::Calendar { period } => {
                let present = match limit.measure {
                    Measure::MoneyPerMonth => calendar::month(at.unix),
                    _ => calendar::day(at.unix),
                };
                // A clock that was set back does not give a spent month away again.
                if present > *period {
                    *period = present;
                    self.forget();
                }
            }
            Memory::Life { latest, life } => {
                if self.reserved == 0 && at.now.since(*latest) >= TASK_LIFE {
                    *life += 1;
                    self.used = 0;
                    self.excess = 0;
                }
                *latest = at.now.max(*latest);
            }
        }
        if self.used <= limit.amount {
            (self.grandfathered, self.excess) = (0, self.excess.min(self.used));
        }
    }

    const fn forget(&mut self) {
        self.used = 0;
        self.reserved = 0;
        self.excess = 0;
    }

    /// Whether `want` fits into what is left.
    pub(super) fn room(&mut self, limit: &Limit, want: Want) -> Result<(), NoRoom> {
        self.roll(limit, want.at);
        if let (Memory::Rate { due }, Measure::Calls { period, burst }) = (&self.memory, limit.measure) {
            return rate_room(*due, limit.amount, (period, burst), want.at.now);
        }
        let remaining = limit.amount.saturating_sub(self.used);
        if want.amount <= remaining {
            return Ok(());
        }
        let can_fit = want.amount <= limit.amount;
        let retry_after = if can_fit { self.wait(limit, want) } else { None };
        Err(NoRoom { remaining, retry_after })
    }

    /// When `want` fits, if nothing more is used.
    fn wait(&self, limit: &Limit, want: Want) -> Option<Duration> {
        match &self.memory {
            Memory::Rate { .. } | Memory::Life { .. } => None,
            // Whoever holds the places gives them back when their calls end; nobody knows when. A second is a polite guess.
            Memory::Held => Some(Duration::from_secs(1)),
            Memory::Sliding { newest, pieces } => {
                let mut used = self.used;
                let oldest = newest.saturating_sub(SEGMENTS - 1);
                for number in oldest..=*newest {
                    used = used.saturating_sub(pieces[place(number)]);
                    if used.saturating_add(want.amount) <= limit.amount {
                        let gone_at = Time::ZERO + Duration::from_secs((number + SEGMENTS) * SEGMENT_SECONDS);
                        return Some(gone_at.since(want.at.now).max(Duration::from_millis(1)));
                    }
                }
                Some(MEMORY)
            }
            Memory::Calendar { .. } => Some(match limit.measure {
                Measure::MoneyPerMonth => calendar::until_next_month(want.at.unix),
                _ => calendar::until_next_day(want.at.unix),
            }),
        }
    }

    /// Takes what was found to fit.
    pub(super) fn take(&mut self, limit: &Limit, want: Want) -> Mark {
        self.roll(limit, want.at);
        let mark = self.mark();
        match (&mut self.memory, limit.measure) {
            (Memory::Rate { due }, Measure::Calls { period, .. }) => {
                *due = (*due).max(want.at.now) + interval(period, limit.amount);
                return mark;
            }
            (Memory::Sliding { newest, pieces }, _) => {
                let present = &mut pieces[place(*newest)];
                *present = present.saturating_add(want.amount);
            }
            _ => {}
        }
        self.used = self.used.saturating_add(want.amount);
        self.reserved = self.reserved.saturating_add(want.amount);
        mark
    }

    const fn mark(&self) -> Mark {
        match &self.memory {
            Memory::Rate { .. } | Memory::Held => Mark(0),
            Memory::Sliding { newest, .. } => Mark(*newest),
            Memory::Calendar { period } => Mark(*period),
            Memory::Life { life, .. } => Mark(*life),
        }
    }

    /// Whether what was reserved at `mark` is still remembered.
    pub(super) const fn still_holds(&self, mark: Mark) -> bool {
        match &self.memory {
            Memory::Rate { .. } => false,
            Memory::Held => true,
            Memory::Sliding { newest, .. } => mark.0 + SEGMENTS > *newest,
            Memory::Calendar { period } => mark.0 == *period,
            Memory::Life { life, .. } => mark.0 == *life,
        }
    }

    /// Ends a reservation of the first with a use of the second.
    pub(super) fn settle(&mut self, limit: &Limit, (reserved, spent): (u64, u64), mark: Mark, at: Moment) {
        self.roll(limit, at);
        if let (Memory::Rate { due }, Measure::Calls { period, .. }) = (&mut self.memory, limit.measure)
            && spent == 0
        {
            *due = due.saturating_sub(interval(period, limit.amount));
        }
        if !self.still_holds(mark) {
            return;
        }
        // A place is given back whole, whatever the call did with it.
        let spent = if limit.measure == Measure::ConcurrentCalls {
            0
        } else {
            spent
        };
        if let Memory::Sliding { pieces, .. } = &mut self.memory {
            let there = &mut pieces[place(mark.0)];
            *there = there.saturating_sub(reserved).saturating_add(spent);
        }
        self.reserved = self.reserved.saturating_sub(reserved);
        self.used = self.used.saturating_sub(reserved).saturating_add(spent);
        self.excess = self.excess.saturating_add(spent.saturating_sub(reserved));
    }

    /// Counts what was used before this start, by calls of which the first and the last arrived then.
    pub(super) fn recall(&mut self, limit: &Limit, amount: u64, (first, last, at): (Moment, Moment, Moment)) {
        if let (Memory::Rate { due }, Measure::Calls { period, burst }) = (&mut self.memory, limit.measure) {
            let interval = interval(period, limit.amount);
            let at_once = interval.saturating_mul(burst.max(1));
            // A limit that is always used up never forgets, and how it stood where the past begins nobody knows: at worst used up.
            let begun = at.now.saturating_sub(rate_past(limit.amount, (period, burst))) + at_once;
            let ahead = interval.saturating_mul(u32::try_from(amount).unwrap_or(u32::MAX));
            *due = ((*due).max(last.now).max(begun) + ahead).min((at.now + at_once).max(*due));
            return;
        }
        if let Memory::Life { latest, .. } = &mut self.memory {
            if first.now.since(*latest) >= TASK_LIFE {
                // The task had ended, and these calls began another one of its name.
                self.used = self.reserved;
            }
            *latest = last.now.max(*latest);
        } else {
            self.roll(limit, at);
        }
        let counts = match &mut self.memory {
            Memory::Rate { .. } | Memory::Held => false,
            Memory::Sliding { newest, pieces } => {
                let then = piece(last.now);
                let is_remembered = then + SEGMENTS > *newest && then <= *newest;
                if is_remembered {
                    let there = &mut pieces[place(then)];
                    *there = there.saturating_add(amount);
                }
                is_remembered
            }
            Memory::Calendar { period } => {
                *period
                    == match limit.measure {
                        Measure::MoneyPerMonth => calendar::month(last.unix),
                        _ => calendar::day(last.unix),
                    }
            }
            Memory::Life { .. } => true,
        };
        if counts {
            self.used = self.used.saturating_add(amount);
        }
        if self.used > limit.amount {
            self.grandfathered = self.grandfathered.max(self.used);
        }
    }

    /// How it stands.
    pub(super) fn standing(&mut self, limit: &Limit, at: Moment) -> Standing {
        self.roll(limit, at);
        let (remaining, reset_after) = match (&self.memory, limit.measure) {
            (Memory::Rate { due }, Measure::Calls { period, burst }) => {
                let ahead = due.since(at.now);
                let interval = interval(period, limit.amount);
                let taken = ahead.as_nanos().div_ceil(interval.as_nanos().max(1));
                let burst = u128::from(burst.max(1));
                (u64::try_from(burst.saturating_sub(taken)).unwrap_or(0), ahead)
            }
            (memory, measure) => {
                let reset = match (memory, measure) {
                    (Memory::Calendar { .. }, Measure::MoneyPerMonth) => calendar::until_next_month(at.unix),
                    (Memory::Calendar { .. }, _) => calendar::until_next_day(at.unix),
                    (Memory::Sliding { .. }, _) if self.used > 0 => MEMORY,
                    _ => Duration::ZERO,
                };
                (limit.amount.saturating_sub(self.used), reset)
            }
        };
        Standing {
            limit: limit.amount,
            remaining,
            reset_after,
        }
    }

    pub(super) const fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Whether more is spent and reserved than the limit allows, for another reason than that calls used more than they had
    /// reserved, or that the limit was lowered.
    pub(super) const fn is_beyond_by_reserving(&self) -> bool {
        let allowed = self.amount.saturating_add(self.excess);
        self.used > allowed && self.used > self.grandfathered.saturating_add(self.excess)
    }
}

impl Slot for Counter {
    fn series(&self) -> Series {
        self.series
    }

    fn is_idle(&self, at: Moment) -> bool {
        match &self.memory {
            Memory::Rate { due } => *due <= at.now,
            Memory::Held => self.used == 0,
            Memory::Sliding { newest, .. } => self.used == 0 || piece(at.now) >= newest.saturating_add(SEGMENTS),
            // The month contains the day, and neither is given away early: a counter of the present is kept while it has a figure.
            Memory::Calendar { period } => {
                self.used == 0 || (*period != calendar::day(at.unix) && *period != calendar::month(at.unix))
            }
            Memory::Life { latest, .. } => self.used == 0 || (self.reserved == 0 && at.now.since(*latest) >= TASK_LIFE),
        }
    }
}

/// Whether a call may come now, when calls come evenly but for a burst.
fn rate_room(due: Time, amount: u64, (period, burst): (Duration, u32), now: Time) -> Result<(), NoRoom> {
    if amount == 0 {
        return Err(NoRoom {
            remaining: 0,
            retry_after: None,
        });
    }
    let early = interval(period, amount).saturating_mul(burst.max(1) - 1);
    let ahead = due.since(now);
    match ahead.checked_sub(early) {
        None | Some(Duration::ZERO) => Ok(()),
        Some(wait) => Err(NoRoom {
            remaining: 0,
            retry_after: Some(wait),
        }),
    }
}

/// How far back calls have to be known. Who has used less than seven parts in eight of the limit since then is known exactly.
pub(super) fn rate_past(amount: u64, (period, burst): (Duration, u32)) -> Duration {
    interval(period, amount).saturating_mul(burst.max(1)).saturating_mul(8)
}

/// The time between two calls of an even stream.
pub(super) fn interval(period: Duration, amount: u64) -> Duration {
    let nanos = period.as_nanos() / u128::from(amount.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

const fn piece(now: Time) -> u64 {
    now.as_nanos() / (SEGMENT_SECONDS * 1_000_000_000)
}

const fn place(number: u64) -> usize {
    (number % SEGMENTS) as usize
}
