//! Evidence that one figure of the candidate is worse than the baseline's, as the wealth of a gambler who bets on it.
//!
//! Calls are put into blocks as they end: one call of the side that has fewer, and as many of the other as there are to each of
//! those, close together in time. In each block the gambler bets a fraction of her wealth on the difference of the
//! two means, less a tolerance. If the candidate is no worse than tolerated the bet is fair or better for the bank, whatever the load
//! does to both sides meanwhile, so her wealth is expected not to grow; and the probability that it *ever* reaches 1/α is at most α
//! (Ville 1939). So it may be looked at after every call. This is testing by betting: Waudby-Smith and Ramdas, *Estimating means of
//! bounded random variables by betting* (JRSS B, 2024); Shekhar and Ramdas, *Nonparametric two-sample testing by betting* (IEEE Trans.
//! Inf. Theory, 2024). What fraction is best depends on how much worse the candidate is, which nobody knows: she divides her wealth
//! over [`FRACTIONS`], each betting for itself, and costs herself at most the logarithm of their number.
//!
//! A bet is raised to the power 1/d, d being how alike the calls of a session are (see [`Spread`]). For d ≥ 1 what is
//! fair stays fair (Jensen), and calls that repeat each other count as few as they are worth.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::Side;
use super::numbers::{PPM, ratio};
use super::spread::Spread;

/// The fractions of wealth that are bet. The greatest leaves something even if a block is lost entirely with the greatest tolerance.
const FRACTIONS: [f64; 6] = [0.03, 0.1, 0.2, 0.35, 0.55, 0.85];
/// The greatest tolerance of a difference between rates, in millionths: a tenth.
pub(super) const TOLERANCE_MAX: u64 = PPM / 10;
/// Most calls of one side in a block.
const BLOCK_MAX: usize = 16;
/// Most figures of a side that wait for a block.
const WAITING_MAX: usize = 64;
/// Calls between two decisions on the shape of blocks.
const RESHAPE: u32 = 256;
/// Logarithms of wealth are kept in billionths.
const NANO: f64 = 1e9;

/// Evidence on one figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Evidence {
    /// Logarithm of the wealth of each fraction, in billionths, rounded down.
    wealth: [i64; FRACTIONS.len()],
    /// Figures that wait for a block.
    waiting: Waiting,
    shape: Shape,
    /// All that was compared.
    total: Sides,
    spread: Spread,
}

/// Calls and the sum of their figures (in millionths), by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Sides {
    baseline: Tally,
    candidate: Tally,
}

/// Calls of one side, and the sum of their figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// How many calls.
    pub calls: u64,
    /// The sum of their figures, in millionths.
    pub sum: u64,
}

impl Tally {
    /// The mean of the figures, from 0 to 1; 0 where there is none.
    #[must_use]
    pub fn mean(self) -> f64 {
        if self.calls == 0 {
            return 0.0;
        }
        ratio(self.sum) / ratio(self.calls) / 1e6
    }

    const fn add(&mut self, figure: u64) {
        self.calls += 1;
        self.sum += figure;
    }
}

impl Sides {
    const fn of(&mut self, side: Side) -> &mut Tally {
        match side {
            Side::Baseline => &mut self.baseline,
            Side::Candidate => &mut self.candidate,
        }
    }
}

/// How many calls of each side a block has. It follows from how many calls the sides had before, never from how they went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Shape {
    baseline: usize,
    candidate: usize,
    /// Calls since it was last decided, baseline first.
    seen: (u32, u32),
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            baseline: 1,
            candidate: 1,
            seen: (0, 0),
        }
    }
}

impl Shape {
    fn see(&mut self, side: Side) {
        match side {
            Side::Baseline => self.seen.0 += 1,
            Side::Candidate => self.seen.1 += 1,
        }
        let (baseline, candidate) = self.seen;
        if baseline + candidate < RESHAPE {
            return;
        }
        let times = |more: u32, fewer: u32| {
            let nearest = (more + fewer / 2) / fewer.max(1);
            usize::try_from(nearest).unwrap_or(usize::MAX).clamp(1, BLOCK_MAX)
        };
        *self = Self {
            baseline: times(baseline, candidate),
            candidate: times(candidate, baseline),
            seen: (0, 0),
        };
    }
}

/// Figures in millionths that wait for a block, the oldest first. Each queue holds at most [`WAITING_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Waiting {
    baseline: VecDeque<u32>,
    candidate: VecDeque<u32>,
}

impl Waiting {
    fn push(&mut self, side: Side, figure: u64) {
        let queue = match side {
            Side::Baseline => &mut self.baseline,
            Side::Candidate => &mut self.candidate,
        };
        if queue.len() >= WAITING_MAX {
            // Old calls are no match for new ones. That it is gone has nothing to do with how it went.
            queue.pop_front();
        }
        queue.push_back(u32::try_from(figure).unwrap_or(u32::MAX));
    }

