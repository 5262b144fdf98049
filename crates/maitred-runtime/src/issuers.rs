//! Issuers of tokens: their keys, read in the background, and the tokens that they have signed.
//!
//! A call never waits for an issuer. It is judged by the keys that were read last; when they are too old to be believed, it is
//! told to come back. Which destinations are asked stands in the configuration alone: nothing in a token is an address.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use aws_lc_rs::digest;
use maitred_config::{IssuerSettings, JwksLocation};
use maitred_obs::Meters;
use maitred_tenant::{KeySet, TOKEN_LEN_MAX, Token, TokenGrant, TokenRefusal};
use maitred_types::UnixMillis;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::tasks::Tasks;

mod cache;
mod source;
mod verify;

use cache::{Remembered, TokenCache};
use source::Source;
use verify::VerifyingKeys;

/// The issuers that the settings name, and the tasks that read their keys.
#[derive(Debug, Default)]
pub(crate) struct Issuers {
    kept: Mutex<Vec<Kept>>,
}

#[derive(Debug)]
struct Kept {
    host: Arc<IssuerHost>,
    tasks: Tasks,
}

impl Issuers {
    /// Matches what is kept to what is `wanted`. An issuer whose settings are as they were keeps all that it knows; one
    /// whose settings differ begins anew, but for its keys if they come from the same place.
    pub(crate) fn apply(
        &self,
        wanted: &[Arc<IssuerSettings>],
        clock: Clock,
        tasks: &Tasks,
        meters: &Arc<Meters>,
    ) -> TokenDesk {
        let mut kept = self.kept.lock();
        let mut before = std::mem::take(&mut *kept);
        for settings in wanted {
            let at = before
                .iter()
                .position(|old| old.host.settings.rules.issuer == settings.rules.issuer);
            let old = at.map(|at| before.swap_remove(at));
            kept.push(match old {
                Some(old) if *old.host.settings == **settings => old,
                other => {
                    if let Some(old) = &other {
                        old.tasks.stop();
                    }
                    let host = IssuerHost::new(settings, clock, meters, other.map(|old| old.host).as_deref());
                    let tasks = tasks.child();
                    tasks.spawn_until_stop(Arc::clone(&host).keep());
                    Kept { host, tasks }
                }
            });
        }
        for gone in before {
            gone.tasks.stop();
        }
        TokenDesk {
            hosts: kept.iter().map(|kept| Arc::clone(&kept.host)).collect(),
        }
    }
}

/// Where tokens are checked: the issuers of one set of settings.
#[derive(Clone, Debug, Default)]
pub(crate) struct TokenDesk {
    hosts: Vec<Arc<IssuerHost>>,
}

impl TokenDesk {
    /// What the token grants. One that was found good before is known again by the digest of all its bytes, within its
    /// issuer alone, for as long as the issuer's keys are the same.
    ///
    /// # Errors
    /// Says why it grants nothing; the client is told less.
    pub(crate) fn check(&self, text: &str, now: UnixMillis) -> Result<Arc<TokenGrant>, TokenRefusal> {
        if text.len() > TOKEN_LEN_MAX {
            return Err(TokenRefusal::Malformed);
        }
        let digest = sha256(text);
        if let Some(grant) = self.hosts.iter().find_map(|host| host.remembered(&digest, now)) {
            return Ok(grant);
        }
        let token = Token::parse(text)?;
        let issuer = token.issuer().ok_or(TokenRefusal::Issuer)?;
        let host = self.hosts.iter().find(|host| *host.settings.rules.issuer == *issuer);
        host.ok_or(TokenRefusal::Issuer)?.check(&token, digest, now)
    }
}

fn sha256(text: &str) -> [u8; 32] {
    let mut whole = [0; 32];
    whole.copy_from_slice(digest::digest(&digest::SHA256, text.as_bytes()).as_ref());
    whole
}

/// One issuer, with its keys and the tokens that are remembered.
#[derive(Debug)]
pub(crate) struct IssuerHost {
    settings: Arc<IssuerSettings>,
    clock: Clock,
    meters: Arc<Meters>,
    keys: ArcSwapOption<Keys>,
    cache: Mutex<TokenCache>,
    /// Rung when a token names a key that is not among those that are known.
    unknown_key: Notify,
}

/// An issuer's keys.
#[derive(Debug)]
struct Keys {
    /// Differs from one set of keys to the next.
    generation: u64,
    set: KeySet,
    verifying: VerifyingKeys,
    /// When they were last seen, in Unix milliseconds.
    seen: AtomicU64,
}

