use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::fuzzing::{fuzz_chain, respell};
use crate::scan;
use crate::sse::Reader;

/// Blocks of 16 bytes, so that short texts have many.
const TOKENS: u32 = 4;

fn read_as(kind: CallKind, body: &[u8]) -> PromptText {
    let view = scan(&Bytes::copy_from_slice(body)).unwrap();
    PromptText::read(&view, kind, ChainRule::new("m", None, TOKENS)).unwrap()
}

fn hashes_as(kind: CallKind, body: &Value) -> Vec<u64> {
    read_as(kind, body.to_string().as_bytes()).hashes.to_vec()
}

fn chat(messages: &Value) -> Vec<u64> {
    hashes_as(CallKind::Chat, &json!({"model": "m", "messages": messages}))
}

fn common(one: &[u64], other: &[u64]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[test]
fn spelling_leaves_no_trace() {
    let check = |one: &str, other: &str| {
        let (one, other) = (one.as_bytes(), other.as_bytes());
        let (one, other) = (read_as(CallKind::Chat, one), read_as(CallKind::Chat, other));
        assert_eq!(one.hashes, other.hashes);
        assert!(!one.hashes.is_empty());
    };
    let plain = r#"{"messages":[{"role":"user","content":"Caf\u00e9 \"Sud\" \ud83d\ude00, and a long way to go\n"}]}"#;
    check(
        plain,
        r#"{"temperature":1,"messages":[{"content":"Café \u0022Sud\u0022 😀, and a long way to go\u000a","role":"user"}]}"#,
    );
    check(
        plain,
        "{ \"messages\" : [ {\"role\":\"us\\u0065r\",\n\"content\":[{\"text\":\"Café \\\"Sud\\\" 😀, and a long way to go\\n\", \"type\":\"text\"}]} ] }",
    );
    check(
        plain,
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":"Café \"Sud\" 😀, and a long way to go\n","cache_control":{"type":"ephemeral"}}],"id":"x"}],"tools":[]}"#,
    );
}

#[test]
fn what_a_template_prints_makes_a_difference() {
    let said = |text: &str| json!({"model": "m", "messages": [{"role": "user", "content": text}]});
    let base = said("what is there to say about a long text");
    let first = |body: &Value| *hashes_as(CallKind::Chat, body).first().unwrap();
    let differs = |change: &dyn Fn(&mut Value)| {
        let mut other = base.clone();
        change(&mut other);
        assert_ne!(first(&base), first(&other), "{other}");
    };
    differs(&|body| body["messages"][0]["role"] = "system".into());
    differs(&|body| body["messages"][0]["name"] = "Ada".into());
    differs(&|body| body["messages"][0]["content"] = "What is there to say about a long text".into());
    differs(&|body| body["tools"] = json!([{"type": "function"}]));
    differs(&|body| body["cache_salt"] = "a".into());
    // The negative control: what it does not print makes none.
    let mut same = base.clone();
    same["temperature"] = json!(0.5);
    same["messages"][0]["tool_call_id"] = "x".into();
    assert_eq!(hashes_as(CallKind::Chat, &base), hashes_as(CallKind::Chat, &same));
}

#[test]
fn a_chain_belongs_to_its_model_and_adapter() {
    let view = scan(&Bytes::from_static(
        br#"{"prompt":"a text of more than sixteen bytes"}"#,
    ))
    .unwrap();
    let first = |model, adapter| {
        let rule = ChainRule::new(model, adapter, TOKENS);
        PromptText::read(&view, CallKind::Completions, rule).unwrap().hashes[0]
    };
    let all = [
        first("m", None),
        first("n", None),
        first("m", Some("a")),
        first("ma", None),
    ];
    for (at, one) in all.iter().enumerate() {
        assert!(!all[..at].contains(one), "{at}");
    }
}

