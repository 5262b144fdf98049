//! One gateway's part of one shared counter: what it holds of it, and what it takes without knowing.

use std::time::Duration;

use maitred_types::{Time, UnixMillis};

use super::counter::NoRoom;
use super::limits::Series;
use super::table::Slot;
use super::terms::{Ask, CALL_PARTS, Known, LEASE_MILLIS, Terms, Word};
use super::{Limit, Measure, Moment, Standing, calendar};

/// How long a gateway trusts its lease after it asked. Less than the store does, for clocks that run unevenly.
const TRUST: Duration = Duration::from_millis(LEASE_MILLIS * 4 / 5);
/// After how long a lease that is of use is asked for again.
const RENEW: Duration = Duration::from_millis(LEASE_MILLIS / 3);
/// How often a counter is spoken of at most, but for calls that had to be refused.
const ROUND: Duration = Duration::from_millis(50);
/// How often a counter that is short of what it may be is looked at when it is not used here.
const LOOK: Duration = Duration::from_secs(2);
/// How often it is spoken of even then.
const HURRY: Duration = Duration::from_millis(5);
/// After how long without a call what is held is given back.
const IDLE: Duration = Duration::from_secs(2);
/// How long a minute and its pieces are remembered.
const MINUTE: Duration = Duration::from_secs(70);
/// How long a task lives after its last call.
const LIFE: Duration = Duration::from_secs(24 * 3600);
/// When to come again if others may give back what they hold.
const SOON: Duration = Duration::from_secs(1);

/// Whether the store is there, and what it means if it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreState {
    There,
    Gone,
    /// Gone, and nothing goes without it.
    GoneAndMissed,
}

/// What is under way to the store.
#[derive(Clone, Copy, Debug)]
struct Flight {
    number: u64,
    spent: u64,
    sent: Time,
}

/// What a ledger says was used, for as long as the store has not spoken.
#[derive(Clone, Copy, Debug, Default)]
struct Past {
    used: u64,
    /// The day or month that it is of.
    period: u64,
    /// When the last of these calls arrived.
    latest: Time,
    /// The question that was answered so.
    question: u64,
}

/// What one gateway holds of one counter. Amounts are in the store's units.
#[derive(Clone, Debug)]
pub(super) struct Purse {
    series: Series,
    terms: Terms,
    /// Spent since this counter was met, and how much of it the store has heard of.
    spent: u64,
    told: u64,
    /// What calls under way have reserved.
    reserved: u64,
    /// What spent and reserved together may reach by what is held.
    ceiling: u64,
    /// When the lease ends, if it is not renewed.
    valid_until: Time,
    asks: u64,
    flight: Option<Flight>,
    last_ask: Option<Time>,
    known: Known,
    /// What nobody held when the store last spoke; before, the whole amount but for what a ledger says was used.
    free: u64,
    past: Past,
    gateways: u64,
    /// When the store last spoke, or time was last forgiven without it.
    since: Time,
    last_used: Time,
    need: u64,
    /// What was held beyond reservations when the store last spoke.
    granted: u64,
    is_called: bool,
    /// Whether the store is gone.
    is_alone: bool,
    /// Whether it is among those that may have something to ask.
    pub(super) is_listed: bool,
}

impl Purse {
    pub(super) fn new((series, limit): (Series, &Limit), gateways: u64, at: Moment) -> Self {
        let terms = Terms::of(limit);
        Self {
            series,
            terms,
            spent: 0,
            told: 0,
            reserved: 0,
            ceiling: 0,
            valid_until: at.now,
            asks: 0,
            flight: None,
            last_ask: None,
            known: Known::default(),
            free: terms.amount,
            past: Past::default(),
            gateways: gateways.max(1),
            since: at.now,
            last_used: Time::ZERO,
            need: 0,
            granted: 0,
            is_called: false,
            is_alone: false,
            is_listed: false,
        }
    }

