//! What it costs to judge one event of a stream.

use divan::{AllocProfiler, Bencher, black_box};
use maitred_engines::{Engine, StreamJudge};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

const VLLM: &[u8] = br#"{"id":"chatcmpl-a370344636e903e4","object":"chat.completion.chunk","created":1796069957,"model":"tiny","choices":[{"index":0,"delta":{"content":" publish"},"logprobs":null,"finish_reason":null,"token_ids":null}]}"#;
const SGLANG: &[u8] = br#"{"id":"ad3def220e49403ea4a3abc0c7d0d0d6","object":"chat.completion.chunk","created":1796072653,"model":"tiny","choices":[{"index":0,"delta":{"reasoning_content":null,"content":"ways"},"logprobs":null,"finish_reason":null,"matched_stop":null}]}"#;
const MESSAGES: &[u8] =
    br#"{"type":"content_block_delta","delta":{"type":"text_delta","text":" indicated"},"index":0}"#;
const RESPONSES: &[u8] = br#"{"content_index":0,"delta":" publish","item_id":"msg_b91429ac1e07f44e","logprobs":[],"output_index":0,"sequence_number":4,"type":"response.output_text.delta"}"#;

fn main() {
    divan::main();
}

#[divan::bench]
fn vllm_chunk(bencher: Bencher<'_, '_>) {
    judge(bencher, VLLM);
}

#[divan::bench]
fn sglang_chunk(bencher: Bencher<'_, '_>) {
    judge(bencher, SGLANG);
}

#[divan::bench]
fn messages_delta(bencher: Bencher<'_, '_>) {
    judge(bencher, MESSAGES);
}

#[divan::bench]
fn responses_delta(bencher: Bencher<'_, '_>) {
    judge(bencher, RESPONSES);
}

/// A chunk with a long piece of text, as engines send when they batch tokens.
#[divan::bench]
fn long_chunk(bencher: Bencher<'_, '_>) {
    let text = "lorem ipsum dolor sit amet ".repeat(40);
    let chunk = String::from_utf8_lossy(VLLM).replace(" publish", &text);
    judge(bencher, chunk.as_bytes());
}

fn judge(bencher: Bencher<'_, '_>, data: &[u8]) {
    let mut judge = StreamJudge::new(Engine::Vllm);
    bencher.bench_local(|| judge.judge_event(black_box(data)));
}
