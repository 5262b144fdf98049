//! Two tenants who do the same, each in the other's place: neither sees or hinders the other.

use maitred_test::{Answer, Play, Request, ScriptedEndpoint, eventually, vllm};
use serde_json::json;

use crate::ledger::{LEDGER, laid, served, usage};
use crate::table::{CHAT, Config, Gateway, MODEL, key};

/// The two, and their mirror image: who acts first, and who second.
const PAIRS: [(u8, u8); 2] = [(1, 2), (2, 1)];

fn call(tenant: u8, text: &str) -> Request {
    let body = json!({ "model": MODEL, "max_tokens": 50, "messages": [{ "role": "user", "content": text }] });
    Request::post(CHAT, body.to_string()).bearer(&key(tenant).0)
}

async fn table(lines: &[&str]) -> (ScriptedEndpoint, Gateway) {
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    let config = Config::of([endpoint.address()]).file(LEDGER);
    let config = lines.iter().fold(config, |config, line| config.file(line));
    let gateway = served(laid(&config).await, &config, 1).await;
    (endpoint, gateway)
}

fn remaining(answer: &Answer, what: &str) -> Option<u64> {
    answer.header(&format!("x-ratelimit-remaining-{what}"))?.parse().ok()
}

#[tokio::test]
async fn what_one_has_used_is_not_taken_from_the_other() {
    for (first, second) in PAIRS {
        let (_endpoint, gateway) = table(&[
            "quotas: [{ name: daily, tokens_per_day: 300 }]",
            "tasks: { tokens: 300 }",
        ])
        .await;
        let begin = call(second, "hello").send(gateway.address).await;
        assert_eq!(begin.status(), 200, "{}", begin.text());
        let before = remaining(&begin, "tokens").unwrap();
        // One of them uses all it has, and what its task has, of the same name as the other's.
        let refused = eventually("a refusal", async || {
            let answer = call(first, "hello")
                .header("x-maitred-task", "task")
                .send(gateway.address)
                .await;
            (answer.status() == 429).then_some(answer)
        })
        .await;
        assert_eq!(refused.json()["error"]["code"], "quota_exceeded");
        // To the other nothing has happened.
        let answer = call(second, "hello")
            .header("x-maitred-task", "task")
            .send(gateway.address)
            .await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        let used = begin.json()["usage"]["total_tokens"].as_u64().unwrap();
        let after = remaining(&answer, "tokens").unwrap();
        assert!(before - after <= used + 20, "{before} and then {after}");
    }
}

#[tokio::test]
async fn the_same_request_id_is_two_calls_of_two_tenants() {
    for (first, second) in PAIRS {
        let (_endpoint, gateway) = table(&[]).await;
        for tenant in [first, second] {
            let answer = call(tenant, "hello")
                .header("x-request-id", "the-same")
                .send(gateway.address)
                .await;
            assert_eq!(
                (answer.status(), answer.header("x-request-id")),
                (200, Some("the-same"))
            );
        }
        let records = gateway.until_records(2).await;
        let tenants: Vec<_> = records.iter().map(|record| record["tenant"].clone()).collect();
        assert_eq!(tenants, [format!("tenant-{first}"), format!("tenant-{second}")]);
        // Neither call is taken for the other in the ledger: both are charged to who made them.
        let lines = eventually("both calls in the ledger", async || {
            let lines = usage(&gateway.folder, "tenant").await;
            (lines.len() == 2).then_some(lines)
        })
        .await;
        for line in &lines {
            assert_eq!(line["calls"], 1, "{lines:?}");
        }
    }
}

#[tokio::test]
async fn no_caller_sees_what_is_said_of_calls() {
    let (endpoint, gateway) = table(&[]).await;
    let canary = "CANARY-of-the-first-tenant";
    endpoint.once(CHAT, Play::json(200, &vllm::chat(MODEL, canary)));
    let answer = call(1, canary).send(gateway.address).await;
    let id = answer.header("x-request-id").unwrap().to_owned();
    // What administrators read is nowhere on the callers' side, with any key or none.
    for path in [
        format!("/admin/v1/decisions/{id}"),
        "/admin/v1/decisions".to_owned(),
        "/admin/v1/usage?by=tenant".to_owned(),
        "/admin/v1/keys".to_owned(),
        "/admin/v1/tenants".to_owned(),
        "/admin/v1/limits".to_owned(),
        "/metrics".to_owned(),
        "/endpoints".to_owned(),
        "/v1/../admin/v1/usage".to_owned(),
        "/v1/%2e%2e/admin/v1/usage".to_owned(),
    ] {
        for key in [Some(key(1).0), Some(key(2).0), None] {
            let request = Request::get(&path);
            let request = key.iter().fold(request, |request, key| request.bearer(key));
            let answer = request.send(gateway.address).await;
            assert!(matches!(answer.status(), 401 | 404), "{path}: {}", answer.status());
            assert!(
                !answer.text().contains("tenant-1") && !answer.text().contains(&id),
                "{path}"
            );
        }
    }
    // The other tenant's calls and refusals say nothing of the first one's.
    endpoint.on(CHAT, Play::json(200, &vllm::chat(MODEL, "theirs")));
    for request in [
        call(2, "hello"),
        call(2, "hello").header("x-request-id", &id),
        call(2, "hello").header("x-maitred-user", "somebody"),
        call(2, "hello").header("x-maitred-endpoint", "1"),
        Request::post(CHAT, "{").bearer(&key(2).0),
        Request::get("/v1/models").bearer(&key(2).0),
    ] {
        let answer = request.send(gateway.address).await;
        let all = format!("{answer:?}{}", answer.text());
        assert!(!all.contains(canary) && !all.contains("tenant-1"), "{all}");
    }
    // And what was said stands nowhere that operators look either.
    let records = std::fs::read_to_string(gateway.records_path()).unwrap();
    let decisions = gateway.page("/admin/v1/decisions").await.text();
    assert!(!records.contains(canary) && !decisions.contains(canary));
}
