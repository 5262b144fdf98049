//! The counters and distributions themselves, and the handles that the data path keeps.

use std::sync::Arc;
use std::time::Duration;

use maitred_types::{FaultKind, PoolName};
use parking_lot::{Mutex, RwLock};
use prometheus_client::encoding::prometheus_text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::metric::{self, Metric};
use crate::prefix_sample::{PrefixCollector, PrefixSource};
use crate::sample::{EndpointCollector, SampleSource};

type Labels = Vec<(&'static str, String)>;
type Counters = Family<Labels, Counter>;

/// Bucket bounds of request durations and of times to the first token, in seconds (OpenTelemetry's advice for GenAI).
const SECONDS: [f64; 18] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0,
];
/// Bucket bounds of times per output token, in seconds (OpenTelemetry's advice for GenAI).
const TOKEN_SECONDS: [f64; 14] = [
    0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5,
];

#[derive(Clone, Copy)]
struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

type Histograms = Family<Labels, Histogram, Buckets>;

mod answers;
mod archive;
mod audit;
mod ledger;
mod model;
mod objective;
mod service;
mod texts;

pub use answers::AnswerMeters;
pub use archive::ArchiveMeters;
pub use audit::AuditMeters;
use objective::ObjectiveFamilies;
use service::ServiceFamilies;

pub use ledger::LedgerMeters;
pub use model::{CallEnd, ModelMeters};
pub use objective::ObjectiveSample;
pub use service::{Service, ServiceMeters};
pub use texts::TextMeters;

/// Every metric of a gateway. One per process; handed down, never global.
#[derive(Debug)]
pub struct Meters {
    registry: Mutex<Registry>,
    families: Families,
    /// Client connections that are open.
    pub open_connections: Gauge,
    /// Calls that are under way.
    pub active_calls: Gauge,
    /// Whether the store of shared quota answers.
    pub quota_store_up: Gauge,
    /// Calls that were let go without knowing what other gateways had used.
    pub quota_blind: Counter,
    /// What concerns the answer cache.
    pub answers: AnswerMeters,
    /// Access records that were lost.
    pub records_dropped: Counter,
    /// Calls that the recording has left out.
    pub recording_dropped: Counter,
}

struct Families {
    duration: Histograms,
    first_token: Histograms,
    per_token: Histograms,
    tokens: Counters,
    calls: Counters,
    service: ServiceFamilies,
    objectives: ObjectiveFamilies,
    usage_estimated: Counters,
    refused: Counters,
    connections_refused: Counters,
    reloads: Counters,
    ledger: LedgerMeters,
    audit: AuditMeters,
    changes_version: Gauge,
    changes_errors: Counter,
    archive: ArchiveMeters,
    texts: TextMeters,
    issuer_reads: Counters,
    quota_asks: Counters,
    pool: PoolFamilies,
}

impl std::fmt::Debug for Families {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Families")
    }
}

#[derive(Clone)]
struct PoolFamilies {
    picks: Counters,
    refusals: Counters,
    waiting: Family<Labels, Gauge>,
    queue: Histograms,
    retries: Counters,
    retries_denied: Counters,
    leases_abandoned: Counters,
    events: Counters,
    scrapes: Counters,
    probes: Counters,
    shadows: Counters,
    kv_events: Counters,
    sharing_up: Family<Labels, Gauge>,
    sharing_peers: Family<Labels, Gauge>,
    sharing_messages: Counters,
    prefix_snapshots: Counters,
}

impl Meters {
    /// Registers every metric. `version` goes to the build metric.
    #[must_use]
    pub fn new(version: &str) -> Self {
        let mut registry = Registry::default();
        let families = Families::register(&mut registry);
        let meters = Self {
            families,
            open_connections: register(&mut registry, &metric::OPEN_CONNECTIONS, Gauge::default()),
            active_calls: register(&mut registry, &metric::ACTIVE_CALLS, Gauge::default()),
            quota_store_up: register(&mut registry, &metric::QUOTA_STORE_UP, Gauge::default()),
            quota_blind: register(&mut registry, &metric::QUOTA_BLIND, Counter::default()),
            answers: AnswerMeters::register(&mut registry),
            records_dropped: register(&mut registry, &metric::RECORDS_DROPPED, Counter::default()),
            recording_dropped: register(&mut registry, &metric::RECORDING_DROPPED, Counter::default()),
            registry: Mutex::new(Registry::default()),
        };
        let build: Family<Labels, Gauge> = register(&mut registry, &metric::BUILD, Family::default());
        build.get_or_create(&vec![("version", version.to_owned())]).set(1);
        *meters.registry.lock() = registry;
        meters
    }

