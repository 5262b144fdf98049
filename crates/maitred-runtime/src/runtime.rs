//! The whole of it: settings, pools and their keepers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use maitred_config::{PoolSettings, Roster, Settings, SharingSettings};
use maitred_obs::{EndpointSample, Meters, ObjectiveSample};
use maitred_sched::DrainCause;
use maitred_store::audit::Audit;
use maitred_store::ledger::Ledger;
use maitred_store::texts::Texts;
use maitred_types::{Address, ByteSize, PoolName};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::answers::AnswerCache;
use crate::changes::Changes;
use crate::clock::Clock;
use crate::decisions::Decisions;
use crate::fetch::Fetcher;
use crate::host::PoolHost;
use crate::issuers::{Issuers, TokenDesk};
use crate::keeper::Keeper;
use crate::objectives::Objectives;
use crate::quota::QuotaHost;
use crate::quota_leases::QuotaLeases;
use crate::remembered;
use crate::sharing::Sharing;
use crate::snapshot::Snapshot;
use crate::tasks::Tasks;

/// Owns the cores. One per process.
#[derive(Debug)]
pub struct Runtime {
    clock: Clock,
    tasks: Tasks,
    meters: Arc<Meters>,
    fetcher: Fetcher,
    seed: u64,
    snapshot: ArcSwap<Snapshot>,
    decisions: Arc<Decisions>,
    pools: Mutex<BTreeMap<PoolName, Kept>>,
    quota: Arc<QuotaHost>,
    /// Whether the store of shared quota has been spoken with, or tried in vain.
    leases_met: watch::Sender<bool>,
    /// Whether limits that are added begin with what was used before: after the start.
    pub(crate) recalls_limits: AtomicBool,
    ledger: OnceLock<Arc<Ledger>>,
    audit: OnceLock<Arc<Audit>>,
    pub(crate) texts: OnceLock<Arc<Texts>>,
    /// What the file says, and what was changed at run time; held while either is put in place.
    base: Mutex<Base>,
    changes: OnceLock<Changes>,
    issuers: Issuers,
    answers: AnswerCache,
    objectives: Arc<Objectives>,
    is_draining: AtomicBool,
}

/// What the settings in force are made of.
#[derive(Debug)]
struct Base {
    settings: Arc<Settings>,
    roster: Arc<Roster>,
}

/// A pool and the tasks that keep it.
#[derive(Debug)]
struct Kept {
    keeper: Keeper,
    discovery: Tasks,
}

impl Runtime {
    /// Starts with `settings`. Must be called on the runtime that is to run the background tasks. `seed` fixes every random
    /// choice.
    #[must_use]
    pub fn start(settings: Settings, clock: Clock, tasks: Tasks, meters: Arc<Meters>, seed: u64) -> Arc<Self> {
        let empty = Snapshot::new(Arc::new(settings.clone()), &[], TokenDesk::default(), &meters);
        let (limits, sharing) = (&settings.quotas.limits, settings.sharing.as_ref());
        let quota = QuotaHost::new(limits, sharing, clock, Arc::clone(&meters));
        let runtime = Arc::new(Self {
            clock,
            tasks,
            meters,
            fetcher: Fetcher::new(),
            seed,
            snapshot: ArcSwap::from_pointee(empty),
            decisions: Arc::default(),
            pools: Mutex::new(BTreeMap::new()),
            quota,
            leases_met: watch::channel(false).0,
            recalls_limits: AtomicBool::new(false),
            ledger: OnceLock::new(),
            audit: OnceLock::new(),
            texts: OnceLock::new(),
            base: Mutex::new(Base {
                settings: Arc::new(settings.clone()),
                roster: Arc::default(),
            }),
            changes: OnceLock::new(),
            issuers: Issuers::default(),
            answers: AnswerCache::new(ByteSize::default()),
            objectives: Arc::default(),
            is_draining: AtomicBool::new(false),
        });
        runtime.begin_leases(sharing);
        runtime.apply(settings);
        let objectives = Arc::clone(&runtime.objectives);
        runtime
            .tasks
            .spawn_until_stop(objectives.keep(clock, Arc::clone(&runtime.meters)));
        let weak = Arc::downgrade(&runtime);
        runtime.meters.add_endpoints(Arc::new(move || {
            weak.upgrade().map_or_else(Vec::new, |runtime| runtime.samples())
        }));
        let weak = Arc::downgrade(&runtime);
        runtime.meters.add_prefixes(Arc::new(move || {
            let hosts = weak.upgrade().map_or_else(Vec::new, |runtime| runtime.hosts());
            hosts.iter().map(|host| host.prefix_sample()).collect()
        }));
        runtime
    }

