//! Rival policies under their known names, and the bounds that none can pass.
//!
//! Each is written from its published rule, in its best documented form: a rival weaker than its original would make every
//! comparison worthless. They see what they would see in reality: pages with an age, their own dispatches, and a prefix state of
//! their own in the published size, or the engines' cache events where the original listens to those. Where an original breaks
//! ties by index, these break them by chance, which is never worse. What is left out of an original is said in its file.

mod believed;
mod bookings;
mod chwbl;
mod dynamo_linear;
mod least_request;
mod llmd_default;
mod llmd_sticky;
mod lmetric_product;
mod oracle;
mod pooled;
mod power_of_two;
mod preble;
mod random;
mod round_robin;
mod rule;
mod smg_cache_aware;

use fastrand::Rng;

use super::{EndpointFacts, Router};
pub use pooled::{PooledCache, PooledHits};
use rule::{Knowledge, Rival, Rule};

/// The names of all policies here, in the order of reports. The last one has perfect knowledge.
pub const RIVALS: [&str; 12] = [
    round_robin::NAME,
    random::NAME,
    least_request::NAME,
    power_of_two::NAME,
    chwbl::NAME,
    smg_cache_aware::NAME,
    dynamo_linear::NAME,
    llmd_default::NAME,
    llmd_sticky::NAME,
    lmetric_product::NAME,
    preble::NAME,
    oracle::NAME,
];

/// The policy called `name` for a fleet of these endpoints, drawing chance from `seed`; `None` for a name not in [`RIVALS`].
#[must_use]
pub fn rival(name: &str, endpoints: &[EndpointFacts], seed: u64) -> Option<Box<dyn Router>> {
    let boxed = |rule: Box<dyn Rule>, knowledge: Knowledge| -> Box<dyn Router> {
        Box::new(Rival::new(rule, knowledge, endpoints, Rng::with_seed(seed)))
    };
    let own = |belief: believed::Belief| Knowledge::Believed(believed::BelievedCaches::new(endpoints, belief));
    Some(match name {
        round_robin::NAME => boxed(Box::<round_robin::RoundRobin>::default(), Knowledge::None),
        random::NAME => boxed(Box::new(random::Random), Knowledge::None),
        least_request::NAME => boxed(Box::new(least_request::LeastRequest), Knowledge::None),
        power_of_two::NAME => boxed(Box::new(power_of_two::PowerOfTwo), Knowledge::None),
        chwbl::NAME => boxed(Box::new(chwbl::Chwbl::new(endpoints.len())), Knowledge::None),
        smg_cache_aware::NAME => boxed(
            Box::<smg_cache_aware::SmgCacheAware>::default(),
            own(smg_cache_aware::BELIEF),
        ),
        dynamo_linear::NAME => boxed(
            Box::new(dynamo_linear::DynamoLinear::new(endpoints.len())),
            Knowledge::Events,
        ),
        llmd_default::NAME => boxed(Box::new(llmd_default::LlmdDefault), own(llmd_default::BELIEF)),
        llmd_sticky::NAME => boxed(
            Box::new(llmd_sticky::LlmdSticky::new(endpoints)),
            own(llmd_sticky::BELIEF),
        ),
        lmetric_product::NAME => boxed(Box::new(lmetric_product::LmetricProduct), Knowledge::Events),
        preble::NAME => boxed(Box::new(preble::Preble::new(endpoints.len())), own(preble::BELIEF)),
        oracle::NAME => boxed(Box::new(oracle::Oracle::new(endpoints.len())), Knowledge::Events),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
