//! Learning an endpoint's [`Pace`] from its own answers.
//!
//! Least squares with forgetting, in the information form: per endpoint a 3×3 matrix and a vector for the prefill constants, and
//! the same for the decode constants. The prior is added anew whenever the constants are solved for, so it never fades: where
//! answers say nothing (no long prompts, no large batches) the constants fall back to it instead of drifting. What is
//! learnt is relative to the prior: a common factor of the endpoint, and how far single constants deviate from it, since cards
//! differ by a factor of ten in speed but by a third only in the proportion of attention to the rest.
//!
//! **Robust.** A sample's residual is measured against its own expected noise. Beyond a bound it counts in proportion to the
//! bound only (Huber). The bound is lower for what was slower than expected, since what nobody saw (another gateway's requests, a
//! preemption) can only add time.
//!
//! **No queue in the samples.** A time to first token contains the wait. Engines prefill in the order of arrival, so a call that
//! stood behind others is timed from the last of their first tokens: then its turn came. What was *reckoned* to stand before it is
//! used only where no such token was seen, and believed little. A reckoning by constants that are off is off itself, and
//! learning from it once made an endpoint that happened to be quicker than reckoned look four times as fast as it is, so that all long
//! prompts went there.
//!
//! Source of the method: L. Ljung, *System Identification*, ch. 11; P. Huber, *Robust Estimation of a Location Parameter*, 1964.

use crate::pace::{Pace, Work};

/// What a new sample leaves of the weight of the old ones: about a hundred samples are remembered.
const KEEP: f64 = 0.99;
/// Residuals in units of expected noise beyond which a sample counts less: for slower and for faster than expected.
const HUBER: (f64, f64) = (1.0, 3.0);
/// Noise of a time to first token: a part that does not depend on it, in seconds, and one in proportion.
const PREFILL_NOISE: (f64, f64) = (0.005, 0.10);
/// The same for the time of one output token.
const DECODE_NOISE: (f64, f64) = (0.000_5, 0.03);
/// Noise of a time that contains the wait for work ahead of the call, as a part of that wait.
const AHEAD_DOUBT: f64 = 0.5;
/// Tokens of one chunk of prefill, and noise of a time since the first token of others, as a part of what a chunk takes: some of the
/// call may have been computed along with them, and some of those behind along with it.
const CHUNK_TOKENS: f64 = 8_192.0;
const CHUNK_DOUBT: f64 = 0.25;
/// First tokens that are no more seconds apart come from one step, so the later one says nothing.
const SAME_STEP: f64 = 0.002;
/// How far a common factor may get from its prior either way.
const FACTOR_BOUND: f64 = 16.0;
/// How far `c`, `d1` or `d2` may deviate from the common factor.
const DEVIATION_BOUND: f64 = 64.0;
/// Samples from which on an endpoint's pace counts as learnt.
pub(crate) const LEARNT: u64 = 8;
/// An answer shorter than this says little about the time of a token.
const SHORTEST_ANSWER: u32 = 8;

/// Weighted least squares in three unknowns with a prior that never fades.
#[derive(Clone, Copy, Debug, Default)]
struct Fit {
    /// Sum of weighted `x·xᵀ`: (0,0) (0,1) (0,2) (1,1) (1,2) (2,2).
    matrix: [f64; 6],
    vector: [f64; 3],
}

/// A value for each unknown, and how sure it is: one over the square of its spread.
#[derive(Clone, Copy, Debug)]
struct Centre {
    value: [f64; 3],
    precision: [f64; 3],
}

impl Fit {
    fn add(&mut self, x: [f64; 3], y: f64, weight: f64) {
        let products = [
            x[0] * x[0],
            x[0] * x[1],
            x[0] * x[2],
            x[1] * x[1],
            x[1] * x[2],
            x[2] * x[2],
        ];
        for (sum, product) in self.matrix.iter_mut().zip(products) {
            *sum = KEEP * *sum + weight * product;
        }
        for (sum, factor) in self.vector.iter_mut().zip(x) {
            *sum = KEEP * *sum + weight * factor * y;
        }
    }

