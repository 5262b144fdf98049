//! Prints what a pick and the finish of its lease cost: `cargo run --release -p maitred-sched --example pick_cost`.
//!
//! The best of many short rounds, since other work on the machine can only add. `benches/pick.rs` has more cases and counts
//! allocations.
#![expect(clippy::print_stdout, reason = "printing is what it is for")]
#![expect(clippy::disallowed_methods, reason = "a stopwatch reads the clock")]

use std::time::{Duration, Instant};

use maitred_sched::{
    Ask, EndpointOptions, Explain, Pool, PoolFull, PoolOptions, Profile, Proofs, ReadinessReport, Refusal, Signals,
};
use maitred_types::{LeaseEnd, Time, TokenCount};

const NOW: Time = Time::from_millis(1_000);

fn main() -> Result<(), String> {
    println!(
        "{:>9} {:>7} {:>16} {:>16} {:>16}",
        "endpoints", "explain", "default", "least-cost", "least-request"
    );
    for size in [8, 100, 1_000] {
        for explain in [Explain::Short, Explain::Full] {
            let mut costs = Vec::new();
            for profile in [Profile::default(), Profile::least_cost(), Profile::least_request()] {
                let mut pool = pool(size, profile).map_err(|full| format!("{full:?}"))?;
                costs.push(cost(&mut pool, explain).map_err(|refusal| refusal.to_string())?);
            }
            let word = format!("{explain:?}");
            println!(
                "{size:>9} {word:>7} {:>16.2?} {:>16.2?} {:>16.2?}",
                costs[0], costs[1], costs[2]
            );
        }
    }
    Ok(())
}

fn pool(size: u32, profile: Profile) -> Result<Pool, PoolFull> {
    let mut pool = Pool::new(PoolOptions::default(), profile, 1);
    for at in 0..size {
        let address = format!("10.0.{}.{}:8000", at / 256, at % 256);
        let id = pool.add(address.into(), EndpointOptions::default(), NOW)?;
        pool.set_readiness(id, ReadinessReport::Healthy(Proofs::ALL), NOW);
        let signals = Signals {
            queued: at % 4,
            running: at % 60,
            kv_used: Some(f64::from(at % 100) / 100.0),
            block_size: Some(16),
            blocks: Some(27_000),
            ..Signals::default()
        };
        pool.observe(id, &signals, NOW, NOW);
    }
    Ok(pool)
}

fn cost(pool: &mut Pool, explain: Explain) -> Result<Duration, Refusal> {
    const TIMES: u32 = 50;
    let ask = Ask {
        input_tokens: TokenCount::new(900),
        explain,
        ..Ask::default()
    };
    let mut best = Duration::MAX;
    for _ in 0..2_000 {
        let start = Instant::now();
        for _ in 0..TIMES {
            let picked = pool.pick(&ask, NOW)?;
            pool.finish(picked.lease, LeaseEnd::Success, None, NOW);
        }
        best = best.min(start.elapsed() / TIMES);
    }
    Ok(best)
}
