//! Pickers: which of the candidates it is.
//!
//! Selection has no side effects except on the generator and the round-robin cursor; booking comes after it. Ties are never
//! broken by index: the endpoint that has been given the least work wins, and among equals the generator decides. Index ties
//! herd on one endpoint and leave the caches of the others empty.

use fastrand::Rng;

use crate::signals::SignalSet;

/// Totals closer than this are equal: noise of 32-bit sums.
const TIE: f32 = 1e-6;

/// How one candidate is chosen. Closed: name and doc stand together here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Picker {
    /// See [`Picker::doc`], as for all others.
    PowerOfTwo,
    /// The highest total.
    MaxScore,
    /// By chance.
    Random,
    /// By chance, with the totals as weights.
    WeightedRandom,
    /// In turn.
    RoundRobin,
    /// The lowest cost.
    LeastCost,
}

impl Picker {
    /// Every picker.
    pub const ALL: &'static [Self] = &[
        Self::PowerOfTwo,
        Self::MaxScore,
        Self::Random,
        Self::WeightedRandom,
        Self::RoundRobin,
        Self::LeastCost,
    ];

    /// The picker of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|picker| picker.name() == name)
    }

    /// The word in the configuration, in records and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PowerOfTwo => "power-of-two",
            Self::MaxScore => "max-score",
            Self::Random => "random",
            Self::WeightedRandom => "weighted-random",
            Self::RoundRobin => "round-robin",
            Self::LeastCost => "least-cost",
        }
    }

    /// What it does, for the reference.
    #[must_use]
    pub const fn doc(self) -> &'static str {
        match self {
            Self::PowerOfTwo => {
                "Draws two different candidates and takes the one with the higher total. For a call with an adapter or a session that the profile \
                 scores, the first of the two is the one that affinity prefers. Good when several gateways do not see each other."
            }
            Self::MaxScore => {
                "Takes the highest total; of equal ones the endpoint that was given the least work, then by chance. Best where one gateway sees all."
            }
            Self::Random => "Takes any candidate. Reads no score.",
            Self::WeightedRandom => "Takes a candidate with a chance in proportion to its total.",
            Self::RoundRobin => "Takes the candidates in turn. Reads no score.",
            Self::LeastCost => {
                "Takes the lowest cost in seconds: the prefill work that stands before the call, its own at a price that rises with the pool's queues, \
                 the decode slowdown it causes, pressure on the KV cache, and loading of its adapter. Among equals the session's home, then the endpoint that was given the least \
                 work. Reads no score."
            }
        }
    }

    /// Whether it reads the ask's chain, besides what scores read.
    pub(crate) const fn reads_chain(self) -> bool {
        match self {
            Self::LeastCost => true,
            Self::PowerOfTwo | Self::MaxScore | Self::Random | Self::WeightedRandom | Self::RoundRobin => false,
        }
    }

    /// The signals it reads besides what scores read.
    #[must_use]
    pub const fn reads(self) -> SignalSet {
        match self {
            Self::LeastCost => SignalSet::QUEUED
                .union(SignalSet::RUNNING)
                .union(SignalSet::KV)
                .union(SignalSet::BLOCKS)
                .union(SignalSet::LORA),
            Self::PowerOfTwo | Self::MaxScore | Self::Random | Self::WeightedRandom | Self::RoundRobin => {
                SignalSet::NONE
            }
        }
    }

    /// Whether it looks at scores.
    #[must_use]
    pub const fn uses_scores(self) -> bool {
        match self {
            Self::PowerOfTwo | Self::MaxScore | Self::WeightedRandom => true,
            Self::Random | Self::RoundRobin | Self::LeastCost => false,
        }
    }
}

/// Any of `count` candidates, which must be more than zero.
pub(crate) fn any(count: usize, rng: &mut Rng) -> usize {
    rng.usize(..count.max(1))
}

/// Any candidate other than `first`, out of `count`, which must be more than one.
pub(crate) fn other(first: usize, count: usize, rng: &mut Rng) -> usize {
    let drawn = rng.usize(..(count - 1).max(1));
    if drawn >= first { drawn + 1 } else { drawn }
}

/// The highest total; of equal ones the least work; of equal ones any.
pub(crate) fn highest(totals: &[f32], work: impl Fn(usize) -> u64, rng: &mut Rng) -> usize {
    let top = totals.iter().copied().fold(f32::MIN, f32::max) - TIE;
    let mut best = (0, u64::MAX);
    let mut equals = 0_usize;
    for (at, _) in totals.iter().enumerate().filter(|(_, total)| **total >= top) {
        let effort = work(at);
        if effort < best.1 || equals == 0 {
            best = (at, effort);
            equals = 1;
        } else if effort == best.1 {
            equals += 1;
            if rng.usize(..equals) == 0 {
                best.0 = at;
            }
        }
    }
    best.0
}

/// Of the candidates whose cost is within `limit` the one with the least work; of equal ones any.
pub(crate) fn lowest(costs: &[f64], limit: f64, work: impl Fn(usize) -> u64, rng: &mut Rng) -> usize {
    let mut best = (0, u64::MAX);
    let mut equals = 0_usize;
    for (at, _) in costs.iter().enumerate().filter(|(_, cost)| **cost <= limit) {
        let effort = work(at);
        if effort < best.1 || equals == 0 {
            best = (at, effort);
            equals = 1;
        } else if effort == best.1 {
            equals += 1;
            if rng.usize(..equals) == 0 {
                best.0 = at;
            }
        }
    }
    best.0
}

