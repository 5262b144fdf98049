//! Bodies that are not what a call should be.

use maitred_test::{BodyEnd, Connection, Request};

use super::{Target, call, good};
use crate::table::{CHAT, MODEL, key};

/// A call with this body.
fn with_body(body: impl Into<Vec<u8>>) -> Request {
    Request::post(CHAT, body).bearer(&key(1).0)
}

#[tokio::test]
async fn what_is_no_json_object_is_refused() {
    let target = Target::new().await;
    let nested = format!("{{\"model\":\"{MODEL}\",\"a\":{}", "[".repeat(200_000));
    let check = async |body: &[u8]| target.check(&with_body(body), 400, "invalid_json").await;
    check(b"").await;
    check(b"{").await;
    check(b"null").await;
    check(b"[]").await;
    check(b"\"text\"").await;
    check(b"{\"model\":\"m\",}").await;
    check(b"{\"model\":\"m\"} {}").await;
    check(b"{\"model\":\"m\",\"a\":01}").await;
    check(b"{\"model\":\"m\",\"a\":\"\x00\"}").await;
    check(b"{'model':'m'}").await;
    check(b"\x1f\x8b\x08\x00 gzip").await;
    check(nested.as_bytes()).await;
    let answer = check(b"{\"model\":\"m\" \"a\":1}").await;
    assert!(
        answer.text().contains("13"),
        "the place of the mistake: {}",
        answer.text()
    );
    target.check_unharmed().await;
}

#[tokio::test]
async fn what_is_no_utf8_is_refused() {
    let target = Target::new().await;
    for bytes in [
        &b"\xff"[..],
        b"\xc3\x28",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xc0\xaf",
    ] {
        let body = [b"{\"model\":\"m\",\"messages\":[{\"content\":\"", bytes, b"\"}]}"].concat();
        target.check(&with_body(body), 400, "invalid_utf8").await;
    }
    target.check_unharmed().await;
}

#[tokio::test]
async fn members_that_the_gateway_reads_must_make_sense() {
    let target = Target::new().await;
    let check = async |body: &str, code: &str| target.check(&with_body(body), 400, code).await;
    check("{}", "missing_model").await;
    check(r#"{"model":null}"#, "invalid_field").await;
    check(r#"{"model":""}"#, "missing_model").await;
    check(r#"{"model":5}"#, "invalid_field").await;
    check(r#"{"model":["m"]}"#, "invalid_field").await;
    check(r#"{"model":"m","stream":"yes"}"#, "invalid_field").await;
    check(r#"{"model":"m","stream_options":7}"#, "invalid_field").await;
    check(r#"{"model":"m","max_tokens":"many"}"#, "invalid_field").await;
    // The endpoint would read the last one, another reader the first.
    check(r#"{"model":"m","model":"n"}"#, "invalid_field").await;
    check(r#"{"model":"m","\u006dodel":"n"}"#, "invalid_field").await;
    target.check_unharmed().await;
}

#[tokio::test]
async fn an_unknown_model_is_told() {
    let target = Target::new().await;
    let answer = target
        .check(&with_body(r#"{"model":"gpt-9"}"#), 404, "model_not_found")
        .await;
    assert!(answer.text().contains("gpt-9"), "{}", answer.text());
    let long = format!(r#"{{"model":"{}"}}"#, "x".repeat(100_000));
    let answer = target.check(&with_body(long), 404, "model_not_found").await;
    assert!(
        answer.body.len() < 1_000,
        "no echo of whatever is sent: {}",
        answer.body.len()
    );
    target.check_unharmed().await;
}

#[tokio::test]
async fn another_content_type_is_refused() {
    let target = Target::new().await;
    for media in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "application/jsonp",
        "",
        "multipart/form-data",
    ] {
        let request = Request::new("POST", CHAT)
            .header("content-type", media)
            .bearer(&key(1).0)
            .body(good());
        target.check(&request, 415, "unsupported_media_type").await;
    }
    let request = Request::new("POST", CHAT).bearer(&key(1).0).body(good());
    target.check(&request, 415, "unsupported_media_type").await;
    target.check_unharmed().await;
}

#[tokio::test]
async fn a_body_beyond_the_limit_is_refused() {
    let target = Target::with(|config| config.file("limits: { body: 64KiB }")).await;
    let of_size = |size: usize| {
        let mut body = good().into_bytes();
        body.resize(size, b' ');
        body
    };
    // What is announced too large is refused before it is sent.
    let head = "content-type: application/json\r\ncontent-length: 68719476736\r\n\r\n";
    let announced = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {}\r\n{head}",
        key(1).0
    );
    target.check_bytes(announced.as_bytes(), 413, "body_too_large").await;
    target
        .check(&with_body(of_size((64 << 10) + 1)), 413, "body_too_large")
        .await;
    let large = of_size(20 << 20);
    target.check(&with_body(large.clone()), 413, "body_too_large").await;
    // In chunks nothing is announced.
    let chunks = large
        .chunks(8 << 10)
        .flat_map(|chunk| [b"2000\r\n", chunk, b"\r\n"].concat());
    let chunked = Request::new("POST", CHAT)
        .header("content-type", "application/json")
        .header("transfer-encoding", "chunked")
        .bearer(&key(1).0)
        .body(chunks.collect::<Vec<_>>());
    target.check(&chunked, 413, "body_too_large").await;
    // In the other dialect there is another word for it.
    let messages = Request::post("/v1/messages", of_size((64 << 10) + 1)).header("x-api-key", &key(1).0);
    let answer = messages.send(target.gateway.address).await;
    assert_eq!(
        (answer.status(), &answer.json()["error"]["type"]),
        (413, &"request_too_large".into())
    );
    target.check_unharmed().await;
}

#[tokio::test]
async fn a_body_of_just_the_limit_passes() {
    let target = Target::with(|config| config.file("limits: { body: 64KiB }")).await;
    let mut body = good().into_bytes();
    body.resize(64 << 10, b' ');
    let answer = with_body(body.clone()).send(target.gateway.address).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert_eq!(target.endpoint.next_on(CHAT).await.body, body);
}

#[tokio::test]
async fn a_body_that_is_cut_short_is_told() {
    let target = Target::new().await;
    let whole = call(1).to_bytes();
    let mut connection = Connection::open(target.gateway.address).await;
    connection.send(&whole[..whole.len() - 5]).await;
    connection.shut().await;
    let head = connection.head().await;
    let answer = connection.rest(head).await;
    assert_eq!((answer.status(), answer.end), (400, BodyEnd::Complete));
    super::check_openai(&answer, "incomplete_body", "a short body");
    // Badly framed chunks are no body either.
    let request = Request::new("POST", CHAT)
        .header("content-type", "application/json")
        .header("transfer-encoding", "chunked")
        .bearer(&key(1).0);
    for chunks in [
        "zz\r\n{}\r\n0\r\n\r\n",
        "-1\r\n{}\r\n",
        "ffffffffffffffffff\r\n{}\r\n",
        "2\r\n{}X\r\n0\r\n\r\n",
    ] {
        target
            .check(&request.clone().body(chunks), 400, "incomplete_body")
            .await;
    }
    target.check_unharmed().await;
}

#[tokio::test]
async fn a_body_that_does_not_come_has_its_time() {
    let limits = "timeouts: { connect: 200ms, first_token: 500ms, idle: 500ms, total: 500ms }";
    let target = Target::with(|config| config.file(limits)).await;
    let whole = call(1).to_bytes();
    target
        .check_bytes(&whole[..whole.len() - 5], 400, "incomplete_body")
        .await;
    target.check_unharmed().await;
}
