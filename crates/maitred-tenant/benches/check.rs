//! What a check of a key costs, by the size of the ring.

use divan::Bencher;
use divan::black_box;
use maitred_tenant::{KeyGrant, KeyHasher, KeyRing, ModelGrant, NEW_KEY_RANDOM_BYTES, NewKey, OnBehalf};
use maitred_types::{TenantId, UnixMillis};

fn main() {
    divan::main();
}

fn key(number: usize) -> NewKey {
    let mut random = [0; NEW_KEY_RANDOM_BYTES];
    for (index, byte) in number.to_le_bytes().iter().enumerate() {
        random[index] = byte & 31;
        random[index + 12] = *byte;
    }
    random[10] = u8::try_from(number >> 5 & 31).unwrap_or_default();
    random[11] = u8::try_from(number >> 10 & 31).unwrap_or_default();
    NewKey::make(&random)
}

fn ring(keys: usize) -> KeyRing {
    let hasher = KeyHasher::new(Some(b"a pepper of sixteen bytes and more"));
    let grants = (0..keys)
        .map(|number| KeyGrant {
            hash: key(number).hash(&hasher),
            tenant: TenantId::from("acme"),
            user: None,
            on_behalf: OnBehalf::Nobody,
            is_shared: false,
            models: ModelGrant::All,
            class: None,
            not_before: None,
            expires: None,
        })
        .collect();
    #[expect(clippy::expect_used, reason = "a bench stops at a broken set-up")]
    KeyRing::new(hasher, grants).expect("ids differ")
}

#[divan::bench(args = [1, 100, 10_000])]
fn right_key(bencher: Bencher<'_, '_>, keys: usize) {
    let ring = ring(keys);
    let key = key(keys / 2);
    bencher.bench_local(|| {
        black_box(&ring)
            .check(black_box(key.expose()), UnixMillis::new(1))
            .is_ok()
    });
}

#[divan::bench]
fn unknown_key(bencher: Bencher<'_, '_>) {
    let ring = ring(100);
    let key = key(9_999);
    bencher.bench_local(|| {
        black_box(&ring)
            .check(black_box(key.expose()), UnixMillis::new(1))
            .is_err()
    });
}
