//! KV events: what the endpoint says of its cache is what the gateway predicts from.

use std::fmt::Write as _;

use maitred_test::eventually;
use serde_json::Value;

use crate::table::{CHAT, Config, Engine, Gateway, MODEL};

/// A cache of a thousand tokens, some of which the probes take.
const SMALL: [&str; 6] = ["--time-scale", "10", "--blocks", "64", "--block-size", "16"];

/// Of a prompt of some 600 tokens that shares nothing with that of another number.
fn prompt(number: u32) -> String {
    let mut text = String::new();
    for word in 0..230 {
        write!(text, "{number}-{word} ").unwrap();
    }
    format!(r#"{{"model":"{MODEL}","max_tokens":2,"messages":[{{"role":"user","content":"{text}"}}]}}"#)
}

/// An endpoint that publishes, and a gateway in front of it that follows or does not.
async fn table(follow: impl Fn(u16, u16) -> Option<String>) -> (Engine, Gateway) {
    let mut engine = Engine::start(&[&SMALL[..], &["--kv-events", "0"]].concat()).await;
    let mut ports = Vec::new();
    for word in ["kv events on ", "kv events again on "] {
        let address: std::net::SocketAddr = engine.child.word_after(word).await.parse().unwrap();
        ports.push(address.port());
    }
    let mut config = Config::engines(std::slice::from_ref(&engine))
        .pool("profile: by-cache")
        .file("profiles: [{ name: by-cache, picker: max-score, scorers: [{ name: prefix-affinity }] }]");
    if let Some(line) = follow(ports[0], ports[1]) {
        config = config.pool(&line);
    }
    let gateway = Gateway::ready(&config).await;
    (engine, gateway)
}

fn with_replay(port: u16, again: u16) -> Option<String> {
    Some(format!("kv_events: {{ port: {port}, replay_port: {again} }}"))
}

fn without_replay(port: u16, _again: u16) -> Option<String> {
    Some(format!("kv_events: {{ port: {port}, topic: kv }}"))
}

/// Makes a call; says how much of its prompt the gateway took to be cached, and how much the endpoint says it was.
async fn call(gateway: &Gateway, id: &str, number: u32) -> (u64, u64) {
    let answer = gateway
        .chat(prompt(number))
        .header("x-request-id", id)
        .send(gateway.address)
        .await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let page = format!("/admin/v1/decisions/{id}");
    let record: Value = eventually(&format!("the decision record of {id}"), async || {
        let answer = gateway.page(&page).await;
        (answer.status() == 200).then(|| answer.json())
    })
    .await;
    let attempt = &record["attempts"][0];
    let tokens = |value: &Value| value.as_u64().unwrap_or(0);
    (
        tokens(&attempt["compared"][0]["cached_tokens"]),
        tokens(&attempt["end"]["cached_tokens"]),
    )
}

/// Prompts that fill the cache several times over: of each block that goes, the gateway takes its share of the cache to be its own.
const OTHERS: u32 = 16;

/// Somebody else fills the endpoint's cache, past the gateway.
async fn evict(engine: &Engine) {
    for number in 70..70 + OTHERS {
        let answer = maitred_test::Request::post(CHAT, prompt(number))
            .send(engine.address)
            .await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
    }
}

async fn events(gateway: &Gateway, result: &str) -> f64 {
    gateway.metric("maitred_kv_events_total", &[("result", result)]).await
}

async fn until_events(gateway: &Gateway, result: &str, count: f64) {
    eventually(&format!("{count} KV events {result}"), async || {
        (events(gateway, result).await >= count).then_some(())
    })
    .await;
}

/// The prediction for a prompt that was there and whose blocks have been evicted meanwhile.
async fn predicted_after_eviction(engine: &Engine, gateway: &Gateway) -> (u64, u64) {
    call(gateway, "first", 1).await;
    let (predicted, cached) = call(gateway, "again", 1).await;
    assert!(
        predicted > 200 && cached > 200,
        "predicted {predicted}, cached {cached}"
    );
    evict(engine).await;
    // One batch or more of each; none at all where nobody follows.
    if events(gateway, "connected").await > 0.0 {
        eventually("the evictions to be told", async || {
            let told = events(gateway, "taken").await + events(gateway, "played_again").await;
            (told > f64::from(OTHERS)).then_some(())
        })
        .await;
    }
    call(gateway, "evicted", 1).await
}

#[tokio::test]
async fn what_the_endpoint_evicts_is_not_predicted_any_more() {
    let (engine, gateway) = table(with_replay).await;
    until_events(&gateway, "connected", 1.0).await;
    let (predicted, cached) = predicted_after_eviction(&engine, &gateway).await;
    assert_eq!(cached, 0, "the endpoint has evicted it");
    assert!(predicted < 100, "still predicted: {predicted}");
    assert_eq!(events(&gateway, "unreadable").await, 0.0);
    // A subscription takes hold some time after it is sent, so the first batches may have been played again instead.
    assert_eq!(events(&gateway, "gap_kept").await, 0.0);
}

#[tokio::test]
async fn without_events_the_gateway_cannot_know() {
    let (engine, gateway) = table(|_, _| None).await;
    let (predicted, cached) = predicted_after_eviction(&engine, &gateway).await;
    assert_eq!(cached, 0);
    assert!(predicted > 200, "the check does not see what it should: {predicted}");
}

/// Makes calls until a batch has come. A subscription takes hold some time after it is sent; from the first batch that comes on, none
/// may be missing.
async fn until_taken(gateway: &Gateway) {
    let mut number = 0;
    while events(gateway, "taken").await < 1.0 {
        number += 1;
        call(gateway, &format!("call-{number}"), number).await;
    }
}

#[tokio::test]
async fn what_is_lost_on_the_way_is_played_again() {
    let (engine, gateway) = table(with_replay).await;
    until_events(&gateway, "connected", 1.0).await;
    until_taken(&gateway).await;
    engine.command("lose-kv-events").await;
    evict(&engine).await;
    until_events(&gateway, "gap", 1.0).await;
    until_events(&gateway, "played_again", 2.0).await;
    eventually("the evictions to be told", async || {
        let told = events(&gateway, "taken").await + events(&gateway, "played_again").await;
        (told > f64::from(OTHERS)).then_some(())
    })
    .await;
    assert_eq!(events(&gateway, "gap_kept").await, 0.0);
    let (predicted, _) = call(&gateway, "evicted", 1).await;
    assert!(predicted < 100, "still predicted: {predicted}");
}

#[tokio::test]
async fn a_gap_that_cannot_be_filled_is_known_as_one() {
    let (engine, gateway) = table(without_replay).await;
    until_events(&gateway, "connected", 1.0).await;
    until_taken(&gateway).await;
    engine.command("lose-kv-events").await;
    evict(&engine).await;
    until_events(&gateway, "gap_kept", 1.0).await;
    assert_eq!(events(&gateway, "played_again").await, 0.0);
}

#[tokio::test]
async fn a_publisher_that_goes_is_noticed_and_sought_again() {
    let (engine, gateway) = table(with_replay).await;
    until_events(&gateway, "connected", 1.0).await;
    engine.command("crash").await;
    until_events(&gateway, "disconnected", 1.0).await;
    until_events(&gateway, "unreachable", 1.0).await;
}
