//! The check points that the fit was published with.

use super::*;

fn prefill_ms(profile: &str, tokens: u32) -> f64 {
    let profile = EngineProfile::find(profile).unwrap();
    let mut left = tokens;
    let mut total = 0.0;
    while left > 0 {
        let chunk = left.min(profile.batched_tokens);
        let mut batch = StepBatch::default();
        batch.add_prefill(chunk, tokens - left);
        total += profile.costs.step(&batch).as_secs_f64() * 1e3;
        left -= chunk;
    }
    total
}

fn decode_ms(profile: &str, sequences: u32, context: u32) -> f64 {
    let mut batch = StepBatch::default();
    for _ in 0..sequences {
        batch.add_decode(context);
    }
    EngineProfile::find(profile).unwrap().costs.step(&batch).as_secs_f64() * 1e3
}

#[track_caller]
fn check(found_ms: f64, stated_ms: f64, tolerance: f64) {
    let error = (found_ms - stated_ms).abs() / stated_ms;
    assert!(
        error <= tolerance,
        "{found_ms:.2} ms instead of {stated_ms} ms: off by {:.1} %",
        error * 100.0
    );
}

#[test]
fn prefill_takes_the_time_of_the_check_points() {
    // The check points are rounded measurements, so the tolerance is the largest error of each fit and half a point.
    check(prefill_ms("h100-8b", 1024), 22.0, 0.04);
    check(prefill_ms("h100-8b", 8192), 200.0, 0.04);
    check(prefill_ms("h100-8b", 32_000), 1047.0, 0.04);
    check(prefill_ms("h100-14b", 8192), 361.0, 0.039);
    // A budget of 2048 pays the fixed cost in each of four chunks; the stated figure pays it once.
    let extra_chunks = |profile: &str| 3.0 * EngineProfile::find(profile).unwrap().costs.prefill_fixed_ms;
    check(prefill_ms("a100-8b", 8192) - extra_chunks("a100-8b"), 557.0, 0.019);
    check(prefill_ms("l40s-8b", 8192) - extra_chunks("l40s-8b"), 700.0, 0.067);
}

#[test]
fn decode_takes_the_time_of_the_check_points() {
    check(decode_ms("h100-8b", 1, 2048), 6.2, 0.045);
    check(decode_ms("h100-8b", 64, 2048), 12.6, 0.045);
    check(decode_ms("h100-8b", 256, 2048), 30.7, 0.045);
    check(decode_ms("h100-8b", 256, 8192), 95.5, 0.045);
}

#[test]
fn a_mixed_step_reads_the_weights_once() {
    let costs = EngineProfile::find("h100-8b").unwrap().costs;
    let ms = |batch: &StepBatch| costs.step(batch).as_secs_f64() * 1e3;
    let mut decodes = StepBatch::default();
    for _ in 0..64 {
        decodes.add_decode(2048);
    }
    let mut small = decodes;
    small.add_prefill(128, 0);
    let mut large = decodes;
    large.add_prefill(2048, 0);
    // A small chunk rides along: the decode term is the larger one, only the chunk's attention is added.
    check(ms(&small), ms(&decodes) + 0.761e-6 * 128.0 * 64.0, 1e-6);
    // With a large one the prefill term is the larger one, and the decodes' weights cost nothing extra.
    let expected = 1.34 + 20.25e-3 * (2048.0 + 64.0) + 0.761e-6 * 2048.0 * 1024.0 + 40.9e-6 * 64.0 * 2048.0;
    check(ms(&large), expected, 1e-6);
}

#[test]
fn chunks_attend_as_much_as_the_whole() {
    let mut whole = StepBatch::default();
    whole.add_prefill(3000, 500);
    let mut chunks = StepBatch::default();
    chunks.add_prefill(1234, 500);
    chunks.add_prefill(1766, 1734);
    assert_eq!(whole, chunks);
}

#[test]
fn context_costs_what_memory_bandwidth_says() {
    // KV bytes per token over memory bandwidth: 128 KiB over 3.35 TB/s.
    let physical_ns = 131_072.0 / 3.35e12 * 1e9;
    check(
        EngineProfile::find("h100-8b").unwrap().costs.context_ns,
        physical_ns,
        0.06,
    );
}

#[test]
fn names_are_unique_and_found() {
    for profile in EngineProfile::ALL {
        assert_eq!(EngineProfile::find(profile.name), Some(profile));
    }
    assert_eq!(EngineProfile::find("h100-70b"), None);
}
