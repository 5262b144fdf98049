//! What the scheduler is asked and what it answers.

use std::fmt;
use std::time::Duration;

use maitred_types::{Address, EndpointId, FaultKind, LeaseId, PromptChain, Time, TokenCount};

use crate::filter::Removed;
use crate::waiting::ShedCause;
use crate::why::{Explain, Why};

/// Which try of its call an ask is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttemptKind {
    /// The first one.
    #[default]
    First,
    /// A further one; it needs a place in the retry budget and holds it until its lease ends.
    Retry,
}

/// How the output of a call will be seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// Piece by piece, as it is generated: [`crate::Pool::first_token`] says when it begins.
    #[default]
    Streamed,
    /// All of it at its end. When it begins to be generated is assumed, from the prompt tokens before it on its endpoint.
    Whole,
}

/// What the scheduler is asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask<'a> {
    /// The model that the endpoint will be asked for.
    pub model: &'a str,
    /// The LoRA adapter, if the model is one.
    pub adapter: Option<&'a str>,
    /// The session's hash, if the call belongs to one.
    pub session: Option<u64>,
    /// Prompt tokens, as estimated.
    pub input_tokens: TokenCount,
    /// Output tokens, as expected.
    pub output_tokens: TokenCount,
    /// The most output tokens that the client allows, if it says.
    pub output_limit: Option<TokenCount>,
    /// What calls with answers of like length have in common, such as the hash of model, tenant and route. Where such calls have
    /// ended before, their answers tell what to expect, and `output_tokens` is not asked.
    pub length_key: Option<u64>,
    /// The prompt's blocks, if they are known; what a prefix cache can hold of it.
    pub chain: Option<&'a PromptChain>,
    /// Endpoints that this call has tried already.
    pub excluded: &'a [EndpointId],
    /// The endpoint that the client's connection is bound to, where balancing is per connection. It is honoured while it
    /// passes the hard filters; else the pick is a normal one and the caller binds anew.
    pub pinned: Option<EndpointId>,
    /// How the output will be seen.
    pub delivery: Delivery,
    /// Which try this is.
    pub attempt: AttemptKind,
    /// How much the pick should say about itself.
    pub explain: Explain,
    /// The class, by name; the default one if `None` or unknown. This and what follows matters to asks that may wait.
    pub class: Option<&'a str>,
    /// Whose call it is, as a hash.
    pub tenant: u64,
    /// The weight of that tenant among others; 0 counts as 1.
    pub weight: u32,
    /// Bytes that are held while it waits.
    pub bytes: u64,
    /// When its output is of no use any more.
    pub deadline: Option<Time>,
    /// When the call came, if that was before the ask.
    pub arrived: Option<Time>,
}

/// A booked endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Picked {
    /// The booking; finish it exactly once.
    pub lease: LeaseId,
    /// Who.
    pub endpoint: EndpointId,
    /// Where.
    pub address: Address,
    /// Why this one.
    pub why: Why,
}

/// Why nothing was booked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No endpoint is ready.
    NotReady {
        /// What each filter removed.
        removed: Removed,
    },
    /// Every ready endpoint has been tried by this call.
    AllExcluded {
        /// What each filter removed.
        removed: Removed,
    },
    /// Every endpoint that may serve the call counts as full.
    Saturated {
        /// When to try again.
        retry_after: Duration,
        /// What each filter removed; all zero when the pool's lease table is full.
        removed: Removed,
    },
    /// As many second attempts are under way as are allowed.
    RetryBudget {
        /// When to try again.
        retry_after: Duration,
    },
    /// It could not wait, or not any longer.
    Shed {
        /// Why.
        cause: ShedCause,
        /// When to try again: how long it would have to wait now, as predicted.
        retry_after: Duration,
    },
}

impl Refusal {
    /// What this is called towards the client.
    #[must_use]
    pub const fn fault(&self) -> FaultKind {
        match self {
            Self::NotReady { .. } | Self::AllExcluded { .. } => FaultKind::NoEndpoint,
            Self::Saturated { .. } | Self::Shed { .. } => FaultKind::Saturated,
            Self::RetryBudget { .. } => FaultKind::RetryBudget,
        }
    }

    /// The word for logs, metrics and records.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::NotReady { .. } => "not_ready",
            Self::AllExcluded { .. } => "all_excluded",
            Self::Saturated { .. } => "saturated",
            Self::RetryBudget { .. } => "retry_budget",
            Self::Shed { cause, .. } => cause.label(),
        }
    }

    /// When to try again, where waiting helps.
    #[must_use]
    pub const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Saturated { retry_after, .. }
            | Self::RetryBudget { retry_after }
            | Self::Shed { retry_after, .. } => Some(*retry_after),
            Self::NotReady { .. } | Self::AllExcluded { .. } => None,
        }
    }

    /// What each filter removed.
    #[must_use]
    pub fn removed(&self) -> Removed {
        match self {
            Self::NotReady { removed } | Self::AllExcluded { removed } | Self::Saturated { removed, .. } => *removed,
            Self::RetryBudget { .. } | Self::Shed { .. } => Removed::default(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())?;
        for (filter, endpoints) in self.removed().iter() {
            write!(f, ", {} removed {endpoints}", filter.name())?;
        }
        Ok(())
    }
}

/// What the end of a lease meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReport {
    /// It was live and has ended now.
    Ended {
        /// Whose it was.
        endpoint: EndpointId,
        /// How long it was held.
        held: Duration,
        /// How long its first output took, if there was any.
        first_token: Option<Duration>,
    },
    /// Its endpoint had gone or restarted before; it ends now and counts for nobody's health.
    Fenced {
        /// Whose it was.
        endpoint: EndpointId,
    },
    /// There is no such lease: it had been finished before. Ignored and counted.
    Unknown,
}
