//! The settings as one call sees them: taken once at its start, the same to its end.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use maitred_config::{ClassSettings, Settings};
use maitred_obs::Meters;
use maitred_route::{Facts, NoRoute, Planned, Says, TargetId};
use maitred_tenant::{CertificateNames, KeyRefusal, Principal, Token, TokenGrant, TokenRefusal, UserRefusal};
use maitred_types::{FaultKind, ModelName, UnixMillis};

use crate::host::PoolHost;
use crate::issuers::TokenDesk;
use crate::objectives::RouteObjective;
use crate::session::session_hash;
use crate::target::Target;

/// One consistent set of settings, with what follows from them worked out.
#[derive(Debug)]
pub struct Snapshot {
    settings: Arc<Settings>,
    routes: HashMap<ModelName, Arc<Target>>,
    /// The targets in the order of their ids; none where a pool is not running yet.
    targets: Vec<Option<Arc<Target>>>,
    /// Names that calls may ask for, in the order of the file.
    names: Vec<ModelName>,
    desk: TokenDesk,
    /// Those of routes that can degrade answers.
    objectives: Arc<BTreeMap<ModelName, Arc<RouteObjective>>>,
}

/// What a call says in its headers and its token.
struct CallSays<'a> {
    call: &'a dyn Says,
    principal: &'a Principal,
}

impl Says for CallSays<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.call.header(name)
    }

    fn claim(&self, name: &str) -> &[Arc<str>] {
        self.principal.claim(name)
    }
}

/// What a call shows of who makes it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Presented<'a> {
    /// A key or a token.
    pub credential: Option<&'a str>,
    /// The user that it says it is made for.
    pub user: Option<&'a str>,
    /// The token of the user that it is made for.
    pub user_token: Option<&'a str>,
    /// The names in the certificate of the client's connection.
    pub certificate: Option<&'a CertificateNames>,
}

/// Why nobody is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoEntry {
    /// What this is called.
    pub fault: FaultKind,
    /// What the client is told.
    pub message: &'static str,
    /// What the record says beyond that.
    pub detail: Option<&'static str>,
}

impl NoEntry {
    const NOTHING: Self = Self {
        fault: FaultKind::MissingKey,
        message: "no key: send `Authorization: Bearer KEY` or `x-api-key: KEY`",
        detail: None,
    };

    fn of_key(refusal: KeyRefusal) -> Self {
        Self {
            fault: refusal.fault(),
            message: match refusal.fault() {
                FaultKind::ExpiredKey => "the key has expired; ask for a new one",
                _ => "the key is not one this gateway knows",
            },
            detail: None,
        }
    }

    fn of_token(refusal: TokenRefusal) -> Self {
        Self {
            fault: refusal.fault(),
            message: match refusal.fault() {
                FaultKind::ExpiredKey => "the token has expired; get a new one",
                FaultKind::IssuerUnavailable => "the token cannot be checked now; try again",
                _ => "the token is not one this gateway accepts",
            },
            detail: Some(refusal.detail()),
        }
    }

    const fn of_user(refusal: UserRefusal) -> Self {
        Self {
            fault: refusal.fault(),
            message: refusal.message(),
            detail: None,
        }
    }
}

impl Snapshot {
    pub(crate) fn new(settings: Arc<Settings>, hosts: &[Arc<PoolHost>], desk: TokenDesk, meters: &Meters) -> Self {
        let mut routes = HashMap::new();
        let mut targets = Vec::new();
        for pool in &settings.pools {
            let host = hosts.iter().find(|host| *host.name() == pool.name);
            for model in &pool.models {
                let target = host.map(|host| Arc::new(Target::new(host, model, meters)));
                routes.extend(target.iter().map(|target| (model.name.clone(), Arc::clone(target))));
                targets.push(target);
            }
        }
        Self {
            names: settings.routing.names().cloned().collect(),
            settings,
            routes,
            targets,
            desk,
            objectives: Arc::default(),
        }
    }

    pub(crate) fn with_objectives(self, objectives: BTreeMap<ModelName, Arc<RouteObjective>>) -> Self {
        Self {
            objectives: Arc::new(objectives),
            ..self
        }
    }

    /// The objective of the route of that name, if it can degrade answers.
    #[must_use]
    pub fn objective(&self, route: &ModelName) -> Option<&Arc<RouteObjective>> {
        self.objectives.get(route)
    }

    /// The same pools, endpoints and issuers with other settings of callers.
    pub(crate) fn with_settings(&self, settings: Arc<Settings>) -> Self {
        Self {
            settings,
            routes: self.routes.clone(),
            targets: self.targets.clone(),
            names: self.names.clone(),
            desk: self.desk.clone(),
            objectives: Arc::clone(&self.objectives),
        }
    }

