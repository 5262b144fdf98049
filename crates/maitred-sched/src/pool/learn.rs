//! What the ends of calls teach: how fast endpoints are, and how long answers are.

use maitred_types::{LeaseEnd, Time, TokenCount, Usage};

use crate::ask::{Ask, Delivery};
use crate::backlog::seconds;
use crate::columns::Phase;
use crate::cost::Size;
use crate::lease::Lease;
use crate::pace::Work;
use crate::pool::Pool;
use crate::speed::{FirstToken, LEARNT, TokenTime};

/// Weight of a new call in the mean work of one.
const MEAN_WORK_WEIGHT: f64 = 0.02;

/// What the endpoints of a pool have in common.
#[derive(Debug)]
pub(super) struct Fleet {
    /// The medians of the endpoints' factors to their prior, for prefill and decode.
    pub(super) factors: (f64, f64),
    /// Samples to come before the medians are taken again.
    wait: usize,
    /// Mean prefill work of one call.
    pub(super) mean_work: Work,
    scratch: Vec<(f64, f64)>,
}

impl Default for Fleet {
    fn default() -> Self {
        Self {
            factors: (1.0, 1.0),
            wait: 0,
            mean_work: Work::NONE,
            scratch: Vec::new(),
        }
    }
}

impl Fleet {
    pub(super) fn booked(&mut self, work: Work) {
        let weight = if self.mean_work.tokens > 0.0 {
            MEAN_WORK_WEIGHT
        } else {
            1.0
        };
        self.mean_work = self.mean_work.times(1.0 - weight).plus(work.times(weight));
    }
}

impl Pool {
    /// What an ask amounts to: its prompt, and the answer that its kind lets expect.
    pub(super) fn size(&self, ask: &Ask<'_>) -> Size {
        let told = f64::from(ask.output_tokens.get());
        let limit = ask.output_limit.map_or(f64::INFINITY, |limit| f64::from(limit.get()));
        let learnt = ask.length_key.and_then(|key| self.lengths.expected(key));
        let (mean, p90) = learnt.map_or((told, told), |expected| (expected.mean, expected.p90));
        Size {
            input: f64::from(ask.input_tokens.get()),
            output: mean.min(limit),
            output_p90: p90.min(limit),
        }
    }

    /// Notes what the lease's first token says about what its endpoint had to do.
    pub(super) fn learn_start(&mut self, lease: &Lease, at: usize, now: Time) {
        let late = seconds(lease.booked_at, now) - lease.reckoned;
        self.columns.backlogs[at].learn(late, now);
    }

    /// Learns from a lease that has ended.
    pub(super) fn learn_end(&mut self, lease: &Lease, end: LeaseEnd, usage: Option<&Usage>, now: Time) {
        if end == LeaseEnd::Success
            && let (Some(key), Some(usage)) = (lease.length_key, usage)
        {
            self.lengths.learn(key, usage.output.get());
        }
        let (Delivery::Streamed, Some(first)) = (lease.delivery, lease.first_token_at) else {
            return;
        };
        let at = lease.endpoint.slot.index();
        let input = usage.map_or(lease.input, |usage| usage.input);
        let cached = usage.and_then(|usage| usage.cached_input).unwrap_or(lease.cached);
        let speed = &mut self.columns.endpoints[at].speed;
        speed.set_fleet(self.fleet.factors);
        speed.learn_first_token(&FirstToken {
            own: Work::of(f64::from(input.get()), f64::from(cached.get())),
            ahead: lease.ahead,
            seconds: seconds(lease.booked_at, first),
        });
        let (running, context) = self.batch(at, now);
        self.columns.endpoints[at].speed.learn_token_time(&TokenTime {
            output: usage.map_or(TokenCount::ZERO, |usage| usage.output).get(),
            seconds: seconds(first, now),
            batch: f64::midpoint(lease.batch.0, running),
            context: f64::midpoint(lease.batch.1, context),
        });
        self.columns.paces[at] = self.columns.endpoints[at].speed.pace();
        self.look_at_fleet();
    }

    /// Sequences that run on an endpoint, and the tokens of their context.
    pub(super) fn batch(&self, at: usize, now: Time) -> (f64, f64) {
        let (gate, load) = (&self.columns.gates[at], &self.columns.loads[at]);
        let running = f64::from(load.estimate(gate.in_flight, now).running.max(1));
        (running, load.context(now).unwrap_or(0.0))
    }

    /// Takes the medians again after as many samples as there are endpoints, and gives them to those that have none of their own.
    fn look_at_fleet(&mut self) {
        if self.fleet.wait > 0 {
            self.fleet.wait -= 1;
            return;
        }
        self.fleet.wait = self.columns.len().max(8);
        let factors = &mut self.fleet.scratch;
        factors.clear();
        let rows = self.columns.endpoints.iter().zip(&self.columns.gates);
        let learnt = rows.filter(|(endpoint, gate)| gate.phase == Phase::Ready && endpoint.speed.samples() >= LEARNT);
        factors.extend(learnt.map(|(endpoint, _)| endpoint.speed.factors()));
        if factors.is_empty() {
            return;
        }
        let middle = factors.len() / 2;
        let prefill = factors.select_nth_unstable_by(middle, |a, b| a.0.total_cmp(&b.0)).1.0;
        let decode = factors.select_nth_unstable_by(middle, |a, b| a.1.total_cmp(&b.1)).1.1;
        self.fleet.factors = (prefill, decode);
        for (endpoint, pace) in self.columns.endpoints.iter_mut().zip(&mut self.columns.paces) {
            if endpoint.speed.samples() < LEARNT {
                endpoint.speed.set_fleet(self.fleet.factors);
                *pace = endpoint.speed.pace();
            }
        }
    }
}
