//! One pool at work: its scheduling core behind a lock that is held for microseconds, never across an await.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use maitred_config::{EngineSettings, PoolSettings};
use maitred_engines::{Engine, MetricMapping, PageSignals};
use maitred_obs::{EndpointSample, Meters, PoolMeters};
use maitred_sched::{
    DrainCause, Explain, LoraSignal, Picked, Pool, PoolOptions, Proofs, ReadinessReport, Refusal, ShareMessage,
    Signals, TicketId,
};
use maitred_types::{Address, EndpointId, FaultKind, ModelName, PoolName, Time};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::booking::{Ask, Booking, NoPlace};
use crate::breakers::Breakers;
use crate::decision::{Evidence, named};
use crate::decisions::Decisions;
use crate::ratios::Ratios;
use crate::remembered::Remembered;
use crate::sample;
use crate::shadows::Shadows;
use crate::upstream::Upstream;
use crate::waiting::Waiter;

mod lease;
mod prefix;

use prefix::ChainSwitch;

/// A pool and what surrounds its core.
#[derive(Debug)]
pub struct PoolHost {
    name: PoolName,
    core: Mutex<Core>,
    settings: ArcSwap<PoolSettings>,
    upstream: ArcSwap<Upstream>,
    meters: Arc<PoolMeters>,
    /// What is learned of its models' tokens.
    pub(crate) ratios: Ratios,
    pub(crate) breakers: Breakers,
    decisions: Arc<Decisions>,
    seed: u64,
    chains: ChainSwitch,
    /// What a file says of its endpoints.
    pub(crate) remembered: Remembered,
    /// Rung when the core has something to say or its next wake-up may have moved.
    pub(crate) bell: Notify,
}

/// What the lock guards.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) pool: Pool,
    /// Profiles that choose beside the pool's own.
    pub(crate) shadows: Shadows,
    /// Who is to be told of the end of a wait. As many as the pool lets wait.
    pub(crate) waiters: BTreeMap<TicketId, Waiter>,
    /// The endpoints that are wanted, by address, each in its present life.
    wanted: BTreeMap<Address, Wanted>,
    /// The engine at each slot; a slot keeps its entry until another endpoint takes it.
    engines: Vec<Engine>,
    /// Endpoints that an operator sent away; they stay away until the settings are loaded anew.
    sent_away: BTreeSet<Address>,
    /// Whether the settings have no such pool any more.
    is_closed: bool,
}

/// An endpoint that is wanted.
#[derive(Debug)]
struct Wanted {
    id: EndpointId,
    engine: Arc<EngineSettings>,
    /// Rung when the endpoint should be probed now rather than at the next turn.
    probe_now: Arc<Notify>,
    /// The figures of the configuration's own choice.
    custom: Custom,
    /// Which process is behind it, where its page says so.
    mark: Option<u64>,
}

/// The custom figures of a page, with the mapping that names them.
#[derive(Clone, Debug, Default)]
struct Custom {
    mapping: Option<Arc<MetricMapping>>,
    /// In the order of the mapping.
    values: Vec<Option<f64>>,
}

impl Custom {
    fn by_name(&self) -> BTreeMap<String, f64> {
        let figures = self.mapping.iter().flat_map(|mapping| &mapping.custom);
        let named = figures.zip(&self.values);
        named
            .filter_map(|(figure, value)| value.map(|value| (figure.name.clone(), value)))
            .collect()
    }
}

/// What a watcher watches.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// The endpoint in its present life. What is found out is reported about this life and no later one.
    pub(crate) id: EndpointId,
    pub(crate) engine: Arc<EngineSettings>,
    /// Whether its readiness has been proven and still holds.
    pub(crate) is_proven: bool,
}

