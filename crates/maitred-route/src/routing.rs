//! The table of targets, the routes over it, and how a route becomes a plan.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use maitred_types::{DegradeReason, DegradeReasons, ModelName};
use smallvec::SmallVec;

use crate::choice::{Choice, Choose, Share};
use crate::condition::Condition;
use crate::facts::{Degrade, Facts};
use crate::plan::{Evidence, Hop, Plan, Planned, TargetId};
use crate::rule::Route;
use crate::target::{Estimate, Offer, Unfit};

/// What lets a call go from one target to the next of those that its rule names: whatever may pass elsewhere.
const MOVES_ON: DegradeReasons = DegradeReasons::of(&[
    DegradeReason::Timeout,
    DegradeReason::Quota,
    DegradeReason::Error,
    DegradeReason::Overload,
    DegradeReason::ContextLength,
    DegradeReason::Unavailable,
]);

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

/// A type of task that calls are of which do not say themselves: the first whose conditions they meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskType {
    /// Its name.
    pub name: Arc<str>,
    /// What a call has to meet, all of it.
    pub when: Vec<Condition>,
}

/// How the type of a call's task is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskTypes {
    /// The header in which calls name it, in lower case.
    pub header: Arc<str>,
    /// What calls are that do not name it, the first that they meet.
    pub types: Vec<TaskType>,
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
    tasks: TaskTypes,
}

/// A place in a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A target of a rule, or of those where no rule matches.
    Target {
        /// The place of the rule.
        rule: Option<usize>,
        /// Its place there.
        target: usize,
    },
    /// A fallback.
    Fallback(usize),
}

/// Why a name leads nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRoute {
    /// Nothing has this name.
    Unknown,
    /// There is a route of this name, and no rule of it for this call's version.
    Version,
    /// The caller may not use it.
    NotAllowed,
}

impl Routing {
    /// A table of these targets, in their order, and these routes over them. A route takes the place of a target of its name.
    #[must_use]
    pub fn new(offers: Vec<Offer>, routes: Vec<Route>, tasks: TaskTypes) -> Self {
        let direct = offers
            .iter()
            .zip(0..)
            .map(|(offer, id)| (offer.model.clone(), TargetId(id)));
        Self {
            direct: direct.collect(),
            order: routes.iter().map(|route| route.model.clone()).collect(),
            routes: routes.into_iter().map(|route| (route.model.clone(), route)).collect(),
            offers,
            tasks,
        }
    }

    /// All targets, in the order of their ids.
    #[must_use]
    pub fn offers(&self) -> &[Offer] {
        &self.offers
    }

    /// What a target offers.
    #[must_use]
    pub fn offer(&self, target: TargetId) -> Option<&Offer> {
        self.offers.get(usize::from(target.0))
    }

