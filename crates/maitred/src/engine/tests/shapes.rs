//! Answers and events have the fields that real ones have, in their order.

use maitred_test::SseReader;

use super::*;

/// A JSON text with its values blotted out: keys, order, nulls and nesting remain.
fn skeleton(json: &str) -> String {
    let mut out = String::new();
    let mut rest = json.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            '"' => {
                let mut text = String::new();
                while let Some(letter) = rest.next().filter(|letter| *letter != '"') {
                    text.push(letter);
                    if letter == '\\' {
                        text.extend(rest.next());
                    }
                }
                if rest.peek() == Some(&':') {
                    out.push_str(&text);
                } else {
                    out.push_str("text");
                }
            }
            '0'..='9' | '-' | '.' | 'e' if !out.ends_with(|last: char| last.is_ascii_alphabetic()) => {
                if !out.ends_with('#') {
                    out.push('#');
                }
            }
            other => out.push(other),
        }
    }
    out
}

/// The skeletons of a stream's events, each kind once.
fn kinds(stream: &str) -> Vec<String> {
    let mut kinds = Vec::new();
    for event in SseReader::all(stream.as_bytes()) {
        let kind = format!("{}: {}", event.name.unwrap_or_default(), skeleton(&event.data));
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}

#[test]
fn a_skeleton_keeps_what_matters() {
    assert_eq!(
        skeleton(r#"{"a":"x\"y","b":[1,-2.5],"c":null,"d":true}"#),
        "{a:text,b:[#,#],c:null,d:true}"
    );
}

#[tokio::test]
async fn streams_have_the_events_of_real_ones() {
    for (engine, flavor) in [VLLM, SGLANG] {
        let stage = Stage::serving(flavor).await;
        let check = async |name: &str, path: &str, body: Value| {
            let answer = stage.post(path, &body).await;
            assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
            assert_eq!(
                kinds(&answer.text()),
                kinds(&fixture(engine, &format!("streams/{name}"))),
                "{engine} {name}"
            );
        };
        let path = "/v1/chat/completions";
        let limited = |fields: &Value| {
            let mut body = chat(&json!({"stream": true, "max_tokens": 6, "ignore_eos": true}));
            body.as_object_mut()
                .unwrap()
                .extend(fields.as_object().unwrap().clone());
            body
        };
        check("chat", path, limited(&json!({}))).await;
        check(
            "chat-include-usage",
            path,
            limited(&json!({"stream_options": {"include_usage": true}})),
        )
        .await;
        let options = json!({"include_usage": true, "continuous_usage_stats": true});
        check(
            "chat-continuous-usage",
            path,
            limited(&json!({ "stream_options": options })),
        )
        .await;
        check("chat-n2", path, limited(&json!({"n": 2}))).await;
        let prompt = json!({"model": "tiny", "prompt": "a b c", "max_tokens": 8, "stream": true, "ignore_eos": true,
            "stream_options": {"include_usage": true}});
        check("completion", "/v1/completions", prompt).await;
        let messages = json!({"model": "tiny", "max_tokens": 8, "stream": true, "ignore_eos": true,
            "messages": [{"role": "user", "content": "hello"}]});
        check("messages", "/v1/messages", messages).await;
    }
}

#[tokio::test]
async fn a_stop_string_ends_a_stream_as_it_does_for_real() {
    for (engine, flavor) in [VLLM, SGLANG] {
        let stage = Stage::serving(flavor).await;
        let whole = stage
            .post(
                "/v1/chat/completions",
                &chat(&json!({"max_tokens": 9, "ignore_eos": true})),
            )
            .await
            .json();
        let text = whole["choices"][0]["message"]["content"].as_str().unwrap().to_owned();
        let stop = text.get(10..12).unwrap();
        let body = chat(&json!({"stop": [stop], "stream": true, "max_tokens": 9, "ignore_eos": true}));
        let answer = stage.post("/v1/chat/completions", &body).await;
        let events: Vec<Value> = answer
            .events()
            .iter()
            .filter(|event| !event.is_done())
            .map(|event| event.json())
            .collect();
        let said: String = events
            .iter()
            .filter_map(|event| event["choices"][0]["delta"]["content"].as_str())
            .collect();
        assert_eq!(Some(said.as_str()), text.get(..text.find(stop).unwrap()));
        let (last, field) = (
            events.last().unwrap(),
            if engine.starts_with("vllm") {
                "stop_reason"
            } else {
                "matched_stop"
            },
        );
        assert_eq!(
            (&last["choices"][0]["finish_reason"], &last["choices"][0][field]),
            (&json!("stop"), &json!(stop))
        );
        let real = kinds(&fixture(engine, "streams/chat-stop"));
        assert_eq!(
            kinds(&answer.text()).iter().rev().take(2).collect::<Vec<_>>(),
            real.iter().rev().take(2).collect::<Vec<_>>()
        );
    }
}

#[tokio::test]
async fn whole_answers_have_the_fields_of_real_ones() {
    for (engine, flavor) in [VLLM, SGLANG] {
        let stage = Stage::serving(&format!("{flavor} --lora-modules lora-a,lora-b")).await;
        let check = async |name: &str, path: &str, body: Value| {
            let answer = stage.post(path, &body).await;
            assert_eq!(
                (answer.status(), answer.header("content-type")),
                (200, Some("application/json"))
            );
            let real = fixture(engine, &format!("responses/{name}"));
            assert_eq!(skeleton(&answer.text()), skeleton(real.trim_end()), "{engine} {name}");
        };
        let path = "/v1/chat/completions";
        check("chat", path, chat(&json!({"max_tokens": 5, "ignore_eos": true}))).await;
        check(
            "chat-n2-seed",
            path,
            chat(&json!({"max_tokens": 4, "n": 2, "ignore_eos": true})),
        )
        .await;
        let prompt = |prompt: Value| json!({"model": "tiny", "prompt": prompt, "max_tokens": 4, "ignore_eos": true});
        check("completion", "/v1/completions", prompt(json!("a b c"))).await;
        check("completion-batch", "/v1/completions", prompt(json!(["a b c", "d e f"]))).await;
        let messages = json!({"model": "tiny", "max_tokens": 4, "messages": [{"role": "user", "content": "hello"}]});
        check("messages", "/v1/messages", messages.clone()).await;
        check("messages-count-tokens", "/v1/messages/count_tokens", messages).await;
        check(
            "tokenize",
            "/tokenize",
            json!({"model": "tiny", "prompt": "a prompt of six tokens"}),
        )
        .await;
        let models = stage.get("/v1/models").await.text();
        let real = fixture(engine, "responses/models");
        let wanted = skeleton(real.trim_end());
        // The SGLang that was captured had no adapters.
        let found = if engine.starts_with("vllm") {
            skeleton(&models)
        } else {
            skeleton(models.get(..wanted_end(&models)).unwrap())
        };
        assert_eq!(found.trim_end_matches("]}"), wanted.trim_end_matches("]}"), "{engine}");
    }
}

/// Where the first model of a list ends.
fn wanted_end(models: &str) -> usize {
    models.find('}').unwrap() + 1
}

#[tokio::test]
async fn usage_adds_up_and_tells_of_the_cache_when_asked() {
    let stage = Stage::begin("--served-name tiny");
    drop(stage);
    let args = Line::try_parse_from("engine --model tiny --time-scale 100".split(' '))
        .unwrap()
        .args;
    let endpoint = Endpoint::start(args, Clock::start()).unwrap();
    let address = endpoint.address;
    let _life = background(endpoint.live());
    let long = "many words ".repeat(40);
    let body = json!({"model": "tiny", "messages": [{"role": "user", "content": long}], "max_tokens": 30,
        "ignore_eos": true});
    let call = async |body: &Value| {
        eventually("an answer", async || {
            let answer = Request::post("/v1/chat/completions", body.to_string())
                .send(address)
                .await;
            (answer.status() == 200).then(|| answer.json())
        })
        .await
    };
    let first = call(&body).await;
    let second = call(&body).await;
    let usage = |answer: &Value| answer["usage"].clone();
    let prompt = usage(&first)["prompt_tokens"].as_u64().unwrap();
    assert_eq!(usage(&first)["total_tokens"], prompt + 30);
    assert_eq!(usage(&first)["prompt_tokens_details"], json!({"cached_tokens": 0}));
    assert_eq!(
        usage(&second)["prompt_tokens_details"]["cached_tokens"],
        (prompt - 1) / 16 * 16
    );
    assert_eq!(
        first["choices"], second["choices"],
        "the same prompt gets the same answer"
    );

    // The answer is cached as well: the next turn finds all full blocks but that of the last, uncomputed token.
    let answer = &first["choices"][0]["message"]["content"];
    let next = json!({"model": "tiny", "max_tokens": 1, "messages": [{"role": "user", "content": long},
        {"role": "assistant", "content": answer}, {"role": "user", "content": "go on"}]});
    let third = call(&next).await;
    assert_eq!(
        usage(&third)["prompt_tokens_details"]["cached_tokens"],
        (prompt + 29) / 16 * 16
    );
}

#[tokio::test]
async fn tools_are_called_with_arguments_that_fit() {
    let tools = json!([{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "unit": {"enum": ["°C", "°F"]}},
        "required": ["city"]}}}]);
    for (engine, flavor) in [VLLM, SGLANG] {
        let stage = Stage::serving(flavor).await;
        let named = json!({"type": "function", "function": {"name": "get_weather"}});
        for choice in [json!("auto"), json!("required"), named] {
            let body = chat(&json!({"tools": tools, "tool_choice": choice}));
            let whole = stage.post("/v1/chat/completions", &body).await.json();
            assert_eq!(whole["choices"][0]["finish_reason"], "tool_calls");
            let function = &whole["choices"][0]["message"]["tool_calls"][0]["function"];
            let arguments: Value = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
            assert_eq!(
                (&function["name"], &arguments),
                (
                    &json!("get_weather"),
                    &json!({"city": "simulated", "days": 1, "unit": "°C"})
                )
            );

            let mut streamed = body.clone();
            streamed["stream"] = json!(true);
            let answer = stage.post("/v1/chat/completions", &streamed).await;
            let deltas = answer.events();
            let deltas = deltas
                .iter()
                .filter(|event| !event.is_done())
                .map(|event| event.json()["choices"][0]["delta"].clone());
            let parts: Vec<String> = deltas
                .filter_map(|delta| {
                    delta["tool_calls"][0]["function"]["arguments"]
                        .as_str()
                        .map(str::to_owned)
                })
                .collect();
            assert_eq!(serde_json::from_str::<Value>(&parts.concat()).unwrap(), arguments);
            if engine.starts_with("vllm") {
                let real = kinds(&fixture(engine, "streams/chat-tool-named"));
                assert_eq!(kinds(&answer.text()), real);
            }
        }
        let after_tool = json!({"model": "tiny", "tools": tools, "messages": [{"role": "user", "content": "weather?"},
            {"role": "tool", "content": "rain"}]});
        let answer = stage.post("/v1/chat/completions", &after_tool).await.json();
        assert!(
            answer["choices"][0]["message"]["content"].is_string(),
            "an agent's loop ends"
        );
    }
}

