//! The file as it is written. These types mirror it, hold its defaults, and their comments are the reference.

mod access;
mod answers;
mod audit;
mod degradation;
mod ledger;
mod listeners;
mod pools;
mod prefix;
mod probes;
mod process;
mod profiles;
mod providers;
mod quotas;
mod routes;
pub(crate) mod scenario;
mod sharing;
mod waiting;
mod word;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::forms::Name;

pub use access::SecretRef;
pub(crate) use access::{Auth, CertificateName, ClientCertificate, Issuer, JwksSource, Key, OnBehalf, TenantClaim};
pub(crate) use answers::Answers;
pub use answers::KeptCalls;
pub use audit::AuditPolicy;
pub(crate) use audit::{Audit, AuditText};
pub use degradation::OnBreach;
pub(crate) use degradation::{Degradation, DegradePolicy, Objective, TenantPolicy};
pub use ledger::{Durable, LedgerPolicy};
pub(crate) use ledger::{Ledger, Price};
pub(crate) use listeners::{Access, Admin, Listener, Tls};
pub use pools::Balance;
pub(crate) use pools::{Cache, Endpoint, KvEvents, Metrics, Model, Pool};
pub(crate) use prefix::Prefix;
pub use probes::StartupCheck;
use probes::{Ejection, Readiness, Reckoning, Retry, Startup};
pub(crate) use process::{Decisions, Limits, Log, Recording, Timeouts};
pub use process::{Detail, LogFormat, LogLevel};
pub(crate) use profiles::{Profile, built_in_profiles};
pub(crate) use providers::Provider;
pub(crate) use quotas::{Dimension, Quota, TaskShape, Tasks};
pub(crate) use routes::{Fallback, Route, Rule, Sticky, Target, TokenRange, When};
pub use scenario::TraceFormat;
pub(crate) use sharing::{Sharing, WithoutStore};
pub(crate) use waiting::{Class, Tenant, Waiting};
use word::Word;

/// The configuration of maitred, in one YAML file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    /// Version of this format.
    #[schemars(range(min = 1, max = 1))]
    #[schemars(extend("x-hint" = "this maitred reads version 1"))]
    pub(crate) version: u32,
    /// Where clients connect.
    #[serde(default = "listeners::defaults")]
    #[schemars(length(min = 1))]
    pub(crate) listeners: Vec<Listener>,
    /// Where operators connect: metrics, health, drain.
    #[serde(default)]
    pub(crate) admin: Admin,
    /// Who may call. One of `keys`, `issuers`, `certificates` and `anonymous` is needed.
    #[serde(default)]
    pub(crate) auth: Auth,
    /// The endpoints that serve, grouped by what they serve. One of `pools` and `providers` is needed.
    #[serde(default)]
    pub(crate) pools: Vec<Pool>,
    /// Hosted APIs that are called as their customer.
    #[serde(default)]
    pub(crate) providers: Vec<Provider>,
    /// Names that clients ask for beside the models of pools: what they lead to, by which rules, and where calls go on.
    #[serde(default)]
    #[schemars(length(max = 4096))]
    pub(crate) routes: Vec<Route>,
    /// How many answers may come from something else than what was asked for, and who refuses them.
    #[serde(default)]
    pub(crate) degradation: Degradation,
    /// The answer cache. Without it every call is sent to a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answers: Option<Answers>,
    /// How an endpoint is chosen for a call. A pool names one of these or a built-in one. A profile that has the
    /// name of a built-in one takes its place.
    #[serde(default)]
    pub(crate) profiles: Vec<Profile>,
    /// Classes of calls: where calls wait for an endpoint, those of a higher class go first.
    #[serde(default = "waiting::classes")]
    #[schemars(length(min = 1, max = 16))]
    pub(crate) classes: Vec<Class>,
    /// The class of calls whose key and header name none.
    #[serde(default = "waiting::default_class")]
    pub(crate) default_class: Name,
    /// What holds for single tenants. One that is not listed has the weight 1.
    #[serde(default)]
    pub(crate) tenants: Vec<Tenant>,
    /// How much callers may use.
    #[serde(default)]
    pub(crate) quotas: Vec<Quota>,
    /// Units of work that span many calls.
    #[serde(default)]
    pub(crate) tasks: Tasks,
    /// What several gateways tell each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sharing: Option<Sharing>,
    /// Where what calls used is kept. Without it nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ledger: Option<Ledger>,
    /// Who called what, and what was changed. Without it neither is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) audit: Option<Audit>,
    /// What calls cost. The price of a pool's hours comes first; of several that fit a model the closest pattern wins; and of one pool or
    /// pattern the latest date.
    #[serde(default)]
    pub(crate) prices: Vec<Price>,
    /// How long anything may take.
    #[serde(default)]
    pub(crate) timeouts: Timeouts,
    /// How large anything may be.
    #[serde(default)]
    pub(crate) limits: Limits,
    /// What is remembered of why calls went where they went.
    #[serde(default)]
    pub(crate) decisions: Decisions,
    /// What the gateway writes about itself.
    #[serde(default)]
    pub(crate) log: Log,
    /// A recording of the traffic for the laboratory: when calls came, how long they were and what they shared, and none of their text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) recording: Option<Recording>,
}

impl File {
    /// Pools and providers by name, in the order of the file, with their models.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&Name, &[Model])> {
        let pools = self.pools.iter().map(|pool| (&pool.name, pool.models.as_slice()));
        let providers = self.providers.iter();
        pools.chain(providers.map(|provider| (&provider.name, provider.models.as_slice())))
    }

    /// The file with the built-in profiles that its pools use written out.
    pub(crate) fn with_built_in_profiles(&self) -> Self {
        let is_used = |name: &str| self.pools.iter().any(|pool| pool.names_profile(name));
        let is_written = |name: &str| self.profiles.iter().any(|profile| profile.name.as_str() == name);
        let built_in = built_in_profiles().into_iter();
        let missing = built_in.filter(|(name, _)| is_used(name) && !is_written(name));
        let mut filled = self.clone();
        filled
            .profiles
            .extend(missing.map(|(name, profile)| Profile::of(name, &profile)));
        filled
    }
}
