//! Who is next: a tournament among endpoints.
//!
//! A heap would keep an entry for every time that was moved. Here an endpoint has one place, moving its time costs the
//! logarithm of the fleet, and of equal times the first endpoint's wins, so that runs repeat.

use maitred_types::Time;

/// The next time of each of a fixed number of endpoints.
#[derive(Clone, Debug)]
pub(super) struct Agenda {
    /// A complete binary tree: node `n` has the smaller time of `2n` and `2n + 1`; the leaves begin at `leaves`.
    tree: Vec<Time>,
    leaves: usize,
}

impl Agenda {
    /// Nothing is planned for any of `endpoints`.
    pub(super) fn new(endpoints: usize) -> Self {
        let leaves = endpoints.next_power_of_two().max(1);
        Self {
            tree: vec![Time::MAX; 2 * leaves],
            leaves,
        }
    }

    /// Plans `endpoint` for `at`, or for never.
    pub(super) fn plan(&mut self, endpoint: usize, at: Option<Time>) {
        let mut node = self.leaves + endpoint;
        self.tree[node] = at.unwrap_or(Time::MAX);
        while node > 1 {
            node /= 2;
            let earliest = self.tree[2 * node].min(self.tree[2 * node + 1]);
            if self.tree[node] == earliest {
                break;
            }
            self.tree[node] = earliest;
        }
    }

    /// The earliest planned time; [`Time::MAX`] if there is none.
    pub(super) fn earliest(&self) -> Time {
        self.tree[1]
    }

    /// Whose it is.
    pub(super) fn first(&self) -> usize {
        let mut node = 1;
        while node < self.leaves {
            node *= 2;
            node += usize::from(self.tree[node + 1] < self.tree[node]);
        }
        node - self.leaves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_of_equals_the_first_place() {
        let mut rng = fastrand::Rng::with_seed(7);
        for endpoints in [1, 2, 5, 8, 13] {
            let mut agenda = Agenda::new(endpoints);
            let mut times = vec![Time::MAX; endpoints];
            assert_eq!(agenda.earliest(), Time::MAX);
            for _ in 0..1000 {
                let place = rng.usize(0..endpoints);
                let at = (rng.u8(..) > 20).then(|| Time::from_nanos(rng.u64(0..20)));
                times[place] = at.unwrap_or(Time::MAX);
                agenda.plan(place, at);
                let earliest = *times.iter().min().unwrap();
                assert_eq!(agenda.earliest(), earliest);
                assert_eq!(times.iter().position(|time| *time == earliest), Some(agenda.first()));
            }
        }
    }
}
