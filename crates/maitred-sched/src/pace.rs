//! How fast an endpoint is, as six constants, and what a prompt costs at that speed.
//!
//! ```text
//! first token of an idle endpoint = a + b·u + c·u·(h + u/2)        u tokens to compute after h cached ones
//! one output token of each        = d0 + d1·B + d2·C               B sequences with C tokens of context together
//! ```

/// The constants of the two formulas, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// `a`: from the booking to the first token of an empty prompt, where nobody waits.
    pub fixed: f64,
    /// `b`: one prompt token that is not cached.
    pub token: f64,
    /// `c`: one prompt token attending to one token before it.
    pub attention: f64,
    /// `d0`: one step of a batch.
    pub step: f64,
    /// `d1`: one more sequence in the batch.
    pub sequence: f64,
    /// `d2`: one more token of context in the batch.
    pub context: f64,
}

impl Pace {
    const fn of([a, b, c, d0, d1, d2]: [f64; 6]) -> Self {
        Self {
            fixed: (a + FRONT_MS + OVERHEAD_MS) * 1e-3,
            token: b * 1e-6,
            attention: c * 1e-9,
            step: (d0 + OVERHEAD_MS) * 1e-3,
            sequence: d1 * 1e-3,
            context: d2 * 1e-9,
        }
    }

    /// Seconds that `work` takes, without `a`.
    #[must_use]
    pub const fn seconds(&self, work: Work) -> f64 {
        self.token * work.tokens + self.attention * work.attention
    }
}

impl Default for Pace {
    fn default() -> Self {
        SpeedPrior::default().pace()
    }
}

/// What one prompt, or several, have to be computed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Tokens to compute.
    pub tokens: f64,
    /// Sum of `u·(h + u/2)`: pairs of a computed token and one before it.
    pub attention: f64,
}

impl Work {
    /// Nothing to do.
    pub const NONE: Self = Self {
        tokens: 0.0,
        attention: 0.0,
    };

    /// A prompt of `input` tokens, the first `cached` of which need not be computed. One always must.
    #[must_use]
    pub fn of(input: f64, cached: f64) -> Self {
        let tokens = (input - cached).max(1.0);
        Self {
            tokens,
            attention: tokens * (cached + 0.5 * tokens),
        }
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            tokens: self.tokens + other.tokens,
            attention: self.attention + other.attention,
        }
    }

    /// This without `other`; nothing where that is more.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            tokens: (self.tokens - other.tokens).max(0.0),
            attention: (self.attention - other.attention).max(0.0),
        }
    }

    /// This many times the work.
    #[must_use]
    pub const fn times(self, factor: f64) -> Self {
        Self {
            tokens: self.tokens * factor,
            attention: self.attention * factor,
        }
    }
}

/// What an engine's API front takes before its scheduler sees a request, in milliseconds: parsing, template, tokenizer.
const FRONT_MS: f64 = 15.6;
/// Host time of a step around its kernels, in milliseconds.
const OVERHEAD_MS: f64 = 1.0;

/// What is believed of an endpoint's speed before its answers say better: the constants of a card and a model.
///
/// Least-squares fits on measured kernel tables (vLLM, 16 bits, one GPU), with 15.6 ms for the API front and 1 ms per step added.
/// An endpoint's own answers outweigh its prior after a handful of calls, so a wrong one costs little; with a tensor-parallel or
/// quantized model take the nearest in speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SpeedPrior {
    /// Llama-3.1-8B on an H100.
    #[default]
    H100With8b,
    /// Qwen3-14B on an H100.
    H100With14b,
    /// Llama-3.1-8B on an H200.
    H200With8b,
    /// Qwen3-14B on an H200.
    H200With14b,
    /// Llama-3.1-8B on an A100.
    A100With8b,
    /// Qwen3-14B on an A100.
    A100With14b,
    /// Llama-3.1-8B on an L40S.
    L40sWith8b,
    /// Qwen3-14B on an L40S.
    L40sWith14b,
}

