//! The waiting calls of one class: a queue per tenant, and the tenants in the order of what they have had.
//!
//! Fairness is that of a virtual token counter (Sheng et al., *Fairness in Serving Large Language Models*, OSDI 2024): each tenant has
//! an account of the uncached prompt tokens released for it, divided by its weight, and the tenant with the least goes next. A tenant
//! that comes back is lifted to the least account of those that wait, so nobody saves up turns. What an endpoint reports as read from
//! its cache is given back, so that locality is not punished.
//!
//! Inside a tenant the order is by `arrival + size_age · log2(size)`. That is shortest first with ageing: of two calls the longer one
//! goes first if it is older by `size_age` for each doubling that it is longer. As time adds the same to both sides, the order of two
//! calls never changes while they wait, and sorted sets are enough: nothing is ever sorted again or scanned.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use maitred_types::Time;

use crate::waiting::TicketId;

/// Accounts of tenants without waiting calls that are kept, per class.
pub(super) const MAX_IDLE: usize = 4_096;
/// Account units per token, so that weights divide well.
const UNITS: u64 = 1_024;
/// Bounds of the size that the order looks at: below the lower one all calls are equally small.
const SIZE_BOUNDS: (u64, u64) = (256, 1 << 20);
const SIZES: usize = 64;

/// What the room needs to know of a waiting call to give it its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) tenant: u64,
    /// The tenant's weight; at least 1.
    pub(super) weight: u32,
    pub(super) arrived: Time,
    /// Uncached prompt tokens, at least 1.
    pub(super) tokens: u64,
    /// Which part of the room it takes, in parts of [`super::WHOLE`].
    pub(super) bulk: u64,
    /// Its place in its tenant's queue, see [`place`].
    pub(super) place: u64,
}

/// Where a call stands among those of its tenant, in nanoseconds: least first.
pub(super) fn place(arrived: Time, tokens: u64, size_age: Duration) -> u64 {
    let doublings = (tokens.clamp(SIZE_BOUNDS.0, SIZE_BOUNDS.1) as f64).log2();
    (arrived + size_age.mul_f64(doublings)).as_nanos()
}

/// What a tenant has had and what it wants.
#[derive(Debug, Default)]
struct Account {
    /// Tokens released for it, in units and divided by its weight.
    spent: u64,
    weight: u32,
    queue: BTreeSet<(u64, TicketId)>,
    tokens: u64,
    bulk: u64,
}

/// The waiting calls of one class.
#[derive(Debug)]
pub(super) struct Line {
    accounts: BTreeMap<u64, Account>,
    /// Tenants with waiting calls, by what they have had.
    turns: BTreeSet<(u64, u64)>,
    /// Tenants with waiting calls, by the part of the room that they take.
    bulks: BTreeSet<(u64, u64)>,
    ages: BTreeSet<(Time, TicketId)>,
    /// Waiting tokens by the binary logarithm of their call's size.
    tokens: [u64; SIZES],
    /// The weights of tenants with waiting calls.
    weights: u64,
    /// Where a tenant that comes back starts.
    floor: u64,
}

impl Default for Line {
    fn default() -> Self {
        Self {
            accounts: BTreeMap::new(),
            turns: BTreeSet::new(),
            bulks: BTreeSet::new(),
            ages: BTreeSet::new(),
            tokens: [0; SIZES],
            weights: 0,
            floor: 0,
        }
    }
}

impl Line {
    pub(super) fn len(&self) -> usize {
        self.ages.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ages.is_empty()
    }

    /// A newcomer. Its tenant, if it had nobody waiting, is lifted to those who have.
    pub(super) fn join(&mut self, ticket: TicketId, seat: &Seat) {
        self.raise_floor();
        let account = self.accounts.entry(seat.tenant).or_default();
        if account.queue.is_empty() {
            account.spent = account.spent.max(self.floor);
        }
        self.join_again(ticket, seat);
    }

    /// Somebody who stepped aside for a moment, which must cost nothing.
    pub(super) fn join_again(&mut self, ticket: TicketId, seat: &Seat) {
        let account = self.accounts.entry(seat.tenant).or_default();
        if !account.queue.is_empty() {
            self.turns.remove(&(account.spent, seat.tenant));
            self.bulks.remove(&(account.bulk, seat.tenant));
            self.weights -= u64::from(account.weight);
        }
        account.weight = seat.weight;
        account.queue.insert((seat.place, ticket));
        account.tokens += seat.tokens;
        account.bulk += seat.bulk;
        self.weights += u64::from(account.weight);
        self.turns.insert((account.spent, seat.tenant));
        self.bulks.insert((account.bulk, seat.tenant));
        self.ages.insert((seat.arrived, ticket));
        self.tokens[size_class(seat.tokens)] += seat.tokens;
    }

    pub(super) fn part(&mut self, ticket: TicketId, seat: &Seat) {
        let Some(account) = self.accounts.get_mut(&seat.tenant) else {
            return;
        };
        if !account.queue.remove(&(seat.place, ticket)) {
            return;
        }
        self.turns.remove(&(account.spent, seat.tenant));
        self.bulks.remove(&(account.bulk, seat.tenant));
        account.tokens -= seat.tokens;
        account.bulk -= seat.bulk;
        if account.queue.is_empty() {
            self.weights -= u64::from(account.weight);
        } else {
            self.turns.insert((account.spent, seat.tenant));
            self.bulks.insert((account.bulk, seat.tenant));
        }
        self.ages.remove(&(seat.arrived, ticket));
        self.tokens[size_class(seat.tokens)] -= seat.tokens;
    }

