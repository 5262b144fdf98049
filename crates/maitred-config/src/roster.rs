//! What is changed at run time: tenants, keys and limits, as one state that changes are applied to one by one.
//!
//! The file is the base. What was changed at run time lies over it: its keys and tenants are added to the file's, its limits take the
//! place of the file's of the same name, and what it has revoked is refused, wherever it stands. A change has the form that the
//! file has for the same thing, and is checked by the same types.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

use maitred_tenant::KeyHash;
use maitred_types::{KeyId, UnixMillis};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::check::limits_of;
use crate::forms::{KeyHashText, Moment, Name};
use crate::raw;
use crate::settings::Settings;

mod over;
mod timeline;

pub use timeline::Timeline;

/// Most keys, tenants or limits that are kept, each.
const EACH_MAX: usize = 100_000;

/// One change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Change(Kind);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    PutTenant(raw::Tenant),
    CreateKey(raw::Key),
    RevokeKey(Id),
    RotateKey(Rotation),
    PutLimit(raw::Quota),
    RemoveLimit(Name),
    Restore { version: u64 },
}

/// The public part of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Id {
    id: Name,
}

/// A new key in the place of an old one, which is good for a while longer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rotation {
    id: Name,
    until: Moment,
    key: raw::Key,
}

/// Why a change is not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeRefusal {
    /// It has not the form that it should.
    Form(String),
    /// What it is about is not there.
    Unknown(String),
    /// It does not fit what is there.
    Conflict(String),
}

impl fmt::Display for ChangeRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(why) | Self::Unknown(why) | Self::Conflict(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for ChangeRefusal {}

fn read<T: serde::de::DeserializeOwned>(fields: Value) -> Result<T, ChangeRefusal> {
    serde_json::from_value(fields).map_err(|error| ChangeRefusal::Form(error.to_string()))
}

impl Change {
    /// A tenant is made, or gets another weight. `fields` are those of `tenants` in the file.
    ///
    /// # Errors
    /// They have not that form.
    pub fn put_tenant(mut fields: Value) -> Result<Self, ChangeRefusal> {
        if fields["weight"].is_null() && fields.is_object() {
            fields["weight"] = 1.into();
        }
        let tenant: raw::Tenant = read(fields)?;
        if (1..=1_000).contains(&tenant.weight) {
            Ok(Self(Kind::PutTenant(tenant)))
        } else {
            Err(ChangeRefusal::Form("the weight of a tenant is 1 to 1000".to_owned()))
        }
    }

    /// A key is made whose hash is `hash`. `fields` are the others of `auth.keys` in the file.
    ///
    /// # Errors
    /// They have not that form.
    pub fn create_key(mut fields: Value, hash: &KeyHash) -> Result<Self, ChangeRefusal> {
        if !fields.is_object() || !fields["hash"].is_null() {
            let why = "a key is described by the fields of `auth.keys`, without `hash`: the gateway makes the key";
            return Err(ChangeRefusal::Form(why.to_owned()));
        }
        fields["hash"] = hash.to_string().into();
        let key: raw::Key = read(fields)?;
        if key.models.is_empty() {
            return Err(ChangeRefusal::Form(
                "a key that may use no model is of no use".to_owned(),
            ));
        }
        if key.is_nobodys() {
            let why = "nobody could say who makes calls with this key: give it a user (`user`, `--user NAME`) or `on_behalf`, or say that \
                       several share it (`shared`, `--shared`)";
            return Err(ChangeRefusal::Form(why.to_owned()));
        }
        if key.user.is_some() && key.shared {
            return Err(ChangeRefusal::Form(
                "a key that is one user's is not shared: leave out `user` or `shared`".to_owned(),
            ));
        }
        Ok(Self(Kind::CreateKey(key)))
    }

    /// A key is no longer let in.
    ///
    /// # Errors
    /// That is no id.
    pub fn revoke_key(id: &str) -> Result<Self, ChangeRefusal> {
        Ok(Self(Kind::RevokeKey(read(json!({ "id": id }))?)))
    }

    /// A limit is made or changed. `fields` are those of `quotas` in the file.
    ///
    /// # Errors
    /// They have not that form.
    pub fn put_limit(fields: Value) -> Result<Self, ChangeRefusal> {
        let limit: raw::Quota = read(fields)?;
        let limits = limits_of(&limit);
        if limits.is_empty() || limits.iter().any(|limit| limit.amount == 0) {
            return Err(ChangeRefusal::Form(
                "a limit has an amount larger than 0 of one or more of `calls_per_second`, `concurrent_calls`, `tokens_per_minute`, \
                 `tokens_per_day`, `tokens_per_task` and `money_per_month`"
                    .to_owned(),
            ));
        }
        Ok(Self(Kind::PutLimit(limit)))
    }

    /// A limit that was made at run time is taken away.
    ///
    /// # Errors
    /// That is no name.
    pub fn remove_limit(name: &str) -> Result<Self, ChangeRefusal> {
        Ok(Self(Kind::RemoveLimit(read(name.into())?)))
    }

    /// The id of the key that is no longer let in, if this is a revocation.
    #[must_use]
    pub fn revoked(&self) -> Option<&str> {
        match &self.0 {
            Kind::RevokeKey(id) => Some(id.id.as_str()),
            _ => None,
        }
    }

    /// What is done, in words.
    #[must_use]
    pub const fn action(&self) -> &'static str {
        match self.0 {
            Kind::PutTenant(_) => "put tenant",
            Kind::CreateKey(_) => "create key",
            Kind::RevokeKey(_) => "revoke key",
            Kind::RotateKey(_) => "rotate key",
            Kind::PutLimit(_) => "put limit",
            Kind::RemoveLimit(_) => "remove limit",
            Kind::Restore { .. } => "restore",
        }
    }

    /// To what it is done.
    #[must_use]
    pub fn target(&self) -> Cow<'_, str> {
        Cow::Borrowed(match &self.0 {
            Kind::PutTenant(tenant) => tenant.name.as_str(),
            Kind::CreateKey(key) => key.hash.get().id().as_str(),
            Kind::RevokeKey(id) => id.id.as_str(),
            Kind::RotateKey(rotation) => rotation.id.as_str(),
            Kind::PutLimit(limit) => limit.name.as_str(),
            Kind::RemoveLimit(name) => name.as_str(),
            Kind::Restore { version } => return Cow::Owned(format!("version {version}")),
        })
    }
}