impl PoolHost {
    /// A pool without endpoints. `drain` is how long an endpoint that leaves may wait for its calls.
    pub(crate) fn new(
        settings: Arc<PoolSettings>,
        drain: Duration,
        meters: &Meters,
        decisions: &Arc<Decisions>,
        seed: u64,
    ) -> Arc<Self> {
        let meters = meters.pool(&settings.name);
        let pool = Pool::new(options(&settings, drain), settings.profile.clone(), seed);
        Arc::new(Self {
            name: settings.name.clone(),
            core: Mutex::new(Core {
                pool,
                shadows: Shadows::new(&settings.shadows, &meters, seed),
                waiters: BTreeMap::new(),
                wanted: BTreeMap::new(),
                engines: Vec::new(),
                sent_away: BTreeSet::new(),
                is_closed: false,
            }),
            upstream: ArcSwap::from_pointee(Upstream::new(&settings)),
            ratios: Ratios::default(),
            breakers: Breakers::default(),
            meters,
            decisions: Arc::clone(decisions),
            seed,
            settings: ArcSwap::new(settings),
            chains: ChainSwitch::new(),
            remembered: Remembered::default(),
            bell: Notify::new(),
        })
    }

    /// The pool's name.
    #[must_use]
    pub fn name(&self) -> &PoolName {
        &self.name
    }

    /// The settings that hold now.
    #[must_use]
    pub fn settings(&self) -> Arc<PoolSettings> {
        self.settings.load_full()
    }

    /// What endpoints are sent, and how they are reached.
    pub(crate) fn upstream(&self) -> Arc<Upstream> {
        self.upstream.load_full()
    }

    pub(crate) const fn meters(&self) -> &Arc<PoolMeters> {
        &self.meters
    }

    pub(crate) fn decisions(&self) -> &Decisions {
        &self.decisions
    }

    pub(crate) fn reconfigure(&self, settings: Arc<PoolSettings>, drain: Duration) {
        // The core takes any moment not before the newest.
        self.with_core(Time::ZERO, |core| {
            core.pool
                .reconfigure(options(&settings, drain), settings.profile.clone());
            if !core.shadows.is_of(&settings.shadows) {
                core.shadows = Shadows::new(&settings.shadows, &self.meters, self.seed);
            }
            core.sent_away.clear();
        });
        self.upstream.store(Arc::new(Upstream::new(&settings)));
        self.ratios.keep(&settings.models);
        self.breakers.keep(&settings.models);
        self.settings.store(settings);
        self.bell.notify_one();
    }

    /// Books a place for an attempt at once, however much waits in the engines.
    ///
    /// # Errors
    /// When no endpoint can take it; the reason says whether waiting helps.
    pub fn book(self: &Arc<Self>, ask: &Ask<'_>, now: Time) -> Result<Booking, NoPlace> {
        let detail = self.decisions.detail();
        let chosen = self.core.lock().choose(ask, detail, now);
        self.settle(chosen, Duration::ZERO)
    }

    /// Counts what came of an ask, and hands it out.
    pub(crate) fn settle(self: &Arc<Self>, chosen: Chosen, waited: Duration) -> Result<Booking, NoPlace> {
        let Chosen { picked, engine, choice } = chosen;
        match picked {
            Ok(picked) => {
                let reason = picked.why.reason.label();
                self.meters.picked(reason);
                let choice = choice.map(|choice| choice.after(waited).found(picked.endpoint, picked.why));
                let booking = Booking::new(
                    Arc::clone(self),
                    (picked.lease, picked.endpoint),
                    picked.address,
                    engine,
                    (reason, choice),
                );
                Ok(booking.after(waited))
            }
            Err(refusal) => {
                self.meters.refused(refusal.label());
                if matches!(refusal, Refusal::RetryBudget { .. }) {
                    self.meters.retry_denied();
                }
                Err(NoPlace::new(
                    refusal,
                    choice.map(|choice| choice.after(waited).refused(refusal)),
                    waited,
                ))
            }
        }
    }

    /// Counts a further attempt of a call, made because of `fault`.
    pub fn retried(&self, fault: FaultKind) {
        self.meters.retried(fault);
    }

    /// What the other gateways should know.
    pub(crate) fn share(&self, now: Time) -> ShareMessage {
        self.with_core(now, |core| core.pool.share(now))
    }

