//! One record for each call, with the truth in it, and the same truth on the page of metrics.

use maitred_test::{Connection, Play, RefusingPort, Request, ScriptedEndpoint, vllm};
use serde_json::Value;

use super::{chat, one, streamed, text};
use crate::table::{CHAT, Config, Engine, Gateway, MODEL, POOL, sum};

/// The members of a record that a call must have, as strings.
fn brief(record: &Value) -> String {
    let of = |name: &str| match &record[name] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    [
        "status",
        "outcome",
        "fault",
        "model",
        "attempts",
        "input_tokens",
        "output_tokens",
    ]
    .map(of)
    .join(" ")
}

#[tokio::test]
async fn every_call_has_just_one_record_and_one_count() {
    let (endpoint, gateway) = one().await;
    endpoint.once(CHAT, Play::json(200, &vllm::chat(MODEL, "a")));
    endpoint.once(CHAT, Play::chat_stream(MODEL, &["a", "b", "c"]));
    endpoint.once(CHAT, Play::stream().chunk(vllm::chat_event(MODEL, "a")).cut());
    endpoint.once(CHAT, Play::json(500, "{}"));
    gateway.ask(chat("")).await;
    gateway.ask(streamed()).await;
    gateway.ask(streamed()).await;
    gateway.ask(chat("")).await;
    gateway.ask(r#"{"model":"none"}"#).await;
    gateway.ask("{").await;
    Request::get("/v1/models")
        .bearer(&gateway.key)
        .send(gateway.address)
        .await;
    Request::get("/v1/models").send(gateway.address).await;
    endpoint.once(CHAT, Play::silence());
    let mut connection = Connection::open(gateway.address).await;
    connection.send(&gateway.chat(chat("")).to_bytes()).await;
    for _ in 0..5 {
        endpoint.next_on(CHAT).await;
    }
    drop(connection);
    let records = gateway.until_records(9).await;
    let briefs: Vec<String> = records.iter().map(brief).collect();
    let expected = [
        "200 answered null sim-8b 1 12 2",
        "200 answered null sim-8b 1 12 3",
        "200 broken upstream_broken sim-8b 1 3 1",
        "502 failed upstream_error sim-8b 1 null null",
        "404 failed model_not_found null 0 null null",
        "400 failed invalid_json null 0 null null",
        "200 answered null null 0 null null",
        "401 failed missing_key null 0 null null",
    ];
    assert_eq!(briefs[..8], expected);
    // What it used is estimated; its output by the time that it took.
    assert!(
        briefs[8].starts_with("499 client_closed client_closed sim-8b 1 3 "),
        "{briefs:?}"
    );
    check_first(&records[0], &endpoint, &gateway);
    let millis = |name: &str| records[1][name].as_f64().unwrap();
    assert!(millis("first_token_ms") <= millis("duration_ms"), "{}", records[1]);

    let page = gateway.page("/metrics").await.text();
    let calls = |outcome, fault| sum(&page, "maitred_calls_total", &[("outcome", outcome), ("fault", fault)]);
    assert_eq!(calls("answered", ""), 2.0, "{page}");
    assert_eq!(calls("broken", "upstream_broken"), 1.0);
    assert_eq!(calls("failed", "upstream_error"), 1.0);
    assert_eq!(calls("client_closed", "client_closed"), 1.0);
    assert_eq!(sum(&page, "maitred_calls_total", &[]), 5.0);
    for fault in ["model_not_found", "invalid_json", "missing_key"] {
        assert_eq!(
            sum(&page, "maitred_refused_calls_total", &[("fault", fault)]),
            1.0,
            "{fault}"
        );
    }
    let model = [("gen_ai_request_model", MODEL), ("pool", POOL)];
    assert_eq!(sum(&page, "gen_ai_server_request_duration_seconds_count", &model), 5.0);
    assert_eq!(sum(&page, "maitred_picks_total", &[]), 5.0);
    assert_eq!(sum(&page, "maitred_active_calls", &[]), 0.0);
    assert_eq!(sum(&page, "maitred_leases_abandoned_total", &[]), 0.0);
    assert_eq!(sum(&page, "maitred_endpoint_in_flight", &[]), 0.0);
    let tokens = |kind| sum(&page, "gen_ai_client_token_usage_total", &[("gen_ai_token_type", kind)]);
    let estimated = records[8]["output_tokens"].as_f64().unwrap();
    assert_eq!(tokens("output"), 6.0 + estimated);
    assert_eq!(sum(&page, "maitred_usage_estimated_total", &[]), 2.0);
}

/// All members of a record of a good call.
fn check_first(record: &Value, endpoint: &ScriptedEndpoint, gateway: &Gateway) {
    assert_eq!(record["tenant"], "tenant-1");
    assert_eq!((&record["method"], &record["path"]), (&"POST".into(), &CHAT.into()));
    assert_eq!(
        (&record["pool"], &record["endpoint"]),
        (&POOL.into(), &text(endpoint.address()).into())
    );
    assert_eq!(record["request_bytes"], chat("").len());
    assert_eq!(record["response_bytes"], vllm::chat(MODEL, "a").len());
    assert_eq!(record["usage_source"], "reported");
    assert!(record["client"].as_str().unwrap().starts_with("127.0.0.1:"), "{record}");
    assert!(record["pick"].as_str().is_some_and(|why| !why.is_empty()), "{record}");
    assert!(record["duration_ms"].as_f64() > Some(0.0), "{record}");
    // The key's public part, and no more of it.
    let id = record["key"].as_str().unwrap();
    assert!(gateway.key.contains(id) && id.len() < gateway.key.len() / 2, "{id}");
    // When it arrived, to the millisecond, in UTC.
    let time = record["time"].as_str().unwrap();
    assert!(time.len() == 24 && time.ends_with('Z') && time.contains('T'), "{time}");
}

#[tokio::test]
async fn a_call_that_changed_endpoints_has_one_record_too() {
    let bad = ScriptedEndpoint::start(MODEL).await;
    let good = ScriptedEndpoint::start(MODEL).await;
    bad.on(CHAT, Play::json(500, "{}"));
    let config = Config::of([bad.address(), good.address()]).pool("profile: round-robin");
    let gateway = Gateway::ready(&config.pool("ejection: { failures: 100 }")).await;
    for _ in 0..4 {
        assert_eq!(gateway.ask(chat("")).await.status(), 200);
    }
    let records = gateway.until_records(4).await;
    let good = text(good.address());
    assert!(
        records.iter().all(|record| record["endpoint"] == good.as_str()),
        "{records:#?}"
    );
    let attempts: u64 = records.iter().map(|record| record["attempts"].as_u64().unwrap()).sum();
    let failed = gateway.endpoint(bad.address()).await.unwrap()["errors"]
        .as_u64()
        .unwrap();
    assert!(failed >= 1);
    assert_eq!(attempts, 4 + failed);
    assert_eq!(gateway.metric("maitred_calls_total", &[]).await, 4.0);
}

#[tokio::test]
async fn what_the_endpoint_had_in_its_cache_is_told() {
    let engine = Engine::start(&["--time-scale", "10"]).await;
    let gateway = Gateway::ready(&Config::of([engine.address])).await;
    let long = "On a dark and stormy night the cook came in. ".repeat(40);
    let body = |more: &str| {
        format!(r#"{{"model":"{MODEL}","max_tokens":4,"messages":[{{"role":"user","content":"{long}"}}]{more}}}"#)
    };
    assert_eq!(gateway.ask(body("")).await.status(), 200);
    assert_eq!(gateway.ask(body(r#","stream":true"#)).await.status(), 200);
    let records = gateway.until_records(2).await;
    let of = |record: &Value, name: &str| record[name].as_u64().unwrap_or(0);
    let (first, second) = (&records[0], &records[1]);
    assert_eq!(of(first, "cached_tokens"), 0, "{first}");
    let (input, cached) = (of(second, "input_tokens"), of(second, "cached_tokens"));
    assert!(cached > input / 2 && cached < input, "{second}");
    assert_eq!((of(first, "input_tokens"), of(second, "output_tokens")), (input, 4));
    let kinds = [("gen_ai_token_type", "cached_input")];
    assert_eq!(
        gateway.metric("gen_ai_client_token_usage_total", &kinds).await,
        f64::from(u32::try_from(cached).unwrap())
    );
}

#[tokio::test]
async fn a_pool_without_endpoints_says_so() {
    let port = RefusingPort::new();
    let gateway = Gateway::start(&Config::of([port.address()])).await;
    let answer = gateway.ask(chat("")).await;
    assert_eq!(
        (answer.status(), &answer.json()["error"]["code"]),
        (503, &"no_endpoint".into())
    );
    let ready = gateway.page("/readyz").await;
    assert_eq!(
        (ready.status(), &ready.json()["pools_not_ready"][0]),
        (503, &POOL.into())
    );
    assert_eq!(gateway.page("/healthz").await.status(), 200);
    let record = gateway.until_records(1).await.remove(0);
    assert_eq!(brief(&record), "503 failed no_endpoint sim-8b 0 null null");
}
