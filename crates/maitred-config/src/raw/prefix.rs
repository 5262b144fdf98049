//! `pools[].prefix`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How prompts are compared with what endpoints hold in their prefix caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Prefix {
    /// Tokens per block in which prompts are compared, at four bytes a token. Smaller blocks match more exactly and cost more
    /// memory. Gateways that share what they know must have the same.
    #[schemars(range(min = 16, max = 1024))]
    pub(crate) block: u32,
}

impl Default for Prefix {
    fn default() -> Self {
        Self { block: 64 }
    }
}
