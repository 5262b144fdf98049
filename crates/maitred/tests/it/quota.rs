//! Quotas: what a call reserves, what it is refused with, and what its answer says of the limits.

use maitred_test::{Answer, Connection, Play, Request, ScriptedEndpoint, Signal, eventually, vllm};
use serde_json::{Value, json};

use crate::ledger::{LEDGER, laid, served, usage};
use crate::table::{CHAT, Config, Engine, Gateway, MODEL, key};

/// A call of so many output tokens, for the key of that number.
fn call(number: u8, max_tokens: u32) -> Request {
    let body = json!({ "model": MODEL, "max_tokens": max_tokens, "messages": [{ "role": "user", "content": "Hi" }] });
    Request::post(CHAT, body.to_string()).bearer(&key(number).0)
}

/// What a header says, as a number.
fn number(answer: &Answer, header: &str) -> u64 {
    let value = answer
        .header(header)
        .unwrap_or_else(|| panic!("no {header}: {answer:?}"));
    value.parse().unwrap_or_else(|_| panic!("{header}: {value}"))
}

fn quotas(lines: &str) -> String {
    format!("quotas:\n{lines}")
}

#[tokio::test]
async fn tokens_are_reserved_settled_and_refused_with_the_time_to_wait() {
    let engines = [Engine::start(&["--time-scale", "100"]).await];
    let daily = "  - { name: daily, tokens_per_day: 3000 }";
    let gateway = Gateway::ready(&Config::engines(&engines).file(&quotas(daily))).await;

    let first = call(1, 2000).send(gateway.address).await;
    assert_eq!(first.status(), 200, "{}", first.text());
    assert_eq!(number(&first, "x-ratelimit-limit-tokens"), 3000);
    // The head of an answer that comes whole is written when its usage is known, but the reservation still stands.
    assert!(number(&first, "x-ratelimit-remaining-tokens") < 1000);
    let used = first.json()["usage"]["total_tokens"].as_u64().unwrap();

    // What was reserved and not used is there again.
    let second = call(1, 10).send(gateway.address).await;
    let left = number(&second, "x-ratelimit-remaining-tokens");
    assert!(
        3000 - used - 40 < left && left < 3000 - used,
        "{left} of 3000 less {used}"
    );

    // More than is left today, but less than a day's: refused until midnight.
    let refused = call(1, u32::try_from(left).unwrap()).send(gateway.address).await;
    assert_eq!(refused.status(), 429, "{}", refused.text());
    assert_eq!(refused.json()["error"]["code"], "quota_exceeded");
    assert!(refused.json()["error"]["message"].as_str().unwrap().contains("`daily`"));
    assert!((1..=86_400).contains(&number(&refused, "retry-after")));
    // A refusal says how the limit stands that refuses.
    assert_eq!(number(&refused, "x-ratelimit-limit-tokens"), 3000);
    assert!(number(&refused, "x-ratelimit-remaining-tokens") <= left + 10);
    assert!(refused.header("x-ratelimit-reset-tokens").is_some());

    // More than a day's: waiting does not help, and nothing says that it would.
    let never = call(1, 4000).send(gateway.address).await;
    assert_eq!(never.status(), 429);
    assert!(never.header("retry-after").is_none());
    assert!(
        never.json()["error"]["message"]
            .as_str()
            .unwrap()
            .contains("can never fit")
    );

    // Another tenant has an amount of its own.
    assert_eq!(call(2, 2000).send(gateway.address).await.status(), 200);
    let records = gateway.until_records(5).await;
    assert_eq!(records[2]["outcome"], "failed");
    assert_eq!(records[2]["fault"], "quota_exceeded");
}

#[tokio::test]
async fn a_thousand_calls_at_once_do_not_pass_a_limit() {
    let engines = [Engine::start(&["--time-scale", "100"]).await];
    // Each call reserves some sixty tokens and uses as many: there is room for at most eighty.
    let limit = "  - { name: hard, tokens_per_day: 5000 }";
    let gateway = Gateway::ready(&Config::engines(&engines).file(&quotas(limit))).await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..1000 {
        let call = call(1, 50);
        let address = gateway.address;
        calls.spawn(async move {
            let answer = call.send(address).await;
            match answer.status() {
                200 => answer.json()["usage"]["total_tokens"].as_u64().unwrap(),
                429 => {
                    assert_eq!(answer.json()["error"]["code"], "quota_exceeded", "{}", answer.text());
                    0
                }
                other => panic!("{other}: {}", answer.text()),
            }
        });
    }
    let mut used = 0;
    while let Some(tokens) = calls.join_next().await {
        used += tokens.unwrap();
    }
    assert!(used > 1000, "{used}");
    assert!(used <= 5000, "{used} tokens of 5000 were used");
}

