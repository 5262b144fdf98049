//! The set of keys that a gateway knows.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use maitred_types::{FaultKind, KeyId, UnixMillis};

use crate::key::KeyParts;
use crate::{KeyGrant, KeyHasher};

/// Every key the gateway knows, found by its public id.
///
/// A check reads the whole key each time: nothing is remembered between checks, so no key can be taken for another that
/// shares its beginning, and a removed key is refused from the next check on.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyRing {
    hasher: KeyHasher,
    grants: BTreeMap<KeyId, Arc<KeyGrant>>,
}

impl KeyRing {
    /// A ring of `grants` whose hashes were made by `hasher`.
    ///
    /// # Errors
    /// Two grants have one id.
    pub fn new(hasher: KeyHasher, grants: Vec<KeyGrant>) -> Result<Self, DuplicateKey> {
        let mut by_id = BTreeMap::new();
        for grant in grants {
            let id = grant.id().clone();
            if by_id.insert(id.clone(), Arc::new(grant)).is_some() {
                return Err(DuplicateKey(id));
            }
        }
        Ok(Self { hasher, grants: by_id })
    }

    /// A ring that refuses every key.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            hasher: KeyHasher::new(None),
            grants: BTreeMap::new(),
        }
    }

    /// The grant of the key `presented`, to be kept for as long as the call lasts.
    ///
    /// Digests are compared in constant time. Whether an id is known may show in the time taken; ids are public.
    ///
    /// # Errors
    /// Says why the key is refused. That it has expired is said only to one who holds the whole key.
    pub fn check(&self, presented: &str, now: UnixMillis) -> Result<&Arc<KeyGrant>, KeyRefusal> {
        let parts = KeyParts::parse(presented).ok_or(KeyRefusal::Malformed)?;
        let grant = self.grants.get(parts.id).ok_or(KeyRefusal::Unknown)?;
        if !grant.hash.is_digest(&self.hasher.digest(parts)) {
            return Err(KeyRefusal::Unknown);
        }
        if grant.expires.is_some_and(|expires| now >= expires) {
            return Err(KeyRefusal::Expired);
        }
        if grant.not_before.is_some_and(|not_before| now < not_before) {
            return Err(KeyRefusal::NotYetValid);
        }
        Ok(grant)
    }

    /// The grant of the key with this public part.
    #[must_use]
    pub fn get(&self, id: &KeyId) -> Option<&KeyGrant> {
        self.grants.get(id).map(Arc::as_ref)
    }

    /// What the hashes are made with.
    #[must_use]
    pub const fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// The ring with `more` grants, and all of them as `change` leaves them; those of which it says `false` are left out. A grant
    /// that is there stays where one of `more` has its id.
    #[must_use]
    pub fn changed(&self, more: impl Iterator<Item = KeyGrant>, mut change: impl FnMut(&mut KeyGrant) -> bool) -> Self {
        let mut grants = self.grants.clone();
        for grant in more {
            grants.entry(grant.id().clone()).or_insert_with(|| Arc::new(grant));
        }
        grants.retain(|_, grant| change(Arc::make_mut(grant)));
        Self {
            hasher: self.hasher.clone(),
            grants,
        }
    }

    /// The grants, in the order of their ids.
    pub fn grants(&self) -> impl Iterator<Item = &KeyGrant> {
        self.grants.values().map(Arc::as_ref)
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.grants.len()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyRing")
            .field("keys", &self.len())
            .finish_non_exhaustive()
    }
}

/// Two grants of one ring have this id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuplicateKey(pub KeyId);

impl fmt::Display for DuplicateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the key `{}` is listed twice", self.0)
    }
}

impl std::error::Error for DuplicateKey {}

/// Why a key is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyRefusal {
    /// It has not the form of a key.
    Malformed,
    /// No such key is known, or its secret is another.
    Unknown,
    /// It is known and its time is over.
    Expired,
    /// It is known and its time has not come.
    NotYetValid,
}

impl KeyRefusal {
    /// What the client is told. A key whose time has not come is as good as unknown.
    #[must_use]
    pub const fn fault(self) -> FaultKind {
        match self {
            Self::Malformed | Self::Unknown | Self::NotYetValid => FaultKind::InvalidKey,
            Self::Expired => FaultKind::ExpiredKey,
        }
    }

    /// The word for logs and metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Unknown => "unknown",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
        }
    }
}

#[cfg(test)]
mod tests;
