use crate::{Diagnostic, Loaded, load};

fn read(pool: &str) -> Result<Loaded, Vec<Diagnostic>> {
    let head =
        "version: 1\nauth: { anonymous: { tenant: local } }\npools:\n  - name: main\n    models: [{ name: m }]\n";
    load("maitred.yaml", &format!("{head}{pool}"), &|_| Ok(String::new()))
}

#[track_caller]
fn check(pool: &str, expected: &[&str]) {
    let found = read(pool).err().unwrap_or_default();
    let messages: Vec<_> = found.iter().map(|found| found.message.as_str()).collect();
    assert_eq!(messages, expected, "{pool}");
}

#[test]
fn what_no_endpoint_of_the_pool_could_tell_is_refused() {
    let vllm = "    endpoints: [{ address: 127.0.0.1:8000 }]\n";
    check(
        &format!("{vllm}    release: {{ name: blue, weights: model/m, engine: 0.32.0 }}\n"),
        &[],
    );
    check(
        &format!("{vllm}    release: {{ name: blue, weights: model/m, quantization: fp8 }}\n"),
        &["vllm does not tell how its weights are quantised"],
    );
    check(
        &format!("{vllm}    engine: sglang\n    release: {{ name: blue, weights: model/m, quantization: fp8 }}\n"),
        &[],
    );
    check(
        &format!("{vllm}    engine: triton\n    release: {{ name: blue, weights: model/m, quantization: fp8 }}\n"),
        &["triton does not tell what it runs, so nothing can be compared"],
    );
    let release = read(&format!("{vllm}    release: {{ name: blue, weights: model/m }}\n")).unwrap();
    let release = release.settings.pools[0].release.clone().unwrap();
    assert_eq!(
        (release.name.as_str(), release.pool.as_str(), release.weights.as_str()),
        ("blue", "main", "model/m")
    );
}
