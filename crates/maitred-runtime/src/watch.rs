//! Watching one endpoint: its metrics page at short intervals, its readiness and health at longer ones.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use maitred_config::{EngineSettings, PoolSettings, StartupCheck};
use maitred_engines::{
    Advance, Answer, Engine, HealthVerdict, InferencePath, MetricMapping, PageError, PageSignals, Readiness,
    ReadinessStep, Scanner, WhyNot, judge_health,
};
use maitred_sched::{Proofs, ReadinessReport};
use maitred_types::{Address, EndpointId, Time};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::clock::Clock;
use crate::dial::dial_endpoint;
use crate::fetch::{Ask, FetchError, Fetched, Fetcher};
use crate::host::{PoolHost, Subject, signals};

/// Largest metrics page that is read. vLLM's is some 60 KiB; every adapter and label adds to it.
const PAGE_CAP: usize = 8 << 20;
/// Largest answer to a probe that is read.
const PROBE_CAP: usize = 1 << 20;

mod release;

use release::Identified;

/// What watching an endpoint needs.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    pub(crate) host: Arc<PoolHost>,
    pub(crate) address: Address,
    pub(crate) probe_now: Arc<Notify>,
    pub(crate) fetcher: Fetcher,
    pub(crate) clock: Clock,
}

impl Watch {
    /// The endpoint as it is now; `None` once it is not wanted any more.
    pub(crate) fn subject(&self) -> Option<Subject> {
        self.host.subject(&self.address, &self.probe_now)
    }

    async fn fetch(&self, path: &str, body: Option<Bytes>, limits: (Duration, usize)) -> Result<Fetched, FetchError> {
        let upstream = self.host.upstream();
        let (timeout, cap) = limits;
        let ask = Ask {
            address: &self.address,
            path,
            body,
            credential: upstream.credential(),
            timeout,
            cap,
        };
        self.fetcher.fetch(ask).await
    }

    /// Reads the metrics page again and again until the endpoint is not wanted any more.
    pub(crate) async fn scrape(self) {
        let mut reading = Reading::default();
        while let Some(subject) = self.subject() {
            let settings = self.host.settings();
            let asked_at = self.clock.now();
            let next = self.clock.instant(asked_at + settings.scrape.interval);
            let page = reading.read(&self, &subject.engine, settings.scrape.timeout).await;
            self.take_in(&subject, &mut reading, page, asked_at);
            tokio::time::sleep_until(next).await;
        }
    }

    fn take_in(&self, subject: &Subject, reading: &mut Reading, page: Result<PageSignals, Unreadable>, asked_at: Time) {
        let now = self.clock.now();
        let mut id = subject.id;
        match page.and_then(|page| {
            signals(&page)
                .map(|signals| (page, signals))
                .ok_or(Unreadable::MissingFigures)
        }) {
            Ok((page, signals)) => {
                if reading.has_restarted(&page) {
                    tracing::info!(pool = %self.host.name(), endpoint = %self.address, "the endpoint has restarted");
                    id = self.host.restarted(id, now).unwrap_or(id);
                }
                self.host.meters().scraped("ok");
                self.host.observe(id, &signals, asked_at, now);
                self.host.keep_started(id, page.started);
                self.host.recall(now);
                self.host.keep_custom(id, &subject.engine.mapping, &page);
            }
            Err(why) => {
                self.host.meters().scraped(why.label());
                self.host.scrape_failed(id, now);
            }
        }
    }