#[test]
fn the_parts_come_in_the_order_of_a_template() {
    let tools = json!([{"type": "function", "function": {"name": "look", "parameters": {"b": 1, "a": 2}}}]);
    let system = json!({"role": "system", "content": "You are of help to people who look."});
    let user = json!({"role": "user", "content": "Look at the first of them, and then at others."});
    let both = hashes_as(CallKind::Chat, &json!({"messages": [system, user], "tools": tools}));
    let alone = hashes_as(CallKind::Chat, &json!({"messages": [system], "tools": tools}));
    assert_eq!(common(&both, &alone), alone.len());
    assert!(alone.len() >= 5, "{}", alone.len());
    // The same system text in Anthropic's place.
    let anthropic = json!({"messages": [user], "system": "You are of help to people who look.", "tools": tools});
    assert_eq!(hashes_as(CallKind::Messages, &anthropic), both);
    // Tools are printed in the order of their members.
    let turned = r#"[{"type":"function","function":{"name":"look","parameters":{"a":2,"b":1}}}]"#;
    let body = format!(r#"{{"messages":[],"tools":{turned}}}"#);
    let straight = body.replace(r#"{"a":2,"b":1}"#, r#"{"b":1,"a":2}"#);
    assert_ne!(
        read_as(CallKind::Chat, body.as_bytes()).hashes,
        read_as(CallKind::Chat, straight.as_bytes()).hashes
    );
}

#[test]
fn an_image_is_named_by_its_content() {
    let image = |content: &str| format!("data:image/png;base64,{}", content.repeat(400));
    let part = |url: &str| json!({"type": "image_url", "image_url": {"url": url, "detail": "low"}});
    let asked =
        |image: &Value| chat(&json!([{"role": "user", "content": [{"type": "text", "text": "0123456789abc"}, image]}]));
    let one = asked(&part(&image("iVBORw0KGgo")));
    let other = asked(&part(&image("iVBORw0KGgp")));
    assert_eq!(common(&one, &other), 1, "the text before it is the same");
    assert_eq!(one.len(), other.len());
    // A thousand tokens of four bytes, however large the file is.
    assert_eq!(one.len(), 1 + MEDIA / 16);
    let larger = asked(&part(&image(&"iVBORw0KGgo".repeat(30))));
    assert_eq!(one.len(), larger.len());
    let turned = json!({"image_url": {"detail": "low", "url": image("iVBORw0KGgo")}, "type": "image_url"});
    assert_eq!(asked(&turned), one);
    // In another place it leaves the same bytes: at a distance of whole blocks the text after it meets the same borders.
    let url = image("iVBORw0KGgo");
    let body = json!({"messages": [{"role": "user", "content": [part(&url)]}]});
    let slashed = body.to_string().replace("image/png", "image\\/png");
    let size = read_as(CallKind::Chat, slashed.as_bytes());
    assert_eq!(size.hashes, read_as(CallKind::Chat, body.to_string().as_bytes()).hashes);
    assert_eq!((size.size().media, size.size().ids), (1, 0));
    assert!(size.size().text < 20);
}

const MEDIA: usize = crate::MEDIA_TOKENS * BYTES_PER_TOKEN;

#[test]
#[expect(clippy::float_cmp, reason = "these are exact")]
fn of_a_list_of_prompts_the_longest_stands_for_all() {
    let prompt = |prompt: Value| hashes_as(CallKind::Completions, &json!({"prompt": prompt}));
    let long = "a text that is longer than all of the others";
    assert_eq!(prompt(json!(["short", long, "x"])), prompt(json!(long)));
    assert_eq!(
        prompt(json!([[1, 2], [1, 2, 3, 4, 5, 6]])),
        prompt(json!([1, 2, 3, 4, 5, 6]))
    );
    assert_eq!(prompt(json!([1, 2, 3, 4, 5])).len(), 1, "four tokens a block");
    assert_ne!(prompt(json!([1, 2, 3, 4])), prompt(json!([1, 2, 3, 5])));
    assert!(prompt(json!([])).is_empty());
    let text = |prompt: Value| read_as(CallKind::Completions, json!({"prompt": prompt}).to_string().as_bytes());
    // Ids are exact, whatever was learned of text.
    let mut ratio = TokenRatio::default();
    assert_eq!(text(json!([1, 2, 3, 4])).chain(ratio).tokens_per_block(), 4.0);
    assert_eq!(text(json!("abcd")).chain(ratio).tokens_per_block(), 4.0);
    for _ in 0..2000 {
        ratio.learn(text(json!("abcdabcd")).size(), &usage(4));
    }
    assert!((text(json!("abcd")).chain(ratio).tokens_per_block() - 8.0).abs() < 0.01);
    assert_eq!(text(json!([1, 2, 3, 4])).chain(ratio).tokens_per_block(), 4.0);
    // All items are prompts to be worked on.
    assert_eq!(
        text(json!(["12345678", "1234"]))
            .size()
            .tokens(TokenRatio::default())
            .get(),
        5
    );
    assert_eq!(
        text(json!([[1, 2], [3, 4, 5]]))
            .size()
            .tokens(TokenRatio::default())
            .get(),
        5
    );
}

fn usage(input: u32) -> maitred_types::Usage {
    maitred_types::Usage {
        input: maitred_types::TokenCount::new(input),
        cached_input: None,
        output: maitred_types::TokenCount::ZERO,
        reasoning: None,
        source: maitred_types::UsageSource::Reported,
    }
}

#[test]
fn calls_without_a_prompt_have_no_chain() {
    let view = scan(&Bytes::from_static(br#"{"model":"m","query":"x"}"#)).unwrap();
    for kind in CallKind::ALL {
        assert!(
            PromptText::read(&view, kind, ChainRule::new("m", None, 64)).is_none(),
            "{kind:?}"
        );
    }
}

#[test]
fn a_prompt_without_end_has_a_chain_with_one() {
    let body = format!(r#"{{"prompt":"{}"}}"#, "x".repeat(8 * MAX_PROMPT_BLOCKS));
    let view = scan(&Bytes::from(body)).unwrap();
    let rule = ChainRule::new("m", None, 1);
    let mut text = PromptText::read(&view, CallKind::Completions, rule).unwrap();
    assert_eq!(text.hashes.len(), MAX_PROMPT_BLOCKS);
    assert!(text.take_reply().is_none());
}

/// The chain after an answer in events, which must be that after the same answer as a whole, and how the next turn begins.
fn check_reply(kind: CallKind, body: &Value, stream: &str, whole: &Value, next: &Value) {
    let ratio = TokenRatio::default();
    let mut prompt = read_as(kind, body.to_string().as_bytes());
    let reply = prompt.take_reply().unwrap();
    let mut streamed = reply.clone();
    let mut reader = Reader::new(1 << 20);
    reader.feed(Bytes::copy_from_slice(stream.as_bytes()));
    while let Ok(Some(event)) = reader.next_event() {
        streamed.event(&event);
    }
    let streamed = streamed.finish(4.0).expect("the stream extends the chain");
    let mut at_once = reply;
    at_once.whole(whole.to_string().as_bytes());
    let at_once = at_once.finish(4.0).expect("the answer extends the chain");
    assert_eq!(streamed, at_once);
    let next = read_as(kind, next.to_string().as_bytes()).chain(ratio);
    let shared = common(next.hashes(), streamed.hashes());
    assert_eq!(
        shared,
        streamed.blocks(),
        "the next turn begins with this one and its answer"
    );
    assert!(streamed.blocks() > prompt.hashes.len());
    assert_eq!(common(&prompt.hashes, streamed.hashes()), prompt.hashes.len());
}

#[test]
fn a_chat_answer_is_the_beginning_of_the_next_turn() {
    let asked = json!([{"role": "user", "content": "What is the weather like at the sea?"}]);
    let calls = json!([
        {"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{\"place\": \"Ostend\"}"}},
        {"id": "b", "type": "function", "function": {"name": "tide", "arguments": "{}"}}]);
    let said = json!({"role": "assistant", "reasoning_content": "The sea.", "content": "I look it \"up\".\n", "tool_calls": calls});
    let mut then = asked.as_array().unwrap().clone();
    then.push(said.clone());
    then.push(json!({"role": "tool", "tool_call_id": "a", "content": "rain and wind from the west"}));
    let delta = |delta: &Value| {
        format!(
            "data: {}\n\n",
            json!({"id": "c", "choices": [{"index": 0, "delta": delta}]})
        )
    };
    let stream = [
        delta(&json!({"role": "assistant", "content": ""})),
        delta(&json!({"reasoning_content": "The "})),
        delta(&json!({"reasoning": "sea."})),
        delta(&json!({"content": "I look it \"u"})),
        delta(&json!({"content": "p\".\n"})),
        delta(&json!({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "weather", "arguments": ""}}]})),
        delta(&json!({"tool_calls": [{"index": 0, "function": {"arguments": "{\"place\": "}}]})),
        delta(&json!({"tool_calls": [{"index": 0, "function": {"arguments": "\"Ostend\"}"}}]})),
        delta(&json!({"tool_calls": [{"index": 1, "id": "b", "function": {"name": "tide", "arguments": "{}"}}]})),
        delta(&json!({})),
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\n".into(),
        "data: [DONE]\n\n".into(),
    ]
    .concat();
    check_reply(
        CallKind::Chat,
        &json!({"messages": asked}),
        &stream,
        &json!({"choices": [{"message": said, "finish_reason": "tool_calls"}]}),
        &json!({"messages": then}),
    );
}

#[test]
fn a_completion_goes_on_in_the_next_prompt() {
    let stream = "data: {\"choices\":[{\"index\":0,\"text\":\" on a time there \"}]}\n\ndata: {\"choices\":[{\"text\":\"was a king\"}]}\n\ndata: [DONE]\n\n";
    check_reply(
        CallKind::Completions,
        &json!({"prompt": "This tale begins: once up"}),
        stream,
        &json!({"choices": [{"text": " on a time there was a king"}]}),
        &json!({"prompt": "This tale begins: once up on a time there was a king, who had"}),
    );
}

#[test]
fn an_answer_of_messages_is_the_beginning_of_the_next_turn() {
    let asked = json!([{"role": "user", "content": "What is the weather like?"}]);
    let content = json!([
        {"type": "thinking", "thinking": "They want the weather.", "signature": "xyz"},
        {"type": "text", "text": "I look it up."},
        {"type": "tool_use", "id": "t", "name": "weather", "input": {"days": [1, 2], "place": "Ostend"}}]);
    let mut then = asked.as_array().unwrap().clone();
    then.push(json!({"role": "assistant", "content": content}));
    then.push(json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "rain"}]}));
    let event = |name: &str, data: Value| format!("event: {name}\ndata: {data}\n\n");
    let delta = |index: u32, delta: Value| {
        event(
            "content_block_delta",
            json!({"type": "content_block_delta", "index": index, "delta": delta}),
        )
    };
    let start = |index: u32, block: Value| {
        event(
            "content_block_start",
            json!({"type": "content_block_start", "index": index, "content_block": block}),
        )
    };
    let stop = || event("content_block_stop", json!({"type": "content_block_stop"}));
    let stream = [
        event(
            "message_start",
            json!({"type": "message_start", "message": {"content": []}}),
        ),
        start(0, json!({"type": "thinking", "thinking": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "They want "})),
        delta(0, json!({"type": "thinking_delta", "thinking": "the weather."})),
        delta(0, json!({"type": "signature_delta", "signature": "xyz"})),
        stop(),
        start(1, json!({"type": "text", "text": ""})),
        delta(1, json!({"type": "text_delta", "text": "I look it up."})),
        stop(),
        start(
            2,
            json!({"type": "tool_use", "id": "t", "name": "weather", "input": {}}),
        ),
        delta(
            2,
            json!({"type": "input_json_delta", "partial_json": "{\"days\": [1,2],\n \"place\""}),
        ),
        delta(2, json!({"type": "input_json_delta", "partial_json": ": \"Ostend\"}"})),
        stop(),
        event("message_stop", json!({"type": "message_stop"})),
    ]
    .concat();
    check_reply(
        CallKind::Messages,
        &json!({"messages": asked}),
        &stream,
        &json!({"role": "assistant", "content": content}),
        &json!({"messages": then}),
    );
}

