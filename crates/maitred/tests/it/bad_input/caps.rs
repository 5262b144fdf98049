//! Each cap at its value, which passes, and one beyond, which does not.

use maitred_test::{Event, Play, Request, ScriptedEndpoint, eventually, vllm};

use super::{Target, call, good};
use crate::table::{CHAT, Config, Gateway, MODEL, key};

/// The size of a request's head as the gateway counts it: method, target, names and values.
fn head_size(request: &Request) -> usize {
    let bytes = request.to_bytes();
    let text = String::from_utf8_lossy(&bytes);
    let head = text.split_once("\r\n\r\n").unwrap().0;
    let mut lines = head.split("\r\n");
    let mut first = lines.next().unwrap().split(' ');
    let first: usize = [first.next(), first.next()].into_iter().flatten().map(str::len).sum();
    lines.map(|line| line.len() - ": ".len()).sum::<usize>() + first
}

fn header_count(request: &Request) -> usize {
    let bytes = request.to_bytes();
    let text = String::from_utf8_lossy(&bytes);
    text.split_once("\r\n\r\n").unwrap().0.split("\r\n").count() - 1
}

#[tokio::test]
async fn a_head_may_be_as_large_as_the_limit_and_no_larger() {
    let target = Target::with(|config| config.file("limits: { headers: { size: 2KiB, count: 20 } }")).await;
    let large = |size: usize| {
        let padded = call(1).header("x-pad", "");
        let pad = size - head_size(&padded);
        call(1).header("x-pad", &"x".repeat(pad))
    };
    assert_eq!(head_size(&large(2048)), 2048);
    assert_eq!(large(2048).send(target.gateway.address).await.status(), 200);
    target.endpoint.next_on(CHAT).await;
    let many = |count: usize| {
        let pad = count - header_count(&call(1));
        (0..pad).fold(call(1), |request, number| request.header(&format!("x-{number}"), "1"))
    };
    assert_eq!(many(20).send(target.gateway.address).await.status(), 200);
    target.endpoint.next_on(CHAT).await;
    for beyond in [large(2049), many(21)] {
        let answer = beyond.send(target.gateway.address).await;
        assert_eq!(
            (answer.status(), &answer.json()["error"]["code"]),
            (431, &"headers_too_large".into())
        );
    }
    assert_eq!(target.endpoint.received_on(CHAT).len(), 2);
}

#[tokio::test]
async fn a_body_may_be_as_deep_as_the_limit_and_no_deeper() {
    let target = Target::new().await;
    let deep = |depth: usize| {
        // The body itself is one level.
        let (open, close) = ("[".repeat(depth - 1), "]".repeat(depth - 1));
        let body = format!("{{\"model\":\"{MODEL}\",\"messages\":[],\"a\":{open}{close}}}");
        Request::post(CHAT, body).bearer(&key(1).0)
    };
    assert_eq!(deep(127).send(target.gateway.address).await.status(), 200);
    target.check(&deep(128), 400, "invalid_json").await;
    assert_eq!(target.endpoint.received_on(CHAT).len(), 1);
}

#[tokio::test]
async fn an_event_may_be_as_large_as_the_limit_and_no_larger() {
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    let gateway = Gateway::ready(&Config::of([endpoint.address()]).file("limits: { event: 1KiB }")).await;
    let event = |size: usize| {
        let pad = size - vllm::chat_event(MODEL, "").len();
        vllm::chat_event(MODEL, &"x".repeat(pad))
    };
    let streamed = format!(r#"{{"model":"{MODEL}","stream":true,"messages":[]}}"#);
    for (size, passes) in [(1024, true), (1025, false)] {
        let play = Play::stream().chunk(vllm::chat_event(MODEL, "a")).chunk(event(size));
        endpoint.once(CHAT, play.chunk(vllm::chat_end(MODEL, Some((1, 1)))).end());
        let answer = gateway.ask(&streamed).await;
        let events = answer.events();
        assert_eq!(events.last().is_some_and(Event::is_done), passes, "{size}: {events:?}");
        assert_eq!(answer.text().contains(&"x".repeat(64)), passes, "{size}");
        assert_eq!(
            answer.text().contains("limits.event"),
            !passes,
            "{size}: {}",
            answer.text()
        );
    }
}

#[tokio::test]
async fn connections_up_to_the_limit_are_let_in() {
    let target = Target::with(|config| config.file("limits: { connections: 2 }")).await;
    target.endpoint.on(CHAT, Play::silence());
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut connection = maitred_test::Connection::open(target.gateway.address).await;
        connection.send(&call(1).to_bytes()).await;
        target.endpoint.next_on(CHAT).await;
        held.push(connection);
    }
    assert!(call(1).try_send(target.gateway.address).await.is_none());
}

#[tokio::test]
async fn a_call_comes_through_four_gateways_at_most() {
    let target = Target::new().await;
    let after = |count: &str| call(1).header("x-maitred-gateways", count);
    for (count, told) in [(None, "1"), (Some("0"), "1"), (Some("3"), "4")] {
        let request = count.map_or_else(|| call(1), after);
        assert_eq!(request.send(target.gateway.address).await.status(), 200, "{count:?}");
        let received = target.endpoint.next_on(CHAT).await;
        assert_eq!(received.head.header("x-maitred-gateways"), Some(told), "{count:?}");
    }
    for count in ["4", "5", "255"] {
        target.check(&after(count), 508, "loop_detected").await;
    }
    for count in ["", "-1", "256", "x", "1, 1"] {
        target.check(&after(count), 400, "invalid_field").await;
    }
    target
        .check(&after("1").header("x-maitred-gateways", "1"), 400, "invalid_field")
        .await;
    assert_eq!(target.endpoint.received_on(CHAT).len(), 3);
}

#[tokio::test]
async fn gateways_that_lead_to_each_other_come_to_an_end() {
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    let gateway = Gateway::ready(&Config::of([endpoint.address()])).await;
    // From now on its one endpoint is itself.
    let this = Config::of([gateway.address])
        .pool("startup: { check: port }")
        .pool("retry: { attempts: 1 }");
    let this = this.auth(&format!(
        "{{ keys: [{{ hash: \"{}\", tenant: tenant-1, shared: true }}] }}",
        key(1).1
    ));
    let secret = gateway.folder.write("own.key", &key(1).0);
    let this = this.pool(&format!("api_key: {{ file: \"{}\" }}", secret.display()));
    gateway.rewrite(&this);
    gateway.until_state(gateway.address, "ready").await;
    let answer = gateway.ask(good()).await;
    // The gateway that refuses is an endpoint to the one before it.
    assert_eq!(
        (answer.status(), &answer.json()["error"]["code"]),
        (502, &"upstream_error".into())
    );
    // Pages are asked of it too, and refused, so only calls with a model count.
    let calls = eventually("the records of those that were sent on", async || {
        let records = gateway.records();
        let calls: Vec<_> = records.into_iter().filter(|record| record["model"] == MODEL).collect();
        (calls.len() >= 4).then_some(calls)
    })
    .await;
    assert_eq!(calls.len(), 4, "{calls:#?}");
    assert_eq!(endpoint.received_on(CHAT).len(), 0);
}
