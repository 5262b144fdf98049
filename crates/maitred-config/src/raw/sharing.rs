//! `sharing`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SecretRef;
use crate::forms::{Name, TimeSpan};

/// Several gateways before the same endpoints tell each other, through Redis or Valkey, what they have under way where and which
/// prompts they sent there. Without it each knows its own calls and what the endpoints report. When the server is gone each goes
/// on with what it knows, and says so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sharing {
    /// Where the server's address is kept: `redis://`, `rediss://` or `redis+unix://`, with its password if it has one.
    pub(crate) redis: SecretRef,
    /// What the keys in the server begin with. Gateways with the same one talk to each other about pools of the same name.
    #[serde(default = "group")]
    pub(crate) group: Name,
    /// How often each gateway speaks, at least; with much traffic it speaks earlier.
    #[serde(default = "period")]
    pub(crate) period: TimeSpan,
    /// How `quotas` and `tasks` hold for all gateways of the group together.
    #[serde(default)]
    pub(crate) quotas: SharedQuotas,
}

/// Each gateway holds a part of every limit that its calls use, by a lease from the server, so that no call waits for it. What all of
/// them together can use beyond a limit is bounded; the handbook says by what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SharedQuotas {
    /// How many gateways there are at least. A gateway that does not know better takes one part in so many of what is free.
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) gateways: u32,
    /// What holds for calls that a limit is for while the server is gone.
    pub(crate) without_store: WithoutStore,
}

impl Default for SharedQuotas {
    fn default() -> Self {
        Self {
            gateways: 2,
            without_store: WithoutStore::default(),
        }
    }
}

/// What holds while the server is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WithoutStore {
    /// Each gateway goes on with its part of what was free when it last heard. Such calls are marked.
    #[default]
    LocalShare,
    /// They are refused.
    Refuse,
}

fn group() -> Name {
    Name::new("maitred")
}

fn period() -> TimeSpan {
    TimeSpan::millis(100)
}
