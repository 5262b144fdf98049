//! `pools[].prefix`.

use maitred_types::ByteSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::forms::{FilePath, Size, TimeSpan};

/// How prompts are compared with what endpoints hold in their prefix caches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Prefix {
    /// Tokens per block in which prompts are compared, at four bytes a token. Smaller blocks match more exactly and cost more
    /// memory. Gateways that share what they know must have the same.
    #[schemars(range(min = 16, max = 1024))]
    pub(crate) block: u32,
    /// Most memory that what is remembered of prompts may take up; beyond it the least recently used prompts are forgotten.
    pub(crate) max_bytes: Size,
    /// A file in which that is kept over a restart of the gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) snapshot: Option<PrefixFile>,
}

impl Default for Prefix {
    fn default() -> Self {
        Self {
            block: 64,
            max_bytes: Size::new(ByteSize::mib(256)),
            snapshot: None,
        }
    }
}

/// A file in which what is remembered of prompts is kept over a restart of the gateway. It holds hashes and no text. What it says
/// of an endpoint that has restarted meanwhile, or that does not say when it was started, is not used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PrefixFile {
    /// The file; each pool has its own. It is replaced as a whole, so its folder must be writable.
    pub(crate) path: FilePath,
    /// How often it is written. It is also written when the gateway ends.
    #[serde(default = "every")]
    pub(crate) every: TimeSpan,
}

fn every() -> TimeSpan {
    TimeSpan::secs(60)
}
