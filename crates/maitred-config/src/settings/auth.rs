//! Who may call, checked.

use std::sync::Arc;
use std::time::Duration;

use maitred_tenant::{CertificateGrant, IssuerRules, KeyRing};
use maitred_types::TenantId;

use crate::forms::WebUrl;
use crate::reach::Reach;

/// Who may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthSettings {
    /// The keys that are accepted.
    pub keys: KeyRing,
    /// Whose tokens are accepted, each issuer once.
    pub issuers: Vec<Arc<IssuerSettings>>,
    /// What client certificates grant; the first that fits counts.
    pub certificates: Vec<Arc<CertificateGrant>>,
    /// Whether calls without a known user are refused, but for shared keys.
    pub require_user: bool,
    /// The header in which trusted services name users, in lower case.
    pub user_header: String,
    /// Who calls without a key are accounted to, if they are accepted.
    pub anonymous: Option<TenantId>,
}

/// One issuer of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerSettings {
    /// What is trusted of it.
    pub rules: IssuerRules,
    /// Where its public keys are.
    pub jwks: JwksLocation,
    /// File with the certificates that vouch for the server of its keys; the system's without.
    pub ca: Option<String>,
    /// Which addresses the name of that server may resolve to.
    pub reach: Reach,
    /// How often its keys are read again.
    pub refresh: Duration,
    /// How soon they are read again at the earliest.
    pub cooldown: Duration,
    /// How long keys count that cannot be read anew.
    pub max_age: Duration,
    /// Most tokens that are remembered.
    pub cache_tokens: u32,
    /// How long one is remembered at most.
    pub cache_life: Duration,
}

/// Where public keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JwksLocation {
    /// At a URL.
    Url(WebUrl),
    /// In a file.
    File(String),
}

impl AuthSettings {
    /// Makes the files that it names into what `resolve` makes of them: the file of the settings does not know where it is.
    pub(super) fn resolve_files(&mut self, resolve: &dyn Fn(&str) -> String) {
        for issuer in self.issuers.iter_mut().map(Arc::make_mut) {
            if let JwksLocation::File(path) = &mut issuer.jwks {
                *path = resolve(path);
            }
            if let Some(path) = &mut issuer.ca {
                *path = resolve(path);
            }
        }
    }
}
