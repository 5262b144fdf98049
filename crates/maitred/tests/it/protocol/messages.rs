//! Anthropic's messages, passed through.

use maitred_test::{BodyEnd, Play, Request};
use serde_json::Value;

use super::{one, one_with};
use crate::table::{Gateway, MODEL};

const MESSAGES: &str = "/v1/messages";

/// A call with the key in Anthropic's header.
fn message(gateway: &Gateway, more: &str) -> Request {
    let body =
        format!(r#"{{"model":"{MODEL}","max_tokens":9,"messages":[{{"role":"user","content":"Hello"}}]{more}}}"#);
    Request::post(MESSAGES, body)
        .header("x-api-key", &gateway.key)
        .header("anthropic-version", "2023-06-01")
}

fn event(name: &str, data: &str) -> String {
    format!("event: {name}\ndata: {{\"type\":\"{name}\"{data}}}\n\n")
}

fn beginning() -> String {
    let message = r#"{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"usage":{"input_tokens":12,"output_tokens":0}}"#;
    [
        event("message_start", &format!(r#","message":{message}"#)),
        event(
            "content_block_start",
            r#","index":0,"content_block":{"type":"text","text":""}"#,
        ),
        event(
            "content_block_delta",
            r#","index":0,"delta":{"type":"text_delta","text":"Well"}"#,
        ),
    ]
    .concat()
}

fn ending() -> String {
    [
        event("content_block_stop", r#","index":0"#),
        event(
            "message_delta",
            r#","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":12,"output_tokens":5}"#,
        ),
        event("message_stop", ""),
    ]
    .concat()
}

#[tokio::test]
async fn an_answer_and_its_usage_pass() {
    let (endpoint, gateway) = one().await;
    let answer = r#"{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"text","text":"Well"}],"stop_reason":"end_turn","usage":{"input_tokens":12,"cache_read_input_tokens":8,"output_tokens":3}}"#;
    endpoint.on(MESSAGES, Play::json(200, answer));
    let got = message(&gateway, "").send(gateway.address).await;
    assert_eq!((got.status(), got.text().as_str()), (200, answer));
    let received = endpoint.next_on(MESSAGES).await;
    assert_eq!(received.head.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(received.head.header("x-api-key"), None);
    let record = gateway.until_records(1).await.remove(0);
    // In this dialect the cached part lies beside the input; the record has all of it.
    assert_eq!(
        (&record["input_tokens"], &record["cached_tokens"]),
        (&20.into(), &8.into()),
        "{record}"
    );
    assert_eq!(
        (&record["output_tokens"], &record["outcome"]),
        (&3.into(), &"answered".into()),
        "{record}"
    );
}

#[tokio::test]
async fn a_stream_passes_byte_by_byte() {
    let (endpoint, gateway) = one().await;
    endpoint.on(MESSAGES, Play::stream().chunk(beginning()).chunk(ending()).end());
    let request = message(&gateway, r#","stream":true"#);
    let sent = String::from_utf8(request.to_bytes()).unwrap();
    let got = request.send(gateway.address).await;
    assert_eq!((got.text(), got.end), (beginning() + &ending(), BodyEnd::Complete));
    // There is no option for usage in this dialect, so the body goes as it came.
    let received = String::from_utf8(endpoint.next_on(MESSAGES).await.body).unwrap();
    assert!(sent.ends_with(&received), "{received}");
    let record = gateway.until_records(1).await.remove(0);
    assert_eq!(
        (&record["input_tokens"], &record["output_tokens"]),
        (&12.into(), &5.into()),
        "{record}"
    );
    assert_eq!(record["usage_source"], "reported");
}

#[tokio::test]
async fn a_broken_stream_ends_with_the_dialects_error() {
    let (endpoint, gateway) = one_with(|config| config.pool("retry: { attempts: 1 }")).await;
    endpoint.on(MESSAGES, Play::stream().chunk(beginning()).cut());
    let got = message(&gateway, r#","stream":true"#).send(gateway.address).await;
    let events = got.events();
    let last = events.last().unwrap();
    assert_eq!((last.name.as_deref(), got.end), (Some("error"), BodyEnd::Cut));
    let error = last.json();
    assert_eq!(
        (&error["type"], &error["error"]["type"]),
        (&"error".into(), &"api_error".into())
    );
    assert_eq!(
        error["request_id"].as_str(),
        got.header("request-id").or(got.header("x-request-id"))
    );
    assert_eq!(gateway.until_records(1).await[0]["outcome"], "broken");
}

#[tokio::test]
async fn errors_have_the_dialects_form() {
    let (_endpoint, gateway) = one().await;
    let check = async |request: Request, status: u16, kind: &str| {
        let got = request.send(gateway.address).await;
        let error: Value = got.json();
        assert_eq!((got.status(), &error["type"]), (status, &"error".into()), "{error}");
        assert_eq!(error["error"]["type"], kind, "{error}");
        assert!(
            error["error"]["message"]
                .as_str()
                .is_some_and(|message| !message.is_empty()),
            "{error}"
        );
        assert_eq!(error["request_id"].as_str(), got.header("x-request-id"));
    };
    check(Request::post(MESSAGES, "{}"), 401, "authentication_error").await;
    check(
        Request::post(MESSAGES, "{}").header("x-api-key", "wrong"),
        401,
        "authentication_error",
    )
    .await;
    check(
        Request::post(MESSAGES, "{}").bearer(&gateway.key),
        400,
        "invalid_request_error",
    )
    .await;
    check(
        Request::post(MESSAGES, "{\"model\"").bearer(&gateway.key),
        400,
        "invalid_request_error",
    )
    .await;
    check(
        Request::post(MESSAGES, r#"{"model":"none"}"#).bearer(&gateway.key),
        404,
        "not_found_error",
    )
    .await;
    check(
        Request::get(MESSAGES).bearer(&gateway.key),
        405,
        "invalid_request_error",
    )
    .await;
    // The scripted endpoint has no such path.
    check(message(&gateway, ""), 404, "not_found_error").await;
}
