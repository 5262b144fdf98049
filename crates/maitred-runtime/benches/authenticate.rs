//! What it costs to find out who is calling.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use divan::Bencher;
use divan::black_box;
use maitred_config::load;
use maitred_obs::Meters;
use maitred_runtime::{Clock, Presented, Runtime, Tasks};
use maitred_tenant::{KeyHasher, NEW_KEY_RANDOM_BYTES, NewKey};
use maitred_test::{TokenSigner, key_set};
use maitred_types::UnixMillis;
use serde_json::json;

const NOW: UnixMillis = UnixMillis::new(1_000_000_000);
const KINDS: [&str; 3] = ["EdDSA", "ES256", "RS256"];

fn main() {
    divan::main();
}

/// A gateway's runtime, a key and a token that it lets in, and the makers of further tokens.
struct Table {
    _tokio: tokio::runtime::Runtime,
    runtime: Arc<Runtime>,
    key: String,
    signer: TokenSigner,
}

#[expect(clippy::unwrap_used, reason = "a bench stops at a broken set-up")]
fn table(kind: &str) -> Table {
    let signer = match kind {
        "EdDSA" => TokenSigner::ed25519("k1"),
        "ES256" => TokenSigner::p256("k1"),
        _ => TokenSigner::rsa("k1"),
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("jwks.json");
    std::fs::write(&file, key_set([&signer])).unwrap();
    let key = NewKey::make(&[1; NEW_KEY_RANDOM_BYTES]);
    let yaml = format!(
        "version: 1\nauth:\n  keys: [{{ hash: \"{}\", tenant: acme, shared: true }}]\n  issuers:\n    - {{ issuer: i, audiences: [maitred], \
         jwks: {{ file: {} }}, claims: {{ tenant: {{ claim: tenant }} }}, max_age: 8784h }}\n\
         pools: [{{ name: p, models: [{{ name: m }}], endpoints: [{{ address: \"127.0.0.1:1\" }}] }}]\n",
        key.hash(&KeyHasher::new(None)),
        file.display()
    );
    let settings = load("bench.yaml", &yaml, &|_| Err(String::new())).unwrap().settings;
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let _entered = tokio.enter();
    let runtime = Runtime::start(
        settings,
        Clock::start(),
        Tasks::new(),
        Arc::new(Meters::new("bench")),
        1,
    );
    Table {
        runtime,
        key: key.expose().to_owned(),
        signer,
        _tokio: tokio,
    }
}

impl Table {
    fn token(&self, user: u64) -> String {
        self.signer.token(&json!({
            "iss": "i", "aud": "maitred", "exp": 1_000_600, "iat": 1_000_000, "sub": format!("user-{user}"), "tenant": "acme"
        }))
    }

    fn is_let_in(&self, credential: &str) -> bool {
        let presented = Presented {
            credential: Some(black_box(credential)),
            ..Presented::default()
        };
        self.runtime.snapshot().authenticate(&presented, NOW).is_ok()
    }
}

#[divan::bench]
fn key(bencher: Bencher<'_, '_>) {
    let table = table("EdDSA");
    assert!(table.is_let_in(&table.key));
    bencher.bench_local(|| table.is_let_in(&table.key));
}

#[divan::bench(args = KINDS)]
fn token_known(bencher: Bencher<'_, '_>, kind: &str) {
    let table = table(kind);
    let token = table.token(0);
    assert!(table.is_let_in(&token));
    bencher.bench_local(|| table.is_let_in(&token));
}

#[divan::bench(args = KINDS)]
fn token_new(bencher: Bencher<'_, '_>, kind: &str) {
    let table = table(kind);
    let made = AtomicU64::new(0);
    bencher
        .with_inputs(|| table.token(made.fetch_add(1, Ordering::Relaxed)))
        .bench_local_values(|token| assert!(table.is_let_in(&token)));
}
