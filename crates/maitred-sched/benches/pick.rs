//! What a pick costs, by pool size and profile; allocations are counted.
//!
//! `cargo bench -p maitred-sched`. One iteration is a pick and the finish of its lease in a pool whose endpoints all have
//! leases and fresh signals, and one scrape of the endpoint that was picked.

use divan::{AllocProfiler, Bencher};
use maitred_sched::{
    Answer, Ask, EndpointOptions, Explain, Filter, LoraSignal, Picker, Pool, PoolOptions, Profile, Proofs,
    ReadinessReport, Scorer, Signals, WaitingOptions, Weighted,
};
use maitred_types::{LeaseEnd, ModelName, Time, TokenCount};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

const SIZES: [usize; 3] = [8, 100, 1_000];

fn main() {
    divan::main();
}

/// A pool of ready endpoints with mixed load, four leases each.
fn pool(size: usize, profile: Profile) -> (Pool, Time) {
    let now = Time::from_millis(1_000);
    let mut pool = Pool::new(PoolOptions::default(), profile, 1);
    let mut ids = Vec::new();
    for at in 0..size {
        let address = format!("10.0.{}.{}:8000", at / 256, at % 256);
        let Ok(id) = pool.add(address.into(), EndpointOptions::default(), now) else {
            continue;
        };
        pool.set_readiness(id, ReadinessReport::Healthy(Proofs::ALL), now);
        ids.push(id);
    }
    let mut rng = fastrand::Rng::with_seed(1);
    for id in &ids {
        let signals = Signals {
            queued: rng.u32(..4),
            running: rng.u32(..60),
            kv_used: Some(rng.f64()),
            block_size: Some(16),
            blocks: Some(27_000),
            lora: Some(LoraSignal {
                max: 4,
                running: vec![ModelName::from(["sql", "chat", "code"][rng.usize(..3)])],
                waiting: vec![],
            }),
            progress: Some(1),
        };
        pool.observe(*id, &signals, now, now);
    }
    for _ in 0..4 * size {
        drop(pool.pick(&ask(), now));
    }
    (pool, now)
}

fn ask() -> Ask<'static> {
    Ask {
        model: "tiny",
        input_tokens: TokenCount::new(900),
        output_tokens: TokenCount::new(200),
        ..Ask::default()
    }
}

fn run(bencher: Bencher<'_, '_>, size: usize, profile: Profile, ask: &Ask<'_>) {
    let (mut pool, now) = pool(size, profile);
    let signals = Signals::default();
    bencher.bench_local(|| {
        let picked = pool.pick(ask, now);
        if let Ok(picked) = &picked {
            pool.finish(picked.lease, LeaseEnd::Success, None, now);
            pool.observe(picked.endpoint, &signals, now, now);
        }
        picked
    });
}

#[divan::bench(args = SIZES)]
fn default_profile(bencher: Bencher<'_, '_>, size: usize) {
    run(bencher, size, Profile::default(), &ask());
}

/// An ask that could wait and finds room.
#[divan::bench(args = SIZES)]
fn ask_with_room(bencher: Bencher<'_, '_>, size: usize) {
    let (mut pool, now) = pool(size, Profile::default());
    let signals = Signals::default();
    bencher.bench_local(|| {
        let answer = pool.ask(&ask(), now);
        if let Answer::Go(picked) = &answer {
            pool.finish(picked.lease, LeaseEnd::Success, None, now);
            pool.observe(picked.endpoint, &signals, now, now);
        }
        answer
    });
}

/// One that goes, with a thousand calls waiting, and one that comes in its place.
#[divan::bench(args = SIZES)]
fn release_and_wait(bencher: Bencher<'_, '_>, size: usize) {
    let (mut pool, now) = pool(size, Profile::default());
    let options = PoolOptions {
        waiting: WaitingOptions {
            prefill_tokens: 1,
            calls: 1_001,
            ..WaitingOptions::default()
        },
        ..PoolOptions::default()
    };
    pool.reconfigure(options, Profile::default());
    let mut leases = std::collections::VecDeque::new();
    let mut tenant = 0;
    while pool.room(now).calls < 1_000 {
        tenant = (tenant + 1) % 50;
        match pool.ask(&Ask { tenant, ..ask() }, now) {
            Answer::Go(picked) => leases.push_back(picked.lease),
            Answer::Wait(_) => {}
            Answer::Shed(_) => return,
        }
    }
    bencher.bench_local(|| {
        if let Some(lease) = leases.pop_front() {
            pool.finish(lease, LeaseEnd::Success, None, now);
        }
        while let Some(released) = pool.released(now) {
            leases.extend(released.outcome.ok().map(|picked| picked.lease));
        }
        tenant = (tenant + 1) % 50;
        pool.ask(&Ask { tenant, ..ask() }, now)
    });
}

#[divan::bench(args = SIZES)]
fn default_profile_with_adapter_and_session(bencher: Bencher<'_, '_>, size: usize) {
    let full = Ask {
        adapter: Some("sql"),
        session: Some(42),
        ..ask()
    };
    run(bencher, size, Profile::default(), &full);
}

#[divan::bench(args = SIZES)]
fn default_profile_explained(bencher: Bencher<'_, '_>, size: usize) {
    let long = Ask {
        explain: Explain::Full,
        ..ask()
    };
    run(bencher, size, Profile::default(), &long);
}

#[divan::bench(args = SIZES)]
fn least_cost(bencher: Bencher<'_, '_>, size: usize) {
    run(bencher, size, Profile::least_cost(), &ask());
}

#[divan::bench(args = SIZES)]
fn least_request_of_two(bencher: Bencher<'_, '_>, size: usize) {
    run(bencher, size, Profile::least_request(), &ask());
}

#[divan::bench(args = SIZES)]
fn every_filter_and_scorer(bencher: Bencher<'_, '_>, size: usize) {
    let scorers: Vec<_> = Scorer::ALL
        .iter()
        .map(|scorer| Weighted {
            scorer: *scorer,
            weight: 1.0,
        })
        .collect();
    let filters = [
        Filter::LowQueue { max: 100 },
        Filter::KvHeadroom { max: 2.0 },
        Filter::LoraCapacity,
    ];
    if let Ok(profile) = Profile::build(&filters, &scorers, &[Picker::MaxScore]) {
        run(bencher, size, profile, &ask());
    }
}

#[divan::bench(args = SIZES)]
fn observe_all(bencher: Bencher<'_, '_>, size: usize) {
    let (mut pool, now) = pool(size, Profile::default());
    let ids: Vec<_> = pool.rows(now).map(|row| row.endpoint).collect();
    let signals = Signals {
        running: 9,
        kv_used: Some(0.5),
        progress: Some(2),
        ..Signals::default()
    };
    bencher.bench_local(|| {
        for id in &ids {
            pool.observe(*id, &signals, now, now);
        }
    });
}