    /// The route of that name, with or without a version after `@`, and the version.
    #[must_use]
    pub fn route<'m>(&self, model: &'m str) -> Option<(&Route, Option<&'m str>)> {
        if let Some(route) = self.routes.get(model) {
            return Some((route, None));
        }
        if self.direct.contains_key(model) {
            return None;
        }
        let (name, version) = model.rsplit_once('@')?;
        Some((self.routes.get(name)?, Some(version)))
    }

    /// The first target of a name, whatever rules may say of a call.
    #[must_use]
    pub fn usual_target(&self, model: &str) -> Option<TargetId> {
        match self.route(model) {
            Some((route, _)) => route.otherwise.targets.first().map(|share| share.target),
            None => self.direct.get(model).copied(),
        }
    }

    /// Every name that a call may ask for, those of pools first, each in its order.
    pub fn names(&self) -> impl Iterator<Item = &ModelName> {
        let own = self.order.iter().filter(|name| !self.direct.contains_key(*name));
        self.offers.iter().map(|offer| &offer.model).chain(own)
    }

    /// The routes, by name.
    pub fn routes(&self) -> impl Iterator<Item = &Route> {
        self.routes.values()
    }

    /// The first place of a route at which a call may be answered with less than it asks for, if there is one.
    #[must_use]
    pub fn degrading(&self, route: &Route) -> Option<Place> {
        let differ = |one: TargetId, two: TargetId| {
            let (one, two) = (self.offer(one), self.offer(two));
            one.zip(two).is_some_and(|(one, two)| one.degrades(two).is_some())
        };
        for (place, (_, choice)) in route.choices().enumerate() {
            let first = choice.targets.first().filter(|_| choice.choose != Choose::Weight);
            let is_less = |share: &Share| first.is_some_and(|first| differ(share.target, first.target));
            if let Some(target) = choice.targets.iter().position(is_less) {
                let rule = (place < route.rules.len()).then_some(place);
                return Some(Place::Target { rule, target });
            }
        }
        let is_less = |fallback: &Fallback| {
            let mut asked = route.choices().flat_map(|(_, choice)| &choice.targets);
            asked.any(|share| differ(fallback.target, share.target))
        };
        route.fallback.iter().position(is_less).map(Place::Fallback)
    }

    /// The type of task of a call: what it says itself, else the first that its shape meets.
    #[must_use]
    pub fn task<'a>(&'a self, facts: &Facts<'a>) -> Option<&'a str> {
        let meets = |task: &&TaskType| task.when.iter().all(|condition| condition.holds(facts));
        let named = facts.task.or_else(|| facts.says.header(&self.tasks.header));
        named.or_else(|| self.tasks.types.iter().find(meets).map(|task| &*task.name))
    }

    /// Where a call for `model` is to be tried.
    ///
    /// # Errors
    /// Says why the name leads nowhere.
    pub fn plan(&self, model: &str, facts: &Facts<'_>) -> Result<Planned, NoRoute> {
        let Some((route, version)) = self.route(model) else {
            let (asked, target) = self.direct.get_key_value(model).ok_or(NoRoute::Unknown)?;
            if !(facts.may_use)(model) {
                return Err(NoRoute::NotAllowed);
            }
            return Ok(Planned {
                asked: asked.clone(),
                plan: Plan::single(*target),
                evidence: Evidence::default(),
            });
        };
        let is_granted = |name: &str| (facts.may_use)(name);
        if !(is_granted(route.model.as_str()) || version.is_some() && is_granted(model)) {
            return Err(NoRoute::NotAllowed);
        }
        let facts = &Facts {
            task: self.task(facts),
            ..*facts
        };
        let mut evidence = Evidence::default();
        let choice = choice(route, version, (facts, &mut evidence)).ok_or(NoRoute::Version)?;
        let planner = Planner {
            routing: self,
            route,
            facts,
        };
        let plan = planner.plan(choice, &mut evidence);
        Ok(Planned {
            asked: route.model.clone(),
            plan,
            evidence,
        })
    }
}

/// Where the route sends a call, with what has been looked at to find out. None if it asks for a version that no rule is for: then
/// anything else would be another version than it asked for.
fn choice<'r>(
    route: &'r Route,
    version: Option<&str>,
    (facts, evidence): (&Facts<'_>, &mut Evidence),
) -> Option<&'r Choice> {
    for rule in &route.rules {
        match rule.misses(version, facts) {
            Some(condition) => evidence.missed.push((Arc::clone(&rule.name), condition)),
            None => {
                evidence.rule = Some(Arc::clone(&rule.name));
                return Some(&rule.then);
            }
        }
    }
    version.is_none().then_some(&route.otherwise)
}

/// What the plan of one call is made of.
struct Planner<'p> {
    routing: &'p Routing,
    route: &'p Route,
    facts: &'p Facts<'p>,
}

