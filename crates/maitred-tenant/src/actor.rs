//! Who may administer: roles, and the tokens and certificates that have them.
//!
//! An administrative token has the form of a key and is kept as a hash like one, but in a ring of its own: a caller's key
//! administers nothing, and an administrative token makes no calls.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use maitred_types::{KeyId, UnixMillis};

use crate::key::KeyParts;
use crate::{CertificateName, CertificateNames, KeyHash, KeyHasher, KeyRefusal};

/// What somebody may do on the administrative listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Look at everything but secrets, which are nowhere.
    Viewer,
    /// The same, and drain endpoints.
    Operator,
    /// What viewers may, and make and revoke keys, tenants and limits.
    KeyAdmin,
    /// Everything.
    Admin,
}

impl Role {
    /// All roles.
    pub const ALL: &'static [Self] = &[Self::Viewer, Self::Operator, Self::KeyAdmin, Self::Admin];

    /// Its word in the configuration and in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::KeyAdmin => "key-admin",
            Self::Admin => "admin",
        }
    }

    /// What it allows, in a line.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Viewer => "Looks at metrics, endpoints, decisions, usage, keys and the audit's state.",
            Self::Operator => "What a viewer may, and drains endpoints.",
            Self::KeyAdmin => "What a viewer may, and changes keys, tenants and limits.",
            Self::Admin => "Everything.",
        }
    }

    /// Whether who has this role may do what needs `needed`.
    #[must_use]
    pub const fn covers(self, needed: Self) -> bool {
        match (self, needed) {
            (Self::Admin, _) | (_, Self::Viewer) => true,
            (Self::Operator, Self::Operator) | (Self::KeyAdmin, Self::KeyAdmin) => true,
            (Self::Viewer | Self::Operator | Self::KeyAdmin, _) => false,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Somebody who administers: the name under which it is recorded, and what it may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Actor {
    /// Its name.
    pub name: Arc<str>,
    /// What it may do.
    pub role: Role,
}

/// What an actor shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ActorProof {
    /// A token with this hash.
    Token(KeyHash),
    /// A certificate with this name.
    Certificate(CertificateName),
}

/// One way in for one actor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActorGrant {
    /// Who comes in.
    pub actor: Actor,
    /// What it has to show.
    pub proof: ActorProof,
    /// The first instant at which it no longer counts.
    pub expires: Option<UnixMillis>,
}

/// Everybody who may administer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActorRing {
    hasher: KeyHasher,
    tokens: BTreeMap<KeyId, ActorGrant>,
    certificates: Vec<(CertificateName, ActorGrant)>,
}

impl ActorRing {
    /// A ring of `grants` whose hashes were made by `hasher`. Of two tokens with one id the first counts.
    #[must_use]
    pub fn new(hasher: KeyHasher, grants: impl IntoIterator<Item = ActorGrant>) -> Self {
        let mut ring = Self {
            hasher,
            tokens: BTreeMap::new(),
            certificates: Vec::new(),
        };
        for grant in grants {
            match grant.proof.clone() {
                ActorProof::Token(hash) => {
                    ring.tokens.entry(hash.id().clone()).or_insert(grant);
                }
                ActorProof::Certificate(name) => ring.certificates.push((name, grant)),
            }
        }
        ring
    }

    /// Whether nobody may administer.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty() && self.certificates.is_empty()
    }

    /// Whose token `presented` is.
    ///
    /// # Errors
    /// Says why it is refused.
    pub fn check(&self, presented: &str, now: UnixMillis) -> Result<&Actor, KeyRefusal> {
        let parts = KeyParts::parse(presented).ok_or(KeyRefusal::Malformed)?;
        let grant = self.tokens.get(parts.id).ok_or(KeyRefusal::Unknown)?;
        let ActorProof::Token(hash) = &grant.proof else {
            return Err(KeyRefusal::Unknown);
        };
        if !hash.is_digest(&self.hasher.digest(parts)) {
            return Err(KeyRefusal::Unknown);
        }
        if is_over(grant, now) {
            return Err(KeyRefusal::Expired);
        }
        Ok(&grant.actor)
    }

    /// Whose certificate has one of `names`: the first that fits.
    #[must_use]
    pub fn of_certificate(&self, names: &CertificateNames, now: UnixMillis) -> Option<&Actor> {
        let fits = |(name, grant): &&(CertificateName, ActorGrant)| names.has(name) && !is_over(grant, now);
        self.certificates.iter().find(fits).map(|(_, grant)| &grant.actor)
    }
}

fn is_over(grant: &ActorGrant, now: UnixMillis) -> bool {
    grant.expires.is_some_and(|expires| now >= expires)
}

#[cfg(test)]
mod tests;
