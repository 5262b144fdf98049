//! The parts of a pool that keep an endpoint in or out.

use maitred_engines::InferencePath;
use maitred_sched::{OutlierOptions, PoolOptions, ReadinessOptions, ReckoningOptions, RetryOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Word;
use crate::forms::{Share, TimeSpan};

/// The probe that runs until an endpoint can serve for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Startup {
    /// From one try to the next.
    pub(crate) interval: TimeSpan,
    /// Failed tries until the endpoint is reported as not starting. It is tried further.
    #[schemars(range(min = 1))]
    pub(crate) failures: u32,
    /// Longest wait for an answer.
    pub(crate) timeout: TimeSpan,
    /// What must be seen before the endpoint gets its first call.
    pub(crate) check: StartupCheck,
    /// How `full` makes the model run once.
    pub(crate) inference: Word<InferencePath>,
}

impl Default for Startup {
    fn default() -> Self {
        Self {
            interval: TimeSpan::secs(10),
            failures: 30,
            timeout: TimeSpan::secs(10),
            check: StartupCheck::Full,
            inference: Word(InferencePath::Completions),
        }
    }
}

/// What must be seen before an endpoint gets its first call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StartupCheck {
    /// The health page agrees, the model is listed, the KV cache is there, and the model ran once.
    #[default]
    Full,
    /// The health page agrees, as for readiness. Some engines are healthy before they can serve.
    Health,
    /// The port accepts a connection. An endpoint listens long before it can serve, so calls fail: for comparison only.
    Port,
}

/// The probe that runs from then on: the engine's health page.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Readiness {
    /// From one try to the next.
    pub(crate) interval: TimeSpan,
    /// Failed tries in a row after which the endpoint gets no more calls.
    #[schemars(range(min = 1))]
    pub(crate) failures: u32,
    /// Longest wait for an answer.
    pub(crate) timeout: TimeSpan,
}

impl Default for Readiness {
    fn default() -> Self {
        Self {
            interval: TimeSpan::secs(5),
            failures: ReadinessOptions::default().failed_probes,
            timeout: TimeSpan::secs(2),
        }
    }
}

/// When calls that fail take an endpoint out, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Ejection {
    /// Failed calls in a row that eject.
    #[schemars(range(min = 1))]
    pub(crate) failures: u32,
    /// Length of the first ejection; each further one is twice as long.
    pub(crate) base: TimeSpan,
    /// Longest ejection.
    pub(crate) max: TimeSpan,
    /// Good calls in a row that take one doubling back.
    #[schemars(range(min = 1))]
    pub(crate) forgive_after: u32,
    /// How long an endpoint is spared after it said that it has too much to do, when it does not say how long.
    pub(crate) cool_down: TimeSpan,
    /// Longest time for which an endpoint can ask to be spared.
    pub(crate) max_cool_down: TimeSpan,
}

impl Default for Ejection {
    fn default() -> Self {
        let options = OutlierOptions::default();
        Self {
            failures: options.failures,
            base: TimeSpan::new(options.base),
            max: TimeSpan::new(options.max),
            forgive_after: options.forgive_after,
            cool_down: TimeSpan::new(options.cool_down),
            max_cool_down: TimeSpan::new(options.max_cool_down),
        }
    }
}

/// How often a call may be tried on another endpoint. Only calls whose answer has not begun are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Retry {
    /// Share of the active calls of the pool that may be on a further attempt.
    pub(crate) budget: Share,
    /// Further attempts that are always allowed at one time.
    pub(crate) min: u32,
    /// Most attempts of one call, the first included; each goes to another endpoint.
    #[schemars(range(min = 1, max = 16))]
    pub(crate) attempts: u32,
    /// What a refused client is told to wait.
    pub(crate) after: TimeSpan,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            budget: Share::percent(20),
            min: RetryOptions::default().min,
            attempts: 3,
            after: TimeSpan::new(PoolOptions::default().retry_after),
        }
    }
}

/// How an endpoint's figures are carried from one scrape to the next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Reckoning {
    /// A call sent less than this before a scrape is not assumed to be in its figures.
    pub(crate) sample_lag: TimeSpan,
    /// Output tokens per second of one call, until the endpoint's own answers teach better.
    #[schemars(range(min = 0.1, max = 100_000.0))]
    pub(crate) decode_rate: f64,
    /// Weight of a new answer in what is learnt.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) smoothing: f64,
}

impl Default for Reckoning {
    fn default() -> Self {
        let options = ReckoningOptions::default();
        Self {
            sample_lag: TimeSpan::new(options.sample_lag),
            decode_rate: options.decode_rate,
            smoothing: options.smoothing,
        }
    }
}