    /// Adds the figures of endpoints, which `source` reads whenever the page is asked for.
    pub fn add_endpoints(&self, source: SampleSource) {
        self.registry
            .lock()
            .register_collector(Box::new(EndpointCollector(source)));
    }

    /// Adds the figures of prefix indexes, which `source` reads whenever the page is asked for.
    pub fn add_prefixes(&self, source: PrefixSource) {
        self.registry
            .lock()
            .register_collector(Box::new(PrefixCollector(source)));
    }

    /// The page in the Prometheus text format (version 0.0.4).
    #[must_use]
    pub fn page(&self) -> String {
        let mut page = String::new();
        match prometheus_text::encode(&mut page, &self.registry.lock()) {
            Ok(()) => page,
            Err(std::fmt::Error) => String::from("# the page could not be written\n"),
        }
    }

    /// Counts a call refused before a pool was chosen.
    pub fn call_refused(&self, fault: FaultKind) {
        self.families
            .refused
            .get_or_create(&vec![("fault", fault.label().to_owned())])
            .inc();
    }

    /// Counts a client connection closed before its first call.
    pub fn connection_refused(&self, reason: &'static str) {
        self.families
            .connections_refused
            .get_or_create(&vec![("reason", reason.to_owned())])
            .inc();
    }

    /// Counts a reload of the configuration; `result` is `applied`, `unchanged` or `rejected`.
    pub fn reloaded(&self, result: &'static str) {
        self.families
            .reloads
            .get_or_create(&vec![("result", result.to_owned())])
            .inc();
    }

    /// Changes at run time up to this one are in force.
    pub fn changes_version(&self, version: u64) {
        let version = i64::try_from(version).unwrap_or(i64::MAX);
        self.families.changes_version.set(version);
    }

    /// A change of another gateway could not be taken over or written down.
    pub fn change_failed(&self) {
        self.families.changes_errors.inc();
    }

    /// A handle for how well calls are served; one for each thread.
    #[must_use]
    pub fn service(&self) -> ServiceMeters {
        self.families.service.handle()
    }

    /// How the objectives of all routes stand now.
    pub fn objectives(&self, samples: &[ObjectiveSample]) {
        self.families.objectives.set(samples);
    }

    /// The handle for what concerns the audit.
    #[must_use]
    pub fn audit(&self) -> AuditMeters {
        self.families.audit.clone()
    }

    /// The handle for what concerns the ledger.
    #[must_use]
    pub fn ledger(&self) -> LedgerMeters {
        self.families.ledger.clone()
    }

    /// Counts what the store of shared quota was asked; `result` is `answered`, `late` or `lost`.
    pub fn quota_asks(&self, result: &'static str, asks: u64) {
        self.families
            .quota_asks
            .get_or_create(&vec![("result", result.to_owned())])
            .inc_by(asks);
    }

    /// Counts a read of an issuer's keys; `result` is `changed`, `unchanged` or `failed`.
    pub fn issuer_read(&self, issuer: &str, result: &'static str) {
        self.families
            .issuer_reads
            .get_or_create(&vec![("issuer", issuer.to_owned()), ("result", result.to_owned())])
            .inc();
    }

    /// The handle for what concerns one model of one pool. Make it when settings change, not per call.
    #[must_use]
    pub fn model(&self, pool: &PoolName, model: &str) -> Arc<ModelMeters> {
        Arc::new(ModelMeters::new(&self.families, pool, model))
    }

    /// The handle for what concerns one pool.
    #[must_use]
    pub fn pool(&self, pool: &PoolName) -> Arc<PoolMeters> {
        Arc::new(PoolMeters::new(&self.families.pool, pool))
    }
}

