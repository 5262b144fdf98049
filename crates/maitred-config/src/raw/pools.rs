//! `pools`.

use maitred_engines::Engine;
use maitred_sched::{PoolOptions, SpeedPrior, StalenessOptions, StalenessPolicy};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Ejection, Prefix, Readiness, Reckoning, Retry, SecretRef, Startup, Waiting, Word};
use crate::forms::{FigureText, HeaderName, HostName, HostPort, HttpPath, MetricName, Name, Share, TimeSpan};

/// Endpoints that serve the same models.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pool {
    /// The pool's name in metrics, logs and messages.
    pub(crate) name: Name,
    /// The engine that the endpoints run.
    #[serde(default)]
    pub(crate) engine: Word<Engine>,
    /// The models that the endpoints serve. A model belongs to one pool.
    #[schemars(length(min = 1))]
    pub(crate) models: Vec<Model>,
    /// What the endpoints are to run. One that says that it runs something else, or does not say what it runs, gets no calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) release: Option<Release>,
    /// The endpoints, by address. One of `endpoints` and `dns` is needed; both together are fine.
    #[serde(default)]
    pub(crate) endpoints: Vec<Endpoint>,
    /// A DNS name that resolves to the addresses of the endpoints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dns: Option<Dns>,
    /// The profile that chooses among the endpoints; one of `profiles`, or a built-in one: `default`, `scored`,
    /// `least-request` or `round-robin`.
    #[serde(default = "default_profile")]
    pub(crate) profile: Name,
    /// Profiles that choose beside the live one, to see how often they would have chosen otherwise.
    #[serde(default)]
    pub(crate) shadow: Shadow,
    /// The header whose value names a call's session, for the scorer `session-affinity`.
    #[serde(default = "session_header")]
    pub(crate) session_header: HeaderName,
    /// What is balanced.
    #[serde(default)]
    pub(crate) balance: Balance,
    /// How the endpoints' metrics are fetched.
    #[serde(default)]
    pub(crate) scrape: Scrape,
    /// How long the endpoints' metrics are believed.
    #[serde(default)]
    pub(crate) staleness: Staleness,
    /// Where figures stand on the metrics page, for those that differ from the engine's own. They hold for the endpoints
    /// that run the pool's `engine`.
    #[serde(default)]
    pub(crate) metrics: Metrics,
    /// Size of the KV cache, for endpoints that do not say.
    #[serde(default)]
    pub(crate) cache: Cache,
    /// How prompts are compared with what endpoints hold in their prefix caches.
    #[serde(default)]
    pub(crate) prefix: Prefix,
    /// Where endpoints publish what happens to their KV caches; not followed if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kv_events: Option<KvEvents>,
    /// The probe that runs until an endpoint can serve for the first time.
    #[serde(default)]
    pub(crate) startup: Startup,
    /// The probe that runs from then on.
    #[serde(default)]
    pub(crate) readiness: Readiness,
    /// When calls that fail take an endpoint out.
    #[serde(default)]
    pub(crate) ejection: Ejection,
    /// When calls wait in the gateway until an endpoint has room, how many may, and in which order they go.
    #[serde(default)]
    pub(crate) waiting: Waiting,
    /// How often a call may be tried on another endpoint.
    #[serde(default)]
    pub(crate) retry: Retry,
    /// How figures are carried from one scrape to the next.
    #[serde(default)]
    pub(crate) reckoning: Reckoning,
    /// What is believed of an endpoint's speed before its own answers say better: the card and model that come nearest.
    #[serde(default)]
    pub(crate) speed_prior: Word<SpeedPrior>,
    /// The key that the endpoints ask for, sent as `Authorization: Bearer`. The caller's key is never sent on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) api_key: Option<SecretRef>,
    /// Most calls at one time on one endpoint.
    #[serde(default = "max_in_flight")]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub(crate) max_in_flight: u32,
    /// Most calls at one time in the pool.
    #[serde(default = "max_calls")]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub(crate) max_calls: u32,
    /// Most endpoints at one time, those that drain included.
    #[serde(default = "max_endpoints")]
    #[schemars(range(min = 1, max = 65_536))]
    pub(crate) max_endpoints: u32,
}

