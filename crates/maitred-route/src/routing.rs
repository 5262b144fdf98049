//! The table of targets, the routes over it, and how a route becomes a plan.

use std::collections::BTreeMap;
use std::time::Duration;

use maitred_types::{DegradeReason, DegradeReasons, ModelName};
use smallvec::SmallVec;

use crate::facts::Facts;
use crate::plan::{Hop, Plan, TargetId};
use crate::target::Offer;

/// What lets a call go from one target to the next of those that its rule names: whatever may pass elsewhere.
const MOVES_ON: DegradeReasons = DegradeReasons::of(&[
    DegradeReason::Timeout,
    DegradeReason::Quota,
    DegradeReason::Error,
    DegradeReason::Overload,
    DegradeReason::ContextLength,
    DegradeReason::Unavailable,
]);

/// Where the calls of a name go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The name that clients ask for.
    pub model: ModelName,
    /// Where calls go that no rule is for.
    pub otherwise: Choice,
    /// Where they go on, in order, when what they asked for does not answer.
    pub fallback: Vec<Fallback>,
}

/// Targets, and how one of them is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The targets, in the order of the file; at least one.
    pub targets: Vec<Share>,
    /// How the first is chosen.
    pub choose: Choose,
}

/// A target among those of a choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which.
    pub target: TargetId,
    /// Its part of the calls, as against the sum of all parts.
    pub weight: u32,
    /// Most time that a call may spend there.
    pub within: Option<Duration>,
}

/// How one of several targets is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choose {
    /// The first; the others when it does not answer.
    #[default]
    Order,
    /// By weight.
    Weight,
}

impl Choose {
    /// Every way, in order.
    pub const ALL: &'static [Self] = &[Self::Order, Self::Weight];

    /// The word in the configuration.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Weight => "weight",
        }
    }

    /// What it does, for the reference page.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Order => "The first; when it does not answer the next, and so on.",
            Self::Weight => {
                "By weight, so that each gets its part of the calls. When the chosen one does not answer, those that are the same model stand in."
            }
        }
    }
}

/// A target that calls go on to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// What must have happened before.
    pub on: DegradeReasons,
    /// Which.
    pub target: TargetId,
    /// Most time that a call may spend there.
    pub within: Option<Duration>,
}

/// All targets and routes of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    offers: Vec<Offer>,
    routes: BTreeMap<ModelName, Route>,
    /// The names of the routes, in the order of the file.
    order: Vec<ModelName>,
    /// The target of each model of a pool, by its name there.
    direct: BTreeMap<ModelName, TargetId>,
}

/// Why a name leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoute {
    /// Nothing has this name.
    Unknown,
    /// The caller may not use it.
    NotAllowed,
}

/// Where a call is to be tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The name of the route or of the pool's model that was asked for.
    pub asked: ModelName,
    /// The targets.
    pub plan: Plan,
}

impl Routing {
    /// A table of these targets, in their order, and these routes over them. A route takes the place of a target of its name.
    #[must_use]
    pub fn new(offers: Vec<Offer>, routes: Vec<Route>) -> Self {
        let direct = offers
            .iter()
            .zip(0..)
            .map(|(offer, id)| (offer.model.clone(), TargetId(id)));
        Self {
            direct: direct.collect(),
            order: routes.iter().map(|route| route.model.clone()).collect(),
            routes: routes.into_iter().map(|route| (route.model.clone(), route)).collect(),
            offers,
        }
    }

    /// All targets, in the order of their ids.
    #[must_use]
    pub fn offers(&self) -> &[Offer] {
        &self.offers
    }

    /// The routes, by name.
    pub fn routes(&self) -> impl Iterator<Item = &Route> {
        self.routes.values()
    }

    /// The route of that name.
    #[must_use]
    pub fn route(&self, model: &str) -> Option<&Route> {
        self.routes.get(model)
    }

    /// The place of the first target of a route, its fallbacks counted after its targets, that answers less than was asked for. None if
    /// whatever answers is what was asked for.
    #[must_use]
    pub fn degrading(&self, route: &Route) -> Option<usize> {
        let choice = &route.otherwise;
        let asked = self.offer(choice.targets.first()?.target)?;
        let is_less = |target| {
            let offer = self.offer(target);
            offer.is_some_and(|offer| offer.degrades(asked).is_some())
        };
        let moves_on = choice.choose != Choose::Weight;
        let targets = choice.targets.iter().map(|share| (share.target, moves_on));
        let mut all = targets.chain(route.fallback.iter().map(|fallback| (fallback.target, true)));
        all.position(|(target, is_reached)| is_reached && is_less(target))
    }

    /// Where a call for `model` is to be tried.
    ///
    /// # Errors
    /// Says why the name leads nowhere.
    pub fn plan(&self, model: &str, facts: &Facts<'_>) -> Result<Planned, NoRoute> {
        if let Some((asked, route)) = self.routes.get_key_value(model) {
            return Ok(Planned {
                asked: asked.clone(),
                plan: self.planned(route, facts),
            });
        }
        let (asked, target) = self.direct.get_key_value(model).ok_or(NoRoute::Unknown)?;
        Ok(Planned {
            asked: asked.clone(),
            plan: Plan::single(*target),
        })
    }

    /// Every name that a call may ask for, those of pools first, each in its order.
    pub fn names(&self) -> impl Iterator<Item = &ModelName> {
        let own = self.order.iter().filter(|name| !self.direct.contains_key(*name));
        self.offers.iter().map(|offer| &offer.model).chain(own)
    }

    fn planned(&self, route: &Route, facts: &Facts<'_>) -> Plan {
        let choice = &route.otherwise;
        let first = match choice.choose {
            Choose::Order => 0,
            Choose::Weight => drawn(&choice.targets, facts.draw),
        };
        let asked = choice.targets.get(first).and_then(|share| self.offer(share.target));
        let degrades = |target| asked.and_then(|asked| self.offer(target)?.degrades(asked));
        let mut hops = SmallVec::new();
        let rest = choice.targets.iter().enumerate().filter(|(place, _)| *place != first);
        for share in choice
            .targets
            .get(first)
            .into_iter()
            .chain(rest.map(|(_, share)| share))
        {
            let degrades = degrades(share.target);
            if choice.choose == Choose::Weight && degrades.is_some() {
                continue;
            }
            hops.push(Hop {
                target: share.target,
                on: if hops.is_empty() {
                    DegradeReasons::NONE
                } else {
                    MOVES_ON
                },
                within: share.within,
                degrades,
            });
        }
        for fallback in &route.fallback {
            // What weights have chosen may also be a fallback of what they have not.
            if hops.iter().any(|hop: &Hop| hop.target == fallback.target) {
                continue;
            }
            hops.push(Hop {
                target: fallback.target,
                on: fallback.on,
                within: fallback.within,
                degrades: degrades(fallback.target),
            });
        }
        Plan { hops }
    }

    fn offer(&self, target: TargetId) -> Option<&Offer> {
        self.offers.get(usize::from(target.0))
    }
}

/// The place of the target that a number stands for.
fn drawn(targets: &[Share], draw: u64) -> usize {
    let sum: u64 = targets.iter().map(|share| u64::from(share.weight)).sum();
    // The high half of a product spreads the number over the sum without the bias of a remainder.
    let mut left = u64::try_from((u128::from(draw) * u128::from(sum)) >> 64).unwrap_or(0);
    for (place, share) in targets.iter().enumerate() {
        match left.checked_sub(u64::from(share.weight)) {
            Some(rest) => left = rest,
            None => return place,
        }
    }
    0
}

#[cfg(test)]
mod tests;
