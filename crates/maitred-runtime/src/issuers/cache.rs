//! What is remembered of tokens that were found good.

use std::collections::HashMap;
use std::sync::Arc;

use maitred_tenant::TokenGrant;
use maitred_types::UnixMillis;

/// What was found of a token.
#[derive(Clone, Debug)]
pub(super) struct Remembered {
    /// The keys that it was found good by.
    pub(super) generation: u64,
    /// The first instant at which this is not believed any more.
    pub(super) until: UnixMillis,
    pub(super) grant: Arc<TokenGrant>,
}

/// Tokens by the SHA-256 of their text: of all of it, since tokens that begin alike are everywhere.
///
/// Two halves. When the young one is full it becomes the old one, and what was in the old one is forgotten; who is asked for
/// moves to the young one. So room is made at a steady price, whatever comes.
#[derive(Debug)]
pub(super) struct TokenCache {
    half: usize,
    young: HashMap<[u8; 32], Remembered>,
    old: HashMap<[u8; 32], Remembered>,
}

impl TokenCache {
    /// A cache of at most `tokens`.
    pub(super) fn new(tokens: u32) -> Self {
        Self {
            half: tokens as usize / 2,
            young: HashMap::new(),
            old: HashMap::new(),
        }
    }

    pub(super) fn get(&mut self, digest: &[u8; 32]) -> Option<&Remembered> {
        if let Some(found) = self.old.remove(digest) {
            self.insert(*digest, found);
        }
        self.young.get(digest)
    }

    pub(super) fn insert(&mut self, digest: [u8; 32], remembered: Remembered) {
        if self.half == 0 {
            return;
        }
        if self.young.len() >= self.half && !self.young.contains_key(&digest) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(digest, remembered);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}
