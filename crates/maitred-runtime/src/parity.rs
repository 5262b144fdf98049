//! The laboratory and the gateway make the same decisions.
//!
//! One trace goes twice through the same fleet of engine models in virtual time: once to a bare core, as the laboratory runs it, and
//! once to the host that the data path asks, with its lock, its settings from a file, its translation of asks, its pages as
//! signals and its bookings. Every call must go to the same endpoint at the same moment.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use maitred_config::EngineSettings;
use maitred_sched::{Delivery, EndpointOptions, Proofs, ReadinessReport, SignalSet, Signals};
use maitred_sim::lab::{
    CallEnd, CallRecord, CallReport, EndpointFacts, EndpointIndex, EndpointPlan, FleetView, LabCall, PageReading,
    Placement, PoolRouter, Released, Router, RunPlan, run,
};
use maitred_sim::{EngineProfile, Prompt};
use maitred_types::{Address, EndpointId, LeaseEnd, Time, TokenCount, Usage, UsageSource};

use crate::booking::{Ask, Booking, NoPlace};
use crate::host::{PoolHost, options};
use crate::testing::{DRAIN, settings};

const BLOCK: u32 = 16;
const ENDPOINTS: usize = 5;
const SEED: u64 = 1;

/// The pool of both.
const POOL: &str = "profile: mine
                    staleness: { after: 1s }
                    waiting: { prefill_tokens: 300 }
                    endpoints: [{ address: unused:1 }]";

/// The host, as a policy of the laboratory.
struct HostRouter {
    host: Arc<PoolHost>,
    ids: Vec<EndpointId>,
    bookings: HashMap<u64, Booking>,
    /// Calls that wait, by their number.
    waiting: BTreeMap<u64, Asking>,
}

type Asking = Pin<Box<dyn Future<Output = Result<Booking, NoPlace>>>>;

impl HostRouter {
    fn new(host: Arc<PoolHost>, engine: &EngineSettings, facts: &[EndpointFacts]) -> Self {
        let mut ids = Vec::new();
        for (index, facts) in facts.iter().enumerate() {
            let engine = EngineSettings {
                options: EndpointOptions {
                    block_size: Some(facts.block_size),
                    blocks: Some(facts.blocks),
                    reports: REPORTS,
                    ..EndpointOptions::default()
                },
                ..engine.clone()
            };
            let address = Address::from(format!("endpoint-{index}:8000"));
            let bell = host.add(&address, &engine, Time::ZERO).unwrap();
            let id = host.subject(&address, &bell).unwrap().id;
            host.probed(id, ReadinessReport::Healthy(Proofs::ALL), Time::ZERO);
            ids.push(id);
        }
        Self {
            host,
            ids,
            bookings: HashMap::new(),
            waiting: BTreeMap::new(),
        }
    }

    /// What has become of an ask.
    fn look(&mut self, number: u64, mut asking: Asking) -> Placement {
        match asking.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => {
                self.waiting.insert(number, asking);
                Placement::Wait
            }
            Poll::Ready(Err(_)) => Placement::Shed,
            Poll::Ready(Ok(booking)) => {
                let endpoint = EndpointIndex::new(u32::try_from(booking.endpoint().slot.index()).unwrap());
                self.bookings.insert(number, booking);
                Placement::Go {
                    endpoint,
                    predicted_cached: None,
                }
            }
        }
    }
}

const REPORTS: SignalSet = SignalSet::QUEUED
    .union(SignalSet::RUNNING)
    .union(SignalSet::KV)
    .union(SignalSet::BLOCKS)
    .union(SignalSet::PROGRESS);

impl Router for HostRouter {
    fn name(&self) -> &'static str {
        "host"
    }

    fn arrive(&mut self, call: &LabCall, now: Time, _: &FleetView<'_>) -> Placement {
        let (host, call) = (Arc::clone(&self.host), call.clone());
        let number = call.number;
        let asking = async move {
            let core = PoolRouter::ask(&call);
            let ask = Ask {
                model: core.model,
                session: core.session,
                input_tokens: core.input_tokens,
                output_tokens: core.output_tokens,
                output_limit: core.output_limit,
                length_key: core.length_key,
                chain: core.chain,
                delivery: Delivery::Streamed,
                class: core.class,
                tenant: core.tenant,
                bytes: core.bytes,
                ..Ask::default()
            };
            host.ask(&ask, now).await
        };
        // This test is one long step of a task, of which Tokio would ask to take turns.
        self.look(number, Box::pin(tokio::task::unconstrained(asking)))
    }

    fn released(&mut self, now: Time, _: &FleetView<'_>, out: &mut Vec<Released>) {
        self.host.advance(now);
        for (number, asking) in std::mem::take(&mut self.waiting) {
            let placement = self.look(number, asking);
            if placement != Placement::Wait {
                out.push(Released { number, placement });
            }
        }
    }

    fn next_wakeup(&self) -> Option<Time> {
        let due = self.host.with_core(Time::ZERO, |core| core.pool.next_wakeup());
        due.filter(|_| !self.waiting.is_empty())
    }

    fn first_token(&mut self, call: &LabCall, _: EndpointIndex, now: Time) {
        if let Some(booking) = self.bookings.get(&call.number) {
            booking.first_token(now);
        }
    }

    fn finished(&mut self, call: &LabCall, _: EndpointIndex, report: &CallReport, now: Time) {
        let Some(booking) = self.bookings.remove(&call.number) else {
            return;
        };
        let usage = Usage {
            input: call.input,
            cached_input: report.cached,
            output: report.output,
            reasoning: None,
            source: UsageSource::Reported,
        };
        match report.end {
            CallEnd::Answered => booking.finish(LeaseEnd::Success, Some(&usage), now),
            CallEnd::Refused | CallEnd::Shed => booking.finish(LeaseEnd::Success, None, now),
            CallEnd::Lost | CallEnd::Unfinished => booking.finish(LeaseEnd::Failure, None, now),
        };
    }

    fn page(&mut self, endpoint: EndpointIndex, page: &PageReading, now: Time) {
        let signals = Signals {
            queued: page.queued,
            running: page.running,
            kv_used: Some(page.kv_used),
            block_size: Some(page.block_size),
            blocks: Some(page.blocks),
            lora: None,
            progress: Some(page.progress),
        };
        self.host
            .observe(self.ids[endpoint.get()], &signals, page.asked_at, now);
    }
}

