//! What a run is made of: endpoints, how their pages are read, and what goes wrong when.

use std::num::NonZeroU32;
use std::time::Duration;

use maitred_types::{Time, TokenCount};

use super::fleet::{EndpointFacts, EndpointIndex};
use crate::model::{EngineModel, EngineOptions, TokenEvents};
use crate::profile::{EngineProfile, StepCosts};

/// Most requests that an engine of the laboratory holds; more than an overload can pile up in a run's time.
const MAX_ENGINE_REQUESTS: usize = 1 << 20;

/// One endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointPlan {
    /// Its card and model.
    pub profile: EngineProfile,
    /// How many times as fast as the profile it is.
    pub speed: f64,
    /// How its engine is set up. Runs that tell each token give the same records, but take many times as long.
    pub options: EngineOptions,
}

impl EndpointPlan {
    /// An endpoint as fast as its profile, with blocks of `block_size` tokens and a context that refuses nothing its memory
    /// can hold.
    #[must_use]
    pub fn new(profile: EngineProfile, block_size: NonZeroU32) -> Self {
        Self {
            profile,
            speed: 1.0,
            options: EngineOptions {
                block_size,
                token_events: TokenEvents::First,
                context: TokenCount::new(profile.kv_tokens),
                requests: MAX_ENGINE_REQUESTS,
                ..EngineOptions::default()
            },
        }
    }

    /// The profile with its speed applied.
    fn profile(&self) -> EngineProfile {
        let mut profile = self.profile;
        profile.costs = slower(&profile.costs, 1.0 / self.speed);
        let overhead = profile.step_overhead.as_secs_f64() / self.speed;
        profile.step_overhead = Duration::try_from_secs_f64(overhead).unwrap_or(profile.step_overhead);
        profile
    }

    pub(super) fn engine(&self, start: Time) -> EngineModel {
        EngineModel::new(&self.profile(), &self.options, start)
    }

    fn facts(&self, prior_factor: f64) -> EndpointFacts {
        let profile = self.profile();
        let block_size = self.options.block_size.get();
        let at_most = |own: Option<NonZeroU32>, usual: u32| own.map_or(usual, NonZeroU32::get);
        EndpointFacts {
            costs: slower(&profile.costs, prior_factor),
            block_size,
            blocks: self.options.blocks.unwrap_or(profile.kv_tokens / block_size),
            batched_tokens: at_most(self.options.batched_tokens, profile.batched_tokens),
            sequences: at_most(self.options.sequences, profile.sequences),
        }
    }
}

fn slower(costs: &StepCosts, factor: f64) -> StepCosts {
    StepCosts {
        prefill_fixed_ms: costs.prefill_fixed_ms * factor,
        token_us: costs.token_us * factor,
        attention_ns: costs.attention_ns * factor,
        decode_fixed_ms: costs.decode_fixed_ms * factor,
        sequence_ms: costs.sequence_ms * factor,
        context_ns: costs.context_ns * factor,
    }
}

/// How gateways read pages.
#[derive(Clone, Debug, PartialEq)]
pub struct ScrapePlan {
    /// Time between two readings of one page by one gateway. Zero reads none.
    pub period: Duration,
    /// How much older than their reading the figures are, unknown to the gateway. Engines are known to hold theirs back.
    pub age: Duration,
    /// Each count is off by up to this fraction, either way.
    pub noise: f64,
    /// Pages that stand still for a time.
    pub frozen: Vec<FrozenPage>,
}

impl Default for ScrapePlan {
    fn default() -> Self {
        Self {
            period: Duration::from_millis(200),
            age: Duration::ZERO,
            noise: 0.0,
            frozen: Vec::new(),
        }
    }
}

/// A page that stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrozenPage {
    /// Whose.
    pub endpoint: EndpointIndex,
    /// From when on.
    pub from: Time,
    /// Until when.
    pub until: Time,
}

/// An endpoint that starts anew: its calls are lost and its cache is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    /// Which.
    pub endpoint: EndpointIndex,
    /// When.
    pub at: Time,
}

/// When a run stops taking calls. Those under way then are still waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// After so many calls.
    pub calls: u64,
    /// After so much time.
    pub time: Duration,
    /// How long the last calls are waited for; what has not ended then is unfinished.
    pub patience: Duration,
}

impl Default for RunEnd {
    /// When the workload ends; two hours of patience.
    fn default() -> Self {
        Self {
            calls: u64::MAX,
            time: Duration::MAX,
            patience: Duration::from_hours(2),
        }
    }
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunPlan {
    /// The fleet.
    pub endpoints: Vec<EndpointPlan>,
    /// How many gateways share it. Each sees its own calls only; a call comes to one of them by chance.
    pub gateways: u32,
    /// How often each tells the others what it has under way, where gateways talk to each other.
    pub sharing: Option<Duration>,
    /// How they read pages.
    pub scrape: ScrapePlan,
    /// Restarts, in any order.
    pub restarts: Vec<Restart>,
    /// Time from a decision to the endpoint's front.
    pub dispatch_delay: Duration,
    /// By which factor the constants told to policies are too large; 1 tells the truth.
    pub prior_factor: f64,
    /// When it ends.
    pub end: RunEnd,
    /// Decides which gateway a call comes to, and the noise.
    pub seed: u64,
}

impl RunPlan {
    /// A run of one gateway that sees everything as well as a gateway can.
    #[must_use]
    pub fn new(endpoints: Vec<EndpointPlan>, seed: u64) -> Self {
        Self {
            endpoints,
            gateways: 1,
            sharing: None,
            scrape: ScrapePlan::default(),
            restarts: Vec::new(),
            dispatch_delay: Duration::from_micros(200),
            prior_factor: 1.0,
            end: RunEnd::default(),
            seed,
        }
    }

    /// What policies are told of the fleet.
    #[must_use]
    pub fn facts(&self) -> Vec<EndpointFacts> {
        let facts = self.endpoints.iter().map(|endpoint| endpoint.facts(self.prior_factor));
        facts.collect()
    }

    /// The same fleet as one endpoint: its speeds and its memory added up. No placement can waste anything on it, so it is a
    /// bound for all policies.
    #[must_use]
    pub fn pooled(&self) -> Self {
        let mut pooled = self.clone();
        let facts = self.facts();
        let mut sums = (0.0, 0_u32, 0_u32, 0_u32);
        for (endpoint, facts) in self.endpoints.iter().zip(&facts) {
            sums.0 += endpoint.speed;
            sums.1 = sums.1.saturating_add(facts.blocks);
            sums.2 = sums.2.saturating_add(facts.batched_tokens);
            sums.3 = sums.3.saturating_add(facts.sequences);
        }
        pooled.endpoints.truncate(1);
        if let Some(endpoint) = pooled.endpoints.first_mut() {
            endpoint.speed = sums.0;
            endpoint.options.blocks = Some(sums.1);
            endpoint.options.batched_tokens = NonZeroU32::new(sums.2);
            endpoint.options.sequences = NonZeroU32::new(sums.3);
        }
        pooled.restarts.clear();
        pooled.scrape.frozen.clear();
        pooled
    }
}
