//! Readiness: an endpoint that only listens gets nothing.
//!
//! Three proofs are needed, in any number of probes: the model is listed, the KV pool is allocated, and an inference of one
//! token has succeeded. Engines open their port long before the last of these, and some list their model before they are
//! healthy. Proofs are lost when probes fail in a row, when the health page turns 503, and with each new incarnation.

use crate::ReadinessOptions;

/// A set of proofs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Proofs(u8);

impl Proofs {
    /// Nothing proven.
    pub const NONE: Self = Self(0);
    /// The endpoint lists the pool's model.
    pub const MODEL_LISTED: Self = Self(1);
    /// The endpoint has allocated its KV pool (or has none to allocate).
    pub const KV_POOL: Self = Self(1 << 1);
    /// The endpoint has inferred one token.
    pub const INFERENCE: Self = Self(1 << 2);
    /// All three.
    pub const ALL: Self = Self(0b111);

    /// What either set proves.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is proven.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// What is still missing, in words for a person.
    pub fn missing(self) -> impl Iterator<Item = &'static str> {
        [
            (Self::MODEL_LISTED, "model not listed"),
            (Self::KV_POOL, "no KV pool"),
            (Self::INFERENCE, "no inference yet"),
        ]
        .into_iter()
        .filter(move |(proof, _)| !self.contains(*proof))
        .map(|(_, words)| words)
    }
}

/// What one probe of an endpoint found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadinessReport {
    /// The endpoint is healthy, and this much was proven in this probe.
    Healthy(Proofs),
    /// The probe got no answer or a wrong one.
    Failed,
    /// The health page answered 503: a ready endpoint is leaving, one that loads is not there yet.
    Unavailable,
    /// It is healthy and does not run what its pool's release says: a ready endpoint is to leave, one that loads is not to begin.
    OffRelease,
}

/// What a report changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadinessChange {
    /// Nothing.
    None,
    /// The endpoint takes calls from now on.
    Ready,
    /// The endpoint takes no calls any more and has nothing proven.
    NotReady,
    /// The endpoint takes no new calls; running ones finish.
    Draining,
    /// There is no such endpoint; the report was late.
    Unknown,
}

/// What one endpoint has proven.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Readiness {
    proofs: Proofs,
    failed: u32,
}

impl Readiness {
    pub(crate) const fn proofs(&self) -> Proofs {
        self.proofs
    }

    /// Failed probes in a row.
    pub(crate) const fn failed(&self) -> u32 {
        self.failed
    }

    pub(crate) const fn forget(&mut self) {
        self.proofs = Proofs::NONE;
        self.failed = 0;
    }

    /// Adds what a healthy probe proved; true when nothing is missing.
    pub(crate) fn healthy(&mut self, proofs: Proofs) -> bool {
        self.failed = 0;
        self.proofs = self.proofs.union(proofs);
        self.proofs == Proofs::ALL
    }

    /// Counts a failed probe; true when it is one too many and all is forgotten.
    pub(crate) fn failed_again(&mut self, options: &ReadinessOptions) -> bool {
        self.failed = self.failed.saturating_add(1);
        let out = self.failed >= options.failed_probes.max(1);
        if out {
            self.proofs = Proofs::NONE;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_three_proofs_are_needed_and_may_come_apart() {
        let mut readiness = Readiness::default();
        assert!(!readiness.healthy(Proofs::MODEL_LISTED));
        assert!(!readiness.healthy(Proofs::INFERENCE));
        assert_eq!(readiness.proofs().missing().collect::<Vec<_>>(), ["no KV pool"]);
        assert!(readiness.healthy(Proofs::KV_POOL));
        assert!(readiness.healthy(Proofs::NONE), "what is proven stays proven");
    }

    #[test]
    fn the_third_failed_probe_in_a_row_forgets_everything() {
        let options = ReadinessOptions::default();
        let mut readiness = Readiness::default();
        readiness.healthy(Proofs::ALL);
        assert!(!readiness.failed_again(&options));
        assert!(!readiness.failed_again(&options));
        assert!(readiness.healthy(Proofs::NONE));
        assert!(!readiness.failed_again(&options));
        assert!(!readiness.failed_again(&options));
        assert!(readiness.failed_again(&options));
        assert_eq!(readiness.proofs(), Proofs::NONE);
    }
}
