//! `quotas` and `tasks`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::routes::TokenRange;
use super::word::{ClosedSet, Word};
use crate::forms::{AmountText, HeaderName, ModelPatternText, Name};

/// Limits on what callers use. All that apply to a call must have room for it, before anything is forwarded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Quota {
    /// Its name in errors, metrics and reports.
    pub(crate) name: Name,
    /// Only for calls of this tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<Name>,
    /// Only for calls of this user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<Name>,
    /// Only for calls with the key of this public id, which is the part of a key between its first and its second hyphen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<Name>,
    /// Only for calls to these models, as clients name them. A `*` at the end stands for any ending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<ModelPatternText>,
    /// By what it is counted: each combination that occurs has the whole amount for itself. Empty means one amount for all.
    #[serde(default = "per_tenant")]
    pub(crate) per: Vec<Word<Dimension>>,
    /// Calls per second, spread evenly but for `burst`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) calls_per_second: Option<u64>,
    /// Calls that may come at once where there is a limit per second; as many as it allows in a second if not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) burst: Option<u32>,
    /// Calls at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) concurrent_calls: Option<u64>,
    /// Tokens, in and out, in any sixty seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    pub(crate) tokens_per_minute: Option<u64>,
    /// Tokens, in and out, in a day of UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    pub(crate) tokens_per_day: Option<u64>,
    /// Tokens, in and out, in the life of a task. Takes the place of `tasks.tokens` for the calls it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    pub(crate) tokens_per_task: Option<u64>,
    /// Money in a month of UTC, as `prices` have it: a decimal in text. Calls to models without a price count as nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) money_per_month: Option<AmountText>,
}

fn per_tenant() -> Vec<Word<Dimension>> {
    vec![Word(Dimension::Tenant)]
}

/// By what a quota is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Dimension {
    Tenant,
    User,
    Key,
    Model,
    Task,
}

impl ClosedSet for Dimension {
    const MEMBER: &'static str = "dimension";

    fn all() -> &'static [Self] {
        &[Self::Tenant, Self::User, Self::Key, Self::Model, Self::Task]
    }

    fn word(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::User => "user",
            Self::Key => "key",
            Self::Model => "model",
            Self::Task => "task",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::Tenant => "Each tenant.",
            Self::User => "Each user of a tenant; calls without a user together are one.",
            Self::Key => "Each key; calls without a key together are one.",
            Self::Model => "Each model, as clients name it.",
            Self::Task => "Each task of a tenant. Calls without a task are not limited by it.",
        }
    }
}

/// One unit of a user's work that spans many calls, such as one run of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Tasks {
    /// The header in which a call names its task. It is not passed on to endpoints.
    pub(crate) header: HeaderName,
    /// Tokens, in and out, that one task may use where no quota says otherwise.
    #[schemars(range(min = 1, max = 1_000_000_000_000_u64))]
    pub(crate) tokens: u64,
    /// The header in which a call names the type of its task, for the rules of `routes`. No header that begins with
    /// `x-maitred-` is passed on to endpoints.
    pub(crate) type_header: HeaderName,
    /// What the tasks of calls are that do not name their type: the first that a call is of.
    #[schemars(length(max = 64))]
    pub(crate) types: Vec<TaskType>,
}

/// A type of task, known by what a call asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TaskType {
    /// Its name, as `when.task` of rules has it.
    pub(crate) name: Name,
    /// What a call has to meet.
    pub(crate) when: TaskShape,
}

/// What a call has to meet, all of it. Whatever is not said is not asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TaskShape {
    /// The tokens of its prompt, as estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) input_tokens: Option<TokenRange>,
    /// Whether it brings tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tools: Option<bool>,
    /// Whether there are images in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) images: Option<bool>,
    /// Whether its answer has to be of a JSON schema.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) json_schema: Option<bool>,
    /// Whether its answer comes as a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stream: Option<bool>,
}

impl Default for Tasks {
    fn default() -> Self {
        Self {
            header: HeaderName::new("x-maitred-task"),
            tokens: 60_000,
            type_header: HeaderName::new("x-maitred-task-type"),
            types: Vec::new(),
        }
    }
}
