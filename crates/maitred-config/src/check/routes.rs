//! Checks of `routes`: what names lead to.

use std::collections::BTreeSet;
use std::sync::Arc;

use maitred_route::{Carries, Choice, Choose, Fallback, Offer, Place, Route, Routing, Share, Sticky, TargetId};
use maitred_types::{DegradeReasons, ModelName, PoolName, TokenCount};

use super::Checker;
use super::rules::Known;
use crate::diagnostic::{listed, near_miss};
use crate::forms::{Name, TimeSpan};
use crate::path::Path;
use crate::raw;

/// The lines that a file needs whose routes can degrade an answer.
const OBJECTIVE: &str = "say how many such answers are too many; add at the top of the file:\n\
                         degradation:\n  objective: { ratio: 5%, window: 3m, on_breach: alert }";

impl Checker<'_> {
    pub(super) fn routing(&mut self, file: &raw::File) -> Routing {
        let top = Path::top("routes");
        let names = file.routes.iter().enumerate();
        self.unique(
            "route",
            names.map(|(index, route)| (route.model.as_str(), top.index(index).key("model"))),
        );
        let table = Table::of(file);
        if table.offers.len() > usize::from(u16::MAX) {
            self.error(
                &Path::top("pools"),
                format!("{} models are too many", table.offers.len()),
                format!("all pools together may have at most {}", u16::MAX),
            );
        }
        let known = Known::of(file);
        let mut routes = Vec::new();
        for (index, route) in file.routes.iter().enumerate() {
            routes.extend(self.route(route, (&table, &known), &top.index(index)));
        }
        let tasks = self.task_types(&file.tasks);
        let routing = Routing::new(table.offers, routes, tasks);
        if file.degradation.objective.is_none() {
            self.needs_objective(file, &routing);
        }
        routing
    }

    fn route(&mut self, route: &raw::Route, (table, known): (&Table, &Known<'_>), path: &Path) -> Option<Route> {
        let rules = self.rules(&route.rules, (table, known), &path.key("rules"));
        let otherwise = if route.targets.is_empty() {
            self.same_named(route, table, path)
        } else {
            self.choice(&Chooser::of_route(route), (table, known), path)
        };
        let fallback = route.fallback.iter().enumerate();
        let fallback = fallback
            .map(|(index, fallback)| self.fallback(fallback, table, &path.key("fallback").index(index)))
            .collect::<Vec<_>>();
        let checked = Route {
            model: ModelName::from(route.model.as_str()),
            rules: rules?,
            otherwise: otherwise?,
            fallback: fallback.into_iter().collect::<Option<_>>()?,
        };
        self.out_of_reach(route, &checked, path);
        self.useless_fallbacks(&checked, path);
        Some(checked)
    }

    pub(super) fn choice(
        &mut self,
        chooser: &Chooser<'_>,
        (table, known): (&Table, &Known<'_>),
        path: &Path,
    ) -> Option<Choice> {
        let at = path.key("targets");
        let choose = chooser.choose();
        self.weights_of(chooser, choose, path);
        self.qualities(chooser, (table, known), path);
        let mut seen = BTreeSet::new();
        let mut shares = Vec::new();
        for (index, target) in chooser.targets.iter().enumerate() {
            let path = at.index(index);
            if let Some(within) = target.within {
                self.positive(within, &path.key("within"));
            }
            let id = self.target((&target.pool, &target.model), table, &path);
            if id.is_some_and(|id| !seen.insert(id)) {
                self.error(&path, "this target is named twice", "leave one of them out");
            }
            shares.push(id.map(|target_id| Share {
                target: target_id,
                weight: target.weight.unwrap_or(1),
                within: target.within.map(TimeSpan::get),
            }));
        }
        Some(Choice {
            targets: shares.into_iter().collect::<Option<_>>()?,
            choose,
            sticky: match chooser.sticky {
                None => Sticky::Nothing,
                Some(raw::Sticky::Session) => Sticky::Session,
                Some(raw::Sticky::User) => Sticky::User,
            },
            quality: chooser.quality,
        })
    }

    fn weights_of(&mut self, chooser: &Chooser<'_>, choose: Choose, path: &Path) {
        let at = path.key("targets");
        if choose == Choose::Weight {
            if chooser.targets.iter().all(|target| target.weight == Some(0)) {
                self.error(
                    &at,
                    "all weights are 0, so no call goes anywhere",
                    "give a weight above 0 to at least one target",
                );
            }
            return;
        }
        let weighted = chooser.targets.iter().position(|target| target.weight.is_some());
        if let Some(index) = weighted {
            self.error(
                &at.index(index).key("weight"),
                format!("with `choose: {}` weights say nothing", choose.label()),
                "leave it out, or write `choose: weight`",
            );
        }
        if chooser.sticky.is_some() {
            self.error(
                &path.key("sticky"),
                format!("with `choose: {}` all calls go the same way", choose.label()),
                "leave it out, or give the targets a `weight` each",
            );
        }
    }

    /// What `choose: cost` compares has to be there.
    fn qualities(&mut self, chooser: &Chooser<'_>, (table, known): (&Table, &Known<'_>), path: &Path) {
        let is_by_cost = chooser.choose() == Choose::Cost;
        if is_by_cost && !known.has_prices {
            self.error(
                &path.key("choose"),
                "there are no prices, so nothing says what is cheap",
                "add `prices` for the models of `targets`",
            );
        }
        let Some(least) = chooser.quality else { return };
        let at = path.key("quality");
        if !is_by_cost {
            self.error(
                &at,
                "a least quality is for targets that are chosen by cost",
                "leave it out, or write `choose: cost`",
            );
            return;
        }
        let offers = chooser.targets.iter().filter_map(|target| {
            let id = table.find(target.pool.as_str(), target.model.as_str())?;
            table.offers.get(usize::from(id.0))
        });
        let offers: Vec<&Offer> = offers.collect();
        let is_enough = |offer: &&Offer| offer.quality.is_some_and(|quality| quality >= least);
        if offers.len() == chooser.targets.len() && !offers.iter().any(is_enough) {
            self.error(
                &at,
                format!("no target is of quality {least}"),
                "say with `quality` at the models of `pools` how good they are, or ask for less",
            );
        }
    }

    /// The pool's model that has the route's own name.
    fn same_named(&mut self, route: &raw::Route, table: &Table, path: &Path) -> Option<Choice> {
        let Some(target) = table.by_model(route.model.as_str()) else {
            if !self.written_models().contains(&route.model.as_str()) {
                self.error(
                    path,
                    format!("the route `{}` leads nowhere", route.model),
                    "add `targets` with a `pool` and a `model` each; only a route with the name of a pool's model can do without",
                );
            }
            return None;
        };
        Some(Choice {
            targets: vec![Share {
                target,
                weight: 1,
                within: None,
            }],
            ..Choice::default()
        })
    }

    fn fallback(&mut self, fallback: &raw::Fallback, table: &Table, path: &Path) -> Option<Fallback> {
        let reasons: Vec<_> = fallback.on.iter().map(|reason| reason.0).collect();
        if let Some(within) = fallback.within {
            self.positive(within, &path.key("within"));
        }
        Some(Fallback {
            on: DegradeReasons::of(&reasons),
            target: self.target((&fallback.pool, &fallback.model), table, path)?,
            within: fallback.within.map(TimeSpan::get),
        })
    }

    /// The target of these names, if the pool has the model.
    fn target(&mut self, (pool, model): (&Name, &Name), table: &Table, path: &Path) -> Option<TargetId> {
        if let Some(found) = table.find(pool.as_str(), model.as_str()) {
            return Some(found);
        }
        if self.is_broken(&Path::top("pools")) || self.is_broken(&Path::top("providers")) {
            return None;
        }
        let pools = table.pools();
        if !pools.contains(pool.as_str()) {
            let near = near_miss(pool.as_str(), pools.iter().copied());
            self.error(
                &path.key("pool"),
                format!("there is no pool `{pool}`"),
                with_guess(near, format!("pools: {}", listed(pools.iter().copied(), "and"))),
            );
            return None;
        }
        let models = table.models_of(pool.as_str());
        let help = match table
            .by_model(model.as_str())
            .and_then(|id| table.offers.get(usize::from(id.0)))
        {
            Some(elsewhere) => format!("it is a model of the pool `{}`", elsewhere.pool),
            None => with_guess(
                near_miss(model.as_str(), models.iter().copied()),
                format!("models there: {}", listed(models.iter().copied(), "and")),
            ),
        };
        self.error(
            &path.key("model"),
            format!("the pool `{pool}` has no model `{model}`"),
            help,
        );
        None
    }

    /// A fallback to what the route asks for anyhow comes too late to be of use.
    fn useless_fallbacks(&mut self, route: &Route, path: &Path) {
        let at = path.key("fallback");
        let mut seen = BTreeSet::new();
        for (index, fallback) in route.fallback.iter().enumerate() {
            let is_asked = |choice: &Choice| {
                let is_it = |share: &Share| share.target == fallback.target;
                // Weights leave out what they do not draw.
                let may_be_elsewhere = choice.choose == Choose::Weight && choice.targets.len() > 1;
                choice.targets.iter().any(is_it) && !may_be_elsewhere
            };
            if route.choices().all(|(_, choice)| is_asked(choice)) {
                self.error(
                    &at.index(index),
                    "every call has been tried here already when it falls back",
                    "name another model; the targets of a route stand in for each other without a fallback",
                );
            }
            if !seen.insert(fallback.target) {
                self.error(
                    &at.index(index),
                    "this target is named twice",
                    "a call tries no target twice: leave one of them out, and write all reasons into one `on`",
                );
            }
        }
    }

    /// What answers with another model than the one asked for must not do so unseen.
    fn needs_objective(&mut self, file: &raw::File, routing: &Routing) {
        for (index, route) in file.routes.iter().enumerate() {
            let Some((checked, None)) = routing.route(route.model.as_str()) else {
                continue;
            };
            let Some(place) = routing.degrading(checked) else {
                continue;
            };
            let path = Path::top("routes").index(index);
            let path = match place {
                Place::Fallback(fallback) => path.key("fallback").index(fallback),
                Place::Target { rule: None, target } => path.key("targets").index(target),
                Place::Target {
                    rule: Some(rule),
                    target,
                } => path.key("rules").index(rule).key("targets").index(target),
            };
            self.error(
                &path,
                format!(
                    "calls for `{}` may be answered by another model here, and nothing says how many may be",
                    route.model
                ),
                OBJECTIVE,
            );
            return;
        }
    }
}

