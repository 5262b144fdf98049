use bytes::Bytes;
use maitred_types::{TokenCount, Usage, UsageSource};

use super::*;
use crate::sse::Reader;

/// A recorded stream.
macro_rules! fixture {
    ($path:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/", $path))
    };
}

/// Runs a stream through a tap; returns it and what each event was.
fn tap(kind: CallKind, stream: &str) -> (UsageTap, Vec<EventKind>) {
    let mut reader = Reader::default();
    reader.feed(Bytes::copy_from_slice(stream.as_bytes()));
    let mut tap = UsageTap::new(kind);
    let mut kinds = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        kinds.push(tap.event(&event));
    }
    (tap, kinds)
}

fn usage(input: u32, cached: Option<u32>, output: u32, reasoning: Option<u32>) -> Usage {
    Usage {
        input: TokenCount::new(input),
        cached_input: cached.map(TokenCount::new),
        output: TokenCount::new(output),
        reasoning: reasoning.map(TokenCount::new),
        source: UsageSource::Reported,
    }
}

fn estimated(input: u32, output: u32) -> Usage {
    Usage {
        source: UsageSource::Estimated,
        ..usage(input, None, output, None)
    }
}

#[test]
fn recorded_streams_give_their_usage() {
    let check = |kind, stream: &str, expected: Usage| {
        let (tap, _) = tap(kind, stream);
        assert_eq!(tap.reported(), Some(expected));
        assert_eq!(tap.usage(TokenCount::new(9999)), expected);
    };
    check(
        CallKind::Chat,
        fixture!("vllm/stream-chat-include-usage.txt"),
        usage(16, None, 12, None),
    );
    check(
        CallKind::Chat,
        fixture!("vllm/stream-chat-continuous-usage.txt"),
        usage(16, None, 6, None),
    );
    check(
        CallKind::Completions,
        fixture!("vllm/stream-completion.txt"),
        usage(6, None, 8, None),
    );
    check(
        CallKind::Messages,
        fixture!("vllm/stream-messages.txt"),
        usage(16, None, 8, None),
    );
    check(
        CallKind::Responses,
        fixture!("vllm/stream-responses.txt"),
        usage(16, Some(0), 8, Some(0)),
    );
    check(
        CallKind::Chat,
        fixture!("sglang/stream-chat-include-usage.txt"),
        usage(16, None, 12, Some(0)),
    );
    check(
        CallKind::Completions,
        fixture!("sglang/stream-completion.txt"),
        usage(6, None, 8, Some(0)),
    );
    check(
        CallKind::Messages,
        fixture!("sglang/stream-messages.txt"),
        usage(16, None, 8, None),
    );
    check(
        CallKind::Responses,
        fixture!("sglang/stream-responses.txt"),
        usage(16, Some(15), 6, Some(0)),
    );
    check(
        CallKind::Chat,
        fixture!("dynamo/stream-chat.txt"),
        usage(16, Some(0), 6, None),
    );
}

#[test]
fn streams_without_usage_are_estimated_by_their_events() {
    let check = |kind, stream: &str, output: u32| {
        let (tap, _) = tap(kind, stream);
        assert_eq!(tap.reported(), None);
        assert_eq!(tap.usage(TokenCount::new(70)), estimated(70, output));
    };
    check(CallKind::Chat, fixture!("vllm/stream-chat.txt"), 12);
    check(CallKind::Chat, fixture!("sglang/stream-chat.txt"), 12);
    check(CallKind::Chat, fixture!("vllm/stream-chat-n2.txt"), 7);
    check(CallKind::Chat, fixture!("llama-cpp/stream-chat-include-usage.txt"), 13);
    check(CallKind::Chat, "", 0);
    // An error is no output.
    check(CallKind::Chat, fixture!("vllm/stream-engine-killed.txt"), 4);
    check(
        CallKind::Completions,
        "data: {\"error\":{\"message\":\"no\"}}\n\ndata: [DONE]\n\n",
        0,
    );
    check(CallKind::Completions, ": keep-alive\n\n", 0);
}