impl Pool {
    /// Whether it chooses by the profile of that name, or has it as a shadow.
    pub(crate) fn names_profile(&self, name: &str) -> bool {
        let mut named = self.shadow.profiles.iter().chain([&self.profile]);
        named.any(|profile| profile.as_str() == name)
    }
}

/// What the endpoints of a pool are to run, as one version. Weights are always compared; the rest only if it is named.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Release {
    /// Its name in messages.
    pub(crate) name: Name,
    /// The weights, as the endpoints name them: vLLM as `root` in `/v1/models`; SGLang as `model_path` in `/server_info`, with `@` and
    /// `weight_version` (unless that is `default`) or else `revision`, if it has one.
    pub(crate) weights: Name,
    /// The engine's version: vLLM's `/version`, SGLang's `/server_info`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) engine: Option<Name>,
    /// The quantisation, `none` for none. Only SGLang tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) quantization: Option<Name>,
}

/// Profiles that choose beside the live one. Nothing is sent where they choose.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Shadow {
    /// Their names; each one of `profiles` or a built-in one.
    #[schemars(length(max = 4))]
    pub(crate) profiles: Vec<Name>,
    /// The share of asks that they look at. Each look costs about as much as a choice.
    pub(crate) share: Share,
}

impl Default for Shadow {
    fn default() -> Self {
        Self {
            profiles: Vec::new(),
            share: Share::percent(10),
        }
    }
}

fn default_profile() -> Name {
    Name::new(super::profiles::DEFAULT)
}

fn session_header() -> HeaderName {
    HeaderName::new("x-session-id")
}

fn max_in_flight() -> u32 {
    PoolOptions::default().max_in_flight
}

fn max_calls() -> u32 {
    PoolOptions::default().max_leases
}

fn max_endpoints() -> u32 {
    PoolOptions::default().max_endpoints
}

/// A model or adapter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Model {
    /// What clients ask for.
    pub(crate) name: Name,
    /// What the endpoints call it; the same as `name` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) served_as: Option<Name>,
    /// The model of this pool that this LoRA adapter belongs to; not given for a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) adapter_of: Option<Name>,
    /// Its context window in tokens, input and output together. Calls that are longer are not sent here if a route knows another way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub(crate) context: Option<u32>,
    /// Whether it can take calls with tools.
    #[serde(default = "yes")]
    pub(crate) tools: bool,
    /// Whether it can take calls with images.
    #[serde(default = "yes")]
    pub(crate) images: bool,
    /// Whether it can answer by a JSON schema.
    #[serde(default = "yes")]
    pub(crate) json_schema: bool,
    /// How good its answers are, for routes that choose by cost; higher is better.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1_000))]
    pub(crate) quality: Option<u32>,
    /// Which model it is, whatever it is called: where models of one family stand in for each other no answer is degraded. What the
    /// endpoints call it if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) family: Option<Name>,
    /// How its weights are quantised, such as `fp8`. An answer of another quantisation is a degraded one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) quantization: Option<Name>,
}

const fn yes() -> bool {
    true
}

/// One endpoint. It is spoken to in clear-text HTTP/1.1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Endpoint {
    /// Where the endpoint listens.
    pub(crate) address: HostPort,
    /// The engine that it runs, if not the pool's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) engine: Option<Word<Engine>>,
    /// Most calls at one time on this endpoint, if not the pool's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_048_576))]
    pub(crate) max_in_flight: Option<u32>,
    /// Size of its KV cache, if not the pool's, should it not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cache: Option<Cache>,
    /// Where it publishes what happens to its KV cache, if not where the pool says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kv_events: Option<KvEvents>,
}

/// Where an endpoint publishes what happens to its KV cache: blocks stored, removed and cleared, over ZeroMQ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KvEvents {
    /// The port of its PUB socket, on the endpoint's host. vLLM's is 5557 unless told otherwise.
    #[schemars(range(min = 1))]
    pub(crate) port: u16,
    /// The port of its ROUTER socket, which plays batches again that were missed. Without it a gap means that what is known of
    /// the cache is a guess again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub(crate) replay_port: Option<u16>,
    /// What the topics begin with; all of them if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) topic: Option<Name>,
}