    /// Puts `settings`, those of the file, in place of those that hold; what was changed at run time lies over them. Calls that run keep theirs; leases, health and learnt figures of pools and
    /// endpoints that stay survive. Must be called on the runtime that runs the background tasks.
    pub fn apply(&self, settings: Settings) {
        let mut base = self.base.lock();
        base.settings = Arc::new(settings);
        let settings = base.roster.over(&base.settings);
        self.take_limits(&settings.quotas.limits);
        self.decisions.configure(&settings.decisions);
        self.answers.resize(
            settings
                .answers
                .as_ref()
                .map_or(ByteSize::default(), |answers| answers.size),
        );
        self.set_text_terms(&settings.texts);
        let mut pools = self.pools.lock();
        let drain = settings.timeouts.drain;
        let keep = |pool| self.keep(&mut pools, pool, drain);
        let hosts: Vec<_> = settings.pools.iter().map(keep).collect();
        pools.retain(|name, kept| {
            let stays = settings.pools.iter().any(|pool| pool.name == *name);
            if !stays {
                kept.discovery.stop();
                kept.keeper.host.close(self.clock.now());
            }
            stays
        });
        drop(pools);
        let issuers = &settings.auth.issuers;
        let desk = self.issuers.apply(issuers, self.clock, &self.tasks, &self.meters);
        let objectives = self.objectives.apply(&settings, self.clock.now());
        let snapshot = Snapshot::new(Arc::new(settings), &hosts, desk, &self.meters).with_objectives(objectives);
        self.snapshot.store(Arc::new(snapshot));
    }

    /// The answers that are kept.
    #[must_use]
    pub const fn answers(&self) -> &AnswerCache {
        &self.answers
    }

    /// What the file says, without what was changed at run time.
    #[must_use]
    pub fn base(&self) -> Arc<Settings> {
        Arc::clone(&self.base.lock().settings)
    }

    /// What was changed at run time.
    #[must_use]
    pub fn roster(&self) -> Arc<Roster> {
        Arc::clone(&self.base.lock().roster)
    }

    /// Puts what was changed at run time in force. Pools, endpoints and issuers stay as they are.
    pub(crate) fn set_roster(&self, roster: Arc<Roster>) {
        let mut base = self.base.lock();
        base.roster = roster;
        let settings = base.roster.over(&base.settings);
        if settings.quotas != self.snapshot().settings().quotas {
            self.take_limits(&settings.quotas.limits);
        }
        let snapshot = self.snapshot().with_settings(Arc::new(settings));
        self.snapshot.store(Arc::new(snapshot));
    }

    pub(crate) fn meters(&self) -> &Meters {
        &self.meters
    }

    pub(crate) const fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    pub(crate) fn set_changes(&self, changes: Changes) {
        self.changes.get_or_init(|| changes);
    }

    pub(crate) fn changes(&self) -> Option<&Changes> {
        self.changes.get()
    }

    fn keep(
        &self,
        pools: &mut BTreeMap<PoolName, Kept>,
        settings: &Arc<PoolSettings>,
        drain: Duration,
    ) -> Arc<PoolHost> {
        let kept = match pools.get_mut(&settings.name) {
            Some(kept) => {
                kept.keeper.host.reconfigure(Arc::clone(settings), drain);
                kept.discovery.stop();
                kept.discovery = self.tasks.child();
                kept
            }
            None => {
                let settings = Arc::clone(settings);
                let host = PoolHost::new(settings, drain, &self.meters, &self.decisions, self.seed);
                let keeper = Keeper {
                    host,
                    clock: self.clock,
                    tasks: self.tasks.clone(),
                    fetcher: self.fetcher.clone(),
                    found: Arc::default(),
                };
                self.tasks.spawn_until_stop(keeper.clone().keep());
                self.begin_sharing(&keeper.host);
                self.tasks
                    .spawn_until_stop(remembered::keep(Arc::clone(&keeper.host), self.clock));
                let kept = Kept {
                    keeper,
                    discovery: self.tasks.child(),
                };
                pools.entry(kept.keeper.host.name().clone()).or_insert(kept)
            }
        };
        // Those named in the file need no answer from a name server.
        kept.keeper.match_endpoints();
        if settings.discovery.is_some() {
            kept.discovery.spawn_until_stop(kept.keeper.clone().discover());
        }
        Arc::clone(&kept.keeper.host)
    }

