//! Where it was, until that is too slow.

use fastrand::Rng;

use super::believed::{Belief, Capacity};
use super::llmd_default::{self, match_ratio};
use super::rule::{Rule, Seen, cheapest};
use crate::lab::EndpointFacts;

pub(super) const NAME: &str = "llmd_sticky";

/// The index of the default configuration, but in the size of the endpoint's cache: the automatic one counts entries of 64 tokens
/// against blocks of 16, remembers four times too much, and sends calls to what is gone.
pub(super) const BELIEF: Belief = Belief {
    capacity: Capacity::KvTokens,
    ..llmd_default::BELIEF
};

/// An endpoint with at least this part of the prompt is warm.
const AFFINITY_THRESHOLD: f64 = 0.8;
/// Seconds that the best warm endpoint may be slower than the best cold one. The built-in 18 s never end stickiness below the
/// knee; of 0.5, 1, 2, 3, 5 and 18 s this one was the best compromise over the Mooncake traces.
const PENALTY_MAX: f64 = 2.0;

/// The configuration that llm-d recommends since August 2026: its prefix cache affinity filter, then the token load scorer.
/// Where any endpoint is warm, only the warm ones count, unless the best of them would need 2 s more to begin than the best
/// cold one, by the uncached tokens that this gateway has under way there and the prefill speed; among those that count, the one
/// with the fewest uncached tokens under way, this call's own included. The speed is that of the fleet's slowest endpoint, as the
/// documentation advises to measure it; the built-in figure is that of another model.
#[derive(Debug)]
pub(super) struct LlmdSticky {
    tokens_per_second: f64,
}

impl LlmdSticky {
    pub(super) fn new(endpoints: &[EndpointFacts]) -> Self {
        let slowest = endpoints.iter().map(|facts| facts.costs.token_us).fold(1.0, f64::max);
        Self {
            tokens_per_second: 1e6 / slowest,
        }
    }
}

impl Rule for LlmdSticky {
    fn name(&self) -> &'static str {
        NAME
    }

    fn choose(&mut self, seen: &Seen<'_>, random: &mut Rng) -> usize {
        let is_warm = |endpoint: &usize| match_ratio(seen, *endpoint) >= AFFINITY_THRESHOLD;
        let least = |warm: bool| {
            (0..seen.len())
                .filter(|endpoint| is_warm(endpoint) == warm)
                .map(|endpoint| seen.own[endpoint].prefill_tokens)
                .min()
        };
        let sticks = match (least(true), least(false)) {
            (Some(warm), Some(cold)) => (warm.saturating_sub(cold)) as f64 / self.tokens_per_second <= PENALTY_MAX,
            (Some(_), None) => true,
            (None, _) => false,
        };
        let candidates = (0..seen.len()).filter(|endpoint| !sticks || is_warm(endpoint));
        cheapest(candidates, random, |endpoint| {
            seen.own[endpoint].prefill_tokens as f64 + f64::from(seen.uncached(endpoint))
        })
    }
}
