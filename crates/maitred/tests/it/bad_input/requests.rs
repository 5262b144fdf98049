//! Keys, paths, methods and headers that are not what they should be.

use hyper::header::HeaderName;
use maitred_test::{Connection, Http2, Request, eventually};

use super::{Target, call, good};
use crate::table::{CHAT, Config, MODEL, key};

#[tokio::test]
async fn who_is_not_known_is_not_served() {
    let entry = |number: u8, more: &str| format!("{{ hash: \"{}\", tenant: t, shared: true{more} }}", key(number).1);
    let auth = format!(
        "{{ keys: [{}, {}, {}, {}] }}",
        entry(1, ""),
        entry(2, ", expires: 2026-01-01"),
        entry(3, ", not_before: 2999-01-01"),
        entry(4, ", models: [other]")
    );
    let models = format!("[{{ name: {MODEL} }}, {{ name: other, served_as: {MODEL} }}]");
    let target = Target::with(|config: Config| config.auth(&auth).models(&models)).await;
    let plain = || Request::post(CHAT, good());
    let right = key(1).0;
    for (request, code) in [
        (plain(), "missing_key"),
        (plain().bearer("wrong"), "invalid_key"),
        (plain().bearer(right.split_at(right.len() - 1).0), "invalid_key"),
        (plain().bearer(&format!("{right}x")), "invalid_key"),
        (plain().bearer(&right.to_uppercase()), "invalid_key"),
        (plain().bearer(&key(9).0), "invalid_key"),
        (plain().bearer(&key(1).1), "invalid_key"),
        (plain().bearer(""), "invalid_key"),
        (plain().bearer(&"x".repeat(30_000)), "invalid_key"),
        (plain().header("authorization", &right), "invalid_key"),
        (
            plain().header("authorization", &format!("Basic {right}")),
            "invalid_key",
        ),
        (plain().bearer(&right).bearer(&right), "invalid_key"),
        (plain().bearer(&right).header("x-api-key", "another"), "invalid_key"),
        (plain().bearer(&key(2).0), "expired_key"),
        (plain().bearer(&key(3).0), "invalid_key"),
    ] {
        let answer = target.check(&request, 401, code).await;
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{code}");
        assert!(!answer.text().contains(&right), "{}", answer.text());
    }
    target.check(&call(4), 403, "model_not_allowed").await;
    // The same key by both ways is one key.
    let both = plain().bearer(&right).header("x-api-key", &right).body("{");
    target.check(&both, 400, "invalid_json").await;
    target.check_unharmed().await;
}

#[tokio::test]
async fn paths_are_taken_as_they_are_or_not_at_all() {
    let target = Target::new().await;
    for path in [
        "/",
        "/v1",
        "/v1/",
        "/v2/chat/completions",
        "/V1/chat/completions",
        "/chat/completions",
        "/metrics",
        "/health",
        "//v1/chat/completions",
        "/v1//chat/completions",
        "/v1/chat//completions",
        "/v1/chat/completions/",
        "/v1/./chat/completions",
        "/v1/files/../chat/completions",
        "/v1/../metrics",
        "/v1/%2e%2e/metrics",
        "/v1/chat%2fcompletions",
        "/v1/chat%2Fcompletions",
        "/v1/%63hat/completions",
        "/v1/a%00b",
        "/v1/a%",
        "/v1/a%zz",
        "/v1/a\\..\\b",
        "/v1/load_lora_adapter",
        "/v1/unload_lora_adapter",
        "*",
    ] {
        let answer = target
            .check(&Request::post(path, good()).bearer(&key(1).0), 404, "unknown_path")
            .await;
        assert!(answer.header("x-request-id").is_some(), "{path}");
    }
    let connect = Request::new("CONNECT", "example.com:443").bearer(&key(1).0);
    target.check(&connect, 404, "unknown_path").await;
    target.check_unharmed().await;
}

#[tokio::test]
async fn a_path_has_its_methods() {
    let target = Target::new().await;
    let check = async |method: &str, path: &str, allow: &str| {
        let request = Request::new(method, path).bearer(&key(1).0);
        let answer = target.check(&request, 405, "method_not_allowed").await;
        assert_eq!(answer.header("allow"), Some(allow), "{method} {path}");
    };
    for method in ["GET", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW", "post"] {
        check(method, CHAT, "POST").await;
    }
    check("POST", "/v1/models", "GET").await;
    check("BREW", "/v1/other", "GET, POST, PUT, PATCH, DELETE").await;
    target.check_unharmed().await;
}

#[tokio::test]
async fn too_many_or_too_large_headers_are_refused() {
    let target = Target::new().await;
    let many = |count: usize| (0..count).fold(call(1), |request, number| request.header(&format!("x-{number}"), "1"));
    target.check(&many(10_000), 431, "headers_too_large").await;
    target.check(&many(200), 431, "headers_too_large").await;
    for size in [70 << 10, 300 << 10, 1 << 20] {
        target
            .check(&call(1).header("x-large", &"x".repeat(size)), 431, "headers_too_large")
            .await;
        let path = format!("{CHAT}?{}", "x".repeat(size));
        let answer = Request::post(&path, good())
            .bearer(&key(1).0)
            .send(target.gateway.address)
            .await;
        assert!(matches!(answer.status(), 414 | 431), "{}", answer.text());
        super::check_openai(&answer, "headers_too_large", "a long path");
    }
    target.check_unharmed().await;
}

