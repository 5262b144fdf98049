//! Conversations come back to the endpoint that holds them in its prefix cache.

use std::net::SocketAddr;

use maitred_test::{Answer, Folder, Signal};
use serde_json::{Value, json};

use crate::table::{Config, Engine, Gateway, MODEL};

/// Chooses by nothing but what endpoints hold.
const BY_PREFIX: &str = "profiles: [{ name: by-prefix, scorers: [{ name: prefix-affinity }], picker: max-score }]";

/// Endpoints that answer fast and at length.
const FLAGS: [&str; 6] = [
    "--time-scale",
    "50",
    "--output-tokens",
    "200",
    "--output-variation",
    "0",
];

fn by_prefix(engines: &[Engine]) -> Config {
    Config::engines(engines).file(BY_PREFIX).pool("profile: by-prefix")
}

/// Three endpoints that answer fast, and a gateway that chooses by what they hold.
async fn three() -> (Vec<Engine>, Gateway) {
    let engines = Engine::start_several(3, &FLAGS).await;
    let gateway = Gateway::ready(&by_prefix(&engines)).await;
    (engines, gateway)
}

/// What a call came to: its endpoint, its text, and the prompt tokens that were counted and those of them that were cached.
struct Seen {
    endpoint: SocketAddr,
    text: String,
    prompt: u64,
    cached: u64,
}

fn seen(answer: &Answer, is_stream: bool) -> Seen {
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let (text, usage) = if is_stream {
        let chunks: Vec<Value> = answer
            .events()
            .iter()
            .filter_map(|event| serde_json::from_str(&event.data).ok())
            .collect();
        let text = chunks
            .iter()
            .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str())
            .collect();
        (
            text,
            chunks.last().map(|chunk| chunk["usage"].clone()).unwrap_or_default(),
        )
    } else {
        let body = answer.json();
        let text = body["choices"][0]["message"]["content"].as_str().unwrap_or_default();
        (text.to_owned(), body["usage"].clone())
    };
    Seen {
        endpoint: answer.header("x-maitred-endpoint").unwrap().parse().unwrap(),
        text,
        prompt: usage["prompt_tokens"].as_u64().unwrap(),
        cached: usage["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap(),
    }
}

async fn ask(gateway: &Gateway, messages: &Value, is_stream: bool) -> Seen {
    let mut body = json!({"model": MODEL, "messages": messages, "max_tokens": 200});
    if is_stream {
        body["stream"] = true.into();
        body["stream_options"] = json!({"include_usage": true});
    }
    let call = gateway.chat(body).header("x-maitred-endpoint", "?");
    let answer = call.send(gateway.address).await;
    gateway.until_idle().await;
    seen(&answer, is_stream)
}

#[tokio::test]
async fn the_next_turn_goes_where_the_one_before_went() {
    let (_engines, gateway) = three().await;
    for (number, is_stream) in [false, true, false, true].into_iter().enumerate() {
        // Nothing of the prompt is shared, and a prompt of one block would not be enough: it is long.
        let asked = format!(
            "Question {number}. {}",
            format!("And what of number {number}? ").repeat(100)
        );
        let mut messages = json!([{"role": "user", "content": asked}]);
        let first = ask(&gateway, &messages, is_stream).await;
        assert_eq!(first.cached, 0, "nobody has asked this before");
        let turns = messages.as_array_mut().unwrap();
        turns.push(json!({"role": "assistant", "content": first.text}));
        turns.push(json!({"role": "user", "content": "Go on."}));
        let second = ask(&gateway, &messages, is_stream).await;
        assert_eq!(second.endpoint, first.endpoint, "turn 2 of conversation {number}");
        assert!(
            second.cached + 64 > first.prompt,
            "{} of {} tokens were cached, {} of them asked before",
            second.cached,
            second.prompt,
            first.prompt
        );
    }
}

/// The prompts are shorter than a block, so it is by the answer alone that a conversation is known again.
#[tokio::test]
async fn an_answer_is_known_again_in_the_next_prompt() {
    let (_engines, gateway) = three().await;
    for (number, is_stream) in [false, true, false, true].into_iter().enumerate() {
        let mut messages = json!([{"role": "user", "content": format!("Tale {number}!")}]);
        let first = ask(&gateway, &messages, is_stream).await;
        assert!(first.text.len() > 512, "{}", first.text);
        let turns = messages.as_array_mut().unwrap();
        turns.push(json!({"role": "assistant", "content": first.text}));
        turns.push(json!({"role": "user", "content": "Go on."}));
        let second = ask(&gateway, &messages, is_stream).await;
        assert_eq!(second.endpoint, first.endpoint, "turn 2 of conversation {number}");
    }
}

