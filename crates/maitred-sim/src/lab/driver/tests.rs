//! Runs repeat, every call ends exactly once, and what is skipped over changes nothing.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::num::NonZeroU32;
use std::time::Duration;

use maitred_sched::{PoolOptions, Profile, StalenessPolicy};

use super::*;
use crate::lab::{CallRecord, EndpointPlan, FrozenPage, PageReading, PoolRouter, ScrapePlan};
use crate::model::{EngineOptions, TokenEvents};
use crate::prefix::Prompt;
use crate::profile::EngineProfile;

const BLOCK: u32 = 64;

fn endpoints(count: usize) -> Vec<EndpointPlan> {
    let profile = EngineProfile::find("l40s-8b").unwrap();
    let mut endpoints = vec![EndpointPlan::new(profile, NonZeroU32::new(BLOCK).unwrap()); count];
    // Few blocks, so that requests wait and are preempted.
    for (index, endpoint) in endpoints.iter_mut().enumerate() {
        endpoint.options.blocks = Some(220);
        endpoint.speed = 1.0 + index as f64 * 0.25;
    }
    endpoints
}

/// Random calls: a third of them begin with one of five shared texts.
fn workload(calls: u64, seed: u64) -> impl Iterator<Item = Result<LabCall, Infallible>> {
    let mut rng = Rng::with_seed(seed);
    let mut millis = 0;
    (0..calls).map(move |number| {
        millis += rng.u64(0..80);
        let mut prompt = Prompt::of_passages(None);
        if rng.u8(0..3) == 0 {
            prompt.append(rng.u64(0..5), 700, BLOCK);
        }
        prompt.append(1000 + number, rng.u32(1..1500), BLOCK);
        let mut call = LabCall::new(&prompt, BLOCK, TokenCount::new(rng.u32(0..300)));
        call.arrived = Time::from_millis(millis);
        call.tenant = rng.u32(0..3);
        Ok(call)
    })
}

fn pool(plan: &RunPlan, seed: u64) -> Vec<Box<dyn Router>> {
    let pool = |gateway: u32| -> Box<dyn Router> {
        let setup = (PoolOptions::default(), Profile::default());
        Box::new(PoolRouter::new("pool", &plan.facts(), setup, seed ^ u64::from(gateway)))
    };
    (0..plan.gateways).map(pool).collect()
}

fn eventful(seed: u64) -> RunPlan {
    let second = |at: u64| Time::from_millis(at * 1000);
    let mut plan = RunPlan::new(endpoints(4), seed);
    plan.gateways = 3;
    plan.scrape = ScrapePlan {
        period: Duration::from_millis(150),
        age: Duration::from_millis(400),
        noise: 0.2,
        frozen: vec![FrozenPage {
            endpoint: EndpointIndex::new(2),
            from: second(3),
            until: second(9),
        }],
    };
    plan.restarts = vec![
        Restart {
            endpoint: EndpointIndex::new(1),
            at: second(7),
        },
        Restart {
            endpoint: EndpointIndex::new(0),
            at: second(4),
        },
    ];
    plan
}

fn records(plan: &RunPlan, routers: Vec<Box<dyn Router>>, calls: u64) -> (Vec<CallRecord>, RunSummary) {
    let mut records = Vec::new();
    let mut recorder = |record: &CallRecord| records.push(*record);
    let summary = run(plan, routers, workload(calls, plan.seed), &mut recorder).unwrap();
    (records, summary)
}

/// Each call leaves one record, with its times in order, and the summary counts the same.
fn account(records: &[CallRecord], summary: &RunSummary, calls: u64) -> Result<(), String> {
    let numbers: BTreeSet<u64> = records.iter().map(|record| record.number).collect();
    if records.len() as u64 != calls || numbers.len() as u64 != calls {
        return Err(format!(
            "{} records of {} calls for {calls}",
            records.len(),
            numbers.len()
        ));
    }
    for (end, count) in CallEnd::ALL.iter().zip(summary.ends) {
        let found = records.iter().filter(|record| record.end == *end).count() as u64;
        if found != count {
            return Err(format!("{found} calls ended as {end:?}, and {count} are counted"));
        }
    }
    for record in records {
        let order = [
            Some(record.arrived),
            record.dispatched,
            record.first_token,
            Some(record.finished),
        ];
        let times: Vec<Time> = order.into_iter().flatten().collect();
        let answered = record.end != CallEnd::Answered || record.dispatched.is_some() && record.endpoint.is_some();
        if !times.is_sorted() || !answered || record.cached > record.input {
            return Err(format!("{record:?}"));
        }
    }
    Ok(())
}

