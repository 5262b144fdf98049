use maitred_types::UsageSource;

use super::*;

/// A recorded answer.
macro_rules! fixture {
    ($path:literal) => {
        include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/", $path)).as_slice()
    };
}

fn tap(answer: &[u8]) -> AnswerTap {
    let mut tap = AnswerTap::new();
    tap.feed(answer);
    tap
}

/// Input, cached input, output and reasoning tokens.
type Figures = (u32, Option<u32>, u32, Option<u32>);

fn figures(answer: &[u8]) -> Option<Figures> {
    let usage = tap(answer).reported()?;
    assert_eq!(usage.source, UsageSource::Reported);
    Some((
        usage.input.get(),
        usage.cached_input.map(TokenCount::get),
        usage.output.get(),
        usage.reasoning.map(TokenCount::get),
    ))
}

#[test]
fn recorded_answers_give_their_usage() {
    let check = |answer: &[u8], expected: Figures| {
        assert_eq!(figures(answer), Some(expected));
        assert_eq!(tap(answer).model().as_deref(), Some("tiny"));
        assert_eq!(tap(answer).error(), None);
    };
    check(fixture!("vllm/answer-chat.txt"), (138, None, 12, None));
    check(fixture!("vllm/answer-completion.txt"), (6, None, 12, None));
    check(fixture!("vllm/answer-messages.txt"), (16, None, 12, None));
    check(fixture!("vllm/answer-responses.txt"), (16, Some(0), 12, Some(0)));
    check(fixture!("sglang/answer-chat.txt"), (138, None, 12, Some(0)));
    check(fixture!("sglang/answer-completion.txt"), (6, None, 12, Some(0)));
    check(fixture!("sglang/answer-messages.txt"), (16, None, 12, None));
    check(fixture!("sglang/answer-responses.txt"), (16, Some(15), 10, Some(0)));
}

#[test]
fn usage_is_found_at_the_top_only() {
    assert_eq!(
        figures(br#"{"usage":{"prompt_tokens":8,"total_tokens":8}}"#),
        Some((8, None, 0, None))
    );
    assert_eq!(figures(br#"{"usage":{"prompt_tokens":8}}"#), None);
    assert_eq!(figures(br#"{"usage":null}"#), None);
    assert_eq!(
        figures(br#"{"x":{"usage":{"prompt_tokens":8,"total_tokens":8}}}"#),
        None
    );
    assert_eq!(figures(br#"[{"usage":{"prompt_tokens":8,"total_tokens":8}}]"#), None);
    assert_eq!(
        figures(br#"{"x":"\"usage\":{\"prompt_tokens\":8,\"total_tokens\":8}"}"#),
        None
    );
    assert_eq!(
        figures(br#"{"x":"usage","y":{"prompt_tokens":8,"total_tokens":8}}"#),
        None
    );
    let anthropic = br#"{"usage":{"input_tokens":1,"cache_read_input_tokens":2,"cache_creation_input_tokens":3,"output_tokens":4}}"#;
    assert_eq!(figures(anthropic), Some((6, Some(2), 4, None)));
    // The last one counts, as for everybody else.
    let twice =
        br#"{"usage":{"prompt_tokens":1,"completion_tokens":2},"usage":{"prompt_tokens":3,"completion_tokens":4}}"#;
    assert_eq!(figures(twice), Some((3, None, 4, None)));
    assert_eq!(
        figures(b"{ \"usage\" : { \"prompt_tokens\" :1,\n\"completion_tokens\": 2 } } "),
        Some((1, None, 2, None))
    );
}

#[test]
fn errors_are_kept_as_they_are_written() {
    let check = |answer: &[u8], error: Option<&str>| {
        let tap = tap(answer);
        assert_eq!(tap.error().map(|error| str::from_utf8(error).unwrap()), error);
    };
    check(
        fixture!("vllm/error-bad-model.txt"),
        Some(
            r#"{"message":"The model `nope` does not exist. Valid aliases: tiny.","type":"NotFoundError","param":"model","code":404}"#,
        ),
    );
    check(br#"{"error":null}"#, None);
    check(br#"{"error": "a\"}b" ,"x":1}"#, Some(r#""a\"}b""#));
    check(br#"{"error": [1,{"a":"]"}] }"#, Some(r#"[1,{"a":"]"}]"#));
    check(b"<html>error</html>", None);
    check(b"", None);
}

#[test]
fn the_answer_itself_is_not_kept() {
    let mut tap = AnswerTap::new();
    let mut answer = br#"{"data":[{"embedding":["#.to_vec();
    answer.extend(b"-0.0123,".repeat(500_000));
    answer.extend(br#"0]}],"model":"tiny","usage":{"prompt_tokens":5,"total_tokens":5}}"#);
    for piece in answer.chunks(16 << 10) {
        tap.feed(piece);
        let kept: usize = tap.values.iter().map(|value| value.bytes.capacity()).sum();
        assert!(kept < 1024, "keeps {kept} bytes");
    }
    assert_eq!(tap.len(), answer.len() as u64);
    assert_eq!(tap.reported().unwrap().input.get(), 5);
    assert_eq!(tap.model().as_deref(), Some("tiny"));
}

#[test]
fn a_value_over_the_limit_counts_as_absent() {
    let error = |len: usize| format!(r#"{{"error":"{}","model":"m"}}"#, "x".repeat(len));
    let found = |len: usize| tap(error(len).as_bytes()).error().map(<[u8]>::len);
    assert_eq!(found(MAX_MEMBER - 2), Some(MAX_MEMBER));
    assert_eq!(found(MAX_MEMBER - 1), None);
    assert_eq!(tap(error(MAX_MEMBER).as_bytes()).model().as_deref(), Some("m"));
}

#[test]
fn an_answer_without_usage_is_estimated_by_its_bytes() {
    let usage = tap(br#"{"text":"01234567890"}"#).usage(TokenCount::new(7), None);
    assert_eq!((usage.input.get(), usage.output.get()), (7, 6));
    assert_eq!(usage.source, UsageSource::Estimated);
    // No more than the call may have.
    let usage = tap(br#"{"text":"01234567890"}"#).usage(TokenCount::new(7), Some(TokenCount::new(5)));
    assert_eq!((usage.input.get(), usage.output.get()), (7, 5));
    // What was said stays said.
    let usage = tap(br#"{"usage":{"prompt_tokens":3}}"#).usage(TokenCount::new(7), None);
    assert_eq!((usage.input.get(), usage.output.get()), (3, 8));
    assert_eq!(usage.source, UsageSource::Estimated);
    assert_eq!(AnswerTap::new().usage(TokenCount::ZERO, None).output, TokenCount::ZERO);
    assert!(AnswerTap::new().is_empty());
}
