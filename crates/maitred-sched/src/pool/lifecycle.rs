//! An endpoint's life: loading, ready, draining, gone, and the next life at the same place.

use maitred_types::{EndpointId, Time};

use crate::columns::{Phase, Trial};
use crate::event::{DrainCause, PoolEvent, ReturnCause};
use crate::pool::Pool;
use crate::readiness::{Proofs, ReadinessChange, ReadinessReport};

impl Pool {
    /// Takes what one probe found. An endpoint takes calls once all three proofs are there.
    pub fn set_readiness(&mut self, id: EndpointId, report: ReadinessReport, now: Time) -> ReadinessChange {
        self.tick(now);
        let Some(at) = self.columns.find(id) else {
            self.counters.late_reports += 1;
            return ReadinessChange::Unknown;
        };
        match report {
            ReadinessReport::Healthy(proofs) => {
                let all = self.columns.endpoints[at].readiness.healthy(proofs);
                if all {
                    self.make_ready(at)
                } else {
                    ReadinessChange::None
                }
            }
            ReadinessReport::Failed => self.probe_failed(at),
            ReadinessReport::Unavailable => self.unavailable(at, DrainCause::HealthUnavailable),
            ReadinessReport::OffRelease => self.unavailable(at, DrainCause::OffRelease),
        }
    }

    /// What an endpoint has proven, as far as nothing has been said against it since. `None` when there is no such endpoint.
    #[must_use]
    pub fn proofs(&self, id: EndpointId) -> Option<Proofs> {
        let at = self.columns.find(id)?;
        Some(self.columns.endpoints[at].readiness.proofs())
    }

    fn make_ready(&mut self, at: usize) -> ReadinessChange {
        let leaves = self.columns.endpoints[at].cause.is_some_and(DrainCause::is_final);
        if leaves || self.columns.gates[at].phase == Phase::Ready {
            return ReadinessChange::None;
        }
        self.columns.endpoints[at].cause = None;
        self.columns.gates[at].phase = Phase::Ready;
        self.lift_work(at);
        self.note_change();
        let endpoint = self.columns.id(at);
        self.events.push(PoolEvent::Ready { endpoint });
        self.look_for_panic();
        ReadinessChange::Ready
    }

    fn probe_failed(&mut self, at: usize) -> ReadinessChange {
        let out = self.columns.endpoints[at]
            .readiness
            .failed_again(&self.options.readiness);
        if !out || self.columns.gates[at].phase != Phase::Ready {
            return ReadinessChange::None;
        }
        self.columns.gates[at].phase = Phase::Loading;
        let endpoint = self.columns.id(at);
        self.events.push(PoolEvent::NotReady { endpoint });
        self.look_for_panic();
        ReadinessChange::NotReady
    }

    fn unavailable(&mut self, at: usize, cause: DrainCause) -> ReadinessChange {
        let was_ready = self.columns.gates[at].phase == Phase::Ready;
        self.columns.endpoints[at].readiness.forget();
        if !was_ready {
            return ReadinessChange::None;
        }
        self.begin_drain(at, cause);
        ReadinessChange::Draining
    }

    /// Stops new calls to an endpoint. With a final cause it goes when its last lease ends; otherwise it loads again then,
    /// and needs every proof anew.
    pub fn drain(&mut self, id: EndpointId, cause: DrainCause, now: Time) {
        self.tick(now);
        match self.columns.find(id) {
            Some(at) => self.begin_drain(at, cause),
            None => self.counters.late_reports += 1,
        }
    }

    pub(super) fn begin_drain(&mut self, at: usize, cause: DrainCause) {
        let endpoint = self.columns.id(at);
        let row = &mut self.columns.endpoints[at];
        row.readiness.forget();
        let phase = self.columns.gates[at].phase;
        let is_news = match row.cause {
            Some(before) => cause.is_final() && !before.is_final(),
            None => phase == Phase::Ready || cause.is_final(),
        };
        if !is_news {
            return;
        }
        row.cause = Some(cause);
        row.leaving_since = cause.is_final().then_some(self.now);
        self.columns.gates[at].phase = Phase::Draining;
        self.events.push(PoolEvent::Draining { endpoint, cause });
        self.settle_drain(at);
        self.plan_due();
        self.look_for_panic();
    }

    /// Ends the drain of an endpoint without leases.
    pub(super) fn settle_drain(&mut self, at: usize) {
        let gate = &self.columns.gates[at];
        if gate.phase != Phase::Draining || gate.in_flight > 0 {
            return;
        }
        let endpoint = self.columns.id(at);
        if self.columns.endpoints[at].cause.is_some_and(DrainCause::is_final) {
            self.end_life(at);
        } else {
            self.columns.endpoints[at].cause = None;
            self.columns.gates[at].phase = Phase::Loading;
            self.events.push(PoolEvent::Drained { endpoint });
        }
    }

    /// Takes an endpoint out at once. Its leases are cut off; the event says which.
    pub fn remove(&mut self, id: EndpointId, now: Time) {
        self.tick(now);
        match self.columns.find(id) {
            Some(at) => self.end_life(at),
            None => self.counters.late_reports += 1,
        }
    }

