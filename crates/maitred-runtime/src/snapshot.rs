//! The settings as one call sees them: taken once at its start, the same to its end.

use std::collections::HashMap;
use std::sync::Arc;

use maitred_config::{ClassSettings, ModelSettings, Settings};
use maitred_llm::ChainRule;
use maitred_obs::{Meters, ModelMeters};
use maitred_tenant::{KeyGrant, KeyRefusal, ModelGrant, UserId};
use maitred_types::{FaultKind, KeyId, ModelName, TenantId, UnixMillis};

use crate::host::PoolHost;
use crate::ratios::Ratio;
use crate::session::session_hash;

/// One consistent set of settings, with what follows from them worked out.
#[derive(Debug)]
pub struct Snapshot {
    settings: Arc<Settings>,
    routes: HashMap<ModelName, Arc<Route>>,
    /// Model names in the order of the file.
    names: Vec<ModelName>,
}

/// Where calls for one model go.
#[derive(Debug)]
pub struct Route {
    /// The pool that serves it.
    pub pool: Arc<PoolHost>,
    /// The name clients use.
    pub model: ModelName,
    /// The name endpoints use.
    pub served_as: ModelName,
    /// Whether it is a LoRA adapter.
    pub is_adapter: bool,
    /// Its metrics.
    pub meters: Arc<ModelMeters>,
    /// How its prompts are cut into blocks.
    pub chain_rule: ChainRule,
    /// Whether the pool's profile reads prompts' chains; no other is worth the work of making them.
    pub reads_chain: bool,
    /// What is known of its tokens.
    pub ratio: Arc<Ratio>,
}

impl Route {
    fn new(pool: &Arc<PoolHost>, model: &ModelSettings, meters: &Meters) -> Self {
        let settings = pool.settings();
        let adapter = model.adapter_of.as_ref().map(|_| model.served_as.as_str());
        Self {
            chain_rule: ChainRule::new(model.served_as.as_str(), adapter, settings.prefix_block),
            reads_chain: settings.profile.reads_chain(),
            ratio: pool.ratios.of(&model.served_as),
            pool: Arc::clone(pool),
            model: model.name.clone(),
            served_as: model.served_as.clone(),
            is_adapter: model.adapter_of.is_some(),
            meters: meters.model(pool.name(), model.name.as_str()),
        }
    }

    /// The adapter as endpoints call it.
    #[must_use]
    pub fn adapter(&self) -> Option<&str> {
        self.is_adapter.then_some(self.served_as.as_str())
    }
}

/// Who is calling, as far as it has been proven.
#[derive(Clone, Debug)]
pub struct Principal {
    /// Who owns the call.
    pub tenant: TenantId,
    /// The public id of the key; `None` for anonymous callers.
    pub key: Option<KeyId>,
    grant: Option<Arc<KeyGrant>>,
}

impl Principal {
    /// The user on whose behalf the call is made, if one is known.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.grant.as_ref()?.user.as_ref().map(UserId::as_str)
    }

    /// Whether it may use the model of that name.
    #[must_use]
    pub fn may_use(&self, model: &str) -> bool {
        self.grant.as_ref().is_none_or(|grant| grant.may_use(model))
    }

    /// Whether there may be models that it may not use.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.grant.as_ref().is_some_and(|grant| grant.models != ModelGrant::All)
    }
}

impl Snapshot {
    pub(crate) fn new(settings: Arc<Settings>, hosts: &[Arc<PoolHost>], meters: &Meters) -> Self {
        let mut routes = HashMap::new();
        let mut names = Vec::new();
        for pool in &settings.pools {
            let Some(host) = hosts.iter().find(|host| *host.name() == pool.name) else {
                continue;
            };
            for model in &pool.models {
                names.push(model.name.clone());
                routes.insert(model.name.clone(), Arc::new(Route::new(host, model, meters)));
            }
        }
        Self {
            settings,
            routes,
            names,
        }
    }

    /// The settings themselves.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Finds out who is calling.
    ///
    /// # Errors
    /// [`FaultKind::MissingKey`], [`FaultKind::InvalidKey`] or [`FaultKind::ExpiredKey`]. A key that is wrong is an error even
    /// where anonymous callers are let in: who sends one means to be known.
    pub fn authenticate(&self, presented: Option<&str>, now: UnixMillis) -> Result<Principal, FaultKind> {
        let auth = &self.settings.auth;
        match (presented, &auth.anonymous) {
            (Some(key), _) => {
                let grant = auth.keys.check(key, now).map_err(KeyRefusal::fault)?;
                Ok(Principal {
                    tenant: grant.tenant.clone(),
                    key: Some(grant.id().clone()),
                    grant: Some(Arc::clone(grant)),
                })
            }
            (None, Some(tenant)) => Ok(Principal {
                tenant: tenant.clone(),
                key: None,
                grant: None,
            }),
            (None, None) => Err(FaultKind::MissingKey),
        }
    }

    /// The class of a call: what it asks for, but none higher than its key allows.
    ///
    /// # Errors
    /// The names of all classes, highest first, when it asks for one that there is not.
    pub fn class(&self, principal: &Principal, asked: Option<&str>) -> Result<Arc<str>, Vec<Arc<str>>> {
        let ClassSettings { classes, default, .. } = &self.settings.classes;
        let place = |name: &str| classes.iter().position(|class| &*class.name == name);
        let granted = principal.grant.as_ref().and_then(|grant| grant.class.as_deref());
        let own = granted.and_then(place).unwrap_or(*default);
        let names = || classes.iter().map(|class| Arc::clone(&class.name));
        let at = match asked {
            None => own,
            Some(name) => place(name).ok_or_else(|| names().collect::<Vec<_>>())?.max(own),
        };
        names().nth(at).ok_or_else(Vec::new)
    }

    /// Whose a call is where calls wait, as a hash, and the weight that its tenant has.
    #[must_use]
    pub fn share_of(&self, principal: &Principal) -> (u64, u32) {
        let weight = self.settings.classes.weights.get(&principal.tenant);
        (
            session_hash(principal.tenant.as_str().as_bytes()),
            weight.copied().unwrap_or(1),
        )
    }

    /// Where calls for `model` go.
    #[must_use]
    pub fn route(&self, model: &str) -> Option<&Arc<Route>> {
        self.routes.get(model)
    }

    /// A route into the only pool, for calls that name no model: the first that `principal` may use.
    #[must_use]
    pub fn sole_route(&self, principal: &Principal) -> Option<&Arc<Route>> {
        match self.settings.pools.as_slice() {
            [_] => self.models(principal).next().and_then(|name| self.routes.get(name)),
            _ => None,
        }
    }

    /// The models that `principal` may use, in the order of the file.
    pub fn models<'a>(&'a self, principal: &'a Principal) -> impl Iterator<Item = &'a str> {
        self.names
            .iter()
            .map(ModelName::as_str)
            .filter(|name| principal.may_use(name))
    }
}