    pub(crate) fn hear(&self, from: u64, message: &ShareMessage, now: Time) {
        self.with_core(now, |core| core.pool.hear(from, message, now));
    }

    pub(crate) fn hear_past(&self, _from: u64, message: &ShareMessage, now: Time) {
        self.with_core(now, |core| core.pool.hear_past(message, now));
    }

    pub(crate) fn peers(&self) -> usize {
        self.core.lock().pool.peers()
    }

    pub(crate) fn booked_unshared(&self) -> u32 {
        self.core.lock().pool.booked_unshared()
    }

    pub(crate) fn spare(&self, endpoint: EndpointId, wait: Duration, now: Time) {
        self.with_core(now, |core| core.pool.cool_down(endpoint, wait, now));
    }

    /// Takes an endpoint in; when its address is there already, only what is known of it is brought up to date. Returns what
    /// its watcher needs if it is new.
    pub(crate) fn add(&self, address: &Address, engine: &EngineSettings, now: Time) -> Option<Arc<Notify>> {
        let mut core = self.core.lock();
        if core.is_closed || core.sent_away.contains(address) {
            return None;
        }
        if core.wanted.get(address).is_some_and(|wanted| *wanted.engine == *engine) {
            return None;
        }
        // The core keeps the life of an address that stays, and takes its options.
        let id = match core.pool.add(address.clone(), engine.options.clone(), now) {
            Ok(id) => id,
            Err(error) => {
                tracing::error!(pool = %self.name, endpoint = %address, %error, "an endpoint could not be added");
                return None;
            }
        };
        core.set_engine(id, engine.engine);
        if let Some(wanted) = core.wanted.get_mut(address) {
            wanted.engine = Arc::new(engine.clone());
            wanted.custom = Custom::default();
            return None;
        }
        let probe_now = Arc::new(Notify::new());
        core.wanted.insert(
            address.clone(),
            Wanted {
                id,
                engine: Arc::new(engine.clone()),
                probe_now: Arc::clone(&probe_now),
                custom: Custom::default(),
                mark: None,
            },
        );
        Some(probe_now)
    }

    /// Lets an endpoint go: no new calls, and it leaves when its last one ends, or when its time is over. Calls that still run
    /// then go on, and count for nobody.
    pub(crate) fn drain(&self, address: &Address, cause: DrainCause, now: Time) -> bool {
        let mut core = self.core.lock();
        let Some(wanted) = core.wanted.remove(address) else {
            return false;
        };
        core.pool.drain(wanted.id, cause, now);
        if cause == DrainCause::Operator {
            core.sent_away.insert(address.clone());
        }
        drop(core);
        wanted.probe_now.notify_one();
        self.bell.notify_one();
        true
    }

    /// Lets every endpoint go, because the settings have no such pool any more.
    pub(crate) fn close(&self, now: Time) {
        // First the door, so that nobody comes in behind the last one out.
        self.core.lock().is_closed = true;
        for address in self.addresses() {
            self.drain(&address, DrainCause::Unlisted, now);
        }
        // Nobody will be there for those who wait.
        self.with_core(now, |core| core.pool.dismiss(now));
        self.bell.notify_one();
    }

    /// Whether the pool is closed, and its last endpoint has gone.
    pub(crate) fn is_over(&self) -> bool {
        let core = self.core.lock();
        let is_empty = core.pool.rows(Time::ZERO).next().is_none() && core.waiters.is_empty();
        core.is_closed && !core.pool.has_events() && is_empty
    }

    /// The addresses that are wanted.
    pub(crate) fn addresses(&self) -> Vec<Address> {
        self.core.lock().wanted.keys().cloned().collect()
    }

