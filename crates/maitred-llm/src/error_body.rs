//! Errors as the client's dialect has them, in answers and in streams.

use bytes::Bytes;
use maitred_types::{Dialect, FaultKind};
use serde::Serialize;

use crate::BodyError;

/// An error of an endpoint, read out of whatever form it had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpstreamError<'a> {
    /// HTTP status of the endpoint's answer; zero for an error inside a stream.
    pub status: u16,
    /// What it says.
    pub message: &'a str,
    /// Its own type, such as vLLM's `BadRequestError`.
    pub kind: Option<&'a str>,
    /// The field at fault.
    pub param: Option<&'a str>,
    /// Its own code.
    pub code: Option<&'a str>,
}

/// OpenAI's form.
#[derive(Serialize)]
struct OpenAi<'a> {
    error: OpenAiError<'a>,
}

#[derive(Serialize)]
struct OpenAiError<'a> {
    message: &'a str,
    r#type: &'a str,
    param: Option<&'a str>,
    code: Option<&'a str>,
}

/// Anthropic's form.
#[derive(Serialize)]
struct Anthropic<'a> {
    r#type: &'static str,
    error: AnthropicError<'a>,
    request_id: &'a str,
}

#[derive(Serialize)]
struct AnthropicError<'a> {
    r#type: &'a str,
    message: &'a str,
}

/// The body of an answer that reports a fault of the gateway's own table. `code` of OpenAI's form is the fault's label, so that the
/// gateway's own limit and an endpoint's can be told apart (E3 of the translation rules).
#[must_use]
pub fn error_body(dialect: Dialect, fault: FaultKind, message: &str, request_id: &str) -> Bytes {
    Bytes::from(own_error(dialect, fault, None, (message, request_id)))
}

/// The body of an answer that refuses a call's body. OpenAI's `param` names the member at fault.
#[must_use]
pub fn body_refusal(dialect: Dialect, error: &BodyError, request_id: &str) -> Bytes {
    let message = error.to_string();
    Bytes::from(own_error(dialect, error.fault(), error.field(), (&message, request_id)))
}

/// The same as an event, for a stream that has begun. In OpenAI's dialect no `[DONE]` may follow it, for that would make a broken
/// answer look whole (S10 of the translation rules).
#[must_use]
pub fn error_event(dialect: Dialect, fault: FaultKind, message: &str, request_id: &str) -> Bytes {
    event(dialect, &own_error(dialect, fault, None, (message, request_id)))
}

/// An endpoint's error in the client's dialect. Text, type, field and code are the endpoint's own where the dialect has a place
/// for them; Anthropic's closed set of types is filled from the status.
#[must_use]
pub fn reshape_error(dialect: Dialect, error: &UpstreamError<'_>, request_id: &str) -> Bytes {
    Bytes::from(upstream_error(dialect, error, request_id))
}

/// The same as an event, for a stream that has begun.
#[must_use]
pub fn reshape_error_event(dialect: Dialect, error: &UpstreamError<'_>, request_id: &str) -> Bytes {
    event(dialect, &upstream_error(dialect, error, request_id))
}

fn own_error(dialect: Dialect, fault: FaultKind, param: Option<&str>, (message, request_id): (&str, &str)) -> Vec<u8> {
    let row = fault.row();
    match dialect {
        Dialect::OpenAi => openai(message, row.openai_type, param, Some(row.label)),
        Dialect::Anthropic => anthropic(message, row.anthropic_type, request_id),
    }
}

fn upstream_error(dialect: Dialect, error: &UpstreamError<'_>, request_id: &str) -> Vec<u8> {
    match dialect {
        Dialect::OpenAi => {
            let kind = error.kind.unwrap_or_else(|| openai_type(error.status));
            openai(error.message, kind, error.param, error.code)
        }
        Dialect::Anthropic => anthropic(error.message, anthropic_type(error.status), request_id),
    }
}

fn openai(message: &str, kind: &str, param: Option<&str>, code: Option<&str>) -> Vec<u8> {
    json(&OpenAi {
        error: OpenAiError {
            message,
            r#type: kind,
            param,
            code,
        },
    })
}

fn anthropic(message: &str, kind: &str, request_id: &str) -> Vec<u8> {
    json(&Anthropic {
        r#type: "error",
        error: AnthropicError { r#type: kind, message },
        request_id,
    })
}

/// JSON holds no bare line end, so one `data` line is enough.
fn event(dialect: Dialect, body: &[u8]) -> Bytes {
    let head: &[u8] = match dialect {
        Dialect::OpenAi => b"data: ",
        Dialect::Anthropic => b"event: error\ndata: ",
    };
    Bytes::from([head, body, b"\n\n"].concat())
}

const fn openai_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        _ => "server_error",
    }
}

