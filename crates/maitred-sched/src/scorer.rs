//! Scorers: how good a candidate is, from 0 to 1.
//!
//! A scorer fills a slice for all candidates at once. Its values do not depend on who else is a candidate (the home of a
//! session excepted, which is one by definition), so the value of one endpoint means the same in every record, and it is enough to
//! score the two that a picker has drawn. Load falls as 1/(1 + n/scale): a difference of one request counts for much when
//! little is going on and for little when much is, unlike a range stretched between the least and the most loaded.

use crate::adapters::AdapterPlace;
use crate::columns::{Columns, Freshness};
use crate::cost::Size;
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
/// Stands in a column of fractions for one that is not known.
const KV_UNKNOWN: f32 = -1.0;
/// Seconds to the first token at which `predicted-latency` gives one half.
const LATENCY_SCALE: f64 = 1.0;
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
    /// The part of the prompt in the prefix cache.
    PrefixAffinity,
    /// Seconds to the first token.
    PredictedLatency,
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
        Self::PrefixAffinity,
        Self::PredictedLatency,
    ];

    /// How many there are, so also the most that a profile can have.
    pub const COUNT: usize = 9;

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
            Self::PrefixAffinity => "prefix-affinity",
            Self::PredictedLatency => "predicted-latency",
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
                "1 / (1 + tokens / 8192), where tokens are the prompt tokens of own leases that have no output yet, as far as is seen or assumed. Needs no signal."
            }
            Self::Kv => {
                "1 − used / 2 up to 0.90 of the KV cache, then falling steeply to 0.05 at 0.95 and 0 at 1, by dead reckoning. 0.5 where \
                 the endpoint does not say."
            }
            Self::LoraAffinity => {
                "For a call with an adapter: 1 where it runs, 0.75 where it waits, 0.5 where a slot is free or nothing is known, 0 where all \
                 slots are taken. Has no say about other calls."
            }
            Self::SessionAffinity => {
                "For a call with a session: 1 for the session's home, which is the candidate with the highest rendezvous hash, and 0 for the \
                 others. Has no say about other calls. Gateways agree on the home without talking."
            }
            Self::PrefixAffinity => {
                "For a call of whose prompt somebody holds a part: matched / prompt, where matched are the prompt tokens that the endpoint is \
                 taken to hold in its prefix cache, those included that calls before this one are about to bring there. Has no say about \
                 other calls. Needs no signal."
            }
            Self::PredictedLatency => {
                "1 / (1 + s), where s are the reckoned seconds to the first token: the prefill work that stands before the call and its own, less \
                 what is cached there, at the endpoint's learnt speed."
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
            Self::LeastRequest
            | Self::Prefill
            | Self::SessionAffinity
            | Self::PrefixAffinity
            | Self::PredictedLatency => SignalSet::NONE,
        }
    }

    /// Whether it reads the ask's chain.
    pub(crate) const fn reads_chain(self) -> bool {
        match self {
            Self::PrefixAffinity | Self::PredictedLatency => true,
            Self::LeastRequest
            | Self::Queue
            | Self::Running
            | Self::Prefill
            | Self::Kv
            | Self::LoraAffinity
            | Self::SessionAffinity => false,
        }
    }

    /// Whether it prefers particular endpoints rather than idle ones.
    pub(crate) const fn is_affinity(self) -> bool {
        match self {
            Self::LoraAffinity | Self::SessionAffinity | Self::PrefixAffinity => true,
            Self::LeastRequest | Self::Queue | Self::Running | Self::Prefill | Self::Kv | Self::PredictedLatency => {
                false
            }
        }
    }

    /// Whether it has a say about this ask. Where it has none, its values are 0 and add nothing to the totals.
    pub(crate) const fn applies(self, subject: &Subject) -> bool {
        match self {
            Self::LoraAffinity => subject.adapter.is_some(),
            Self::SessionAffinity => subject.home.is_some(),
            Self::PrefixAffinity => subject.prompt.is_some(),
            Self::LeastRequest | Self::Queue | Self::Running | Self::Prefill | Self::Kv | Self::PredictedLatency => {
                true
            }
        }
    }

    /// Fills `values` for `candidates`, which have the same length. `figures` have been read for them.
    pub(crate) fn fill(self, scene: &Scene<'_>, figures: &Figures, candidates: &[u32], values: &mut [f32]) {
        match self {
            Self::LeastRequest => falling(&figures.active, REQUEST_SCALE, values),
            Self::Queue => falling(&figures.queued, QUEUE_SCALE, values),
            Self::Running => falling(&figures.running, REQUEST_SCALE, values),
            Self::Prefill => falling(&figures.prefill, PREFILL_SCALE, values),
            Self::Kv => fill(&figures.kv, values, |used| kv(*used)),
            Self::LoraAffinity => match scene.subject.adapter {
                Some(adapter) => fill(candidates, values, |slot| {
                    lora(scene.columns.adapters[*slot as usize].place(adapter))
                }),
                None => values.fill(0.0),
            },
            Self::SessionAffinity => match scene.subject.home {
                Some(home) => fill(candidates, values, |slot| f32::from(u8::from(*slot as usize == home))),
                None => values.fill(0.0),
            },
            Self::PrefixAffinity => match scene.subject.prompt {
                Some(prompt) => fill(&figures.matched, values, |matched| matched / prompt),
                None => values.fill(0.0),
            },
            Self::PredictedLatency => fill(candidates, values, |slot| {
                narrowed(LATENCY_SCALE / (LATENCY_SCALE + scene.latency(*slot as usize)))
            }),
        }
    }
}