#[test]
fn runs_repeat_and_every_call_ends_once() {
    for seed in 1..4 {
        let plan = eventful(seed);
        let first = records(&plan, pool(&plan, seed), 400);
        account(&first.0, &first.1, 400).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        assert_eq!(first, records(&plan, pool(&plan, seed), 400), "seed {seed}");
        assert!(first.1.endpoints.iter().any(|endpoint| endpoint.preemptions > 0));
        assert_eq!(
            first.1.endpoints.iter().map(|endpoint| endpoint.restarts).sum::<u32>(),
            2
        );
        assert!(first.0.iter().any(|record| record.cached.get() > 0));
    }
    let (one, two) = (eventful(1), eventful(2));
    let differ = records(&one, pool(&one, 1), 400).0 != records(&two, pool(&two, 2), 400).0;
    assert!(differ, "another seed is another run");
}

#[test]
fn skipping_over_steps_changes_no_record() {
    for seed in 1..4 {
        let plan = eventful(seed);
        let mut stepwise = plan.clone();
        for endpoint in &mut stepwise.endpoints {
            endpoint.options.token_events = TokenEvents::Each;
        }
        let (skipped, summary) = records(&plan, pool(&plan, seed), 300);
        let (stepped, all) = records(&stepwise, pool(&stepwise, seed), 300);
        assert_eq!(skipped, stepped, "seed {seed}");
        assert_eq!(summary.endpoints, all.endpoints, "seed {seed}");
        assert!(summary.happenings < all.happenings, "nothing was skipped");
    }
}

/// In turn; with a fault if one is wanted.
struct Turns {
    next: u32,
    of: u32,
    keeps: bool,
    /// Whether something has happened since a call was let go.
    may_go: bool,
    held: Vec<u64>,
    told: Vec<u64>,
}

impl Turns {
    fn new(of: u32, keeps: bool) -> Box<Self> {
        Box::new(Self {
            next: 0,
            of,
            keeps,
            may_go: false,
            held: Vec::new(),
            told: Vec::new(),
        })
    }

    fn go(&mut self) -> Placement {
        self.next = (self.next + 1) % self.of;
        Placement::Go {
            endpoint: EndpointIndex::new(self.next),
            predicted_cached: None,
        }
    }
}

impl Router for Turns {
    fn name(&self) -> &'static str {
        "turns"
    }

    fn arrive(&mut self, call: &LabCall, _: Time, _: &FleetView<'_>) -> Placement {
        if call.number % 7 == 6 {
            return Placement::Shed;
        }
        if call.number % 3 == 1 || self.keeps {
            self.held.push(call.number);
            return Placement::Wait;
        }
        self.go()
    }

    fn finished(&mut self, call: &LabCall, _: EndpointIndex, _: &CallReport, _: Time) {
        assert!(!self.told.contains(&call.number), "told twice of {}", call.number);
        self.told.push(call.number);
        self.may_go = true;
    }

    fn page(&mut self, _: EndpointIndex, page: &PageReading, now: Time) {
        assert_eq!(page.asked_at, now);
        self.may_go = true;
    }

    fn released(&mut self, _: Time, _: &FleetView<'_>, out: &mut Vec<Released>) {
        if !std::mem::take(&mut self.may_go) || self.keeps {
            return;
        }
        if let Some(number) = self.held.pop() {
            let placement = self.go();
            out.push(Released { number, placement });
        }
    }
}

#[test]
fn calls_wait_in_the_router_and_go_later() {
    let plan = RunPlan::new(endpoints(2), 5);
    let (told, summary) = records(&plan, vec![Turns::new(2, false)], 200);
    account(&told, &summary, 200).unwrap();
    assert!(summary.ends[1] > 20, "some are shed: {:?}", summary.ends);
    assert!(
        told.iter()
            .any(|record| record.dispatched.is_some_and(|at| at > record.arrived)),
        "some have waited"
    );
}