/// Tenants, keys and limits as they were changed at run time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Roster {
    tenants: BTreeMap<String, raw::Tenant>,
    keys: BTreeMap<KeyId, raw::Key>,
    limits: BTreeMap<String, raw::Quota>,
    /// Keys that are not let in, also those of the file.
    revoked: BTreeSet<KeyId>,
    /// Keys that are let in until then at the latest, also those of the file.
    until: BTreeMap<KeyId, UnixMillis>,
}

impl Roster {
    /// A new key in the place of the key `id`, with all that it may; `overlap` is from now until when the old one is good at the
    /// latest.
    ///
    /// # Errors
    /// There is no such key, neither here nor in `base`, or it is revoked or no longer good.
    pub fn rotation(
        &self,
        base: &Settings,
        id: &str,
        hash: &KeyHash,
        overlap: Range<UnixMillis>,
    ) -> Result<Change, ChangeRefusal> {
        let old = KeyId::from(id);
        let known = || self.keys.get(&old).cloned().or_else(|| over::key_of(base, &old));
        let mut key = known()
            .filter(|_| !self.revoked.contains(&old))
            .ok_or_else(|| unknown_key(id))?;
        let ends = [self.until.get(&old).copied(), key.expires.map(|at| at.get())];
        if let Some(end) = ends.into_iter().flatten().min().filter(|end| *end <= overlap.start) {
            return Err(ChangeRefusal::Conflict(format!(
                "the key `{id}` was good until {}, and what is over cannot be rotated; create a key instead",
                Moment::new(end)
            )));
        }
        key.hash = KeyHashText::new(hash.clone());
        key.not_before = None;
        // One that was made before it had to be said.
        key.shared |= key.is_nobodys();
        let rotation = Rotation {
            id: read(id.into())?,
            until: Moment::new(overlap.end),
            key,
        };
        Ok(Change(Kind::RotateKey(rotation)))
    }

