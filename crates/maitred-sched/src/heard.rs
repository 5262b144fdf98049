//! What other gateways have under way on the endpoints of a pool, as far as they told.

use std::collections::BTreeMap;
use std::time::Duration;

use maitred_types::Time;

use crate::backlog::seconds;
use crate::pace::{Pace, Work};
use crate::share::SharedLoad;

/// Most other gateways that are listened to.
const PEERS_MAX: usize = 64;
/// A gateway that said nothing for so long is gone, and what it had under way with it.
const SILENCE_MAX: Duration = Duration::from_secs(3);

/// What all other gateways together have under way on one endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heard {
    work: Work,
    sequences: u32,
    at: Time,
    /// Whether some gateway is heard of at all: then silence about this endpoint means that there is nothing.
    is_told: bool,
}

impl Heard {
    /// Seconds of prefill work that are left, where work of `own` seconds stands beside it; `None` when nobody tells.
    #[inline]
    pub(crate) fn seconds(&self, pace: &Pace, own: f64, now: Time) -> Option<f64> {
        if !self.is_told {
            return None;
        }
        let told = pace.seconds(self.work);
        if told <= 0.0 {
            return Some(0.0);
        }
        // The engine works on both in turn.
        let share = told / (told + own);
        Some((told - share * seconds(self.at, now)).max(0.0))
    }

    /// Calls in flight.
    pub(crate) const fn sequences(&self) -> u32 {
        self.sequences
    }
}

/// One other gateway.
#[derive(Debug, Default)]
struct Peer {
    heard_at: Time,
    loads: BTreeMap<usize, (Work, u32)>,
}

/// All other gateways.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    peers: BTreeMap<u64, Peer>,
}

impl Peers {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.peers.len()
    }

    /// Takes what one of them says it has under way, in place of what it said before. `slot` finds an endpoint.
    pub(crate) fn hear(&mut self, from: u64, loads: &[SharedLoad], slot: impl Fn(u64) -> Option<usize>, now: Time) {
        if self.peers.len() >= PEERS_MAX && !self.peers.contains_key(&from) {
            return;
        }
        let peer = self.peers.entry(from).or_default();
        peer.heard_at = now;
        peer.loads.clear();
        for load in loads {
            if let Some(at) = slot(load.endpoint) {
                peer.loads.insert(at, (load.work, load.sequences));
            }
        }
    }

    /// Forgets those that have fallen silent. Whether there were any is told.
    pub(crate) fn expire(&mut self, now: Time) -> bool {
        let before = self.peers.len();
        self.peers.retain(|_, peer| now.since(peer.heard_at) < SILENCE_MAX);
        before != self.peers.len()
    }

    /// A new life begins at `at`: nobody has anything under way there.
    pub(crate) fn begin_life(&mut self, at: usize) {
        for peer in self.peers.values_mut() {
            peer.loads.remove(&at);
        }
    }

    /// Writes the sums into the column.
    pub(crate) fn sum(&self, heard: &mut [Heard]) {
        let is_told = !self.peers.is_empty();
        heard.fill(Heard {
            is_told,
            ..Heard::default()
        });
        for peer in self.peers.values() {
            for (at, (work, sequences)) in &peer.loads {
                if let Some(heard) = heard.get_mut(*at) {
                    heard.work = heard.work.plus(*work);
                    heard.sequences = heard.sequences.saturating_add(*sequences);
                    // All speak several times a second, so the newest moment is near enough for all.
                    heard.at = heard.at.max(peer.heard_at);
                }
            }
        }
    }
}