#[test]
fn a_router_that_keeps_its_calls_ends_with_the_patience() {
    let mut plan = RunPlan::new(endpoints(2), 5);
    plan.end.patience = Duration::from_secs(30);
    let (told, summary) = records(&plan, vec![Turns::new(2, true)], 50);
    account(&told, &summary, 50).unwrap();
    assert!(told.iter().any(|record| record.end == CallEnd::Unfinished));
}

#[test]
fn the_accounts_can_fail() {
    let plan = RunPlan::new(endpoints(2), 5);
    let (told, summary) = records(&plan, vec![Turns::new(2, false)], 100);
    let broken = |change: fn(&mut Vec<CallRecord>)| {
        let mut told = told.clone();
        change(&mut told);
        account(&told, &summary, 100).is_err()
    };
    assert!(broken(|told| told.truncate(99)));
    assert!(broken(|told| told[3] = told[4]));
    assert!(broken(|told| told[0].end = CallEnd::Lost));
    assert!(broken(|told| told[0].finished = Time::ZERO));
    assert!(broken(|told| told[0].cached = told[0].input + TokenCount::new(1)));
}

#[test]
fn too_long_a_call_is_refused_by_its_endpoint() {
    let mut plan = RunPlan::new(endpoints(1), 5);
    plan.endpoints[0].options = EngineOptions {
        context: TokenCount::new(100),
        ..plan.endpoints[0].options.clone()
    };
    let (told, summary) = records(&plan, vec![Turns::new(1, false)], 60);
    account(&told, &summary, 60).unwrap();
    assert!(summary.ends[2] > 30, "{:?}", summary.ends);
}

#[test]
fn a_plan_without_endpoints_or_routers_is_refused() {
    let mut recorder = |_: &CallRecord| {};
    let plan = RunPlan::new(endpoints(1), 1);
    let none = run(&plan, Vec::new(), workload(1, 1), &mut recorder);
    assert_eq!(none, Err(RunFault::Empty));
    let plan = RunPlan::new(Vec::new(), 1);
    let none = run(&plan, vec![Turns::new(1, false)], workload(1, 1), &mut recorder);
    assert_eq!(none, Err(RunFault::Empty));
}

/// Tenths by which the calls come more slowly, so that the fleet is busy and not swamped.
const STRETCH: u64 = 20;

#[test]
fn gateways_that_talk_make_up_for_old_pages() {
    let mean_wait = |sharing: Option<Duration>, seed: u64| {
        let mut plan = RunPlan::new(endpoints(4), seed);
        plan.gateways = 4;
        plan.sharing = sharing;
        plan.scrape.period = Duration::from_secs(10);
        let routers = (0..4_u64).map(|gateway| -> Box<dyn Router> {
            let mut options = PoolOptions::default();
            options.staleness.policy = StalenessPolicy::Trust;
            let setup = (options, Profile::least_cost());
            Box::new(PoolRouter::new("pool", &plan.facts(), setup, seed ^ gateway))
        });
        let mut records = Vec::new();
        let mut recorder = |record: &CallRecord| records.push(*record);
        let calls = workload(1500, seed).map(|call| {
            call.map(|mut call| {
                call.arrived = Time::from_nanos(call.arrived.as_nanos() * STRETCH / 10);
                call
            })
        });
        let summary = run(&plan, routers.collect(), calls, &mut recorder).unwrap();
        account(&records, &summary, 1500).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        let waits = records
            .iter()
            .filter_map(|record| Some(record.first_token?.since(record.arrived).as_secs_f64()));
        waits.sum::<f64>() / 1500.0
    };
    let period = Some(Duration::from_millis(100));
    let (mut alone, mut together) = (0.0, 0.0);
    for seed in 1..6 {
        alone += mean_wait(None, seed);
        together += mean_wait(period, seed);
        assert!(
            (mean_wait(period, seed) - mean_wait(period, seed)).abs() < f64::EPSILON,
            "seed {seed}"
        );
    }
    assert!(together < 0.9 * alone, "{together} with a talk, {alone} without");
}
