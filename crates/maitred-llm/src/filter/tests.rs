use bytes::Bytes;
use serde_json::{Map, Value};

use super::*;
use crate::sse::{Event, Reader};
use crate::{CallKind, UsageTap};

/// A recorded stream.
macro_rules! fixture {
    ($path:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/", $path))
    };
}

/// The events of a stream that the client gets to see.
fn seen(kind: CallKind, ask: UsageAsk, stream: &str) -> Vec<Event> {
    let mut reader = Reader::default();
    reader.feed(Bytes::copy_from_slice(stream.as_bytes()));
    let mut tap = UsageTap::new(kind);
    let filter = StreamFilter::new(ask);
    let events = std::iter::from_fn(|| reader.next_event().unwrap());
    events
        .filter(|event| filter.pass(tap.event(event)) == Pass::Relay)
        .collect()
}

/// The keys of an event, at all depths; the values are another call's.
fn shape(event: &Event) -> Value {
    fn keys(value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let members = members.iter().filter(|(key, _)| *key != "system_fingerprint");
                Value::Object(Map::from_iter(members.map(|(key, value)| (key.clone(), keys(value)))))
            }
            Value::Array(items) => items.iter().map(keys).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Value::Null,
        }
    }
    serde_json::from_slice(event.data().unwrap()).map_or(Value::Null, |data| keys(&data))
}

fn joined(events: &[Event]) -> String {
    events
        .iter()
        .map(|event| str::from_utf8(event.raw()).unwrap())
        .collect()
}

#[test]
fn a_stream_asked_for_usage_by_the_gateway_looks_as_if_nobody_had_asked() {
    let check = |asked: &str, plain: &str| {
        let filtered = seen(CallKind::Chat, UsageAsk::ByGateway, asked);
        let plain = seen(CallKind::Chat, UsageAsk::Nobody, plain);
        // Engines put now one, now two tokens into a chunk, so the middle may be longer or shorter.
        let ends = |events: &[Event]| -> Vec<Value> {
            let last = events.len() - 3;
            events.iter().take(2).chain(&events[last..]).map(shape).collect()
        };
        assert_eq!(ends(&filtered), ends(&plain));
        for event in &filtered {
            assert!(plain.iter().any(|other| shape(other) == shape(event)), "{event:?}");
        }
    };
    check(
        fixture!("vllm/stream-chat-include-usage.txt"),
        fixture!("vllm/stream-chat.txt"),
    );
    check(
        fixture!("sglang/stream-chat-include-usage.txt"),
        fixture!("sglang/stream-chat.txt"),
    );
}

#[test]
fn only_the_usage_chunk_is_taken_out_and_only_when_the_gateway_asked() {
    let check = |kind, stream: &str, dropped: usize| {
        let all = seen(kind, UsageAsk::ByClient, stream);
        assert_eq!(joined(&all), stream);
        assert_eq!(joined(&seen(kind, UsageAsk::Nobody, stream)), stream);
        let filtered = seen(kind, UsageAsk::ByGateway, stream);
        assert_eq!(filtered.len() + dropped, all.len());
        let missing: Vec<_> = all.iter().filter(|event| !filtered.contains(event)).collect();
        for event in missing {
            let data: Value = serde_json::from_slice(event.data().unwrap()).unwrap();
            assert_eq!(data["choices"], Value::Array(Vec::new()));
            assert!(data["usage"].is_object());
        }
    };
    check(CallKind::Chat, fixture!("vllm/stream-chat.txt"), 0);
    check(CallKind::Chat, fixture!("vllm/stream-chat-n2.txt"), 0);
    check(CallKind::Chat, fixture!("vllm/stream-chat-include-usage.txt"), 1);
    // Running figures in chunks with output are the client's own wish.
    check(CallKind::Chat, fixture!("vllm/stream-chat-continuous-usage.txt"), 1);
    check(CallKind::Completions, fixture!("vllm/stream-completion.txt"), 1);
    // SGLang writes a null into every chunk of completions, which stays.
    check(CallKind::Completions, fixture!("sglang/stream-completion.txt"), 1);
    check(CallKind::Chat, fixture!("dynamo/stream-chat.txt"), 1);
    check(CallKind::Chat, fixture!("llama-cpp/stream-chat-include-usage.txt"), 0);
    check(CallKind::Chat, fixture!("vllm/stream-engine-killed.txt"), 0);
    check(CallKind::Chat, fixture!("vllm/stream-sigterm.txt"), 0);
    check(CallKind::Messages, fixture!("vllm/stream-messages.txt"), 0);
    check(CallKind::Responses, fixture!("vllm/stream-responses.txt"), 0);
}
