//! From a body that has been scanned to its chain of hashes: what is done once more after the body has arrived.

use std::hint::black_box;

use bytes::Bytes;
use divan::Bencher;
use divan::counter::BytesCount;
use maitred_llm::{CallKind, ChainRule, PromptText, scan};

fn main() {
    divan::main();
}

const KINDS: [&str; 7] = [
    "1KB plain",
    "32KB plain",
    "256KB plain",
    "400KB plain",
    "32KB code",
    "256KB code",
    "256KB japanese",
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

fn chat(kind: &str) -> Bytes {
    let prompt = serde_json::to_string(&prompt(kind)).unwrap_or_default();
    Bytes::from(format!(
        r#"{{"model":"tiny","messages":[{{"role":"system","content":"You help."}},{{"role":"user","content":{prompt}}}],"stream":true}}"#
    ))
}

fn parts(kind: &str) -> Bytes {
    let prompt = serde_json::to_string(&prompt(kind)).unwrap_or_default();
    Bytes::from(format!(
        r#"{{"model":"tiny","messages":[{{"role":"user","content":[{{"type":"text","text":{prompt}}}]}}],"stream":true}}"#
    ))
}

fn run(bencher: Bencher<'_, '_>, body: &Bytes) {
    let rule = ChainRule::new("tiny", None, 64);
    let Ok(view) = scan(body) else { return };
    bencher
        .counter(BytesCount::new(body.len()))
        .bench(|| PromptText::read(black_box(&view), CallKind::Chat, rule));
}

#[divan::bench(args = KINDS)]
fn chain_of_a_text(bencher: Bencher<'_, '_>, kind: &str) {
    run(bencher, &chat(kind));
}

#[divan::bench(args = KINDS)]
fn chain_of_a_part(bencher: Bencher<'_, '_>, kind: &str) {
    run(bencher, &parts(kind));
}

#[divan::bench(args = KINDS)]
fn scan_alone(bencher: Bencher<'_, '_>, kind: &str) {
    let body = chat(kind);
    bencher
        .counter(BytesCount::new(body.len()))
        .bench(|| scan(black_box(&body)));
}

#[divan::bench]
fn chain_of_forty_short_messages(bencher: Bencher<'_, '_>) {
    let turn = r#"{"role":"user","content":"And what came after that?"},{"role":"assistant","content":"Then the rain came, and all went home."},"#;
    let turns = turn.repeat(20);
    let body = format!(r#"{{"model":"tiny","messages":[{}]}}"#, turns.trim_end_matches(','));
    run(bencher, &Bytes::from(body));
}
