//! The closed set of things that can go wrong, and the one table that says what each is called on every surface.

use crate::DegradeReason;

/// A wire API that a client speaks, as far as errors must be phrased in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// OpenAI's: chat, completions, embeddings, models and whatever else lies under `/v1/`.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
}

/// Who is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The call itself is at fault; sending it again unchanged will not help.
    Client,
    /// maitred is at fault, or refuses on its own account.
    Gateway,
    /// An endpoint is at fault.
    Upstream,
}

/// What a fault kind is called on every surface. Made only by [`FaultKind::row`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultRow {
    /// The word in metrics, logs, the `code` of OpenAI error bodies and the anchor in `docs/errors.md`.
    pub label: &'static str,
    /// HTTP status of an answer that has not begun.
    pub status: u16,
    /// `error.type` of an OpenAI body.
    pub openai_type: &'static str,
    /// `error.type` of an Anthropic body.
    pub anthropic_type: &'static str,
    /// Canonical gRPC code.
    pub grpc_code: u8,
    /// Who is to blame.
    pub origin: Origin,
    /// What it means and what to do, for the reference page.
    pub meaning: &'static str,
}

/// Declares the kinds and their table in one place.
macro_rules! faults {
    ($($kind:ident: $label:literal, $status:literal, $openai:literal, $anthropic:literal, $grpc:literal, $origin:ident, $meaning:literal;)*) => {
        /// Everything that can go wrong with a call. Closed: a new way to fail is a new line here.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FaultKind {
            $(#[doc = $meaning] $kind,)*
        }

        impl FaultKind {
            /// Every kind, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// The line of the table for this kind.
            #[must_use]
            pub const fn row(self) -> FaultRow {
                match self {
                    $(Self::$kind => FaultRow {
                        label: $label,
                        status: $status,
                        openai_type: $openai,
                        anthropic_type: $anthropic,
                        grpc_code: $grpc,
                        origin: Origin::$origin,
                        meaning: $meaning,
                    },)*
                }
            }
        }
    };
}