/// The figures of the candidates, one column per figure. A buffer that every pick uses again.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    active: Vec<f32>,
    queued: Vec<f32>,
    running: Vec<f32>,
    prefill: Vec<f32>,
    /// Fraction of the KV cache in use; [`KV_UNKNOWN`] where the endpoint does not say.
    kv: Vec<f32>,
    /// Prompt tokens of the ask that the candidate is taken to hold in its prefix cache.
    matched: Vec<f32>,
}

impl Figures {
    pub(crate) fn reserve(&mut self, endpoints: usize) {
        for column in self.columns() {
            column.reserve(endpoints.saturating_sub(column.len()));
        }
    }

    const fn columns(&mut self) -> [&mut Vec<f32>; 6] {
        [
            &mut self.active,
            &mut self.queued,
            &mut self.running,
            &mut self.prefill,
            &mut self.kv,
            &mut self.matched,
        ]
    }

    /// Reads the figures of `candidates` in one walk.
    pub(crate) fn read(&mut self, scene: &Scene<'_>, candidates: &[u32]) {
        for column in self.columns() {
            column.resize(candidates.len(), 0.0);
        }
        let requests = self.active.iter_mut().zip(&mut self.queued).zip(&mut self.running);
        let tokens = self.prefill.iter_mut().zip(&mut self.kv);
        for ((slot, ((active, queued), running)), (prefill, kv)) in candidates.iter().zip(requests).zip(tokens) {
            let at = *slot as usize;
            let estimate = scene.estimate(at);
            *active = estimate.active as f32;
            *queued = estimate.queued as f32;
            *running = estimate.running as f32;
            *prefill = scene.columns.loads[at].prefill_tokens as f32;
            *kv = estimate.kv_used.map_or(KV_UNKNOWN, narrowed);
        }
        for (slot, matched) in candidates.iter().zip(&mut self.matched) {
            *matched = scene.columns.matched[*slot as usize];
        }
    }
}

/// What an ask is about, as far as scorers and filters heed it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject {
    pub(crate) freshness: Freshness,
    /// The hash of the ask's adapter.
    pub(crate) adapter: Option<u64>,
    /// The home of the ask's session among the candidates.
    pub(crate) home: Option<usize>,
    /// Prompt tokens of an ask of whose prompt somebody holds a part: see [`Columns::matched`].
    pub(crate) prompt: Option<f32>,
    pub(crate) size: Size,
    /// Seconds for which a call holds its place in the KV cache on average.
    pub(crate) hold: f64,
}

/// What scorers and optional filters look at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) columns: &'a Columns,
    pub(crate) subject: Subject,
}

impl Scene<'_> {
    /// The endpoint's figures now: reckoned where its signals are fresh, own leases alone where they are not, and
    /// something between the two under a policy that trusts by degrees.
    #[inline]
    pub(crate) fn estimate(&self, at: usize) -> Estimate {
        let (gate, load) = (&self.columns.gates[at], &self.columns.loads[at]);
        let mut estimate = load.trusted(
            gate.in_flight,
            gate.trust(&self.subject.freshness),
            self.subject.freshness.now,
        );
        // What others say they have under way is there, whatever a page shows; what a page counts beyond it comes on top.
        let told = self.columns.heard[at].sequences();
        if told > 0 {
            estimate.active = estimate.active.saturating_add(told);
            estimate.running = estimate.running.saturating_add(told);
        }
        estimate
    }
}

/// The candidate with the highest rendezvous hash for `session` (Thaler and Ravishankar). Only the sessions of an endpoint
/// that leaves move, and they spread over all others.
pub(crate) fn rendezvous(session: u64, columns: &Columns, candidates: &[u32]) -> Option<usize> {
    let places = candidates.iter().map(|at| *at as usize);
    places.max_by_key(|at| (mix(session ^ columns.keys[*at]), *at))
}

/// Brings a value into 0..=1; one that is no number becomes 0 and is counted.
pub(crate) const fn clamp_score(value: f32, not_numbers: &mut u32) -> f32 {
    *not_numbers += value.is_nan() as u32;
    // Comparisons with what is no number are false, and this order makes them machine instructions without a branch.
    let raised = if value > 0.0 { value } else { 0.0 };
    if raised < 1.0 { raised } else { 1.0 }
}

fn fill<T>(inputs: &[T], values: &mut [f32], value: impl Fn(&T) -> f32) {
    for (input, out) in inputs.iter().zip(values) {
        *out = value(input);
    }
}

/// 1/(1 + load/scale) with one division.
fn falling(loads: &[f32], scale: f32, values: &mut [f32]) {
    fill(loads, values, |load| scale / (scale + load));
}

fn kv(used: f32) -> f32 {
    if used < 0.0 {
        NEUTRAL
    } else if used <= KV_KNEE {
        1.0 - used / 2.0
    } else if used <= KV_CLIFF {
        0.05 + 0.5 * (KV_CLIFF - used) / (KV_CLIFF - KV_KNEE)
    } else {
        1.0 - used
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a fraction keeps seven digits, which no score needs"
)]
const fn narrowed(fraction: f64) -> f32 {
    fraction as f32
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
        let check = |value: f32, clamped: f32, odd: &mut u32| {
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
        let values: Vec<_> = (0..=100)
            .map(|percent| kv(narrowed(f64::from(percent) / 100.0)))
            .collect();
        assert!(values.windows(2).all(|pair| pair[1] < pair[0]));
        assert!(values[90] > 0.54 && values[95] < 0.06 && values[100] < 1e-6);
        let slow = values[80] - values[85];
        let steep = values[90] - values[95];
        assert!(steep > 10.0 * slow, "{steep} {slow}");
    }
}