    /// The unknowns, by Cramer's rule: the matrix with the prior on its diagonal is positive definite.
    fn solve(&self, centre: &Centre) -> [f64; 3] {
        let [mut a, b, c, mut d, e, mut f] = self.matrix;
        let [p, q, r] = centre.precision;
        a += p;
        d += q;
        f += r;
        let mut y = self.vector;
        for ((sum, value), precision) in y.iter_mut().zip(centre.value).zip(centre.precision) {
            *sum += value * precision;
        }
        // Cofactors of the symmetric matrix [[a, b, c], [b, d, e], [c, e, f]].
        let (ca, cb, cc) = (d * f - e * e, c * e - b * f, b * e - c * d);
        let (cd, ce, cf) = (a * f - c * c, b * c - a * e, a * d - b * b);
        let determinant = a * ca + b * cb + c * cc;
        if !determinant.is_normal() {
            return centre.value;
        }
        let solved = [
            (ca * y[0] + cb * y[1] + cc * y[2]) / determinant,
            (cb * y[0] + cd * y[1] + ce * y[2]) / determinant,
            (cc * y[0] + ce * y[1] + cf * y[2]) / determinant,
        ];
        if solved.iter().all(|value| value.is_finite()) {
            solved
        } else {
            centre.value
        }
    }
}

/// How much a sample counts, given what was expected.
fn weight(seen: f64, expected: f64, noise: (f64, f64), doubt: f64) -> f64 {
    let spread = noise.0 + noise.1 * expected.max(0.0) + doubt;
    let residual = (seen - expected) / spread;
    let bound = if residual > 0.0 { HUBER.0 } else { HUBER.1 };
    let robust = (bound / residual.abs()).min(1.0);
    robust / (spread * spread)
}

/// What a call waited for before its turn came.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Before {
    /// Nothing: it is timed from its booking.
    Nobody,
    /// It is timed from its booking; this work stood before it then, by own reckoning.
    Work(Work),
    /// It is timed from the last first token of others, so for none of their work.
    Others,
}

/// One time to first token and what stood before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstToken {
    /// The call's own work.
    pub(crate) own: Work,
    pub(crate) before: Before,
    /// Seconds to its first token, from its booking or from when its turn came.
    pub(crate) seconds: f64,
}

/// The mean time of one output token and what ran meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenTime {
    /// Output tokens of the answer.
    pub(crate) output: u32,
    /// Seconds from its first to its last.
    pub(crate) seconds: f64,
    /// Sequences that ran meanwhile, itself included.
    pub(crate) batch: f64,
    /// Tokens of context of all of these together.
    pub(crate) context: f64,
}

/// Factors to the prior that the endpoints of a pool have in common: of prefill, of decode, what `d1` and `d2` deviate from that, and
/// of the fixed part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Common(pub(crate) [f64; Self::COUNT]);

impl Common {
    pub(crate) const COUNT: usize = 5;
    pub(crate) const PRIOR: Self = Self([1.0, 1.0, 0.0, 0.0, 1.0]);
}

/// What is learnt of one endpoint's speed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speed {
    /// What the unknowns are relative to. Never changes.
    prior: Pace,
    /// What the fleet has in common, relative to the prior.
    fleet: Common,
    /// Unknowns: `a`'s factor, the common factor of `b` and `c`, and what `c` deviates from it.
    prefill: Fit,
    /// Unknowns: the common factor, and what `d1` and `d2` deviate from it.
    decode: Fit,
    solved: ([f64; 3], [f64; 3]),
    samples: u64,
}

impl Speed {
    pub(crate) fn new(prior: Pace) -> Self {
        Self {
            prior,
            fleet: Common::PRIOR,
            prefill: Fit::default(),
            decode: Fit::default(),
            solved: ([1.0, 1.0, 0.0], [1.0, 0.0, 0.0]),
            samples: 0,
        }
    }

    /// Takes what the endpoints of its pool have in common as its prior.
    pub(crate) fn set_fleet(&mut self, fleet: Common) {
        self.fleet = fleet;
        self.solve();
    }

    /// Times to first token that it has learnt from.
    pub(crate) const fn samples(&self) -> u64 {
        self.samples
    }

    /// What it has learnt, relative to the prior it was made with.
    pub(crate) const fn factors(&self) -> Common {
        let (prefill, decode) = (self.solved.0, self.solved.1);
        Common([prefill[1], decode[0], decode[1], decode[2], prefill[0]])
    }

