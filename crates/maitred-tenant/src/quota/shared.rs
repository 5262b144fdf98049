//! Quota that several gateways share, without a call ever waiting for the store that they share.
//!
//! Each gateway holds a part of every limit that its calls use, by a lease, and calls take from it as they do from a limit of one
//! gateway. What is to be asked of the store comes out of [`SharedQuota::asks`], and its answers go into [`SharedQuota::hear`];
//! whoever carries them may be late, may lose them, and may bring them twice.
//!
//! Where what is held is not enough, a gateway takes without knowing (`blind`) up to its part of what was free when it last heard, and
//! tells the store at once. So the first call of a tenant is not refused, and a store that is gone stops nobody. What all gateways
//! together take so may pass the limit, by a bound that the handbook states.

use std::collections::VecDeque;
use std::time::Duration;

use maitred_types::Time;
use smallvec::SmallVec;

use super::counter::Mark;
use super::limits::{Concerned, Limits};
use super::past::{self, Lookback, Past};
use super::purse::{Purse, StoreState};
use super::table::{Place, Slot as _, Table};
use super::terms::{Ask, LEASE_MILLIS, Word};
use super::{Amount, Found, Hold, Limit, Moment, QuotaRefusal, Reservation, Standing, Subject, later};

/// For so long after its last word the store counts as there.
const PRESENT: Duration = Duration::from_millis(LEASE_MILLIS);

/// Counters that are looked at in one round, so that calls do not wait long for its end.
const LOOKS_MAX: usize = 4_096;

/// What holds while the store is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WithoutStore {
    /// Each gateway goes on with its part of what was free when it last heard.
    #[default]
    LocalShare,
    /// Calls that a limit is for are refused.
    Refuse,
}

/// How quota is shared.
#[derive(Clone, Copy, Debug)]
pub struct SharedOptions {
    /// Most counters that are kept.
    pub counters: usize,
    /// How many gateways there are at least, whatever is heard.
    pub gateways: u64,
    /// What holds while the store is gone.
    pub without_store: WithoutStore,
}

/// Something to ask of the store.
#[derive(Clone, Debug)]
pub struct Question {
    place: Place,
    /// The counter's name in the store.
    pub key: String,
    /// What is asked.
    pub ask: Ask,
}

/// All limits, and this gateway's part of each.
#[derive(Debug)]
pub struct SharedQuota {
    limits: Limits,
    table: Table<Purse>,
    options: SharedOptions,
    gateways: u64,
    /// When the store last spoke.
    heard: Option<Time>,
    is_hungry: bool,
    /// Those that may have something to ask, the next one to be looked at first.
    listed: VecDeque<Place>,
    /// How often a ledger was asked.
    questions: u64,
}

impl SharedQuota {
    /// Nothing held yet. Limits beyond [`Quota::MAX_LIMITS`](super::Quota::MAX_LIMITS) are not taken.
    #[must_use]
    pub fn new(limits: Vec<Limit>, options: SharedOptions) -> Self {
        Self {
            limits: Limits::new(limits),
            table: Table::new(options.counters),
            options,
            gateways: options.gateways.max(1),
            heard: None,
            is_hungry: false,
            listed: VecDeque::new(),
            questions: 0,
        }
    }

    /// Takes other limits; see [`Quota::reconfigure`](super::Quota::reconfigure).
    pub fn reconfigure(&mut self, limits: Vec<Limit>) {
        self.limits.replace(limits);
    }

    /// The limits, by index.
    #[must_use]
    pub fn limits(&self) -> &[Limit] {
        self.limits.as_slice()
    }

    /// Whether the store has spoken lately.
    #[must_use]
    pub fn is_store_there(&self, now: Time) -> bool {
        self.heard.is_some_and(|heard| now.since(heard) < PRESENT)
    }

    fn store(&self, now: Time) -> StoreState {
        match self.options.without_store {
            _ if self.is_store_there(now) => StoreState::There,
            WithoutStore::LocalShare => StoreState::Gone,
            WithoutStore::Refuse => StoreState::GoneAndMissed,
        }
    }

