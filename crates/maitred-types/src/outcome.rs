//! How things end.

use crate::FaultKind;

/// How a call ended; made exactly once per call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutcomeStatus {
    /// The client has the whole answer of an endpoint, be it a success or the endpoint's own refusal of a bad request.
    Answered,
    /// The client went away before the end.
    ClientClosed,
    /// The client got an error instead of an answer.
    Failed(FaultKind),
    /// The client got a part of the answer and then an honest error.
    Broken(FaultKind),
}

impl OutcomeStatus {
    /// The word for logs, metrics and records.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::ClientClosed => "client_closed",
            Self::Failed(_) => "failed",
            Self::Broken(_) => "broken",
        }
    }

    /// What went wrong, if anything did.
    #[must_use]
    pub const fn fault(self) -> Option<FaultKind> {
        match self {
            Self::Failed(kind) | Self::Broken(kind) => Some(kind),
            Self::ClientClosed => Some(FaultKind::ClientClosed),
            Self::Answered => None,
        }
    }
}

/// How a lease ended, as far as the endpoint's health is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseEnd {
    /// The endpoint answered; a refusal of a bad request counts, for the endpoint did its work.
    Success,
    /// The endpoint failed: connection, 5xx, hang, broken stream.
    Failure,
    /// The endpoint said that it has too much to do (429, 503 with `Retry-After`). It is busy, not broken.
    Overload,
    /// The endpoint is leaving (it aborted the answer while shutting down). It is to be drained, not blamed.
    Draining,
    /// The client went away; this says nothing about the endpoint.
    Cancelled,
    /// Nobody said how it ended; the lease was dropped. Counted, since it should not happen.
    Abandoned,
}

impl LeaseEnd {
    /// The word for logs and metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Overload => "overload",
            Self::Draining => "draining",
            Self::Cancelled => "cancelled",
            Self::Abandoned => "abandoned",
        }
    }
}
