//! The breakers of a pool's models, as targets of routes.

use std::collections::BTreeMap;
use std::sync::Arc;

use maitred_config::ModelSettings;
use maitred_obs::PoolMeters;
use maitred_route::breaker::{Admission, Breaker, BreakerOptions, CallEnd, Pass, Turn};
use maitred_types::{ModelName, Time};
use parking_lot::Mutex;

/// The breaker of one target.
#[derive(Debug)]
pub struct TargetBreaker {
    model: ModelName,
    meters: Arc<PoolMeters>,
    core: Mutex<Breaker>,
}

impl TargetBreaker {
    /// Whether a call may go to the target now.
    #[must_use]
    pub fn ask(&self, now: Time) -> Admission {
        self.core.lock().ask(now)
    }

    /// Learns what came of a call that was let through.
    pub fn end(&self, pass: Pass, end: CallEnd, now: Time) {
        let turn = self.core.lock().end(pass, end, now);
        match turn {
            Some(Turn::Opened { reason, until }) => {
                self.meters.event("breaker_opened");
                let (model, reason, seconds) = (self.model.as_str(), reason.label(), until.since(now).as_secs_f64());
                tracing::warn!(model, reason, seconds, "a target is left alone for a while");
            }
            Some(Turn::Closed) => {
                self.meters.event("breaker_closed");
                tracing::info!(
                    model = self.model.as_str(),
                    "a target that was left alone answers again"
                );
            }
            None => {}
        }
    }
}

/// The breakers of a pool, by the names of its models. They outlive a reload of the settings.
#[derive(Debug, Default)]
pub(crate) struct Breakers(Mutex<BTreeMap<ModelName, Arc<TargetBreaker>>>);

impl Breakers {
    /// That of `model`.
    pub(crate) fn of(&self, model: &ModelName, meters: &Arc<PoolMeters>) -> Arc<TargetBreaker> {
        let mut all = self.0.lock();
        let made = || {
            Arc::new(TargetBreaker {
                model: model.clone(),
                meters: Arc::clone(meters),
                core: Mutex::new(Breaker::new(BreakerOptions::default())),
            })
        };
        Arc::clone(all.entry(model.clone()).or_insert_with(made))
    }

    /// Forgets what is not one of `models`.
    pub(crate) fn keep(&self, models: &[ModelSettings]) {
        self.0
            .lock()
            .retain(|name, _| models.iter().any(|model| model.name == *name));
    }
}