    /// Proves readiness, and from then on looks after health, until the endpoint is not wanted any more.
    pub(crate) async fn probe(self) {
        let (mut progress, mut identified) = (Progress::default(), Identified::default());
        while let Some(subject) = self.subject() {
            let settings = self.host.settings();
            let pause = match self.off_release(&settings, &subject, &mut identified).await {
                Some(report) => {
                    self.host.probed(subject.id, report, self.clock.now());
                    settings.probes.startup.interval
                }
                None => self.probe_once(&settings, &subject, &mut progress).await,
            };
            // Whoever rings wants a probe at once: after a restart, or an ejection.
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.probe_now.notified() => {}
            }
        }
    }

    async fn probe_once(&self, settings: &PoolSettings, subject: &Subject, progress: &mut Progress) -> Duration {
        match settings.probes.startup.check {
            StartupCheck::Port => self.probe_port(settings, subject).await,
            StartupCheck::Health => self.probe_health(settings, subject).await,
            StartupCheck::Full => self.probe_fully(settings, subject, progress).await,
        }
    }

    /// The comparison that shows why a port check is not enough.
    async fn probe_port(&self, settings: &PoolSettings, subject: &Subject) -> Duration {
        let limit = settings.probes.readiness.timeout;
        let upstream = self.host.upstream();
        let reached = match upstream.provider() {
            Some(provider) => provider.answers(limit).await,
            None => match timeout(limit, dial_endpoint(self.address.as_str())).await {
                Ok(connected) => connected.map(drop),
                Err(_elapsed) => Err(io::ErrorKind::TimedOut.into()),
            },
        };
        if let (Err(error), Some(_)) = (&reached, upstream.provider()) {
            tracing::warn!(pool = %self.host.name(), endpoint = %self.address, %error, "the provider cannot be reached");
        }
        self.all_or_nothing(subject.id, reached.is_ok());
        settings.probes.readiness.interval
    }

    /// Trusts the engine's own word.
    async fn probe_health(&self, settings: &PoolSettings, subject: &Subject) -> Duration {
        let engine = subject.engine.engine;
        let limits = (settings.probes.readiness.timeout, PROBE_CAP);
        let health = self.fetch(engine.health_path(), None, limits).await;
        let verdict = health.map(|answer| judge_health(engine, answer.status.as_u16()));
        if verdict == Ok(HealthVerdict::Unavailable) {
            self.host
                .probed(subject.id, ReadinessReport::Unavailable, self.clock.now());
        } else {
            self.all_or_nothing(subject.id, verdict == Ok(HealthVerdict::Healthy));
        }
        settings.probes.readiness.interval
    }

    fn all_or_nothing(&self, id: EndpointId, is_healthy: bool) {
        let report = if is_healthy {
            ReadinessReport::Healthy(Proofs::ALL)
        } else {
            ReadinessReport::Failed
        };
        self.host.meters().probed(if is_healthy { "ready" } else { "not_yet" });
        self.host.probed(id, report, self.clock.now());
    }

    /// Takes as many steps as succeed. Returns when to go on.
    async fn probe_fully(&self, settings: &PoolSettings, subject: &Subject, progress: &mut Progress) -> Duration {
        let mut readiness = progress.take(settings, subject);
        let pause = loop {
            let advance = self
                .step(settings, &subject.engine, &mut readiness, &mut progress.reading)
                .await;
            self.host.meters().probed(advance_label(&advance));
            if let Advance::Next(_) = advance {
                continue;
            }
            break self.conclude(settings, subject.id, &advance, &mut progress.failures);
        };
        progress.readiness = Some(readiness);
        pause
    }

    /// Tells the core what the steps came to. Returns when to go on.
    fn conclude(&self, settings: &PoolSettings, id: EndpointId, advance: &Advance, failures: &mut u32) -> Duration {
        let now = self.clock.now();
        let report = match advance {
            Advance::Ready | Advance::Next(_) => ReadinessReport::Healthy(Proofs::ALL),
            Advance::NotYet(WhyNot::Unavailable) | Advance::Draining => ReadinessReport::Unavailable,
            Advance::NotYet(_) | Advance::Failing(_) => ReadinessReport::Failed,
        };
        self.host.probed(id, report, now);
        match advance {
            Advance::Ready | Advance::Next(_) => *failures = 0,
            Advance::NotYet(why) => {
                *failures = failures.saturating_add(1);
                self.report_slow_start(settings, why, *failures);
                return settings.probes.startup.interval;
            }
            Advance::Failing(why) => {
                tracing::warn!(pool = %self.host.name(), endpoint = %self.address, %why, "a health probe failed");
            }
            Advance::Draining => {}
        }
        settings.probes.readiness.interval
    }

    /// An endpoint that does not start within its window is reported once, and tried further.
    fn report_slow_start(&self, settings: &PoolSettings, why: &WhyNot, failures: u32) {
        let (pool, endpoint) = (self.host.name(), &self.address);
        if failures == settings.probes.startup.failures {
            tracing::error!(%pool, %endpoint, %why, failures, "the endpoint does not become ready");
        } else if failures == 1 {
            tracing::info!(%pool, %endpoint, %why, "the endpoint is not ready yet");
        }
    }

    async fn step(
        &self,
        settings: &PoolSettings,
        engine: &EngineSettings,
        readiness: &mut Readiness,
        reading: &mut Reading,
    ) -> Advance {
        let step = readiness.step();
        if step == ReadinessStep::KvPool {
            return match reading.read(self, engine, settings.scrape.timeout).await {
                Ok(page) => readiness.answered(Answer::Page(&page)),
                Err(_) => readiness.answered(Answer::None),
            };
        }
        let probe = readiness.probe();
        let body = (!probe.body.is_empty()).then(|| Bytes::from(probe.body));
        let limit = match step {
            ReadinessStep::Infer => settings.probes.startup.timeout,
            ReadinessStep::Health | ReadinessStep::ListModels | ReadinessStep::KvPool => {
                settings.probes.readiness.timeout
            }
        };
        match self.fetch(probe.path, body, (limit, PROBE_CAP)).await {
            Ok(Fetched { status, body }) => readiness.answered(Answer::Response {
                status: status.as_u16(),
                body: &body,
            }),
            Err(_) => readiness.answered(Answer::None),
        }
    }
}

