//! Scorers: how good a candidate is, from 0 to 1.
//!
//! A scorer fills a slice for all candidates at once. Its values do not depend on who else is a candidate (the home of a
//! session excepted, which is one by definition), so the value of one endpoint means the same in every record, and it is enough to
//! score the two that a picker has drawn. Load falls as 1/(1 + n/scale): a difference of one request counts for much when
//! little is going on and for little when much is, unlike a range stretched between the least and the most loaded.

use crate::adapters::AdapterPlace;
use crate::columns::{Columns, Freshness};
use crate::hash::mix;
use crate::reckoning::Estimate;
use crate::signals::SignalSet;

/// Active requests at which `least-request` and `running` give one half.
const REQUEST_SCALE: f32 = 16.0;
/// Waiting requests at which `queue` gives one half: where a pool counts as saturated.
const QUEUE_SCALE: f32 = 5.0;
/// Prompt tokens in prefill at which `prefill` gives one half: one large chunk.
const PREFILL_SCALE: f32 = 8_192.0;
/// From here on an engine is close to preempting, which costs a whole recompute.
const KV_KNEE: f32 = 0.90;
/// From here on next to nothing is left.
const KV_CLIFF: f32 = 0.95;
/// The value of an endpoint that does not say.
const NEUTRAL: f32 = 0.5;

/// A quality of candidates. Closed: name, doc, inputs and formula stand together here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scorer {
    /// See [`Scorer::doc`], as for all others.
    LeastRequest,
    /// Waiting requests.
    Queue,
    /// Running requests.
    Running,
    /// Prompt tokens in prefill.
    Prefill,
    /// KV cache in use.
    Kv,
    /// The ask's adapter.
    LoraAffinity,
    /// The ask's session.
    SessionAffinity,
}

impl Scorer {
    /// Every scorer.
    pub const ALL: &'static [Self] = &[
        Self::LeastRequest,
        Self::Queue,
        Self::Running,
        Self::Prefill,
        Self::Kv,
        Self::LoraAffinity,
        Self::SessionAffinity,
    ];

    /// How many there are, so also the most that a profile can have.
    pub const COUNT: usize = 7;

    /// The weight of a scorer that is named without one.
    pub const DEFAULT_WEIGHT: f32 = 1.0;

    /// The scorer of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|scorer| scorer.name() == name)
    }

    /// The word in the configuration, in records and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LeastRequest => "least-request",
            Self::Queue => "queue",
            Self::Running => "running",
            Self::Prefill => "prefill",
            Self::Kv => "kv",
            Self::LoraAffinity => "lora-affinity",
            Self::SessionAffinity => "session-affinity",
        }
    }

    /// What it values, for the reference.
    #[must_use]
    pub const fn doc(self) -> &'static str {
        match self {
            Self::LeastRequest => {
                "1 / (1 + active / 16), where active is what the endpoint reports carried forward, and never less than this gateway's own \
                 leases."
            }
            Self::Queue => "1 / (1 + waiting / 5), by dead reckoning.",
            Self::Running => "1 / (1 + running / 16), by dead reckoning.",
            Self::Prefill => {
                "1 / (1 + tokens / 8192), where tokens are the prompt tokens of own leases that have no output yet. Needs no signal."
            }
            Self::Kv => {
                "1 − used / 2 up to 0.90 of the KV cache, then falling steeply to 0.05 at 0.95 and 0 at 1, by dead reckoning. 0.5 where \
                 the endpoint does not say."
            }
            Self::LoraAffinity => {
                "For a call with an adapter: 1 where it runs, 0.75 where it waits, 0.5 where a slot is free or nothing is known, 0 where all \
                 slots are taken. For other calls 1 everywhere."
            }
            Self::SessionAffinity => {
                "For a call with a session: 1 for the session's home, which is the candidate with the highest rendezvous hash, and 0 for the \
                 others. For other calls 1 everywhere. Gateways agree on the home without talking."
            }
        }
    }

    /// The signals it reads.
    #[must_use]
    pub const fn reads(self) -> SignalSet {
        match self {
            Self::Queue => SignalSet::QUEUED,
            Self::Running => SignalSet::RUNNING,
            Self::Kv => SignalSet::KV.union(SignalSet::BLOCKS),
            Self::LoraAffinity => SignalSet::LORA,
            // What others send is a bonus here, not a need.
            Self::LeastRequest | Self::Prefill | Self::SessionAffinity => SignalSet::NONE,
        }
    }

    /// Whether it prefers particular endpoints for this ask, rather than idle ones.
    pub(crate) const fn is_affinity_for(self, scene: &Scene<'_>) -> bool {
        match self {
            Self::LoraAffinity => scene.adapter.is_some(),
            Self::SessionAffinity => scene.home.is_some(),
            Self::LeastRequest | Self::Queue | Self::Running | Self::Prefill | Self::Kv => false,
        }
    }

    /// Fills `values` for `candidates`, which have the same length.
    pub(crate) fn fill(self, scene: &Scene<'_>, candidates: &[u32], values: &mut [f32]) {
        let columns = scene.columns;
        match self {
            Self::LeastRequest => fill(candidates, values, |at| falling(scene.active(at) as f32, REQUEST_SCALE)),
            Self::Queue => fill(candidates, values, |at| {
                falling(scene.estimate(at).queued as f32, QUEUE_SCALE)
            }),
            Self::Running => fill(candidates, values, |at| {
                falling(scene.estimate(at).running as f32, REQUEST_SCALE)
            }),
            Self::Prefill => fill(candidates, values, |at| {
                falling(columns.loads[at].prefill_tokens as f32, PREFILL_SCALE)
            }),
            Self::Kv => fill(candidates, values, |at| scene.estimate(at).kv_used.map_or(NEUTRAL, kv)),
            Self::LoraAffinity => match scene.adapter {
                Some(adapter) => fill(candidates, values, |at| lora(columns.adapters[at].place(adapter))),
                None => values.fill(1.0),
            },
            Self::SessionAffinity => match scene.home {
                Some(home) => fill(candidates, values, |at| f32::from(u8::from(at == home))),
                None => values.fill(1.0),
            },
        }
    }
}

