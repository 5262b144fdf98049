//! What a pool and an endpoint can be told. Every default is written once, here.

use std::time::Duration;

use crate::waiting::WaitingOptions;
use crate::{CostOptions, SignalSet, SpeedPrior};

/// Settings of one pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolOptions {
    /// Most endpoints at one time, those that drain included. Default 4,096.
    pub max_endpoints: u32,
    /// Most leases at one time in the whole pool. Default 65,536; never more than 2²⁰.
    pub max_leases: u32,
    /// Most leases at one time on one endpoint, unless the endpoint's own options say otherwise. Default 1,024.
    pub max_in_flight: u32,
    /// Most events that wait to be fetched; beyond it the oldest are dropped and counted. Default 1,024.
    pub event_queue: usize,
    /// What a refused caller is told to wait. Default 1 s.
    pub retry_after: Duration,
    /// How long an endpoint that leaves for good may wait for its last lease to end. Default `None`, for as long as it takes.
    pub drain_limit: Option<Duration>,
    /// How long signals are believed.
    pub staleness: StalenessOptions,
    /// When probes that fail take an endpoint out.
    pub readiness: ReadinessOptions,
    /// When calls that fail take an endpoint out.
    pub outlier: OutlierOptions,
    /// How many second attempts are allowed.
    pub retry: RetryOptions,
    /// How figures are carried from one scrape to the next.
    pub reckoning: ReckoningOptions,
    /// What is believed of an endpoint's speed before its answers say better.
    pub speed_prior: SpeedPrior,
    /// How the terms of the cost are weighed.
    pub cost: CostOptions,
    /// What is remembered of prompts.
    pub prefix: PrefixOptions,
    /// When calls wait in the gateway, and in which order they go.
    pub waiting: WaitingOptions,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            max_endpoints: 4_096,
            max_leases: 65_536,
            max_in_flight: 1_024,
            event_queue: 1_024,
            retry_after: Duration::from_secs(1),
            drain_limit: None,
            staleness: StalenessOptions::default(),
            readiness: ReadinessOptions::default(),
            outlier: OutlierOptions::default(),
            retry: RetryOptions::default(),
            reckoning: ReckoningOptions::default(),
            speed_prior: SpeedPrior::default(),
            cost: CostOptions::default(),
            prefix: PrefixOptions::default(),
            waiting: WaitingOptions::default(),
        }
    }
}

/// What is known of an endpoint before it has said anything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EndpointOptions {
    /// Most leases at one time on this endpoint; `None` takes the pool's.
    pub max_in_flight: Option<u32>,
    /// Tokens per KV block, for an endpoint whose page does not say.
    pub block_size: Option<u32>,
    /// KV blocks, for an endpoint whose page does not say.
    pub blocks: Option<u32>,
    /// The signals that its engine reports; compare with [`crate::Profile::reads`].
    pub reports: SignalSet,
}

/// What to make of an endpoint whose signals are old.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StalenessPolicy {
    /// It counts as full, so nothing is dispatched blind. When nothing else is left, calls are refused.
    Saturated,
    /// Its signals are left out and it is scored on this gateway's own leases alone. Traffic flows.
    Ignore,
    /// What its signals say of others counts less and less with their age, and own leases count as ever. Traffic flows.
    #[default]
    Trust,
}

impl StalenessPolicy {
    /// Every policy.
    pub const ALL: &'static [Self] = &[Self::Saturated, Self::Ignore, Self::Trust];

    /// The word in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Saturated => "saturated",
            Self::Ignore => "ignore",
            Self::Trust => "trust",
        }
    }
}

/// How long signals are believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StalenessOptions {
    /// The age from which a sample is stale. Default 200 ms, four scrape intervals.
    pub stale_after: Duration,
    /// What a stale endpoint counts as.
    pub policy: StalenessPolicy,
    /// How long a page may stand still under load before it is taken for frozen. Default 10 s, since engines are known to
    /// hold their gauges back for up to 6 s.
    pub frozen_after: Duration,
}

