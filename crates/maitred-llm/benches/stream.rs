//! Relaying a stream: what one event costs in this crate, and what an answer costs that is none.

use std::hint::black_box;

use bytes::Bytes;
use divan::Bencher;
use maitred_llm::sse::Reader;
use maitred_llm::{AnswerTap, CallKind, StreamFilter, UsageAsk, UsageTap};

fn main() {
    divan::main();
}

const EVENT: &str = concat!(
    r#"data: {"id":"chatcmpl-b3b6e49aee72c7a7","object":"chat.completion.chunk","created":1796069958,"model":"tiny","#,
    r#""choices":[{"index":0,"delta":{"content":" publish"},"logprobs":null,"finish_reason":null,"token_ids":null}]}"#,
    "\n\n"
);

/// One event as a chunk of its own, the usual case: read, tapped, filtered.
#[divan::bench]
fn one_event_per_chunk(bencher: Bencher<'_, '_>) {
    let mut reader = Reader::default();
    let mut tap = UsageTap::new(CallKind::Chat);
    let filter = StreamFilter::new(UsageAsk::ByGateway);
    let chunk = Bytes::from(EVENT);
    bencher.bench_local(|| {
        reader.feed(black_box(chunk.clone()));
        let event = reader.next_event().ok().flatten();
        event.map(|event| (filter.pass(tap.event(&event)), event))
    });
}

#[divan::bench]
fn read_only(bencher: Bencher<'_, '_>) {
    let mut reader = Reader::default();
    let chunk = Bytes::from(EVENT);
    bencher.bench_local(|| {
        reader.feed(black_box(chunk.clone()));
        reader.next_event()
    });
}

/// Sixteen events in one chunk; the figure is for all of them.
#[divan::bench]
fn sixteen_events_per_chunk(bencher: Bencher<'_, '_>) {
    let mut reader = Reader::default();
    let mut tap = UsageTap::new(CallKind::Chat);
    let chunk = Bytes::from(EVENT.repeat(16));
    bencher.bench_local(|| {
        reader.feed(black_box(chunk.clone()));
        while let Ok(Some(event)) = reader.next_event() {
            black_box(tap.event(&event));
        }
    });
}

/// An event cut in two, which is put together in a buffer.
#[divan::bench]
fn one_event_in_two_chunks(bencher: Bencher<'_, '_>) {
    let mut reader = Reader::default();
    let whole = Bytes::from(EVENT);
    let (head, tail) = (whole.slice(..100), whole.slice(100..));
    bencher.bench_local(|| {
        reader.feed(black_box(head.clone()));
        black_box(reader.next_event().is_ok());
        reader.feed(black_box(tail.clone()));
        reader.next_event()
    });
}

#[divan::bench]
fn an_event_with_usage(bencher: Bencher<'_, '_>) {
    let mut reader = Reader::default();
    let mut tap = UsageTap::new(CallKind::Chat);
    let usage = r#""usage":{"prompt_tokens":16,"total_tokens":28,"completion_tokens":12}"#;
    let chunk = Bytes::from(format!("data: {{\"id\":\"x\",\"choices\":[],{usage}}}\n\n"));
    bencher.bench_local(|| {
        reader.feed(black_box(chunk.clone()));
        let event = reader.next_event().ok().flatten();
        event.map(|event| tap.event(&event))
    });
}

/// An answer of 1 KB of text, and one of 64 KB of numbers.
#[divan::bench(args = ["chat", "embeddings"])]
fn answer(bencher: Bencher<'_, '_>, kind: &str) {
    let usage = r#""usage":{"prompt_tokens":16,"total_tokens":28,"completion_tokens":12}"#;
    let body = if kind == "chat" {
        let text = "lorem ipsum ".repeat(60);
        format!(r#"{{"id":"x","choices":[{{"index":0,"message":{{"content":"{text}"}}}}],{usage}}}"#)
    } else {
        let numbers = "-0.012345678,".repeat(5000);
        format!(r#"{{"object":"list","data":[{{"embedding":[{numbers}0.5]}}],"model":"tiny",{usage}}}"#)
    };
    bencher.bench(|| {
        let mut tap = AnswerTap::new();
        tap.feed(black_box(body.as_bytes()));
        tap.reported()
    });
}
