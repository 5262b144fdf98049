//! `answers`.

use maitred_types::ByteSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::forms::{Name, Size, TimeSpan};

/// The answer cache: whole answers, given again to calls of the same tenant that ask for the same. What is given so is marked
/// (`x-degraded: cache`) and counted apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answers {
    /// The names that clients ask for whose answers are kept.
    #[schemars(length(min = 1, max = 4096))]
    pub(crate) models: Vec<KeptModel>,
    /// The tenants whose answers are kept, each for itself. No other tenant's are kept or given.
    #[schemars(length(min = 1))]
    pub(crate) tenants: Vec<Name>,
    /// Most memory that all of them may take.
    #[serde(default = "size")]
    pub(crate) size: Size,
    /// The largest answer that is kept.
    #[serde(default = "largest")]
    pub(crate) largest: Size,
}

/// A name whose answers are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeptModel {
    /// The name that clients ask for: of a route, or of a pool's model.
    pub(crate) model: Name,
    /// How long an answer is given again.
    #[serde(default = "keep")]
    pub(crate) keep: TimeSpan,
    /// Which calls are answered so.
    #[serde(default)]
    pub(crate) calls: KeptCalls,
}

/// Which calls are answered from what is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KeptCalls {
    /// Those that a model should answer the same each time: embeddings, and what says `temperature: 0`.
    #[default]
    Deterministic,
    /// All of them. A call that is sent again to get another answer gets the same.
    All,
}

fn size() -> Size {
    Size::new(ByteSize::new(64 << 20))
}

fn largest() -> Size {
    Size::new(ByteSize::new(1 << 20))
}

fn keep() -> TimeSpan {
    TimeSpan::secs(300)
}
