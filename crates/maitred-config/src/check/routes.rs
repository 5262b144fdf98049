//! Checks of `routes`: what names lead to.

use std::collections::BTreeSet;
use std::sync::Arc;

use maitred_route::{Carries, Choice, Choose, Fallback, Offer, Route, Routing, Share, TargetId};
use maitred_types::{DegradeReasons, ModelName, PoolName, TokenCount};

use super::Checker;
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
        let table = Table::of(&file.pools);
        if table.offers.len() > usize::from(u16::MAX) {
            self.error(
                &Path::top("pools"),
                format!("{} models are too many", table.offers.len()),
                format!("all pools together may have at most {}", u16::MAX),
            );
        }
        let routes = file.routes.iter().enumerate();
        let routes: Vec<Route> = routes
            .filter_map(|(index, route)| self.route(route, &table, &top.index(index)))
            .collect();
        let routing = Routing::new(table.offers, routes);
        if file.degradation.objective.is_none() {
            self.needs_objective(file, &routing);
        }
        routing
    }

    fn route(&mut self, route: &raw::Route, table: &Table, path: &Path) -> Option<Route> {
        let otherwise = self.choice(route, table, path);
        let fallback = route.fallback.iter().enumerate();
        let fallback = fallback
            .map(|(index, fallback)| self.fallback(fallback, table, &path.key("fallback").index(index)))
            .collect::<Vec<_>>();
        Some(Route {
            model: ModelName::from(route.model.as_str()),
            otherwise: otherwise?,
            fallback: fallback.into_iter().collect::<Option<_>>()?,
        })
    }

    fn choice(&mut self, route: &raw::Route, table: &Table, path: &Path) -> Option<Choice> {
        if route.targets.is_empty() {
            return self.same_named(route, table, path);
        }
        let at = path.key("targets");
        let has_weights = route.targets.iter().any(|target| target.weight.is_some());
        let choose = match route.choose {
            Some(choose) => choose.0,
            None if has_weights => Choose::Weight,
            None => Choose::Order,
        };
        if choose == Choose::Weight && route.targets.iter().all(|target| target.weight == Some(0)) {
            self.error(
                &at,
                "all weights are 0, so no call goes anywhere",
                "give a weight above 0 to at least one target",
            );
        }
        let mut seen = BTreeSet::new();
        let mut shares = Vec::new();
        for (index, target) in route.targets.iter().enumerate() {
            let path = at.index(index);
            if choose != Choose::Weight && target.weight.is_some() {
                self.error(
                    &path.key("weight"),
                    format!("with `choose: {}` weights say nothing", choose.label()),
                    "leave it out, or write `choose: weight`",
                );
            }
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
        })
    }

    /// The pool's model that has the route's own name.
    fn same_named(&mut self, route: &raw::Route, table: &Table, path: &Path) -> Option<Choice> {
        let Some(target) = table.by_model(route.model.as_str()) else {
            if !self
                .written(&["pools", "models", "name"])
                .contains(&route.model.as_str())
            {
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
            choose: Choose::Order,
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
        if self.is_broken(&Path::top("pools")) {
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

    /// What answers with another model than the one asked for must not do so unseen.
    fn needs_objective(&mut self, file: &raw::File, routing: &Routing) {
        for (index, route) in file.routes.iter().enumerate() {
            let Some(checked) = routing.route(route.model.as_str()) else {
                continue;
            };
            if let Some(place) = routing.degrading(checked) {
                let path = Path::top("routes").index(index);
                let path = match place.checked_sub(checked.otherwise.targets.len()) {
                    Some(fallback) => path.key("fallback").index(fallback),
                    None => path.key("targets").index(place),
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
}

fn with_guess(near: Option<&str>, help: String) -> String {
    match near {
        Some(near) => format!("did you mean `{near}`?\n{help}"),
        None => help,
    }
}

/// The targets of a file, in its order.
struct Table {
    offers: Vec<Offer>,
}

impl Table {
    fn of(pools: &[raw::Pool]) -> Self {
        let offers = pools.iter().flat_map(|pool| {
            let models = pool.models.iter();
            models.map(|model| offer(pool, model))
        });
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

fn offer(pool: &raw::Pool, model: &raw::Model) -> Offer {
    let text = |name: &Name| Arc::from(name.as_str());
    let served_as = model.served_as.as_ref().unwrap_or(&model.name);
    Offer {
        pool: PoolName::from(pool.name.as_str()),
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