    /// Takes from a ledger what calls used of which the first and the last arrived then. It counts for as long as the store has not spoken. What
    /// another question was answered counts no longer.
    pub(super) fn recall(&mut self, question: u64, amount: u64, (first, last, at): (Moment, Moment, Moment)) {
        let is_over = match self.terms.kind {
            Terms::DAY | Terms::MONTH => self.period(last.unix) < self.period(at.unix),
            Terms::MINUTE => at.now.since(last.now) >= MINUTE,
            Terms::LIFE => at.now.since(last.now) >= LIFE,
            _ => true,
        };
        if is_over || self.is_known() || self.told > 0 {
            return;
        }
        let is_another_life = self.terms.kind == Terms::LIFE && first.now.since(self.past.latest) >= LIFE;
        if self.past.question != question || is_another_life {
            self.past.used = 0;
        }
        self.past = Past {
            used: self.past.used.saturating_add(amount),
            period: self.period(at.unix),
            latest: last.now,
            question,
        };
        self.since = at.now;
    }

    /// What of a call it counts.
    pub(super) fn units(limit: &Limit, amount: u64) -> u64 {
        match limit.measure {
            Measure::Calls { .. } => amount.saturating_mul(CALL_PARTS),
            _ => amount,
        }
    }

    const fn used(&self) -> u64 {
        self.spent.saturating_add(self.reserved)
    }

    /// What is taken beyond what is held.
    pub(super) const fn beyond(&self) -> u64 {
        self.used().saturating_sub(self.ceiling)
    }

    pub(super) const fn is_known(&self) -> bool {
        self.known.epoch != 0
    }

    /// What the store has not heard of.
    #[cfg(test)]
    pub(super) const fn unheard(&self) -> u64 {
        self.used().saturating_sub(self.told) / self.unit()
    }

    pub(super) fn is_held(&self, now: Time) -> bool {
        now < self.valid_until
    }

    /// Follows the limit and the time. Once the lease is over, what is left of it is nobody's, and counts among what is free.
    fn roll(&mut self, limit: &Limit, (at, is_alone): (Moment, bool)) {
        self.is_alone = is_alone;
        self.terms = Terms::of(limit);
        if !self.is_known() && self.told == 0 {
            let period = self.period(at.unix);
            if period > self.past.period && self.past.used > 0 {
                self.begin_anew(at.now);
            }
            self.free = self.terms.amount.saturating_sub(self.past.used);
        }
        if self.is_held(at.now) {
            return;
        }
        let left = self.ceiling.saturating_sub(self.used());
        self.ceiling -= left;
        self.free = self.free.saturating_add(left).min(self.terms.amount);
        if is_alone || matches!(self.terms.kind, Terms::DAY | Terms::MONTH) {
            self.forget(at);
        }
    }

