//! A lease's life: first token, progress, and its one end.

use std::time::Duration;

use maitred_types::{EndpointId, LeaseEnd, LeaseId, Time, TokenCount, Usage};

use crate::ask::{Delivery, FinishReport};
use crate::columns::{Phase, Trial};
use crate::event::DrainCause;
use crate::lease::Lease;
use crate::outlier::Failed;
use crate::pace::Work;
use crate::pool::Pool;
use crate::pool::sabotage::Sabotage;

impl Pool {
    /// Says that a lease's first output has come. Later ones of the same lease change nothing.
    pub fn first_token(&mut self, lease: LeaseId, now: Time) {
        let now = self.tick(now);
        let Some(booked) = self.leases.get_mut(lease) else {
            return;
        };
        if booked.fenced || booked.first_token_at.is_some() {
            return;
        }
        booked.first_token_at = Some(now);
        let at = booked.endpoint.slot.index();
        booked.turn = self.columns.backlogs[at].turn(booked);
        let booked = *booked;
        self.learn_start(&booked, at, now);
        self.prefixes.confirm(lease, at, now);
        self.begin_decode(lease, now);
        if self.columns.endpoints[at].outlier.counts(booked.booked_at) {
            self.prove(at);
        }
    }

    /// From here on a lease is taken to decode, unless it was before, has ended or counts nowhere.
    fn begin_decode(&mut self, lease: LeaseId, now: Time) {
        let Some(booked) = self.leases.get_mut(lease) else {
            return;
        };
        if booked.fenced || booked.decoding_since.is_some() {
            return;
        }
        booked.decoding_since = Some(now);
        let at = booked.endpoint.slot.index();
        self.columns.loads[at].begins(booked, now);
        self.columns.endpoints[at].marks.started(booked, now);
        let work = booked.work;
        self.leave_queue(at, lease, work, now);
        let batch = self.batch(at, now);
        if let Some(booked) = self.leases.get_mut(lease) {
            booked.batch = batch;
        }
    }

    /// Takes a lease out of what its endpoint has to prefill.
    fn leave_queue(&mut self, at: usize, lease: LeaseId, work: Work, now: Time) {
        let list = &mut self.columns.endpoints[at].leases;
        let head = self.leases.leave_queue(lease, list).map(|oldest| oldest.work);
        self.columns.backlogs[at].left(work, head, now);
        self.note_change_at(at);
    }

    /// Lets the calls whose beginning is assumed begin when their time has come.
    pub(super) fn begin_due(&mut self) {
        while let Some(lease) = self.starts.due(self.now) {
            self.begin_decode(lease, self.now);
        }
    }

    /// Says how many output tokens a lease has given so far; sharpens the estimate of the KV cache. Optional.
    pub fn progress(&mut self, lease: LeaseId, output_tokens: TokenCount, now: Time) {
        self.tick(now);
        if let Some(booked) = self.leases.get_mut(lease) {
            booked.output = booked.output.max(output_tokens);
        }
    }

    /// The part of its endpoint's time that a lease has had so far: the time is split evenly at each moment among the calls that are there,
    /// those of other gateways among them as far as they tell. `None` if the lease has ended.
    pub fn time_share(&mut self, lease: LeaseId, now: Time) -> Option<Duration> {
        let now = self.tick(now);
        let booked = self.leases.get(lease).copied()?;
        if booked.fenced {
            return Some(Duration::from_nanos(booked.time));
        }
        let at = booked.endpoint.slot.index();
        self.pass_time(at, now);
        Some(
            self.columns.endpoints[at]
                .time
                .since(booked.time, self.columns.gates[at].in_flight),
        )
    }

    /// Splits the time that has passed at an endpoint among its calls. To be done before their number changes. Where it stands then is told.
    pub(super) fn pass_time(&mut self, at: usize, now: Time) -> u64 {
        let (own, others) = (self.columns.gates[at].in_flight, self.columns.heard[at].sequences());
        let time = &mut self.columns.endpoints[at].time;
        time.advance(now, own, others);
        time.mark()
    }

    /// Ends a lease. The second end of a lease is ignored and counted.
    pub fn finish(&mut self, lease: LeaseId, end: LeaseEnd, usage: Option<&Usage>, now: Time) -> FinishReport {
        let now = self.tick(now);
        let Some(booked) = self.leases.get(lease).copied() else {
            self.counters.late_finishes += 1;
            return FinishReport::Unknown;
        };
        self.counters.finished += 1;
        self.note_change();
        if self.is_sabotaged(Sabotage::FinishTwice) {
            return FinishReport::Unknown;
        }
        if booked.retry {
            self.retries.give_back();
        }
        self.settle_prefix(lease, &booked, end, usage);
        if booked.fenced {
            self.leases.remove(lease, None);
            return FinishReport::Fenced {
                endpoint: booked.endpoint,
            };
        }
        self.release(lease, &booked, usage, now);
        self.learn_end(&booked, end, usage, now);
        self.judge(&booked, end, now);
        self.settle_drain(booked.endpoint.slot.index());
        FinishReport::Ended {
            endpoint: booked.endpoint,
            held: now.since(booked.booked_at),
            first_token: booked.first_token_at.map(|first| first.since(booked.booked_at)),
        }
    }

