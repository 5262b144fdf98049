//! What one thread of the data path keeps for itself: idle links to endpoints.
//!
//! Links are never handed from thread to thread, so using one wakes nobody else. The mutex is there because tasks must be
//! able to move; it is never contended.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use maitred_types::{Address, Time};
use parking_lot::Mutex;

use crate::link::Link;

/// Idle links kept per endpoint and thread; what comes back beyond that is closed.
const IDLE_MAX: usize = 256;
/// How long an idle link is trusted. uvicorn, in front of vLLM and SGLang, closes idle connections after five seconds; a
/// link that is used just then loses its request.
const IDLE_TRUST: Duration = Duration::from_secs(4);

/// The idle links of one thread.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shard {
    idle: Arc<Mutex<BTreeMap<Address, Vec<Link>>>>,
}

impl Shard {
    /// An idle link to `address`, if there is one that still works. The one used last comes first.
    pub(crate) fn take(&self, address: &Address, now: Time) -> Option<Link> {
        loop {
            let mut link = self.idle.lock().get_mut(address).and_then(Vec::pop)?;
            if now.since(link.idle_since) < IDLE_TRUST && link.is_usable() {
                link.is_reused = true;
                return Some(link);
            }
        }
    }

    /// Takes a link back after an exchange, if it can serve another.
    pub(crate) fn park(&self, mut link: Link, now: Time) {
        if !link.is_usable() {
            return;
        }
        link.idle_since = now;
        let mut idle = self.idle.lock();
        let links = match idle.get_mut(link.address()) {
            Some(links) => links,
            None => idle.entry(link.address().clone()).or_default(),
        };
        if links.len() < IDLE_MAX {
            links.push(link);
        }
    }

    /// Closes links that have been idle for too long. Call it every few seconds.
    pub(crate) fn sweep(&self, now: Time) {
        let mut idle = self.idle.lock();
        idle.retain(|_, links| {
            links.retain(|link| now.since(link.idle_since) < IDLE_TRUST);
            !links.is_empty()
        });
    }
}
