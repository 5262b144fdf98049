//! `profiles`.

use maitred_sched::{Filter, Picker, Scorer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Word;
use crate::forms::Name;

/// The name of the profile that a pool uses if it names none.
pub(super) const DEFAULT: &str = "default";

/// The profiles that are there without being written.
pub(crate) fn built_in_profiles() -> [(&'static str, maitred_sched::Profile); 4] {
    [
        (DEFAULT, maitred_sched::Profile::default()),
        ("scored", maitred_sched::Profile::scored()),
        ("least-request", maitred_sched::Profile::least_request()),
        ("round-robin", maitred_sched::Profile::round_robin()),
    ]
}

/// How an endpoint is chosen: filters leave out, scorers value, and exactly one picker takes one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    /// What pools call it.
    pub(crate) name: Name,
    /// Filters beside those that are always on.
    #[serde(default)]
    pub(crate) filters: Vec<UsedFilter>,
    /// Scorers, each once.
    #[serde(default)]
    pub(crate) scorers: Vec<UsedScorer>,
    /// How one of the candidates is taken.
    #[schemars(extend("x-hint" = "a profile has exactly one picker"))]
    pub(crate) picker: Word<Picker>,
}

impl Profile {
    /// The written form of `profile` under `name`.
    pub(crate) fn of(name: &str, profile: &maitred_sched::Profile) -> Self {
        let scorers = profile.scorers().iter().map(|weighted| UsedScorer {
            name: Word(weighted.scorer),
            weight: f64::from(weighted.weight),
        });
        // The limit of a filter is part of its name's default here: built-in profiles change none.
        let filters = profile.filters().iter().map(|filter| UsedFilter {
            name: Word(*filter),
            max: None,
        });
        Self {
            name: Name::new(name),
            filters: filters.collect(),
            scorers: scorers.collect(),
            picker: Word(profile.picker()),
        }
    }
}

/// A filter of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UsedFilter {
    /// Which filter.
    pub(crate) name: Word<Filter>,
    /// Its limit, if it has one and the default does not suit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub(crate) max: Option<f64>,
}

/// A scorer of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UsedScorer {
    /// Which scorer.
    pub(crate) name: Word<Scorer>,
    /// How much it counts, compared with the others.
    #[serde(default = "weight")]
    #[schemars(range(min = 0.0, max = 1_000.0))]
    pub(crate) weight: f64,
}

fn weight() -> f64 {
    f64::from(Scorer::DEFAULT_WEIGHT)
}