    fn end_life(&mut self, at: usize) {
        let endpoint = self.columns.id(at);
        let address = self.columns.endpoints[at].address.clone();
        let time = self.pass_time(at, self.now);
        let fenced = self.leases.fence(&mut self.columns.endpoints[at].leases, time);
        self.prefixes.end_life(at);
        let gate = &mut self.columns.gates[at];
        gate.phase = Phase::Gone;
        gate.in_flight = 0;
        gate.ejected_until = None;
        gate.trial = Trial::None;
        self.events.push(PoolEvent::Gone {
            endpoint,
            address,
            fenced,
        });
        self.plan_due();
        self.look_for_panic();
    }

    /// Begins the next life of an endpoint that was seen to have restarted: leases of the old life are cut off, and nothing
    /// counted or learnt is kept. `None` when there is no such endpoint, or it was leaving for good and is gone now.
    pub fn restart(&mut self, id: EndpointId, now: Time) -> Option<EndpointId> {
        let now = self.tick(now);
        let Some(at) = self.columns.find(id) else {
            self.counters.late_reports += 1;
            return None;
        };
        if self.columns.endpoints[at].cause.is_some_and(DrainCause::is_final) {
            self.end_life(at);
            return None;
        }
        let time = self.pass_time(at, now);
        let row = &mut self.columns.endpoints[at];
        let fenced = self.leases.fence(&mut row.leases, time);
        let who = (row.address.clone(), row.options.clone());
        self.begin_life(at, id.incarnation.next(), who, now);
        let next = self.columns.id(at);
        self.events.push(PoolEvent::Restarted {
            endpoint: id,
            next,
            fenced,
        });
        self.plan_due();
        self.look_for_panic();
        Some(next)
    }

    pub(super) fn eject(&mut self, at: usize, until: Time) {
        let endpoint = self.columns.id(at);
        let gate = &mut self.columns.gates[at];
        gate.ejected_until = Some(until);
        gate.trial = Trial::None;
        self.columns.endpoints[at].tally.ejections += 1;
        self.events.push(PoolEvent::Ejected { endpoint, until });
        self.plan_due();
        self.look_for_panic();
    }

    /// Output came from an endpoint that was ejected or on probation: it works.
    pub(super) fn prove(&mut self, at: usize) {
        let gate = &mut self.columns.gates[at];
        let was_ejected = gate.ejected_until.take().is_some();
        gate.trial = Trial::None;
        self.note_change();
        if was_ejected {
            self.say_returned(at, ReturnCause::Proven);
            self.plan_due();
        }
    }

    /// Ends the ejections that are over.
    pub(super) fn return_due(&mut self) {
        for at in 0..self.columns.len() {
            let gate = &mut self.columns.gates[at];
            if gate.ejected_until.is_some_and(|until| until <= self.now) {
                gate.ejected_until = None;
                gate.trial = Trial::Open;
                self.say_returned(at, ReturnCause::TimeOver);
            }
        }
    }

    /// Takes out the endpoints that had time enough to leave.
    pub(super) fn leave_due(&mut self) {
        for at in 0..self.columns.len() {
            if self.leaves_at(at).is_some_and(|due| due <= self.now) {
                let endpoint = self.columns.id(at);
                self.events.push(PoolEvent::DrainCutShort { endpoint });
                self.end_life(at);
            }
        }
    }

    /// When an endpoint that leaves for good goes at the latest.
    fn leaves_at(&self, at: usize) -> Option<Time> {
        let (limit, since) = (self.options.drain_limit?, self.columns.endpoints[at].leaving_since?);
        (self.columns.gates[at].phase == Phase::Draining).then(|| since + limit)
    }

    fn say_returned(&mut self, at: usize, cause: ReturnCause) {
        let endpoint = self.columns.id(at);
        self.events.push(PoolEvent::Returned { endpoint, cause });
        self.lift_work(at);
        self.look_for_panic();
    }

    pub(super) fn plan_due(&mut self) {
        let returns = self.columns.gates.iter().filter_map(|gate| gate.ejected_until);
        let leaves = (0..self.columns.len()).filter_map(|at| self.leaves_at(at));
        self.next_due = returns.chain(leaves).min();
    }

    /// Lets a newcomer start level with the others, so that it does not win every tie until it has caught up.
    fn lift_work(&mut self, at: usize) {
        if let Some(least) = self.columns.least_work(at) {
            let work = &mut self.columns.work[at];
            *work = (*work).max(least);
        }
    }

    fn look_for_panic(&mut self) {
        let ready = self.columns.gates.iter().filter(|gate| gate.phase == Phase::Ready);
        let (mut count, mut ejected) = (0_u32, 0_u32);
        for gate in ready {
            count += 1;
            ejected += u32::from(gate.ejected_until.is_some());
        }
        let in_panic = count > 0 && count == ejected;
        if in_panic != self.in_panic {
            self.in_panic = in_panic;
            self.note_change();
            self.events.push(if in_panic {
                PoolEvent::PanicEntered
            } else {
                PoolEvent::PanicLeft
            });
        }
    }
}
