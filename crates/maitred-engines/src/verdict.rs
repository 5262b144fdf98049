//! What a verdict is called elsewhere: the fault that a caller is told, and the way a lease ends.

use maitred_types::{FaultKind, LeaseEnd};

use crate::{BodyVerdict, EndVerdict, HeadVerdict};

impl HeadVerdict {
    /// The fault, if the endpoint's answer is one that the gateway reports in its own words when no other endpoint helps.
    /// `None` means that the endpoint's own answer is relayed, or
    /// said to be none in the place of a redirection.
    #[must_use]
    pub const fn fault(self) -> Option<FaultKind> {
        match self {
            Self::Relay | Self::ClientError | Self::TooLong | Self::NotFound | Self::UnknownPath | Self::Redirect => {
                None
            }
            Self::QuotaSpent { .. } => Some(FaultKind::UpstreamQuota),
            Self::Overload { .. } => Some(FaultKind::UpstreamOverloaded),
            Self::ModelGone | Self::ServerError => Some(FaultKind::UpstreamError),
            Self::RefusedCredential => Some(FaultKind::UpstreamRefusedKey),
        }
    }

    /// How the lease of an attempt with this answer ends. A refusal of a bad request is the endpoint doing its work.
    #[must_use]
    pub const fn lease_end(self) -> LeaseEnd {
        match self {
            Self::Relay | Self::ClientError | Self::TooLong | Self::NotFound | Self::UnknownPath | Self::Redirect => {
                LeaseEnd::Success
            }
            Self::QuotaSpent { .. } | Self::Overload { .. } => LeaseEnd::Overload,
            Self::ModelGone | Self::ServerError | Self::RefusedCredential => LeaseEnd::Failure,
        }
    }
}

impl EndVerdict {
    /// The fault, unless the stream is complete.
    #[must_use]
    pub const fn fault(self) -> Option<FaultKind> {
        match self {
            Self::Complete => None,
            Self::Truncated => Some(FaultKind::UpstreamBroken),
            Self::Aborted => Some(FaultKind::UpstreamAborted),
            Self::Errored => Some(FaultKind::UpstreamError),
        }
    }

    /// How the lease of the attempt ends: an engine that gives up because it is going away is drained and not blamed.
    #[must_use]
    pub const fn lease_end(self) -> LeaseEnd {
        match self {
            Self::Complete => LeaseEnd::Success,
            Self::Truncated | Self::Errored => LeaseEnd::Failure,
            Self::Aborted => LeaseEnd::Draining,
        }
    }
}

impl BodyVerdict {
    /// The fault, unless the body is an answer.
    #[must_use]
    pub const fn fault(&self) -> Option<FaultKind> {
        match self {
            Self::Good => None,
            Self::Error(_) => Some(FaultKind::UpstreamError),
            Self::Aborted => Some(FaultKind::UpstreamAborted),
            Self::Empty | Self::Malformed => Some(FaultKind::UpstreamMalformed),
        }
    }

    /// How the lease of the attempt ends.
    #[must_use]
    pub const fn lease_end(&self) -> LeaseEnd {
        match self {
            Self::Good => LeaseEnd::Success,
            Self::Aborted => LeaseEnd::Draining,
            Self::Error(_) | Self::Empty | Self::Malformed => LeaseEnd::Failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_relayed_as_it_is_ends_a_lease_in_success() {
        let heads = [
            HeadVerdict::Relay,
            HeadVerdict::ClientError,
            HeadVerdict::NotFound,
            HeadVerdict::UnknownPath,
            HeadVerdict::Redirect,
            HeadVerdict::TooLong,
            HeadVerdict::ModelGone,
            HeadVerdict::QuotaSpent { retry_after: None },
            HeadVerdict::Overload { retry_after: None },
            HeadVerdict::ServerError,
            HeadVerdict::RefusedCredential,
        ];
        for head in heads {
            assert_eq!(
                head.fault().is_none(),
                head.lease_end() == LeaseEnd::Success,
                "{head:?}"
            );
        }
        let ends = [
            EndVerdict::Complete,
            EndVerdict::Truncated,
            EndVerdict::Aborted,
            EndVerdict::Errored,
        ];
        for end in ends {
            assert_eq!(end.fault().is_none(), end.lease_end() == LeaseEnd::Success, "{end:?}");
        }
        for body in [
            BodyVerdict::Good,
            BodyVerdict::Aborted,
            BodyVerdict::Empty,
            BodyVerdict::Malformed,
        ] {
            assert_eq!(
                body.fault().is_none(),
                body.lease_end() == LeaseEnd::Success,
                "{body:?}"
            );
        }
    }
}
