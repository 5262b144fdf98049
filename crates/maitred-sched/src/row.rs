//! One endpoint as metrics and pages show it.

use std::time::Duration;

use maitred_types::{Address, EndpointId, Time};

use crate::columns::Tally;
use crate::event::DrainCause;
use crate::pace::Pace;
use crate::prefix::CacheRow;
use crate::readiness::Proofs;
use crate::reckoning::Estimate;
use crate::signals::Signals;

/// Where in its life an endpoint is, as a person sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointState {
    /// It is there, but not all is proven. It gets nothing.
    Loading,
    /// It takes calls.
    Ready,
    /// Its calls failed; it gets none until then.
    Ejected {
        /// The end of the ejection.
        until: Time,
    },
    /// It gets no new calls; running ones finish.
    Draining {
        /// Why.
        cause: DrainCause,
    },
}

impl EndpointState {
    /// The word for logs, metrics and pages. An endpoint that has gone has no row and so no word.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Loading => "loading",
            Self::Ready => "ready",
            Self::Ejected { .. } => "ejected",
            Self::Draining { .. } => "draining",
        }
    }
}

/// One endpoint of a pool.
#[derive(Clone, Debug)]
pub struct EndpointRow<'a> {
    /// Who.
    pub endpoint: EndpointId,
    /// Where.
    pub address: &'a Address,
    /// Where in its life.
    pub state: EndpointState,
    /// Whether it has come back from an ejection and gets one call at a time.
    pub on_probation: bool,
    /// For how long it is still spared because it said that it has too much to do.
    pub spared_for: Duration,
    /// What it has proven so far.
    pub proofs: Proofs,
    /// Failed probes in a row.
    pub failed_probes: u32,
    /// Failed calls in a row.
    pub failed_calls: u32,
    /// How many doublings its next ejection carries.
    pub ejection_level: u32,
    /// Live leases.
    pub in_flight: u32,
    /// Most live leases.
    pub cap: u32,
    /// Live leases that decode: with output, or assumed to have some by now.
    pub decoding: u32,
    /// Prompt tokens of live leases that do not decode yet.
    pub prefill_tokens: u64,
    /// The same without those that were reckoned to be cached.
    pub uncached_tokens: f64,
    /// KV blocks that the live leases will hold at their expected ends.
    pub expected_blocks: u64,
    /// The newest reading of its page.
    pub reported: Option<&'a Signals>,
    /// How old that reading is.
    pub age: Option<Duration>,
    /// Whether the reading can be believed: recent, and the page not frozen.
    pub is_fresh: bool,
    /// Whether the page stands still under load.
    pub is_frozen: bool,
    /// Its figures now: reckoned if fresh, from own leases alone if not.
    pub estimate: Estimate,
    /// Output tokens per second of one lease, as learnt.
    pub decode_rate: f64,
    /// How fast it is, as learnt.
    pub pace: Pace,
    /// How many times as long as the pool's median it takes for a prompt token. Above 1 it is slow.
    pub slowness: f64,
    /// Calls that its pace was learnt from.
    pub speed_samples: u64,
    /// Seconds of prefill work that stand before a new call, reckoned.
    pub queue_seconds: f64,
    /// Its share of the pool's recent picks, 0 to 1 (half-life 30 s).
    pub share: f64,
    /// What the prefix index knows of it.
    pub cache: CacheRow,
    /// How its leases ended.
    pub tally: Tally,
}