/// Targets as they are written, and how one of them is to be chosen.
pub(super) struct Chooser<'f> {
    targets: &'f [raw::Target],
    choose: Option<Choose>,
    sticky: Option<raw::Sticky>,
    quality: Option<u32>,
}

impl<'f> Chooser<'f> {
    fn of_route(route: &'f raw::Route) -> Self {
        Self {
            targets: &route.targets,
            choose: route.choose.map(|choose| choose.0),
            sticky: route.sticky,
            quality: route.quality,
        }
    }

    pub(super) fn of_rule(rule: &'f raw::Rule) -> Self {
        Self {
            targets: &rule.targets,
            choose: rule.choose.map(|choose| choose.0),
            sticky: rule.sticky,
            quality: rule.quality,
        }
    }

    fn choose(&self) -> Choose {
        let has_weights = || self.targets.iter().any(|target| target.weight.is_some());
        self.choose.unwrap_or_else(|| match has_weights() {
            true => Choose::Weight,
            false => Choose::Order,
        })
    }
}

fn with_guess(near: Option<&str>, help: String) -> String {
    match near {
        Some(near) => format!("did you mean `{near}`?\n{help}"),
        None => help,
    }
}

/// The targets of a file, in its order.
pub(super) struct Table {
    pub(super) offers: Vec<Offer>,
}

