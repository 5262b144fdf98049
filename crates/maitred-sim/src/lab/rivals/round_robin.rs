//! One after the other, whatever they do.

use fastrand::Rng;

use super::rule::{Rule, Seen};

pub(super) const NAME: &str = "round_robin";

/// The default of most proxies, nginx and Ray Serve's handle among them.
#[derive(Debug, Default)]
pub(super) struct RoundRobin {
    next: usize,
}

impl Rule for RoundRobin {
    fn name(&self) -> &'static str {
        NAME
    }

    fn choose(&mut self, seen: &Seen<'_>, _: &mut Rng) -> usize {
        let chosen = self.next % seen.len();
        self.next = chosen + 1;
        chosen
    }
}