#[tokio::test]
async fn no_call_uses_more_than_it_reserved_whatever_it_says_of_its_output() {
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    for path in [CHAT, "/v1/completions", "/v1/responses"] {
        endpoint.on(path, Play::json(200, &vllm::chat(MODEL, "one")));
    }
    let config = Config::of([endpoint.address()])
        .file("limits: { output: 500 }")
        .file(&quotas("  - { name: daily, tenant: tenant-1, tokens_per_day: 3000 }"));
    let gateway = Gateway::ready(&config).await;
    let check = async |tenant: u8, path: &str, more: Value, arrives: Value| {
        let mut body = json!({ "model": MODEL });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let before = endpoint.received_on(path).len();
        let call = Request::post(path, body.to_string()).bearer(&key(tenant).0);
        let answer = call.send(gateway.address).await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        let arrived = &endpoint.received_on(path)[before];
        let arrived: Value = serde_json::from_slice(&arrived.body).unwrap();
        body.as_object_mut()
            .unwrap()
            .extend(arrives.as_object().unwrap().clone());
        assert_eq!(arrived, body);
    };
    let messages = json!({ "messages": [] });
    check(1, CHAT, messages.clone(), json!({ "max_tokens": 500 })).await;
    let null = json!({ "messages": [], "max_completion_tokens": null });
    check(1, CHAT, null, json!({ "max_completion_tokens": 500 })).await;
    let other = json!({ "input": "Hi", "max_tokens": 1 });
    check(1, "/v1/responses", other, json!({ "max_output_tokens": 500 })).await;
    check(
        1,
        "/v1/completions",
        json!({ "prompt": "Hi" }),
        json!({ "max_tokens": 16 }),
    )
    .await;
    // What the client says stays as it says it.
    let said = json!({ "messages": [], "max_tokens": 700 });
    check(1, CHAT, said, json!({})).await;
    // Where no limit on tokens is for the call, nothing is added.
    check(2, CHAT, messages, json!({})).await;
    // The largest figure is reserved, for each answer.
    for body in [
        json!({ "model": MODEL, "messages": [], "max_tokens": 1, "max_completion_tokens": 3000 }),
        json!({ "model": MODEL, "messages": [], "max_tokens": 1000, "n": 3 }),
    ] {
        let call = Request::post(CHAT, body.to_string()).bearer(&key(1).0);
        assert_eq!(call.send(gateway.address).await.status(), 429, "{body}");
    }
}

#[tokio::test]
async fn a_task_has_a_budget_of_its_own_by_default() {
    let engines = [Engine::start(&["--time-scale", "100"]).await];
    let gateway = Gateway::ready(&Config::engines(&engines).file("tasks: { tokens: 500 }")).await;
    let of_task = |task: &str, tokens| call(1, tokens).header("x-maitred-task", task);
    assert_eq!(of_task("run-1", 450).send(gateway.address).await.status(), 200);
    let refused = of_task("run-1", 499).send(gateway.address).await;
    assert_eq!((refused.status(), refused.header("retry-after")), (429, None));
    assert!(
        refused.json()["error"]["message"]
            .as_str()
            .unwrap()
            .contains("tokens per task")
    );
    assert_eq!(of_task("run-2", 450).send(gateway.address).await.status(), 200);
    assert_eq!(call(1, 450).send(gateway.address).await.status(), 200);
    let bad = of_task(&"x".repeat(200), 1).send(gateway.address).await;
    assert_eq!(
        (bad.status(), bad.json()["error"]["code"].clone()),
        (400, json!("invalid_field"))
    );
}

