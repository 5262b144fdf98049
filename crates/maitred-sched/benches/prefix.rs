//! What the prefix index costs: a pick with a long prompt in a large pool, and the same without one.
//!
//! `cargo bench -p maitred-sched --bench prefix`. One iteration is a pick, the first token and the finish of its lease, so a look-up and
//! three inserts. Before, every endpoint has been filled up to its capacity with conversations: a system prompt that all of them share,
//! and turns that branch off from each other. The long prompt has 6,250 blocks of 16 tokens in forty turns, and every endpoint
//! holds it up to another one of them.

use divan::{AllocProfiler, Bencher};
use maitred_sched::{Ask, EndpointOptions, Pool, PoolOptions, Profile, Proofs, ReadinessReport, Signals};
use maitred_types::{LeaseEnd, PromptChain, Time, TokenCount};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

const SIZES: [usize; 3] = [8, 100, 1_000];
const LONG: usize = 6_250;
const TURNS: usize = 40;

fn main() {
    divan::main();
}

/// A prompt of `blocks` blocks that agrees with the one called `trunk` up to block `common`.
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

fn ask(chain: Option<&PromptChain>) -> Ask<'_> {
    Ask {
        model: "tiny",
        input_tokens: TokenCount::new(100_000),
        output_tokens: TokenCount::new(200),
        chain,
        ..Ask::default()
    }
}

struct Stage {
    pool: Pool,
    now: Time,
    filler: u64,
}

impl Stage {
    fn filled(size: usize) -> Self {
        let now = Time::from_millis(1_000);
        let mut options = PoolOptions::default();
        options.prefix.min_gain = 0.0;
        let mut stage = Self {
            pool: Pool::new(options, Profile::default(), 1),
            now,
            filler: 0,
        };
        for at in 0..size {
            let address = format!("10.0.{}.{}:8000", at / 256, at % 256);
            let Ok(id) = stage.pool.add(address.into(), EndpointOptions::default(), now) else {
                continue;
            };
            stage.pool.set_readiness(id, ReadinessReport::Healthy(Proofs::ALL), now);
            let signals = Signals {
                block_size: Some(16),
                blocks: Some(27_000),
                ..Signals::default()
            };
            stage.pool.observe(id, &signals, now, now);
        }
        stage.fill(size);
        stage
    }

    fn fill(&mut self, size: usize) {
        let ids: Vec<_> = self.pool.rows(self.now).map(|row| row.endpoint).collect();
        for at in 0..size {
            for call in 0..20 {
                let turn = (at + call) % TURNS;
                let chain = if call % 4 == 0 {
                    prompt(7, LONG / TURNS * turn, at as u64 + 1, LONG / TURNS * (turn + 1))
                } else {
                    self.filler += 1;
                    prompt(9, 100, self.filler, 1_500)
                };
                let others: Vec<_> = ids.iter().copied().filter(|id| *id != ids[at]).collect();
                let only = Ask {
                    excluded: &others,
                    ..ask(Some(&chain))
                };
                self.call(&only);
            }
        }
    }

    fn call(&mut self, ask: &Ask<'_>) -> bool {
        let Ok(picked) = self.pool.pick(ask, self.now) else {
            return false;
        };
        self.pool.first_token(picked.lease, self.now);
        self.pool.finish(picked.lease, LeaseEnd::Success, None, self.now);
        true
    }
}

#[divan::bench(args = SIZES)]
fn a_call_without_a_chain(bencher: Bencher<'_, '_>, size: usize) {
    let mut stage = Stage::filled(size);
    bencher.bench_local(|| stage.call(&ask(None)));
}

#[divan::bench(args = SIZES)]
fn a_call_with_a_long_prompt_that_many_hold(bencher: Bencher<'_, '_>, size: usize) {
    let mut stage = Stage::filled(size);
    let chain = prompt(7, LONG, 0, LONG);
    bencher.bench_local(|| stage.call(&ask(Some(&chain))));
}

#[divan::bench(args = SIZES)]
fn a_call_with_a_long_prompt_that_nobody_holds(bencher: Bencher<'_, '_>, size: usize) {
    let mut stage = Stage::filled(size);
    let mut next = 1 << 40;
    let chains = move || {
        next += 1;
        prompt(next, 0, 1, LONG)
    };
    bencher
        .with_inputs(chains)
        .bench_local_refs(|chain| stage.call(&ask(Some(chain))));
}

#[divan::bench(args = SIZES)]
fn a_call_with_a_short_prompt_that_nobody_holds(bencher: Bencher<'_, '_>, size: usize) {
    let mut stage = Stage::filled(size);
    let mut next = 1 << 41;
    let chains = move || {
        next += 1;
        prompt(next, 0, 1, 60)
    };
    bencher
        .with_inputs(chains)
        .bench_local_refs(|chain| stage.call(&ask(Some(chain))));
}
