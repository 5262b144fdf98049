//! What the store does for the gateways that share it: who holds how much of which counter.
//!
//! This is the law in readable form. The store that serves runs the same as a script within Redis or Valkey, and a test holds both
//! against each other; simulations run this one.

use std::collections::BTreeMap;

use maitred_types::UnixMillis;

use super::calendar;
use super::terms::{Ask, FORGET_MILLIS, LEASE_MILLIS, Terms, Word};

/// Pieces of a minute that are remembered, and how long one is. One more than a minute has, so that it is never less.
const PIECES: usize = 7;
const PIECE_MILLIS: u64 = 10_000;

/// All shared counters.
#[derive(Clone, Debug, Default)]
pub struct Bank {
    accounts: BTreeMap<String, Account>,
    gateways: BTreeMap<u64, u64>,
    /// When something was last to be told of a counter.
    news: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Default)]
struct Account {
    epoch: u64,
    spent: u64,
    /// What of it was taken over from earlier lives.
    taken_over: u64,
    /// When a rate was last forgotten of.
    at: u64,
    period: u64,
    pieces: [u64; PIECES],
    /// What was free when everybody was last told.
    announced: u64,
    leases: BTreeMap<u64, Lease>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lease {
    number: u64,
    spent: u64,
    held: u64,
    reserved: u64,
    expires: u64,
    /// What was charged for calls of which nothing was heard any more.
    charged: u64,
}

impl Bank {
    /// Answers an ask. `None` for one that comes late.
    pub fn ask(&mut self, gateway: u64, key: &str, ask: &Ask, now: u64) -> Option<Word> {
        self.gateways.retain(|_, expires| *expires > now);
        self.gateways.insert(gateway, now + LEASE_MILLIS);
        let gateways = self.gateways.len() as u64;
        let account = self.accounts.entry(key.to_owned()).or_insert_with(|| Account {
            epoch: now.max(1),
            at: now,
            ..Account::default()
        });
        account.roll(&ask.terms, now);
        account.expire(&ask.terms, now);
        let (word, is_news) = account.answer(gateway, ask, (now, gateways))?;
        if is_news {
            self.news.insert(key.to_owned(), now);
        }
        Some(word)
    }

    /// Counters of which there was something to tell at `since` or later.
    #[must_use]
    pub fn news(&self, since: u64) -> Vec<String> {
        let new = self.news.iter().filter(|(_, at)| **at >= since);
        new.map(|(key, _)| key.clone()).collect()
    }

    /// What is spent and what is held of a counter.
    #[must_use]
    pub fn stands(&self, key: &str) -> (u64, u64) {
        let account = self.accounts.get(key);
        account.map_or((0, 0), |account| {
            let held = account.leases.values().map(|lease| lease.held).sum();
            (account.spent, held)
        })
    }
}

impl Account {
    /// Forgets what is over.
    fn roll(&mut self, terms: &Terms, now: u64) {
        let unix = UnixMillis::new(now);
        let period = match terms.kind {
            Terms::DAY => calendar::day(unix),
            Terms::MONTH => calendar::month(unix),
            Terms::MINUTE => now / PIECE_MILLIS,
            _ => 0,
        };
        if terms.kind == Terms::RATE {
            let gone = terms.leak.saturating_mul(now.saturating_sub(self.at));
            self.spent = self.spent.saturating_sub(gone);
            self.at = self.at.max(now);
        }
        if period <= self.period {
            return;
        }
        if terms.kind == Terms::MINUTE {
            let first = (self.period + 1).max((period + 1).saturating_sub(PIECES as u64));
            for piece in first..=period {
                let piece = &mut self.pieces[index(piece)];
                self.spent = self.spent.saturating_sub(*piece);
                *piece = 0;
            }
        } else {
            self.spent = 0;
            self.taken_over = 0;
            for lease in self.leases.values_mut() {
                lease.charged = 0;
            }
        }
        self.period = period;
    }

    fn charge(&mut self, terms: &Terms, amount: u64) {
        self.spent = self.spent.saturating_add(amount);
        if terms.kind == Terms::MINUTE {
            let piece = &mut self.pieces[index(self.period)];
            *piece = piece.saturating_add(amount);
        }
    }

    /// Takes back what gateways hold of which nothing was heard for too long. What their calls had reserved counts as spent.
    fn expire(&mut self, terms: &Terms, now: u64) {
        self.leases.retain(|_, lease| lease.expires + FORGET_MILLIS > now);
        let mut charge = 0_u64;
        for lease in self.leases.values_mut().filter(|lease| lease.expires <= now) {
            if terms.kind != Terms::PLACES {
                lease.charged = lease.charged.saturating_add(lease.reserved);
                charge = charge.saturating_add(lease.reserved);
            }
            (lease.held, lease.reserved) = (0, 0);
        }
        self.charge(terms, charge);
    }

    fn answer(&mut self, gateway: u64, ask: &Ask, (now, gateways): (u64, u64)) -> Option<(Word, bool)> {
        let terms = &ask.terms;
        let is_new = self.leases.is_empty() && self.announced == 0;
        let before = self.leases.get(&gateway).copied();
        if before.is_some_and(|lease| ask.number <= lease.number) {
            return None;
        }
        let heard = before.map_or(ask.told, |lease| lease.spent);
        // It lives, so what was charged in its place is not owed. A sliding minute forgets that by itself.
        let charged = before.map_or(0, |lease| lease.charged);
        if terms.kind != Terms::MINUTE {
            self.spent = self.spent.saturating_sub(charged);
        }
        self.charge(terms, ask.spent.saturating_sub(heard));
        self.take_over(ask);
        let others = self.leases.iter().filter(|(other, _)| **other != gateway);
        let held_by_others: u64 = others.map(|(_, lease)| lease.held).sum();
        let taken = self.spent.saturating_add(held_by_others).saturating_add(ask.reserved);
        let room = terms.amount.saturating_sub(taken);
        let extra = ask
            .want
            .min(room.div_ceil(2 * gateways))
            .max(ask.keep)
            .max(ask.need)
            .min(room);
        let held = ask.reserved + extra;
        let lease = Lease {
            number: ask.number,
            spent: ask.spent,
            held,
            reserved: ask.reserved,
            expires: now + LEASE_MILLIS,
            charged: 0,
        };
        self.leases.insert(gateway, lease);
        let free = room - extra;
        let is_news = is_new || free < self.announced / 2 || (free == 0 && self.announced > 0);
        self.announced = if is_news { free } else { self.announced.max(free) };
        let (spent, epoch, period) = (self.spent, self.epoch, self.period);
        Some((
            Word {
                held,
                free,
                spent,
                epoch,
                period,
                gateways,
            },
            is_news,
        ))
    }

    /// Learns from a gateway what was spent in an earlier life of the store. Whoever knows most is right.
    fn take_over(&mut self, ask: &Ask) {
        let known = ask.known;
        let is_of_now = known.period == self.period || ask.terms.kind == Terms::MINUTE;
        let is_other = known.epoch != 0 && known.epoch != self.epoch;
        if is_other && is_of_now && ask.terms.kind != Terms::PLACES && known.spent > self.taken_over {
            self.charge(&ask.terms, known.spent - self.taken_over);
            self.taken_over = known.spent;
        }
    }
}

fn index(piece: u64) -> usize {
    usize::try_from(piece % PIECES as u64).unwrap_or(0)
}
