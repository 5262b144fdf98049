//! What a rule asks of a call.

use std::fmt;
use std::sync::Arc;

use maitred_types::TokenCount;

use crate::facts::Facts;
use crate::hours::Schedule;

/// One thing that a rule asks of a call. A list is met by any of its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The tenant is one of these.
    Tenant(Vec<Arc<str>>),
    /// The user is one of these.
    User(Vec<Arc<str>>),
    /// The user is in one of these groups.
    Group(Vec<Arc<str>>),
    /// The class is one of these.
    Class(Vec<Arc<str>>),
    /// The prompt is estimated to have so many tokens.
    InputTokens {
        /// At least so many.
        at_least: TokenCount,
        /// Fewer than so many, if there is a bound.
        below: Option<TokenCount>,
    },
    /// The type of task is one of these.
    Task(Vec<Arc<str>>),
    /// The call brings tools, or none.
    Tools(bool),
    /// There are images in it, or none.
    Images(bool),
    /// Its answer has to be of a JSON schema, or not.
    JsonSchema(bool),
    /// Its answer comes as a stream, or not.
    Stream(bool),
    /// A header has one of these values.
    Header(Arc<str>, Vec<Arc<str>>),
    /// A claim of the token has one of these values.
    Claim(Arc<str>, Vec<Arc<str>>),
    /// It is the time.
    Time(Schedule),
}

impl Condition {
    /// Whether a call meets it.
    #[must_use]
    pub fn holds(&self, facts: &Facts<'_>) -> bool {
        let has = |wanted: &[Arc<str>], found: Option<&str>| found.is_some_and(|found| is_in(wanted, found));
        match self {
            Self::Tenant(wanted) => is_in(wanted, facts.tenant),
            Self::User(wanted) => has(wanted, facts.user),
            Self::Group(wanted) => facts.groups.iter().any(|group| is_in(wanted, group)),
            Self::Class(wanted) => is_in(wanted, facts.class),
            Self::InputTokens { at_least, below } => {
                facts.input >= *at_least && below.is_none_or(|below| facts.input < below)
            }
            Self::Task(wanted) => has(wanted, facts.task),
            Self::Tools(wanted) => facts.shape.tools == *wanted,
            Self::Images(wanted) => facts.shape.images == *wanted,
            Self::JsonSchema(wanted) => facts.shape.json_schema == *wanted,
            Self::Stream(wanted) => facts.shape.stream == *wanted,
            Self::Header(name, wanted) => has(wanted, facts.says.header(name)),
            Self::Claim(name, wanted) => facts.says.claim(name).iter().any(|value| is_in(wanted, value)),
            Self::Time(schedule) => schedule.holds(facts.now),
        }
    }

    /// Whether no call can meet it.
    #[must_use]
    pub fn is_impossible(&self) -> bool {
        match self {
            Self::Tenant(wanted)
            | Self::User(wanted)
            | Self::Group(wanted)
            | Self::Class(wanted)
            | Self::Task(wanted)
            | Self::Header(_, wanted)
            | Self::Claim(_, wanted) => wanted.is_empty(),
            Self::InputTokens { at_least, below } => below.is_some_and(|below| below <= *at_least),
            Self::Time(schedule) => schedule.length().is_zero(),
            Self::Tools(_) | Self::Images(_) | Self::JsonSchema(_) | Self::Stream(_) => false,
        }
    }

    /// The key of the configuration that it comes from.
    #[must_use]
    pub const fn key(&self) -> &'static str {
        match self {
            Self::Tenant(_) => "tenants",
            Self::User(_) => "users",
            Self::Group(_) => "groups",
            Self::Class(_) => "classes",
            Self::InputTokens { .. } => "input_tokens",
            Self::Task(_) => "task",
            Self::Tools(_) => "tools",
            Self::Images(_) => "images",
            Self::JsonSchema(_) => "json_schema",
            Self::Stream(_) => "stream",
            Self::Header(..) => "headers",
            Self::Claim(..) => "claims",
            Self::Time(_) => "hours",
        }
    }

    /// What the call has in place of it, in words.
    #[must_use]
    pub fn found(&self, facts: &Facts<'_>) -> String {
        let shown = |found: Option<&str>| match found {
            Some(found) => format!("`{}`", found.chars().take(SHOWN_MAX).collect::<String>()),
            None => "none".to_owned(),
        };
        let listed = |found: &[Arc<str>]| match found {
            [] => "none".to_owned(),
            [..] => found
                .iter()
                .map(|each| shown(Some(each)))
                .collect::<Vec<_>>()
                .join(", "),
        };
        match self {
            Self::Tenant(_) => shown(Some(facts.tenant)),
            Self::User(_) => shown(facts.user),
            Self::Group(_) => listed(facts.groups),
            Self::Class(_) => shown(Some(facts.class)),
            Self::InputTokens { .. } => format!("about {}", facts.input),
            Self::Task(_) => shown(facts.task),
            Self::Tools(_) => facts.shape.tools.to_string(),
            Self::Images(_) => facts.shape.images.to_string(),
            Self::JsonSchema(_) => facts.shape.json_schema.to_string(),
            Self::Stream(_) => facts.shape.stream.to_string(),
            Self::Header(name, _) => shown(facts.says.header(name)),
            Self::Claim(name, _) => listed(facts.says.claim(name)),
            Self::Time(schedule) => schedule.clock(facts.now),
        }
    }
}

/// So much of what a call says is repeated.
const SHOWN_MAX: usize = 64;

fn is_in(wanted: &[Arc<str>], found: &str) -> bool {
    wanted.iter().any(|wanted| &**wanted == found)
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.key();
        match self {
            Self::Tenant(wanted)
            | Self::User(wanted)
            | Self::Group(wanted)
            | Self::Class(wanted)
            | Self::Task(wanted) => write!(f, "{key}: {}", joined(wanted)),
            Self::Header(name, wanted) | Self::Claim(name, wanted) => {
                write!(f, "{key} {name}: {}", joined(wanted))
            }
            Self::InputTokens { at_least, below } => match below {
                Some(below) if *at_least == TokenCount::ZERO => write!(f, "{key} below {below}"),
                Some(below) => write!(f, "{key} from {at_least} to below {below}"),
                None => write!(f, "{key} of at least {at_least}"),
            },
            Self::Tools(wanted) | Self::Images(wanted) | Self::JsonSchema(wanted) | Self::Stream(wanted) => {
                write!(f, "{key}: {wanted}")
            }
            Self::Time(schedule) => write!(f, "{key}: {schedule}"),
        }
    }
}

fn joined(names: &[Arc<str>]) -> String {
    names
        .iter()
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(" or ")
}
