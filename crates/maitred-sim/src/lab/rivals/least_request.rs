//! The fewest calls under way.

use fastrand::Rng;

use super::rule::{Rule, Seen, cheapest};

pub(super) const NAME: &str = "least_request";

/// Over all endpoints, by the gateway's own calls in flight, as haproxy's `leastconn` and nginx's `least_conn` count them.
/// Ties by chance.
#[derive(Debug)]
pub(super) struct LeastRequest;

impl Rule for LeastRequest {
    fn name(&self) -> &'static str {
        NAME
    }

    fn choose(&mut self, seen: &Seen<'_>, random: &mut Rng) -> usize {
        cheapest(0..seen.len(), random, |endpoint| f64::from(seen.own[endpoint].requests))
    }
}