#[tokio::test]
async fn the_limits_are_told_in_the_callers_dialect_and_change_with_the_file() {
    let engines = [Engine::start(&["--time-scale", "100"]).await];
    let config = Config::engines(&engines);
    let rate = "  - { name: rate, calls_per_second: 1, burst: 2 }";
    let gateway = Gateway::ready(&config.clone().file(&quotas(rate))).await;
    let message = |number| {
        let body = json!({ "model": MODEL, "max_tokens": 2, "messages": [{ "role": "user", "content": "Hi" }] });
        Request::post("/v1/messages", body.to_string()).bearer(&key(number).0)
    };
    let answer = message(1).send(gateway.address).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert_eq!(number(&answer, "anthropic-ratelimit-requests-limit"), 1);
    assert_eq!(number(&answer, "anthropic-ratelimit-requests-remaining"), 1);
    assert!(
        answer
            .header("anthropic-ratelimit-requests-reset")
            .unwrap()
            .ends_with('Z')
    );
    message(1).send(gateway.address).await;
    let refused = message(1).send(gateway.address).await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.json()["error"]["type"], "rate_limit_error");
    assert_eq!(refused.header("retry-after"), Some("1"));

    // With the quota gone everything goes, without a word of limits.
    gateway.rewrite(&config);
    eventually("the new file to hold", async || {
        let answer = message(1).send(gateway.address).await;
        (answer.status() == 200 && answer.header("anthropic-ratelimit-requests-limit").is_none()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_nobody_saw_is_taken_to_be_no_more_than_the_endpoint_was_told() {
    const PATH: &str = "/v1/completions";
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    let config = Config::of([endpoint.address()])
        .file("timeouts: { connect: 200ms, first_token: 300ms, idle: 300ms, total: 300ms }")
        .file(LEDGER)
        .file(&quotas("  - { name: daily, tokens_per_day: 3000 }"));
    let gateway = served(laid(&config).await, &config, 1).await;
    let call = |more: &Value| {
        let mut body = json!({ "model": MODEL, "prompt": "Hi", "n": 2 });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        Request::post(PATH, body.to_string()).bearer(&key(1).0)
    };
    // Within the time that the call has, thirty tokens of each answer could have been made; sixteen is what the path allows.
    endpoint.on(PATH, Play::silence());
    assert_eq!(call(&json!({})).send(gateway.address).await.status(), 504);
    let record = gateway.until_records(1).await.remove(0);
    assert_eq!(
        (&record["output_tokens"], &record["usage_source"]),
        (&json!(32), &json!("estimated"))
    );
    // What the client says binds as well, for each answer.
    assert_eq!(
        call(&json!({ "max_tokens": 3 })).send(gateway.address).await.status(),
        504
    );
    assert_eq!(gateway.until_records(2).await[1]["output_tokens"], 6);
    // An answer that does not say what it used is not taken for more by its length.
    endpoint.on(
        PATH,
        Play::json(200, &format!(r#"{{"choices":[],"text":"{}"}}"#, "x".repeat(400))),
    );
    assert_eq!(call(&json!({})).send(gateway.address).await.status(), 200);
    assert_eq!(gateway.until_records(3).await[2]["output_tokens"], 32);
    // Nor is what the gateway's death cut short.
    endpoint.on(PATH, Play::silence());
    let before = endpoint.received_on(PATH).len();
    let mut connection = Connection::open(gateway.address).await;
    connection.send(&call(&json!({})).to_bytes()).await;
    eventually("the call to arrive", async || {
        (endpoint.received_on(PATH).len() > before).then_some(())
    })
    .await;
    let Gateway { mut child, folder, .. } = gateway;
    child.kill().await;
    // The next start asks the endpoint for a token before it is ready.
    endpoint.on(PATH, Play::json(200, &vllm::completion(MODEL)));
    let gateway = served(folder, &config, 1).await;
    let Gateway { mut child, folder, .. } = gateway;
    child.signal(Signal::Terminate);
    assert!(child.exit().await.success());
    let lines = usage(&folder, "outcome").await;
    let of = |outcome: &str| lines.iter().find(|line| line["outcome"] == outcome).unwrap();
    assert_eq!(
        (&of("interrupted")["calls"], &of("interrupted")["output_tokens"]),
        (&json!(1), &json!(32))
    );
    assert_eq!(of("failed")["output_tokens"], 38);
}
