//! The better of two.

use fastrand::Rng;

use super::rule::{Rule, Seen};

pub(super) const NAME: &str = "power_of_two";

/// Two different endpoints by chance, and of these the one with fewer of the gateway's own calls (Mitzenmacher 2001; Envoy's
/// `LEAST_REQUEST` with its default of two choices).
#[derive(Debug)]
pub(super) struct PowerOfTwo;

impl Rule for PowerOfTwo {
    fn name(&self) -> &'static str {
        NAME
    }

    fn choose(&mut self, seen: &Seen<'_>, random: &mut Rng) -> usize {
        let first = random.usize(..seen.len());
        if seen.len() == 1 {
            return first;
        }
        let second = (first + random.usize(1..seen.len())) % seen.len();
        if seen.own[second].requests < seen.own[first].requests {
            second
        } else {
            first
        }
    }
}