#[tokio::test]
async fn over_http2_the_limits_are_the_same() {
    let target = Target::new().await;
    let client = Http2::open(target.gateway.address).await;
    let check = async |count: usize, size: usize| {
        let mut request = client.request(CHAT, &key(1).0, &good());
        for number in 0..count {
            let name = HeaderName::try_from(format!("x-{number}")).unwrap();
            request.headers_mut().insert(name, "x".repeat(size).parse().unwrap());
        }
        let (head, body, _) = client.send(request).await;
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(head.status.as_u16(), 431, "{body}");
        assert_eq!(body["error"]["code"], "headers_too_large", "{body}");
    };
    check(5_000, 1).await;
    check(200, 1).await;
    check(1, 70 << 10).await;
    drop(client);
    target.check_unharmed().await;
}

#[tokio::test]
async fn the_limits_of_headers_are_the_configurations() {
    let limits = "limits: { headers: { size: 2KiB, count: 20 } }";
    let target = Target::with(|config| config.file(limits)).await;
    let large = |size: usize| call(1).header("x-large", &"x".repeat(size));
    target.check(&large(2 << 10), 431, "headers_too_large").await;
    let many = |count: usize| (0..count).fold(call(1), |request, number| request.header(&format!("x-{number}"), "1"));
    target.check(&many(20), 431, "headers_too_large").await;
    // In the dialect of the path, where that can be known.
    let messages = Request::post("/v1/messages", good()).header("x-large", &"x".repeat(2 << 10));
    let answer = messages.send(target.gateway.address).await;
    assert_eq!((answer.status(), &answer.json()["type"]), (431, &"error".into()));
    assert_eq!(target.endpoint.received_on(CHAT).len(), 0);
    assert_eq!(large(1 << 10).send(target.gateway.address).await.status(), 200);
    assert_eq!(many(10).send(target.gateway.address).await.status(), 200);
    // They change with the file, for new connections.
    let wider = Config::of([target.endpoint.address()]).file("limits: { headers: { size: 128KiB, count: 300 } }");
    target.gateway.rewrite(&wider);
    eventually("the wider limits", async || {
        let is_wider = large(100 << 10).send(target.gateway.address).await.status() == 200;
        (is_wider && many(250).send(target.gateway.address).await.status() == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_two_readers_may_read_differently_is_one_call_or_none() {
    // Where a length and chunks contradict each other, the rest may look like a second request.
    let target = Target::new().await;
    let second = String::from_utf8(Request::post(CHAT, good()).to_bytes()).unwrap();
    let head = format!(
        "POST {CHAT} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n",
        key(1).0
    );
    for framing in [
        "content-length: 5\r\ncontent-length: 6\r\n",
        "content-length: 5, 6\r\n",
        "content-length: +5\r\n",
        "content-length: 0x5\r\n",
        "content-length: -1\r\n",
        "content-length: 99999999999999999999999\r\n",
        "content-length : 5\r\n",
        "transfer-encoding: identity\r\n",
        "transfer-encoding: chunked, identity\r\n",
        "transfer-encoding: xchunked\r\n",
        "transfer-encoding:\x0bchunked\r\n",
        "x-folded: a\r\n b\r\n",
        "x-null: a\0b\r\n",
        "no colon\r\n",
    ] {
        let bytes = format!("{head}{framing}\r\n0\r\n\r\n{second}");
        let mut connection = Connection::open(target.gateway.address).await;
        connection.send(bytes.as_bytes()).await;
        let answer = connection.try_head().await.expect("an answer");
        let answer = connection.rest(answer).await;
        assert!((400..500).contains(&answer.status()), "{framing:?}: {}", answer.text());
        assert!(answer.json()["error"]["code"].is_string(), "{framing:?}");
        assert!(
            connection.try_head().await.is_none(),
            "{framing:?}: the rest was taken for a request"
        );
    }
    target.check_unharmed().await;
}

#[tokio::test]
async fn a_length_beside_chunks_does_not_count() {
    let target = Target::new().await;
    let body = good();
    let smuggled = format!(
        "{:x}\r\n{body}\r\n0\r\n\r\nGET /v1/smuggled HTTP/1.1\r\nhost: h\r\n\r\n",
        body.len()
    );
    let request = call(1)
        .header("transfer-encoding", "chunked")
        .header("content-length", "4")
        .body(smuggled);
    let mut connection = Connection::open(target.gateway.address).await;
    connection.send(&request.to_bytes()).await;
    let head = connection.head().await;
    if connection.rest(head).await.status() == 200 {
        let received = target.endpoint.next_on(CHAT).await;
        assert_eq!(received.body, body.as_bytes());
        assert_eq!(received.head.header("transfer-encoding"), None);
        let length = body.len().to_string();
        assert_eq!(received.head.header("content-length"), Some(length.as_str()));
    }
    // RFC 9112 has the connection closed after such a request; what follows is at least no part of a call to an endpoint.
    if let Some(head) = connection.try_head().await {
        assert!(head.status() >= 400);
    }
    assert_eq!(target.endpoint.received_on("/v1/smuggled").len(), 0);
}
