//! Checked settings: what the rest of the gateway works with. Plain and immutable; one `Arc` of them serves each call from
//! start to end.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use maitred_route::{Routing, TargetId};
use maitred_sched::{ClassOptions, WaitingOptions};
use maitred_tenant::{ActorRing, Limit, Prices, WithoutStore};
use maitred_types::{ByteSize, ModelName, PoolName, TenantId, TokenCount, UnixMillis};

pub use auth::{AuthSettings, IssuerSettings, JwksLocation};
pub use pool::{
    Discovery, EndpointSettings, EngineSettings, KvEventSettings, ModelSettings, PoolSettings, PrefixFile, Probes,
    ProviderSettings, ReadinessProbe, ScrapeSettings, ShadowSettings, StartupProbe,
};

use crate::raw::{AuditPolicy, Detail, Durable, KeptCalls, LedgerPolicy, LogFormat, LogLevel, OnBreach};
use crate::secret::Secret;

mod auth;
mod pool;
pub mod scenario;

/// Everything that the file says, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where clients connect; at least one.
    pub listeners: Vec<ListenerSettings>,
    /// Where operators connect.
    pub admin: AdminSettings,
    /// Who may call.
    pub auth: AuthSettings,
    /// The pools in the order of the file, and then the providers; at least one of them.
    pub pools: Vec<Arc<PoolSettings>>,
    /// What the names lead to that clients ask for.
    pub routing: Arc<Routing>,
    /// How many answers may be degraded.
    pub degradation: DegradationSettings,
    /// Which answers are kept and given again, if any.
    pub answers: Option<AnswerSettings>,
    /// What callers may use.
    pub quotas: QuotaSettings,
    /// What several gateways tell each other, if they do.
    pub sharing: Option<SharingSettings>,
    /// The classes of calls, and the weights of tenants.
    pub classes: ClassSettings,
    /// Where what calls used is kept, if anywhere.
    pub ledger: Option<LedgerSettings>,
    /// Where the audit is, if there is one.
    pub audit: Option<AuditSettings>,
    /// The tenants of whose calls the text is kept.
    pub texts: BTreeMap<TenantId, TextSettings>,
    /// What calls cost.
    pub prices: Arc<Prices>,
    /// How long anything may take.
    pub timeouts: Timeouts,
    /// How large anything may be.
    pub limits: Limits,
    /// What is remembered of decisions.
    pub decisions: DecisionSettings,
    /// What is written to the log.
    pub log: LogSettings,
    /// Where the traffic is recorded for the laboratory, if at all.
    pub recording: Option<RecordingSettings>,
}

/// What calls are expected to generate that do not say, where their price is compared.
const EXPECTED_OUTPUT: TokenCount = TokenCount::new(256);

impl Settings {
    /// What a call is expected to cost at a target with so many tokens in and, at the most, out: in billionths of the currency's unit. None
    /// if the target has no price then.
    #[must_use]
    pub fn expected_cost(
        &self,
        target: TargetId,
        (input, output): (TokenCount, Option<TokenCount>),
        at: UnixMillis,
    ) -> Option<u64> {
        let offer = self.routing.offer(target)?;
        let price = self.prices.of(&offer.pool, offer.model.as_str(), at)?;
        Some(price.at_most(input, output.unwrap_or(EXPECTED_OUTPUT)))
    }
}

/// How many answers may come from something else than what was asked for, and who refuses them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DegradationSettings {
    /// How many are too many; always there if a route can degrade an answer.
    pub objective: Option<ObjectiveSettings>,
    /// Tenants whose calls are not degraded: they get the error instead.
    pub refusing: BTreeSet<TenantId>,
}

/// How many degraded answers are too many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObjectiveSettings {
    /// The share of a route's answers that may be degraded, 0 to 1.
    pub ratio: f64,
    /// Over how long the share is taken.
    pub window: Duration,
    /// What happens when it is more.
    pub on_breach: OnBreach,
}

/// The classes of calls, and the weights of tenants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassSettings {
    /// The classes, highest first; at least one.
    pub classes: Vec<ClassOptions>,
    /// The place of the default one.
    pub default: usize,
    /// Weights of tenants; others have 1.
    pub weights: BTreeMap<TenantId, u32>,
}

