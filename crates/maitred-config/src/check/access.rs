//! Checks of `auth`.

use maitred_tenant::{KeyGrant, KeyHasher, KeyRing, ModelGrant, UserId};
use maitred_types::TenantId;

use super::Checker;
use super::issuers::on_behalf;
use crate::diagnostic::near_miss;
use crate::forms::{ModelPatternText, Moment, Name};
use crate::path::Path;
use crate::raw;
use crate::settings::AuthSettings;

/// Shortest pepper, in bytes: as hard to guess as a 128-bit key, if it is random.
const PEPPER_LEN_MIN: usize = 16;

impl<'c> Checker<'c> {
    pub(super) fn auth(&mut self, raw: &raw::File, hasher: &KeyHasher) -> AuthSettings {
        let auth = &raw.auth;
        if raw.admin.changes.is_none()
            && auth.keys.is_empty()
            && auth.issuers.is_empty()
            && auth.certificates.is_empty()
            && auth.anonymous.is_none()
        {
            self.error(
                &Path::top("auth"),
                "nobody may call: there are neither keys nor anonymous callers",
                "`maitred keys new` prints a key and its hash; add the hash:\n\
                 auth:\n  keys:\n    - hash: hmac-sha256:...\n      tenant: NAME\n      user: NAME\n\
                 or, for listeners on loopback only, let anyone in:\n\
                 auth:\n  anonymous:\n    tenant: local",
            );
        }
        let keys = Path::top("auth").key("keys");
        let models = self.model_names();
        let ids = auth.keys.iter().enumerate();
        self.unique(
            "key",
            ids.map(|(index, key)| (key.hash.get().id().clone(), keys.index(index).key("hash"))),
        );
        for (index, key) in auth.keys.iter().enumerate() {
            self.key(key, &keys.index(index));
            self.key_user(key, &keys.index(index));
            self.key_models(&key.models, &models, &keys.index(index).key("models"));
        }
        AuthSettings {
            keys: KeyRing::new(hasher.clone(), auth.keys.iter().map(grant).collect())
                .unwrap_or_else(|_| KeyRing::empty()),
            issuers: self.issuers(raw),
            certificates: self.certificates(raw),
            require_user: auth.require_user,
            user_header: auth.user_header.as_str().to_owned(),
            anonymous: auth
                .anonymous
                .as_ref()
                .map(|anonymous| TenantId::from(anonymous.tenant.as_str())),
        }
    }

    pub(super) fn hasher(&mut self, pepper: Option<&raw::SecretRef>) -> KeyHasher {
        let Some(at) = pepper else { return KeyHasher::new(None) };
        let path = Path::top("auth").key("pepper");
        let Some(secret) = self.secret(at, &path) else {
            return KeyHasher::new(None);
        };
        let length = secret.expose().len();
        if length < PEPPER_LEN_MIN {
            self.error(
                &path,
                format!("the pepper has {length} bytes"),
                format!("it must have at least {PEPPER_LEN_MIN}, such as `openssl rand -base64 32` prints"),
            );
        }
        KeyHasher::new(Some(secret.expose().as_bytes()))
    }

    fn key(&mut self, key: &raw::Key, path: &Path) {
        if let (Some(from), Some(until)) = (key.not_before, key.expires)
            && from >= until
        {
            self.error(
                &path.key("expires"),
                format!("the key is never valid: it expires at {until} and begins at {from}"),
                "`expires` is later than `not_before`",
            );
        }
        if let Some(expires) = key.expires {
            self.warn_from(
                expires.get(),
                &path.key("expires"),
                format!("the key has expired at {expires}, so whoever shows it is refused"),
                "remove the key, or make it valid for longer",
            );
        }
    }

