//! Affinity or balance, by thresholds.

use fastrand::Rng;

use super::believed::{Belief, Capacity, Matching};
use super::rule::{Rule, Seen, cheapest};

pub(super) const NAME: &str = "smg_cache_aware";

/// Its tree mirrors the engines' caches block by block, in their size: the documented way to set `max-tree-size`, whose
/// default of 64 M characters remembers forty times more than an endpoint has.
pub(super) const BELIEF: Belief = Belief {
    entry_tokens: 16,
    capacity: Capacity::KvTokens,
    matching: Matching::Contiguous,
};

/// The `cache_aware` policy of the Shepherd Model Gateway (formerly the `SGLang` router): where the loads are so unequal that
/// both thresholds are passed, the endpoint with the fewest calls; else, where more of the prompt matches than the cache
/// threshold, the endpoint with the longest match; else the endpoint with the fewest calls. Loads are the gateway's own calls.
/// Of several with the longest match the least loaded is taken, where the original takes any.
#[derive(Debug)]
pub(super) struct SmgCacheAware {
    cache_threshold: f64,
    balance_absolute: u32,
    balance_relative: f64,
}

impl Default for SmgCacheAware {
    fn default() -> Self {
        Self {
            cache_threshold: 0.3,
            balance_absolute: 32,
            balance_relative: 1.1,
        }
    }
}

impl Rule for SmgCacheAware {
    fn name(&self) -> &'static str {
        NAME
    }

    fn choose(&mut self, seen: &Seen<'_>, random: &mut Rng) -> usize {
        let requests = |endpoint: usize| f64::from(seen.own[endpoint].requests);
        let (fewest, most) = (0..seen.len())
            .map(|endpoint| seen.own[endpoint].requests)
            .fold((u32::MAX, 0), |(fewest, most), count| {
                (fewest.min(count), most.max(count))
            });
        let is_unequal =
            most - fewest > self.balance_absolute && f64::from(most) > self.balance_relative * f64::from(fewest);
        let longest = seen.matched.iter().copied().max().unwrap_or_default();
        let ratio = f64::from(longest) / f64::from(seen.call.input.get().max(1));
        if is_unequal || ratio <= self.cache_threshold {
            return cheapest(0..seen.len(), random, requests);
        }
        let holders = (0..seen.len()).filter(|endpoint| seen.matched[*endpoint] == longest);
        cheapest(holders, random, requests)
    }
}
