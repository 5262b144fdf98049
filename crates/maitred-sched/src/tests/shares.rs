//! Forty clients that keep their connections, six endpoints, ninety calls a second: shares and time to first token, balanced
//! per call and per connection, in virtual time.
//!
//! The endpoint is a fluid one: prompts are prefilled one after the other at a fixed rate, then each call decodes at a speed
//! that falls with the batch. It ranks policies; it predicts no latencies.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use fastrand::Rng;
use maitred_types::{EndpointId, LeaseEnd, LeaseId, Time, TokenCount, Usage, UsageSource};

use crate::{
    Ask, EndpointOptions, Picker, Pool, PoolOptions, Profile, Proofs, ReadinessReport, Scorer, Signals, Weighted,
};

const ENDPOINTS: usize = 6;
const CLIENTS: usize = 40;
const CALLS_PER_SEC: f64 = 90.0;
const SECONDS: u64 = 60;
const SCRAPE: Duration = Duration::from_millis(50);
const PREFILL_TOKENS_PER_SEC: f64 = 14_400.0;
const KV_TOKENS: f64 = 190_000.0;

/// What balancing looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Balance {
    Call,
    Connection,
}

#[derive(Clone, Debug)]
struct Scenario {
    profile: Profile,
    balance: Balance,
    /// Gateways that do not see each other; calls come to them by chance.
    gateways: usize,
}

#[derive(Debug)]
struct Report {
    /// Share of calls per endpoint in percent, highest first.
    shares: Vec<f64>,
    /// Prompt tokens of the endpoint with the most of them, over the mean.
    most_work: f64,
    ttft_p50: f64,
    ttft_p99: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Arrival { client: usize },
    Prefilled { endpoint: usize },
    Decoded { endpoint: usize, call: usize },
    Scrape,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    gateway: usize,
    lease: LeaseId,
    arrived: Time,
    input: u32,
    output: u32,
}

#[derive(Debug, Default)]
struct Fluid {
    waiting: VecDeque<usize>,
    prefilling: Option<usize>,
    decoding: u32,
    kv_tokens: f64,
    calls: usize,
    work: u64,
}

struct Hall {
    pools: Vec<Pool>,
    ids: Vec<EndpointId>,
    fluids: Vec<Fluid>,
    calls: Vec<Call>,
    ttfts: Vec<f64>,
    bound: Vec<Option<EndpointId>>,
    rates: Vec<f64>,
    rng: Rng,
    agenda: BinaryHeap<Reverse<(Time, usize, Happening)>>,
    scheduled: usize,
}

fn simulate(scenario: &Scenario, seed: u64) -> Report {
    let mut hall = Hall::new(scenario, seed);
    let end = Time::from_millis(SECONDS * 1_000);
    while let Some(Reverse((now, _, happening))) = hall.agenda.pop() {
        match happening {
            Happening::Arrival { client } if now < end => hall.arrive(client, scenario.balance, now),
            Happening::Arrival { .. } => {}
            Happening::Prefilled { endpoint } => hall.prefilled(endpoint, now),
            Happening::Decoded { endpoint, call } => hall.decoded(endpoint, call, now),
            Happening::Scrape if now < end => hall.scrape(now),
            Happening::Scrape => {}
        }
    }
    hall.report()
}

impl Hall {
    fn new(scenario: &Scenario, seed: u64) -> Self {
        let options = PoolOptions {
            max_in_flight: 100_000,
            ..PoolOptions::default()
        };
        let mut ids = Vec::new();
        let pools = (0..scenario.gateways).map(|gateway| {
            let mut pool = Pool::new(options.clone(), scenario.profile.clone(), seed ^ gateway as u64);
            ids = (0..ENDPOINTS)
                .map(|at| {
                    let address = format!("10.0.0.{at}:8000").as_str().into();
                    let id = pool.add(address, EndpointOptions::default(), Time::ZERO).unwrap();
                    pool.set_readiness(id, ReadinessReport::Healthy(Proofs::ALL), Time::ZERO);
                    id
                })
                .collect();
            pool
        });
        // A few clients make most of the calls.
        let weights: Vec<f64> = (1..=CLIENTS).map(|rank| (rank as f64).powf(-1.5)).collect();
        let sum: f64 = weights.iter().sum();
        let mut hall = Self {
            pools: pools.collect(),
            ids,
            fluids: (0..ENDPOINTS).map(|_| Fluid::default()).collect(),
            calls: Vec::new(),
            ttfts: Vec::new(),
            bound: vec![None; CLIENTS],
            rates: weights.iter().map(|weight| CALLS_PER_SEC * weight / sum).collect(),
            rng: Rng::with_seed(seed),
            agenda: BinaryHeap::new(),
            scheduled: 0,
        };
        hall.plan(Time::ZERO, Happening::Scrape);
        for client in 0..CLIENTS {
            hall.plan_arrival(client, Time::ZERO);
        }
        hall
    }

