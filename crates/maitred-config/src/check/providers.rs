//! Checks of `providers`.

use std::sync::Arc;
use std::time::Duration;

use maitred_engines::{Engine, InferencePath};
use maitred_sched::{
    EndpointOptions, PoolOptions, PrefixOptions, SignalSet, StalenessOptions, StalenessPolicy, WaitingOptions,
};
use maitred_types::{Address, PoolName};

use super::Checker;
use super::pools::model;
use crate::path::Path;
use crate::raw::{self, Balance, StartupCheck};
use crate::reach::Reach;
use crate::settings::{
    ClassSettings, EndpointSettings, EngineSettings, PoolSettings, Probes, ProviderSettings, ReadinessProbe,
    ScrapeSettings, ShadowSettings, StartupProbe,
};

/// How a call's one choice is made.
const PROFILE: &str = "least-request";
/// How often it is seen whether the provider can be reached at all.
const PROBE_INTERVAL: Duration = Duration::from_secs(10);

impl Checker<'_> {
    pub(super) fn providers(&mut self, providers: &[raw::Provider], classes: &ClassSettings) -> Vec<PoolSettings> {
        let top = Path::top("providers");
        let checked = providers.iter().enumerate();
        let checked = checked.map(|(index, provider)| {
            let path = top.index(index);
            let earlier = providers.get(..index).unwrap_or_default();
            self.one_way_to(provider, earlier, &path);
            self.provider(provider, classes, &path)
        });
        checked.collect()
    }

    fn provider(&mut self, provider: &raw::Provider, classes: &ClassSettings, path: &Path) -> PoolSettings {
        for (index, model) in provider.models.iter().enumerate() {
            if model.adapter_of.is_some() {
                self.error(
                    &path.key("models").index(index).key("adapter_of"),
                    "a provider has no adapters, only models",
                    "remove `adapter_of`",
                );
            }
        }
        let settings = ProviderSettings {
            url: provider.url.clone(),
            ca: provider.ca.as_ref().map(|path| path.as_str().to_owned()),
            reach: self.provider_reach(provider, path),
        };
        if provider.ca.is_some() && !provider.url.is_tls() {
            self.error(
                &path.key("ca"),
                "nobody vouches for a server that is not spoken to over TLS",
                "remove `ca`, or write `https://` in `url`",
            );
        }
        let api_key = self.api_key(provider.api_key.as_ref(), path);
        PoolSettings {
            api_key,
            ..as_pool(provider, settings, classes)
        }
    }

    /// How far the provider's name may lead. An address in its place is judged here.
    fn provider_reach(&mut self, provider: &raw::Provider, path: &Path) -> Reach {
        let url = &provider.url;
        let reach = Reach::of(provider.allow_private || url.is_loopback());
        let path = path.key("url");
        if !url.is_tls() && !url.is_loopback() && !provider.clear_text {
            self.error(
                &path,
                "the key and all prompts could be read on the way",
                "write `https://`; or `clear_text: true` where the way is safe by other means",
            );
        }
        match url.ip() {
            Some(ip) if !Reach::Private.allows(ip) => self.error(
                &path,
                format!("{ip} is never a destination: clouds serve credentials there, or nobody is there"),
                "write the name or the address of the provider",
            ),
            Some(ip) if !reach.allows(ip) => self.error(
                &path,
                format!("{ip} is a private address"),
                "write `allow_private: true` if that is what you mean",
            ),
            Some(_) | None => {}
        }
        reach
    }

    /// Connections are kept by URL, so that two providers with one URL must agree on who may be there.
    fn one_way_to(&mut self, provider: &raw::Provider, earlier: &[raw::Provider], path: &Path) {
        let way = |provider: &raw::Provider| (provider.ca.clone(), provider.allow_private);
        let same_url = |other: &&raw::Provider| other.url == provider.url;
        if let Some(other) = earlier.iter().find(same_url)
            && way(other) != way(provider)
        {
            self.error(
                &path.key("url"),
                format!(
                    "the provider `{}` has this URL with another `ca` or `allow_private`",
                    other.name
                ),
                "make them equal in both",
            );
        }
    }
}

/// A pool with one endpoint, of which no figures are known. Nothing waits for it in the gateway: how much it can take is its own
/// secret, and it says so by refusing.
fn as_pool(provider: &raw::Provider, settings: ProviderSettings, classes: &ClassSettings) -> PoolSettings {
    let url = Address::from(provider.url.as_str());
    PoolSettings {
        name: PoolName::from(provider.name.as_str()),
        models: provider.models.iter().map(model).collect(),
        release: None,
        endpoints: vec![EndpointSettings {
            address: url,
            engine: engine(),
        }],
        discovery: None,
        session_header: "x-session-id".to_owned(),
        balance: Balance::default(),
        prefix_block: 16,
        prefix_file: None,
        options: options(provider, classes),
        profile: crate::built_in_profile(PROFILE).unwrap_or_default(),
        profile_name: PROFILE.to_owned(),
        shadows: ShadowSettings {
            profiles: Vec::new(),
            share: 0.0,
        },
        scrape: ScrapeSettings {
            interval: PROBE_INTERVAL,
            timeout: PROBE_INTERVAL,
        },
        probes: probes(),
        attempts: 1,
        api_key: None,
        provider: Some(settings),
    }
}

fn options(provider: &raw::Provider, classes: &ClassSettings) -> PoolOptions {
    PoolOptions {
        max_endpoints: 4,
        max_leases: provider.max_in_flight,
        max_in_flight: provider.max_in_flight,
        staleness: StalenessOptions {
            policy: StalenessPolicy::Ignore,
            ..StalenessOptions::default()
        },
        prefix: PrefixOptions {
            max_bytes: 0,
            ..PrefixOptions::default()
        },
        waiting: WaitingOptions {
            calls: 0,
            classes: classes.classes.clone(),
            default_class: classes.default,
            ..WaitingOptions::default()
        },
        ..PoolOptions::default()
    }
}

fn engine() -> EngineSettings {
    EngineSettings {
        engine: Engine::Hosted,
        mapping: Arc::new(Engine::Hosted.mapping()),
        metrics_path: String::new(),
        metrics_port: None,
        options: EndpointOptions {
            reports: SignalSet::NONE,
            ..EndpointOptions::default()
        },
        kv_events: None,
    }
}

fn probes() -> Probes {
    Probes {
        startup: StartupProbe {
            interval: PROBE_INTERVAL,
            failures: 1,
            timeout: PROBE_INTERVAL,
            check: StartupCheck::Port,
            inference: InferencePath::default(),
        },
        readiness: ReadinessProbe {
            interval: PROBE_INTERVAL,
            timeout: PROBE_INTERVAL,
        },
    }
}
