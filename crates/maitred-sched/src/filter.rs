//! Filters: what an endpoint must fulfil to be a candidate.
//!
//! The built-in ones are always on, in the order of [`Filter::BUILT_IN`]. A profile adds others. When filters leave nobody, the
//! call is refused; two filters are soft and step back instead, which their docs say.

use crate::adapters::AdapterPlace;
use crate::scorer::Scene;
use crate::signals::SignalSet;

/// A condition on candidates. Closed: name, default, doc and inputs stand together here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Filter {
    /// See [`Filter::doc`], as for all others.
    Ready,
    /// Not excluded by the ask.
    NotExcluded,
    /// Not ejected.
    NotEjected,
    /// Below its cap of leases.
    BelowCap,
    /// Its signals are fresh.
    Fresh,
    /// It has not just said that it has too much to do.
    NotCooling,
    /// Room for a call that could wait.
    HasRoom,
    /// A short queue in the engine.
    LowQueue {
        /// Endpoints with this many waiting requests or more are left out.
        max: u32,
    },
    /// Room in the KV cache.
    KvHeadroom {
        /// Endpoints with this fraction in use or more are left out.
        max: f64,
    },
    /// Room for the adapter.
    LoraCapacity,
}

impl Filter {
    /// Those that are always on, in the order in which they are asked.
    pub const BUILT_IN: &'static [Self] = &[
        Self::Ready,
        Self::NotExcluded,
        Self::NotEjected,
        Self::BelowCap,
        Self::Fresh,
        Self::NotCooling,
        Self::HasRoom,
    ];

    /// Those that a profile may add, with their default limits.
    pub const OPTIONAL: &'static [Self] = &[
        Self::LowQueue { max: 5 },
        Self::KvHeadroom { max: 0.8 },
        Self::LoraCapacity,
    ];

    pub(crate) const COUNT: usize = 10;

    /// The filter of this name with its default limit.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let mut all = Self::BUILT_IN.iter().chain(Self::OPTIONAL);
        all.find(|filter| filter.name() == name).copied()
    }

    /// The word in the configuration, in records and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::NotExcluded => "not-excluded",
            Self::NotEjected => "not-ejected",
            Self::BelowCap => "below-cap",
            Self::Fresh => "fresh",
            Self::NotCooling => "not-cooling",
            Self::HasRoom => "has-room",
            Self::LowQueue { .. } => "low-queue",
            Self::KvHeadroom { .. } => "kv-headroom",
            Self::LoraCapacity => "lora-capacity",
        }
    }

    /// What it does, for the reference.
    #[must_use]
    pub const fn doc(self) -> &'static str {
        match self {
            Self::Ready => {
                "Keeps endpoints that have proven all three parts of readiness and do not drain. Built in, always on."
            }
            Self::NotExcluded => "Keeps endpoints that this call has not tried yet. Built in, always on.",
            Self::NotEjected => {
                "Keeps endpoints that are not ejected for failing, and those on probation whose one call is free. When it would leave none, \
                 ejection is ignored (panic). Built in, always on."
            }
            Self::BelowCap => "Keeps endpoints with fewer leases than their cap. Built in, always on.",
            Self::Fresh => {
                "Keeps endpoints whose signals are fresh, if the staleness policy is `saturated`. Built in, always on."
            }
            Self::NotCooling => {
                "Keeps endpoints that have not just said that they have too much to do. Soft: removes nobody when it would remove \
                 all. Built in, always on."
            }
            Self::HasRoom => {
                "Asks whether some endpoint is below the limits of the waiting room: prompt tokens in prefill, queue, KV use; and does not \
                 cool. When none is, it removes all and the call waits in the gateway; else it removes nobody, since a call may be better off \
                 queueing where its prompt is cached. Built in, always on where calls may wait."
            }
            Self::LowQueue { .. } => {
                "Keeps endpoints where fewer than `max` (5) requests wait in the engine, by dead reckoning. When it leaves none, the call is \
                 refused as saturated."
            }
            Self::KvHeadroom { .. } => {
                "Keeps endpoints with less than `max` (0.8) of the KV cache in use, by dead reckoning; one that reports no KV figure \
                 passes. When it leaves none, the call is refused as saturated."
            }
            Self::LoraCapacity => {
                "For a call with an adapter: keeps endpoints that have it running or waiting, or have a free slot for it. Soft: removes \
                 nobody when it would remove all."
            }
        }
    }

    /// The signals it reads.
    #[must_use]
    pub const fn reads(self) -> SignalSet {
        match self {
            Self::HasRoom => SignalSet::QUEUED.union(SignalSet::KV),
            Self::LowQueue { .. } => SignalSet::QUEUED,
            Self::KvHeadroom { .. } => SignalSet::KV.union(SignalSet::BLOCKS),
            Self::LoraCapacity => SignalSet::LORA,
            Self::Ready | Self::NotExcluded | Self::NotEjected | Self::BelowCap | Self::Fresh | Self::NotCooling => {
                SignalSet::NONE
            }
        }
    }

    /// Whether it removes nobody when it would remove all.
    #[must_use]
    pub const fn is_soft(self) -> bool {
        matches!(self, Self::NotCooling | Self::LoraCapacity)
    }

    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Ready => 0,
            Self::NotExcluded => 1,
            Self::NotEjected => 2,
            Self::BelowCap => 3,
            Self::Fresh => 4,
            Self::NotCooling => 5,
            Self::HasRoom => 6,
            Self::LowQueue { .. } => 7,
            Self::KvHeadroom { .. } => 8,
            Self::LoraCapacity => 9,
        }
    }

    /// Whether the endpoint at `at` passes. The hard built-in ones have been asked before and pass here; of room the pool knows.
    pub(crate) fn passes(self, scene: &Scene<'_>, at: usize) -> bool {
        match self {
            Self::NotCooling => scene.subject.freshness.now >= scene.columns.gates[at].cool_until,
            Self::LowQueue { max } => scene.estimate(at).queued < max,
            Self::KvHeadroom { max } => scene.estimate(at).kv_used.is_none_or(|used| used < max),
            Self::LoraCapacity => scene
                .subject
                .adapter
                .is_none_or(|adapter| scene.columns.adapters[at].place(adapter) != AdapterPlace::Full),
            Self::Ready | Self::NotExcluded | Self::NotEjected | Self::BelowCap | Self::Fresh | Self::HasRoom => true,
        }
    }
}

