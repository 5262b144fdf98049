//! What a call costs on each endpoint, in seconds.
//!
//! ```text
//! J = Q̂ + a + μ·w + λ·D + P(k) + A
//! ```
//!
//! * **Q̂**, the queue: prefill work that stands before the call ([`crate::backlog`]); and `a`, what an idle endpoint takes.
//! * **w**, the own work: what the call's prompt has to be computed here, given what is cached here. **μ**, its price: 1 where
//!   nobody queues, since then only the call itself waits for it; and more with the pool's mean queue, since every second of
//!   computing then delays everyone behind it. This is what keeps calls with their caches exactly when recomputing is
//!   unaffordable, without a threshold anywhere.
//! * **D**, the decode slowdown that the call inflicts on itself and on those that run: `(d1 + d2·(n + o/2))·o·(1 + B)`.
//! * **P**, the pressure on the KV cache: `p·k/(1 − k)`, where k is the share in use once the call is in. Where k reaches one,
//!   something is preempted and computed again.
//! * **A**, the loading of an adapter that is not there.

use maitred_types::TokenCount;

use crate::adapters::AdapterPlace;
use crate::pace::Work;
use crate::scorer::Scene;

/// How the terms are weighed. The defaults are what the laboratory found best over all of its workloads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostOptions {
    /// How much the price of own work rises with each second of the pool's mean queue. Default 3.
    pub price_rise: f64,
    /// The highest price. Default 17.
    pub price_max: f64,
    /// Weight of the decode slowdown: one over the batch at which answers get too slow. Default 1/128.
    pub decode_weight: f64,
    /// Seconds of pressure at half a KV cache. Default 0.05.
    pub kv_weight: f64,
    /// Costs closer than this many seconds are equal. Default 0.005.
    pub tie: f64,
    /// Costs closer than this share of the lowest are equal. Default 0.02.
    pub tie_share: f64,
}

impl Default for CostOptions {
    fn default() -> Self {
        Self {
            price_rise: 3.0,
            price_max: 17.0,
            decode_weight: 1.0 / 128.0,
            kv_weight: 0.05,
            tie: 0.005,
            tie_share: 0.02,
        }
    }
}

impl CostOptions {
    /// The price of own work where the pool's endpoints have `queue` seconds of work before them on average.
    pub(crate) fn price(&self, queue: f64) -> f64 {
        (1.0 + self.price_rise * queue).clamp(1.0, self.price_max.max(1.0))
    }

    /// How much dearer than the cheapest a candidate may be and still count as equal.
    pub(crate) fn tie(&self, lowest: f64) -> f64 {
        self.tie.max(self.tie_share * lowest)
    }
}

/// What a call was reckoned to cost on one endpoint. All but `cached` in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CostTerms {
    /// Prefill work that stands before it.
    pub queue: f64,
    /// What an idle endpoint takes for an empty prompt.
    pub fixed: f64,
    /// Its own prefill work, before the price.
    pub own: f64,
    /// Decode slowdown, weighed.
    pub decode: f64,
    /// Pressure on the KV cache.
    pub kv: f64,
    /// Loading its adapter.
    pub adapter: f64,
    /// All of these together, with the own work at its price.
    pub total: f64,
    /// Prompt tokens that were reckoned to be cached there.
    pub cached: f64,
}

/// Pressure of a cache that is full.
const KV_FULL: f64 = 60.0;
/// The share in use from which on a cache counts as full.
const KV_BRIM: f64 = 0.999;
/// Seconds that an adapter takes to load, and that one takes for which another must go.
const ADAPTER_LOAD: (f64, f64) = (0.1, 1.0);

/// What the call is, as far as its cost goes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    /// Prompt tokens.
    pub(crate) input: f64,
    /// Expected output tokens.
    pub(crate) output: f64,
    /// Output tokens that nine of ten such calls stay below.
    pub(crate) output_p90: f64,
}

impl Scene<'_> {
    /// Seconds of prefill work that stand before a new call on the endpoint at `at`.
    #[inline]
    pub(crate) fn queue(&self, at: usize) -> f64 {
        self.columns.backlogs[at].seconds(
            &self.columns.paces[at],
            &self.columns.heard[at],
            self.subject.freshness.now,
        )
    }

    /// The call's own work on the endpoint at `at`.
    #[inline]
    pub(crate) fn work(&self, at: usize) -> Work {
        Work::of(self.subject.size.input, self.cached(at))
    }

    /// Prompt tokens that are reckoned to be cached on the endpoint at `at`.
    #[inline]
    pub(crate) fn cached(&self, at: usize) -> f64 {
        f64::from(self.columns.matched[at])
    }

    /// Seconds to the first token on the endpoint at `at`.
    pub(crate) fn latency(&self, at: usize) -> f64 {
        let pace = &self.columns.paces[at];
        self.queue(at) + pace.fixed + pace.seconds(self.work(at))
    }

    /// The cost on the endpoint at `at`, whose queue has been read, at this price of own work.
    #[inline]
    pub(crate) fn cost(&self, at: usize, queue: f64, price: f64, options: &CostOptions) -> CostTerms {
        let (pace, size) = (&self.columns.paces[at], &self.subject.size);
        let estimate = self.estimate(at);
        let own = pace.seconds(self.work(at));
        let context = size.input + 0.5 * size.output;
        let slowdown = (pace.sequence + pace.context * context) * size.output;
        let decode = options.decode_weight * slowdown * (1.0 + f64::from(estimate.running));
        let needed = size.input - self.cached(at) + size.output_p90;
        let kv = match estimate.kv_used {
            Some(used) => options.kv_weight * pressure(used + needed.max(0.0) * self.columns.loads[at].kv_share()),
            None => 0.0,
        };
        let adapter = self
            .subject
            .adapter
            .map_or(0.0, |adapter| loading(self.columns.adapters[at].place(adapter)));
        CostTerms {
            queue,
            fixed: pace.fixed,
            own,
            decode,
            kv,
            adapter,
            total: queue + pace.fixed + price * own + decode + kv + adapter,
            cached: self.cached(at),
        }
    }
}

fn pressure(used: f64) -> f64 {
    if used >= KV_BRIM {
        KV_FULL / 0.05
    } else {
        used.max(0.0) / (1.0 - used)
    }
}

const fn loading(place: AdapterPlace) -> f64 {
    match place {
        AdapterPlace::Running | AdapterPlace::Waiting | AdapterPlace::Unknown => 0.0,
        AdapterPlace::FreeSlot => ADAPTER_LOAD.0,
        AdapterPlace::Full => ADAPTER_LOAD.1,
    }
}

/// A number of tokens, rounded up.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts from floats saturate, and so do token counts"
)]
pub(crate) fn whole_tokens(tokens: f64) -> TokenCount {
    TokenCount::saturating_from(tokens.ceil() as u64)
}