impl SpeedPrior {
    /// Every prior.
    pub const ALL: &'static [Self] = &[
        Self::H100With8b,
        Self::H100With14b,
        Self::H200With8b,
        Self::H200With14b,
        Self::A100With8b,
        Self::A100With14b,
        Self::L40sWith8b,
        Self::L40sWith14b,
    ];

    /// The word in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::H100With8b => "h100-8b",
            Self::H100With14b => "h100-14b",
            Self::H200With8b => "h200-8b",
            Self::H200With14b => "h200-14b",
            Self::A100With8b => "a100-8b",
            Self::A100With14b => "a100-14b",
            Self::L40sWith8b => "l40s-8b",
            Self::L40sWith14b => "l40s-14b",
        }
    }

    /// What it stands for, for the reference.
    #[must_use]
    pub const fn doc(self) -> &'static str {
        match self {
            Self::H100With8b => "A model of 8 billion parameters on an H100: 49,000 prompt tokens a second.",
            Self::H100With14b => "A model of 14 billion parameters on an H100: 26,000 prompt tokens a second.",
            Self::H200With8b => "A model of 8 billion parameters on an H200: 49,000 prompt tokens a second.",
            Self::H200With14b => "A model of 14 billion parameters on an H200: 26,000 prompt tokens a second.",
            Self::A100With8b => "A model of 8 billion parameters on an A100: 18,000 prompt tokens a second.",
            Self::A100With14b => "A model of 14 billion parameters on an A100: 10,000 prompt tokens a second.",
            Self::L40sWith8b => "A model of 8 billion parameters on an L40S: 14,000 prompt tokens a second.",
            Self::L40sWith14b => "A model of 14 billion parameters on an L40S: 7,700 prompt tokens a second.",
        }
    }

    /// The constants.
    #[must_use]
    pub const fn pace(self) -> Pace {
        Pace::of(match self {
            Self::H100With8b => [1.34, 20.25, 0.761, 6.29, 0.0129, 40.9],
            Self::H100With14b => [2.49, 38.42, 1.202, 11.07, 0.0163, 52.0],
            Self::H200With8b => [0.64, 20.47, 0.779, 4.87, 0.0127, 29.2],
            Self::H200With14b => [0.73, 39.17, 1.201, 8.57, 0.0174, 35.8],
            Self::A100With8b => [7.17, 55.09, 2.928, 11.66, 0.0281, 84.1],
            Self::A100With14b => [12.26, 96.62, 4.533, 19.62, 0.0385, 106.0],
            Self::L40sWith8b => [1.13, 69.65, 2.804, 22.05, 0.0432, 186.9],
            Self::L40sWith14b => [4.98, 129.5, 4.363, 41.27, 0.0724, 228.7],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_gives_the_measured_times() {
        let pace = SpeedPrior::H100With8b.pace();
        let kernel_ms = |tokens: f64| 1e3 * (pace.seconds(Work::of(tokens, 0.0))) + 1.34;
        for (tokens, measured_ms) in [(1_024.0, 22.0), (8_192.0, 200.0), (32_000.0, 1_047.0)] {
            let off = kernel_ms(tokens) / measured_ms - 1.0;
            assert!(off.abs() < 0.05, "{tokens}: {} ms", kernel_ms(tokens));
        }
    }

    #[test]
    fn one_token_is_always_computed() {
        assert!((Work::of(100.0, 100.0).tokens - 1.0).abs() < f64::EPSILON);
        assert!((Work::of(0.0, 0.0).tokens - 1.0).abs() < f64::EPSILON);
    }

    #[test]
    fn every_prior_has_a_name_and_a_doc() {
        let names: std::collections::BTreeSet<_> = SpeedPrior::ALL.iter().map(|prior| prior.name()).collect();
        assert_eq!(names.len(), SpeedPrior::ALL.len());
        assert!(SpeedPrior::ALL.iter().all(|prior| prior.doc().ends_with('.')));
    }
}
