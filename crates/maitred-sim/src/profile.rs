//! What a GPU and a model cost: the time of a step, the size of the KV pool, the scheduler's limits.
//!
//! The time constants are least-squares fits on the measured kernel tables of `aiconfigurator` 0.12.0 (vLLM, bf16, one GPU):
//! prefill over 512–32k new tokens with 0–30k cached before them, decode over batches of 1–256 and contexts of 512–8192. The
//! largest error of a fit is 6.5 % for prefill and 10 % for decode. Pool sizes are those at a memory utilisation of 0.9. Token
//! budgets and sequence limits are vLLM V1's defaults: 8192 and 1024 on cards of at least 70 GB other than the A100, 2048 and
//! 256 elsewhere.

use std::time::Duration;

/// The constants of the time formula.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepCosts {
    /// `a`: fixed cost of a step that prefills, in milliseconds.
    pub prefill_fixed_ms: f64,
    /// `b`: cost of one token, in microseconds.
    pub token_us: f64,
    /// `c`: cost of one prefill token attending to one earlier token, in nanoseconds.
    pub attention_ns: f64,
    /// `d0`: fixed cost of a step that decodes (reading the weights once), in milliseconds.
    pub decode_fixed_ms: f64,
    /// `d1`: cost of one decoding sequence, in milliseconds.
    pub sequence_ms: f64,
    /// `d2`: cost of reading one token of context while decoding, in nanoseconds.
    pub context_ns: f64,
}

/// What one step computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepBatch {
    /// Prefill tokens of all chunks.
    pub prefill_tokens: u64,
    /// Twice the sum of `n·(p + n/2)` over the chunks, `n` being a chunk's tokens and `p` those before it. Doubled, so that
    /// it stays an integer.
    pub attention_doubled: u64,
    /// Decoding sequences.
    pub decodes: u64,
    /// Context tokens of the decoding sequences together.
    pub context_tokens: u64,
}

impl StepBatch {
    /// Adds a chunk of `tokens` prompt tokens that follow `before` computed ones.
    pub fn add_prefill(&mut self, tokens: u32, before: u32) {
        let (tokens, before) = (u64::from(tokens), u64::from(before));
        self.prefill_tokens += tokens;
        self.attention_doubled += tokens * (2 * before + tokens);
    }

    /// Adds a sequence that decodes one token over `context` tokens.
    pub fn add_decode(&mut self, context: u32) {
        self.decodes += 1;
        self.context_tokens += u64::from(context);
    }
}

impl StepCosts {
    /// How long the kernels of a step take: `max(d0 + d1·B, a + b·(P + B)) + c·Σ n·(p + n/2) + d2·C`.
    ///
    /// The larger of the two first terms counts, not their sum, because the weights are read once for both.
    #[must_use]
    pub fn step(&self, batch: &StepBatch) -> Duration {
        let decodes = batch.decodes as f64;
        let tokens = batch.prefill_tokens as f64 + decodes;
        let decode_ms = self.decode_fixed_ms + self.sequence_ms * decodes;
        let prefill_ms = self.prefill_fixed_ms + self.token_us * tokens / 1e3;
        let attention_ms = self.attention_ns * batch.attention_doubled as f64 / 2.0 / 1e6;
        let context_ms = self.context_ns * batch.context_tokens as f64 / 1e6;
        let total_ms = decode_ms.max(prefill_ms) + attention_ms + context_ms;
        Duration::try_from_secs_f64(total_ms / 1e3).unwrap_or(Duration::MAX)
    }
}

/// A GPU with a model on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EngineProfile {
    /// What the command line calls it, such as `h100-8b`.
    pub name: &'static str,
    /// The time formula's constants.
    pub costs: StepCosts,
    /// Tokens that the KV pool holds.
    pub kv_tokens: u32,
    /// Most tokens computed in one step (`max_num_batched_tokens`).
    pub batched_tokens: u32,
    /// Most sequences running at once (`max_num_seqs`).
    pub sequences: u32,
    /// Host time around the kernels of each step. Measured engines lie between 0.5 and 1.5 ms.
    pub step_overhead: Duration,
    /// Time the API front takes before the scheduler sees a request: parsing, template, tokenizer, hand-over. The constant
    /// that BLIS trained on H100 runs; it delays a request and does not occupy the engine.
    pub front_delay: Duration,
}

const STEP_OVERHEAD: Duration = Duration::from_millis(1);
const FRONT_DELAY: Duration = Duration::from_micros(15_600);
/// vLLM's defaults on a card of at least 70 GB that is not an A100.
const LARGE: (u32, u32) = (8192, 1024);
/// vLLM's defaults elsewhere.
const SMALL: (u32, u32) = (2048, 256);

const fn profile(
    name: &'static str,
    [a, b, c, d0, d1, d2]: [f64; 6],
    kv_tokens: u32,
    (batched_tokens, sequences): (u32, u32),
) -> EngineProfile {
    EngineProfile {
        name,
        costs: StepCosts {
            prefill_fixed_ms: a,
            token_us: b,
            attention_ns: c,
            decode_fixed_ms: d0,
            sequence_ms: d1,
            context_ns: d2,
        },
        kv_tokens,
        batched_tokens,
        sequences,
        step_overhead: STEP_OVERHEAD,
        front_delay: FRONT_DELAY,
    }
}

impl EngineProfile {
    /// Every profile. 8B is Llama-3.1-8B, 14B is Qwen3-14B; H100 and A100 are the SXM cards with 80 GB.
    pub const ALL: [Self; 8] = [
        profile("h100-8b", [1.34, 20.25, 0.761, 6.29, 0.0129, 40.9], 440_000, LARGE),
        profile("h100-14b", [2.49, 38.42, 1.202, 11.07, 0.0163, 52.0], 270_000, LARGE),
        profile("h200-8b", [0.64, 20.47, 0.779, 4.87, 0.0127, 29.2], 890_000, LARGE),
        profile("h200-14b", [0.73, 39.17, 1.201, 8.57, 0.0174, 35.8], 630_000, LARGE),
        profile("a100-8b", [7.17, 55.09, 2.928, 11.66, 0.0281, 84.1], 440_000, SMALL),
        profile("a100-14b", [12.26, 96.62, 4.533, 19.62, 0.0385, 106.0], 270_000, SMALL),
        profile("l40s-8b", [1.13, 69.65, 2.804, 22.05, 0.0432, 186.9], 190_000, SMALL),
        profile("l40s-14b", [4.98, 129.5, 4.363, 41.27, 0.0724, 228.7], 70_000, SMALL),
    ];

    /// The profile called `name`.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.name == name)
    }
}

#[cfg(test)]
mod tests;