/// A conversation's first turn, and what was asked.
async fn open(gateway: &Gateway, number: usize) -> (Value, Seen) {
    let asked = format!("Tale {number}. {}", format!("And then number {number}? ").repeat(100));
    let mut messages = json!([{"role": "user", "content": asked}]);
    let first = ask(gateway, &messages, false).await;
    let turns = messages.as_array_mut().unwrap();
    turns.push(json!({"role": "assistant", "content": first.text}));
    turns.push(json!({"role": "user", "content": "Go on."}));
    (messages, first)
}

/// The prompt tokens that the chosen endpoints were taken to hold.
async fn predicted(gateway: &Gateway) -> f64 {
    let held = [("held_by", "chosen")];
    gateway.metric("maitred_prefix_prompt_tokens_total", &held).await
}

/// Ends a gateway in order, as a rolling restart does.
async fn end(mut gateway: Gateway) {
    gateway.child.signal(Signal::Terminate);
    assert_eq!(gateway.child.exit().await.code(), Some(0));
}

#[tokio::test]
async fn a_restarted_gateway_knows_what_endpoints_hold() {
    let engines = Engine::start_several(3, &FLAGS).await;
    let folder = Folder::new();
    let file = folder.path().join("main.prefixes");
    let config = by_prefix(&engines).pool(&format!("prefix: {{ snapshot: {{ path: \"{}\" }} }}", file.display()));

    let gateway = Gateway::ready(&config).await;
    let mut talks = Vec::new();
    for number in 0..4 {
        talks.push(open(&gateway, number).await);
    }
    end(gateway).await;
    let kept = std::fs::read(&file).unwrap();

    // Without the file nothing is known: this is what a restart costs otherwise.
    std::fs::remove_file(&file).unwrap();
    let gateway = Gateway::ready(&config).await;
    ask(&gateway, &talks[3].0, false).await;
    assert_eq!(predicted(&gateway).await, 0.0, "{}", gateway.child.output());
    end(gateway).await;

    std::fs::write(&file, &kept).unwrap();
    let gateway = Gateway::ready(&config).await;
    let taken = [("result", "taken")];
    assert_eq!(gateway.metric("maitred_prefix_snapshots_total", &taken).await, 3.0);
    for (number, (messages, first)) in talks.iter().take(3).enumerate() {
        let second = ask(&gateway, messages, false).await;
        assert_eq!(second.endpoint, first.endpoint, "turn 2 of conversation {number}");
        assert!(
            second.cached + 64 > first.prompt,
            "{} of {}",
            second.cached,
            first.prompt
        );
    }
    assert!(predicted(&gateway).await > 0.0);
    end(gateway).await;

    // Other processes at the same addresses hold nothing, and nothing is expected of them.
    let mut again = Vec::new();
    for mut engine in engines {
        engine.child.kill().await;
        again.push(Engine::start_at(engine.address, &FLAGS).await);
    }
    std::fs::write(&file, &kept).unwrap();
    let gateway = Gateway::ready(&config).await;
    let refused = [("result", "refused")];
    assert_eq!(gateway.metric("maitred_prefix_snapshots_total", &refused).await, 3.0);
    ask(&gateway, &talks[0].0, false).await;
    assert_eq!(predicted(&gateway).await, 0.0);
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_passed_over_with_a_warning() {
    let engines = Engine::start_several(1, &FLAGS).await;
    let folder = Folder::new();
    let file = folder.write("main.prefixes", "no snapshot");
    let config = by_prefix(&engines).pool(&format!("prefix: {{ snapshot: {{ path: \"{}\" }} }}", file.display()));
    let gateway = Gateway::ready(&config).await;
    let output = gateway.child.output();
    assert!(output.contains("the snapshot of prefixes cannot be used"), "{output}");
    open(&gateway, 0).await;
    end(gateway).await;
    assert_ne!(
        std::fs::read(&file).unwrap(),
        b"no snapshot",
        "a good one takes its place"
    );
}
