//! A scenario of the laboratory as it is written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pools::Staleness;
use super::profiles::Profile;
use super::waiting::Waiting;
use crate::forms::{FilePath, Name, Share, TimeSpan};

/// A scenario of the laboratory, in one YAML file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Scenario {
    /// Version of this format.
    #[schemars(range(min = 1, max = 1))]
    #[schemars(extend("x-hint" = "this maitred reads version 1"))]
    pub(crate) version: u32,
    /// What reports call it.
    pub(crate) name: Name,
    /// What is in it, in a sentence or two.
    #[serde(default)]
    pub(crate) description: String,
    /// The endpoints, in groups of equal ones.
    #[schemars(length(min = 1))]
    pub(crate) fleet: Vec<Group>,
    /// Tokens per KV block, of all endpoints. Prompts are compared in these blocks.
    #[serde(default = "block_tokens")]
    #[schemars(range(min = 1, max = 65_536))]
    pub(crate) block_tokens: u32,
    /// Gateways that share the fleet. Each sees its own calls only; a call comes to one of them by chance.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1_000))]
    pub(crate) gateways: u32,
    /// How often each gateway tells the others what it has under way; they do not talk if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sharing: Option<TimeSpan>,
    /// How gateways read the endpoints' pages.
    #[serde(default)]
    pub(crate) scrape: Scrape,
    /// Endpoints that start anew during a run: their calls are lost, their cache is empty.
    #[serde(default)]
    pub(crate) restarts: Vec<Restart>,
    /// By which factor the time constants that policies are told are too large; 1 tells the truth.
    #[serde(default = "whole")]
    #[schemars(range(min = 0.01, max = 100.0))]
    pub(crate) prior_factor: f64,
    /// Where calls come from.
    pub(crate) workload: Workload,
    /// How the rate of arrivals changes with time, for `kinds`.
    #[serde(default)]
    pub(crate) shape: Shape,
    /// How many calls come.
    pub(crate) load: Load,
    /// How the knee is found, where loads are parts of it.
    #[serde(default)]
    pub(crate) knee: Knee,
    /// The seeds; each policy meets each of them.
    #[serde(default = "seeds")]
    #[schemars(length(min = 1))]
    pub(crate) seeds: Vec<u32>,
    /// The policies: rivals by their known names, profiles of this file or built-in ones.
    #[schemars(length(min = 1))]
    pub(crate) policies: Vec<Name>,
    /// The policy that all others are compared with; the first one if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) baseline: Option<Name>,
    /// Profiles of the scheduler that serves, beside the built-in ones.
    #[serde(default)]
    pub(crate) profiles: Vec<Profile>,
    /// How long the scheduler that serves believes pages.
    #[serde(default)]
    pub(crate) staleness: Staleness,
    /// When calls wait in the scheduler that serves, as in a pool's `waiting`.
    #[serde(default)]
    pub(crate) waiting: Waiting,
    /// Calls of each run.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub(crate) calls: u64,
    /// What a call must keep to count as good.
    #[serde(default)]
    pub(crate) objective: Objective,
}

fn block_tokens() -> u32 {
    64
}

fn one() -> u32 {
    1
}

fn whole() -> f64 {
    1.0
}

fn seeds() -> Vec<u32> {
    vec![1, 2, 3, 4, 5]
}

/// Equal endpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Group {
    /// The card and the model on it, as `maitred engine --profile` calls them.
    pub(crate) profile: Name,
    /// How many.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 5_000))]
    pub(crate) count: u32,
    /// How many times as fast as the profile.
    #[serde(default = "whole")]
    #[schemars(range(min = 0.01, max = 100.0))]
    pub(crate) speed: f64,
    /// KV blocks; what the profile's memory holds if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 2, max = 100_000_000))]
    pub(crate) blocks: Option<u32>,
    /// Adapters, if the endpoints have any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) adapters: Option<Adapters>,
}