    /// Gives back what a lease held on its endpoint.
    fn release(&mut self, lease: LeaseId, booked: &Lease, usage: Option<&Usage>, now: Time) {
        let at = booked.endpoint.slot.index();
        if booked.decoding_since.is_none() {
            self.leave_queue(at, lease, booked.work, now);
        }
        let endpoint = &mut self.columns.endpoints[at];
        self.leases.remove(lease, Some(&mut endpoint.leases));
        let mut booked = *booked;
        if let Some(usage) = usage {
            booked.output = booked.output.max(usage.output);
        }
        let load = &mut self.columns.loads[at];
        let kv_tokens = load.kv_held(&booked, now);
        endpoint.marks.ended(&booked, kv_tokens, now);
        load.ended(&booked, now);
        // What was not seen as it came says nothing about how fast it did.
        if let (Delivery::Streamed, Some(first)) = (booked.delivery, booked.first_token_at) {
            load.learn_rate(booked.output.get(), now.since(first), &self.options.reckoning);
        }
        if let Some(adapter) = booked.adapter {
            self.columns.adapters[at].release(adapter);
        }
        if let Some(cached) = usage.and_then(|usage| usage.cached_input) {
            let work = &mut self.columns.work[at];
            let saved = u64::from(cached.min(booked.input).get());
            *work = (*work + u64::from(booked.cached.get())).saturating_sub(saved);
            if let Some(charge) = booked.charge {
                self.room
                    .give_back(charge, saved.saturating_sub(u64::from(booked.cached.get())));
            }
        }
        if self.is_sabotaged(Sabotage::LoseRelease) {
            return;
        }
        self.pass_time(at, now);
        let (gate, endpoint) = (&mut self.columns.gates[at], &mut self.columns.endpoints[at]);
        endpoint.time.left(gate.in_flight);
        gate.in_flight = gate.in_flight.saturating_sub(1);
        endpoint.ceiling = endpoint.ceiling.min(gate.in_flight);
        if gate.in_flight == 0 {
            endpoint.present_since = now;
        }
    }

    /// Draws from the end of a lease what it says about the endpoint's health.
    fn judge(&mut self, booked: &Lease, end: LeaseEnd, now: Time) {
        let at = booked.endpoint.slot.index();
        if booked.trial && self.columns.gates[at].trial == Trial::Taken {
            self.columns.gates[at].trial = Trial::Open;
        }
        let tally = &mut self.columns.endpoints[at].tally;
        match end {
            LeaseEnd::Success => {
                tally.successes += 1;
                self.succeeded(at, booked);
            }
            LeaseEnd::Failure => {
                tally.failures += 1;
                self.failed(at, booked, now);
            }
            LeaseEnd::Overload => {
                tally.overloads += 1;
                self.cool(at, self.options.outlier.cool_down);
            }
            LeaseEnd::Draining => {
                tally.drainings += 1;
                self.begin_drain(at, DrainCause::Aborting);
            }
            LeaseEnd::Cancelled => tally.cancelled += 1,
            LeaseEnd::Abandoned => tally.abandoned += 1,
        }
    }

    fn succeeded(&mut self, at: usize, booked: &Lease) {
        let outlier = &mut self.columns.endpoints[at].outlier;
        outlier.success(booked.booked_at, &self.options.outlier);
        if outlier.counts(booked.booked_at) {
            self.prove(at);
        }
    }

    fn failed(&mut self, at: usize, booked: &Lease, now: Time) {
        let lease = Failed {
            booked_at: booked.booked_at,
            trial: booked.trial && self.columns.gates[at].trial != Trial::None,
        };
        let outlier = &mut self.columns.endpoints[at].outlier;
        let until = outlier.failure(lease, now, &self.options.outlier);
        if let Some(until) = until
            && self.columns.gates[at].phase != Phase::Draining
        {
            self.eject(at, until);
        }
    }

    /// Spares an endpoint for `wait`, at most the configured longest time, because it said that it has too much to do. Others are
    /// preferred until then; when there are no others, it is picked all the same.
    pub fn cool_down(&mut self, id: EndpointId, wait: Duration, now: Time) {
        self.tick(now);
        match self.columns.find(id) {
            Some(at) => self.cool(at, wait),
            None => self.counters.late_reports += 1,
        }
    }

    fn cool(&mut self, at: usize, wait: Duration) {
        let until = self.now + wait.min(self.options.outlier.max_cool_down);
        let gate = &mut self.columns.gates[at];
        gate.cool_until = gate.cool_until.max(until);
        self.cool_until = self.cool_until.max(until);
    }
}