#[test]
fn items_of_responses_are_the_beginning_of_the_next_turn() {
    let asked = "What is the weather like?";
    let message = json!({"type": "message", "id": "i", "role": "assistant", "content": [{"type": "output_text", "text": "I look it up.", "annotations": []}]});
    let call =
        json!({"type": "function_call", "call_id": "c", "name": "weather", "arguments": "{\"place\":\"Ostend\"}"});
    let reasoning = json!({"type": "reasoning", "id": "r", "summary": []});
    let then = json!([{"role": "user", "content": asked}, reasoning, message, call, {"type": "function_call_output", "call_id": "c", "output": "rain"}]);
    let event = |name: &str, data: Value| format!("event: {name}\ndata: {data}\n\n");
    let stream = [
        event("response.output_item.added", json!({"item": {"type": "reasoning"}})),
        event("response.reasoning_text.delta", json!({"delta": "they want"})),
        event(
            "response.output_item.added",
            json!({"item": {"type": "message", "role": "assistant", "content": []}}),
        ),
        event(
            "response.content_part.added",
            json!({"part": {"type": "output_text", "text": ""}}),
        ),
        event("response.output_text.delta", json!({"delta": "I look "})),
        event("response.output_text.delta", json!({"delta": "it up."})),
        event(
            "response.output_item.added",
            json!({"item": {"type": "function_call", "name": "weather", "arguments": ""}}),
        ),
        event(
            "response.function_call_arguments.delta",
            json!({"delta": "{\"place\":\"Ostend\"}"}),
        ),
        event("response.completed", json!({"response": {}})),
    ]
    .concat();
    check_reply(
        CallKind::Responses,
        &json!({"input": asked}),
        &stream,
        &json!({"output": [reasoning, message, call]}),
        &json!({"input": then}),
    );
}