impl Planner<'_> {
    fn plan(&self, choice: &Choice, evidence: &mut Evidence) -> Plan {
        let salt = evidence.rule.clone();
        let salt = (self.route.model.as_str(), salt.as_deref().unwrap_or_default());
        let mut unfit = None;
        let shares = choice.order(self.facts, salt, |target| {
            let why = self.lacks(target, choice.quality, Estimate::Doubted);
            evidence.skipped.extend(why.map(|why| (target, why)));
            unfit = unfit.or(why);
            why.is_none()
        });
        let first = shares.first().or_else(|| choice.targets.first());
        let asked = first.and_then(|share| self.routing.offer(share.target));
        let mut hops = self.alternatives(choice, &shares, (asked, evidence));
        if hops.is_empty() {
            evidence.entry = unfit.map(Unfit::reason);
        }
        self.fallbacks(&mut hops, (asked, evidence));
        if hops.is_empty() {
            // Nothing can carry the call. What it asked for says so best.
            evidence.entry = None;
            hops.extend(first.map(|share| hop(share, DegradeReasons::NONE)));
        }
        Plan { hops }
    }

    /// The targets of the choice that the call may be tried on.
    fn alternatives(
        &self,
        choice: &Choice,
        shares: &[Share],
        (asked, evidence): (Option<&Offer>, &mut Evidence),
    ) -> SmallVec<[Hop; 2]> {
        let mut hops: SmallVec<[Hop; 2]> = SmallVec::new();
        for share in shares {
            let on = if hops.is_empty() {
                DegradeReasons::NONE
            } else {
                MOVES_ON
            };
            let degrades = self.degrades(share.target, asked);
            if choice.choose == Choose::Weight && degrades.is_some() {
                continue;
            }
            if degrades.is_some() && self.facts.degrade == Degrade::Refused {
                evidence.skipped.push((share.target, Unfit::Refused));
                continue;
            }
            hops.push(Hop {
                degrades,
                ..hop(share, on)
            });
        }
        hops
    }

    fn fallbacks(&self, hops: &mut SmallVec<[Hop; 2]>, (asked, evidence): (Option<&Offer>, &mut Evidence)) {
        for fallback in &self.route.fallback {
            // What weights have chosen may also be a fallback of what they have not.
            if hops.iter().any(|hop| hop.target == fallback.target) {
                continue;
            }
            let degrades = self.degrades(fallback.target, asked);
            let unfit = match evidence.entry {
                Some(entry) if hops.is_empty() && !fallback.on.contains(entry) => Some(Unfit::OtherReason),
                _ if degrades.is_some() && self.facts.degrade == Degrade::Refused => Some(Unfit::Refused),
                _ if !self.is_granted(fallback.target) => Some(Unfit::NotGranted),
                _ => self.lacks(fallback.target, None, Estimate::Trusted),
            };
            if let Some(unfit) = unfit {
                evidence.skipped.push((fallback.target, unfit));
                continue;
            }
            hops.push(Hop {
                target: fallback.target,
                on: fallback.on,
                within: fallback.within,
                degrades,
            });
        }
    }

    fn degrades(&self, target: TargetId, asked: Option<&Offer>) -> Option<maitred_types::DegradeKind> {
        self.routing.offer(target)?.degrades(asked?)
    }

    fn is_granted(&self, target: TargetId) -> bool {
        let offer = self.routing.offer(target);
        offer.is_some_and(|offer| (self.facts.may_use)(offer.model.as_str()))
    }

    fn lacks(&self, target: TargetId, quality: Option<u32>, estimate: Estimate) -> Option<Unfit> {
        let offer = self.routing.offer(target)?;
        if quality.is_some_and(|least| offer.quality.is_none_or(|quality| quality < least)) {
            return Some(Unfit::Quality);
        }
        offer.carries.lacks(self.facts, estimate)
    }
}

fn hop(share: &Share, on: DegradeReasons) -> Hop {
    Hop {
        target: share.target,
        on,
        within: share.within,
        degrades: None,
    }
}

#[cfg(test)]
mod tests;
