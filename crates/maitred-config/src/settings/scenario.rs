//! A scenario of the laboratory, checked.

use std::time::Duration;

use maitred_sched::{Profile, StalenessOptions, WaitingOptions};

pub use crate::raw::TraceFormat;

/// What a laboratory is asked to do. Plain figures: the laboratory makes fleets and workloads of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// What reports call it.
    pub name: String,
    /// What is in it.
    pub description: String,
    /// The endpoints, in groups of equal ones; at least one.
    pub fleet: Vec<FleetGroup>,
    /// Tokens per KV block.
    pub block_tokens: u32,
    /// How many gateways share the fleet.
    pub gateways: u32,
    /// How often each tells the others what it has under way.
    pub sharing: Option<Duration>,
    /// How they read pages.
    pub scrape: PageReadings,
    /// Which endpoints start anew, and when after the start of a run.
    pub restarts: Vec<(u32, Duration)>,
    /// By which factor the constants told to policies are too large.
    pub prior_factor: f64,
    /// Where calls come from.
    pub workload: WorkloadSettings,
    /// How the rate of arrivals changes.
    pub shape: LoadShape,
    /// How many calls come.
    pub load: LoadSettings,
    /// How the knee is found.
    pub knee: KneeSettings,
    /// The seeds; at least one.
    pub seeds: Vec<u64>,
    /// The policies; at least one.
    pub policies: Vec<PolicySettings>,
    /// The policy that all others are compared with; one of them.
    pub baseline: String,
    /// How long the scheduler that serves believes pages.
    pub staleness: StalenessOptions,
    /// When calls wait in the scheduler that serves.
    pub waiting: WaitingOptions,
    /// Calls of each run.
    pub calls: u64,
    /// Longest time to the first token of a good call.
    pub good_ttft: Duration,
    /// Longest mean time per later token of a good call.
    pub good_per_token: Duration,
}

/// Equal endpoints.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetGroup {
    /// The name of their engine profile, which is a known one.
    pub profile: String,
    /// How many.
    pub count: u32,
    /// How many times as fast as the profile.
    pub speed: f64,
    /// KV blocks, if not what the profile's memory holds.
    pub blocks: Option<u32>,
    /// Adapters: how many are known, how many are on the card at once, and how long loading one takes.
    pub adapters: Option<(u32, u32, Duration)>,
}

/// How gateways read pages.
#[derive(Clone, Debug, PartialEq)]
pub struct PageReadings {
    /// Time between two readings; zero reads none.
    pub period: Duration,
    /// How old the figures are.
    pub age: Duration,
    /// Up to which part counts are off.
    pub noise: f64,
    /// Pages that stand still: whose, from when, until when.
    pub frozen: Vec<(u32, Duration, Duration)>,
}

/// Where calls come from.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkloadSettings {
    /// A trace.
    Trace(TraceSettings),
    /// Kinds of conversations; at least one.
    Kinds(Vec<KindSettings>),
}

/// A trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSettings {
    /// The file as the scenario names it.
    pub file: String,
    /// How it is written.
    pub format: TraceFormat,
    /// To what its times are rounded down.
    pub jitter: Duration,
    /// How late in the file a call may stand.
    pub lateness: Duration,
    /// Longest answer.
    pub longest_answer: Option<u32>,
}

/// One kind of conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct KindSettings {
    /// How many of all are of this kind, compared with the others.
    pub weight: f64,
    /// Text that prompts begin with.
    pub shared: Option<SharedSettings>,
    /// The first turn's own text.
    pub prompt: LengthSettings,
    /// Answers.
    pub answer: LengthSettings,
    /// How it goes on.
    pub turns: Option<TurnSettings>,
    /// Whether clients name their conversation.
    pub sessions: bool,
    /// Adapters to choose from.
    pub adapters: Option<SpreadSettings>,
    /// Tenants to choose from.
    pub tenants: SpreadSettings,
    /// The number of the first of them.
    pub first_tenant: u32,
    /// The class.
    pub class: u8,
    /// The limit that clients set on answers.
    pub answer_limit: Option<u32>,
}

/// Text that many prompts begin with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedSettings {
    /// How many there are.
    pub texts: SpreadSettings,
    /// How long they are.
    pub tokens: LengthSettings,
    /// The part of conversations that begin with one.
    pub share: f64,
}

/// A log-normal length in tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LengthSettings {
    /// The mean.
    pub mean: u32,
    /// Standard deviation over mean.
    pub variation: f64,
    /// The longest.
    pub max: u32,
}

/// Things to choose from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpreadSettings {
    /// How many.
    pub count: u32,
    /// The exponent of Zipf's law.
    pub skew: f64,
}

/// How conversations go on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TurnSettings {
    /// Mean number of turns.
    pub mean: f64,
    /// Most turns.
    pub max: u32,
    /// What each later turn adds.
    pub added: LengthSettings,
    /// Mean time between an answer and the next turn.
    pub pause: Duration,
    /// What an answer is taken to need for each token.
    pub per_token: Duration,
}

/// How the rate of arrivals changes with time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadShape {
    /// Not at all.
    Steady,
    /// In bursts.
    Bursts {
        /// From one beginning to the next.
        every: Duration,
        /// How long one lasts.
        length: Duration,
        /// How many times the rate outside is the rate inside.
        factor: f64,
    },
    /// In waves.
    Waves {
        /// From crest to crest.
        period: Duration,
        /// How far the rate goes from its mean, as a part of it.
        depth: f64,
    },
}

/// How many calls come.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadSettings {
    /// Calls per second.
    PerSecond(Vec<f64>),
    /// Parts of the knee.
    OfKnee(Vec<f64>),
}

/// How the knee is found.
#[derive(Clone, Debug, PartialEq)]
pub struct KneeSettings {
    /// The policy.
    pub policy: PolicySettings,
    /// The 90th percentile of the time to the first token below it.
    pub ttft: Duration,
    /// Calls of each run.
    pub calls: u64,
}

/// A policy.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicySettings {
    /// Its name.
    pub name: String,
    /// The profile with which the scheduler that serves follows it; none for a rival.
    pub profile: Option<Profile>,
}