/// How far an endpoint has come in proving its readiness.
#[derive(Default)]
struct Progress {
    readiness: Option<Readiness>,
    /// What the proof is about; another life, engine or model begins anew.
    about: Option<(EndpointId, Engine, String, InferencePath)>,
    reading: Reading,
    failures: u32,
}

impl Progress {
    fn take(&mut self, settings: &PoolSettings, subject: &Subject) -> Readiness {
        let (engine, model) = (subject.engine.engine, tested_model(settings));
        let inference = settings.probes.startup.inference;
        let about = Some((subject.id, engine, model.clone(), inference));
        match self.readiness.take() {
            // The core forgets what was proven when an endpoint drains or fails too often; then it must be proven again.
            Some(readiness) if self.about == about && (subject.is_proven || !readiness.is_ready()) => readiness,
            Some(_) | None => {
                self.about = about;
                self.failures = 0;
                Readiness::new(engine, model, inference)
            }
        }
    }
}

const fn advance_label(advance: &Advance) -> &'static str {
    match advance {
        Advance::Next(_) => "step",
        Advance::Ready => "ready",
        Advance::NotYet(_) => "not_yet",
        Advance::Draining => "draining",
        Advance::Failing(_) => "failing",
    }
}

/// The model that an endpoint must list and infer with: the pool's first that is no adapter.
fn tested_model(settings: &PoolSettings) -> String {
    let base = settings
        .models
        .iter()
        .find(|model| model.adapter_of.is_none())
        .or(settings.models.first());
    base.map(|model| model.served_as.to_string()).unwrap_or_default()
}

/// Reads the metrics page of one endpoint.
#[derive(Default)]
struct Reading {
    scanner: Option<(Arc<MetricMapping>, Scanner)>,
    started: Option<f64>,
}

impl Reading {
    async fn read(
        &mut self,
        watch: &Watch,
        engine: &EngineSettings,
        limit: Duration,
    ) -> Result<PageSignals, Unreadable> {
        let upstream = watch.host.upstream();
        let ask = Ask {
            address: &page_address(&watch.address, engine.metrics_port),
            path: &engine.metrics_path,
            body: None,
            credential: upstream.credential(),
            timeout: limit,
            cap: PAGE_CAP,
        };
        let fetched = watch.fetcher.fetch(ask).await.map_err(Unreadable::Fetch)?;
        if !fetched.status.is_success() {
            return Err(Unreadable::Status);
        }
        self.scanner(&engine.mapping)
            .scan(&fetched.body)
            .map_err(Unreadable::Page)
    }

    /// The scanner for `mapping`, compiled anew only when the settings have changed it.
    fn scanner(&mut self, mapping: &Arc<MetricMapping>) -> &mut Scanner {
        let is_current = self
            .scanner
            .as_ref()
            .is_some_and(|(known, _)| Arc::ptr_eq(known, mapping));
        if !is_current {
            self.scanner = None;
        }
        &mut self
            .scanner
            .get_or_insert_with(|| (Arc::clone(mapping), Scanner::new(mapping)))
            .1
    }

    /// Whether the process behind the page is another one than before.
    fn has_restarted(&mut self, page: &PageSignals) -> bool {
        let Some(started) = page.started else { return false };
        // The figure is a fixed time; only a later one means another process.
        self.started
            .replace(started)
            .is_some_and(|before| started > before + 0.5)
    }
}

/// Why a page gave no figures.
enum Unreadable {
    Fetch(FetchError),
    Status,
    Page(PageError),
    MissingFigures,
}

impl Unreadable {
    const fn label(&self) -> &'static str {
        match self {
            Self::Fetch(error) => error.label(),
            Self::Status => "status",
            Self::Page(error) => error.label(),
            Self::MissingFigures => "missing_figures",
        }
    }
}

/// Where the metrics page of the endpoint at `address` is, if it has a port of its own.
pub(crate) fn page_address(address: &Address, port: Option<u16>) -> Address {
    match (port, address.as_str().rsplit_once(':')) {
        (Some(port), Some((host, _))) => Address::from(format!("{host}:{port}")),
        _ => address.clone(),
    }
}

#[cfg(test)]
mod tests;
