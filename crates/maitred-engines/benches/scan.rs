//! How fast a real metrics page is scanned, and what that allocates.

use divan::counter::BytesCount;
use divan::{AllocProfiler, Bencher, black_box};
use maitred_engines::{Engine, Scanner};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

const VLLM: &[u8] = include_bytes!("../fixtures/vllm-0.32.0/metrics/under-load-lora.txt");
const SGLANG: &[u8] = include_bytes!("../fixtures/sglang-0.5.23/metrics/under-load-queue.excerpt.txt");

fn main() {
    divan::main();
}

#[divan::bench]
fn vllm_page(bencher: Bencher<'_, '_>) {
    scan(bencher, Engine::Vllm, VLLM);
}

#[divan::bench]
fn sglang_page(bencher: Bencher<'_, '_>) {
    scan(bencher, Engine::Sglang, SGLANG);
}

/// What any scanner must at least do: find the lines.
#[divan::bench]
fn lines_only(bencher: Bencher<'_, '_>) {
    bencher
        .counter(BytesCount::of_slice(VLLM))
        .bench_local(|| memchr::memchr_iter(b'\n', black_box(VLLM)).fold(0, |sum: usize, at| sum ^ at));
}

fn scan(bencher: Bencher<'_, '_>, engine: Engine, page: &'static [u8]) {
    let mut scanner = Scanner::new(&engine.mapping());
    bencher
        .counter(BytesCount::of_slice(page))
        .bench_local(|| scanner.scan(black_box(page)));
}