    /// What there is to know for the watcher that was told to listen to `probe_now`; `None` once its endpoint is not wanted any
    /// more, even if another one is wanted at the same address since.
    pub(crate) fn subject(&self, address: &Address, probe_now: &Arc<Notify>) -> Option<Subject> {
        let core = self.core.lock();
        let wanted = core
            .wanted
            .get(address)
            .filter(|wanted| Arc::ptr_eq(&wanted.probe_now, probe_now))?;
        Some(Subject {
            id: wanted.id,
            engine: Arc::clone(&wanted.engine),
            is_proven: core.pool.proofs(wanted.id) == Some(Proofs::ALL),
        })
    }

    /// Hands a page's figures to the core. `asked_at` is when the page was asked for.
    pub(crate) fn observe(&self, id: EndpointId, signals: &Signals, asked_at: Time, now: Time) {
        self.with_core(now, |core| core.pool.observe(id, signals, asked_at, now));
    }

    /// Keeps the custom figures of a page for those who look at them; scheduling does not read them.
    pub(crate) fn keep_custom(&self, id: EndpointId, mapping: &Arc<MetricMapping>, page: &PageSignals) {
        if page.custom.is_empty() {
            return;
        }
        let mut core = self.core.lock();
        let wanted = core.wanted.values_mut().find(|wanted| wanted.id == id);
        if let Some(wanted) = wanted.filter(|wanted| Arc::ptr_eq(&wanted.engine.mapping, mapping)) {
            wanted.custom.mapping = Some(Arc::clone(mapping));
            wanted.custom.values.clear();
            wanted.custom.values.extend(&page.custom);
        }
    }

    pub(crate) fn scrape_failed(&self, id: EndpointId, now: Time) {
        self.with_core(now, |core| core.pool.scrape_failed(id, now));
    }

    /// Tells the core what a probe found. A report about a life that has ended changes nothing.
    pub(crate) fn probed(&self, id: EndpointId, report: ReadinessReport, now: Time) {
        self.with_core(now, |core| core.pool.set_readiness(id, report, now));
    }

    /// The endpoint has begun another life, whose id is returned if it is wanted.
    pub(crate) fn restarted(&self, id: EndpointId, now: Time) -> Option<EndpointId> {
        let mut core = self.core.lock();
        let engine = core.engine(id).unwrap_or_default();
        let next = core.pool.restart(id, now);
        core.call_up(now);
        if let Some(next) = next {
            core.set_engine(next, engine);
            if let Some(wanted) = core.wanted.values_mut().find(|wanted| wanted.id == id) {
                wanted.id = next;
                wanted.mark = None;
                wanted.custom = Custom::default();
                wanted.probe_now.notify_one();
            }
        }
        drop(core);
        self.bell.notify_one();
        next
    }

    /// Has the endpoint probed now.
    pub(crate) fn probe_now(&self, id: EndpointId) {
        let core = self.core.lock();
        if let Some(wanted) = core.wanted.values().find(|wanted| wanted.id == id) {
            wanted.probe_now.notify_one();
        }
    }

    /// Where an endpoint is, or was, be it wanted or not.
    pub(crate) fn address(&self, id: EndpointId) -> Option<Address> {
        self.core.lock().pool.address(id).cloned()
    }

    /// Lets time pass in the core, and takes what it has to say. Also says when it wants to be called again.
    pub(crate) fn advance(&self, now: Time) -> (Vec<maitred_sched::PoolEvent>, Option<Time>) {
        let mut core = self.core.lock();
        core.pool.advance(now);
        core.call_up(now);
        self.chains.set(core.pool.looks_up_all());
        let events = std::iter::from_fn(|| core.pool.poll_event()).collect();
        (events, core.pool.next_wakeup())
    }

    /// The endpoints as metrics and the admin page show them.
    pub fn samples(&self, now: Time) -> Vec<EndpointSample> {
        let core = self.core.lock();
        let custom = |id| {
            core.wanted
                .values()
                .find(|wanted| wanted.id == id)
                .map(|wanted| wanted.custom.by_name())
        };
        let rows = core.pool.rows(now);
        rows.map(|row| sample::of(&self.name, &row, custom(row.endpoint).unwrap_or_default()))
            .collect()
    }

