//! Asks that may wait: who goes at once, who waits, and who goes when there is room again.
//!
//! A call waits only when no endpoint that it may use has room, or others wait already. Nothing is decided for a waiting call before
//! it goes: the pick is made when there is room, with what is known then.

use std::time::Duration;

use maitred_types::Time;
use smallvec::SmallVec;

use crate::ask::{Ask, AttemptKind, Refusal};
use crate::columns::{Gate, Phase, slot_number};
use crate::cost::whole_tokens;
use crate::filter::{Filter, Removed};
use crate::pace::Work;
use crate::pool::Pool;
use crate::pool::pick::{Field, Manner};
use crate::pool::prefix::Look;
use crate::pool::sabotage::Sabotage;
use crate::room::call::Waiter;
use crate::room::{Ended, Newcomer};
use crate::waiting::{Answer, Released, RoomReport, TicketId, WaitingOptions};

/// Waiting calls that are tried at most when those before them cannot use what has room, since they have been there.
const LOOK_AHEAD: usize = 8;

/// The time per token that is always allowed, in steps of the engine's smallest batch.
const SLOW_ENGINE: f64 = 2.0;

impl Pool {
    /// Chooses an endpoint with room and books a lease on it, or lets the ask wait until there is one.
    ///
    /// Whoever changes the pool after that, be it by this very call, asks [`Pool::released`] until it says `None`.
    pub fn ask(&mut self, ask: &Ask<'_>, now: Time) -> Answer {
        if self.options.waiting.calls == 0 {
            return match self.pick(ask, now) {
                Ok(picked) => Answer::Go(picked),
                Err(refusal) => Answer::Shed(refusal),
            };
        }
        let now = self.tick(now);
        self.counters.asks += 1;
        let refusal = if self.room.is_empty() {
            match self.try_pick(ask, Manner::IfRoom, now) {
                Ok(picked) => {
                    self.counters.booked += 1;
                    return Answer::Go(picked);
                }
                Err(refusal) => refusal,
            }
        } else {
            self.outlook(ask)
        };
        let waits = matches!(refusal, Refusal::Saturated { .. });
        let entered = if waits { self.enter(ask, now) } else { Err(refusal) };
        match entered {
            Ok(ticket) => {
                self.counters.waited += 1;
                Answer::Wait(ticket)
            }
            Err(refusal) => {
                self.counters.refused += 1;
                Answer::Shed(refusal)
            }
        }
    }

    /// What an ask that has to stand behind others would be refused for.
    fn outlook(&mut self, ask: &Ask<'_>) -> Refusal {
        if ask.attempt == AttemptKind::Retry && !self.may_retry() {
            let retry_after = self.options.retry_after;
            return Refusal::RetryBudget { retry_after };
        }
        let field = self.gather(ask);
        self.refusal(&field)
    }

    fn enter(&mut self, ask: &Ask<'_>, now: Time) -> Result<TicketId, Refusal> {
        self.look_up(ask, Look::Aside);
        let held = self.columns.matched.iter().copied().fold(0.0, f32::max);
        let tokens = u64::from(ask.input_tokens.saturating_sub(whole_tokens(f64::from(held))).get()).max(1);
        let ready = self.columns.gates.iter().zip(&self.columns.paces);
        let paces = ready
            .filter(|(gate, _)| gate.phase == Phase::Ready)
            .map(|(_, pace)| pace);
        let work = Work::of(tokens as f64, 0.0);
        let service = paces.clone().map(|pace| pace.fixed + pace.seconds(work));
        let new = Newcomer {
            tokens,
            service: service.reduce(f64::min).map_or(Duration::ZERO, duration),
            pace: paces.map(|pace| pace.token.recip()).sum(),
            now,
            chance: self.rng.f64(),
        };
        let mut options = &self.options.waiting;
        let endless;
        if self.is_sabotaged(Sabotage::EndlessRoom) {
            endless = WaitingOptions {
                calls: u32::MAX,
                bytes: u64::MAX,
                ..options.clone()
            };
            options = &endless;
        }
        let entered = self.room.enter(ask, &new, options);
        // Those who wait may be unable to use the room that this one can, or have gone to make a place for it.
        self.note_change();
        entered
    }

    /// The next wait that has ended: with a place, or with the reason why there is none. To be asked after each change of the pool
    /// until it says `None`; who goes is decided here and now.
    pub fn released(&mut self, now: Time) -> Option<Released> {
        if self.room.is_quiet() {
            return None;
        }
        let now = self.tick(now);
        if let Some(ended) = self.room.poll_ended() {
            return Some(self.ended(&ended));
        }
        if !self.room.may_go {
            return None;
        }
        let released = self.let_go(now);
        self.room.may_go = released.is_some() && !self.room.is_empty();
        released
    }

    /// The reason of a wait that ended in vain: that nobody is there to serve says more than that it was long.
    fn ended(&self, ended: &Ended) -> Released {
        let Ended {
            ticket,
            waited,
            mut refusal,
        } = *ended;
        let is_ready = |gate: &Gate| gate.phase == Phase::Ready;
        if !self.columns.gates.iter().any(is_ready) {
            refusal = Refusal::NotReady {
                removed: Removed::default(),
            };
        }
        Released {
            ticket,
            waited,
            outcome: Err(refusal),
        }
    }

