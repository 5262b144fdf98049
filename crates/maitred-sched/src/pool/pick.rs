//! The pick: gather candidates, narrow them, choose one, book it.

use maitred_types::{EndpointId, LeaseId, Time};

use crate::ask::{Ask, AttemptKind, Delivery, Picked, Refusal};
use crate::columns::{Gate, Phase, Trial, slot_number};
use crate::cost::{Size, whole_tokens};
use crate::filter::{Filter, Removed};
use crate::hash::name_hash;
use crate::lease::Lease;
use crate::pace::Work;
use crate::pool::Pool;
use crate::pool::choose::Choice;
use crate::pool::prefix::Look;
use crate::pool::sabotage::Sabotage;
use crate::scorer::{Scene, Subject};
use crate::why::{Explain, PickReason, Why};

/// What the filters left.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Field {
    pub(super) removed: Removed,
    /// Endpoints of the pool.
    pub(super) endpoints: u32,
    /// Of these, ready ones.
    ready: u32,
    /// Of these, ones that the call has not tried.
    untried: u32,
    in_panic: bool,
}

/// What was chosen, before it is booked.
#[derive(Debug)]
pub(super) struct Selected {
    /// Its slot.
    at: usize,
    pub(super) why: Why,
    field: Field,
}

/// Whether a pick needs room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// It takes a place whatever waits in the engines.
    Anyhow,
    /// It takes one only where there is room, since it can wait.
    IfRoom,
}

impl Pool {
    /// Chooses an endpoint and books a lease on it, however much waits in the engines: [`Pool::ask`] is for those who can wait. The
    /// lease must be finished exactly once.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] that says why nothing was booked; nothing is held then.
    pub fn pick(&mut self, ask: &Ask<'_>, now: Time) -> Result<Picked, Refusal> {
        let now = self.tick(now);
        self.counters.asks += 1;
        let picked = self.try_pick(ask, Manner::Anyhow, now);
        match &picked {
            Ok(_) => self.counters.booked += 1,
            Err(_) => self.counters.refused += 1,
        }
        picked
    }

    pub(super) fn try_pick(&mut self, ask: &Ask<'_>, manner: Manner, now: Time) -> Result<Picked, Refusal> {
        let retry_after = self.options.retry_after;
        if ask.attempt == AttemptKind::Retry && !self.may_retry() {
            return Err(Refusal::RetryBudget { retry_after });
        }
        let full = Refusal::Saturated {
            retry_after,
            removed: Removed::default(),
        };
        if self.leases.len() >= self.max_leases() {
            return Err(full);
        }
        let selected = self.select(ask, Look::Counted, manner);
        let Selected { at, why, field } = selected.map_err(|field| self.refusal(&field))?;
        self.check_booking(at, ask, &field);
        let lease = self.book(at, ask, self.size(ask), now).ok_or(full)?;
        self.claim_prefix(lease, at, ask);
        Ok(Picked {
            lease,
            endpoint: self.columns.id(at),
            address: self.columns.endpoints[at].address.clone(),
            why,
        })
    }

    /// Filters, scores and chooses, and books nothing.
    ///
    /// # Errors
    ///
    /// What the filters made of the pool, when they leave nobody.
    pub(super) fn select(&mut self, ask: &Ask<'_>, look: Look, manner: Manner) -> Result<Selected, Field> {
        let mut subject = Subject {
            freshness: self.freshness(),
            adapter: ask.adapter.map(name_hash),
            home: None,
            prompt: None,
            size: self.size(ask),
            hold: self.fleet.hold,
        };
        let mut field = self.gather(ask);
        let pinned = self.pinned(ask);
        if pinned.is_none() {
            if manner == Manner::IfRoom {
                self.keep_room(&mut field);
            }
            self.narrow(subject, &mut field);
        }
        if self.scratch.candidates.is_empty() {
            return Err(field);
        }
        subject.home = self.home(ask);
        // Not before: a waiting call is tried again and again, and counts once.
        let look = if look == Look::Counted { self.look_at(ask) } else { look };
        subject.prompt = self.look_up(ask, look);
        let choice = pinned.unwrap_or_else(|| self.choose(subject, field.in_panic));
        let mut why = self.record(ask.explain, &field, subject, choice);
        if ask.explain == Explain::Full {
            why.removals = self.removals(ask, subject, &field);
        }
        let at = self.scratch.candidates[choice.at] as usize;
        Ok(Selected { at, why, field })
    }

    /// Whether the retry budget has a place. It is taken by the pick of a [`AttemptKind::Retry`] and held until that lease
    /// ends, so there is nothing to give back by hand.
    #[must_use]
    pub fn may_retry(&self) -> bool {
        self.retries.allows(self.leases.len(), &self.options.retry)
    }

    /// Asks the hard filters. In panic, that is when all that is left is ejected, ejection is not asked.
    pub(super) fn gather(&mut self, ask: &Ask<'_>) -> Field {
        let mut field = self.gather_with(ask, Panic::No);
        let ejected = field.removed.by(Filter::NotEjected);
        if ejected > 0 && ejected == field.untried {
            field = self.gather_with(ask, Panic::Yes);
            field.in_panic = true;
        }
        field
    }