impl Families {
    fn register(registry: &mut Registry) -> Self {
        let histograms = |buckets: &'static [f64]| Histograms::new_with_constructor(Buckets(buckets));
        Self {
            duration: register(registry, &metric::REQUEST_DURATION, histograms(&SECONDS)),
            first_token: register(registry, &metric::FIRST_TOKEN, histograms(&SECONDS)),
            per_token: register(registry, &metric::PER_TOKEN, histograms(&TOKEN_SECONDS)),
            tokens: register(registry, &metric::TOKENS, Counters::default()),
            calls: register(registry, &metric::CALLS, Counters::default()),
            service: ServiceFamilies::register(registry),
            objectives: ObjectiveFamilies::register(registry),
            usage_estimated: register(registry, &metric::USAGE_ESTIMATED, Counters::default()),
            refused: register(registry, &metric::REFUSED, Counters::default()),
            connections_refused: register(registry, &metric::CONNECTIONS_REFUSED, Counters::default()),
            reloads: register(registry, &metric::RELOADS, Counters::default()),
            ledger: LedgerMeters::register(registry),
            audit: AuditMeters::register(registry),
            changes_version: register(registry, &metric::CHANGES_VERSION, Gauge::default()),
            changes_errors: register(registry, &metric::CHANGES_ERRORS, Counter::default()),
            archive: ArchiveMeters::register(registry),
            texts: TextMeters::register(registry),
            issuer_reads: register(registry, &metric::ISSUER_READS, Counters::default()),
            quota_asks: register(registry, &metric::QUOTA_ASKS, Counters::default()),
            pool: PoolFamilies {
                picks: register(registry, &metric::PICKS, Counters::default()),
                refusals: register(registry, &metric::REFUSALS, Counters::default()),
                waiting: register(registry, &metric::WAITING, Family::default()),
                queue: register(registry, &metric::QUEUE, histograms(&SECONDS)),
                retries: register(registry, &metric::RETRIES, Counters::default()),
                retries_denied: register(registry, &metric::RETRIES_DENIED, Counters::default()),
                leases_abandoned: register(registry, &metric::LEASES_ABANDONED, Counters::default()),
                events: register(registry, &metric::POOL_EVENTS, Counters::default()),
                sharing_up: register(registry, &metric::SHARING_UP, Family::default()),
                sharing_peers: register(registry, &metric::SHARING_PEERS, Family::default()),
                prefix_snapshots: register(registry, &metric::PREFIX_SNAPSHOTS, Counters::default()),
                sharing_messages: register(registry, &metric::SHARING_MESSAGES, Counters::default()),
                scrapes: register(registry, &metric::SCRAPES, Counters::default()),
                probes: register(registry, &metric::PROBES, Counters::default()),
                shadows: register(registry, &metric::SHADOWS, Counters::default()),
                kv_events: register(registry, &metric::KV_EVENTS, Counters::default()),
            },
        }
    }
}

fn register<M>(registry: &mut Registry, metric: &Metric, instrument: M) -> M
where
    M: prometheus_client::registry::Metric + Clone,
{
    registry.register(metric.name, metric.help, instrument.clone());
    instrument
}

/// One family whose only free label comes from a closed set of words. The counters found once are kept, since a look-up in
/// the family itself allocates.
#[derive(Debug)]
struct ByWord {
    family: Counters,
    pool: String,
    label: &'static str,
    known: RwLock<Vec<(&'static str, Counter)>>,
}

impl ByWord {
    fn new(family: &Counters, pool: &PoolName, label: &'static str) -> Self {
        Self {
            family: family.clone(),
            pool: pool.to_string(),
            label,
            known: RwLock::default(),
        }
    }

    fn inc(&self, word: &'static str) {
        if let Some((_, counter)) = self.known.read().iter().find(|(known, _)| *known == word) {
            counter.inc();
            return;
        }
        let labels = vec![("pool", self.pool.clone()), (self.label, word.to_owned())];
        let counter = self.family.get_or_create_owned(&labels);
        counter.inc();
        self.known.write().push((word, counter));
    }
}

/// What concerns one pool. Every label value is a word of a closed set.
#[derive(Debug)]
pub struct PoolMeters {
    picks: ByWord,
    refusals: ByWord,
    waiting: Family<Labels, Gauge>,
    queue: Histograms,
    retries: ByWord,
    retries_denied: Counter,
    leases_abandoned: Counter,
    events: ByWord,
    scrapes: ByWord,
    probes: ByWord,
    kv_events: ByWord,
    shadows: Counters,
    pool: PoolName,
    sharing_messages: ByWord,
    prefix_snapshots: ByWord,
    sharing_up: Family<Labels, Gauge>,
    sharing_peers: Family<Labels, Gauge>,
    own: Labels,
}

impl PoolMeters {
    fn new(families: &PoolFamilies, pool: &PoolName) -> Self {
        let own = vec![("pool", pool.to_string())];
        Self {
            picks: ByWord::new(&families.picks, pool, "reason"),
            refusals: ByWord::new(&families.refusals, pool, "reason"),
            waiting: families.waiting.clone(),
            queue: families.queue.clone(),
            retries: ByWord::new(&families.retries, pool, "fault"),
            retries_denied: families.retries_denied.get_or_create_owned(&own),
            leases_abandoned: families.leases_abandoned.get_or_create_owned(&own),
            events: ByWord::new(&families.events, pool, "event"),
            scrapes: ByWord::new(&families.scrapes, pool, "result"),
            probes: ByWord::new(&families.probes, pool, "result"),
            kv_events: ByWord::new(&families.kv_events, pool, "result"),
            shadows: families.shadows.clone(),
            pool: pool.clone(),
            sharing_messages: ByWord::new(&families.sharing_messages, pool, "result"),
            prefix_snapshots: ByWord::new(&families.prefix_snapshots, pool, "result"),
            sharing_up: families.sharing_up.clone(),
            sharing_peers: families.sharing_peers.clone(),
            own,
        }
    }