/// How many endpoints each filter removed in one pick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed([u32; Filter::COUNT]);

impl Removed {
    pub(crate) const fn add(&mut self, filter: Filter, endpoints: u32) {
        self.0[filter.index()] += endpoints;
    }

    /// Endpoints that `filter` removed.
    #[must_use]
    pub const fn by(&self, filter: Filter) -> u32 {
        self.0[filter.index()]
    }

    /// Endpoints removed in all.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.0.iter().sum()
    }

    /// The filters that removed somebody, in the order in which they are asked.
    pub fn iter(&self) -> impl Iterator<Item = (Filter, u32)> {
        let all = Filter::BUILT_IN.iter().chain(Filter::OPTIONAL);
        all.map(|filter| (*filter, self.by(*filter)))
            .filter(|(_, endpoints)| *endpoints > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_has_its_own_name_and_place() {
        let all: Vec<_> = Filter::BUILT_IN.iter().chain(Filter::OPTIONAL).copied().collect();
        assert_eq!(all.len(), Filter::COUNT);
        for (at, filter) in all.iter().enumerate() {
            assert_eq!(filter.index(), at, "{filter:?}");
            assert_eq!(Filter::parse(filter.name()), Some(*filter));
            assert!(filter.doc().ends_with('.'));
        }
        assert_eq!(Filter::parse("nothing"), None);
    }
}