    /// Whether at least one endpoint takes calls.
    #[must_use]
    pub fn is_ready(&self, now: Time) -> bool {
        self.samples(now)
            .iter()
            .any(|sample| sample.state == maitred_obs::EndpointState::Ready)
    }

    /// Changes the core, and wakes whoever may go because of it.
    pub(crate) fn with_core<T>(&self, now: Time, act: impl FnOnce(&mut Core) -> T) -> T {
        let mut core = self.core.lock();
        let outcome = act(&mut core);
        core.call_up(now);
        let has_events = core.pool.has_events();
        drop(core);
        if has_events {
            self.bell.notify_one();
        }
        outcome
    }
}

/// What came of an ask under the lock.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) picked: Result<Picked, Refusal>,
    engine: Engine,
    /// What is remembered of it, if anything is.
    choice: Option<Evidence>,
}

impl Chosen {
    /// A refusal of which nothing is remembered.
    pub(crate) fn refused(refusal: Refusal) -> Self {
        Self {
            picked: Err(refusal),
            engine: Engine::default(),
            choice: None,
        }
    }
}

impl Core {
    /// Lets the shadows look, and then picks.
    fn choose(&mut self, ask: &Ask<'_>, detail: Option<Explain>, now: Time) -> Chosen {
        let asked = ask.to_core(detail.unwrap_or_default());
        let considered = self.shadows.consider(&mut self.pool, &asked, now);
        let picked = self.pool.pick(&asked, now);
        let shadows = self.shadows.compare(considered, &picked);
        let choice = detail.map(|_| Evidence {
            names: named(&self.pool, picked.as_ref().ok(), &shadows),
            shadows,
            ..Evidence::of(ask, now)
        });
        self.chosen(picked, choice)
    }

    pub(crate) fn chosen(&self, picked: Result<Picked, Refusal>, choice: Option<Evidence>) -> Chosen {
        let endpoint = picked.as_ref().ok().map(|picked| picked.endpoint);
        Chosen {
            engine: endpoint.and_then(|id| self.engine(id)).unwrap_or_default(),
            picked,
            choice,
        }
    }

    fn engine(&self, id: EndpointId) -> Option<Engine> {
        self.engines.get(id.slot.index()).copied()
    }

    fn set_engine(&mut self, id: EndpointId, engine: Engine) {
        let slot = id.slot.index();
        if self.engines.len() <= slot {
            self.engines.resize(slot + 1, engine);
        }
        if let Some(known) = self.engines.get_mut(slot) {
            *known = engine;
        }
    }
}

/// The core's options: the pool's own, and what holds for all pools.
pub(crate) fn options(settings: &PoolSettings, drain: Duration) -> PoolOptions {
    PoolOptions {
        drain_limit: Some(drain),
        ..settings.options.clone()
    }
}

/// The figures of a page as the core wants them; `None` when one is missing that its engine should give.
///
/// What an engine has no word for (Triton says nothing of running requests) counts as zero: this gateway's own leases stand in.
pub(crate) fn signals(page: &PageSignals) -> Option<Signals> {
    if !page.missing().is_empty() {
        return None;
    }
    Some(Signals {
        queued: count(page.queued.unwrap_or(0.0)),
        running: count(page.running.unwrap_or(0.0)),
        kv_used: page.kv_used,
        block_size: page.block_size,
        blocks: page.blocks,
        lora: page.lora.as_ref().map(|lora| LoraSignal {
            max: lora.max.unwrap_or(u32::MAX),
            running: names(&lora.running),
            waiting: names(&lora.waiting),
        }),
        progress: page.progress.map(whole),
    })
}

fn names(adapters: &[impl AsRef<str>]) -> Vec<ModelName> {
    adapters.iter().map(|name| ModelName::from(name.as_ref())).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast saturates, which is what is wanted"
)]
fn count(figure: f64) -> u32 {
    figure.round() as u32
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast saturates, which is what is wanted"
)]
fn whole(figure: f64) -> u64 {
    figure.round() as u64
}
