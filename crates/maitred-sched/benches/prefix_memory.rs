//! The tail of a decision's time and the memory of the prefix index, as tables.
//!
//! `cargo bench -p maitred-sched --bench prefix_memory`; takes some minutes. Decisions: a prompt of 100,000 tokens at 1,000
//! endpoints that hold it up to one of its forty turns each, with calls of other prompts in between. Memory: ten million distinct
//! prompts over 1,000 endpoints; what the index counts, and what the process has grown by.

#![expect(clippy::print_stdout, reason = "its output is a table")]

use std::time::{Duration, Instant};

use maitred_sched::{
    Ask, EndpointOptions, Picker, Pool, PoolOptions, Profile, Proofs, ReadinessReport, Signals, StalenessPolicy,
};
use maitred_types::{EndpointId, LeaseEnd, PromptChain, Time, TokenCount};

const ENDPOINTS: usize = 1_000;
const LONG: usize = 6_250;
const TURNS: usize = 40;
const PROMPTS: u64 = 10_000_000;

fn main() {
    decisions();
    for (what, sizes) in [("6 blocks", 6..7), ("1 to 200 blocks", 1..201), ("1 block", 1..2)] {
        memory(what, &sizes);
    }
}

/// A prompt that agrees with the one called `trunk` up to block `common`.
fn prompt(trunk: u64, common: usize, branch: u64, blocks: usize) -> PromptChain {
    let mut last = trunk;
    let hashes: Vec<u64> = (0..blocks)
        .map(|place| {
            let salt = if place < common { 0 } else { branch };
            last = (last ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ place as u64;
            last
        })
        .collect();
    PromptChain::new(hashes, 16.0)
}

fn ask(chain: &PromptChain) -> Ask<'_> {
    Ask {
        model: "tiny",
        input_tokens: TokenCount::new(u32::try_from(chain.blocks() * 16 + 8).unwrap_or(u32::MAX)),
        chain: Some(chain),
        ..Ask::default()
    }
}

struct Stage {
    pool: Pool,
    ids: Vec<EndpointId>,
    now: Time,
}

impl Stage {
    fn new(profile: Profile) -> Self {
        let now = Time::from_millis(1_000);
        let mut options = PoolOptions::default();
        options.prefix.min_gain = 0.0;
        options.staleness.policy = StalenessPolicy::Ignore;
        let mut pool = Pool::new(options, profile, 1);
        let mut ids = Vec::new();
        for at in 0..ENDPOINTS {
            let address = format!("10.0.{}.{}:8000", at / 256, at % 256);
            let Ok(id) = pool.add(address.into(), EndpointOptions::default(), now) else {
                continue;
            };
            pool.set_readiness(id, ReadinessReport::Healthy(Proofs::ALL), now);
            let signals = Signals {
                block_size: Some(16),
                blocks: Some(27_000),
                ..Signals::default()
            };
            pool.observe(id, &signals, now, now);
            ids.push(id);
        }
        Self { pool, ids, now }
    }

    fn call(&mut self, ask: &Ask<'_>) {
        self.now = self.now + Duration::from_millis(1);
        if let Ok(picked) = self.pool.pick(ask, self.now) {
            self.pool.first_token(picked.lease, self.now);
            self.pool.finish(picked.lease, LeaseEnd::Success, None, self.now);
        }
    }

    /// A call at one endpoint.
    fn call_at(&mut self, at: usize, chain: &PromptChain) {
        let pinned = Some(self.ids[at]);
        self.call(&Ask { pinned, ..ask(chain) });
    }
}

#[expect(clippy::disallowed_methods, reason = "it measures")]
fn nanos(work: impl FnOnce()) -> u128 {
    let begin = Instant::now();
    work();
    begin.elapsed().as_nanos()
}

fn decisions() {
    let mut stage = Stage::new(Profile::default());
    let mut other = 0;
    for at in 0..ENDPOINTS {
        for call in 0..20 {
            let turn = (at + call) % TURNS;
            other += 1;
            let chain = if call % 4 == 0 {
                prompt(7, LONG / TURNS * turn, other, LONG / TURNS * (turn + 1))
            } else {
                prompt(9, 100, other, 1_500)
            };
            stage.call_at(at, &chain);
        }
    }
    let (long, plain) = (prompt(7, LONG, 0, LONG), prompt(9, 0, 0, 0));
    for (what, chain) in [("with a prompt of 100,000 tokens", &long), ("without one", &plain)] {
        // Other processes only ever add to a time, so the best round is nearest to the truth.
        let rounds = (0..5).map(|_| round(&mut stage, chain));
        let best = rounds.min_by_key(|round| round.1).unwrap_or_default();
        let (half, most) = best;
        println!("decision {what} at 1,000 endpoints: P50 {half} µs, P99 {most} µs in the best of five rounds");
    }
    let figures = stage.pool.prefix_figures();
    let each = figures.bytes as f64 / figures.held_blocks as f64;
    println!(
        "{each:.1} bytes per block and endpoint, {} runs, {} blocks",
        figures.runs, figures.held_blocks
    );
}

/// The median and the ninety-ninth percentile of picks, in microseconds. Calls of other prompts run in between.
fn round(stage: &mut Stage, chain: &PromptChain) -> (u128, u128) {
    let mut times: Vec<_> = (0..10_000)
        .map(|call| {
            stage.call(&ask(&prompt(9, 100, call % 5_000, 200)));
            let mut picked = None;
            let time = nanos(|| picked = stage.pool.pick(&ask(chain), stage.now).ok());
            // Over before its first token, so that the next look-up finds the same.
            if let Some(picked) = picked {
                stage.pool.finish(picked.lease, LeaseEnd::Cancelled, None, stage.now);
            }
            time
        })
        .collect();
    times.sort_unstable();
    (times[times.len() / 2] / 1_000, times[times.len() * 99 / 100] / 1_000)
}

fn memory(what: &str, sizes: &std::ops::Range<usize>) {
    let Ok(random) = Profile::build(&[], &[], &[Picker::RoundRobin]) else {
        return;
    };
    let mut stage = Stage::new(random);
    let mut rng = fastrand::Rng::with_seed(1);
    let before = resident();
    for call in 1..=PROMPTS {
        let chain = prompt(call + (1 << 40), 0, 1, rng.usize(sizes.clone()));
        let at = rng.usize(..ENDPOINTS);
        stage.call_at(at, &chain);
        if call % (PROMPTS / 5) == 0 || call == PROMPTS / 20 {
            let figures = stage.pool.prefix_figures();
            let grown = resident().saturating_sub(before);
            let (counted, held) = (figures.bytes, figures.held_blocks);
            let each = counted as f64 / held as f64;
            println!(
                "{what}, {call} prompts: {} MiB counted, {} MiB more resident, {held} blocks, {each:.1} bytes each",
                counted >> 20,
                grown >> 20
            );
        }
    }
}

/// The process's resident bytes; 0 where nobody says.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.unwrap_or_default() * 1_024
}