    fn plan(&mut self, at: Time, happening: Happening) {
        self.scheduled += 1;
        self.agenda.push(Reverse((at, self.scheduled, happening)));
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.rng.f64()).ln()
    }

    fn plan_arrival(&mut self, client: usize, now: Time) {
        let gap = self.exponential(1.0 / self.rates[client]);
        self.plan(now + Duration::from_secs_f64(gap), Happening::Arrival { client });
    }

    fn arrive(&mut self, client: usize, balance: Balance, now: Time) {
        self.plan_arrival(client, now);
        let gateway = self.rng.usize(..self.pools.len());
        let input = 50 + self.exponential(650.0).min(8_000.0) as u32;
        let output = 1 + self.exponential(120.0) as u32;
        let ask = Ask {
            input_tokens: TokenCount::new(input),
            output_tokens: TokenCount::new(output),
            pinned: self.bound[client],
            ..Ask::default()
        };
        let picked = self.pools[gateway].pick(&ask, now).unwrap();
        if balance == Balance::Connection {
            self.bound[client] = Some(picked.endpoint);
        }
        let endpoint = self.ids.iter().position(|id| *id == picked.endpoint).unwrap();
        self.calls.push(Call {
            gateway,
            lease: picked.lease,
            arrived: now,
            input,
            output,
        });
        self.fluids[endpoint].calls += 1;
        self.fluids[endpoint].work += u64::from(input);
        self.fluids[endpoint].waiting.push_back(self.calls.len() - 1);
        self.start_prefill(endpoint, now);
    }

    fn start_prefill(&mut self, endpoint: usize, now: Time) {
        let fluid = &mut self.fluids[endpoint];
        if fluid.prefilling.is_some() {
            return;
        }
        let Some(call) = fluid.waiting.pop_front() else { return };
        fluid.prefilling = Some(call);
        fluid.kv_tokens += f64::from(self.calls[call].input);
        let took = Duration::from_secs_f64(f64::from(self.calls[call].input) / PREFILL_TOKENS_PER_SEC);
        self.plan(now + took, Happening::Prefilled { endpoint });
    }

    fn prefilled(&mut self, endpoint: usize, now: Time) {
        let fluid = &mut self.fluids[endpoint];
        let call = fluid.prefilling.take().unwrap();
        fluid.decoding += 1;
        let step_ms = 22.0 + 0.5 * f64::from(fluid.decoding);
        let Call {
            lease,
            arrived,
            output,
            gateway,
            ..
        } = self.calls[call];
        fluid.kv_tokens += f64::from(output);
        self.ttfts.push(now.since(arrived).as_secs_f64());
        self.pools[gateway].first_token(lease, now);
        let took = Duration::from_secs_f64(f64::from(output) * step_ms / 1_000.0);
        self.plan(now + took, Happening::Decoded { endpoint, call });
        self.start_prefill(endpoint, now);
    }

    fn decoded(&mut self, endpoint: usize, call: usize, now: Time) {
        let Call {
            lease,
            input,
            output,
            gateway,
            ..
        } = self.calls[call];
        self.fluids[endpoint].decoding -= 1;
        self.fluids[endpoint].kv_tokens -= f64::from(input + output);
        let usage = Usage {
            input: TokenCount::new(input),
            cached_input: None,
            output: TokenCount::new(output),
            reasoning: None,
            source: UsageSource::Reported,
        };
        self.pools[gateway].finish(lease, LeaseEnd::Success, Some(&usage), now);
    }

    fn scrape(&mut self, now: Time) {
        for (fluid, id) in self.fluids.iter().zip(&self.ids) {
            let signals = Signals {
                queued: u32::try_from(fluid.waiting.len()).unwrap(),
                running: fluid.decoding + u32::from(fluid.prefilling.is_some()),
                kv_used: Some(fluid.kv_tokens / KV_TOKENS),
                block_size: Some(16),
                blocks: Some((KV_TOKENS / 16.0) as u32),
                ..Signals::default()
            };
            for pool in &mut self.pools {
                pool.observe(*id, &signals, now, now);
            }
        }
        self.plan(now + SCRAPE, Happening::Scrape);
    }

    fn report(mut self) -> Report {
        let calls = self.calls.len() as f64;
        let mut shares: Vec<_> = self
            .fluids
            .iter()
            .map(|fluid| 100.0 * fluid.calls as f64 / calls)
            .collect();
        shares.sort_by(|a, b| b.total_cmp(a));
        let works = self.fluids.iter().map(|fluid| fluid.work as f64);
        let most_work = works.clone().fold(0.0, f64::max) * ENDPOINTS as f64 / works.sum::<f64>();
        self.ttfts.sort_by(f64::total_cmp);
        let quantile = |q: f64| self.ttfts[((self.ttfts.len() - 1) as f64 * q) as usize];
        for pool in &self.pools {
            pool.check_invariants().unwrap();
            assert_eq!(pool.live_leases(), 0);
        }
        Report {
            shares,
            most_work,
            ttft_p50: quantile(0.50),
            ttft_p99: quantile(0.99),
        }
    }
}