faults! {
    InvalidJson: "invalid_json", 400, "invalid_request_error", "invalid_request_error", 3, Client,
        "The body is not a JSON object. The message gives the byte at which reading stopped.";
    InvalidUtf8: "invalid_utf8", 400, "invalid_request_error", "invalid_request_error", 3, Client,
        "The body is not UTF-8. The message gives the first bad byte.";
    InvalidField: "invalid_field", 400, "invalid_request_error", "invalid_request_error", 3, Client,
        "A field that the gateway reads has a value it cannot have. The message names the field.";
    MissingModel: "missing_model", 400, "invalid_request_error", "invalid_request_error", 3, Client,
        "The body names no model. Add `model`; `GET /v1/models` lists what this key may use.";
    ContextTooLong: "context_length_exceeded", 400, "invalid_request_error", "invalid_request_error", 3, Client,
        "The call is longer than the context window of the model. Decision records name an attempt so after which the call went on to a fallback; without one the caller gets the endpoint's own words.";
    UnsupportedMediaType: "unsupported_media_type", 415, "invalid_request_error", "invalid_request_error", 3, Client,
        "The content type is not one the path accepts. Send `content-type: application/json`.";
    UnsupportedEncoding: "unsupported_encoding", 415, "invalid_request_error", "invalid_request_error", 3, Client,
        "The body is packed. Send the body without `content-encoding`.";
    BodyTooLarge: "body_too_large", 413, "invalid_request_error", "request_too_large", 8, Client,
        "The body is larger than `limits.body`. Send less, or raise the limit.";
    Malformed: "malformed_request", 400, "invalid_request_error", "invalid_request_error", 3, Client,
        "The request is not well-formed HTTP.";
    IncompleteBody: "incomplete_body", 400, "invalid_request_error", "invalid_request_error", 3, Client,
        "The body ended before its announced length, or its framing is broken.";
    HeadersTooLarge: "headers_too_large", 431, "invalid_request_error", "invalid_request_error", 8, Client,
        "There are more or larger headers than `limits.headers` allows.";
    MethodNotAllowed: "method_not_allowed", 405, "invalid_request_error", "invalid_request_error", 12, Client,
        "The path exists, but not with this method.";
    UnknownPath: "unknown_path", 404, "invalid_request_error", "not_found_error", 5, Client,
        "The gateway serves nothing at this path. Calls go to paths under `/v1/`.";
    UnknownModel: "model_not_found", 404, "invalid_request_error", "not_found_error", 5, Client,
        "No pool serves a model of this name, or the key may not know of it. `GET /v1/models` lists what this key may use.";
    MissingKey: "missing_key", 401, "authentication_error", "authentication_error", 16, Client,
        "The call carries no key. Send `Authorization: Bearer KEY` or `x-api-key: KEY`.";
    InvalidKey: "invalid_key", 401, "authentication_error", "authentication_error", 16, Client,
        "The key or token is not one that this gateway accepts. Of a token it is not said why.";
    ExpiredKey: "expired_key", 401, "authentication_error", "authentication_error", 16, Client,
        "The key or token was valid once and has expired. Ask for a new one.";
    IssuerUnavailable: "issuer_unavailable", 503, "server_error", "overloaded_error", 14, Gateway,
        "The keys of the token's issuer are not known, or were fetched too long ago (`max_age`), so the token cannot be checked. Try again; the operator must look at the issuer.";
    UserNotAllowed: "user_not_allowed", 403, "permission_error", "permission_error", 7, Client,
        "The caller may not act for the user that the call names, or the gateway must know the user and does not; or the call names another task than its token. The message says which.";
    ModelNotAllowed: "model_not_allowed", 403, "permission_error", "permission_error", 7, Client,
        "The key is valid but may not use this model.";
    QuotaExceeded: "quota_exceeded", 429, "rate_limit_error", "rate_limit_error", 8, Gateway,
        "A limit of the tenant, user, key, model or task has no room for the call. The message names the limit. Try again after the time in `Retry-After`; without one, the call is larger than the limit.";
    QuotaUnavailable: "quota_unavailable", 503, "server_error", "overloaded_error", 14, Gateway,
        "Quota cannot be checked, and the policy is to refuse rather than to let calls through unmetered. Try again.";
    LedgerUnavailable: "ledger_unavailable", 503, "server_error", "overloaded_error", 14, Gateway,
        "The call cannot be entered in the ledger, and calls are not let through unmetered: the policy is `reject`, or the spool is full. Try again; the operator must look at it.";
    AuditUnavailable: "audit_unavailable", 503, "server_error", "overloaded_error", 14, Gateway,
        "The audit cannot be written, and the policy is to refuse calls rather than to let them go unrecorded. Try again; the operator must look at it.";
    ClientClosed: "client_closed", 499, "invalid_request_error", "invalid_request_error", 1, Client,
        "The client went away before the answer was complete. Only records and metrics show it.";
    NoEndpoint: "no_endpoint", 503, "server_error", "overloaded_error", 14, Gateway,
        "No endpoint of the pool is able to serve: none is ready, or all have failed. Try again after the time in `Retry-After`; the readiness page of the admin listener says more.";
    Saturated: "saturated", 429, "rate_limit_error", "rate_limit_error", 8, Gateway,
        "Every endpoint that may serve the call counts as full. Try again after the time in `Retry-After`.";
    RetryBudget: "retry_budget_spent", 503, "server_error", "overloaded_error", 14, Gateway,
        "The first endpoint failed, and the pool's retry budget allows no second attempt. Try again after the time in `Retry-After`.";
    Draining: "draining", 503, "server_error", "overloaded_error", 14, Gateway,
        "This gateway is shutting down and its time for running calls is over. Try again; another instance will answer.";
    CallTimeout: "call_timeout", 504, "server_error", "api_error", 4, Gateway,
        "The call's whole time budget (`timeouts.total`) is spent.";
    LoopDetected: "loop_detected", 508, "server_error", "api_error", 9, Gateway,
        "The call has come through more gateways than any way should have, so an endpoint or provider of one of them most likely leads back to it. The operator must look at the configurations.";
    Internal: "internal", 500, "server_error", "api_error", 13, Gateway,
        "A fault in maitred itself. The request id finds the record.";
    ConnectFailed: "connect_failed", 502, "server_error", "api_error", 14, Upstream,
        "No connection to the endpoint could be made within `timeouts.connect`.";
    FirstTokenTimeout: "first_token_timeout", 504, "server_error", "api_error", 4, Upstream,
        "The endpoint gave no output within `timeouts.first_token`.";
    IdleTimeout: "idle_timeout", 504, "server_error", "api_error", 4, Upstream,
        "The endpoint began an answer and then fell silent for `timeouts.idle`.";
    UpstreamError: "upstream_error", 502, "server_error", "api_error", 13, Upstream,
        "The endpoint answered with a server error, or with an error where output was expected.";
    UpstreamOverloaded: "upstream_overloaded", 429, "rate_limit_error", "overloaded_error", 8, Upstream,
        "Every endpoint that was tried said it has too much to do. This is not the gateway's own limit.";
    UpstreamQuota: "upstream_quota_spent", 429, "rate_limit_error", "rate_limit_error", 8, Upstream,
        "Every endpoint that was tried said that what the gateway may use there is spent. This is not the gateway's own limit, nor the caller's.";
    UpstreamRefusedKey: "upstream_refused_key", 502, "server_error", "api_error", 13, Upstream,
        "The endpoint refused the gateway's own credential. The operator must look at it; the caller's key is fine.";
    UpstreamBroken: "upstream_broken", 502, "server_error", "api_error", 14, Upstream,
        "The connection to the endpoint broke, or the answer ended without its proper end.";
    UpstreamAborted: "upstream_aborted", 502, "server_error", "api_error", 10, Upstream,
        "The endpoint aborted the answer, as engines do when they are stopped.";
    UpstreamMalformed: "upstream_malformed", 502, "server_error", "api_error", 13, Upstream,
        "The endpoint's answer is not what its protocol says, or an event exceeds the size limit.";
}

