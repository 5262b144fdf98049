//! Reading a request: the scanner against `serde_json` with raw values, which is what a gateway without a scanner would use.
//! The members that are looked for come after the long one, which is the worst case.

use std::hint::black_box;

use bytes::Bytes;
use divan::Bencher;
use divan::counter::BytesCount;
use maitred_llm::{CallKind, Edits, estimate_tokens, scan};
use serde::Deserialize;
use serde_json::value::RawValue;

fn main() {
    divan::main();
}

const KINDS: [&str; 6] = [
    "1KB plain",
    "32KB plain",
    "256KB plain",
    "32KB code",
    "256KB code",
    "32KB japanese",
];

fn prompt(kind: &str) -> String {
    let unit = if kind.ends_with("plain") {
        "The quick brown fox jumps over the lazy dog and runs on through the long grass. "
    } else if kind.ends_with("code") {
        "    if let Some(x) = map.get(\"key\") {\n        println!(\"{x}\\n\");\n\t}\n"
    } else {
        "\u{65e5}\u{672c}\u{8a9e}\u{306e}\u{9577}\u{3044}\u{6587}\u{7ae0}\u{3002}"
    };
    let digits: String = kind.chars().take_while(char::is_ascii_digit).collect();
    let bytes = digits.parse::<usize>().unwrap_or(1) << 10;
    unit.repeat(bytes / unit.len())
}

fn body(kind: &str) -> Bytes {
    let prompt = serde_json::to_string(&prompt(kind)).unwrap_or_default();
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":{prompt}}}],"temperature":0.7,"model":"tiny","stream":true,"max_tokens":64}}"#
    );
    Bytes::from(body)
}

#[derive(Deserialize)]
struct Members<'a> {
    model: &'a str,
    stream: Option<bool>,
    #[serde(borrow)]
    messages: &'a RawValue,
}

#[divan::bench(args = KINDS)]
fn scanner(bencher: Bencher<'_, '_>, kind: &str) {
    let body = body(kind);
    bencher
        .counter(BytesCount::new(body.len()))
        .bench(|| scan(black_box(&body)));
}

#[divan::bench(args = KINDS)]
fn serde_json_raw_value(bencher: Bencher<'_, '_>, kind: &str) {
    let body = body(kind);
    bencher.counter(BytesCount::new(body.len())).bench(|| {
        serde_json::from_slice::<Members<'_>>(black_box(&body))
            .map(|members| (members.model.len(), members.stream, members.messages.get().len()))
    });
}

#[divan::bench]
fn scan_estimate_and_splice_1kb(bencher: Bencher<'_, '_>) {
    let body = body("1KB plain");
    bencher.bench(|| {
        scan(black_box(&body)).map(|view| {
            let mut edits = Edits::new(&view);
            edits.set_model("acme/tiny");
            let ask = edits.ask_for_usage(CallKind::Chat);
            (estimate_tokens(&view), ask, edits.apply())
        })
    });
}