fn scored(scorers: &[Scorer], picker: Picker) -> Profile {
    let weighted: Vec<_> = scorers
        .iter()
        .map(|scorer| Weighted {
            scorer: *scorer,
            weight: 1.0,
        })
        .collect();
    Profile::build(&[], &weighted, &[picker]).unwrap()
}

fn per_call(profile: Profile, gateways: usize) -> Scenario {
    Scenario {
        profile,
        balance: Balance::Call,
        gateways,
    }
}

#[test]
fn per_call_the_shares_are_even_and_per_connection_they_are_lopsided() {
    for seed in [1, 2, 3] {
        let call = per_call(Profile::scored(), 1);
        let connection = Scenario {
            balance: Balance::Connection,
            ..call.clone()
        };
        let (even, lopsided) = (simulate(&call, seed), simulate(&connection, seed));
        for (balance, report) in [("call", &even), ("connection", &lopsided)] {
            let Report {
                shares,
                ttft_p50,
                ttft_p99,
                ..
            } = report;
            println!("per {balance}: shares {shares:.1?} %, first token p50 {ttft_p50:.3} s, p99 {ttft_p99:.3} s");
        }
        assert!(
            even.shares[0] - even.shares[5] <= 3.0 && even.shares[0] <= 20.0,
            "{even:?}"
        );
        let range = lopsided.shares[0] - lopsided.shares[5];
        assert!(range > 20.0 && lopsided.shares[0] > 40.0, "{lopsided:?}");
        assert!(lopsided.ttft_p99 > 5.0 * even.ttft_p99);
    }
}

/// Costs weigh work and not calls: endpoints that have long prompts get fewer of them.
#[test]
fn by_cost_the_work_is_even_where_calls_are_not() {
    for seed in [1, 2, 3] {
        let report = simulate(&per_call(Profile::default(), 1), seed);
        println!("by cost: {report:?}");
        assert!(report.most_work <= 1.10 && report.shares[0] <= 27.0, "{report:?}");
    }
}

#[test]
fn the_default_profile_has_the_shortest_tail_of_those_at_hand() {
    let profiles = [
        ("default", Profile::default()),
        ("least-request, two choices", Profile::least_request()),
        (
            "least-request, highest",
            scored(&[Scorer::LeastRequest], Picker::MaxScore),
        ),
        (
            "queue + kv, highest",
            scored(&[Scorer::Queue, Scorer::Kv], Picker::MaxScore),
        ),
        ("round robin", Profile::round_robin()),
        ("random", scored(&[], Picker::Random)),
    ];
    for gateways in [1, 4] {
        let tails = profiles.clone().map(|(name, profile)| {
            let scenario = per_call(profile, gateways);
            let reports = [1, 2].map(|seed| simulate(&scenario, seed));
            let tail = reports.iter().map(|report| report.ttft_p99).sum::<f64>() / 2.0;
            println!("{gateways} gateways, {name}: p99 {tail:.3} s, {:?}", reports[0].shares);
            tail
        });
        // Several gateways know each other from pages only.
        let share = if gateways == 1 { 0.9 } else { 1.0 };
        assert!(
            tails[1..].iter().all(|tail| tails[0] < share * tail),
            "{gateways}: {tails:?}"
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_report() {
    let scenario = per_call(Profile::default(), 2);
    let [first, second] = [0, 1].map(|_| format!("{:?}", simulate(&scenario, 5)));
    assert_eq!(first, second);
    assert_ne!(first, format!("{:?}", simulate(&scenario, 6)));
}
