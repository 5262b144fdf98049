//! The answer cache: what is given again, to whom, and what is said of it.

use maitred_test::{Answer, Play, Request, ScriptedEndpoint, vllm};
use serde_json::{Value, json};

use crate::table::{CHAT, Config, Gateway, MODEL, key};

/// Two tenants may have their answers kept, a third may not.
const ANSWERS: &str = "answers: { models: [{ model: MODEL, keep: 1h }], tenants: [tenant-1, tenant-2] }";

async fn keeping() -> (ScriptedEndpoint, Gateway) {
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    let config = Config::of([endpoint.address()]).file(&ANSWERS.replace("MODEL", MODEL));
    let gateway = Gateway::ready(&config).await;
    (endpoint, gateway)
}

fn body(more: Value) -> String {
    let mut body = json!({ "model": MODEL, "temperature": 0, "messages": [{ "role": "user", "content": "one" }] });
    let (Value::Object(members), Value::Object(more)) = (&mut body, more) else {
        panic!("objects");
    };
    members.extend(more);
    body.to_string()
}

fn ask(number: u8, body: String) -> Request {
    Request::post(CHAT, body).bearer(&key(number).0)
}

/// What an answer says of where it comes from.
fn marks(answer: &Answer) -> [Option<&str>; 3] {
    ["x-degraded", "x-degrade-reason", "x-served-by"].map(|name| answer.header(name))
}

const KEPT: [Option<&str>; 3] = [Some("cache"), Some("cache"), Some("cache")];

/// How many calls the endpoint has had.
fn asked(endpoint: &ScriptedEndpoint) -> usize {
    endpoint.received_on(CHAT).len()
}

#[tokio::test]
async fn the_same_call_gets_the_same_answer_and_it_is_marked() {
    let (endpoint, gateway) = keeping().await;
    endpoint.on(CHAT, Play::json(200, &vllm::chat(MODEL, "word")));
    let before = asked(&endpoint);
    let first = ask(1, body(json!({}))).send(gateway.address).await;
    assert_eq!((first.status(), marks(&first)), (200, [None; 3]));
    // Written otherwise, and for another of the tenant's users.
    let again = format!(
        "{{\"messages\":[{{\"content\":\"\\u006fne\",\"role\":\"user\"}}],\n\"user\":\"ann\",\"temperature\":0.0,\"model\":\"{MODEL}\"}}"
    );
    let second = ask(1, again).send(gateway.address).await;
    assert_eq!((second.status(), marks(&second)), (200, KEPT));
    assert_eq!(second.text(), first.text());
    assert!(second.header("age").is_some());
    assert_eq!(asked(&endpoint) - before, 1);
    let records = gateway.until_records(2).await;
    let kept = &records[1];
    assert_eq!(
        (&kept["outcome"], &kept["degraded"], &kept["attempts"]),
        (&"answered".into(), &"cache".into(), &0.into()),
        "{kept}"
    );
    // Nothing was used for it.
    assert_eq!(kept["output_tokens"], Value::Null, "{kept}");
    let degraded = gateway
        .metric("maitred_degraded_answers_total", &[("kind", "cache"), ("model", MODEL)])
        .await;
    assert_eq!(degraded, 1.0);
    let lookups = async |result| {
        gateway
            .metric("maitred_answer_lookups_total", &[("result", result)])
            .await
    };
    assert_eq!((lookups("found").await, lookups("missed").await), (1.0, 1.0));
    assert!(gateway.metric("maitred_answer_cache_bytes", &[]).await > 0.0);
}

#[tokio::test]
async fn a_stream_is_given_again_as_a_stream() {
    let (endpoint, gateway) = keeping().await;
    endpoint.on(CHAT, Play::chat_stream(MODEL, &["one ", "two"]));
    let before = asked(&endpoint);
    let stream = || body(json!({ "stream": true }));
    let first = ask(1, stream()).send(gateway.address).await;
    gateway.until_idle().await;
    let second = ask(1, stream()).send(gateway.address).await;
    assert_eq!((marks(&first), marks(&second)), ([None; 3], KEPT));
    assert_eq!(second.header("content-type"), first.header("content-type"));
    assert_eq!(second.text(), first.text());
    assert!(second.events().last().is_some_and(maitred_test::Event::is_done));
    assert_eq!(asked(&endpoint) - before, 1);
    // One that breaks off is not kept.
    endpoint.on(CHAT, Play::stream().chunk(vllm::chat_event(MODEL, "one")).cut());
    let broken = || body(json!({ "stream": true, "seed": 1 }));
    for _ in 0..2 {
        let answer = ask(1, broken()).send(gateway.address).await;
        assert_eq!(marks(&answer), [None; 3]);
    }
    assert_eq!(asked(&endpoint) - before, 3);
}

/// Whoever must not or does not want to get what is kept gets an answer of its own.
#[tokio::test]
async fn others_get_answers_of_their_own() {
    let (endpoint, gateway) = keeping().await;
    endpoint.on(CHAT, Play::json(200, &vllm::chat(MODEL, "word")));
    let own = async |request: Request| {
        let before = asked(&endpoint);
        let answer = request.send(gateway.address).await;
        assert_eq!((answer.status(), marks(&answer)), (200, [None; 3]), "{}", answer.text());
        assert_eq!(asked(&endpoint) - before, 1);
    };
    let same = || body(json!({}));
    own(ask(1, same())).await;
    // Another tenant, and one whose answers are not kept at all.
    own(ask(2, same())).await;
    own(ask(3, same())).await;
    own(ask(3, same())).await;
    for (name, value) in [
        ("cache-control", "no-store"),
        ("cache-control", "no-cache"),
        ("x-maitred-degrade", "refuse"),
    ] {
        own(ask(1, same()).header(name, value)).await;
    }
    // What may differ from one time to the next.
    for _ in 0..2 {
        own(ask(1, body(json!({ "temperature": 0.7 })))).await;
        own(ask(1, same()).header("cache-control", "no-store")).await;
    }
    // What is kept is there all the same, for each of the two.
    for number in [1, 2] {
        assert_eq!(marks(&ask(number, same()).send(gateway.address).await), KEPT);
    }
}

/// An error is no answer to keep.
#[tokio::test]
async fn refusals_are_not_kept() {
    let (endpoint, gateway) = keeping().await;
    endpoint.on(
        CHAT,
        Play::json(400, r#"{"error":{"message":"no","type":"BadRequestError","code":400}}"#),
    );
    for _ in 0..2 {
        let answer = ask(1, body(json!({}))).send(gateway.address).await;
        assert_eq!((answer.status(), marks(&answer)), (400, [None; 3]));
    }
}