/// The adapters of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Adapters {
    /// How many it knows.
    #[schemars(range(min = 1, max = 64))]
    pub(crate) known: u32,
    /// How many are on the card at once.
    #[serde(default = "resident")]
    #[schemars(range(min = 1, max = 64))]
    pub(crate) resident: u32,
    /// How long a step is held up by bringing one onto the card.
    #[serde(default = "load_time")]
    pub(crate) load_time: TimeSpan,
}

fn resident() -> u32 {
    4
}

fn load_time() -> TimeSpan {
    TimeSpan::millis(300)
}

/// How gateways read pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Scrape {
    /// Time between two readings of a page. Zero reads none.
    pub(crate) period: TimeSpan,
    /// How much older than their reading the figures are, which gateways do not know.
    pub(crate) age: TimeSpan,
    /// Up to which part of itself each count is off, either way.
    pub(crate) noise: Share,
    /// Pages that stand still for a time.
    pub(crate) frozen: Vec<Frozen>,
}

impl Default for Scrape {
    fn default() -> Self {
        Self {
            period: TimeSpan::millis(200),
            age: TimeSpan::millis(0),
            noise: Share::percent(0),
            frozen: Vec::new(),
        }
    }
}

/// A page that stands still.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Frozen {
    /// Whose, counted from 0 over the whole fleet.
    pub(crate) endpoint: u32,
    /// From when on.
    pub(crate) from: TimeSpan,
    /// Until when.
    pub(crate) until: TimeSpan,
}

/// An endpoint that starts anew.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Restart {
    /// Which, counted from 0 over the whole fleet.
    pub(crate) endpoint: u32,
    /// When.
    pub(crate) at: TimeSpan,
}

/// Where calls come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Workload {
    /// A trace: calls that really came.
    Trace(Trace),
    /// Calls drawn from parameters: kinds of conversations.
    Kinds(#[schemars(length(min = 1))] Vec<Kind>),
}

/// A trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trace {
    /// The file, relative to this one or to the folder given with `--traces`.
    pub(crate) file: FilePath,
    /// How it is written.
    #[serde(default)]
    pub(crate) format: TraceFormat,
    /// To what its times are rounded down; each call is moved later by a random part of it.
    #[serde(default = "no_time")]
    pub(crate) jitter: TimeSpan,
    /// How late in the file a call may stand. Recordings are written as calls end.
    #[serde(default = "no_time")]
    pub(crate) lateness: TimeSpan,
    /// Longest answer; longer ones are cut. 0 leaves them as they are.
    #[serde(default)]
    pub(crate) longest_answer: u32,
}

fn no_time() -> TimeSpan {
    TimeSpan::millis(0)
}

/// How a trace is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TraceFormat {
    /// JSON lines as Mooncake's release and our own recordings have them.
    #[default]
    JsonLines,
    /// The CSV of the Azure traces.
    AzureCsv,
}

/// One kind of conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kind {
    /// How many of all conversations are of this kind, compared with the weights of the others.
    #[serde(default = "whole")]
    #[schemars(range(min = 0.000001, max = 1_000_000.0))]
    pub(crate) weight: f64,
    /// Text that prompts begin with, such as system prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shared: Option<Shared>,
    /// The first turn's own text, in tokens.
    pub(crate) prompt: Length,
    /// Answers, in tokens.
    pub(crate) answer: Length,
    /// How conversations go on; single calls if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) turns: Option<Turns>,
    /// Whether clients name their conversation.
    #[serde(default)]
    pub(crate) sessions: bool,
    /// Adapters to choose from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) adapters: Option<Spread>,
    /// Tenants to choose from.
    #[serde(default)]
    pub(crate) tenants: Spread,
    /// The number of the first of those tenants.
    #[serde(default)]
    pub(crate) first_tenant: u32,
    /// The class of its calls: 0 is high, 1 normal, 2 low.
    #[serde(default = "normal")]
    #[schemars(range(min = 0, max = 2))]
    pub(crate) class: u8,
    /// The limit that clients set on answers. An answer is never longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) answer_limit: Option<u32>,
}

