//! Whether an endpoint runs what its pool's release says: asked before anything is proven, and again from time to time, since weights may
//! be exchanged under a running server.

use std::time::Duration;

use maitred_config::PoolSettings;
use maitred_engines::Identity;
use maitred_route::release::{Drift, Part, Release, Source, Statement};
use maitred_sched::ReadinessReport;
use maitred_types::{EndpointId, Time};

use super::{PROBE_CAP, Watch, tested_model};
use crate::host::Subject;

/// From one asking to the next.
const INTERVAL: Duration = Duration::from_secs(15);

/// What was last found of an endpoint.
#[derive(Debug, Default)]
pub(super) struct Identified {
    /// Of which life, and under which release. Of another nothing is known.
    about: Option<(EndpointId, Release)>,
    asked_at: Time,
    drift: Vec<Drift>,
}

impl Watch {
    /// What the core is to be told of an endpoint because of its pool's release; nothing if it runs it, or none is said.
    pub(super) async fn off_release(
        &self,
        settings: &PoolSettings,
        subject: &Subject,
        known: &mut Identified,
    ) -> Option<ReadinessReport> {
        let release = settings.release.as_ref()?;
        let now = self.clock.now();
        let is_known = known
            .about
            .as_ref()
            .is_some_and(|(id, about)| *id == subject.id && about == release);
        // One that differs is asked at every probe, so that it serves soon after it has been mended.
        if !is_known || !known.drift.is_empty() || now.since(known.asked_at) >= INTERVAL {
            match self.identify(settings, subject).await {
                Some(identity) => {
                    let drift: Vec<_> = release.differences(&statement(self, &identity)).collect();
                    self.report_drift(release, &known.drift, &drift);
                    known.about = Some((subject.id, release.clone()));
                    known.asked_at = now;
                    known.drift = drift;
                }
                // Who cannot be asked is judged by what it said before, and by its other probes.
                None if is_known => {}
                None => {
                    self.host.meters().probed("not_yet");
                    return Some(ReadinessReport::Failed);
                }
            }
        }
        (!known.drift.is_empty()).then(|| {
            self.host.meters().probed("off_release");
            ReadinessReport::OffRelease
        })
    }

    /// What the endpoint says; nothing if one of its pages was not answered. A page that is not there was answered, and tells nothing.
    async fn identify(&self, settings: &PoolSettings, subject: &Subject) -> Option<Identity> {
        let engine = subject.engine.engine;
        let model = tested_model(settings);
        let mut identity = Identity::default();
        for page in engine.identity_pages() {
            let limits = (settings.probes.readiness.timeout, PROBE_CAP);
            let answer = self.fetch(page, None, limits).await.ok()?;
            if answer.status.is_server_error() {
                return None;
            }
            if answer.status.is_success() {
                identity.read(engine, page, &answer.body, &model);
            }
        }
        Some(identity)
    }

    fn report_drift(&self, release: &Release, before: &[Drift], now: &[Drift]) {
        if before == now {
            return;
        }
        let (pool, endpoint, release) = (self.host.name(), &self.address, &release.name);
        for drift in now {
            tracing::warn!(%pool, release, %drift, "the endpoint does not run the pool's release and gets no calls");
        }
        if now.is_empty() {
            tracing::info!(%pool, %endpoint, release, "the endpoint runs the pool's release again");
        }
    }
}

fn statement(watch: &Watch, identity: &Identity) -> Statement {
    let mut statement = Statement::new(watch.address.clone());
    for (part, value, by) in [
        (Part::Weights, &identity.weights, Source::Models),
        (Part::Engine, &identity.version, Source::Version),
        (Part::Quantization, &identity.quantization, Source::Version),
    ] {
        if let Some(value) = value {
            statement.tell(part, value, by);
        }
    }
    statement
}
