//! What was changed at run time, laid over the file.

use std::collections::BTreeSet;

use maitred_tenant::{KeyGrant, Limit, ModelGrant, OnBehalf, UserId};
use maitred_types::{KeyId, TenantId, UnixMillis};
use serde_json::{Value, json};

use super::{ChangeRefusal, Roster, read};
use crate::check::{grant, limits_of};
use crate::forms::{KeyHashText, ModelPatternText, Moment, Name};
use crate::raw;
use crate::settings::Settings;

impl Roster {
    /// The settings of a gateway whose file says `base`.
    #[must_use]
    pub fn over(&self, base: &Settings) -> Settings {
        let mut settings = base.clone();
        for (name, tenant) in &self.tenants {
            settings
                .classes
                .weights
                .insert(TenantId::from(name.as_str()), tenant.weight);
        }
        // The default for tasks stays the last one.
        let is_replaced = |limit: &Limit| self.limits.contains_key(&limit.name) && !limit.is_default;
        settings.quotas.limits.retain(|limit| !is_replaced(limit));
        let own = self.limits.values().flat_map(limits_of);
        settings.quotas.limits.splice(0..0, own);
        settings.auth.keys = base.auth.keys.changed(self.keys.values().map(grant), |grant| {
            if let Some(until) = self.until.get(grant.id()) {
                grant.expires = Some(grant.expires.map_or(*until, |expires| expires.min(*until)));
            }
            !self.revoked.contains(grant.id())
        });
        settings
    }

    /// Every key, those of `base` too, as a list for people and programs. Revoked ones are in it.
    #[must_use]
    pub fn list_keys(&self, base: &Settings) -> Vec<Value> {
        let own = self.keys.values().map(|key| (grant(key), "run time"));
        let of_file = base.auth.keys.grants().map(|grant| (grant.clone(), "file"));
        of_file
            .chain(own)
            .map(|(grant, source)| self.listed(&grant, source))
            .collect()
    }

    fn listed(&self, grant: &KeyGrant, source: &str) -> Value {
        let id = grant.id();
        let until = self.until.get(id).copied();
        let expires = match (grant.expires, until) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        };
        let text = |at: UnixMillis| Moment::new(at).to_string();
        json!({
            "id": id.as_str(),
            "tenant": grant.tenant.as_str(),
            "user": grant.user.as_ref().map(UserId::as_str),
            "shared": grant.is_shared || grant.user.is_none() && grant.on_behalf == OnBehalf::Nobody,
            "models": patterns(grant).iter().map(ToString::to_string).collect::<Vec<_>>(),
            "class": grant.class.as_deref(),
            "not_before": grant.not_before.map(text),
            "expires": expires.map(text),
            "revoked": self.revoked.contains(id),
            "source": source,
        })
    }

    /// The keys that were made when it did not have to be said that several share them. They are good, and are listed as shared.
    pub fn unmarked(&self) -> impl Iterator<Item = &KeyId> {
        let unmarked = self.keys.iter().filter(|(_, key)| key.is_nobodys());
        unmarked.map(|(id, _)| id).filter(|id| !self.revoked.contains(*id))
    }

    /// Every tenant, those of `base` too.
    #[must_use]
    pub fn list_tenants(&self, base: &Settings) -> Vec<Value> {
        let mut names = tenants_of(base);
        names.extend(self.tenants.keys().cloned());
        let weights = self.over(base).classes.weights;
        let listed = names.into_iter().map(|name| {
            let source = if self.tenants.contains_key(&name) {
                "run time"
            } else {
                "file"
            };
            let weight = weights.get(name.as_str()).copied().unwrap_or(1);
            json!({ "name": name, "weight": weight, "source": source })
        });
        listed.collect()
    }

    /// The limits that were made at run time, as the file would have them.
    #[must_use]
    pub fn list_limits(&self) -> Vec<Value> {
        self.limits.values().map(|limit| json!(limit)).collect()
    }
}

/// The tenants that the file knows by name.
pub(super) fn tenants_of(base: &Settings) -> BTreeSet<String> {
    let auth = &base.auth;
    let keys = auth.keys.grants().map(|grant| &grant.tenant);
    let certificates = auth.certificates.iter().map(|grant| &grant.tenant);
    let issuers = auth.issuers.iter().flat_map(|issuer| &issuer.rules.tenants);
    let all = keys
        .chain(certificates)
        .chain(issuers)
        .chain(&auth.anonymous)
        .chain(base.classes.weights.keys());
    all.map(|tenant| tenant.as_str().to_owned()).collect()
}

/// Whether the models, the class and the user of a key make sense where `base` is the file.
pub(super) fn fits_key(key: &raw::Key, base: &Settings) -> Result<(), ChangeRefusal> {
    let conflict = |why: String| Err(ChangeRefusal::Conflict(why));
    if let Some(pattern) = key.models.iter().find(|pattern| !is_served(pattern, base)) {
        return conflict(format!("no pool serves a model that fits `{pattern}`"));
    }
    let is_class = |name: &Name| base.classes.classes.iter().any(|class| &*class.name == name.as_str());
    if let Some(class) = key.class.as_ref().filter(|class| !is_class(class)) {
        return conflict(format!("there is no class `{class}`"));
    }
    if key
        .not_before
        .zip(key.expires)
        .is_some_and(|(from, until)| from >= until)
    {
        return conflict("the key is never valid: `expires` is not later than `not_before`".to_owned());
    }
    Ok(())
}

/// Whether a limit limits anything where `base` is the file.
pub(super) fn fits_limit(limit: &raw::Quota, base: &Settings) -> Result<(), ChangeRefusal> {
    match &limit.model {
        Some(pattern) if !is_served(pattern, base) => Err(ChangeRefusal::Conflict(format!(
            "no pool serves a model that fits `{pattern}`, so this would limit nothing"
        ))),
        Some(_) | None => Ok(()),
    }
}

fn is_served(pattern: &ModelPatternText, base: &Settings) -> bool {
    let mut models = base.pools.iter().flat_map(|pool| &pool.models);
    models.any(|model| pattern.get().matches(model.name.as_str()))
}

fn patterns(grant: &KeyGrant) -> Vec<ModelPatternText> {
    match &grant.models {
        ModelGrant::All => vec![ModelPatternText::all()],
        ModelGrant::Listed(patterns) => patterns.iter().cloned().map(ModelPatternText::new).collect(),
    }
}

/// A key of the file in the form that it has there.
pub(super) fn key_of(base: &Settings, id: &KeyId) -> Option<raw::Key> {
    let grant = base.auth.keys.get(id)?;
    let named = |name: &str| read::<Name>(name.into()).ok();
    Some(raw::Key {
        hash: KeyHashText::new(grant.hash.clone()),
        tenant: named(grant.tenant.as_str())?,
        user: grant.user.as_ref().and_then(|user| named(user.as_str())),
        on_behalf: match grant.on_behalf {
            OnBehalf::Nobody => raw::OnBehalf::Nobody,
            OnBehalf::Signed => raw::OnBehalf::Signed,
            OnBehalf::Named => raw::OnBehalf::Named,
        },
        shared: grant.is_shared,
        models: patterns(grant),
        class: grant.class.as_ref().and_then(|class| named(class)),
        not_before: grant.not_before.map(Moment::new),
        expires: grant.expires.map(Moment::new),
    })
}
