use super::*;

fn map(lines: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers
}

/// What goes to an endpoint, read back from the wire.
fn sent(client: &HeaderMap) -> HeaderMap {
    let mut bytes = Vec::new();
    let credential = HeaderValue::from_static("Bearer endpoint-key");
    for_endpoint(&mut bytes, client, "10.0.0.1:8000", Some(&credential));
    let text = String::from_utf8(bytes).unwrap();
    let lines = text.strip_suffix("\r\n").unwrap().split("\r\n");
    let fields = lines.map(|line| line.split_once(": ").unwrap());
    fields
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap()))
        .collect()
}

fn names(headers: &HeaderMap) -> Vec<&str> {
    let mut names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    names
}

#[test]
fn hop_by_hop_headers_credentials_and_inner_names_never_reach_an_endpoint() {
    let client = map(&[
        ("connection", "keep-alive, X-Hop"),
        ("x-hop", "1"),
        ("keep-alive", "timeout=5"),
        ("te", "trailers"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "h2c"),
        ("proxy-authorization", "Basic x"),
        ("authorization", "Bearer secret"),
        ("x-api-key", "secret"),
        ("cookie", "session=secret"),
        ("expect", "100-continue"),
        ("accept-encoding", "gzip"),
        ("content-length", "10"),
        ("x-internal-route", "1"),
        ("x-maitred-endpoint", "?"),
        ("content-type", "application/json"),
        ("traceparent", "00-1-2-03"),
        ("x-request-id", "theirs"),
        ("x-many", "a"),
        ("x-many", "b"),
    ]);
    let sent = sent(&client);
    assert_eq!(
        names(&sent),
        [
            "accept-encoding",
            "authorization",
            "content-type",
            "host",
            "traceparent",
            "x-many"
        ]
    );
    assert_eq!(sent[AUTHORIZATION], "Bearer endpoint-key");
    assert_eq!(sent[ACCEPT_ENCODING], "identity");
    assert_eq!(sent[HOST], "10.0.0.1:8000");
    assert_eq!(sent.get_all("x-many").iter().count(), 2);
}

#[test]
fn an_answer_loses_what_belongs_to_the_connection_to_the_endpoint() {
    let endpoint = map(&[
        ("server", "uvicorn"),
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("content-length", "5"),
        ("x-request-id", "other"),
        ("x-maitred-endpoint", "spoofed"),
        ("content-type", "text/event-stream"),
        ("vary", "Origin"),
    ]);
    assert_eq!(names(&for_client(endpoint)), ["content-type", "vary"]);
}

#[test]
fn a_body_of_the_gateways_own_is_not_described_by_the_headers_of_another() {
    let endpoint = map(&[
        ("content-type", "text/html"),
        ("content-encoding", "gzip"),
        ("etag", "\"1\""),
        ("last-modified", "Tue, 01 Dec 2026 00:00:00 GMT"),
        ("content-md5", "x"),
        ("digest", "sha-256=x"),
        ("content-digest", "sha-256=:x:"),
        ("content-disposition", "attachment"),
        ("content-range", "bytes 0-1/2"),
        ("vary", "Origin"),
    ]);
    let headers = for_own_body(for_client(endpoint));
    assert_eq!(names(&headers), ["content-type", "vary"]);
    assert_eq!(headers[CONTENT_TYPE], "application/json");
}

#[test]
fn only_identity_is_no_encoding() {
    let check = |values: &[&'static str], expected| {
        let lines: Vec<_> = values.iter().map(|value| ("content-encoding", *value)).collect();
        assert_eq!(is_encoded(&map(&lines)), expected, "{values:?}");
    };
    check(&[], false);
    check(&[""], false);
    check(&["identity"], false);
    check(&["Identity , identity"], false);
    check(&["gzip"], true);
    check(&["identity, br"], true);
    check(&["identity", "zstd"], true);
}

#[test]
fn a_request_id_is_kept_only_if_it_is_short_and_printable() {
    let check = |value: &str, kept: bool| {
        let mut headers = HeaderMap::new();
        headers.insert(REQUEST_ID, HeaderValue::from_str(value).unwrap());
        assert_eq!(kept_request_id(&headers).is_some(), kept, "{value:?}");
    };
    check("3f2a-9", true);
    check("", false);
    check("two words", false);
    check(&"x".repeat(REQUEST_ID_MAX), true);
    check(&"x".repeat(REQUEST_ID_MAX + 1), false);
    assert_eq!(kept_request_id(&HeaderMap::new()), None);
}

#[test]
fn one_key_is_read_and_two_are_refused() {
    let check = |lines: &[(&'static str, &'static str)], expected| {
        assert_eq!(presented_key(&map(lines)), expected, "{lines:?}");
    };
    check(&[], Ok(None));
    check(&[("authorization", "Bearer k1")], Ok(Some("k1")));
    check(&[("authorization", "bearer k1")], Ok(Some("k1")));
    check(&[("x-api-key", "k1")], Ok(Some("k1")));
    check(&[("authorization", "Bearer k1"), ("x-api-key", "k1")], Ok(Some("k1")));
    check(&[("authorization", "Bearer k1"), ("x-api-key", "k2")], Err(SeveralKeys));
    check(
        &[("authorization", "Bearer k1"), ("authorization", "Bearer k1")],
        Err(SeveralKeys),
    );
    // A scheme we do not know is a key we do not know.
    check(&[("authorization", "Basic abc")], Ok(Some("")));
    check(&[("authorization", "Bearer")], Ok(Some("")));
}
