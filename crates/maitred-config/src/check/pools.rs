//! Checks of `pools`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use maitred_engines::MappingError;
use maitred_sched::{
    OutlierOptions, PoolOptions, ReadinessOptions, ReckoningOptions, RetryOptions, SignalSet, StalenessOptions,
    StalenessPolicy,
};
use maitred_types::{ModelName, PoolName};

use super::Checker;
use super::engine::{self, Special};
use super::prefix;
use super::profiles::Profiles;
use crate::diagnostic::{listed, near_miss};
use crate::path::Path;
use crate::raw::{self, StartupCheck};
use crate::reach::Reach;
use crate::settings::{
    ClassSettings, Discovery, EndpointSettings, EngineSettings, ModelSettings, PoolSettings, Probes, ReadinessProbe,
    ScrapeSettings, StartupProbe,
};

/// Shortest scrape interval: below it the pages cost more than they tell.
const SCRAPE_INTERVAL_MIN: Duration = Duration::from_millis(10);

impl Checker<'_> {
    pub(super) fn pools(
        &mut self,
        file: &raw::File,
        profiles: &Profiles,
        classes: &ClassSettings,
    ) -> Vec<Arc<PoolSettings>> {
        self.names_of_pools(file);
        self.prefix_files(&file.pools);
        let top = Path::top("pools");
        let checked = file.pools.iter().enumerate();
        let mut pools: Vec<_> = checked
            .map(|(index, pool)| Arc::new(self.pool(pool, profiles, classes, &top.index(index))))
            .collect();
        pools.extend(self.providers(&file.providers, classes).into_iter().map(Arc::new));
        pools
    }

    /// Pools and providers share one set of names, and so do their models.
    fn names_of_pools(&mut self, file: &raw::File) {
        if file.pools.is_empty() && file.providers.is_empty() {
            self.error(
                &Path::top("pools"),
                "there is nowhere for calls to go: neither pools nor providers",
                "add `pools` with the endpoints that serve, or `providers` with hosted APIs",
            );
        }
        let (pools, providers) = (Path::top("pools"), Path::top("providers"));
        let places = (0..file.pools.len()).map(|index| pools.index(index));
        let places = places.chain((0..file.providers.len()).map(|index| providers.index(index)));
        let places: Vec<Path> = places.collect();
        let names = file.sources().zip(&places);
        self.unique(
            "pool name",
            names.map(|((name, _), path)| (name.as_str(), path.key("name"))),
        );
        let models = file.sources().zip(&places).flat_map(|((_, models), path)| {
            let at = path.key("models");
            let models = models.iter().enumerate();
            models.map(move |(index, model)| (model.name.as_str(), at.index(index).key("name")))
        });
        self.unique("model name", models);
    }

    fn pool(&mut self, pool: &raw::Pool, profiles: &Profiles, classes: &ClassSettings, path: &Path) -> PoolSettings {
        self.adapters(&pool.models, path);
        self.scrape(pool, path);
        self.probes(pool, path);
        self.health(pool, path);
        self.metrics(&pool.metrics, &path.key("metrics"));
        let endpoints = self.endpoints(pool, path);
        let discovery = self.discovery(pool, path);
        let engines = endpoints.iter().map(|endpoint| &endpoint.engine);
        let engines: Vec<_> = engines.chain(discovery.iter().map(|found| &found.engine)).collect();
        let waiting = self.waiting(&pool.waiting, classes, &path.key("waiting"));
        let profile_name = pool.profile.as_str();
        self.profile_of(pool, profiles, &engines, path);
        PoolSettings {
            name: PoolName::from(pool.name.as_str()),
            models: pool.models.iter().map(model).collect(),
            release: self.release(pool, &engines, path),
            session_header: pool.session_header.as_str().to_owned(),
            balance: pool.balance,
            prefix_block: pool.prefix.block,
            options: PoolOptions {
                waiting,
                ..options(pool)
            },
            prefix_file: self.prefix_file(&pool.prefix, &path.key("prefix")),
            profile: profiles.get(profile_name),
            profile_name: profile_name.to_owned(),
            shadows: self.shadows(pool, profiles, path),
            scrape: ScrapeSettings {
                interval: pool.scrape.interval.get(),
                timeout: pool.scrape.timeout.get(),
            },
            probes: probes(pool),
            attempts: pool.retry.attempts,
            api_key: self.api_key(pool.api_key.as_ref(), path),
            provider: None,
            endpoints,
            discovery,
        }
    }

    fn adapters(&mut self, models: &[raw::Model], path: &Path) {
        let bases: Vec<&str> = models
            .iter()
            .filter(|model| model.adapter_of.is_none())
            .map(|model| model.name.as_str())
            .collect();
        for (index, model) in models.iter().enumerate() {
            let Some(base) = &model.adapter_of else { continue };
            let is_in_broken_part = self.is_broken(&path.key("models"))
                && self.written(&["pools", "models", "name"]).contains(&base.as_str());
            if bases.contains(&base.as_str()) || is_in_broken_part {
                continue;
            }
            let guess = near_miss(base.as_str(), bases.iter().copied()).map(|name| format!("did you mean `{name}`?\n"));
            self.error(
                &path.key("models").index(index).key("adapter_of"),
                format!("this pool has no model `{base}`"),
                format!(
                    "{}models here: {}",
                    guess.unwrap_or_default(),
                    listed(bases.iter().copied(), "and")
                ),
            );
        }
    }

    fn endpoints(&mut self, pool: &raw::Pool, path: &Path) -> Vec<EndpointSettings> {
        if pool.endpoints.is_empty() && pool.dns.is_none() {
            self.error(
                path,
                format!("the pool `{}` has no endpoints", pool.name),
                "add `endpoints` with an `address` each, or `dns` with a `name` and a `port`",
            );
        }
        let at = path.key("endpoints");
        let addresses = pool.endpoints.iter().enumerate();
        self.unique(
            "endpoint",
            addresses.map(|(index, endpoint)| (endpoint.address.get(), at.index(index).key("address"))),
        );
        if u32::try_from(pool.endpoints.len()).is_ok_and(|count| count > pool.max_endpoints) {
            self.error(
                &path.key("max_endpoints"),
                format!("{} endpoints are listed", pool.endpoints.len()),
                "`max_endpoints` must leave room for them, and for those that drain",
            );
        }
        for (index, endpoint) in pool.endpoints.iter().enumerate() {
            if let Some(ip) = endpoint.address.ip().filter(|ip| !Reach::Private.allows(*ip)) {
                self.error(
                    &at.index(index).key("address"),
                    format!("{ip} is never a destination: clouds serve credentials there, or nobody is there"),
                    "write the address of the endpoint",
                );
            }
        }
        let settings = |endpoint: &raw::Endpoint| EndpointSettings {
            address: endpoint.address.get(),
            engine: engine::settings(
                pool,
                Special {
                    engine: endpoint.engine.map(|engine| engine.0),
                    max_in_flight: endpoint.max_in_flight,
                    cache: endpoint.cache,
                    kv_events: endpoint.kv_events.as_ref(),
                },
            ),
        };
        pool.endpoints.iter().map(settings).collect()
    }

    fn discovery(&mut self, pool: &raw::Pool, path: &Path) -> Option<Discovery> {
        let dns = pool.dns.as_ref()?;
        self.positive(dns.refresh, &path.key("dns").key("refresh"));
        Some(Discovery {
            name: dns.name.as_str().to_owned(),
            port: dns.port,
            refresh: dns.refresh.get(),
            engine: engine::settings(pool, Special::default()),
        })
    }

    fn scrape(&mut self, pool: &raw::Pool, path: &Path) {
        let (scrape, staleness) = (&pool.scrape, &pool.staleness);
        let interval = path.key("scrape").key("interval");
        if scrape.interval.get() < SCRAPE_INTERVAL_MIN {
            self.error(
                &interval,
                format!("{} is too short", scrape.interval),
                "write at least `10ms`",
            );
        }
        self.positive(scrape.timeout, &path.key("scrape").key("timeout"));
        self.positive(staleness.after, &path.key("staleness").key("after"));
        if scrape.interval < staleness.after {
            return;
        }
        let message = format!(
            "metrics are fetched every {} and count as stale after {}",
            scrape.interval, staleness.after
        );
        let help = "make `scrape.interval` a quarter of `staleness.after` or less";
        match staleness.policy.0 {
            StalenessPolicy::Saturated => {
                self.error(
                    &interval,
                    format!("{message}, so every endpoint counts as full most of the time"),
                    help,
                );
            }
            StalenessPolicy::Trust => {}
            StalenessPolicy::Ignore => {
                self.warn(
                    &interval,
                    format!("{message}, so they are left out most of the time"),
                    help,
                );
            }
        }
    }

    fn metrics(&mut self, metrics: &raw::Metrics, path: &Path) {
        let custom = metrics.custom.iter().enumerate();
        let at = path.key("custom");
        self.unique(
            "custom metric",
            custom.map(|(index, custom)| (custom.name.as_str(), at.index(index).key("name"))),
        );
        let mapping = engine::overlay(metrics);
        match mapping.check() {
            Ok(()) | Err(MappingError::DuplicateCustom(_)) => {}
            Err(error) => self.error(path, error.to_string(), "remove what is too much"),
        }
    }

    fn probes(&mut self, pool: &raw::Pool, path: &Path) {
        let startup = path.key("startup");
        self.positive(pool.startup.interval, &startup.key("interval"));
        self.positive(pool.startup.timeout, &startup.key("timeout"));
        self.positive(pool.readiness.interval, &path.key("readiness").key("interval"));
        self.positive(pool.readiness.timeout, &path.key("readiness").key("timeout"));
        let check = startup.key("check");
        match pool.startup.check {
            StartupCheck::Full => {}
            StartupCheck::Health => self.warn(
                &check,
                format!(
                    "the startup and the readiness probe both ask `{}`, so the one says nothing that the other does not",
                    pool.engine.0.health_path()
                ),
                "use `full`, which also sees the model listed and makes it run once",
            ),
            StartupCheck::Port => self.warn(
                &check,
                "an endpoint listens long before it can serve, so its first calls will fail",
                "use `full`; `port` is there to compare with",
            ),
        }
    }

    fn health(&mut self, pool: &raw::Pool, path: &Path) {
        let (ejection, at) = (&pool.ejection, path.key("ejection"));
        self.positive(ejection.base, &at.key("base"));
        if ejection.base > ejection.max {
            self.error(
                &at.key("base"),
                format!("`base` ({}) is longer than `max` ({})", ejection.base, ejection.max),
                "shorten `base` or lengthen `max`",
            );
        }
        if ejection.cool_down > ejection.max_cool_down {
            self.error(
                &at.key("cool_down"),
                format!(
                    "`cool_down` ({}) is longer than `max_cool_down` ({})",
                    ejection.cool_down, ejection.max_cool_down
                ),
                "shorten `cool_down` or lengthen `max_cool_down`",
            );
        }
    }

    /// The profile exists, and the pool's endpoints report what it reads.
    fn profile_of(&mut self, pool: &raw::Pool, profiles: &Profiles, engines: &[&EngineSettings], path: &Path) {
        let at = path.key("profile");
        let name = pool.profile.as_str();
        if !self.is_profile(name, profiles, &at) {
            return;
        }
        let Some(reads) = profiles.written_reads(name) else {
            return;
        };
        let has_adapters = pool.models.iter().any(|model| model.adapter_of.is_some());
        let reads = if has_adapters {
            reads
        } else {
            reads.without(SignalSet::LORA)
        };
        let lacking = engines
            .iter()
            .map(|engine| (engine.engine, reads.without(engine.options.reports)));
        let lacking: BTreeSet<_> = lacking
            .filter(|(_, lacks)| !lacks.is_empty())
            .map(|(engine, lacks)| (engine, lacks.to_string()))
            .collect();
        for (engine, lacks) in lacking {
            self.warn(
                &at,
                format!("the profile `{name}` reads signals that {engine} does not report: {lacks}"),
                "its plugins treat the endpoints of this engine as average; use other plugins, or say under `metrics` or `cache` where the figures come from",
            );
        }
    }

    pub(super) fn api_key(&mut self, at: Option<&raw::SecretRef>, path: &Path) -> Option<crate::secret::Secret> {
        let path = path.key("api_key");
        let secret = self.secret(at?, &path)?;
        if !secret.expose().bytes().all(|byte| byte.is_ascii_graphic()) {
            self.error(
                &path,
                "the secret cannot be sent in a header",
                "it may have visible ASCII characters only, without spaces or line ends",
            );
            return None;
        }
        Some(secret)
    }
}

