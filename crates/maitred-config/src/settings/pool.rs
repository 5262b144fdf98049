//! The settings of a pool.

use std::sync::Arc;
use std::time::Duration;

use maitred_engines::{Engine, InferencePath, MetricMapping};
use maitred_route::release::Release;
use maitred_sched::{EndpointOptions, PoolOptions, Profile};
use maitred_types::{Address, ModelName, PoolName};

use crate::forms::BaseUrl;
use crate::raw::{Balance, StartupCheck};
use crate::reach::Reach;
use crate::secret::Secret;

/// One pool. Its scheduler's own options are in `options` and `profile`.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolSettings {
    /// Its name.
    pub name: PoolName,
    /// The models that its endpoints serve; at least one.
    pub models: Vec<ModelSettings>,
    /// What its endpoints are to run, if that is said.
    pub release: Option<Release>,
    /// The endpoints that the file names.
    pub endpoints: Vec<EndpointSettings>,
    /// The endpoints that DNS names.
    pub discovery: Option<Discovery>,
    /// The header that names a call's session, in lower case.
    pub session_header: String,
    /// What is balanced.
    pub balance: Balance,
    /// Tokens per block in which prompts are compared, at four bytes a token.
    pub prefix_block: u32,
    /// Where what is remembered of prompts is kept over a restart.
    pub prefix_file: Option<PrefixFile>,
    /// The options of the pool's scheduler.
    pub options: PoolOptions,
    /// How an endpoint is chosen.
    pub profile: Profile,
    /// The name of that profile in the file.
    pub profile_name: String,
    /// Profiles that choose beside it.
    pub shadows: ShadowSettings,
    /// How metrics are fetched.
    pub scrape: ScrapeSettings,
    /// The probes.
    pub probes: Probes,
    /// Most attempts of one call, the first included.
    pub attempts: u32,
    /// What is sent to endpoints as a bearer token.
    pub api_key: Option<Secret>,
    /// What there is to know of a provider. It is kept as a pool with one endpoint, of which only its answers say how it is.
    pub provider: Option<ProviderSettings>,
}

/// A hosted API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderSettings {
    /// Where it begins.
    pub url: BaseUrl,
    /// A file with the certificates, PEM, of those who may vouch for it; those of the system without.
    pub ca: Option<String>,
    /// Which addresses its name may resolve to.
    pub reach: Reach,
}

/// A file in which a pool's prefix index is kept over a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixFile {
    /// The file.
    pub path: String,
    /// From one writing to the next.
    pub every: Duration,
}

/// Profiles that choose beside the live one.
#[derive(Clone, Debug, PartialEq)]
pub struct ShadowSettings {
    /// Each with its name in the file.
    pub profiles: Vec<(String, Profile)>,
    /// The share of asks that they look at, 0 to 1.
    pub share: f64,
}

/// A model or adapter of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelSettings {
    /// What clients ask for.
    pub name: ModelName,
    /// What endpoints are asked for.
    pub served_as: ModelName,
    /// For an adapter: the `name` of the model it belongs to.
    pub adapter_of: Option<ModelName>,
}

/// An endpoint that the file names.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointSettings {
    /// Where it listens.
    pub address: Address,
    /// What runs there.
    pub engine: EngineSettings,
}

/// Endpoints that are found by a DNS name.
#[derive(Clone, Debug, PartialEq)]
pub struct Discovery {
    /// The name to look up.
    pub name: String,
    /// The port of every endpoint found.
    pub port: u16,
    /// From one look-up to the next.
    pub refresh: Duration,
    /// What runs there.
    pub engine: EngineSettings,
}

/// What runs at an endpoint, and where to ask it what.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineSettings {
    /// The engine.
    pub engine: Engine,
    /// Where its figures stand on its metrics page: the engine's own places with the file's laid over them.
    pub mapping: Arc<MetricMapping>,
    /// The path of its metrics page.
    pub metrics_path: String,
    /// The port of its metrics page, if not the endpoint's.
    pub metrics_port: Option<u16>,
    /// What the scheduler is told of it.
    pub options: EndpointOptions,
    /// Where it publishes what happens to its KV cache, if that is followed.
    pub kv_events: Option<KvEventSettings>,
}

/// Where an endpoint publishes what happens to its KV cache, on its own host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvEventSettings {
    /// The port of its PUB socket.
    pub port: u16,
    /// The port of the socket that plays batches again.
    pub replay_port: Option<u16>,
    /// What topics begin with.
    pub topic: String,
}

/// How metrics are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrapeSettings {
    /// From one fetch to the next.
    pub interval: Duration,
    /// Longest wait for a page.
    pub timeout: Duration,
}

/// The probes of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probes {
    /// Until an endpoint can serve for the first time.
    pub startup: StartupProbe,
    /// From then on.
    pub readiness: ReadinessProbe,
}

/// The probe that runs until an endpoint can serve for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartupProbe {
    /// From one try to the next.
    pub interval: Duration,
    /// Failed tries until the endpoint is reported.
    pub failures: u32,
    /// Longest wait for an answer.
    pub timeout: Duration,
    /// What must be seen.
    pub check: StartupCheck,
    /// How the model is made to run once.
    pub inference: InferencePath,
}

/// The probe that runs once an endpoint can serve. How many failures it takes is in the scheduler's options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadinessProbe {
    /// From one try to the next.
    pub interval: Duration,
    /// Longest wait for an answer.
    pub timeout: Duration,
}
