//! `audit`.

use maitred_types::ByteSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ledger::Durable;
use crate::forms::{FilePath, Name, Size, TimeSpan};

/// Who called what and when, what answered and how it ended; and every act of administration. A chain of hashes: `maitred audit verify`
/// shows whether anything was changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Audit {
    /// The folder of its files, of which one gateway writes. It must be on a disk that outlives the gateway.
    pub(crate) folder: FilePath,
    /// What happens to calls while it cannot be written. Acts of administration are refused then.
    #[serde(default)]
    pub(crate) on_failure: AuditPolicy,
    /// What an entry of a call survives, some milliseconds after the call. Acts of administration always survive the machine's death.
    #[serde(default = "machine")]
    pub(crate) durable: Durable,
    /// Size from which on a file is closed and the next one begun.
    #[serde(default = "file_size")]
    pub(crate) file_size: Size,
    /// How long entries are kept; for ever if not written. Whole files leave, so an entry may stay for 1/24 longer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) keep: Option<TimeSpan>,
    /// Most bytes of all files together, for ever more if not written. The oldest file makes room, however young it is; an entry
    /// says what was removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_size: Option<Size>,
    /// The tenants of whose calls the text is kept: what was asked and what was answered, word for word. Nobody's, if not written. It
    /// lies beside the audit's folder, in one with `-text` appended to its name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) text: Vec<AuditText>,
}

/// A tenant that wants the text of its calls to be kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuditText {
    /// The tenant.
    pub(crate) tenant: Name,
    /// How long a text is kept. Whole hours leave, so it may stay for an hour longer.
    pub(crate) keep: TimeSpan,
    /// Most bytes of all texts of the tenant. The oldest make room.
    #[serde(default = "text_size")]
    pub(crate) max_size: Size,
    /// Most bytes of what is kept of a call's question, and as many of its answer. What is cut says so.
    #[serde(default = "text_of_call")]
    pub(crate) max_call: Size,
}

fn text_size() -> Size {
    Size::new(ByteSize::mib(1024))
}

fn text_of_call() -> Size {
    Size::new(ByteSize::new(256 << 10))
}

const fn machine() -> Durable {
    Durable::Machine
}

fn file_size() -> Size {
    Size::new(ByteSize::mib(16))
}

/// What happens to calls while the audit cannot be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuditPolicy {
    /// None begins. What those that run leave is kept in memory meanwhile.
    #[default]
    Refuse,
    /// They go on. What 8 MiB of memory cannot hold is lost; how many entries that were is entered later, and counted.
    Continue,
}