pub(super) fn model(model: &raw::Model) -> ModelSettings {
    let served_as = model.served_as.as_ref().unwrap_or(&model.name);
    ModelSettings {
        name: ModelName::from(model.name.as_str()),
        served_as: ModelName::from(served_as.as_str()),
        adapter_of: model.adapter_of.as_ref().map(|base| ModelName::from(base.as_str())),
    }
}

fn probes(pool: &raw::Pool) -> Probes {
    Probes {
        startup: StartupProbe {
            interval: pool.startup.interval.get(),
            failures: pool.startup.failures,
            timeout: pool.startup.timeout.get(),
            check: pool.startup.check,
            inference: pool.startup.inference.0,
        },
        readiness: ReadinessProbe {
            interval: pool.readiness.interval.get(),
            timeout: pool.readiness.timeout.get(),
        },
    }
}

fn options(pool: &raw::Pool) -> PoolOptions {
    let ejection = &pool.ejection;
    PoolOptions {
        max_endpoints: pool.max_endpoints,
        max_leases: pool.max_calls,
        max_in_flight: pool.max_in_flight,
        retry_after: pool.retry.after.get(),
        staleness: StalenessOptions {
            stale_after: pool.staleness.after.get(),
            policy: pool.staleness.policy.0,
            frozen_after: pool.staleness.frozen_after.get(),
        },
        readiness: ReadinessOptions {
            failed_probes: pool.readiness.failures,
        },
        outlier: OutlierOptions {
            failures: ejection.failures,
            base: ejection.base.get(),
            max: ejection.max.get(),
            forgive_after: ejection.forgive_after,
            cool_down: ejection.cool_down.get(),
            max_cool_down: ejection.max_cool_down.get(),
        },
        retry: RetryOptions {
            share: pool.retry.budget.fraction(),
            min: pool.retry.min,
        },
        speed_prior: pool.speed_prior.0,
        reckoning: ReckoningOptions {
            sample_lag: pool.reckoning.sample_lag.get(),
            decode_rate: pool.reckoning.decode_rate,
            smoothing: pool.reckoning.smoothing,
            ..ReckoningOptions::default()
        },
        prefix: prefix::options(&pool.prefix),
        ..PoolOptions::default()
    }
}