    /// Whether `change` may be made where `base` is the file.
    ///
    /// # Errors
    /// Says what is against it.
    pub(crate) fn check(&self, change: &Change, base: &Settings) -> Result<(), ChangeRefusal> {
        let conflict = |why: String| Err(ChangeRefusal::Conflict(why));
        match &change.0 {
            Kind::PutTenant(_) if self.tenants.len() >= EACH_MAX => {
                conflict(format!("there are {EACH_MAX} tenants already"))
            }
            Kind::PutLimit(_) if self.limits.len() >= EACH_MAX => {
                conflict(format!("there are {EACH_MAX} limits already"))
            }
            Kind::PutTenant(_) | Kind::Restore { .. } => Ok(()),
            Kind::PutLimit(limit) => over::fits_limit(limit, base),
            Kind::CreateKey(key) => self.check_key(key, base),
            Kind::RotateKey(rotation) => self.check_key(&rotation.key, base),
            Kind::RevokeKey(id) => {
                let id = KeyId::from(id.id.as_str());
                let is_known = self.keys.contains_key(&id) || base.auth.keys.get(&id).is_some();
                if is_known {
                    Ok(())
                } else {
                    Err(unknown_key(id.as_str()))
                }
            }
            Kind::RemoveLimit(name) if self.limits.contains_key(name.as_str()) => Ok(()),
            Kind::RemoveLimit(name) => Err(ChangeRefusal::Unknown(format!(
                "no limit `{name}` was made at run time; those of the file are changed there"
            ))),
        }
    }

    fn check_key(&self, key: &raw::Key, base: &Settings) -> Result<(), ChangeRefusal> {
        let id = key.hash.get().id();
        if self.keys.contains_key(id) || base.auth.keys.get(id).is_some() {
            return Err(ChangeRefusal::Conflict(format!("there is a key `{id}` already")));
        }
        if self.keys.len() >= EACH_MAX {
            return Err(ChangeRefusal::Conflict(format!("there are {EACH_MAX} keys already")));
        }
        let tenant = key.tenant.as_str();
        if !self.tenants.contains_key(tenant) && !over::tenants_of(base).contains(tenant) {
            return Err(ChangeRefusal::Unknown(format!(
                "there is no tenant `{tenant}`; create it first"
            )));
        }
        over::fits_key(key, base)
    }

    /// This, but the keys of these ids are not let in.
    #[must_use]
    pub fn refusing<'a>(mut self, ids: impl Iterator<Item = &'a str>) -> Self {
        self.revoked.extend(ids.map(KeyId::from));
        self
    }

    /// Makes `change`, and gives what was before and is now. What is earlier than this state, only a [`Timeline`] can restore.
    pub(crate) fn apply(&mut self, change: &Change) -> Value {
        match &change.0 {
            Kind::PutTenant(tenant) => put(&mut self.tenants, tenant.name.as_str(), tenant),
            Kind::PutLimit(limit) => put(&mut self.limits, limit.name.as_str(), limit),
            Kind::RemoveLimit(name) => json!({ "before": self.limits.remove(name.as_str()), "after": null }),
            Kind::CreateKey(key) => self.add(key),
            Kind::RevokeKey(id) => {
                let was_new = self.revoked.insert(KeyId::from(id.id.as_str()));
                json!({ "before": { "revoked": !was_new }, "after": { "revoked": true } })
            }
            Kind::Restore { .. } => Value::Null,
            Kind::RotateKey(rotation) => {
                let id = KeyId::from(rotation.id.as_str());
                let before = self.until.get(&id).copied();
                // A second rotation never lets the old key in for longer than the first.
                let until = before.map_or(rotation.until.get(), |before| before.min(rotation.until.get()));
                self.until.insert(id, until);
                let mut diff = self.add(&rotation.key);
                diff["before"] = json!({ "until": before.map(|until| Moment::new(until).to_string()) });
                diff["after"]["until"] = Moment::new(until).to_string().into();
                diff
            }
        }
    }

    fn add(&mut self, key: &raw::Key) -> Value {
        let diff = json!({ "before": null, "after": key });
        self.keys.insert(key.hash.get().id().clone(), key.clone());
        diff
    }
}

fn put<T: Clone + Serialize>(map: &mut BTreeMap<String, T>, name: &str, value: &T) -> Value {
    let before = map.insert(name.to_owned(), value.clone());
    json!({ "before": before, "after": value })
}

fn unknown_key(id: &str) -> ChangeRefusal {
    ChangeRefusal::Unknown(format!(
        "there is no key `{id}`, or it is revoked; `maitred keys list` shows them"
    ))
}

#[cfg(test)]
mod tests;