impl IssuerHost {
    fn new(settings: &Arc<IssuerSettings>, clock: Clock, meters: &Arc<Meters>, before: Option<&Self>) -> Arc<Self> {
        let host = Self {
            settings: Arc::clone(settings),
            clock,
            meters: Arc::clone(meters),
            keys: ArcSwapOption::empty(),
            cache: Mutex::new(TokenCache::new(settings.cache_tokens)),
            unknown_key: Notify::new(),
        };
        let same_place = |old: &&Self| old.settings.jwks == settings.jwks && old.settings.ca == settings.ca;
        if let Some(old) = before.filter(same_place).and_then(|old| old.keys.load_full()) {
            let seen = UnixMillis::new(old.seen.load(Ordering::Relaxed));
            host.take(old.set.clone(), seen);
        } else if let JwksLocation::File(path) = &settings.jwks {
            // A file is there at once, so that the first call finds the keys.
            host.took(source::read_file(path));
        }
        Arc::new(host)
    }

    /// Reads the keys again and again: on time, after a failure, and when a token names a key that is not known.
    async fn keep(self: Arc<Self>) {
        let settings = Arc::clone(&self.settings);
        let mut source = Source::new(&settings);
        let mut is_good = self.keys.load().is_some();
        loop {
            let rest = settings.refresh.saturating_sub(settings.cooldown);
            if is_good {
                tokio::time::sleep(settings.cooldown).await;
                tokio::select! {
                    () = tokio::time::sleep(rest) => {}
                    () = self.unknown_key.notified() => {}
                }
            }
            is_good = self.took(source.read().await);
            if !is_good {
                tokio::time::sleep(settings.cooldown).await;
            }
        }
    }

    /// Takes what was read, or says that nothing was. The last good keys stay. Says whether it was good.
    fn took(&self, read: Result<Vec<u8>, String>) -> bool {
        let issuer = &*self.settings.rules.issuer;
        let set = read.and_then(|bytes| KeySet::parse(&bytes).map_err(|error| error.to_string()));
        match set {
            Ok(set) => {
                let result = self.take(set, self.clock.unix_now());
                self.meters.issuer_read(issuer, result);
                true
            }
            Err(error) => {
                self.meters.issuer_read(issuer, "failed");
                tracing::warn!(
                    issuer,
                    error,
                    "the issuer's keys cannot be read; the last good ones stay"
                );
                false
            }
        }
    }

    fn take(&self, set: KeySet, seen: UnixMillis) -> &'static str {
        let before = self.keys.load();
        if let Some(before) = before.as_ref().filter(|before| before.set == set) {
            before.seen.store(seen.get(), Ordering::Relaxed);
            return "unchanged";
        }
        let verifying = VerifyingKeys::new(&set, &self.settings.rules.algorithms);
        let (keys, passed_over) = (verifying.len(), set.passed_over);
        let issuer = &*self.settings.rules.issuer;
        if keys == 0 {
            tracing::warn!(
                issuer,
                passed_over,
                "none of the issuer's keys is for the algorithms that it may use"
            );
        } else {
            tracing::info!(issuer, keys, passed_over, "the issuer has new keys");
        }
        self.keys.store(Some(Arc::new(Keys {
            generation: before.as_ref().map_or(0, |before| before.generation) + 1,
            set,
            verifying,
            seen: AtomicU64::new(seen.get()),
        })));
        "changed"
    }

    /// The keys, if they are young enough to be believed.
    fn believed(&self, now: UnixMillis) -> Option<Arc<Keys>> {
        let keys = self.keys.load_full()?;
        let age = now.get().saturating_sub(keys.seen.load(Ordering::Relaxed));
        (u128::from(age) <= self.settings.max_age.as_millis()).then_some(keys)
    }

    fn remembered(&self, digest: &[u8; 32], now: UnixMillis) -> Option<Arc<TokenGrant>> {
        let generation = self.believed(now)?.generation;
        let mut cache = self.cache.lock();
        let found = cache.get(digest)?;
        (found.generation == generation && now < found.until).then(|| Arc::clone(&found.grant))
    }

    fn check(&self, token: &Token<'_>, digest: [u8; 32], now: UnixMillis) -> Result<Arc<TokenGrant>, TokenRefusal> {
        let rules = &self.settings.rules;
        if !rules.algorithms.contains(&token.algorithm) {
            return Err(TokenRefusal::Algorithm);
        }
        let keys = self.believed(now).ok_or(TokenRefusal::NoKeys)?;
        let verified = keys.verifying.verify(token);
        if verified == Err(TokenRefusal::Key) {
            self.unknown_key.notify_one();
        }
        verified?;
        let grant = Arc::new(rules.admit(token, now)?);
        let life = u64::try_from(self.settings.cache_life.as_millis()).unwrap_or(u64::MAX);
        let remembered = Remembered {
            generation: keys.generation,
            until: grant.expires.min(UnixMillis::new(now.get().saturating_add(life))),
            grant: Arc::clone(&grant),
        };
        self.cache.lock().insert(digest, remembered);
        Ok(grant)
    }
}

#[cfg(test)]
mod tests;
