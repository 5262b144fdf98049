//! What a call costs on each endpoint, in seconds.
//!
//! ```text
//! J = T + a + μ·w + λ·D + S + P(k) + A,    μ = 1 + (κ + r)·(T + T̄)/2
//! ```
//!
//! * **T**, the wait: prefill work that stands before the call ([`crate::backlog`]), or room in the KV cache where that takes
//!   longer; and `a`, what an idle endpoint takes.
//! * **w**, the own work: what the call's prompt has to be computed here, given what is cached here. What a candidate holds on average
//!   counts as held by all: a beginning that most of them hold is asked for again and again, so computing it once more is not this
//!   call's cost alone. Without that an endpoint without the hot prefix of a pool gets none of its calls, however busy the others are.
//! * **μ**, its price: 1 where nobody waits, since then only the call itself waits for it; and more with the wait and with the rate of
//!   calls, since every second of computing then delays everyone behind it. This is what keeps calls with their caches exactly when
//!   recomputing is unaffordable, without a threshold anywhere. The wait is half that of the endpoint and half the pool's mean T̄: who
//!   stands behind is mostly who stands here, so where one queue is long the price is low in the others, and its prefixes are copied.
//! * **D**, the decode slowdown in sequence-seconds: the call's own answer among the batch that runs, and what it adds to each step
//!   of the others: `o·(d1·B + d2·C) + o·(d1 + d2·(n + o/2))·(1 + B)`. Short calls so keep away from large contexts and long
//!   ones from large batches.
//! * **S**, the stall: while a prompt is computed the B sequences that decode wait: `w·B / (mean B + 16)`, for at most some tenths of a
//!   second each. It raises the price of own work where the batch is larger than elsewhere. A cache that is left is recomputed among running answers, they
//!   hold their memory for longer, less of it is left for caches, and so on: near the knee this term is what keeps a pool from
//!   that spiral.
//! * **P**, the pressure on the KV cache: `p·k/(1 − k)`, where k is the share in use once the call is in, up to 0.9. It must stay
//!   small: where all caches are full, avoiding full ones drives conversations away from theirs.
//! * **A**, the loading of an adapter that is not there.

use maitred_types::TokenCount;

use crate::adapters::AdapterPlace;
use crate::pace::Work;
use crate::reckoning::Estimate;
use crate::scorer::Scene;

/// How the terms are weighed. The defaults are what the laboratory found best over all of its workloads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostOptions {
    /// How much the price of own work rises with each second of wait. Default 8.
    pub price_rise: f64,
    /// How much more it rises for each call a second that an endpoint gets, since so many more stand behind. Default 2.
    pub price_rate: f64,
    /// The highest price. Default 17.
    pub price_max: f64,
    /// Weight of the decode slowdown. Default 1: a second by which each running answer is slowed counts as much as one to the first token.
    pub decode_weight: f64,
    /// The most seconds of own work that count as a stall of those that decode. Default 0.3.
    pub stall_max: f64,
    /// Weight of the wait for room in the KV cache. Default 0.5.
    pub room_weight: f64,
    /// Seconds of pressure at half a KV cache. Default 0.02.
    pub kv_weight: f64,
    /// Costs closer than this many seconds are equal. Default 0.005.
    pub tie: f64,
    /// Costs closer than this share of the lowest are equal. Default 0.02.
    pub tie_share: f64,
}

impl Default for CostOptions {
    fn default() -> Self {
        Self {
            price_rise: 8.0,
            price_rate: 2.0,
            price_max: 17.0,
            decode_weight: 1.0,
            stall_max: 0.3,
            room_weight: 0.5,
            kv_weight: 0.02,
            tie: 0.005,
            tie_share: 0.02,
        }
    }
}

impl CostOptions {
    /// What own work and stalls are charged in a pool where calls wait for `mean` seconds, an endpoint gets `rate` of them a second and
    /// has `running` in its batch, each on average. A candidate holds `common` tokens of this call's prompt on average.
    pub(crate) fn prices(&self, mean: f64, rate: f64, running: f64, common: f64) -> Prices {
        Prices {
            mean,
            rise: 0.5 * (self.price_rise + self.price_rate * rate),
            max: self.price_max.max(1.0),
            stall: 1.0 / (running + BATCH_SMALL),
            common,
        }
    }

    /// How much dearer than the cheapest a candidate may be and still count as equal.
    pub(crate) fn tie(&self, lowest: f64) -> f64 {
        self.tie.max(self.tie_share * lowest)
    }
}