#[test]
fn each_event_is_what_it_is() {
    use EventKind::{Done, Error, Frame, Output, Silence, UsageOnly};
    let check = |kind, stream: &str, expected: &[EventKind]| assert_eq!(tap(kind, stream).1, expected, "{stream}");
    check(
        CallKind::Chat,
        ": hello\n\ndata: {\"choices\":[{}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n",
        &[Silence, Output, UsageOnly, Done],
    );
    // No usage in it, or no empty choices: not the extra chunk.
    check(CallKind::Chat, "data: {\"choices\":[]}\n\n", &[Output]);
    check(CallKind::Chat, "data: {\"choices\":[],\"usage\":null}\n\n", &[Output]);
    check(
        CallKind::Chat,
        "data: {\"choices\":[{}],\"usage\":{\"prompt_tokens\":1}}\n\n",
        &[Output],
    );
    check(CallKind::Chat, "data: {\"usage\":{\"prompt_tokens\":1}}\n\n", &[Output]);
    check(
        CallKind::Chat,
        "data: {\"x\":{\"choices\":[],\"usage\":{\"prompt_tokens\":1}}}\n\n",
        &[Output],
    );
    check(CallKind::Chat, "data: { \"error\" : {}}\n\n", &[Error]);
    check(
        CallKind::Chat,
        "data: {\"object\":\"error\",\"message\":\"x\"}\n\n",
        &[Error],
    );
    check(CallKind::Chat, "event: error\ndata: {}\n\n", &[Error]);
    let (_, kinds) = tap(CallKind::Messages, fixture!("vllm/stream-messages.txt"));
    let middle = vec![Output; 8];
    assert_eq!(kinds, [vec![Frame, Frame], middle, vec![Frame, Frame, Done]].concat());
    let (_, kinds) = tap(CallKind::Responses, fixture!("vllm/stream-responses.txt"));
    assert_eq!(kinds.iter().filter(|kind| **kind == Output).count(), 5);
    assert_eq!(kinds.last(), Some(&Done));
    check(
        CallKind::Messages,
        "event: error\ndata: {}\n\nevent: ping\ndata: {}\n\n",
        &[Error, Frame],
    );
    check(CallKind::Responses, "event: response.failed\ndata: {}\n\n", &[Error]);
}

