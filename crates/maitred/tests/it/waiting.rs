//! Calls that wait in the gateway: who goes, who is shed, who leaves.
//!
//! Endpoints that hang keep their room taken for as long as a test wants, so nothing here depends on how fast anything is.

use std::net::SocketAddr;

use maitred_test::{Connection, Request, Signal, eventually};
use serde_json::json;

use crate::table::{CHAT, Config, Engine, Gateway, MODEL, key, sum};

/// A call with the key of that number.
fn call(number: u8) -> Request {
    let body =
        json!({ "model": MODEL, "max_tokens": 5, "stream": true, "messages": [{ "role": "user", "content": "Hi" }] });
    Request::post(CHAT, body.to_string()).bearer(&key(number).0)
}

fn in_class(class: &str) -> Request {
    call(1).header("x-maitred-class", class)
}

/// The first key's calls may be of any class; an endpoint has room for one call.
fn config(engines: &[Engine], calls: u32) -> Config {
    let key = |number: u8, class: &str| {
        format!(
            "{{ hash: \"{}\", tenant: t-{number}, shared: true{class} }}",
            key(number).1
        )
    };
    Config::engines(engines)
        .auth(&format!("{{ keys: [{}, {}] }}", key(1, ", class: high"), key(2, "")))
        .pool(&format!(
            "waiting: {{ prefill_tokens: 1, max_wait: 10m, calls: {calls} }}"
        ))
}

/// A connection over which a call was sent that has not been answered.
async fn begin(gateway: &Gateway, request: &Request) -> Connection {
    let mut connection = Connection::open(gateway.address).await;
    connection.send(&request.to_bytes()).await;
    connection
}

impl Gateway {
    async fn until_waiting(&self, class: &str, count: u32) {
        eventually(&format!("{count} waiting calls of class {class}"), async || {
            let waiting = self.metric("maitred_waiting_calls", &[("class", class)]).await;
            (waiting == f64::from(count)).then_some(())
        })
        .await;
    }

    async fn until_in_flight(&self, address: SocketAddr, count: u64) {
        eventually(&format!("{count} calls on {address}"), async || {
            let endpoint = self.endpoint(address).await?;
            (endpoint["in_flight"] == count).then_some(())
        })
        .await;
    }