#[tokio::test]
async fn a_schema_gets_json_that_fits() {
    let stage = Stage::serving("").await;
    let schema = json!({"type": "object", "properties": {"ok": {"type": "boolean"},
        "items": {"type": "array", "items": {"type": "number", "minimum": 3}}}});
    let format = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": schema}});
    let answer = stage
        .post("/v1/chat/completions", &chat(&json!({ "response_format": format })))
        .await
        .json();
    let content: Value = serde_json::from_str(answer["choices"][0]["message"]["content"].as_str().unwrap()).unwrap();
    assert_eq!(content, json!({"ok": true, "items": [3]}));
}

#[tokio::test]
async fn embeddings_are_prefills_without_an_answer() {
    let stage = Stage::serving("").await;
    let answer = stage
        .post(
            "/v1/embeddings",
            &json!({"model": "tiny", "input": ["one", "two", "one"]}),
        )
        .await
        .json();
    let vector = |index: usize| answer["data"][index]["embedding"].clone();
    assert_eq!(vector(0), vector(2));
    assert_ne!(vector(0), vector(1));
    assert_eq!(
        answer["usage"],
        json!({"prompt_tokens": 3, "total_tokens": 3, "completion_tokens": 0,
        "prompt_tokens_details": null})
    );
    stage.state("generation_tokens", |tokens| tokens == 0).await;
}

#[tokio::test]
async fn prompts_come_as_text_or_tokens_and_the_callers_id_comes_back() {
    let stage = Stage::serving("").await;
    let body = json!({"model": "tiny", "prompt": [1, 2, 3], "max_tokens": 2, "ignore_eos": true});
    let request = Request::post("/v1/completions", body.to_string()).header("x-request-id", "abc-123");
    let answer = request.send(stage.address).await.json();
    assert_eq!(
        (&answer["id"], &answer["usage"]["prompt_tokens"]),
        (&json!("cmpl-abc-123"), &json!(3))
    );
    let batch = json!({"model": "tiny", "prompt": [[1, 2], [3]], "n": 2, "max_tokens": 1});
    let answer = stage.post("/v1/completions", &batch).await.json();
    assert_eq!(answer["choices"].as_array().unwrap().len(), 4);
    assert_eq!(answer["usage"]["prompt_tokens"], 3);
}
