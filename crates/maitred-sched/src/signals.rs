//! The numbers that an endpoint reports, as plain figures.
//!
//! Which metric family each comes from is the business of the engine tables; here they are already counts and fractions.

use std::fmt;

use maitred_types::ModelName;

/// One reading of an endpoint's metrics page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Signals {
    /// Requests that wait in the engine.
    pub queued: u32,
    /// Requests that the engine runs, prefill included.
    pub running: u32,
    /// Fraction of the KV cache in use, 0 to 1. `None` where the engine has no such figure.
    pub kv_used: Option<f64>,
    /// Tokens per KV block.
    pub block_size: Option<u32>,
    /// KV blocks.
    pub blocks: Option<u32>,
    /// Adapters, where the engine reports them.
    pub lora: Option<LoraSignal>,
    /// A figure that only grows while the engine works, such as prompt and generated tokens in total. It tells a frozen
    /// page from a quiet one, and a restart from a pause.
    pub progress: Option<u64>,
}

impl Signals {
    /// A fraction outside 0..=1 or one that is no number is none: `None` for no number, else the nearest bound.
    pub(crate) fn kv_checked(&self) -> Option<f64> {
        self.kv_used
            .filter(|used| !used.is_nan())
            .map(|used| used.clamp(0.0, 1.0))
    }

    /// Whether a figure had to be corrected.
    pub(crate) fn is_odd(&self) -> bool {
        self.kv_used.is_some_and(|used| !(0.0..=1.0).contains(&used))
    }
}

/// What an endpoint says about its LoRA adapters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoraSignal {
    /// Most adapters it can run at one time.
    pub max: u32,
    /// Adapters that run now.
    pub running: Vec<ModelName>,
    /// Adapters that requests wait for.
    pub waiting: Vec<ModelName>,
}

/// A set of signals: what a profile reads, or what an endpoint reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalSet(u8);

impl SignalSet {
    /// No signal: own leases suffice.
    pub const NONE: Self = Self(0);
    /// Requests that wait in the engine.
    pub const QUEUED: Self = Self(1);
    /// Requests that the engine runs.
    pub const RUNNING: Self = Self(1 << 1);
    /// Fraction of the KV cache in use.
    pub const KV: Self = Self(1 << 2);
    /// Block size and number of blocks.
    pub const BLOCKS: Self = Self(1 << 3);
    /// Adapters.
    pub const LORA: Self = Self(1 << 4);
    /// The figure that only grows.
    pub const PROGRESS: Self = Self(1 << 5);

    const NAMES: [(Self, &'static str); 6] = [
        (Self::QUEUED, "queued"),
        (Self::RUNNING, "running"),
        (Self::KV, "kv_used"),
        (Self::BLOCKS, "blocks"),
        (Self::LORA, "lora"),
        (Self::PROGRESS, "progress"),
    ];

    /// What is in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in this set but not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all of `other` is in this set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether nothing is in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The words for its members, in a fixed order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES
            .into_iter()
            .filter(move |(member, _)| self.contains(*member))
            .map(|(_, name)| name)
    }
}

impl fmt::Display for SignalSet {
    /// The names, separated by commas; `none` when empty.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        for (index, name) in self.names().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{name}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_fractions_are_corrected_and_noticed() {
        let check = |told: Option<f64>, taken: Option<f64>, odd: bool| {
            let signals = Signals {
                kv_used: told,
                ..Signals::default()
            };
            assert_eq!((signals.kv_checked(), signals.is_odd()), (taken, odd), "{told:?}");
        };
        check(None, None, false);
        check(Some(0.5), Some(0.5), false);
        check(Some(1.5), Some(1.0), true);
        check(Some(-0.1), Some(0.0), true);
        check(Some(f64::NAN), None, true);
        check(Some(f64::INFINITY), Some(1.0), true);
    }

    #[test]
    fn sets_name_their_members() {
        let reads = SignalSet::KV.union(SignalSet::QUEUED);
        assert_eq!(reads.to_string(), "queued, kv_used");
        assert_eq!(reads.without(SignalSet::KV).to_string(), "queued");
        assert_eq!(SignalSet::NONE.to_string(), "none");
        assert!(reads.contains(SignalSet::NONE));
    }
}