/// What scorers and optional filters look at.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) columns: &'a Columns,
    pub(crate) freshness: Freshness,
    /// The hash of the ask's adapter.
    pub(crate) adapter: Option<u64>,
    /// The home of the ask's session among the candidates.
    pub(crate) home: Option<usize>,
}

impl Scene<'_> {
    /// The endpoint's figures now: reckoned where its signals are fresh, own leases alone where they are not.
    pub(crate) fn estimate(&self, at: usize) -> Estimate {
        let (gate, load) = (&self.columns.gates[at], &self.columns.loads[at]);
        if gate.is_fresh(&self.freshness) {
            load.estimate(gate.in_flight, self.freshness.now)
        } else {
            load.own(gate.in_flight)
        }
    }

    fn active(&self, at: usize) -> u32 {
        let gate = &self.columns.gates[at];
        if gate.is_fresh(&self.freshness) {
            self.columns.loads[at].active(gate.in_flight)
        } else {
            gate.in_flight
        }
    }
}

/// The candidate with the highest rendezvous hash for `session` (Thaler and Ravishankar). Only the sessions of an endpoint
/// that leaves move, and they spread over all others.
pub(crate) fn rendezvous(session: u64, columns: &Columns, candidates: &[u32]) -> Option<usize> {
    let places = candidates.iter().map(|at| *at as usize);
    places.max_by_key(|at| (mix(session ^ columns.keys[*at]), *at))
}

/// Brings a value into 0..=1; one that is no number becomes 0 and is counted.
pub(crate) fn clamp_score(value: f32, not_numbers: &mut u64) -> f32 {
    if value.is_nan() {
        *not_numbers += 1;
        return 0.0;
    }
    value.clamp(0.0, 1.0)
}

fn fill(candidates: &[u32], values: &mut [f32], value: impl Fn(usize) -> f32) {
    for (slot, out) in candidates.iter().zip(values) {
        *out = value(*slot as usize);
    }
}

fn falling(load: f32, scale: f32) -> f32 {
    1.0 / (1.0 + load / scale)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a fraction keeps seven digits, which no score needs"
)]
fn kv(used: f64) -> f32 {
    let used = used as f32;
    if used <= KV_KNEE {
        1.0 - used / 2.0
    } else if used <= KV_CLIFF {
        0.05 + 0.5 * (KV_CLIFF - used) / (KV_CLIFF - KV_KNEE)
    } else {
        1.0 - used
    }
}

const fn lora(place: AdapterPlace) -> f32 {
    match place {
        AdapterPlace::Running => 1.0,
        AdapterPlace::Waiting => 0.75,
        AdapterPlace::FreeSlot | AdapterPlace::Unknown => NEUTRAL,
        AdapterPlace::Full => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scorer_has_a_name_and_a_doc() {
        assert_eq!(Scorer::ALL.len(), Scorer::COUNT);
        for scorer in Scorer::ALL {
            assert_eq!(Scorer::parse(scorer.name()), Some(*scorer));
            assert!(scorer.doc().ends_with('.'));
        }
    }

    #[test]
    fn values_are_clamped_and_no_numbers_counted() {
        let mut odd = 0;
        let check = |value: f32, clamped: f32, odd: &mut u64| {
            assert!((clamp_score(value, odd) - clamped).abs() < f32::EPSILON, "{value}");
        };
        check(0.5, 0.5, &mut odd);
        check(-1.0, 0.0, &mut odd);
        check(7.0, 1.0, &mut odd);
        check(f32::INFINITY, 1.0, &mut odd);
        assert_eq!(odd, 0);
        check(f32::NAN, 0.0, &mut odd);
        assert_eq!(odd, 1);
    }

    #[test]
    fn kv_falls_slowly_then_steeply_and_never_rises() {
        let values: Vec<_> = (0..=100).map(|percent| kv(f64::from(percent) / 100.0)).collect();
        assert!(values.windows(2).all(|pair| pair[1] < pair[0]));
        assert!(values[90] > 0.54 && values[95] < 0.06 && values[100] < 1e-6);
        let slow = values[80] - values[85];
        let steep = values[90] - values[95];
        assert!(steep > 10.0 * slow, "{steep} {slow}");
    }
}
