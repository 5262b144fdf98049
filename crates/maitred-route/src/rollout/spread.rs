//! How much more than chance the figures of callers differ from each other.
//!
//! Calls of one session are alike: whoever asks for long answers asks again. A test that takes them for independent believes too soon.
//! So sessions fall into cells by their hash, and the spread between the cells' means is set against the spread within. Their ratio, the
//! F of an analysis of variance, is one if calls are independent, and otherwise how many calls weigh as much as one that were; the
//! "design effect" of surveys. Nothing is kept of a session.

use serde::{Deserialize, Serialize};

use super::numbers::{PPM, ratio};

/// Cells into which sessions fall. More would find likeness sooner and take more memory.
pub(super) const CELLS: u8 = 64;
/// Observations between two computations.
const REFRESH: u32 = 256;

/// Sums of one figure by cell, 1 KiB.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Spread {
    /// Observations and their sum (in millionths) by cell.
    cells: Vec<(u32, u64)>,
    /// The sum of squares over all cells, in millionths.
    squares: u64,
    since_refresh: u32,
    /// The ratio in millionths, never below one.
    effect: u64,
}

impl Spread {
    pub(super) fn new() -> Self {
        Self {
            cells: vec![(0, 0); usize::from(CELLS)],
            squares: 0,
            since_refresh: 0,
            effect: PPM,
        }
    }

    /// Takes in a figure between 0 and a million.
    pub(super) fn add(&mut self, cell: u8, figure: u64) {
        if let Some((calls, sum)) = self.cells.get_mut(usize::from(cell % CELLS)) {
            *calls = calls.saturating_add(1);
            *sum += figure;
        }
        self.squares += figure * figure / PPM;
        self.since_refresh += 1;
        if self.since_refresh >= REFRESH {
            self.since_refresh = 0;
            self.effect = self.compute();
        }
    }

    /// How many calls weigh as much as one independent call, from what was seen up to the last computation.
    pub(super) fn effect(&self) -> f64 {
        ratio(self.effect)
    }

    fn compute(&self) -> u64 {
        let (mut seen, mut calls, mut sum, mut between) = (0.0, 0.0, 0.0, 0.0);
        for (cell_calls, cell_sum) in self.cells.iter().filter(|(calls, _)| *calls > 0) {
            let (cell_calls, cell_sum) = (f64::from(*cell_calls), ratio(*cell_sum));
            seen += 1.0;
            calls += cell_calls;
            sum += cell_sum;
            between += cell_sum * cell_sum / cell_calls;
        }
        let within = (ratio(self.squares) - between) / (calls - seen);
        let between = (between - sum * sum / calls) / (seen - 1.0);
        // Of too few cells or figures that never differ there is nothing to say; a comparison with a NaN is false.
        if within > 1e-9 && between > within {
            super::numbers::ppm(between / within)
        } else {
            PPM
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The effect of sessions of `length` calls that are alike in all but one of `noise` calls.
    fn effect(length: u32, noise: u32) -> f64 {
        let mut random = fastrand::Rng::with_seed(7);
        let mut spread = Spread::new();
        for _ in 0..60_000 / length {
            let (cell, kind) = (random.u8(..), random.u64(..10) == 0);
            for _ in 0..length {
                let hit = if random.u32(..noise) == 0 {
                    random.u64(..10) == 0
                } else {
                    kind
                };
                spread.add(cell, u64::from(hit) * PPM);
            }
        }
        spread.effect()
    }

    #[test]
    fn calls_that_are_alike_weigh_less() {
        let alone = effect(1, 1);
        assert!((1.0..1.5).contains(&alone), "{alone}");
        let alike = effect(8, 1_000_000);
        assert!((5.5..11.0).contains(&alike), "{alike}");
        let noisy = effect(8, 1);
        assert!((1.0..1.5).contains(&noisy), "{noisy}");
    }

    #[test]
    fn of_nothing_nothing_is_said() {
        let mut spread = Spread::new();
        for _ in 0..2_000 {
            spread.add(3, PPM);
        }
        assert_eq!(spread.effect, PPM);
        for cell in 0..CELLS {
            for _ in 0..100 {
                spread.add(cell, PPM);
            }
        }
        assert_eq!(spread.effect, PPM);
    }
}