impl Default for ClassSettings {
    /// Those of a file that says nothing of them.
    fn default() -> Self {
        let WaitingOptions {
            classes, default_class, ..
        } = WaitingOptions::default();
        Self {
            classes,
            default: default_class,
            weights: BTreeMap::new(),
        }
    }
}

/// Which answers are kept and given again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerSettings {
    /// The names that clients ask for whose answers are kept.
    pub models: BTreeMap<ModelName, KeptModelSettings>,
    /// The tenants whose answers are kept, each for itself.
    pub tenants: BTreeSet<TenantId>,
    /// Most memory of all of them.
    pub size: ByteSize,
    /// The largest that is kept.
    pub largest: ByteSize,
}

/// A name whose answers are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptModelSettings {
    /// How long an answer is given again.
    pub keep: Duration,
    /// Which calls are answered so.
    pub calls: KeptCalls,
}

/// One socket for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerSettings {
    /// Where to listen.
    pub address: SocketAddr,
    /// Files for TLS; clear text without.
    pub tls: Option<TlsFiles>,
    /// Most calls at one time on one HTTP/2 connection.
    pub max_concurrent_streams: u32,
}

/// The files of a TLS listener, not read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate chain, PEM.
    pub cert: String,
    /// The private key, PEM.
    pub key: String,
    /// The certificates, PEM, of those who issue certificates of clients.
    pub client_ca: Option<String>,
    /// Whether clients without a certificate are sent away.
    pub client_required: bool,
}

/// The administrative listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminSettings {
    /// Where to listen; a loopback address if nobody is in `access`.
    pub address: SocketAddr,
    /// Who may administer.
    pub access: ActorRing,
    /// Where changes at run time are kept, relative to the configuration's folder.
    pub changes: Option<String>,
    /// Files for TLS; clear text without.
    pub tls: Option<TlsFiles>,
}

/// What several gateways tell each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharingSettings {
    /// The server's address, with its password if it has one.
    pub url: Secret,
    /// What the keys in the server begin with.
    pub group: String,
    /// How often each gateway speaks, at least.
    pub period: Duration,
    /// How many gateways share quotas, at least.
    pub gateways: u64,
    /// What holds for quotas while the server is gone.
    pub without_store: WithoutStore,
}

/// What callers may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaSettings {
    /// The limits, the one that holds for tasks by default last.
    pub limits: Vec<Limit>,
    /// The header in which a call names its task, in lower case.
    pub task_header: String,
}

/// Where what calls used is kept, and how. The file's reference says what each means.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerSettings {
    /// The database.
    pub store: LedgerStore,
    /// The spool's folder; beside the file of SQLite without one.
    pub spool: Option<String>,
    /// Largest size of the spool.
    pub spool_max: ByteSize,
    /// What happens to calls while the ledger cannot be written as it should.
    pub policy: LedgerPolicy,
    /// The longest that a call waits until its beginning is durable.
    pub wait: Duration,
    /// What a beginning survives.
    pub durable: Durable,
    /// How many whole months are kept besides the present one; all without.
    pub keep_months: Option<u32>,
}

/// Where the audit is, and how it is kept. The file's reference says what each means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditSettings {
    /// The folder, relative to the configuration's folder.
    pub folder: String,
    /// What happens to calls while it cannot be written.
    pub on_failure: AuditPolicy,
    /// What an entry of a call survives.
    pub durable: Durable,
    /// Size from which on a file is closed.
    pub file_size: ByteSize,
    /// How long entries are kept; for ever without.
    pub keep: Option<Duration>,
    /// Most bytes of all files together.
    pub max_size: Option<ByteSize>,
}

/// How the text of a tenant's calls is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextSettings {
    /// How long.
    pub keep: Duration,
    /// Most bytes of all of it.
    pub max_size: ByteSize,
    /// Most bytes of a call's question, and as many of its answer.
    pub max_call: ByteSize,
}

/// The ledger's database.
#[derive(Clone, Debug, PartialEq)]
pub enum LedgerStore {
    /// SQLite in the file of this path, relative to the configuration's folder.
    Sqlite(String),
    /// PostgreSQL at this URL.
    Postgres(Secret),
}

