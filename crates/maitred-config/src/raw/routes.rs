//! `routes`.

use maitred_route::Choose;
use maitred_types::DegradeReason;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::word::{ClosedSet, Word};
use crate::forms::{ClaimText, HeaderName, HoursText, Name, OffsetText, TimeSpan, ValueText};

/// Where the calls of a name go, and where they go on when what they asked for does not answer. The models of `pools` are routes by
/// themselves; one of these takes the place of the model of its name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Route {
    /// The name that clients ask for.
    pub(crate) model: Name,
    /// Where some of the calls go. The first rule that a call meets is for it.
    #[serde(default)]
    #[schemars(length(max = 256))]
    pub(crate) rules: Vec<Rule>,
    /// Where calls go that no rule is for. Needed unless a pool has a model of the route's name, which is then the one.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub(crate) targets: Vec<Target>,
    /// How one of `targets` is chosen: `weight` if one of them has a weight, otherwise `order`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) choose: Option<Word<Choose>>,
    /// Which calls are drawn together where weights choose; each for itself if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sticky: Option<Sticky>,
    /// The least `quality` of a model that `choose: cost` takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1_000))]
    pub(crate) quality: Option<u32>,
    /// Where calls go on, in this order, when none of the targets answers. Each is for its own reasons. The caller must be allowed to use
    /// the model by its name in the pool. What is answered so is marked, unless it is the same model.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub(crate) fallback: Vec<Fallback>,
}

/// Where calls go that meet all of some conditions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    /// Its name in records and in `maitred route explain`.
    pub(crate) name: Name,
    /// What a call has to meet. Whatever is not said is not asked.
    #[serde(default)]
    pub(crate) when: When,
    /// Where such calls go.
    #[schemars(length(min = 1, max = 64))]
    pub(crate) targets: Vec<Target>,
    /// How one of `targets` is chosen: `weight` if one of them has a weight, otherwise `order`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) choose: Option<Word<Choose>>,
    /// Which calls are drawn together where weights choose; each for itself if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sticky: Option<Sticky>,
    /// The least `quality` of a model that `choose: cost` takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1_000))]
    pub(crate) quality: Option<u32>,
}

/// What a call has to meet, all of it. A list is met by any of its members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct When {
    /// What it writes after `@` behind the route's name. A rule without it is not for calls that name a version, and a call whose
    /// version no rule is for is refused.
    pub(crate) version: Vec<Name>,
    /// Its tenant.
    pub(crate) tenants: Vec<Name>,
    /// Its user.
    pub(crate) users: Vec<Name>,
    /// The groups of its user, which the claim says that an issuer's `claims.groups` names.
    pub(crate) groups: Vec<Name>,
    /// Its class.
    pub(crate) classes: Vec<Name>,
    /// The tokens of its prompt, as estimated before it is sent. `maitred usage lengths` shows which figures part what comes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) input_tokens: Option<TokenRange>,
    /// The type of its task: what its header `tasks.type_header` says, else the first of `tasks.types` that it is of.
    pub(crate) task: Vec<Name>,
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
    /// Its headers; each of these must have one of its values.
    #[schemars(length(max = 32))]
    pub(crate) headers: Vec<HeaderValues>,
    /// The claims of its token; each of these must have one of its values.
    #[schemars(length(max = 32))]
    pub(crate) claims: Vec<ClaimValues>,
    /// The part of the day in which it comes; over midnight if the second hour is before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) hours: Option<HoursText>,
    /// The days on which it comes. A night over midnight counts to both of its days, each with its own part.
    pub(crate) days: Vec<Day>,
    /// Whose clock `hours` and `days` mean: how far it is from UTC. UTC if not given; summer time is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) zone: Option<OffsetText>,
}

/// A part of the numbers of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TokenRange {
    /// So many or more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) at_least: Option<u32>,
    /// Fewer than so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) below: Option<u32>,
}

impl TokenRange {
    /// Whether no number is in it.
    pub(crate) fn is_empty(self) -> bool {
        self.below.is_some_and(|below| below <= self.at_least.unwrap_or(0))
    }
}

/// Values of a header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeaderValues {
    /// The header.
    pub(crate) name: HeaderName,
    /// What it may say.
    #[schemars(length(min = 1))]
    pub(crate) is: Vec<ValueText>,
}

/// Values of a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClaimValues {
    /// The claim: its name, or `/group/name` if it stands inside another.
    pub(crate) name: ClaimText,
    /// What it may say. Of a claim that is a list, one of its members.
    #[schemars(length(min = 1))]
    pub(crate) is: Vec<ValueText>,
}

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Day {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

/// Which calls are drawn together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Sticky {
    /// Those of one session, as the header of the pool's `session_header` names it; without one those of one user.
    Session,
    /// Those of one user.
    User,
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
