//! `timeouts`, `limits`, `decisions`, `log` and `recording`.

use maitred_types::ByteSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::forms::{FilePath, Size, TimeSpan};

/// How long anything may take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Timeouts {
    /// From opening a connection to an endpoint until it is open.
    pub(crate) connect: TimeSpan,
    /// From sending a call to an endpoint until its first output. An answer that is not streamed may come at its
    /// end, all at once, so `total` alone bounds it.
    pub(crate) first_token: TimeSpan,
    /// Between two pieces of an answer that has begun, or of a request's body; also how long a client may take nothing of
    /// its answer.
    pub(crate) idle: TimeSpan,
    /// For a whole call with all its attempts.
    pub(crate) total: TimeSpan,
    /// From accepting a connection, or from the end of a call on it, until the next request's headers are complete.
    pub(crate) header_read: TimeSpan,
    /// From the first SIGTERM until calls that still run are cut off. Also how long a drained endpoint waits for
    /// its calls before it leaves without them.
    pub(crate) drain: TimeSpan,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: TimeSpan::secs(2),
            first_token: TimeSpan::secs(60),
            idle: TimeSpan::secs(30),
            total: TimeSpan::secs(600),
            header_read: TimeSpan::secs(30),
            drain: TimeSpan::secs(30),
        }
    }
}

/// How large anything may be, and how many there may be of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Limits {
    /// Largest body of a request.
    pub(crate) body: Size,
    /// Headers of a request.
    pub(crate) headers: HeaderLimits,
    /// Largest event of a streamed answer.
    pub(crate) event: Size,
    /// Most output tokens of an answer where a quota on tokens or money is for the call and the call limits its output not at all. So many
    /// are reserved, and the endpoint is told the limit. A call of `/v1/completions` that says nothing has that path's default, 16.
    #[schemars(range(min = 16, max = 1_000_000))]
    pub(crate) output: u32,
    /// Most connections of clients at one time; further ones are closed at once, and counted.
    #[schemars(range(min = 1))]
    pub(crate) connections: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body: Size::new(ByteSize::mib(32)),
            headers: HeaderLimits::default(),
            event: Size::new(ByteSize::mib(1)),
            output: 4096,
            connections: 10_000,
        }
    }
}

/// Limits on the headers of a request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HeaderLimits {
    /// All of them together, with the request line.
    pub(crate) size: Size,
    /// How many.
    #[schemars(range(min = 1, max = 1024))]
    pub(crate) count: u32,
}

impl Default for HeaderLimits {
    fn default() -> Self {
        Self {
            size: Size::new(ByteSize::new(64 << 10)),
            count: 100,
        }
    }
}

/// What is remembered of why calls went where they went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Decisions {
    /// Most decision records that are kept in memory; the oldest make room. 0 keeps none. Each thread of the data path keeps its share.
    #[schemars(range(max = 1_000_000))]
    pub(crate) keep: u32,
    /// Most memory that they may take.
    pub(crate) size: Size,
    /// How much each says.
    pub(crate) detail: Detail,
    /// Where they are kept on disk besides, for longer and through restarts; nowhere if not written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) archive: Option<Archive>,
}

impl Default for Decisions {
    fn default() -> Self {
        Self {
            keep: 10_000,
            size: Size::new(ByteSize::mib(16)),
            detail: Detail::default(),
            archive: None,
        }
    }
}

/// Decision records on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Archive {
    /// The folder, which maitred makes if it is not there. Several gateways of one machine may share it.
    pub(crate) folder: FilePath,
    /// How long a record is kept.
    #[serde(default = "archive_keep")]
    pub(crate) keep: TimeSpan,
    /// Most bytes of all of them together; the oldest make room, however young they are.
    #[serde(default = "archive_size")]
    pub(crate) max_size: Size,
}

const fn archive_keep() -> TimeSpan {
    TimeSpan::secs(30 * 86_400)
}

const fn archive_size() -> Size {
    Size::new(ByteSize::mib(10 << 10))
}

/// How much a decision record says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// The endpoints that were compared at the end, one or two, and how many each filter removed.
    Short,
    /// The best few candidates with all their values, as far as the choice itself weighed them, and which endpoints each filter
    /// removed. Costs a third of a microsecond more.
    #[default]
    Full,
}

/// An anonymous recording of the traffic, for the laboratory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recording {
    /// The file. One that is there already is left alone, and nothing is recorded then.
    pub(crate) path: FilePath,
    /// Most bytes that are written; nothing is recorded after them.
    #[serde(default = "recording_size")]
    pub(crate) max_size: Size,
}

const fn recording_size() -> Size {
    Size::new(ByteSize::mib(1024))
}

/// What the gateway writes about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Log {
    /// How a line looks.
    pub(crate) format: LogFormat,
    /// How much is written.
    pub(crate) level: LogLevel,
}

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// How much is written to the log; each level includes those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// An operator must act.
    Error,
    /// Something went wrong and was made good.
    Warn,
    /// Starts, stops, reloads, and one record for each call.
    #[default]
    Info,
    /// Each step of a call.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// The word, as the log's own filter knows it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}