impl FaultKind {
    /// The word for this kind on every surface.
    #[must_use]
    pub const fn label(self) -> &'static str {
        self.row().label
    }

    /// What is said of a target whose last attempt ended so, if another target might do better. `None` is said of what would
    /// be the same there, of the caller's own limits, and of what ends the call whatever is tried.
    #[must_use]
    pub const fn degrade_reason(self) -> Option<DegradeReason> {
        match self {
            Self::InvalidJson
            | Self::InvalidUtf8
            | Self::InvalidField
            | Self::MissingModel
            | Self::UnsupportedMediaType
            | Self::UnsupportedEncoding
            | Self::BodyTooLarge
            | Self::Malformed
            | Self::IncompleteBody
            | Self::HeadersTooLarge
            | Self::MethodNotAllowed
            | Self::UnknownPath
            | Self::UnknownModel
            | Self::MissingKey
            | Self::InvalidKey
            | Self::ExpiredKey
            | Self::IssuerUnavailable
            | Self::UserNotAllowed
            | Self::ModelNotAllowed
            | Self::QuotaExceeded
            | Self::QuotaUnavailable
            | Self::LedgerUnavailable
            | Self::AuditUnavailable
            | Self::ClientClosed
            | Self::Draining
            | Self::CallTimeout
            | Self::LoopDetected
            | Self::Internal => None,
            Self::ContextTooLong => Some(DegradeReason::ContextLength),
            Self::NoEndpoint | Self::ConnectFailed => Some(DegradeReason::Unavailable),
            Self::Saturated | Self::UpstreamOverloaded => Some(DegradeReason::Overload),
            Self::UpstreamQuota => Some(DegradeReason::Quota),
            Self::FirstTokenTimeout | Self::IdleTimeout => Some(DegradeReason::Timeout),
            Self::RetryBudget
            | Self::UpstreamError
            | Self::UpstreamRefusedKey
            | Self::UpstreamBroken
            | Self::UpstreamAborted
            | Self::UpstreamMalformed => Some(DegradeReason::Error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_callers_own_fault_leads_to_no_other_target() {
        for kind in FaultKind::ALL {
            let is_length = *kind == FaultKind::ContextTooLong;
            match kind.row().origin {
                Origin::Client => assert_eq!(kind.degrade_reason().is_some(), is_length, "{kind:?}"),
                Origin::Upstream => assert!(kind.degrade_reason().is_some(), "{kind:?}"),
                Origin::Gateway => {}
            }
        }
        for reason in DegradeReason::ALL {
            let is_said = FaultKind::ALL.iter().any(|kind| kind.degrade_reason() == Some(*reason));
            assert_eq!(is_said, *reason != DegradeReason::Cache, "{reason:?}");
        }
    }

    #[test]
    fn every_label_is_unique_and_every_status_is_an_error() {
        let mut labels: Vec<_> = FaultKind::ALL.iter().map(|kind| kind.label()).collect();
        labels.sort_unstable();
        let before = labels.len();
        labels.dedup();
        assert_eq!(labels.len(), before);
        for kind in FaultKind::ALL {
            let row = kind.row();
            assert!((400..600).contains(&row.status), "{kind:?}");
            assert_eq!(
                row.status < 500,
                row.origin == Origin::Client || row.status == 429,
                "{kind:?}"
            );
        }
    }
}
