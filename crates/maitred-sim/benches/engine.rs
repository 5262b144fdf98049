//! How many simulated requests one core does per second: eight engines under a conversation-like load, first come, first
//! served in turn.

use std::time::Duration;

use divan::counter::ItemsCount;
use maitred_sim::{
    EngineModel, EngineOptions, EngineProfile, FinishReason, LengthLimits, OutputLength, Prompt, RequestNumber,
    SimRequest, TokenEvents,
};
use maitred_types::Time;

const ENGINES: usize = 8;
const REQUESTS: u64 = 4_000;
/// Calls per second over all engines: busy, not saturated.
const RATE: u64 = 60;

fn main() {
    divan::main();
}

/// Prompts of 2,000 tokens on average, half of each shared with one of 64 others, and answers of 200.
fn workload() -> Vec<(Time, SimRequest)> {
    let length = OutputLength {
        mean: 200.0,
        variation: 0.8,
    };
    let mut rng = fastrand::Rng::with_seed(1);
    (0..REQUESTS)
        .map(|id| {
            let family = rng.u32(0..64);
            let tokens = rng.u32(1_000..3_000);
            let own = u32::try_from(id).unwrap_or_default();
            let text = (0..tokens).map(move |index| if index < 1_000 { family } else { 1_000 + own });
            let limits = LengthLimits {
                max_tokens: 2_000,
                ..LengthLimits::default()
            };
            let (output_tokens, reason): (u32, FinishReason) = length.draw(limits, id);
            let request = SimRequest {
                id: RequestNumber(id),
                prompt: Prompt::new(text, 16, None),
                adapter: None,
                output_tokens,
                reason,
                output_seed: id,
                max_tokens: None,
            };
            (Time::from_millis(id * 1_000 / RATE), request)
        })
        .collect()
}

/// Every token is told, and every engine is brought up to each arrival.
#[divan::bench(sample_count = 10)]
fn token_by_token(bencher: divan::Bencher<'_, '_>) {
    run(bencher, TokenEvents::Each, Duration::ZERO);
}

/// First tokens and ends are told, and all engines are looked at five times a second.
#[divan::bench(sample_count = 10)]
fn answer_by_answer(bencher: divan::Bencher<'_, '_>) {
    run(bencher, TokenEvents::First, Duration::from_millis(200));
}

fn run(bencher: divan::Bencher<'_, '_>, token_events: TokenEvents, look_every: Duration) {
    let Some(profile) = EngineProfile::find("h100-8b") else {
        return;
    };
    let workload = workload();
    let options = EngineOptions {
        token_events,
        ..EngineOptions::default()
    };
    bencher
        .counter(ItemsCount::new(REQUESTS))
        .with_inputs(|| workload.clone())
        .bench_values(|workload| {
            let mut engines: Vec<_> = (0..ENGINES)
                .map(|_| EngineModel::new(&profile, &options, Time::ZERO))
                .collect();
            let (mut events, mut looked) = (0_u64, Time::ZERO);
            for (index, (at, request)) in workload.into_iter().enumerate() {
                if at.since(looked) >= look_every {
                    looked = at;
                    for engine in &mut engines {
                        engine.advance(at, &mut |_| events += 1);
                    }
                }
                let engine = &mut engines[index % ENGINES];
                engine.advance(at, &mut |_| events += 1);
                let taken = engine.submit(request, at);
                assert!(taken.is_ok());
            }
            for engine in &mut engines {
                engine.advance(Time::from_millis(10_000_000), &mut |_| events += 1);
            }
            events
        });
}
