//! Perfect knowledge.

use fastrand::Rng;

use super::believed::LiveChains;
use super::rule::{Rule, Seen};
use crate::lab::{EndpointIndex, EndpointTruth, LabCall};
use crate::profile::StepCosts;

pub(super) const NAME: &str = "oracle";

/// How fast the price of work rises with the fleet's mean queue, per second.
const PRICE_SLOPE: f64 = 3.0;
/// The highest price of work.
const PRICE_MAX: f64 = 17.0;
/// Seconds that KV pressure costs at half a pool.
const KV_PRICE: f64 = 0.05;
/// The time per output token that a batch should not exceed, in seconds.
const TPOT_OBJECTIVE: f64 = 0.05;
/// Costs that differ by no more count as equal: seconds, and a fraction of the least.
const EQUAL: (f64, f64) = (0.005, 0.02);

/// The recommended cost with the shadow price, `J = Q + μ·w + λ·D + P(k)`, on the truth: exact caches, exact remaining work,
/// exact lengths of answers. What is being computed counts as cached, since a call queued behind it will find it. No policy
/// sees so much; how far others are from it is what their ignorance costs, as long as the rule is the right one.
#[derive(Debug)]
pub(super) struct Oracle {
    computing: Vec<LiveChains>,
    /// Seconds of prefill sent so far, for ties.
    accumulated: Vec<f64>,
}

/// What one endpoint would cost.
#[derive(Clone, Copy, Debug)]
struct Cost {
    total: f64,
    prefill: f64,
}

impl Oracle {
    pub(super) fn new(endpoints: usize) -> Self {
        Self {
            computing: std::iter::repeat_with(LiveChains::default).take(endpoints).collect(),
            accumulated: vec![0.0; endpoints],
        }
    }

    /// Prompt tokens that will be cached when the call's turn comes.
    fn cached(&self, seen: &Seen<'_>, endpoint: usize) -> u32 {
        let block_size = seen.facts[endpoint].block_size.max(1);
        let computing = u32::try_from(self.computing[endpoint].matched(&seen.call.chain)).unwrap_or(u32::MAX);
        let most = seen.call.input.get().saturating_sub(1) / block_size * block_size;
        seen.matched[endpoint]
            .max(computing.saturating_mul(block_size))
            .min(most)
    }

    fn cost(&self, seen: &Seen<'_>, endpoint: usize, truth: &EndpointTruth, price: f64) -> Cost {
        let costs = &seen.facts[endpoint].costs;
        let cached = self.cached(seen, endpoint);
        let prefill = prefill(costs, seen.call, cached);
        let (decode, batch_max) = decode(costs, seen.call, truth);
        Cost {
            total: truth.prefill_seconds
                + price * prefill
                + decode / batch_max
                + pressure(seen, endpoint, truth, cached),
            prefill,
        }
    }
}

fn prefill(costs: &StepCosts, call: &LabCall, cached: u32) -> f64 {
    let uncached = f64::from(call.input.get().saturating_sub(cached).max(1));
    costs.token_us * uncached / 1e6 + costs.attention_ns * uncached * (f64::from(cached) + uncached / 2.0) / 1e9
}

/// The sequence-seconds by which the call slows its batch, and the batch at which the objective is reached.
fn decode(costs: &StepCosts, call: &LabCall, truth: &EndpointTruth) -> (f64, f64) {
    let output = f64::from(call.output.get());
    let context = f64::from(call.input.get()) + output / 2.0;
    let per_step = costs.sequence_ms / 1e3 + costs.context_ns * context / 1e9;
    let batch_max = ((TPOT_OBJECTIVE - costs.decode_fixed_ms / 1e3) / per_step).max(1.0);
    (per_step * output * (1.0 + f64::from(truth.running)), batch_max)
}

/// `p·k / (1 − k)`, where `k` is the part of the KV pool that is used when the call has been taken in. A call that does not fit
/// costs what its part over the pool says, and more than any that fits.
fn pressure(seen: &Seen<'_>, endpoint: usize, truth: &EndpointTruth, cached: u32) -> f64 {
    let block_size = f64::from(seen.facts[endpoint].block_size.max(1));
    let tokens = f64::from(seen.call.input.get().saturating_sub(cached)) + f64::from(seen.call.output.get());
    let needed = (tokens + truth.prefill_tokens as f64) / block_size;
    let used = (f64::from(truth.kv_used) + needed) / f64::from(truth.kv_usable.max(1));
    let fitting = used.min(0.99);
    KV_PRICE * fitting / (1.0 - fitting) + 10.0 * (used - fitting)
}

impl Rule for Oracle {
    fn name(&self) -> &'static str {
        NAME
    }

    fn choose(&mut self, seen: &Seen<'_>, random: &mut Rng) -> usize {
        let truths: Vec<EndpointTruth> = (0..u32::try_from(seen.len()).unwrap_or(u32::MAX))
            .map(|endpoint| seen.fleet.truth(EndpointIndex::new(endpoint)))
            .collect();
        let mean = truths.iter().map(|truth| truth.prefill_seconds).sum::<f64>() / seen.len() as f64;
        let price = (1.0 + PRICE_SLOPE * mean).clamp(1.0, PRICE_MAX);
        let costs: Vec<Cost> = (0..seen.len())
            .map(|endpoint| self.cost(seen, endpoint, &truths[endpoint], price))
            .collect();
        let least = costs.iter().map(|cost| cost.total).fold(f64::INFINITY, f64::min);
        let most = least + EQUAL.0.max(EQUAL.1 * least);
        let equal = (0..seen.len()).filter(|endpoint| costs[*endpoint].total <= most);
        let chosen = super::rule::cheapest(equal, random, |endpoint| self.accumulated[endpoint]);
        self.accumulated[chosen] += costs[chosen].prefill;
        chosen
    }

    fn dispatched(&mut self, seen: &Seen<'_>, endpoint: usize) {
        self.computing[endpoint].add(&seen.call.chain);
    }

    fn prefilled(&mut self, call: &LabCall, endpoint: usize) {
        self.computing[endpoint].remove(&call.chain);
    }
}