/// How long anything may take. The file's reference says what each measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To open a connection to an endpoint.
    pub connect: Duration,
    /// From sending a call until its first output.
    pub first_token: Duration,
    /// Between two pieces of an answer.
    pub idle: Duration,
    /// For a whole call.
    pub total: Duration,
    /// For the headers of a request.
    pub header_read: Duration,
    /// For running calls of a gateway or endpoint that drains.
    pub drain: Duration,
}

/// How large anything may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest body of a request.
    pub body: ByteSize,
    /// Largest head of a request.
    pub header_size: ByteSize,
    /// Most headers of a request.
    pub header_count: NonZeroU32,
    /// Largest event of a streamed answer.
    pub event: ByteSize,
    /// Most output tokens of an answer that nobody limits, where a quota is for it.
    pub output: u32,
    /// Most client connections at one time.
    pub connections: NonZeroU32,
}

/// What is remembered of why calls went where they went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecisionSettings {
    /// Most records that are kept in memory; 0 keeps none there.
    pub keep: u32,
    /// Most memory that they may take.
    pub size: ByteSize,
    /// How much each says.
    pub detail: Detail,
    /// Where they are kept on disk, if anywhere.
    pub archive: Option<ArchiveSettings>,
}

/// Decision records on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveSettings {
    /// The folder.
    pub folder: String,
    /// How long a record is kept.
    pub keep: Duration,
    /// Most bytes of all of them.
    pub max_size: ByteSize,
}

/// What is written to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// How a line looks.
    pub format: LogFormat,
    /// How much is written.
    pub level: LogLevel,
}

/// Where and how much of the traffic is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordingSettings {
    /// The file, which must not be there yet.
    pub path: String,
    /// Most bytes that are written.
    pub max_size: ByteSize,
}

/// What became of one pool between two settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolChange {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// It is there in both and differs.
    Changed,
}

impl Settings {
    /// Makes the files that callers and providers name into what `resolve` makes of them: the file of the settings does not know where
    /// it is.
    pub fn resolve_files(&mut self, resolve: &dyn Fn(&str) -> String) {
        self.auth.resolve_files(resolve);
        let named = |pool: &Arc<PoolSettings>| pool.provider.as_ref().is_some_and(|provider| provider.ca.is_some());
        for pool in self.pools.iter_mut().filter(|pool| named(pool)) {
            if let Some(path) = Arc::make_mut(pool)
                .provider
                .as_mut()
                .and_then(|provider| provider.ca.as_mut())
            {
                *path = resolve(path);
            }
        }
    }

    /// The pool of that name.
    #[must_use]
    pub fn pool(&self, name: &PoolName) -> Option<&Arc<PoolSettings>> {
        self.pools.iter().find(|pool| pool.name == *name)
    }

    /// The pools that differ from those of `before`, by name: first the new and changed ones in the order of the file,
    /// then those that are gone.
    #[must_use]
    pub fn changed_pools(&self, before: &Self) -> Vec<(PoolName, PoolChange)> {
        let changed = self.pools.iter().filter_map(|pool| match before.pool(&pool.name) {
            None => Some((pool.name.clone(), PoolChange::Added)),
            Some(old) if old != pool => Some((pool.name.clone(), PoolChange::Changed)),
            Some(_) => None,
        });
        let gone = before.pools.iter().filter(|pool| self.pool(&pool.name).is_none());
        changed
            .chain(gone.map(|pool| (pool.name.clone(), PoolChange::Removed)))
            .collect()
    }

    /// Options that take effect only with a new process and that differ from those of `before`, by their names in the file.
    #[must_use]
    pub fn needs_restart(&self, before: &Self) -> Vec<&'static str> {
        let differs = [
            ("listeners", self.listeners != before.listeners),
            ("admin.address", self.admin.address != before.admin.address),
            ("admin.changes", self.admin.changes != before.admin.changes),
            ("admin.tls", self.admin.tls != before.admin.tls),
            (
                "limits.connections",
                self.limits.connections != before.limits.connections,
            ),
            ("sharing", self.sharing != before.sharing),
            ("log", self.log != before.log),
            ("recording", self.recording != before.recording),
            ("ledger", self.ledger != before.ledger),
            ("audit", self.audit != before.audit),
            ("decisions.archive", self.decisions.archive != before.decisions.archive),
        ];
        differs
            .into_iter()
            .filter(|(_, differs)| *differs)
            .map(|(name, _)| name)
            .collect()
    }
}
