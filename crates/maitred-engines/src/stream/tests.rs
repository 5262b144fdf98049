use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn judge(events: &[&str], end: BodyEnd) -> (Vec<EventVerdict>, EndVerdict) {
    let mut judge = StreamJudge::new(Engine::Vllm);
    let verdicts = events.iter().map(|event| judge.judge_event(event.as_bytes())).collect();
    (verdicts, judge.end(end))
}

fn finish(reason: FinishReason, with_output: bool) -> EventVerdict {
    EventVerdict::Finish { reason, with_output }
}

fn one(event: &str) -> EventVerdict {
    judge(&[event], BodyEnd::Clean).0.remove(0)
}

const ROLE: &str = r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}"#;
const TEXT: &str = r#"{"choices":[{"index":0,"delta":{"content":"a"},"logprobs":null,"finish_reason":null}]}"#;
const STOP: &str = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
const USAGE: &str = r#"{"choices":[],"usage":{"prompt_tokens":1}}"#;
const ERROR: &str = r#"{"error": {"message": "EngineCore encountered an issue.", "code": 500}}"#;
const ABORT: &str = r#"{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"abort"}]}"#;

#[test]
fn chat_and_completion_events_are_told_apart() {
    let check = |event: &str, wanted: EventVerdict| assert_eq!(one(event), wanted, "{event}");
    check(ROLE, EventVerdict::Preamble);
    check(TEXT, EventVerdict::Output);
    check(STOP, finish(FinishReason::Stop, false));
    check(USAGE, EventVerdict::UsageOnly);
    check(ABORT, EventVerdict::Aborted);
    check("[DONE]", EventVerdict::Done);
    check(" [DONE]\r", EventVerdict::Done);
    check(
        r#"{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":"length"}]}"#,
        finish(FinishReason::Length, true),
    );
    check(
        r#"{"choices":[{"index":0,"delta":{"content":null,"tool_calls":[{"index":0}]},"finish_reason":null}]}"#,
        EventVerdict::Output,
    );
    check(
        r#"{"choices":[{"index":0,"delta":{"role":null,"content":null,"function_call":{"name":"f"}}}]}"#,
        EventVerdict::Output,
    );
    check(
        r#"{"choices":[{"index":0,"delta":{"reasoning_content":"hm","content":null}}]}"#,
        EventVerdict::Output,
    );
    check(
        r#"{"choices":[{"text":" panic","index":0,"finish_reason":null}]}"#,
        EventVerdict::Output,
    );
    check(
        r#"{"choices":[{"text":"","index":0,"finish_reason":null}]}"#,
        EventVerdict::Preamble,
    );
    check(
        r#"{"choices":[{"text":"","index":0,"finish_reason":"tool_calls"}]}"#,
        finish(FinishReason::ToolCalls, false),
    );
    check(
        r#"{"choices":[{"text":"","index":0,"token_ids":[5]}]}"#,
        EventVerdict::Output,
    );
    check(
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"new_reason"}]}"#,
        finish(FinishReason::Other, false),
    );
    check(r#"{"choices":[]}"#, EventVerdict::Preamble);
}

