//! What an entry costs that is sealed into a chain: one of the audit, and a short and a long decision record.

use maitred_store::chain::{Head, check, seal};

fn main() {
    divan::main();
}

fn members(length: usize) -> Vec<u8> {
    format!("\"text\":\"{}\"", "x".repeat(length)).into_bytes()
}

#[divan::bench(args = [400, 1_000, 3_000])]
fn sealed(bencher: divan::Bencher<'_, '_>, length: usize) {
    let members = members(length);
    let (mut out, mut head) = (Vec::new(), Head::EMPTY);
    bencher
        .counter(divan::counter::BytesCount::new(length))
        .bench_local(|| {
            out.clear();
            head = seal(&head, &members, &mut out);
        });
}

#[divan::bench(args = [400, 1_000, 3_000])]
fn checked(bencher: divan::Bencher<'_, '_>, length: usize) {
    let mut line = Vec::new();
    seal(&Head::EMPTY, &members(length), &mut line);
    line.pop();
    bencher.bench_local(|| check(divan::black_box(&line), &Head::EMPTY));
}
