//! Bodies from outside: whatever they are, they are read or refused.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn served(engine: Engine) -> Served {
    Served {
        engine,
        names: vec!["tiny".to_owned(), "alias".to_owned()],
        adapters: vec!["lora-a".to_owned()],
        context: 200,
    }
}

const APIS: [Api; 4] = [Api::Chat, Api::Completion, Api::Embedding, Api::Messages];

fn read(api: Api, body: &Value) -> Result<Ask, Problem> {
    served(Engine::Vllm).read(api, body.to_string().as_bytes())
}

#[test]
fn names_lead_to_models_and_adapters() {
    let check = |name: Value, expected: Option<(&str, Option<usize>)>| {
        let ask = read(Api::Completion, &json!({"model": name, "prompt": "x"}));
        let found = ask
            .as_ref()
            .ok()
            .map(|ask| (ask.model.as_str(), ask.adapter.map(AdapterIndex::get)));
        assert_eq!(found, expected, "{name}");
    };
    check(json!("tiny"), Some(("tiny", None)));
    check(json!("alias"), Some(("alias", None)));
    check(json!("lora-a"), Some(("lora-a", Some(0))));
    check(json!(null), Some(("tiny", None)));
    check(json!("other"), None);
    check(json!(7), None);
    let other = json!({"model": "other", "prompt": "x"}).to_string();
    let ask = served(Engine::Sglang).read(Api::Completion, other.as_bytes()).unwrap();
    assert_eq!(ask.model, "other", "SGLang answers to any name");
}

#[test]
fn content_is_text_or_parts_of_it() {
    let tokens = |content: Value| {
        let body = json!({"messages": [{"role": "user", "content": content}]});
        read(Api::Chat, &body).map(|mut ask| ask.prompts.remove(0))
    };
    let plain = tokens(json!("some words")).unwrap();
    assert_eq!(
        tokens(json!([{"type": "text", "text": "some words"}])),
        Ok(plain.clone())
    );
    assert_eq!(
        tokens(json!([{"type": "text", "text": "some wor"}, {"type": "text", "text": "ds"}])),
        Ok(plain)
    );
    assert_eq!(
        tokens(json!([{"type": "image_url", "image_url": {}}])),
        Err(Problem::NotMultimodal)
    );
    assert_eq!(tokens(json!(null)).unwrap().len(), 1 + 3 + 1 + 3);
}

#[test]
fn limits_are_those_of_the_context() {
    let prompt = |tokens: usize| json!({"prompt": vec![1; tokens], "max_tokens": 1});
    assert_eq!(
        read(Api::Completion, &prompt(199)).map(|ask| ask.prompts[0].len()),
        Ok(199)
    );
    assert_eq!(
        read(Api::Completion, &prompt(200)).map(drop),
        Err(Problem::TooLong {
            tokens: 200,
            limit: 200
        })
    );
    let input = json!({"input": vec![1; 200]});
    assert!(
        read(Api::Embedding, &input).is_ok(),
        "an embedding needs no room for an answer"
    );
    let much = json!({"prompt": "x", "max_tokens": 201});
    assert_eq!(
        read(Api::Completion, &much).map(drop),
        Err(Problem::MaxTokens {
            asked: 201,
            prompt: 1,
            limit: 200
        })
    );
    let many = json!({"prompt": ["x", "y"], "n": 65});
    assert_eq!(
        read(Api::Completion, &many).map(drop),
        Err(Problem::TooManyChoices(128))
    );
}

#[test]
fn an_empty_prompt_is_none() {
    for prompt in [
        json!([]),
        json!(""),
        json!(["x", ""]),
        json!([[]]),
        json!({"a": 1}),
        json!([1, "x"]),
    ] {
        assert_eq!(
            read(Api::Completion, &json!({ "prompt": prompt })).map(drop),
            Err(Problem::EmptyPrompt),
            "{prompt}"
        );
    }
}

#[test]
fn the_place_where_json_breaks_off_is_told() {
    let check = |body: &str, at| {
        let found = served(Engine::Vllm).read(Api::Chat, body.as_bytes()).map(drop);
        assert_eq!(found, Err(Problem::Json(at)), "{body:?}");
    };
    check("", 0);
    check("{\"a\":", 5);
    check("{\"a\":\n  x}", 9);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        Just(json!("tiny")),
        Just(json!("required")),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let names = prop_oneof![
            Just("role".to_owned()),
            Just("content".to_owned()),
            Just("type".to_owned()),
            Just("function".to_owned()),
            Just("parameters".to_owned()),
            Just("properties".to_owned()),
            "[a-z]{1,6}",
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::vec((names, inner), 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        for api in APIS {
            drop(served(Engine::Vllm).read(api, &body));
            drop(served(Engine::Vllm).tokenize(api, &body));
        }
    }

    #[test]
    fn any_fields_are_read_or_refused(
        [messages, tools, choice, format, limit, stop] in proptest::array::uniform6(any_json()),
    ) {
        let body = json!({
            "messages": messages, "prompt": messages, "input": messages, "system": stop, "tools": tools,
            "tool_choice": choice, "response_format": format, "max_tokens": limit, "n": limit, "stop": stop,
            "temperature": limit, "stream": choice, "model": "tiny",
        });
        for engine in [Engine::Vllm, Engine::Sglang] {
            let served = served(engine);
            for api in APIS {
                match served.read(api, body.to_string().as_bytes()) {
                    Ok(ask) => prop_assert!(ask.prompts.len() * ask.n as usize <= MAX_CHOICES),
                    Err(problem) => {
                        let (status, text) = problem.answer(&served, Some(api));
                        prop_assert!(status.is_client_error(), "{status} {text}");
                        prop_assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
                    }
                }
            }
        }
    }
}
