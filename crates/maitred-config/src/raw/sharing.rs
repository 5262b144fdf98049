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
}

fn group() -> Name {
    Name::new("maitred")
}

fn period() -> TimeSpan {
    TimeSpan::millis(100)
}
