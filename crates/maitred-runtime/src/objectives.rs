//! The objectives of routes that can degrade answers: fed by the calls of all threads, told by log, metrics and a page.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use maitred_config::{ObjectiveSettings, OnBreach, Settings};
use maitred_obs::{Meters, ObjectiveSample};
use maitred_route::objective::{Allowance, Objective, Served, State};
use maitred_types::{ModelName, Time};
use parking_lot::Mutex;

use crate::clock::Clock;

/// How often time passes for routes that no call comes to.
const ADVANCE: Duration = Duration::from_secs(1);

/// The objective of one route.
#[derive(Debug)]
pub struct RouteObjective {
    model: ModelName,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    core: Objective,
    on_breach: OnBreach,
}

impl RouteObjective {
    fn new(model: &ModelName, settings: ObjectiveSettings, now: Time) -> Self {
        Self {
            model: model.clone(),
            inner: Mutex::new(Inner {
                core: Objective::new(allowance(settings), now),
                on_breach: settings.on_breach,
            }),
        }
    }

    /// Whether an answer may be degraded now.
    #[must_use]
    pub fn allows(&self) -> bool {
        let inner = self.inner.lock();
        !(inner.on_breach == OnBreach::Stop && inner.core.state() == State::Breach)
    }

    /// A call has ended.
    pub fn served(&self, served: Served, now: Time) {
        self.with(|core| core.served(served, now));
    }

    /// An attempt at what was asked for has ended; whether it was refused because a quota is spent or there is too much to do.
    pub fn attempted(&self, is_refused: bool, now: Time) {
        self.with(|core| core.attempted(is_refused, now));
    }

    fn with(&self, act: impl FnOnce(&mut Objective) -> Option<State>) {
        let (change, sample) = {
            let mut inner = self.inner.lock();
            let change = act(&mut inner.core);
            (change, change.map(|_| inner.sample(&self.model)))
        };
        if let (Some(state), Some(sample)) = (change, sample) {
            tell(state, &sample);
        }
    }

    /// As far as it is the same objective it goes on; with another allowance it begins anew.
    fn reconfigure(&self, settings: ObjectiveSettings, now: Time) {
        let mut inner = self.inner.lock();
        inner.on_breach = settings.on_breach;
        if inner.core.allowance() != allowance(settings) {
            inner.core = Objective::new(allowance(settings), now);
        }
    }

    fn sample(&self) -> ObjectiveSample {
        self.inner.lock().sample(&self.model)
    }
}

impl Inner {
    fn sample(&self, model: &ModelName) -> ObjectiveSample {
        let (figures, allowance, state) = (self.core.figures(), self.core.allowance(), self.core.state());
        ObjectiveSample {
            model: model.to_string(),
            state: state.label(),
            fallback: if self.on_breach == OnBreach::Stop && state == State::Breach {
                "closed"
            } else {
                "open"
            },
            calls: figures.calls,
            degraded: figures.degraded,
            ratio: figures.ratio,
            newest_ratio: figures.newest_ratio,
            refused_ratio: figures.refused_ratio,
            allowed_ratio: allowance.ratio,
            burn_rate: if allowance.ratio > 0.0 {
                figures.ratio / allowance.ratio
            } else {
                0.0
            },
            window_seconds: allowance.window.as_secs_f64(),
        }
    }
}

const fn allowance(settings: ObjectiveSettings) -> Allowance {
    Allowance {
        ratio: settings.ratio,
        window: settings.window,
    }
}

fn tell(state: State, sample: &ObjectiveSample) {
    let ObjectiveSample {
        model,
        fallback,
        ratio,
        allowed_ratio,
        refused_ratio,
        ..
    } = sample;
    match state {
        State::Breach => tracing::error!(
            model,
            ratio,
            allowed_ratio,
            fallback,
            "more answers are degraded than the objective allows"
        ),
        State::Warning => tracing::warn!(
            model,
            ratio,
            allowed_ratio,
            refused_ratio,
            "the models behind this name refuse more and more calls; answers will be degraded beyond the objective soon"
        ),
        State::Calm => tracing::info!(
            model,
            ratio,
            allowed_ratio,
            fallback,
            "degraded answers are within the objective"
        ),
    }
}

/// The objectives of all routes that can degrade answers. They outlive a reload of the settings.
#[derive(Debug, Default)]
pub(crate) struct Objectives(Mutex<BTreeMap<ModelName, Arc<RouteObjective>>>);

impl Objectives {
    /// Puts those of `settings` in place.
    pub(crate) fn apply(&self, settings: &Settings, now: Time) -> BTreeMap<ModelName, Arc<RouteObjective>> {
        let routing = &settings.routing;
        let mut all = self.0.lock();
        let mut kept = BTreeMap::new();
        if let Some(objective) = settings.degradation.objective {
            for route in routing.routes().filter(|route| routing.degrading(route).is_some()) {
                let found = all.remove(&route.model);
                if let Some(found) = &found {
                    found.reconfigure(objective, now);
                }
                let found = found.unwrap_or_else(|| Arc::new(RouteObjective::new(&route.model, objective, now)));
                kept.insert(route.model.clone(), found);
            }
        }
        all.clone_from(&kept);
        kept
    }

    /// How all of them stand.
    pub(crate) fn samples(&self) -> Vec<ObjectiveSample> {
        let all: Vec<_> = self.0.lock().values().map(Arc::clone).collect();
        all.iter().map(|objective| objective.sample()).collect()
    }

    /// Lets time pass where no call comes, and tells the metrics. Runs for ever.
    pub(crate) async fn keep(self: Arc<Self>, clock: Clock, meters: Arc<Meters>) {
        loop {
            tokio::time::sleep(ADVANCE).await;
            let all: Vec<_> = self.0.lock().values().map(Arc::clone).collect();
            for objective in &all {
                objective.with(|core| core.advance(clock.now()));
            }
            meters.objectives(&self.samples());
        }
    }
}