#[test]
fn what_comes_back_in_an_unknown_way_extends_nothing() {
    let reply = |body: Value| read_as(CallKind::Chat, body.to_string().as_bytes()).take_reply();
    let user = json!({"role": "user", "content": "Say something long."});
    assert!(reply(json!({"messages": [user], "n": 2})).is_none());
    assert!(reply(json!({"messages": [user, {"role": "assistant", "content": "Well"}]})).is_none());
    let after = |deltas: &[Value]| {
        let mut reply = reply(json!({"messages": [user]})).unwrap();
        let chunk = |delta: &Value| format!("data: {}\n\n", json!({"choices": [{"delta": delta}]}));
        let mut reader = Reader::new(1 << 20);
        reader.feed(Bytes::from(deltas.iter().map(chunk).collect::<String>()));
        while let Ok(Some(event)) = reader.next_event() {
            reply.event(&event);
        }
        reply.finish(4.0).is_some()
    };
    let (thought, text) = (
        json!({"reasoning": "something"}),
        json!({"content": "something longer than a block"}),
    );
    assert!(after(&[thought.clone(), text.clone()]));
    assert!(!after(&[text, thought]), "thoughts after words");
    assert!(!after(&[json!({"content": ""})]), "nothing at all");
}

#[test]
fn an_answer_without_end_adds_a_bounded_number_of_blocks() {
    let mut reply = read_as(CallKind::Completions, br#"{"prompt":"x"}"#)
        .take_reply()
        .unwrap();
    let text = "y".repeat(1 << 16);
    let stream = format!("data: {{\"choices\":[{{\"text\":\"{text}\"}}]}}\n\n");
    for _ in 0..4 {
        let mut reader = Reader::new(1 << 20);
        reader.feed(Bytes::from(stream.clone()));
        while let Ok(Some(event)) = reader.next_event() {
            reply.event(&event);
        }
    }
    assert_eq!(reply.finish(4.0).unwrap().blocks(), MAX_REPLY_BLOCKS);
}

/// A text with what is awkward in JSON.
fn text() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "\n",
        "\"",
        "\\",
        "\u{e9}",
        "\u{1f600}",
        "\u{1}",
        "plain words of some length, ",
        "/",
        "{\"k\":1}",
    ]);
    vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn message() -> impl Strategy<Value = Value> {
    let said = text().prop_map(|text| json!({"role": "user", "content": text}));
    let parts = (text(), text()).prop_map(|(one, other)| {
        json!({"role": "user", "content": [{"type": "text", "text": one}, {"type": "image_url", "image_url": {"url": other}}]})
    });
    let calls = (text(), text()).prop_map(|(content, arguments)| {
        json!({"role": "assistant", "content": content, "tool_calls": [{"id": "x", "function": {"name": "f", "arguments": arguments}}]})
    });
    let results = text().prop_map(|text| json!({"role": "tool", "content": text, "tool_call_id": "x"}));
    prop_oneof![said, parts, calls, results]
}