    fn gather_with(&mut self, ask: &Ask<'_>, panic: Panic) -> Field {
        let freshness = self.freshness();
        let (skip_hard, skip_caps) = (
            self.is_sabotaged(Sabotage::SkipHardFilters),
            self.is_sabotaged(Sabotage::SkipCaps),
        );
        let candidates = &mut self.scratch.candidates;
        candidates.clear();
        let mut field = Field::default();
        for (at, gate) in (0_u32..).zip(&self.columns.gates) {
            if gate.phase == Phase::Gone {
                continue;
            }
            field.endpoints += 1;
            if gate.phase != Phase::Ready && !skip_hard {
                field.removed.add(Filter::Ready, 1);
                continue;
            }
            field.ready += 1;
            if is_excluded(ask, at, gate) && !skip_hard {
                field.removed.add(Filter::NotExcluded, 1);
                continue;
            }
            field.untried += 1;
            if panic == Panic::No && gate.is_ejected() {
                field.removed.add(Filter::NotEjected, 1);
                continue;
            }
            match gate.full(&freshness) {
                Some(Filter::BelowCap) if skip_caps => candidates.push(at),
                Some(filter) => field.removed.add(filter, 1),
                None => candidates.push(at),
            }
        }
        field
    }

    /// The endpoint that the connection is bound to, if it passed the hard filters.
    fn pinned(&self, ask: &Ask<'_>) -> Option<Choice> {
        let at = slot_number(self.columns.find(ask.pinned?)?);
        let place = self.scratch.candidates.binary_search(&at).ok()?;
        Some(Choice::new(place, PickReason::Pinned))
    }

    /// Asks the soft filter that is always on, and then those of the profile.
    fn narrow(&mut self, subject: Subject, field: &mut Field) {
        let columns = &self.columns;
        let scene = Scene { columns, subject };
        let some_cool = self.now < self.cool_until;
        let cooling = some_cool.then_some(&Filter::NotCooling);
        for filter in cooling.into_iter().chain(self.profile.filters()) {
            let candidates = &mut self.scratch.candidates;
            if filter.is_soft() && !candidates.iter().any(|at| filter.passes(&scene, *at as usize)) {
                continue;
            }
            let before = candidates.len();
            candidates.retain(|at| filter.passes(&scene, *at as usize));
            field.removed.add(*filter, slot_number(before - candidates.len()));
        }
    }

    pub(super) fn refusal(&self, field: &Field) -> Refusal {
        let removed = field.removed;
        if field.ready == 0 {
            Refusal::NotReady { removed }
        } else if field.untried == 0 {
            Refusal::AllExcluded { removed }
        } else {
            let retry_after = self.options.retry_after;
            Refusal::Saturated { retry_after, removed }
        }
    }

    fn book(&mut self, at: usize, ask: &Ask<'_>, size: Size, now: Time) -> Option<LeaseId> {
        let endpoint = self.columns.id(at);
        let mut lease = Lease::new(endpoint, now, ask.input_tokens);
        lease.time = self.pass_time(at, now);
        self.reckon(at, &mut lease, size, now);
        lease.length_key = ask.length_key;
        let gate = &mut self.columns.gates[at];
        lease.adapter = ask.adapter.map(name_hash);
        lease.retry = ask.attempt == AttemptKind::Retry;
        lease.trial = gate.trial == Trial::Open;
        lease.delivery = ask.delivery;
        self.columns.loads[at].booked(&mut lease, whole_tokens(size.output));
        let row = &mut self.columns.endpoints[at];
        let id = self.leases.insert(lease, &mut row.leases)?;
        row.busy.add(self.columns.paces[at].seconds(lease.work), now);
        self.columns.backlogs[at].booked(lease.work, now);
        self.sharing.booked();
        self.fleet.booked(lease.work, now);
        if lease.delivery == Delivery::Whole {
            let start = self.columns.loads[at].assumed_start(now);
            self.starts.plan(id, start, &self.leases);
        }
        if lease.trial {
            gate.trial = Trial::Taken;
        }
        if gate.in_flight == 0 {
            row.present_since = now;
        }
        gate.in_flight += 1;
        row.tally.picks += 1;
        row.recent.add_one(now);
        self.columns.work[at] += u64::from(ask.input_tokens.saturating_sub(lease.cached).get()) + 1;
        if let Some(adapter) = lease.adapter {
            self.columns.adapters[at].book(adapter);
        }
        if lease.retry {
            self.retries.take();
        }
        Some(id)
    }

    /// Writes down what a lease has to be computed, what stands before it, and when its first token should come.
    fn reckon(&self, at: usize, lease: &mut Lease, size: Size, now: Time) {
        let (pace, backlog) = (&self.columns.paces[at], &self.columns.backlogs[at]);
        let cached = f64::from(self.columns.matched[at]);
        lease.cached = whole_tokens(cached).min(lease.input);
        lease.work = Work::of(size.input, cached);
        lease.ahead = backlog.ahead(pace, now);
        lease.reckoned = backlog.seconds(pace, &self.columns.heard[at], now) + pace.fixed + pace.seconds(lease.work);
    }

    /// Looks at the hard filters once more, for the one that is about to be booked. Costs a few nanoseconds and makes a
    /// mistake in the selection visible instead of silent.
    fn check_booking(&mut self, at: usize, ask: &Ask<'_>, field: &Field) {
        let (gate, freshness) = (&self.columns.gates[at], self.freshness());
        let broken = if gate.phase != Phase::Ready {
            Some(Filter::Ready)
        } else if is_excluded(ask, slot_number(at), gate) {
            Some(Filter::NotExcluded)
        } else if gate.is_ejected() && !field.in_panic {
            Some(Filter::NotEjected)
        } else {
            gate.full(&freshness)
        };
        if let Some(filter) = broken {
            self.note_breach(filter, self.columns.id(at));
        }
    }
}

/// Whether ejection is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Panic {
    No,
    Yes,
}

pub(super) fn is_excluded(ask: &Ask<'_>, at: u32, gate: &Gate) -> bool {
    let is_it = |id: &EndpointId| id.slot.index() == at as usize && id.incarnation == gate.incarnation;
    !ask.excluded.is_empty() && ask.excluded.iter().any(is_it)
}
