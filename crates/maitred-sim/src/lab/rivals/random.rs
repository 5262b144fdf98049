//! By chance alone.

use fastrand::Rng;

use super::rule::{Rule, Seen};

pub(super) const NAME: &str = "random";

/// Every endpoint with the same probability.
#[derive(Debug)]
pub(super) struct Random;

impl Rule for Random {
    fn name(&self) -> &'static str {
        NAME
    }

    fn choose(&mut self, seen: &Seen<'_>, random: &mut Rng) -> usize {
        random.usize(..seen.len())
    }
}