    /// Reserves what a call may use at most.
    ///
    /// # Errors
    /// Some limit has no room; then nothing is taken from any. Of several the one that takes longest is told.
    pub fn reserve(&mut self, subject: &Subject<'_>, most: Amount, at: Moment) -> Result<Reservation, QuotaRefusal> {
        let store = self.store(at.now);
        let mut found: Found = SmallVec::new();
        let mut missing = 0;
        let mut refusal: Option<QuotaRefusal> = None;
        let concerning = self.limits.concerning(subject);
        let more = (concerning.len(), subject.tenant);
        self.table.make_room(more, &self.limits, at);
        for Concerned { number, series, limit } in concerning {
            let wanted = limit.measure.of(most);
            let (units, how) = (Purse::units(limit, wanted), (at, store));
            let place = self.table.look((series, limit), subject);
            let room = if let Some((place, purse)) = place.and_then(|place| Some((place, self.table.get_mut(place)?))) {
                let room = purse.room(limit, units, how);
                self.is_hungry |= purse.is_hungry();
                list(&mut self.listed, place, purse);
                room
            } else {
                missing += 1;
                Purse::new((series, limit), self.gateways, at).room(limit, units, how)
            };
            match room {
                Ok(()) => found.push((number, place, wanted)),
                Err(_) if store == StoreState::GoneAndMissed => refusal = Some(QuotaRefusal::StoreGone),
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
            None => Ok(self.take(&found, subject, (at, store))),
        }
    }

    /// Takes what was found to fit. There is room for the counters that are not there yet.
    fn take(&mut self, found: &Found, subject: &Subject<'_>, (at, store): (Moment, StoreState)) -> Reservation {
        let mut reservation = Reservation::default();
        for (number, place, wanted) in found {
            let Some(Concerned { series, limit, .. }) = self.limits.get(*number) else {
                continue;
            };
            let units = Purse::units(limit, *wanted);
            let gateways = self.gateways;
            let make = || Purse::new((series, limit), gateways, at);
            let is_new = place.is_none();
            let place = place.or_else(|| self.table.find((series, limit), subject, make));
            let Some((place, purse)) = place.and_then(|place| Some((place, self.table.get_mut(place)?))) else {
                continue;
            };
            // A purse that has just been made has not been asked; it has room, as one like it had.
            if is_new && purse.room(limit, units, (at, store)).is_err() {
                continue;
            }
            let before = purse.beyond();
            purse.take(units);
            reservation.is_blind |= purse.beyond() > before;
            self.is_hungry |= purse.is_hungry();
            list(&mut self.listed, place, purse);
            reservation.tell(limit.measure, purse.standing(limit, at));
            reservation.holds.push(Hold {
                place,
                reserved: *wanted,
                mark: Mark::NONE,
            });
        }
        reservation
    }

    /// Ends a reservation with what was really used.
    pub fn settle(&mut self, reservation: Reservation, used: Amount) {
        self.end(reservation, |limit| limit.measure.of(used));
    }

    /// Ends a reservation as if it had never been made. What a rate has let pass stays passed: that is not kept by the call.
    pub fn give_back(&mut self, reservation: Reservation) {
        self.end(reservation, |_| 0);
    }

    fn end(&mut self, reservation: Reservation, spent: impl Fn(&Limit) -> u64) {
        for hold in reservation.holds {
            let Some(purse) = self.table.get_mut(hold.place) else {
                continue;
            };
            let Some(limit) = self.limits.of(purse.series()) else {
                continue;
            };
            let (reserved, spent) = (hold.reserved, spent(limit));
            purse.settle(Purse::units(limit, reserved), Purse::units(limit, spent));
            list(&mut self.listed, hold.place, purse);
        }
    }

    /// What a ledger is to be asked while the store is gone: of tokens and money, what all gateways used. Its answer goes to
    /// [`SharedQuota::recall`].
    pub fn lookbacks(&mut self, at: Moment) -> Vec<Lookback> {
        self.questions += 1;
        let is_measured = |one: &Concerned<'_>| one.limit.measure.is_of_usage();
        past::lookbacks(self.limits.iter().filter(is_measured), at)
    }

    /// Takes a ledger's answer: of counters of which the store has not spoken, what was used is not free any more. Of one owner the
    /// stretches have to come oldest first. Says whether there was room for all counters.
    pub fn recall(&mut self, lookback: &Lookback, past: &Past<'_>, at: Moment) -> bool {
        let mut is_whole = true;
        let (first, last) = (past::before(at, past.first), past::before(at, past.last));
        let concerning = self.limits.concerning(&past.subject).into_iter();
        for Concerned { series, limit, .. } in concerning.filter(|one| lookback.is_for(one)) {
            let (gateways, more) = (self.gateways, (1, past.subject.tenant));
            let place = match self.table.look((series, limit), &past.subject) {
                None => {
                    self.table.make_room(more, &self.limits, at);
                    let make = || Purse::new((series, limit), gateways, at);
                    let has_room = self.table.has_room(more.0, more.1);
                    has_room
                        .then(|| self.table.find((series, limit), &past.subject, make))
                        .flatten()
                }
                found => found,
            };
            match place.and_then(|place| self.table.get_mut(place)) {
                Some(purse) => purse.recall(self.questions, limit.measure.of(past.used), (first, last, at)),
                None => is_whole = false,
            }
        }
        is_whole
    }

    /// How every counter of a subject stands: limit index and standing.
    pub fn standings(&mut self, subject: &Subject<'_>, at: Moment) -> Vec<(u16, Standing)> {
        let mut all = Vec::new();
        for Concerned { number, series, limit } in self.limits.concerning(subject) {
            let place = self.table.look((series, limit), subject);
            let fresh = Purse::new((series, limit), self.gateways, at);
            let purse = place.and_then(|place| self.table.get_mut(place));
            all.push((number, purse.map_or(&fresh, |purse| purse).standing(limit, at)));
        }
        all
    }

    /// Whether something should be asked without waiting for the next round. Says so once.
    pub fn take_hunger(&mut self) -> bool {
        std::mem::take(&mut self.is_hungry)
    }

    /// What is to be asked of the store now, at most so much at once. Each question is to be answered by [`SharedQuota::hear`] once.
    pub fn asks(&mut self, most: usize, at: Moment) -> Vec<Question> {
        self.questions(most, (at, false))
    }

    /// What is to be asked when the gateway ends: all that it holds and does not use is given back.
    pub fn last_asks(&mut self, at: Moment) -> Vec<Question> {
        self.questions(usize::MAX, (at, true))
    }

    fn questions(&mut self, most: usize, how: (Moment, bool)) -> Vec<Question> {
        let mut questions = Vec::new();
        let looks = if how.1 { usize::MAX } else { LOOKS_MAX };
        for _ in 0..self.listed.len().min(looks) {
            if questions.len() >= most {
                break;
            }
            let Some(place) = self.listed.pop_front() else {
                break;
            };
            let Some((owners, purse)) = self.table.get_named_mut(place) else {
                continue;
            };
            let Some(limit) = self.limits.of(purse.series()) else {
                continue;
            };
            if let Some(ask) = purse.ask(limit, how) {
                let key = key(limit, owners);
                questions.push(Question { place, key, ask });
            }
            purse.is_listed = purse.has_business();
            if purse.is_listed {
                self.listed.push_back(place);
            }
        }
        questions
    }

    /// What came of a question: the store's word, or nothing if it came late or was lost.
    pub fn hear(&mut self, question: &Question, word: Option<Word>, now: Time) {
        if let Some(word) = word {
            self.gateways = word.gateways.max(self.options.gateways).max(1);
            self.heard = Some(now);
        }
        let floor = self.options.gateways;
        let word = word.map(|word| Word {
            gateways: word.gateways.max(floor),
            ..word
        });
        if let Some(purse) = self.table.get_mut(question.place) {
            purse.hear(question.ask.number, word, now);
            list(&mut self.listed, question.place, purse);
        }
    }

    /// Others use a counter of this name: from now on it is known here too. Names of limits that there are not are passed over.
    pub fn hear_of(&mut self, name: &str, at: Moment) {
        let mut parts = name.splitn(3, KEY_SPACE);
        let (Some(measure), Some(limit), Some(owners)) = (parts.next(), parts.next(), parts.next()) else {
            return;
        };
        let Some(Concerned { series, limit, .. }) = self.limits.named(measure, limit) else {
            return;
        };
        let gateways = self.gateways;
        let make = || Purse::new((series, limit), gateways, at);
        let how = (&self.limits, at);
        let place = self.table.find_named((series, limit), owners, how, make);
        if let Some((place, purse)) = place.and_then(|place| Some((place, self.table.get_mut(place)?))) {
            purse.call_for();
            list(&mut self.listed, place, purse);
        }
    }

    /// The store has spoken, if only to say that there is nothing new.
    pub const fn hear_from(&mut self, gateways: u64, now: Time) {
        self.heard = Some(now);
        if gateways > self.options.gateways {
            self.gateways = gateways;
        }
    }
}

/// Sees to it that a counter is looked at when it is time to ask.
fn list(listed: &mut VecDeque<Place>, place: Place, purse: &mut Purse) {
    if !purse.is_listed {
        purse.is_listed = true;
        listed.push_back(place);
    }
}

/// What stands between the parts of a counter's name in the store. Names of limits have no spaces.
const KEY_SPACE: char = ' ';

fn key(limit: &Limit, owners: &str) -> String {
    format!("{}{KEY_SPACE}{}{KEY_SPACE}{owners}", limit.measure.name(), limit.name)
}

#[cfg(test)]
mod tests;