fn normal() -> u8 {
    1
}

/// Text that many prompts begin with.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Shared {
    /// How many such texts there are, and how unevenly they are used.
    pub(crate) texts: Spread,
    /// How long they are, in tokens.
    pub(crate) tokens: Length,
    /// The part of conversations that begin with one of them.
    #[serde(default = "all")]
    pub(crate) share: Share,
}

fn all() -> Share {
    Share::percent(100)
}

/// A log-normal length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Length {
    /// The mean.
    #[schemars(range(min = 1, max = 10_000_000))]
    pub(crate) mean: u32,
    /// Standard deviation over mean; 0 makes all equal.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 10.0))]
    pub(crate) variation: f64,
    /// The longest; eight times the mean if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub(crate) max: Option<u32>,
}

/// Things to choose from.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Spread {
    /// How many.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) count: u32,
    /// The exponent of Zipf's law: the second is chosen 2 to this power times less often than the first. 0 chooses evenly.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 10.0))]
    pub(crate) skew: f64,
}

impl Default for Spread {
    fn default() -> Self {
        Self { count: 1, skew: 0.0 }
    }
}

/// How conversations go on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Turns {
    /// Mean number of turns.
    #[schemars(range(min = 1.0, max = 100_000.0))]
    pub(crate) mean: f64,
    /// Most turns.
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) max: u32,
    /// What each later turn adds besides the answer before it, in tokens.
    pub(crate) added: Length,
    /// Mean time from the end of an answer to the next turn.
    pub(crate) pause: TimeSpan,
    /// How long an answer is taken to need for each of its tokens. Turns do not wait for the real answer, so that all policies
    /// meet the same calls at the same times.
    #[serde(default = "per_token")]
    pub(crate) per_token: TimeSpan,
}

fn per_token() -> TimeSpan {
    TimeSpan::millis(30)
}

/// How the rate of arrivals changes with time. The mean stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Shape {
    /// Bursts at even distances.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bursts: Option<Bursts>,
    /// Waves, such as day and night.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waves: Option<Waves>,
}

/// Bursts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bursts {
    /// From the beginning of one to that of the next.
    pub(crate) every: TimeSpan,
    /// How long one lasts.
    pub(crate) length: TimeSpan,
    /// How many times the rate outside is the rate inside.
    #[schemars(range(min = 1.0, max = 1_000.0))]
    pub(crate) factor: f64,
}

/// Waves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Waves {
    /// From crest to crest.
    pub(crate) period: TimeSpan,
    /// How far the rate goes from its mean.
    pub(crate) depth: Share,
}

/// How many calls come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Load {
    /// Calls per second; one run for each.
    PerSecond(#[schemars(length(min = 1))] Vec<f64>),
    /// Parts of the knee: the highest load at which calls do not yet pile up.
    OfKnee(#[schemars(length(min = 1))] Vec<f64>),
}

/// How the knee is found: by halving, on runs of one policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Knee {
    /// The policy.
    pub(crate) policy: Name,
    /// The 90th percentile of the time to the first token that a load below the knee keeps.
    pub(crate) ttft: TimeSpan,
    /// Calls of each of those runs.
    #[schemars(range(min = 100, max = 100_000_000))]
    pub(crate) calls: u64,
}

impl Default for Knee {
    fn default() -> Self {
        Self {
            policy: Name::new(super::profiles::DEFAULT),
            ttft: TimeSpan::secs(2),
            calls: 4_000,
        }
    }
}

/// What a call must keep to count as good.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Objective {
    /// Longest time to the first token.
    pub(crate) ttft: TimeSpan,
    /// Longest mean time of each later token.
    pub(crate) per_token: TimeSpan,
}

impl Default for Objective {
    fn default() -> Self {
        Self {
            ttft: TimeSpan::secs(2),
            per_token: TimeSpan::millis(100),
        }
    }
}