impl Default for StalenessOptions {
    fn default() -> Self {
        Self {
            stale_after: Duration::from_millis(200),
            policy: StalenessPolicy::default(),
            frozen_after: Duration::from_secs(10),
        }
    }
}

/// When probes that fail take an endpoint out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadinessOptions {
    /// Failed probes in a row after which a ready endpoint is not ready any more. Default 3.
    pub failed_probes: u32,
}

impl Default for ReadinessOptions {
    fn default() -> Self {
        Self { failed_probes: 3 }
    }
}

/// When calls that fail take an endpoint out, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutlierOptions {
    /// Failures in a row that eject. Default 3. One refused connection is not enough: a listener's backlog overflows on
    /// a healthy host, and a failed attempt costs less than a healthy endpoint.
    pub failures: u32,
    /// Length of the first ejection; each further one is twice as long. Default 5 s, one readiness period.
    pub base: Duration,
    /// Longest ejection. Default 300 s.
    pub max: Duration,
    /// Successes in a row that take one doubling back. Default 10.
    pub forgive_after: u32,
    /// How long an endpoint is spared after it said that it has too much to do without saying for how long.
    /// Default 250 ms.
    pub cool_down: Duration,
    /// Longest time that an endpoint can ask to be spared. Default 30 s.
    pub max_cool_down: Duration,
}

impl Default for OutlierOptions {
    fn default() -> Self {
        Self {
            failures: 3,
            base: Duration::from_secs(5),
            max: Duration::from_secs(300),
            forgive_after: 10,
            cool_down: Duration::from_millis(250),
            max_cool_down: Duration::from_secs(30),
        }
    }
}

/// How many second attempts may be under way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RetryOptions {
    /// Share of the active leases that may be second attempts. Default 0.20.
    pub share: f64,
    /// Second attempts that are always allowed at one time. Default 3.
    pub min: u32,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self { share: 0.20, min: 3 }
    }
}

/// How figures are carried from one scrape to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReckoningOptions {
    /// A lease booked less than this before a sample is not assumed to be inside it. Default 10 ms: half a decode step, at
    /// whose end engines write their gauges.
    pub sample_lag: Duration,
    /// Output tokens per second of one lease, until the endpoint's own answers teach better. Default 40.
    pub decode_rate: f64,
    /// How long it is remembered by how much pages differed from what is known otherwise: see [`crate::Estimate`]. Default 30 s.
    pub memory: Duration,
    /// Weight of a new answer in the learnt rate, 0 to 1. Default 0.2.
    pub smoothing: f64,
}

impl Default for ReckoningOptions {
    fn default() -> Self {
        Self {
            sample_lag: Duration::from_millis(10),
            decode_rate: 40.0,
            memory: Duration::from_secs(30),
            smoothing: 0.2,
        }
    }
}

/// What is remembered of which endpoint holds which prompts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrefixOptions {
    /// Most bytes that the prefix index may take up; beyond them the least recently used prefixes are forgotten. 0 remembers nothing.
    /// Default 256 MiB.
    pub max_bytes: usize,
    /// Tokens that the KV cache of an endpoint holds that does not say. Default 500,000.
    pub default_tokens: u32,
    /// The share of prompt tokens, 0 to 1, that some endpoint must hold already when a call comes, for the index to be worth its work.
    /// Default 0.005; 0 keeps it on whatever happens.
    pub min_gain: f32,
    /// Calls over which that is measured, at least. Default 1,024.
    pub window: u32,
    /// Time over which that is measured, at least: longer than what usually passes between two turns of a conversation. Default 60 s.
    pub window_time: Duration,
}

impl Default for PrefixOptions {
    fn default() -> Self {
        Self {
            max_bytes: 256 << 20,
            default_tokens: 500_000,
            min_gain: 0.005,
            window: 1_024,
            window_time: Duration::from_secs(60),
        }
    }
}