    /// Books tokens on a tenant's account.
    pub(super) fn charge(&mut self, tenant: u64, tokens: u64) {
        self.adjust(tenant, |account| {
            account.spent = account.spent.saturating_add(units(tokens, account.weight));
        });
    }

    /// Gives tokens back that had been booked and were not computed.
    pub(super) fn give_back(&mut self, tenant: u64, tokens: u64) {
        self.adjust(tenant, |account| {
            account.spent = account.spent.saturating_sub(units(tokens, account.weight));
        });
    }

    fn adjust(&mut self, tenant: u64, change: impl FnOnce(&mut Account)) {
        let Some(account) = self.accounts.get_mut(&tenant) else {
            return;
        };
        let waits = self.turns.remove(&(account.spent, tenant));
        change(account);
        if waits {
            self.turns.insert((account.spent, tenant));
        }
        self.raise_floor();
    }

    fn raise_floor(&mut self) {
        if let Some((least, _)) = self.turns.first() {
            self.floor = self.floor.max(*least);
        }
    }

    /// Forgets tenants without waiting calls whose accounts say nothing, or of whom there are too many.
    pub(super) fn forget_idle(&mut self) {
        if self.accounts.len() <= self.turns.len() + MAX_IDLE {
            return;
        }
        let floor = self.floor;
        let worth = |account: &Account| !account.queue.is_empty() || account.spent > floor;
        self.accounts.retain(|_, account| worth(account));
        if self.accounts.len() > self.turns.len() + MAX_IDLE / 2 {
            self.accounts.retain(|_, account| !account.queue.is_empty());
        }
    }

    /// Who goes next by fairness and size.
    pub(super) fn next(&self) -> Option<TicketId> {
        let (_, tenant) = self.turns.first()?;
        let account = self.accounts.get(tenant)?;
        account.queue.first().map(|(_, ticket)| *ticket)
    }

    /// Who has waited longest, and since when.
    pub(super) fn oldest(&self) -> Option<(Time, TicketId)> {
        self.ages.first().copied()
    }

    /// Who is shed first: the last call of the tenant that takes most of the room. Also says how much that tenant takes.
    pub(super) fn last(&self) -> Option<(u64, TicketId)> {
        let (bulk, tenant) = self.bulks.last()?;
        let account = self.accounts.get(tenant)?;
        account.queue.last().map(|(_, ticket)| (*bulk, *ticket))
    }

    /// Which part of the room a tenant takes.
    pub(super) fn bulk_of(&self, tenant: u64) -> u64 {
        self.accounts.get(&tenant).map_or(0, |account| account.bulk)
    }

    pub(super) fn total_tokens(&self) -> u64 {
        self.tokens.iter().sum()
    }

    /// Tokens that are released before a newcomer's of the same class, about: those of calls that are not larger, or, where the
    /// newcomer's tenant has little waiting, what the others get meanwhile. Ageing is left out.
    pub(super) fn before(&self, tenant: u64, weight: u32, tokens: u64) -> u64 {
        let not_larger: u64 = self.tokens[..=size_class(tokens)].iter().sum();
        let own = self.accounts.get(&tenant).map_or(0, |account| account.tokens);
        let waits = self
            .accounts
            .get(&tenant)
            .is_some_and(|account| !account.queue.is_empty());
        let others = self.weights + if waits { 0 } else { u64::from(weight) };
        let by_turns = own.saturating_add(tokens).saturating_mul(others) / u64::from(weight.max(1));
        not_larger.min(by_turns)
    }

    /// What does not add up, in one line; for the check of invariants.
    pub(super) fn fault(&self, seats: &BTreeMap<TicketId, Seat>) -> Option<&'static str> {
        let mut tokens = [0; SIZES];
        for (ticket, seat) in seats {
            let account = self.accounts.get(&seat.tenant);
            if !account.is_some_and(|account| account.queue.contains(&(seat.place, *ticket))) {
                return Some("a waiting call is in no queue");
            }
            if !self.ages.contains(&(seat.arrived, *ticket)) {
                return Some("a waiting call has no age");
            }
            tokens[size_class(seat.tokens)] += seat.tokens;
        }
        let waiting = self.accounts.iter().filter(|(_, account)| !account.queue.is_empty());
        let (mut calls, mut tenants, mut weights) = (0, 0, 0);
        for (tenant, account) in waiting {
            calls += account.queue.len();
            tenants += 1;
            weights += u64::from(account.weight);
            let (turn, bulk) = ((account.spent, *tenant), (account.bulk, *tenant));
            if !self.turns.contains(&turn) || !self.bulks.contains(&bulk) {
                return Some("a tenant with waiting calls has no turn");
            }
        }
        if calls != seats.len() || self.ages.len() != seats.len() {
            return Some("a queue holds a call that does not wait");
        }
        if tenants != self.turns.len() || tenants != self.bulks.len() || weights != self.weights {
            return Some("a tenant without waiting calls has a turn");
        }
        if tokens != self.tokens {
            return Some("waiting tokens are not those of the waiting calls");
        }
        (self.accounts.len() > self.turns.len() + MAX_IDLE).then_some("too many accounts are kept")
    }
}

fn units(tokens: u64, weight: u32) -> u64 {
    tokens.saturating_mul(UNITS) / u64::from(weight.max(1))
}

/// The place of a size among [`SIZES`].
const fn size_class(tokens: u64) -> usize {
    (if tokens == 0 { 0 } else { tokens.ilog2() }) as usize
}