    /// Counts a choice.
    pub fn picked(&self, reason: &'static str) {
        self.picks.inc(reason);
    }

    /// Counts an ask for which there was no endpoint.
    pub fn refused(&self, reason: &'static str) {
        self.refusals.inc(reason);
    }

    /// The handle for a call of that class that waits. Classes are those of the settings.
    #[must_use]
    pub fn waits(&self, class: &str) -> WaitMeters {
        let labels = vec![("pool", self.pool.to_string()), ("class", class.to_owned())];
        WaitMeters {
            waiting: self.waiting.get_or_create_owned(&labels),
            queue: self.queue.get_or_create_owned(&labels),
        }
    }

    /// Counts another attempt, made because of `fault`.
    pub fn retried(&self, fault: FaultKind) {
        self.retries.inc(fault.label());
    }

    /// Counts an attempt that the retry budget did not allow.
    pub fn retry_denied(&self) {
        self.retries_denied.inc();
    }

    /// Counts a lease that nobody finished.
    pub fn lease_abandoned(&self) {
        self.leases_abandoned.inc();
    }

    /// Counts a change in the pool's life.
    pub fn event(&self, event: &'static str) {
        self.events.inc(event);
    }

    /// Counts a read of a metrics page.
    pub fn scraped(&self, result: &'static str) {
        self.scrapes.inc(result);
    }

    /// Counts what came of following KV events.
    pub fn kv_event(&self, result: &'static str) {
        self.kv_events.inc(result);
    }

    /// The handle for what concerns one shadow profile. Make it when settings change, not per call.
    #[must_use]
    pub fn shadow(&self, profile: &str) -> ShadowMeters {
        let counter = |agrees: &str| {
            let labels = vec![
                ("pool", self.pool.to_string()),
                ("profile", profile.to_owned()),
                ("agrees", agrees.to_owned()),
            ];
            self.shadows.get_or_create_owned(&labels)
        };
        ShadowMeters {
            agreed: counter("true"),
            differed: counter("false"),
        }
    }

    /// Counts a message among gateways.
    pub fn shared(&self, result: &'static str) {
        self.sharing_messages.inc(result);
    }

    /// Counts what became of a snapshot of the prefix index.
    pub fn prefix_snapshot(&self, result: &'static str) {
        self.prefix_snapshots.inc(result);
    }

    /// Says whether the shared log can be used.
    pub fn sharing_up(&self, is_up: bool) {
        self.sharing_up.get_or_create(&self.own).set(i64::from(is_up));
    }

    /// Says how many other gateways are heard of.
    pub fn sharing_peers(&self, peers: usize) {
        let peers = i64::try_from(peers).unwrap_or(i64::MAX);
        self.sharing_peers.get_or_create(&self.own).set(peers);
    }

    /// Counts a probe.
    pub fn probed(&self, result: &'static str) {
        self.probes.inc(result);
    }
}

/// What concerns one waiting call.
#[derive(Clone, Debug)]
pub struct WaitMeters {
    waiting: Gauge,
    queue: Histogram,
}

impl WaitMeters {
    /// It begins to wait. [`WaitMeters::ends`] must follow.
    pub fn begins(&self) {
        self.waiting.inc();
    }

    /// It does not wait any more, for whatever reason.
    pub fn ends(&self) {
        self.waiting.dec();
    }

    /// It waited so long, with success or in vain. One whose client left has no such time.
    pub fn lasted(&self, waited: Duration) {
        self.queue.observe(waited.as_secs_f64());
    }
}

/// What concerns one shadow profile of a pool.
#[derive(Clone, Debug)]
pub struct ShadowMeters {
    agreed: Counter,
    differed: Counter,
}

impl ShadowMeters {
    /// Counts an ask that the shadow considered.
    pub fn considered(&self, agrees: bool) {
        let counter = if agrees { &self.agreed } else { &self.differed };
        counter.inc();
    }
}

#[cfg(test)]
mod tests;