/// Turns the members of every object around.
fn turned(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members
                .iter()
                .map(|(key, value)| format!("{}:{}", json!(key), turned(value)))
                .collect();
            members.reverse();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(turned).collect::<Vec<_>>().join(",")),
        _ => value.to_string(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_text_is_what_a_parser_reads(text in text(), seed: u8) {
        let quoted = serde_json::to_string(&text).unwrap();
        for written in [quoted.as_bytes().to_vec(), respell(quoted.as_bytes(), seed)] {
            let read = Walk::new(Raw::unknown(&written)).text().unwrap();
            prop_assert_eq!(read.decoded().into_owned(), text.as_bytes());
            // What is hashed is spelled as serde_json spells it.
            let mut hashed = vec![b'"'];
            read.runs(|run| hashed.extend_from_slice(run));
            hashed.push(b'"');
            prop_assert_eq!(&hashed, quoted.as_bytes());
        }
    }

    #[test]
    fn what_was_noted_of_long_texts_changes_nothing(texts in vec((text(), 0_usize..60), 1..6), seed: u8) {
        let mut parts = texts.iter().map(|(text, times)| json!({"type": "text", "text": text.repeat(*times)}));
        let last = parts.next().unwrap();
        let said = parts.collect::<Vec<_>>();
        let tool = json!([{"type": "function", "function": {"description": last["text"]}}]);
        let messages = json!([{"role": "user", "content": said}, {"role": "user", "content": last["text"]}]);
        let body = json!({"model": "m", "tools": tool, "messages": messages}).to_string();
        let view = scan(&Bytes::from(respell(body.as_bytes(), seed))).unwrap();
        let rule = ChainRule::new("m", None, TOKENS);
        let noted = PromptText::read(&view, CallKind::Chat, rule).unwrap();
        let mut writer = Writer::new(Blocks::new(rule.block, rule.seed, MAX_PROMPT_BLOCKS));
        let raw = |span: Option<crate::Span>| Raw::unknown(view.raw(span.unwrap()));
        let written = writer.conversation(CallKind::Chat, Some(raw(view.tools())), None, raw(view.messages()));
        let unknown = written.finish(&view, writer, rule);
        prop_assert_eq!(noted.hashes, unknown.hashes);
        prop_assert_eq!(noted.size, unknown.size);
    }

    #[test]
    fn blocks_do_not_depend_on_how_bytes_come(bytes in vec(any::<u8>(), 0..2000), cuts in vec(1_usize..400, 1..20)) {
        let mut whole = Blocks::new(64, 7, 1000);
        whole.push(&bytes);
        let mut cut = Blocks::new(64, 7, 1000);
        let mut rest = bytes.as_slice();
        for len in cuts.iter().cycle() {
            let (piece, after) = rest.split_at(rest.len().min(*len));
            cut.push(piece);
            rest = after;
            if rest.is_empty() { break; }
        }
        prop_assert_eq!(whole.digest(), cut.digest());
        prop_assert_eq!(whole.take_hashes(0), cut.take_hashes(0));
    }

    #[test]
    fn equal_conversations_have_equal_chains(messages in vec(message(), 0..6), seed: u8) {
        let body = json!({"model": "m", "messages": messages});
        let plain = read_as(CallKind::Chat, body.to_string().as_bytes());
        let turned = turned(&body);
        let respelled = respell(turned.as_bytes(), seed);
        prop_assert_eq!(&plain.hashes, &read_as(CallKind::Chat, turned.as_bytes()).hashes);
        prop_assert_eq!(&plain.hashes, &read_as(CallKind::Chat, &respelled).hashes);
    }

    #[test]
    fn equal_beginnings_have_equal_beginnings(messages in vec(message(), 1..6), more in vec(message(), 0..3), other in vec(message(), 0..3)) {
        let start = chat(&json!(messages));
        let one = chat(&json!([messages.clone(), more].concat()));
        let two = chat(&json!([messages, other].concat()));
        prop_assert_eq!(common(&one, &start), start.len());
        prop_assert_eq!(common(&two, &start), start.len());
    }

    #[test]
    fn the_next_turn_begins_with_this_one_and_its_answer(messages in vec(message(), 1..5), answer in text(), then in message(), cuts in vec(0_usize..40, 0..8)) {
        let body = json!({"messages": messages, "n": 1});
        let mut prompt = read_as(CallKind::Chat, body.to_string().as_bytes());
        let Some(mut reply) = prompt.take_reply() else { return Ok(()) };
        let chars: Vec<char> = answer.chars().collect();
        let mut rest = chars.as_slice();
        for len in cuts.into_iter().chain([usize::MAX]) {
            let (piece, after) = rest.split_at(rest.len().min(len));
            rest = after;
            let piece: String = piece.iter().collect();
            let mut reader = Reader::new(1 << 20);
            reader.feed(Bytes::from(format!("data: {}\n\n", json!({"choices": [{"delta": {"content": piece}}]}))));
            while let Ok(Some(event)) = reader.next_event() {
                reply.event(&event);
            }
        }
        let mut turns = messages;
        turns.push(json!({"role": "assistant", "content": answer}));
        turns.push(then);
        let next = chat(&json!(turns));
        if let Some(extended) = reply.finish(4.0) {
            prop_assert_eq!(common(&next, extended.hashes()), extended.blocks());
            // The negative control: another answer is another beginning.
            let place = turns.len() - 2;
            turns[place]["content"] = format!("No. {answer}").into();
            prop_assert!(answer.len() < 48 || common(&chat(&json!(turns)), extended.hashes()) < extended.blocks());
        }
    }

    #[test]
    fn any_body_as_a_chain(data: Vec<u8>) {
        fuzz_chain(&data);
    }
}