    /// The means of a block of this shape, baseline first, if there is enough of both.
    fn block(&mut self, shape: Shape) -> Option<(f64, f64)> {
        if self.baseline.len() < shape.baseline || self.candidate.len() < shape.candidate {
            return None;
        }
        let mean = |queue: &mut VecDeque<u32>, calls: usize| {
            let mut tally = Tally::default();
            for figure in queue.drain(..calls) {
                tally.add(u64::from(figure));
            }
            tally.mean()
        };
        Some((
            mean(&mut self.baseline, shape.baseline),
            mean(&mut self.candidate, shape.candidate),
        ))
    }
}

impl Evidence {
    pub(super) fn new() -> Self {
        Self {
            wealth: [0; FRACTIONS.len()],
            waiting: Waiting::default(),
            shape: Shape::default(),
            total: Sides::default(),
            spread: Spread::new(),
        }
    }

    /// Takes in the figure of a call, from 0 (good) to a million (bad). `cell` is where its session falls.
    pub(super) fn observe(&mut self, side: Side, figure: u64, cell: u8, tolerance: u64) {
        self.total.of(side).add(figure);
        self.shape.see(side);
        self.waiting.push(side, figure);
        if side == Side::Baseline {
            self.spread.add(cell, figure);
        }
        while let Some((baseline, candidate)) = self.waiting.block(self.shape) {
            self.bet(candidate - baseline - ratio(tolerance));
        }
    }

    /// Plays one block. `difference` is more than -1.1 and at most 1, and expected to be at most 0 if the candidate is no worse.
    fn bet(&mut self, difference: f64) {
        let weight = NANO / self.spread.effect();
        for (wealth, fraction) in self.wealth.iter_mut().zip(FRACTIONS) {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "a logarithm of a number between 0.06 and 2"
            )]
            let gain = ((fraction * difference).ln_1p() * weight).floor() as i64;
            *wealth = wealth.saturating_add(gain);
        }
    }

    /// Whether the logarithm of the whole wealth may be as high as this.
    pub(super) fn may_reach(&self, log: f64) -> bool {
        #[expect(clippy::cast_possible_truncation, reason = "asked for what wealth can be")]
        let goal = (log * NANO) as i64;
        self.wealth.iter().any(|wealth| *wealth >= goal)
    }

    /// Logarithm of the whole wealth; it began with 0.
    pub(super) fn log_wealth(&self) -> f64 {
        #[expect(
            clippy::cast_precision_loss,
            reason = "what is lost is far below one billionth of the whole"
        )]
        let logs = self.wealth.map(|wealth| wealth as f64 / NANO);
        let most = logs.iter().copied().fold(f64::MIN, f64::max);
        let sum: f64 = logs.iter().map(|log| (log - most).exp()).sum();
        let parts = logs.len();
        #[expect(clippy::cast_precision_loss, reason = "a handful")]
        let parts = parts as f64;
        most + (sum / parts).ln()
    }

    /// What was seen of a side.
    pub(super) const fn tally(&self, side: Side) -> Tally {
        match side {
            Side::Baseline => self.total.baseline,
            Side::Candidate => self.total.candidate,
        }
    }

    /// How many calls weigh as much as one.
    pub(super) fn effect(&self) -> f64 {
        self.spread.effect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The candidate's calls until the wealth reaches `goal`, up to `calls` in all; `rates` in thousandths.
    fn calls_until(goal: f64, rates: (u64, u64), share: f64, seed: u64) -> Option<u64> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut evidence = Evidence::new();
        for _ in 0..30_000 {
            let (side, rate) = if random.f64() < share {
                (Side::Candidate, rates.1)
            } else {
                (Side::Baseline, rates.0)
            };
            let figure = u64::from(random.u64(..1_000) < rate) * PPM;
            evidence.observe(side, figure, random.u8(..), 0);
            if evidence.may_reach(goal.ln()) && evidence.log_wealth() >= goal.ln() {
                return Some(evidence.tally(Side::Candidate).calls);
            }
        }
        None
    }

    #[test]
    fn of_equals_few_ever_reach_a_goal() {
        for share in [0.05, 0.5] {
            let reached = (0..200).filter(|seed| calls_until(20.0, (50, 50), share, *seed).is_some());
            let count = reached.count();
            // 1 in 20 at most; 10 expected at the bound, so that 16 would be two standard deviations beyond it.
            assert!(count <= 16, "{count} of 200 at a share of {share}");
        }
    }

    #[test]
    fn who_is_worse_is_found() {
        for share in [0.05, 0.5, 0.9] {
            for seed in 0..20 {
                assert!(calls_until(1_000.0, (10, 60), share, seed).is_some(), "{share} {seed}");
            }
        }
    }

    #[test]
    fn who_is_better_never_looks_worse_for_long() {
        for seed in 0..100 {
            assert_eq!(calls_until(1_000.0, (60, 10), 0.5, seed), None);
        }
    }
}