/// The bare core. Who is released at one instant is told by number, since the host cannot tell in which order that was.
struct BareRouter(PoolRouter);

impl Router for BareRouter {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn arrive(&mut self, call: &LabCall, now: Time, fleet: &FleetView<'_>) -> Placement {
        self.0.arrive(call, now, fleet)
    }

    fn released(&mut self, now: Time, fleet: &FleetView<'_>, out: &mut Vec<Released>) {
        self.0.released(now, fleet, out);
        out.sort_by_key(|released| released.number);
    }

    fn next_wakeup(&self) -> Option<Time> {
        self.0.next_wakeup()
    }

    fn first_token(&mut self, call: &LabCall, endpoint: EndpointIndex, now: Time) {
        self.0.first_token(call, endpoint, now);
    }

    fn finished(&mut self, call: &LabCall, endpoint: EndpointIndex, report: &CallReport, now: Time) {
        self.0.finished(call, endpoint, report, now);
    }

    fn page(&mut self, endpoint: EndpointIndex, page: &PageReading, now: Time) {
        self.0.page(endpoint, page, now);
    }
}

/// Random calls: a third of them begin with one of five shared texts, some belong to conversations.
fn trace(calls: u64, seed: u64) -> impl Iterator<Item = Result<LabCall, Infallible>> {
    // The generator called splitmix64 (Steele, Lea, Flood, 2014).
    let mut state = seed;
    let mut below = move |bound: u64| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    };
    let mut millis = 0;
    (0..calls).map(move |number| {
        millis += below(45);
        let mut prompt = Prompt::of_passages(None);
        if below(3) == 0 {
            prompt.append(below(5), 700, BLOCK);
        }
        let tokens = |number: u64| u32::try_from(number).unwrap();
        prompt.append(1000 + number, tokens(1 + below(1500)), BLOCK);
        let mut call = LabCall::new(&prompt, BLOCK, TokenCount::new(tokens(below(200))));
        call.arrived = Time::from_millis(millis);
        call.max_output = (below(2) == 0).then_some(TokenCount::new(256));
        call.session = (below(4) == 0).then(|| below(20));
        call.tenant = tokens(below(3));
        Ok(call)
    })
}

/// A call's number, where it went, when, and how long it waited before.
type Decision = (u64, Option<EndpointIndex>, Option<Time>, Duration);

/// Where each call went and when, by its number.
fn decisions(plan: &RunPlan, router: Box<dyn Router>) -> Vec<Decision> {
    let mut decisions = Vec::new();
    let mut recorder = |record: &CallRecord| {
        let waited = record.dispatched.map_or(Duration::ZERO, |at| at - record.arrived);
        decisions.push((record.number, record.endpoint, record.dispatched, waited));
    };
    run(plan, vec![router], trace(1200, 7), &mut recorder).unwrap();
    decisions.sort_by_key(|decision| decision.0);
    decisions
}

fn plan() -> RunPlan {
    let profile = EngineProfile::find("l40s-8b").unwrap();
    RunPlan::new(
        vec![EndpointPlan::new(profile, NonZeroU32::new(BLOCK).unwrap()); ENDPOINTS],
        3,
    )
}

/// Both ways, with the seed of the bare core.
fn both(profile: &str, seed: u64) -> [Vec<Decision>; 2] {
    let plan = plan();
    let mut settings = settings(POOL.replace("mine", profile).as_str());
    let pool = Arc::clone(&settings.pools[0]);
    let core = (options(&pool, DRAIN), pool.profile.clone());
    let bare = PoolRouter::new("bare", &plan.facts(), core, seed);
    let meters = maitred_obs::Meters::new("test");
    let engine = pool.endpoints[0].engine.clone();
    settings.pools.clear();
    let host = PoolHost::new(pool, DRAIN, &meters, &Arc::default(), SEED);
    let host = HostRouter::new(host, &engine, &plan.facts());
    [
        decisions(&plan, Box::new(BareRouter(bare))),
        decisions(&plan, Box::new(host)),
    ]
}

#[tokio::test(start_paused = true)]
async fn the_host_decides_as_the_laboratory_does() {
    for profile in ["default", "least-request"] {
        let [bare, host] = both(profile, SEED);
        let differs = bare.iter().zip(&host).find(|(bare, host)| bare != host);
        assert_eq!(bare.len(), 1200);
        let waited = bare.iter().filter(|call| call.3 > Duration::ZERO).count();
        assert!((50..1000).contains(&waited), "{waited} wait");
        assert!(differs.is_none(), "{profile}: {differs:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_seed_is_noticed() {
    let [bare, host] = both("least-request", SEED + 1);
    assert_ne!(bare, host);
}