const fn anthropic_type(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        503 | 529 => "overloaded_error",
        _ => "api_error",
    }
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    const BOTH: [Dialect; 2] = [Dialect::OpenAi, Dialect::Anthropic];

    #[test]
    fn own_faults_have_the_dialects_form() {
        let check = |dialect, fault, body: &str| {
            assert_eq!(error_body(dialect, fault, "no", "r-1"), body.as_bytes());
        };
        check(
            Dialect::OpenAi,
            FaultKind::UnknownModel,
            r#"{"error":{"message":"no","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#,
        );
        check(
            Dialect::Anthropic,
            FaultKind::Saturated,
            r#"{"type":"error","error":{"type":"rate_limit_error","message":"no"},"request_id":"r-1"}"#,
        );
    }

    #[test]
    fn a_refused_body_names_its_member() {
        let error = crate::scan(&Bytes::from_static(b"{\"stream\":1}")).unwrap_err();
        assert_eq!(
            body_refusal(Dialect::OpenAi, &error, "r"),
            concat!(
                r#"{"error":{"message":"`stream` must be true or false (offset 10)","#,
                r#""type":"invalid_request_error","param":"stream","code":"invalid_field"}}"#
            )
        );
        assert_eq!(
            body_refusal(Dialect::Anthropic, &BodyError::MissingModel, "r"),
            concat!(
                r#"{"type":"error","error":{"type":"invalid_request_error","#,
                r#""message":"`model` is missing or empty"},"request_id":"r"}"#
            )
        );
    }

    #[test]
    fn the_event_is_one_event_and_no_end() {
        for dialect in BOTH {
            let event = error_event(dialect, FaultKind::UpstreamBroken, "a\nb\r\nc\n\ndata: [DONE]", "r");
            let mut reader = crate::sse::Reader::default();
            reader.feed(event.clone());
            let read = reader.next_event().unwrap().unwrap();
            assert_eq!(read.raw(), &event);
            let data: Value = serde_json::from_slice(read.data().unwrap()).unwrap();
            assert_eq!(data["error"]["message"], "a\nb\r\nc\n\ndata: [DONE]");
            assert_eq!(read.name().is_some(), dialect == Dialect::Anthropic);
            assert_eq!(reader.next_event().unwrap(), None);
        }
    }

    #[test]
    fn an_endpoints_error_keeps_what_the_dialect_has_room_for() {
        let error = UpstreamError {
            status: 400,
            message: "too long",
            kind: Some("BadRequestError"),
            param: Some("input_tokens"),
            code: Some("400"),
        };
        assert_eq!(
            reshape_error(Dialect::OpenAi, &error, "r"),
            r#"{"error":{"message":"too long","type":"BadRequestError","param":"input_tokens","code":"400"}}"#
        );
        assert_eq!(
            reshape_error(Dialect::Anthropic, &error, "r"),
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"too long"},"request_id":"r"}"#
        );
        assert_eq!(
            reshape_error_event(Dialect::Anthropic, &UpstreamError::default(), "r"),
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"\"},\"request_id\":\"r\"}\n\n"
        );
    }

    #[test]
    fn types_follow_the_status() {
        let check = |status, in_openai: &str, in_anthropic: &str| {
            assert_eq!((openai_type(status), anthropic_type(status)), (in_openai, in_anthropic));
        };
        check(404, "invalid_request_error", "not_found_error");
        check(413, "invalid_request_error", "request_too_large");
        check(422, "invalid_request_error", "invalid_request_error");
        check(429, "rate_limit_error", "rate_limit_error");
        check(500, "server_error", "api_error");
        check(503, "server_error", "overloaded_error");
        check(529, "server_error", "overloaded_error");
    }

    proptest! {
        #[test]
        fn any_message_makes_valid_json(message: String, kind: Option<String>, code: Option<String>, id: String, at: prop::sample::Index) {
            let fault = FaultKind::ALL[at.index(FaultKind::ALL.len())];
            let error = UpstreamError {
                message: &message,
                kind: kind.as_deref(),
                code: code.as_deref(),
                ..UpstreamError::default()
            };
            for dialect in BOTH {
                for body in [error_body(dialect, fault, &message, &id), reshape_error(dialect, &error, &id)] {
                    let read: Value = serde_json::from_slice(&body).unwrap();
                    prop_assert_eq!(read["error"]["message"].as_str(), Some(message.as_str()));
                    prop_assert!(read["error"]["type"].is_string());
                }
            }
        }
    }
}