/// What a call was reckoned to cost on one endpoint. All but `price` and `cached` in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CostTerms {
    /// What it waits for: prefill work that stands before it, or room in the KV cache, whichever takes longer.
    pub queue: f64,
    /// What an idle endpoint takes for an empty prompt.
    pub fixed: f64,
    /// Its own prefill work as far as it is charged, before the price.
    pub own: f64,
    /// What a second of own work is charged there.
    pub price: f64,
    /// Decode slowdown, weighed, and stall.
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

impl CostTerms {
    /// Prompt tokens that were reckoned to be cached there, as a count.
    #[must_use]
    pub fn cached_tokens(&self) -> TokenCount {
        whole_tokens(self.cached)
    }
}

/// What own work and stalls are charged in one pick.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prices {
    /// Seconds that the candidates' calls wait, on average.
    mean: f64,
    /// How much a second of own work costs more for each second of both waits, the endpoint's and the pool's.
    rise: f64,
    /// The most that it costs.
    max: f64,
    /// Of a second in which one answer stalls.
    stall: f64,
    /// Prompt tokens that a candidate holds on average.
    common: f64,
}

impl Prices {
    /// Of a second of own work where calls wait for `wait` seconds.
    #[inline]
    pub(crate) fn own(&self, wait: f64) -> f64 {
        (1.0 + self.rise * (wait + self.mean)).min(self.max)
    }

    /// The same in the pool as a whole.
    pub(crate) fn usual(&self) -> f64 {
        self.own(self.mean)
    }
}

/// A batch below which stalls count for less.
const BATCH_SMALL: f64 = 16.0;
/// From here on pressure rises no more: what waits for room is another term.
const KV_BRIM: f64 = 0.9;
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

/// How an endpoint stands as a call comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// Seconds that the call would wait there.
    pub(crate) wait: f64,
    pub(crate) estimate: Estimate,
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

    /// Seconds until the KV cache of the endpoint at `at` has room for the call: what is wanted beyond the cache, in shares of it, times
    /// how long a call holds its place, since a full cache is let go of once in that time.
    #[inline]
    fn room(&self, at: usize) -> f64 {
        let (gate, load) = (&self.columns.gates[at], &self.columns.loads[at]);
        let waiting = gate.in_flight.saturating_sub(load.decoding).max(1);
        let mean = load.prefill_tokens as f64 / f64::from(waiting);
        match load.kv_demand(mean, self.subject.freshness.now) {
            Some(demand) => (demand + self.subject.size.input * load.kv_share() - 1.0).max(0.0) * self.subject.hold,
            None => 0.0,
        }
    }

    /// Seconds that a call would wait on the endpoint at `at`. The waits for the prefill before it and for room pass side by side.
    #[inline]
    pub(crate) fn wait(&self, at: usize, options: &CostOptions) -> f64 {
        self.queue(at).max(options.room_weight * self.room(at))
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

    /// What a call meets on the endpoint at `at`.
    #[inline]
    pub(crate) fn standing(&self, at: usize, options: &CostOptions) -> Standing {
        Standing {
            wait: self.wait(at, options),
            estimate: self.estimate(at),
        }
    }

    /// The cost on the endpoint at `at`, which stands so, at this price of own work.
    #[inline]
    pub(crate) fn cost(&self, at: usize, standing: &Standing, prices: &Prices, options: &CostOptions) -> CostTerms {
        let (pace, size, load) = (&self.columns.paces[at], &self.subject.size, &self.columns.loads[at]);
        let Standing { wait, estimate } = *standing;
        let own = pace.seconds(Work::of(size.input, self.cached(at).max(prices.common)));
        let price = prices.own(wait);
        let running = f64::from(estimate.running);
        let each = pace.sequence + pace.context * (size.input + 0.5 * size.output);
        let batch = pace.sequence * running + pace.context * load.batch_context(running);
        let slowdown = size.output * (batch + each * (1.0 + running));
        let stall = own.min(options.stall_max) * running * prices.stall;
        let decode = options.decode_weight * prices.stall * slowdown + stall;
        let needed = (size.input - self.cached(at) + size.output_p90).max(0.0) * load.kv_share();
        let kv = estimate
            .kv_used
            .map_or(0.0, |used| options.kv_weight * pressure(used + needed));
        let adapter = self
            .subject
            .adapter
            .map_or(0.0, |adapter| loading(self.columns.adapters[at].place(adapter)));
        CostTerms {
            queue: wait,
            fixed: pace.fixed,
            own,
            price,
            decode,
            kv,
            adapter,
            total: wait + pace.fixed + price * own + decode + kv + adapter,
            cached: self.cached(at),
        }
    }
}

fn pressure(used: f64) -> f64 {
    let used = used.clamp(0.0, KV_BRIM);
    used / (1.0 - used)
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