    /// The settings themselves.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Finds out who is calling: by the key or token, else by the certificate, else as anybody if that is allowed; and for
    /// whom.
    ///
    /// # Errors
    /// Says why nobody is let in. A key or token that is wrong is an error even where something else would do: who sends one
    /// means to be known by it.
    pub fn authenticate(&self, presented: &Presented<'_>, now: UnixMillis) -> Result<Principal, NoEntry> {
        let auth = &self.settings.auth;
        let mut principal = match presented.credential {
            Some(token) if Token::is_like(token) => Principal::of_token(self.token(token, now)?),
            Some(key) => Principal::of_key(auth.keys.check(key, now).map_err(NoEntry::of_key)?),
            None => self.without_credential(presented.certificate)?,
        };
        if let Some(token) = presented.user_token {
            let acting = principal.acting_for_holder(self.token(token, now)?);
            principal = acting.map_err(NoEntry::of_user)?;
        }
        if let Some(user) = presented.user {
            principal = principal.acting_for(user).map_err(NoEntry::of_user)?;
        }
        if auth.require_user {
            principal = principal.with_user().map_err(NoEntry::of_user)?;
        }
        Ok(principal)
    }

    fn token(&self, token: &str, now: UnixMillis) -> Result<Arc<TokenGrant>, NoEntry> {
        self.desk.check(token, now).map_err(NoEntry::of_token)
    }

    fn without_credential(&self, certificate: Option<&CertificateNames>) -> Result<Principal, NoEntry> {
        let auth = &self.settings.auth;
        let grant = certificate.and_then(|names| names.grant(&auth.certificates));
        match (grant, &auth.anonymous) {
            (Some(grant), _) => Ok(Principal::of_certificate(grant)),
            (None, Some(tenant)) => Ok(Principal::anonymous(tenant.clone())),
            (None, None) => Err(NoEntry::NOTHING),
        }
    }

    /// The class of a call: what it asks for, but none higher than its key allows.
    ///
    /// # Errors
    /// The names of all classes, highest first, when it asks for one that there is not.
    pub fn class(&self, principal: &Principal, asked: Option<&str>) -> Result<Arc<str>, Vec<Arc<str>>> {
        let ClassSettings { classes, default, .. } = &self.settings.classes;
        let place = |name: &str| classes.iter().position(|class| &*class.name == name);
        let granted = principal.class().map(AsRef::as_ref);
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
    pub fn route(&self, model: &str) -> Option<&Arc<Target>> {
        self.routes.get(model)
    }

    /// A route into the only pool, for calls that name no model: the first that `principal` may use.
    #[must_use]
    pub fn sole_route(&self, principal: &Principal) -> Option<&Arc<Target>> {
        match self.settings.pools.as_slice() {
            [_] => self.models(principal).next().and_then(|name| self.routes.get(name)),
            _ => None,
        }
    }

    /// Where a call of `principal` for `model` is to be tried. What is known of the caller and of prices is added to `facts`.
    ///
    /// # Errors
    /// The name leads nowhere, or the caller may not use it.
    pub fn plan(&self, principal: &Principal, model: &str, facts: &Facts<'_>) -> Result<Planned, NoRoute> {
        let says = CallSays {
            call: facts.says,
            principal,
        };
        let may_use = |model: &str| principal.may_use(model);
        let cost = |target| {
            self.settings
                .expected_cost(target, (facts.input, facts.output), facts.now)
        };
        let facts = Facts {
            tenant: principal.tenant.as_str(),
            user: principal.user(),
            groups: principal.groups(),
            says: &says,
            may_use: &may_use,
            cost: &cost,
            ..*facts
        };
        self.settings.routing.plan(model, &facts)
    }

    /// Whether rules or fallbacks stand behind a name, and not just the model of a pool.
    #[must_use]
    pub fn is_route(&self, model: &str) -> bool {
        self.settings.routing.route(model).is_some()
    }

    /// A target that calls for `model` may go to: what is known of its prompts, and where it looks for a session, is what is looked at
    /// before it is known where a call really goes.
    #[must_use]
    pub fn usual_target(&self, model: &str) -> Option<&Arc<Target>> {
        self.target(self.settings.routing.usual_target(model)?)
    }

    /// The target of that id. None if its pool is not running, which is so before the gateway serves.
    #[must_use]
    pub fn target(&self, id: TargetId) -> Option<&Arc<Target>> {
        self.targets.get(usize::from(id.0))?.as_ref()
    }

    /// The model of calls that name none, where there is one pool only: the first that `principal` may use.
    #[must_use]
    pub fn sole_model<'a>(&'a self, principal: &'a Principal) -> Option<&'a str> {
        match self.settings.pools.as_slice() {
            [_] => self.models(principal).next(),
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
