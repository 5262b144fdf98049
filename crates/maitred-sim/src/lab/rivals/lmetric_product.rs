//! Work times company.

use fastrand::Rng;

use super::rule::{Rule, Seen, cheapest};

pub(super) const NAME: &str = "lmetric_product";

/// `LMetric` (Zhang et al., OSDI 2026): the least of `(queued prefill tokens + this call's uncached tokens) · (batch + 1)`. The
/// batch is the gateway's own calls under way there; what is cached it learns from the engines' events. Ties by chance.
#[derive(Debug)]
pub(super) struct LmetricProduct;

impl Rule for LmetricProduct {
    fn name(&self) -> &'static str {
        NAME
    }

    fn choose(&mut self, seen: &Seen<'_>, random: &mut Rng) -> usize {
        cheapest(0..seen.len(), random, |endpoint| {
            let own = &seen.own[endpoint];
            (own.prefill_tokens as f64 + f64::from(seen.uncached(endpoint))) * (f64::from(own.requests) + 1.0)
        })
    }
}