/// A DNS name that resolves to the addresses of the endpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Dns {
    /// The name. Each address that it resolves to is an endpoint; one that is no longer in the answer is drained.
    pub(crate) name: HostName,
    /// The port of the endpoints.
    #[schemars(range(min = 1))]
    pub(crate) port: u16,
    /// From one look-up to the next.
    #[serde(default = "refresh")]
    pub(crate) refresh: TimeSpan,
}

fn refresh() -> TimeSpan {
    TimeSpan::secs(5)
}

/// What is balanced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Balance {
    /// Each call on its own, whatever connection it comes by.
    #[default]
    Request,
    /// Each connection: its first call chooses, the others follow. Shares become lopsided: for comparison only.
    Connection,
}

/// How metrics pages are fetched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Scrape {
    /// From one fetch to the next.
    pub(crate) interval: TimeSpan,
    /// Longest wait for a page.
    pub(crate) timeout: TimeSpan,
    /// Where the page is; the engine's own path if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) path: Option<HttpPath>,
    /// The port of the page, where it is not the endpoint's own or the engine's usual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub(crate) port: Option<u16>,
}

impl Default for Scrape {
    fn default() -> Self {
        Self {
            interval: TimeSpan::millis(50),
            timeout: TimeSpan::secs(1),
            path: None,
            port: None,
        }
    }
}

/// How long metrics are believed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Staleness {
    /// The age from which metrics are stale.
    pub(crate) after: TimeSpan,
    /// What an endpoint with stale metrics counts as.
    pub(crate) policy: Word<StalenessPolicy>,
    /// How long a page may stand still under load until it is taken for frozen, and so for stale.
    pub(crate) frozen_after: TimeSpan,
}

impl Default for Staleness {
    fn default() -> Self {
        let options = StalenessOptions::default();
        Self {
            after: TimeSpan::new(options.stale_after),
            policy: Word(options.policy),
            frozen_after: TimeSpan::new(options.frozen_after),
        }
    }
}

/// Where figures stand on a metrics page. Each is a list of places; the first that the page has counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Metrics {
    /// Requests that wait in the engine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) queued: Vec<FigureText>,
    /// Requests that run in the engine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) running: Vec<FigureText>,
    /// Share of the KV cache in use, from 0 to 1.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) kv_used: Vec<FigureText>,
    /// Tokens per block of the KV cache.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) block_size: Vec<FigureText>,
    /// Blocks of the KV cache.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) blocks: Vec<FigureText>,
    /// The family that tells which LoRA adapters run and wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lora: Option<LoraMetric>,
    /// Counters that only grow while the engine works; all that the page has are added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) progress: Vec<FigureText>,
    /// Unix time, in seconds, at which the engine's process began.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) started: Vec<FigureText>,
    /// Further figures, shown on the gateway's own metrics page.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) custom: Vec<CustomMetric>,
}

/// A family that tells which LoRA adapters run and wait: a gauge whose value is a time and whose labels hold the names. The
/// series with the largest value counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoraMetric {
    /// The family.
    pub(crate) family: MetricName,
    /// The label with the number of adapters that may run at once.
    #[serde(default = "max_label")]
    pub(crate) max_label: MetricName,
    /// The label with the adapters that run, separated by commas.
    #[serde(default = "running_label")]
    pub(crate) running_label: MetricName,
    /// The label with the adapters that wait, separated by commas.
    #[serde(default = "waiting_label")]
    pub(crate) waiting_label: MetricName,
}

fn max_label() -> MetricName {
    MetricName::new("max_lora")
}

fn running_label() -> MetricName {
    MetricName::new("running_lora_adapters")
}

fn waiting_label() -> MetricName {
    MetricName::new("waiting_lora_adapters")
}

/// A figure of the operator's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CustomMetric {
    /// The name it goes by.
    pub(crate) name: Name,
    /// Where it stands on the page.
    pub(crate) metric: FigureText,
}

/// Size of a KV cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Cache {
    /// Tokens per block.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub(crate) block_size: Option<u32>,
    /// Number of blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub(crate) blocks: Option<u32>,
}