#[test]
fn a_chat_opens_with_a_frame_unless_there_is_output_in_it() {
    let check = |choice: &str, kind: EventKind| {
        let (_, kinds) = tap(CallKind::Chat, &format!("data: {{\"choices\":[{choice}]}}\n\n"));
        assert_eq!(kinds, [kind], "{choice}");
    };
    check(
        r#"{"delta":{"role":"assistant","content":""},"finish_reason":null}"#,
        EventKind::Frame,
    );
    check(r#"{"delta":{"role":"assistant"}}"#, EventKind::Frame);
    check(
        r#"{"delta":{"role":"assistant","content":null,"tool_calls":[]}}"#,
        EventKind::Frame,
    );
    check(r#"{"delta":{"role":"assistant","content":"a"}}"#, EventKind::Output);
    check(
        r#"{"delta":{"role":"assistant","reasoning_content":"a"}}"#,
        EventKind::Output,
    );
    check(
        r#"{"delta":{"content":null,"tool_calls":[{"index":0}]}}"#,
        EventKind::Output,
    );
    check(r#"{"delta":{"content":""},"finish_reason":"stop"}"#, EventKind::Output);
    check(r#"{"message":{}}"#, EventKind::Output);
    let two = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"\"}}]}\n\n";
    assert_eq!(tap(CallKind::Chat, two).1, [EventKind::Output; 2]);
}

#[test]
fn anthropics_prompt_is_the_sum_of_three_and_the_last_word_counts() {
    let start = r#"{"type":"message_start","message":{"usage":{"input_tokens":10,"cache_read_input_tokens":100,"cache_creation_input_tokens":7,"output_tokens":1}}}"#;
    let first = r#"{"type":"message_delta","usage":{"output_tokens":5}}"#;
    let last = r#"{"type":"message_delta","usage":{"output_tokens":9,"input_tokens":11}}"#;
    let stream = |deltas: &[&str]| -> String {
        let head = format!("event: message_start\ndata: {start}\n\n");
        let deltas = deltas
            .iter()
            .map(|delta| format!("event: message_delta\ndata: {delta}\n\n"));
        [head].into_iter().chain(deltas).collect()
    };
    let reported = |deltas: &[&str]| tap(CallKind::Messages, &stream(deltas)).0.reported();
    // The output in the first event is a placeholder.
    assert_eq!(reported(&[]), None);
    assert_eq!(reported(&[first]), Some(usage(117, Some(100), 5, None)));
    assert_eq!(reported(&[first, last]), Some(usage(118, Some(100), 9, None)));
    // A stream that breaks early has a true prompt and a guessed output.
    let (tap, _) = tap(CallKind::Messages, &stream(&[]));
    let guess = tap.usage(TokenCount::new(9999));
    assert_eq!(
        (guess.input.get(), guess.output.get(), guess.source),
        (117, 0, UsageSource::Estimated)
    );
}

#[test]
fn zero_is_a_value_and_silence_is_not() {
    let chunk = |usage: &str| format!("data: {{\"choices\":[{{}}]}}\n\ndata: {{\"choices\":[],\"usage\":{usage}}}\n\n");
    let reported = |usage: &str| tap(CallKind::Chat, &chunk(usage)).0.reported();
    assert_eq!(
        reported(r#"{"prompt_tokens":0,"completion_tokens":0}"#),
        Some(usage(0, None, 0, None))
    );
    assert_eq!(reported(r#"{"prompt_tokens":3}"#), None);
    assert_eq!(reported(r#"{"prompt_tokens":null,"completion_tokens":2}"#), None);
    assert_eq!(reported("{}"), None);
    assert_eq!(reported("null"), None);
    // What is no figure says nothing.
    assert_eq!(reported(r#"{"prompt_tokens":-1,"completion_tokens":2}"#), None);
    assert_eq!(reported(r#"{"prompt_tokens":"3","completion_tokens":2}"#), None);
    // A figure that cannot be counted is the largest that can.
    assert_eq!(
        reported(r#"{"prompt_tokens":99999999999,"completion_tokens":2}"#),
        Some(usage(u32::MAX, None, 2, None))
    );
    let details = r#"{"prompt_tokens":9,"completion_tokens":8,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":3}}"#;
    assert_eq!(reported(details), Some(usage(9, Some(4), 8, Some(3))));
}

#[test]
fn text_that_speaks_of_usage_is_text() {
    let check = |content: &str| {
        let data = serde_json::json!({"choices": [{"delta": {"content": content}}]});
        let (tap, kinds) = tap(CallKind::Chat, &format!("data: {data}\n\n"));
        assert_eq!((tap.reported(), kinds), (None, vec![EventKind::Output]), "{content}");
    };
    check(r#""usage":{"prompt_tokens":1,"completion_tokens":1}"#);
    check(r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#);
    check("usage");
    check("\"usage");
}

#[test]
fn an_event_that_is_cut_short_says_nothing() {
    let whole = r#"{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
    for end in 1..whole.len() {
        let (tap, _) = tap(CallKind::Chat, &format!("data: {}\n\n", whole.get(..end).unwrap()));
        assert_eq!(tap.reported(), None, "{end}");
    }
}

#[test]
fn a_whole_answer_says_the_same_to_both_readers() {
    let check = |body: &str| {
        let mut tap = crate::AnswerTap::new();
        tap.feed(body.as_bytes());
        assert_eq!(answer_usage(body.as_bytes()), tap.reported(), "{body}");
    };
    check(
        r#"{"id":"1","choices":[{"message":{"content":"\"usage\":{}"}}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#,
    );
    check(r#"{"usage":{"prompt_tokens":3,"completion_tokens":0,"prompt_tokens_details":{"cached_tokens":2}}}"#);
    check(
        r#"{"type":"message","content":[],"usage":{"input_tokens":3,"output_tokens":2,"cache_read_input_tokens":5}}"#,
    );
    check(r#"{"usage":{"prompt_tokens":3}}"#);
    check(r#"{"usage":null}"#);
    check(r#"{"data":[]}"#);
    check("[]");
    check("no JSON");
}