    /// Lets the first of the waiting calls go that can.
    fn let_go(&mut self, now: Time) -> Option<Released> {
        let mut aside: SmallVec<[(TicketId, Waiter); LOOK_AHEAD]> = SmallVec::new();
        let mut gone = None;
        while gone.is_none() && aside.len() < LOOK_AHEAD {
            let next = if self.is_sabotaged(Sabotage::LastFirst) {
                self.room.least()
            } else {
                self.room.next(&self.options.waiting)
            };
            let Some((ticket, waiter)) = next.and_then(|ticket| Some((ticket, self.room.step_aside(ticket)?))) else {
                break;
            };
            let picked = self.try_pick(&waiter.kept().ask(), Manner::IfRoom, now);
            let is_choosy = waiter.kept().is_choosy();
            aside.push((ticket, waiter));
            match picked {
                Ok(picked) => gone = Some((ticket, picked)),
                Err(_) if is_choosy => {}
                // What this one cannot have, nobody can.
                Err(_) => break,
            }
        }
        for (ticket, waiter) in aside {
            self.room.step_back(ticket, waiter);
        }
        let (ticket, picked) = gone?;
        self.counters.booked += 1;
        let lease = self.leases.get_mut(picked.lease)?;
        let (charge, waited) = self.room.go(ticket, whole_tokens(lease.work.tokens).get(), now)?;
        lease.charge = Some(charge);
        Some(Released {
            ticket,
            waited,
            outcome: Ok(picked),
        })
    }

    /// The client of a waiting call has gone. False if the call does not wait any more: then its end is there to be fetched, or was.
    pub fn leave(&mut self, ticket: TicketId, now: Time) -> bool {
        let now = self.tick(now);
        let left = self.room.take(ticket, now).is_some();
        if left && !self.is_sabotaged(Sabotage::LoseTicket) {
            self.counters.left += 1;
        }
        left
    }

    /// Ends every wait, since nobody will be there to serve.
    pub fn dismiss(&mut self, now: Time) {
        let now = self.tick(now);
        self.room.dismiss(now);
    }

    /// What waits.
    #[must_use]
    pub fn room(&self, now: Time) -> RoomReport {
        self.room.report(&self.options.waiting, now.max(self.now))
    }

    /// Whether the endpoint at `at` has room for a call that could wait.
    pub(super) fn has_room(&self, at: usize) -> bool {
        let (waiting, gate, load) = (&self.options.waiting, &self.columns.gates[at], &self.columns.loads[at]);
        if self.is_sabotaged(Sabotage::SkipRoom) {
            return true;
        }
        if self.now < gate.cool_until || !self.is_within_budget(at) {
            return false;
        }
        if !gate.is_fresh(&self.freshness()) {
            return true;
        }
        let estimate = load.estimate(gate.in_flight, self.now);
        let limit = 1.0 + waiting.headroom;
        f64::from(estimate.queued) < f64::from(waiting.queued) * limit
            && estimate.kv_used.is_none_or(|used| used < waiting.kv_used * limit)
    }

    /// Whether the own calls without output on the endpoint at `at` leave it time for another one.
    fn is_within_budget(&self, at: usize) -> bool {
        let (waiting, pending) = (&self.options.waiting, self.columns.backlogs[at].pending());
        let time = waiting.prefill_time.map_or(f64::INFINITY, |time| time.as_secs_f64());
        pending.tokens < waiting.prefill_tokens as f64
            && self.columns.paces[at].seconds(pending) < time
            && self.is_fast_enough(at)
    }

    /// Whether one call more would leave the calls of the endpoint at `at` their tokens in time.
    fn is_fast_enough(&self, at: usize) -> bool {
        let Some(limit) = self.options.waiting.token_time else {
            return true;
        };
        if self.columns.gates[at].in_flight == 0 {
            return true;
        }
        let (pace, (running, context)) = (&self.columns.paces[at], self.batch(at, self.now));
        let waiting = f64::from(self.columns.gates[at].in_flight) - f64::from(self.columns.loads[at].decoding);
        let step = pace.step + pace.sequence * (running + waiting + 1.0) + pace.context * context;
        // An engine that would not keep it even with a call or two is not what the limit was meant for, and must not serve them in turn.
        let limit = limit.as_secs_f64().max(SLOW_ENGINE * pace.step);
        step < limit * self.columns.endpoints[at].busy.left(self.now)
    }

    /// Leaves nobody where none of the candidates has room. Where one has, all stay: whether a call queues where its prompt is cached or
    /// goes where there is room is for the profile to weigh. Taking the choice away would send calls from full caches to empty ones
    /// exactly when computing is dearest.
    pub(super) fn keep_room(&mut self, field: &mut Field) {
        let candidates = &self.scratch.candidates;
        if candidates.iter().any(|at| self.has_room(*at as usize)) {
            return;
        }
        field.removed.add(Filter::HasRoom, slot_number(candidates.len()));
        self.scratch.candidates.clear();
    }

    /// Something changed that may let a waiting call go.
    pub(super) fn note_change(&mut self) {
        self.room.may_go |= !self.room.is_empty();
    }

    /// The same, if it concerns the endpoint at `at` alone.
    pub(super) fn note_change_at(&mut self, at: usize) {
        if !self.room.may_go && !self.room.is_empty() {
            self.room.may_go = self.has_room(at);
        }
    }

    /// Whether an endpoint that was spared is not any more as of `later`.
    pub(super) fn note_cooled(&mut self, later: Time) {
        if self.room.is_empty() || self.now >= self.cool_until {
            return;
        }
        let mut gates = self.columns.gates.iter();
        if gates.any(|gate| self.now < gate.cool_until && gate.cool_until <= later) {
            self.note_change();
        }
    }

    /// When something is due that may end a wait, or lets one go.
    pub(super) fn next_in_room(&self) -> Option<Time> {
        if self.room.is_empty() {
            return None;
        }
        let due = self.room.next_due().into_iter().chain(self.starts.next_due());
        if self.now >= self.cool_until {
            return due.min();
        }
        let cool = self.columns.gates.iter().map(|gate| gate.cool_until);
        due.chain(cool.filter(|until| *until > self.now)).min()
    }
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
