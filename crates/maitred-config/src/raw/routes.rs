//! `routes`.

use maitred_route::Choose;
use maitred_types::DegradeReason;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::word::{ClosedSet, Word};
use crate::forms::{Name, TimeSpan};

/// Where the calls of a name go, and where they go on when what they asked for does not answer. The models of `pools` are routes by
/// themselves; one of these takes the place of the model of its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Route {
    /// The name that clients ask for.
    pub(crate) model: Name,
    /// Where calls go. Needed unless a pool has a model of the route's name, which is then the one.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub(crate) targets: Vec<Target>,
    /// How one of `targets` is chosen: `weight` if one of them has a weight, otherwise `order`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) choose: Option<Word<Choose>>,
    /// Where calls go on, in this order, when none of the targets answers. Each is for its own reasons. The caller must be allowed to use
    /// the model by its name in the pool. What is answered so is marked, unless it is the same model.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub(crate) fallback: Vec<Fallback>,
}

/// A pool and a model of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Target {
    /// The pool.
    pub(crate) pool: Name,
    /// The model, as the pool names it for clients.
    pub(crate) model: Name,
    /// Its part of the calls, as against the sum of all weights; 1 where another one has a weight. With 0 it gets none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1_000_000))]
    pub(crate) weight: Option<u32>,
    /// Most time that a call may spend here before it goes on, if it can; what is left of the call's own time if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) within: Option<TimeSpan>,
}

/// A target that calls go on to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fallback {
    /// What must have happened at the target before.
    #[serde(default = "reasons")]
    #[schemars(length(min = 1))]
    pub(crate) on: Vec<Word<DegradeReason>>,
    /// The pool.
    pub(crate) pool: Name,
    /// The model, as the pool names it for clients.
    pub(crate) model: Name,
    /// Most time that a call may spend here before it goes on; what is left of the call's own time if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) within: Option<TimeSpan>,
}

/// Every reason that a target gives.
const REASONS: &[DegradeReason] = &[
    DegradeReason::Timeout,
    DegradeReason::Quota,
    DegradeReason::Error,
    DegradeReason::Overload,
    DegradeReason::ContextLength,
    DegradeReason::Unavailable,
];

fn reasons() -> Vec<Word<DegradeReason>> {
    REASONS.iter().copied().map(Word).collect()
}

impl ClosedSet for DegradeReason {
    const MEMBER: &'static str = "reason";

    fn all() -> &'static [Self] {
        REASONS
    }

    fn word(self) -> &'static str {
        self.label()
    }

    fn about(self) -> &'static str {
        self.meaning()
    }
}

impl ClosedSet for Choose {
    const MEMBER: &'static str = "way to choose a target";

    fn all() -> &'static [Self] {
        Self::ALL
    }

    fn word(self) -> &'static str {
        self.label()
    }

    fn about(self) -> &'static str {
        self.meaning()
    }
}