    /// What the passing of time gives back where the store does not say it.
    fn forget(&mut self, at: Moment) {
        let passed = at.now.since(self.since);
        match self.terms.kind {
            Terms::PLACES => {
                // Whoever holds places is alone with its own; everybody may have a part of all.
                (self.free, self.ceiling) = (self.terms.amount, self.spent);
            }
            Terms::RATE => {
                let millis = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX);
                let back = self.terms.leak.saturating_mul(millis) / self.gateways;
                self.ceiling = self.ceiling.saturating_add(back).min(self.used());
                self.since = self.since + Duration::from_millis(millis);
                let fresh = self.terms.leak.saturating_mul(millis);
                self.free = self.free.saturating_add(fresh).min(self.terms.amount);
            }
            Terms::MINUTE if passed >= MINUTE => self.begin_anew(at.now),
            Terms::DAY | Terms::MONTH if self.is_known() && self.period(at.unix) > self.known.period => {
                self.known.period = self.period(at.unix);
                self.known.spent = 0;
                self.begin_anew(at.now);
            }
            _ => {}
        }
    }

    fn begin_anew(&mut self, now: Time) {
        self.past.used = 0;
        self.free = self.terms.amount;
        self.ceiling = self.used();
        self.since = now;
    }

    const fn period(&self, unix: UnixMillis) -> u64 {
        match self.terms.kind {
            Terms::DAY => calendar::day(unix),
            Terms::MONTH => calendar::month(unix),
            _ => 0,
        }
    }

    /// What may be taken without knowing: this gateway's part of what was free when it last heard.
    const fn share(&self) -> u64 {
        self.free / self.gateways
    }

    /// Whether it fits: into what is held, or else into what may be taken without knowing. A lone call may take all that was free.
    pub(super) fn room(&mut self, limit: &Limit, want: u64, (at, store): (Moment, StoreState)) -> Result<(), NoRoom> {
        let may_be_blind = store != StoreState::GoneAndMissed;
        self.roll(limit, (at, store != StoreState::There));
        self.last_used = at.now;
        let beyond = self.used().saturating_add(want).saturating_sub(self.ceiling);
        let is_alone = self.beyond() == 0 && beyond <= self.free;
        if beyond == 0 || (may_be_blind && (beyond <= self.share() || is_alone)) {
            return Ok(());
        }
        self.need = self.need.max(want);
        Err(NoRoom {
            remaining: self.remaining() / self.unit(),
            retry_after: self.wait(want, at.unix),
        })
    }

    const fn unit(&self) -> u64 {
        if self.terms.kind == Terms::RATE { CALL_PARTS } else { 1 }
    }

    /// When it may fit. What others hold and do not use comes back soon.
    fn wait(&self, want: u64, unix: UnixMillis) -> Option<Duration> {
        if want > self.terms.amount || self.terms.amount == 0 {
            return None;
        }
        if self.known.spent.saturating_add(want) <= self.terms.amount {
            return Some(SOON);
        }
        match self.terms.kind {
            Terms::DAY => Some(calendar::until_next_day(unix)),
            Terms::MONTH => Some(calendar::until_next_month(unix)),
            Terms::MINUTE => Some(Duration::from_secs(10)),
            Terms::RATE => {
                let missing = want.saturating_sub(self.remaining());
                Some(Duration::from_millis(missing.div_ceil(self.terms.leak.max(1))).max(Duration::from_millis(1)))
            }
            Terms::LIFE => None,
            _ => Some(SOON),
        }
    }

    /// What is left for whoever asks here.
    fn remaining(&self) -> u64 {
        let blind = if self.is_alone { self.share() } else { self.free };
        self.left().saturating_add(blind.saturating_sub(self.beyond()))
    }

    pub(super) fn take(&mut self, want: u64) {
        if self.terms.kind == Terms::RATE {
            self.spent = self.spent.saturating_add(want);
        } else {
            self.reserved = self.reserved.saturating_add(want);
        }
    }

    pub(super) fn settle(&mut self, reserved: u64, spent: u64) {
        if self.terms.kind == Terms::RATE {
            return;
        }
        self.reserved = self.reserved.saturating_sub(reserved);
        if self.terms.kind != Terms::PLACES {
            self.spent = self.spent.saturating_add(spent);
        }
    }

    pub(super) fn standing(&self, limit: &Limit, at: Moment) -> Standing {
        let remaining = self.remaining().min(self.terms.amount);
        let reset_after = match self.terms.kind {
            Terms::DAY => calendar::until_next_day(at.unix),
            Terms::MONTH => calendar::until_next_month(at.unix),
            Terms::MINUTE if remaining < self.terms.amount => MINUTE,
            Terms::RATE => {
                let missing = self.terms.amount - remaining;
                Duration::from_millis(missing.div_ceil(self.terms.leak.max(1)))
            }
            _ => Duration::ZERO,
        };
        Standing {
            limit: limit.amount,
            remaining: remaining / self.unit(),
            reset_after,
        }
    }

    /// Something was said of this counter that is to be heard.
    pub(super) const fn call_for(&mut self) {
        self.is_called = true;
    }

    /// Whether calls wait for the store's word, in a manner of speaking: the sooner it comes the better.
    pub(super) const fn is_hungry(&self) -> bool {
        self.need > 0 || self.beyond() > 0 || (self.granted > 0 && self.left() < self.granted / 2 && self.free > 0)
    }

    const fn left(&self) -> u64 {
        self.ceiling.saturating_sub(self.used())
    }

    /// What is to be asked now, if anything. `is_last` gives back what can be given back.
    pub(super) fn ask(&mut self, limit: &Limit, (at, is_last): (Moment, bool)) -> Option<Ask> {
        self.roll(limit, (at, self.is_alone));
        let passed = self.last_ask.map_or(Duration::MAX, |last| at.now.since(last));
        let is_idle = at.now.since(self.last_used) >= IDLE || self.last_used == Time::ZERO;
        let has_news = self.spent != self.told || self.is_called || (is_idle && self.left() > 0);
        let is_due = (self.is_hungry() && passed >= HURRY)
            || (has_news && passed >= ROUND)
            || ((self.left() > 0 || self.reserved > 0) && passed >= RENEW)
            || (self.is_short() && passed >= LOOK);
        if (!is_due && !is_last) || self.flight.is_some() {
            return None;
        }
        let (keep, want) = if is_idle || is_last {
            (0, 0)
        } else {
            (self.left(), u64::MAX >> 12)
        };
        self.ceiling = self.ceiling.min(self.used().saturating_add(keep));
        self.asks += 1;
        self.last_ask = Some(at.now);
        self.flight = Some(Flight {
            number: self.asks,
            spent: self.spent,
            sent: at.now,
        });
        self.is_called = false;
        Some(Ask {
            terms: self.terms,
            number: self.asks,
            spent: self.spent,
            told: self.told,
            reserved: self.reserved,
            keep,
            want,
            need: if is_last { 0 } else { std::mem::take(&mut self.need) },
            known: self.known,
        })
    }

    /// Whether more may be free by now than was when the store last spoke, although nothing happens here.
    const fn is_short(&self) -> bool {
        let comes_back = matches!(self.terms.kind, Terms::PLACES | Terms::RATE | Terms::MINUTE);
        comes_back && self.is_known() && self.free < self.terms.amount
    }

    /// Whether it may have something to ask before it is used again.
    pub(super) const fn has_business(&self) -> bool {
        let is_even = self.spent == self.told && self.reserved == 0 && self.left() == 0;
        self.is_called || self.flight.is_some() || self.need > 0 || self.is_short() || !is_even
    }

    /// What came of the ask of that number.
    pub(super) fn hear(&mut self, number: u64, word: Option<Word>, now: Time) {
        let Some(flight) = self.flight.take_if(|flight| flight.number == number) else {
            return;
        };
        let Some(word) = word else {
            self.is_called = true;
            return;
        };
        self.past.used = 0;
        self.told = flight.spent;
        self.ceiling = flight.spent.saturating_add(word.held);
        self.granted = self.left();
        self.free = word.free;
        self.known = Known {
            epoch: word.epoch,
            spent: word.spent,
            period: word.period,
        };
        self.gateways = word.gateways.max(1);
        self.since = now;
        self.valid_until = flight.sent + TRUST;
    }
}

impl Slot for Purse {
    fn series(&self) -> Series {
        self.series
    }

    fn is_idle(&self, at: Moment) -> bool {
        let unused = at.now.since(self.last_used);
        let is_over = match self.terms.kind {
            Terms::PLACES => !self.is_short(),
            Terms::RATE => unused >= MINUTE,
            Terms::MINUTE => unused >= MINUTE && at.now.since(self.since) >= MINUTE,
            Terms::DAY | Terms::MONTH if self.past.used > 0 => self.period(at.unix) > self.past.period,
            // What nobody has used of is as good as new.
            Terms::LIFE if self.known.spent == 0 && self.used() == 0 && self.past.used == 0 => true,
            Terms::LIFE => unused >= LIFE && at.now.since(self.since) >= LIFE,
            _ => self.known.spent == 0 || self.period(at.unix) > self.known.period,
        };
        let is_told = self.spent == self.told && self.reserved == 0 && self.flight.is_none();
        is_over && is_told && (self.left() == 0 || !self.is_held(at.now)) && unused >= IDLE
    }
}