/// Of two candidates drawn from those whose cost is within `limit`, the one with less of `own`.
pub(crate) fn lower_of_two(costs: &[f64], limit: f64, own: impl Fn(usize) -> u32, rng: &mut Rng) -> usize {
    let (mut pair, mut seen) = ([0; 2], 0_usize);
    for (at, _) in costs.iter().enumerate().filter(|(_, cost)| **cost <= limit) {
        seen += 1;
        // A sample of two, each pair with the same chance.
        let place = if seen <= 2 { seen - 1 } else { rng.usize(..seen) };
        if let Some(drawn) = pair.get_mut(place) {
            *drawn = at;
        }
    }
    match (seen, own(pair[0]).cmp(&own(pair[1]))) {
        (0 | 1, _) | (_, std::cmp::Ordering::Less) => pair[0],
        (_, std::cmp::Ordering::Greater) => pair[1],
        (_, std::cmp::Ordering::Equal) => pair[rng.usize(..2)],
    }
}

/// A candidate with a chance in proportion to its total; any of them when no total is above zero.
pub(crate) fn weighted(totals: &[f32], rng: &mut Rng) -> usize {
    let sum: f32 = totals.iter().sum();
    if sum <= 0.0 {
        return any(totals.len(), rng);
    }
    let mut left = rng.f32() * sum;
    for (at, total) in totals.iter().enumerate() {
        left -= total;
        if left < 0.0 {
            return at;
        }
    }
    // Rounding can leave a crumb; it belongs to the last one with a chance at all.
    totals.iter().rposition(|total| *total > 0.0).unwrap_or(0)
}

/// The place of the first candidate behind `cursor`, else the first of all. Candidates are in rising order.
pub(crate) fn next_in_turn(candidates: &[u32], cursor: u32) -> usize {
    let behind = candidates.partition_point(|slot| *slot <= cursor);
    if behind == candidates.len() { 0 } else { behind }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_picker_has_a_name_and_a_doc() {
        for picker in Picker::ALL {
            assert_eq!(Picker::parse(picker.name()), Some(*picker));
            assert!(picker.doc().ends_with('.'));
        }
    }

    #[test]
    fn the_two_choices_differ_and_cover_all_pairs() {
        let mut rng = Rng::with_seed(1);
        let mut pairs = std::collections::BTreeMap::new();
        for _ in 0..6_000 {
            let first = any(3, &mut rng);
            let second = other(first, 3, &mut rng);
            *pairs.entry((first, second)).or_insert(0) += 1;
        }
        assert_eq!(pairs.len(), 6);
        assert!(
            pairs
                .iter()
                .all(|((a, b), drawn)| a != b && (900..1_100).contains(drawn)),
            "{pairs:?}"
        );
    }

    #[test]
    fn ties_go_to_the_least_work_and_then_to_chance() {
        let mut rng = Rng::with_seed(1);
        assert_eq!(highest(&[0.1, 0.9, 0.3], |_| 0, &mut rng), 1);
        assert_eq!(highest(&[0.9, 0.9, 0.3], |at| [7, 5, 0][at], &mut rng), 1);
        let mut taken = [0; 3];
        for _ in 0..3_000 {
            taken[highest(&[0.9, 0.9, 0.9], |_| 4, &mut rng)] += 1;
        }
        assert!(taken.iter().all(|times| (900..1_100).contains(times)), "{taken:?}");
        assert_eq!(highest(&[0.0], |_| u64::MAX, &mut rng), 0);
    }

    #[test]
    fn of_two_cheap_ones_the_less_used_wins() {
        let mut rng = Rng::with_seed(1);
        assert_eq!(lower_of_two(&[3.0, 1.0, 2.0], 1.5, |_| 0, &mut rng), 1);
        let mut taken = [0; 4];
        for _ in 0..3_000 {
            taken[lower_of_two(&[1.0, 1.0, 9.0, 1.0], 2.0, |at| [5, 4, 0, 6][at], &mut rng)] += 1;
        }
        assert_eq!((taken[2], taken[3]), (0, 0), "{taken:?}");
        assert!((800..1_200).contains(&taken[0]), "{taken:?}");
    }

    #[test]
    fn weights_are_chances() {
        let mut rng = Rng::with_seed(1);
        let mut taken = [0; 3];
        for _ in 0..4_000 {
            taken[weighted(&[1.0, 0.0, 3.0], &mut rng)] += 1;
        }
        assert_eq!(taken[1], 0);
        assert!((900..1_100).contains(&taken[0]), "{taken:?}");
        let mut spread = [0; 2];
        for _ in 0..100 {
            spread[weighted(&[0.0, 0.0], &mut rng)] += 1;
        }
        assert!(spread.iter().all(|times| *times > 20));
    }

    #[test]
    fn turns_go_round() {
        let check = |cursor, expected| assert_eq!(next_in_turn(&[2, 5, 9], cursor), expected);
        check(0, 0);
        check(2, 1);
        check(5, 2);
        check(7, 2);
        check(9, 0);
    }
}
