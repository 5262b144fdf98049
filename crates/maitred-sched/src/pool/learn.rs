//! What the ends of calls teach: how fast endpoints are, and how long answers are.

use maitred_types::{LeaseEnd, Time, TokenCount, Usage};

use crate::ask::{Ask, Delivery};
use crate::backlog::seconds;
use crate::columns::Phase;
use crate::cost::Size;
use crate::lease::Lease;
use crate::pace::Work;
use crate::pool::Pool;
use crate::speed::{Before, Common, FirstToken, LEARNT, TokenTime};

/// Weight of a new call in the mean work of one.
const MEAN_WORK_WEIGHT: f64 = 0.02;
/// Weight of a new answer in the mean time that one takes.
const HOLD_WEIGHT: f64 = 0.02;
/// Seconds that an answer is taken to take before any has ended.
const FIRST_HOLD: f64 = 5.0;
/// Seconds over which the rate of calls is taken.
const RATE_MEMORY: f64 = 10.0;

/// What the endpoints of a pool have in common.
#[derive(Debug)]
pub(super) struct Fleet {
    /// The medians of what the endpoints have learnt.
    pub(super) factors: Common,
    /// Samples to come before the medians are taken again.
    wait: usize,
    /// Mean prefill work of one call.
    pub(super) mean_work: Work,
    scratch: Vec<Common>,
    /// Mean seconds from the first token of an answer to its last: how long a call holds its place in a KV cache.
    pub(super) hold: f64,
    /// Calls of late, fading; as of when.
    arrivals: f64,
    arrived: Time,
}

impl Default for Fleet {
    fn default() -> Self {
        Self {
            factors: Common::PRIOR,
            wait: 0,
            mean_work: Work::NONE,
            scratch: Vec::new(),
            hold: FIRST_HOLD,
            arrivals: 0.0,
            arrived: Time::ZERO,
        }
    }
}

impl Fleet {
    /// Calls per second of late.
    pub(super) fn rate(&self, now: Time) -> f64 {
        self.arrivals * (-seconds(self.arrived, now) / RATE_MEMORY).exp() / RATE_MEMORY
    }

    /// Counts a call of so much work.
    pub(super) fn booked(&mut self, work: Work, now: Time) {
        self.arrivals = self.arrivals * (-seconds(self.arrived, now) / RATE_MEMORY).exp() + 1.0;
        self.arrived = now;
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
        self.fleet.hold += HOLD_WEIGHT * (seconds(first, now) - self.fleet.hold);
        let at = lease.endpoint.slot.index();
        let input = usage.map_or(lease.input, |usage| usage.input);
        let cached = usage.and_then(|usage| usage.cached_input).unwrap_or(lease.cached);
        let speed = &mut self.columns.endpoints[at].speed;
        speed.set_fleet(self.fleet.factors);
        speed.learn_first_token(&FirstToken {
            own: Work::of(f64::from(input.get()), f64::from(cached.get())),
            before: match lease.turn {
                Some(turn) if turn > lease.booked_at => Before::Others,
                Some(_) => Before::Nobody,
                None => Before::Work(lease.ahead),
            },
            seconds: seconds(lease.turn.unwrap_or(lease.booked_at), first),
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

    /// Sequences that decode on an endpoint, and the tokens of their context.
    pub(super) fn batch(&self, at: usize, now: Time) -> (f64, f64) {
        let (load, told) = (&self.columns.loads[at], self.columns.heard[at].sequences());
        let running = f64::from(load.decoding.saturating_add(told)) + load.others.now(now);
        let running = running.max(1.0);
        (running, load.batch_context(running))
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
        for which in 0..Common::COUNT {
            let by = |one: &Common, other: &Common| one.0[which].total_cmp(&other.0[which]);
            let median = factors.select_nth_unstable_by(middle, by).1.0[which];
            self.fleet.factors.0[which] = median;
        }
        for (endpoint, pace) in self.columns.endpoints.iter_mut().zip(&mut self.columns.paces) {
            if endpoint.speed.samples() < LEARNT {
                endpoint.speed.set_fleet(self.fleet.factors);
                *pace = endpoint.speed.pace();
            }
        }
    }
}