    /// Takes the room of every endpoint with calls that hang; those that come later do not.
    async fn block(&self, engines: &[Engine]) -> Vec<Connection> {
        let mut blockers = Vec::new();
        for engine in engines {
            engine.fault(r#"{"hang":1}"#).await;
        }
        for number in 1..=engines.len() {
            blockers.push(begin(self, &call(1)).await);
            eventually("a call that hangs", async || {
                let all = self.endpoints().await;
                let taken = all.iter().filter(|endpoint| endpoint["in_flight"] == 1);
                (taken.count() == number).then_some(())
            })
            .await;
        }
        for engine in engines {
            engine.fault(r#"{"hang":0}"#).await;
        }
        blockers
    }
}

#[tokio::test]
async fn higher_classes_go_first_and_who_leaves_frees_the_place() {
    let engines = [Engine::start(&["--time-scale", "20"]).await];
    let gateway = Gateway::ready(&config(&engines, 2)).await;
    let blockers = gateway.block(&engines).await;

    let mut low = begin(&gateway, &in_class("low")).await;
    gateway.until_waiting("low", 1).await;
    let leaves = begin(&gateway, &in_class("high")).await;
    gateway.until_waiting("high", 1).await;
    // Two may wait. A third one takes the place of the sheddable one, which is told when to come again.
    let mut normal = begin(&gateway, &call(2)).await;
    let head = low.head().await;
    assert_eq!(head.status(), 429);
    let answer = low.rest(head).await;
    let retry_after: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!(retry_after >= 1, "{retry_after}");
    gateway.until_waiting("normal", 1).await;
    let refused = in_class("low").send(gateway.address).await;
    assert_eq!(refused.status(), 429, "{}", refused.text());
    assert_eq!(refused.json()["error"]["code"], "saturated");

    drop(leaves);
    gateway.until_waiting("high", 0).await;
    let high = begin(&gateway, &in_class("high")).await;
    gateway.until_waiting("high", 1).await;

    // The room that comes up is taken by the high one, which hangs in turn.
    engines[0].fault(r#"{"hang":1}"#).await;
    drop(blockers);
    gateway.until_waiting("high", 0).await;
    gateway.until_waiting("normal", 1).await;
    gateway.until_in_flight(engines[0].address, 1).await;
    engines[0].fault(r#"{"hang":0}"#).await;
    drop(high);
    let head = normal.head().await;
    assert_eq!(head.status(), 200);
    normal.rest(head).await;
    gateway.until_idle().await;

    let records = gateway.records_with(|record| record["outcome"] == "answered").await;
    assert_eq!(records.len(), 1);
    assert_eq!(records[0]["class"], "normal");
    assert!(records[0]["queue_ms"].as_f64().unwrap() > 0.0);
    let page = gateway.page("/metrics").await.text();
    let shed = |reason| sum(&page, "maitred_pick_refusals_total", &[("reason", reason)]);
    let seen = [shed("displaced"), shed("room_full") + shed("sheddable")];
    assert_eq!(seen, [1.0, 1.0]);
    assert_eq!(gateway.metric("maitred_leases_abandoned_total", &[]).await, 0.0);
}

#[tokio::test]
async fn what_is_too_much_is_told_when_to_come_again_and_the_rest_is_served() {
    let engines = Engine::start_several(2, &["--time-scale", "20"]).await;
    let gateway = Gateway::ready(&config(&engines, 10)).await;
    let blockers = gateway.block(&engines).await;
    let mut waiting = Vec::new();
    for number in 1..=10 {
        waiting.push(begin(&gateway, &call(2)).await);
        gateway.until_waiting("normal", number).await;
    }
    for _ in 0..30 {
        let refused = call(2).send(gateway.address).await;
        assert_eq!(refused.status(), 429, "{}", refused.text());
        assert!(refused.header("retry-after").is_some(), "{refused:?}");
    }
    // Another tenant has less than its share, and gets a place.
    let other = begin(&gateway, &in_class("normal")).await;
    let head = waiting.last_mut().unwrap().head().await;
    assert_eq!(head.status(), 429);
    waiting.pop();
    drop(blockers);
    waiting.push(other);
    for connection in &mut waiting {
        let head = connection.head().await;
        assert_eq!(head.status(), 200);
        connection.rest(head).await;
    }
    gateway.until_idle().await;
    gateway.until_waiting("normal", 0).await;
    assert_eq!(gateway.metric("maitred_leases_abandoned_total", &[]).await, 0.0);
}

#[tokio::test]
async fn a_class_that_there_is_not_is_refused() {
    let engines = [Engine::start(&["--time-scale", "20"]).await];
    let gateway = Gateway::ready(&config(&engines, 2)).await;
    let refused = in_class("urgent").send(gateway.address).await;
    assert_eq!(refused.status(), 400, "{}", refused.text());
    let message = refused.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("high, normal, low"), "{message}");
    // One that the key does not allow counts as the key's own.
    let answer = call(2).header("x-maitred-class", "high").send(gateway.address).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
}

#[tokio::test]
async fn who_waits_when_the_gateway_drains_is_served_within_the_limit() {
    let engines = [Engine::start(&["--time-scale", "20"]).await];
    let mut gateway = Gateway::ready(&config(&engines, 2)).await;
    let blockers = gateway.block(&engines).await;
    let mut waits = begin(&gateway, &call(2)).await;
    gateway.until_waiting("normal", 1).await;
    gateway.child.signal(Signal::Terminate);
    gateway.child.line("draining").await;
    drop(blockers);
    let head = waits.head().await;
    assert_eq!(head.status(), 200);
    waits.rest(head).await;
    assert_eq!(gateway.child.exit().await.code(), Some(0));
}