#[test]
fn text_inside_strings_is_never_structure() {
    let check = |content: &str| {
        let event = json!({"choices": [{"index": 0, "delta": {"content": content}, "finish_reason": null}]});
        assert_eq!(one(&event.to_string()), EventVerdict::Output, "{content}");
    };
    check(r#""finish_reason":"abort""#);
    check(r#""}],"error":{"message":"x"},"choices":[{"finish_reason":"abort"}]"#);
    check(r#"\"finish_reason\":\"abort\""#);
    check("\\");
    check("\\\\\" ]}");
    check("[DONE]");
}

#[test]
fn errors_inside_a_stream_are_seen_and_read() {
    let check = |event: &str, message: &str| match one(event) {
        EventVerdict::Error(error) => assert_eq!(error.message, message, "{event}"),
        other => panic!("{event}: {other:?}"),
    };
    check(ERROR, "EngineCore encountered an issue.");
    check(r#"{"error":"Unauthorized"}"#, "Unauthorized");
    check(r#"{"object":"error","message":"no","code":400}"#, "no");
    check(
        r#"{"type":"error","error":{"type":"overloaded_error","message":"busy"}}"#,
        "busy",
    );
    check(r#"{"type":"error","message":"gone","code":"x"}"#, "gone");
    check(r#"{"choices":[],"error":{"message":"late"}}"#, "late");
    check(
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}"#,
        "the engine ended a choice with the reason `error`",
    );
    check(
        r#"{"type":"response.failed","response":{"status":"failed","error":{"message":"dead"}}}"#,
        "dead",
    );
    assert_eq!(one(r#"{"error":null,"choices":[]}"#), EventVerdict::Preamble);
}

#[test]
fn a_refusal_for_lack_of_room_is_known_in_a_stream_too() {
    let full = r#"{"error":{"object":"error","message":"The request queue is full.","type":"SERVICE_UNAVAILABLE","code":503}}"#;
    match one(full) {
        EventVerdict::Error(error) => assert!(error.is_overload(Engine::Sglang)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_end_of_a_choice_stream_is_judged() {
    let check = |events: &[&str], end: BodyEnd, wanted: EndVerdict| {
        assert_eq!(judge(events, end).1, wanted, "{events:?} {end:?}");
    };
    check(&[ROLE, TEXT, STOP, "[DONE]"], BodyEnd::Clean, EndVerdict::Complete);
    check(
        &[ROLE, TEXT, STOP, USAGE, "[DONE]"],
        BodyEnd::Clean,
        EndVerdict::Complete,
    );
    check(&[ROLE, STOP, "[DONE]"], BodyEnd::Cut, EndVerdict::Complete);
    check(&[ROLE, TEXT, STOP], BodyEnd::Clean, EndVerdict::Truncated);
    check(&[ROLE, TEXT], BodyEnd::Cut, EndVerdict::Truncated);
    check(&[ROLE, TEXT, "[DONE]"], BodyEnd::Clean, EndVerdict::Truncated);
    check(&[USAGE, "[DONE]"], BodyEnd::Clean, EndVerdict::Truncated);
    check(&[], BodyEnd::Clean, EndVerdict::Truncated);
    check(&["[DONE]"], BodyEnd::Clean, EndVerdict::Truncated);
    check(&[ROLE, TEXT, ERROR, "[DONE]"], BodyEnd::Clean, EndVerdict::Errored);
    check(&[ROLE, TEXT, ABORT, "[DONE]"], BodyEnd::Clean, EndVerdict::Aborted);
    check(&[ROLE, STOP, ERROR, "[DONE]"], BodyEnd::Clean, EndVerdict::Errored);
}

#[test]
fn every_choice_needs_its_own_finish() {
    let start = |index: u32| format!(r#"{{"choices":[{{"index":{index},"delta":{{"content":"a"}}}}]}}"#);
    let stop = |index: u32| format!(r#"{{"choices":[{{"index":{index},"delta":{{}},"finish_reason":"stop"}}]}}"#);
    let check = |events: &[String], wanted: EndVerdict| {
        let mut events: Vec<_> = events.iter().map(String::as_str).collect();
        events.push("[DONE]");
        assert_eq!(judge(&events, BodyEnd::Clean).1, wanted, "{events:?}");
    };
    check(&[start(0), start(1), stop(0), stop(1)], EndVerdict::Complete);
    check(&[start(0), start(1), stop(1)], EndVerdict::Truncated);
    check(&[start(0), start(200), stop(0)], EndVerdict::Truncated);
    check(&[start(0), start(200), stop(200), stop(0)], EndVerdict::Complete);
    let both = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"},{"index":1,"delta":{"content":"x"}}]}"#;
    assert_eq!(one(both), finish(FinishReason::Stop, true));
    check(&[both.to_owned(), stop(1)], EndVerdict::Complete);
    check(&[both.to_owned()], EndVerdict::Truncated);
}

#[test]
fn messages_streams_end_with_their_own_events() {
    let start = r#"{"type":"message_start","message":{"id":"x","stop_reason":null,"usage":{"input_tokens":1}}}"#;
    let block = r#"{"type":"content_block_start","content_block":{"type":"text","text":""},"index":0}"#;
    let tool = r#"{"type":"content_block_start","content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}"#;
    let text = r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"},"index":0}"#;
    let stop_block = r#"{"type":"content_block_stop","index":0}"#;
    let delta = r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null}}"#;
    let null = r#"{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":3}}"#;
    let stop = r#"{"type":"message_stop"}"#;
    let (verdicts, end) = judge(&[start, block, text, stop_block, delta, stop], BodyEnd::Clean);
    let wanted = [
        EventVerdict::Preamble,
        EventVerdict::Preamble,
        EventVerdict::Output,
        EventVerdict::Preamble,
        finish(FinishReason::Length, false),
        EventVerdict::Done,
    ];
    assert_eq!(verdicts, wanted);
    assert_eq!(end, EndVerdict::Complete);
    assert_eq!(one(tool), EventVerdict::Output);
    assert_eq!(one(r#"{"type":"ping"}"#), EventVerdict::Preamble);
    let check = |events: &[&str], wanted: EndVerdict| assert_eq!(judge(events, BodyEnd::Clean).1, wanted, "{events:?}");
    check(&[start, text, delta], EndVerdict::Truncated);
    check(&[start, text, stop], EndVerdict::Truncated);
    check(&[start, text, null, stop], EndVerdict::Aborted);
    check(
        &[start, r#"{"type":"error","error":{"message":"x"}}"#],
        EndVerdict::Errored,
    );
}

#[test]
fn responses_streams_end_with_one_of_four_events() {
    let created = r#"{"response":{"status":"in_progress","error":null},"type":"response.created"}"#;
    let delta = r#"{"delta":"a","type":"response.output_text.delta"}"#;
    let arguments = r#"{"delta":"{}","type":"response.function_call_arguments.delta"}"#;
    let done = r#"{"text":"a","type":"response.output_text.done"}"#;
    let check = |last: &str, verdict: EventVerdict, wanted: EndVerdict| {
        let (verdicts, end) = judge(&[created, delta, done, last], BodyEnd::Clean);
        assert_eq!(verdicts.last(), Some(&verdict), "{last}");
        assert_eq!(end, wanted, "{last}");
    };
    check(
        r#"{"type":"response.completed","response":{"status":"completed"}}"#,
        finish(FinishReason::Stop, false),
        EndVerdict::Complete,
    );
    check(
        r#"{"response":{"incomplete_details":{"reason":"max_output_tokens"},"status":"incomplete"},"type":"response.completed"}"#,
        finish(FinishReason::Length, false),
        EndVerdict::Complete,
    );
    check(
        r#"{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}"#,
        finish(FinishReason::ContentFilter, false),
        EndVerdict::Complete,
    );
    check(
        r#"{"type":"response.completed","response":{"status":"cancelled"}}"#,
        EventVerdict::Aborted,
        EndVerdict::Aborted,
    );
    check(
        r#"{"type":"response.cancelled"}"#,
        EventVerdict::Aborted,
        EndVerdict::Aborted,
    );
    assert_eq!(one(arguments), EventVerdict::Output);
    assert_eq!(
        one(r#"{"delta":"","type":"response.output_text.delta"}"#),
        EventVerdict::Preamble
    );
    assert_eq!(judge(&[created, delta], BodyEnd::Clean).1, EndVerdict::Truncated);
    assert_eq!(
        judge(
            &[created, r#"{"type":"response.failed","response":{}}"#],
            BodyEnd::Clean
        )
        .1,
        EndVerdict::Errored
    );
}

#[test]
fn what_is_not_known_is_relayed_and_ends_with_its_body() {
    for event in [
        "",
        "hello",
        "{",
        "{}",
        "[1]",
        r#"{"type":"audio.delta","audio":"x"}"#,
        r#"{"choices":5}"#,
        "{\"a\":1",
    ] {
        assert_eq!(one(event), EventVerdict::Unknown, "{event}");
        assert_eq!(judge(&[event], BodyEnd::Clean).1, EndVerdict::Complete, "{event}");
        assert_eq!(judge(&[event], BodyEnd::Cut).1, EndVerdict::Truncated, "{event}");
    }
    assert_eq!(judge(&["hello", ROLE, TEXT], BodyEnd::Clean).1, EndVerdict::Truncated);
}

/// The reference: parses the whole event and applies the same rules to the tree.
fn reference(event: &str) -> &'static str {
    let Ok(Value::Object(event)) = serde_json::from_str::<Value>(event) else {
        return "unknown";
    };
    let void = |value: &Value| match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    let full = |map: &serde_json::Map<String, Value>, key: &str| map.get(key).is_some_and(|value| !void(value));
    let is = |key: &str, text: &str| event.get(key).and_then(Value::as_str) == Some(text);
    if full(&event, "error") || is("object", "error") || is("type", "error") {
        return "error";
    }
    let Some(choices) = event.get("choices").and_then(Value::as_array) else {
        return "unknown";
    };
    let choices: Vec<_> = choices.iter().filter_map(Value::as_object).collect();
    let reasons: Vec<_> = choices
        .iter()
        .filter_map(|choice| choice.get("finish_reason")?.as_str())
        .collect();
    let output = choices.iter().any(|choice| {
        let delta = choice.get("delta").and_then(Value::as_object);
        delta.is_some_and(|delta| delta.iter().any(|(key, value)| key != "role" && !void(value)))
            || ["text", "logprobs", "token_ids"].iter().any(|key| full(choice, key))
    });
    match (
        reasons.contains(&"error"),
        reasons.contains(&"abort"),
        reasons.is_empty(),
    ) {
        (true, ..) => "error",
        (_, true, _) => "aborted",
        (_, _, false) if output => "finish with output",
        (_, _, false) => "finish",
        _ if output => "output",
        _ if choices.is_empty() && full(&event, "usage") => "usage",
        _ => "preamble",
    }
}

fn word(verdict: &EventVerdict) -> &'static str {
    match verdict {
        EventVerdict::Preamble => "preamble",
        EventVerdict::Output => "output",
        EventVerdict::Finish { with_output: true, .. } => "finish with output",
        EventVerdict::Finish { .. } => "finish",
        EventVerdict::UsageOnly => "usage",
        EventVerdict::Done => "done",
        EventVerdict::Error(_) => "error",
        EventVerdict::Aborted => "aborted",
        EventVerdict::Unknown => "unknown",
    }
}

/// Text made to look like structure.
fn text() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "\"",
        "\\",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "finish_reason",
        "abort",
        "error",
        "choices",
        "null",
        "\n",
        "ä",
        "\u{0}",
        " ",
        "[DONE]",
        "\"finish_reason\":\"abort\"",
        "0123456789012345678901234567890",
    ]);
    prop::collection::vec(pieces, 0..8).prop_map(|pieces| pieces.concat())
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9_f64).prop_map(Value::from),
        text().prop_map(Value::from),
        prop::collection::vec(text().prop_map(Value::from), 0..3).prop_map(Value::from),
        (text(), text()).prop_map(|(key, value)| json!({key: value})),
        Just(json!({})),
    ]
}

fn object(keys: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let members = prop::collection::vec((prop::sample::select(keys), scalar()), 0..4);
    members.prop_map(|members| {
        members
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    })
}

fn choice() -> impl Strategy<Value = Value> {
    let reason = prop::sample::select(vec!["stop", "length", "abort", "error", "tool_calls", "odd"]);
    let reason = prop_oneof![3 => Just(Value::Null), 1 => reason.prop_map(Value::from), 1 => scalar()];
    let delta = prop_oneof![
        3 => object(&["content", "role", "tool_calls", "reasoning_content", "x"]),
        1 => Just(Value::Null)
    ];
    let rest = object(&["text", "logprobs", "token_ids", "index", "stop_reason"]);
    (0..5_u32, delta, reason, rest, any::<bool>()).prop_map(|(index, delta, reason, rest, chat)| {
        let mut choice = json!({"index": index, "finish_reason": reason});
        if chat {
            choice["delta"] = delta;
        }
        for (key, value) in rest.as_object().into_iter().flatten() {
            choice[key] = value.clone();
        }
        choice
    })
}

fn event() -> impl Strategy<Value = Vec<(String, Value)>> {
    let choices = prop_oneof![
        6 => prop::collection::vec(choice(), 0..3).prop_map(Value::from),
        1 => scalar()
    ];
    let usage = object(&["prompt_tokens", "completion_tokens"]);
    let rest = prop::collection::vec(
        (
            prop::sample::select(vec!["id", "model", "object", "created", "error"]),
            scalar(),
        ),
        0..3,
    );
    (choices, prop::option::of(usage), rest, any::<u8>()).prop_map(|(choices, usage, rest, turn)| {
        let mut members: Vec<(String, Value)> = vec![("choices".to_owned(), choices)];
        members.extend(usage.map(|usage| ("usage".to_owned(), usage)));
        for (key, value) in rest {
            if members.iter().all(|(known, _)| known != key) {
                members.push((key.to_owned(), value));
            }
        }
        let turn = usize::from(turn) % members.len();
        members.rotate_left(turn);
        members
    })
}

fn render(members: &[(String, Value)], spaced: bool) -> String {
    let (colon, comma) = if spaced { (" : ", " ,\n ") } else { (":", ",") };
    let members: Vec<_> = members
        .iter()
        .map(|(key, value)| {
            let value = if spaced {
                serde_json::to_string_pretty(value).unwrap()
            } else {
                value.to_string()
            };
            format!("{}{colon}{value}", Value::from(key.as_str()))
        })
        .collect();
    format!("{{{}}}", members.join(comma))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn events_are_judged_as_a_full_parse_judges_them(members in event(), spaced: bool) {
        let text = render(&members, spaced);
        prop_assert_eq!(word(&one(&text)), reference(&text), "{}", text);
    }

    #[test]
    fn any_bytes_are_survived(data in prop::collection::vec(any::<u8>(), 0..300)) {
        crate::fuzzing::fuzz_stream(&data);
        crate::fuzzing::fuzz_body(&data);
        crate::fuzzing::fuzz_figure(&data);
    }

    #[test]
    fn a_cut_event_never_passes_for_an_end(members in event(), at in any::<prop::sample::Index>()) {
        let text = render(&members, false);
        let cut = at.index(text.len());
        prop_assume!(text.is_char_boundary(cut));
        let verdict = one(text.get(..cut).unwrap());
        prop_assert_eq!(verdict, EventVerdict::Unknown);
    }
}