impl Table {
    fn of(file: &raw::File) -> Self {
        let of_pools = file.pools.iter().flat_map(|pool| {
            let models = pool.models.iter();
            models.map(|model| offer(&pool.name, model))
        });
        let of_providers = file.providers.iter().flat_map(|provider| {
            let models = provider.models.iter();
            models.map(|model| Offer {
                provider: Some(Arc::from(provider.name.as_str())),
                ..offer(&provider.name, model)
            })
        });
        let offers = of_pools.chain(of_providers);
        Self {
            offers: offers.collect(),
        }
    }

    fn position(&self, is_meant: impl Fn(&Offer) -> bool) -> Option<TargetId> {
        let place = self.offers.iter().position(is_meant)?;
        u16::try_from(place).ok().map(TargetId)
    }

    fn find(&self, pool: &str, model: &str) -> Option<TargetId> {
        self.position(|offer| offer.pool.as_str() == pool && offer.model.as_str() == model)
    }

    fn by_model(&self, model: &str) -> Option<TargetId> {
        self.position(|offer| offer.model.as_str() == model)
    }

    fn pools(&self) -> BTreeSet<&str> {
        self.offers.iter().map(|offer| offer.pool.as_str()).collect()
    }

    fn models_of(&self, pool: &str) -> Vec<&str> {
        let offers = self.offers.iter().filter(|offer| offer.pool.as_str() == pool);
        offers.map(|offer| offer.model.as_str()).collect()
    }
}

fn offer(source: &Name, model: &raw::Model) -> Offer {
    let text = |name: &Name| Arc::from(name.as_str());
    let served_as = model.served_as.as_ref().unwrap_or(&model.name);
    Offer {
        pool: PoolName::from(source.as_str()),
        model: ModelName::from(model.name.as_str()),
        family: text(model.family.as_ref().unwrap_or(served_as)),
        quantization: model.quantization.as_ref().map(text),
        provider: None,
        quality: model.quality,
        carries: Carries {
            context: model.context.map(TokenCount::new),
            tools: model.tools,
            images: model.images,
            json_schema: model.json_schema,
        },
    }
}