    /// Whether it can be known who makes calls with the key, or somebody has said that it cannot.
    fn key_user(&mut self, key: &raw::Key, path: &Path) {
        if key.is_nobodys() {
            self.error(
                path,
                "nobody can say who makes calls with this key: it has no user",
                "add `user: NAME`, or `on_behalf` for a service that acts for users; or write `shared: true`, and the audit marks its calls",
            );
        }
        if key.user.is_some() && key.shared {
            self.error(
                &path.key("shared"),
                "the key is one user's, so it is not shared",
                "remove `shared` or `user`",
            );
        }
    }

    /// Every name that a call may ask for.
    pub(super) fn model_names(&self) -> Vec<&'c str> {
        let mut names = self.written_models();
        names.extend(self.written(&["routes", "model"]));
        names
    }

    /// A pattern that no model fits grants nothing; most likely it is mistyped.
    pub(super) fn key_models(&mut self, patterns: &[ModelPatternText], models: &[&str], path: &Path) {
        for (index, pattern) in patterns.iter().enumerate() {
            let text = pattern.to_string();
            if models.iter().any(|model| pattern.get().matches(model)) {
                continue;
            }
            let help = match near_miss(&text, models.iter().copied()) {
                Some(name) => format!("did you mean `{name}`?"),
                None => {
                    "name a model of one of `pools` or `providers`, as clients name it, or one of `routes`".to_owned()
                }
            };
            self.error(
                &path.index(index),
                format!("there is no model that fits `{text}`"),
                help,
            );
        }
    }
}

/// The tenants that callers may be of; `None` if there may be others, by tokens or at run time.
pub(super) fn tenants(file: &raw::File) -> Option<Vec<&str>> {
    let auth = &file.auth;
    if file.admin.changes.is_some() {
        return None;
    }
    let mut tenants: Vec<&str> = auth.keys.iter().map(|key| key.tenant.as_str()).collect();
    tenants.extend(auth.anonymous.iter().map(|anonymous| anonymous.tenant.as_str()));
    tenants.extend(auth.certificates.iter().map(|certificate| certificate.tenant.as_str()));
    for issuer in &auth.issuers {
        match &issuer.claims.tenant {
            raw::TenantClaim::Is(tenant) => tenants.push(tenant.as_str()),
            raw::TenantClaim::Claim(_) if issuer.tenants.is_empty() => return None,
            raw::TenantClaim::Claim(_) => tenants.extend(issuer.tenants.iter().map(Name::as_str)),
        }
    }
    Some(tenants)
}

/// The users that callers may be; `None` if others name them, or they may come at run time.
pub(super) fn users(file: &raw::File) -> Option<Vec<&str>> {
    let auth = &file.auth;
    let acts_for = |on_behalf: raw::OnBehalf| on_behalf != raw::OnBehalf::Nobody;
    let is_open = file.admin.changes.is_some()
        || !auth.issuers.is_empty()
        || auth.keys.iter().any(|key| acts_for(key.on_behalf))
        || auth
            .certificates
            .iter()
            .any(|certificate| acts_for(certificate.on_behalf));
    let of_keys = auth.keys.iter().filter_map(|key| key.user.as_ref());
    let all = of_keys.chain(
        auth.certificates
            .iter()
            .filter_map(|certificate| certificate.user.as_ref()),
    );
    (!is_open).then(|| all.map(Name::as_str).collect())
}

pub(crate) fn grant(key: &raw::Key) -> KeyGrant {
    KeyGrant {
        hash: key.hash.get().clone(),
        tenant: TenantId::from(key.tenant.as_str()),
        user: key.user.as_ref().map(|user| UserId::from(user.as_str())),
        on_behalf: on_behalf(key.on_behalf),
        is_shared: key.shared,
        models: models(&key.models),
        class: key.class.as_ref().map(|class| class.as_str().into()),
        not_before: key.not_before.map(Moment::get),
        expires: key.expires.map(Moment::get),
    }
}

pub(super) fn models(patterns: &[ModelPatternText]) -> ModelGrant {
    if patterns.iter().any(|pattern| pattern.get().is_all()) {
        return ModelGrant::All;
    }
    ModelGrant::Listed(patterns.iter().map(|pattern| pattern.get().clone()).collect())
}
