//! `ledger` and `prices`.

use maitred_types::ByteSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::SecretRef;
use crate::forms::{AmountText, FilePath, ModelPatternText, Moment, Name, Size, TimeSpan};

/// Where what calls used is kept, and how. One of `sqlite` and `postgres` is needed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ledger {
    /// The file of a SQLite database. `maitred store migrate` makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sqlite: Option<FilePath>,
    /// The URL of a PostgreSQL database, for several gateways. `maitred store migrate` makes its tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) postgres: Option<SecretRef>,
    /// The folder in which entries are durable before the database has them. It must be on a disk that outlives the
    /// gateway. If not written, it is beside the file of `sqlite`, with `.spool` appended to its name; `postgres` needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) spool: Option<FilePath>,
    /// Largest size of the spool; with more no call begins, whatever the policy.
    #[serde(default = "spool_max")]
    pub(crate) spool_max: Size,
    /// What happens to calls while the ledger cannot be written as it should.
    #[serde(default)]
    pub(crate) policy: LedgerPolicy,
    /// The longest that a call waits until its beginning is durable.
    #[serde(default = "wait")]
    pub(crate) wait: TimeSpan,
    /// What the beginning of a call survives before its endpoint is asked.
    #[serde(default)]
    pub(crate) durable: Durable,
    /// How many whole months are kept besides the present one; all of them if not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1200))]
    pub(crate) keep_months: Option<u32>,
}

fn spool_max() -> Size {
    Size::new(ByteSize::mib(1024))
}

fn wait() -> TimeSpan {
    TimeSpan::millis(50)
}

/// What happens to calls while the ledger cannot be written as it should.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LedgerPolicy {
    /// They go on, and their entries wait: in the spool if the database takes none, in memory if the spool's disk is slower than
    /// `wait`. Nothing is lost unless the gateway dies meanwhile, too.
    #[default]
    Spool,
    /// They are refused.
    Reject,
}

/// What a beginning survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Durable {
    /// The death of the gateway. If the machine dies, the last second may be missing.
    #[default]
    Process,
    /// The death of the machine too: each call waits for the disk.
    Machine,
}

/// What calls cost from a date on: their tokens, with `model`, or the time that they had of their pool's endpoints, with `pool`. Amounts are
/// decimals in text, in the unit of a currency that maitred need not know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Price {
    /// The models whose tokens have this price, as clients name them. A `*` at the end stands for any ending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<ModelPatternText>,
    /// The pool whose hours have this price. Its calls then cost time, whatever their tokens would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) pool: Option<Name>,
    /// From when on it holds: a date (its first instant in UTC) or a time with an offset. Always, if not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<Moment>,
    /// What prompt tokens cost. Needed with `model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) input: Option<AmountText>,
    /// What prompt tokens cost that were read from a cache; as much as others if not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cached_input: Option<AmountText>,
    /// What generated tokens cost. Needed with `model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<AmountText>,
    /// How many tokens these are the costs of; a million if not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub(crate) per: Option<u64>,
    /// What an hour of one GPU costs. Needed with `pool`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) per_gpu_hour: Option<AmountText>,
    /// How many GPUs each endpoint of the pool has; one if not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub(crate) gpus: Option<u32>,
}
