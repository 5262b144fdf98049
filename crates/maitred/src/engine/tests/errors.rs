//! Refusals are what real engines say, to the letter where the letter matters.

use super::*;

/// A request that real engines refused, as far as its shape can be told from what they said.
fn refused() -> Vec<(&'static str, u16, &'static str, Vec<u8>)> {
    let chat_path = "/v1/chat/completions";
    let chat = |fields: Value| chat(&fields).to_string().into_bytes();
    let picture = json!([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]);
    vec![
        (
            "bad-json",
            400,
            chat_path,
            br#"{"model": "tiny", "messages":      ["#.to_vec(),
        ),
        ("bad-model", 404, chat_path, chat(json!({"model": "nope"}))),
        (
            "bad-model-messages",
            404,
            "/v1/messages",
            chat(json!({"model": "nope", "max_tokens": 4})),
        ),
        (
            "bad-tool-choice",
            400,
            chat_path,
            chat(json!({"tool_choice": "required"})),
        ),
        (
            "image-to-text-model",
            400,
            chat_path,
            chat(json!({"messages": [{"role": "user", "content": picture}]})),
        ),
        (
            "invalid-temperature",
            400,
            chat_path,
            chat(json!({"temperature": -3.0})),
        ),
        (
            "max-tokens-too-big",
            400,
            chat_path,
            chat(json!({"max_tokens": 100_000})),
        ),
        ("messages-missing-max-tokens", 400, "/v1/messages", chat(json!({}))),
        ("missing-messages", 400, chat_path, br#"{"model":"tiny"}"#.to_vec()),
        (
            "too-long-prompt",
            400,
            chat_path,
            chat(json!({"messages": [{"role": "user", "content": "word".repeat(6000)}]})),
        ),
        (
            "wrong-type",
            400,
            chat_path,
            chat(json!({"messages": "x", "max_tokens": "many"})),
        ),
    ]
}

#[tokio::test]
async fn vllm_refuses_in_its_own_words() {
    let stage = Stage::serving("").await;
    for (name, status, path, body) in refused() {
        let answer = Request::post(path, body).send(stage.address).await;
        assert_eq!(
            (answer.status(), answer.text()),
            (status, fixture("vllm-0.32.0", &format!("errors/{name}"))),
            "{name}"
        );
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
}

/// A refusal without its sizes and the input that it echoes, which differ from the captured call's.
fn blotted(body: &Value) -> Value {
    let mut body = body.clone();
    for pointer in ["/message", "/error/message"] {
        let Some(message) = body.pointer_mut(pointer).filter(|message| message.is_string()) else {
            continue;
        };
        let text = message
            .as_str()
            .unwrap()
            .replace(|letter: char| letter.is_ascii_digit(), "");
        *message = json!(text.split("'input'").next().unwrap().trim_end());
    }
    body
}

#[tokio::test]
async fn sglang_refuses_in_its_own_form() {
    let stage = Stage::serving("--flavor sglang").await;
    for (name, status, path, body) in refused() {
        let answer = Request::post(path, body).send(stage.address).await;
        if name.starts_with("bad-model") {
            let echoed = answer.json()["model"].clone();
            assert_eq!(
                (answer.status(), echoed),
                (200, json!("nope")),
                "a wrong model is answered, and its name repeated"
            );
            continue;
        }
        assert_eq!(answer.status(), status, "{name}");
        let real: Value = serde_json::from_str(&fixture("sglang-0.5.23", &format!("errors/{name}"))).unwrap();
        let found = answer.json();
        assert_eq!(blotted(&found), blotted(&real), "{name}");
        let leaks = |body: &Value| body.to_string().contains("site-packages/sglang");
        assert_eq!(leaks(&found), leaks(&real), "{name}");
    }
}

#[tokio::test]
async fn both_know_their_paths_methods_and_types() {
    for (engine, flavor) in [VLLM, SGLANG] {
        let stage = Stage::serving(flavor).await;
        let answer = stage.get("/v1/nothing").await;
        assert_eq!(
            (answer.status(), answer.text()),
            (404, fixture(engine, "errors/not-found"))
        );
        let answer = stage.get("/v1/chat/completions").await;
        assert_eq!((answer.status(), answer.header("allow")), (405, Some("POST")));
        assert_eq!(answer.text(), fixture(engine, "errors/method-not-allowed"));
        let request = Request::new("POST", "/v1/chat/completions").header("content-type", "text/plain");
        let answer = request.body(chat(&json!({})).to_string()).send(stage.address).await;
        assert_eq!(answer.status(), 400);
        assert_eq!(answer.text(), fixture(engine, "errors/bad-content-type"));
    }
}

#[tokio::test]
async fn a_key_is_asked_for_under_v1_only() {
    let stage = Stage::serving("--api-key secret").await;
    let refused = stage.get("/v1/models").await;
    assert_eq!(
        (refused.status(), refused.text().as_str()),
        (401, r#"{"error":"Unauthorized"}"#)
    );
    let wrong = Request::get("/v1/models").bearer("other").send(stage.address).await;
    assert_eq!(wrong.status(), 401);
    let right = Request::get("/v1/models").bearer("secret").send(stage.address).await;
    assert_eq!(right.status(), 200);
    assert_eq!(stage.get("/health").await.status(), 200);
    assert_eq!(stage.get("/metrics").await.status(), 200);
}

#[tokio::test]
async fn what_the_pool_cannot_hold_is_refused() {
    let stage = Stage::serving("--blocks 11").await;
    let body = chat(&json!({"max_tokens": 500, "ignore_eos": true}));
    let answer = stage.post("/v1/chat/completions", &body).await;
    assert_eq!(answer.status(), 400, "{}", answer.text());
}

#[tokio::test]
async fn each_flavor_has_an_error_body_of_its_kind() {
    for (flavor, pointer) in [
        ("trtllm-serve", "/message"),
        ("triton", "/detail"),
        ("triton-tensorrt-llm", "/detail"),
    ] {
        let stage = Stage::serving(&format!("--flavor {flavor}")).await;
        let answer = stage
            .post("/v1/chat/completions", &chat(&json!({"model": "nope"})))
            .await;
        assert_eq!(answer.status(), 404, "{flavor}");
        let message = answer.json().pointer(pointer).unwrap().as_str().unwrap().to_owned();
        assert!(message.contains("nope"), "{flavor}: {message}");
    }
}
