//! The shadow profiles of a pool: which asks they look at, and what they would have chosen.

use std::sync::Arc;

use fastrand::Rng;
use maitred_config::ShadowSettings;
use maitred_obs::{PoolMeters, ShadowMeters};
use maitred_sched::{Ask, Explain, Picked, Pool, Refusal, Shadow};
use maitred_types::{EndpointId, Time};

use crate::decision::ShadowChoice;

/// The shadows of one pool.
#[derive(Debug)]
pub(crate) struct Shadows {
    /// Of which settings they are.
    settings: ShadowSettings,
    /// Decides which asks they look at.
    rng: Rng,
    all: Vec<Named>,
}

#[derive(Debug)]
struct Named {
    profile: Arc<str>,
    shadow: Shadow,
    meters: ShadowMeters,
}

/// What one shadow would choose, until the live choice is known.
pub(crate) type Considered = Vec<Option<(EndpointId, &'static str)>>;

impl Shadows {
    /// The same seed and the same asks give the same choices.
    pub(crate) fn new(settings: &ShadowSettings, meters: &PoolMeters, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let named = settings.profiles.iter();
        let all = named.map(|(name, profile)| Named {
            profile: name.as_str().into(),
            shadow: Shadow::new(profile.clone(), rng.u64(..)),
            meters: meters.shadow(name),
        });
        Self {
            settings: settings.clone(),
            all: all.collect(),
            rng,
        }
    }

    pub(crate) fn is_of(&self, settings: &ShadowSettings) -> bool {
        self.settings == *settings
    }

    /// Lets every shadow look at the ask, if it is one of those that they look at. Call it before the live pick.
    pub(crate) fn consider(&mut self, pool: &mut Pool, ask: &Ask<'_>, now: Time) -> Considered {
        if self.all.is_empty() || self.rng.f64() >= self.settings.share {
            return Considered::new();
        }
        let ask = Ask {
            explain: Explain::Short,
            ..*ask
        };
        let each = self.all.iter_mut().map(|named| {
            let why = pool.consider(&ask, &mut named.shadow, now)?;
            let chosen = why.ranked().first()?.endpoint;
            Some((chosen, why.reason.label()))
        });
        each.collect()
    }

    /// Compares with the live choice, and counts.
    pub(crate) fn compare(&self, considered: Considered, live: &Result<Picked, Refusal>) -> Vec<ShadowChoice> {
        let live = live.as_ref().ok().map(|picked| picked.endpoint);
        let pairs = self.all.iter().zip(considered);
        let compared = pairs.map(|(named, chosen)| {
            let agrees = chosen.map(|(endpoint, _)| endpoint) == live;
            named.meters.considered(agrees);
            ShadowChoice {
                profile: Arc::clone(&named.profile),
                chosen,
                agrees,
            }
        });
        compared.collect()
    }
}