    /// How many times as long as the fleet it takes for a prompt token; 1 until it has learnt.
    pub(crate) fn slowness(&self) -> f64 {
        if self.samples < LEARNT {
            return 1.0;
        }
        self.solved.0[1] / self.fleet.0[0]
    }

    /// Prefill as it was learnt of this endpoint. Decode as it was learnt of the fleet, times the endpoint's slowness: one endpoint's
    /// batches vary too little to tell `d0`, `d1` and `d2` apart, and what is taken for a difference between equal endpoints
    /// would make their loads unequal.
    pub(crate) fn pace(&self) -> Pace {
        let [fixed, prefill, attention] = self.solved.0;
        let Common([_, decode, sequence, context, _]) = self.fleet;
        let (decode, sequence, context) = (
            decode * self.slowness(),
            sequence * self.slowness(),
            context * self.slowness(),
        );
        let floor = 1.0 / FACTOR_BOUND;
        Pace {
            fixed: self.prior.fixed * fixed,
            token: self.prior.token * prefill,
            attention: self.prior.attention * (prefill + attention).max(floor),
            step: self.prior.step * decode,
            sequence: self.prior.sequence * (decode + sequence).max(floor),
            context: self.prior.context * (decode + context).max(floor),
        }
    }

    pub(crate) fn learn_first_token(&mut self, sample: &FirstToken) {
        let chunk = self.solved.0[1] * self.prior.token * CHUNK_TOKENS;
        let (x, doubt) = match sample.before {
            Before::Others if sample.seconds < SAME_STEP => return,
            Before::Others => {
                let own = sample.own;
                let x = [0.0, self.prior.seconds(own), self.prior.attention * own.attention];
                (x, CHUNK_DOUBT * chunk)
            }
            Before::Nobody => (self.undisturbed(sample.own), 0.0),
            Before::Work(ahead) => {
                let wait = self.solved.0[1] * self.prior.seconds(ahead);
                (self.undisturbed(ahead.plus(sample.own)), AHEAD_DOUBT * wait)
            }
        };
        let expected = dot(x, self.solved.0);
        let weight = weight(sample.seconds, expected, PREFILL_NOISE, doubt);
        self.prefill.add(x, sample.seconds, weight);
        self.samples += 1;
        self.solve();
    }

    /// What a time from the booking on is made of, for work in an engine that does nothing else. A step takes as long as its weights take to
    /// load, however few tokens are in it, and that is in the fixed part.
    fn undisturbed(&self, all: Work) -> [f64; 3] {
        let beyond = (self.prior.seconds(all) - self.prior.step).max(0.0);
        [self.prior.fixed, beyond, self.prior.attention * all.attention]
    }

    pub(crate) fn learn_token_time(&mut self, sample: &TokenTime) {
        if sample.output < SHORTEST_ANSWER {
            return;
        }
        let seen = sample.seconds / f64::from(sample.output - 1);
        let sequences = self.prior.sequence * sample.batch;
        let context = self.prior.context * sample.context;
        let x = [self.prior.step + sequences + context, sequences, context];
        let expected = dot(x, self.solved.1);
        self.decode.add(x, seen, weight(seen, expected, DECODE_NOISE, 0.0));
        self.solve();
    }

    fn solve(&mut self) {
        let Common([prefill, decode, sequence, context, usual]) = self.fleet;
        let about = |value, precision| Centre { value, precision };
        let [fixed, factor, attention] = self.prefill.solve(&about([usual, prefill, 0.0], [4.0, 1.0, 16.0]));
        let [step, sequence, context] = self
            .decode
            .solve(&about([decode, sequence, context], [1.0, 0.25, 0.25]));
        let bound = |value: f64| value.clamp(1.0 / FACTOR_BOUND, FACTOR_BOUND);
        let near = |value: f64, factor: f64| value.clamp(-factor, DEVIATION_BOUND * factor);
        let (factor, step) = (bound(factor), bound(step));
        self.solved = (
            [bound(fixed), factor, near(attention, factor)],
            [step, near(sequence, step), near(context, step)],
        );
    }
}

fn dot(x: [f64; 3], y: [f64; 3]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

#[cfg(test)]
mod tests;