    fn begin_sharing(&self, host: &Arc<PoolHost>) {
        let snapshot = self.snapshot();
        let Some(settings) = &snapshot.settings().sharing else {
            return;
        };
        match Sharing::new(Arc::clone(host), self.clock, self.seed, settings) {
            Ok(sharing) => sharing.begin(&self.tasks),
            Err(error) => tracing::error!(pool = %host.name(), %error, "gateways cannot talk to each other"),
        }
    }

    /// The limits become those of several gateways.
    fn begin_leases(&self, sharing: Option<&SharingSettings>) {
        let Some(sharing) = sharing else {
            self.leases_met.send_replace(true);
            return;
        };
        let met = self.leases_met.clone();
        match QuotaLeases::new(Arc::clone(&self.quota), sharing, Arc::clone(&self.meters), met) {
            Ok(leases) => self.tasks.spawn(leases.keep(self.clock, self.tasks.clone())),
            Err(error) => {
                self.leases_met.send_replace(true);
                tracing::error!(%error, "gateways cannot share quota");
            }
        }
    }

    /// Completes when the store of shared quota has said what there is, or cannot be reached, so that the first calls are not let go
    /// without knowing.
    pub async fn meet_others(&self) {
        let mut met = self.leases_met.subscribe();
        // Without a sender nobody is met any more.
        drop(met.wait_for(|is_met| *is_met).await);
    }

    /// The settings that hold now. A call takes them once.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// What callers may use, and have used.
    #[must_use]
    pub const fn quota(&self) -> &Arc<QuotaHost> {
        &self.quota
    }

    /// From now on calls are entered in `ledger`, and hours that are paid for. Call it once: which ledger it is does not change while calls
    /// run.
    pub fn keep_ledger(self: &Arc<Self>, ledger: Ledger) {
        self.ledger.get_or_init(|| Arc::new(ledger));
        self.keep_hours();
    }

    /// Where what calls use is entered, if it is.
    #[must_use]
    pub fn ledger(&self) -> Option<&Arc<Ledger>> {
        self.ledger.get()
    }

    /// From now on calls and acts are entered in `audit`. Only the first one counts.
    pub fn keep_audit(&self, audit: Audit) {
        self.audit.get_or_init(|| Arc::new(audit));
    }

    /// Where it is entered who did what, if it is.
    #[must_use]
    pub fn audit(&self) -> Option<&Arc<Audit>> {
        self.audit.get()
    }

    /// Why calls went where they went.
    #[must_use]
    pub fn decisions(&self) -> &Decisions {
        &self.decisions
    }

    /// How the objectives of routes that can degrade answers stand.
    #[must_use]
    pub fn objectives(&self) -> Vec<ObjectiveSample> {
        self.objectives.samples()
    }

    /// The clock of this process.
    #[must_use]
    pub const fn clock(&self) -> Clock {
        self.clock
    }

    /// Every endpoint of every pool, as of now.
    #[must_use]
    pub fn samples(&self) -> Vec<EndpointSample> {
        let now = self.clock.now();
        self.hosts().iter().flat_map(|host| host.samples(now)).collect()
    }

    /// Lets an endpoint go by an operator's word. It stays away until the configuration is loaded anew. Says whether there
    /// was such an endpoint.
    pub fn drain_endpoint(&self, pool: &str, address: &str) -> bool {
        let host = self.pools.lock().get(pool).map(|kept| Arc::clone(&kept.keeper.host));
        host.is_some_and(|host| host.drain(&Address::from(address), DrainCause::Operator, self.clock.now()))
    }

    /// Writes what is to be known again after a restart.
    pub async fn remember(&self) {
        for host in self.hosts() {
            remembered::write(&host).await;
        }
    }

    /// From now on the gateway is not ready and takes no new calls.
    pub fn begin_drain(&self) {
        self.is_draining.store(true, Ordering::Relaxed);
    }

    /// Whether the gateway is on its way out.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Relaxed)
    }

    /// The pools that have no endpoint that takes calls.
    #[must_use]
    pub fn pools_not_ready(&self) -> Vec<PoolName> {
        let now = self.clock.now();
        let hosts = self.hosts();
        hosts
            .iter()
            .filter(|host| !host.is_ready(now))
            .map(|host| host.name().clone())
            .collect()
    }

    pub(crate) fn hosts(&self) -> Vec<Arc<PoolHost>> {
        self.pools
            .lock()
            .values()
            .map(|kept| Arc::clone(&kept.keeper.host))
            .collect()
    }
}
