use maitred_types::{PromptChain, Time, TokenCount};

use super::*;
use crate::lab::{CallEnd, CallReport, EndpointIndex, FleetView, LabCall, PageReading, Placement};
use crate::model::{EngineModel, EngineOptions};
use crate::profile::EngineProfile;

mod ranking;

const BLOCK: u32 = 16;

/// A fleet whose engines do nothing, and a policy that is told of calls by hand.
struct Table {
    router: Box<dyn Router>,
    engines: Vec<EngineModel>,
    calls: Vec<LabCall>,
    now: Time,
}

fn facts(blocks: u32) -> EndpointFacts {
    EndpointFacts {
        costs: EngineProfile::ALL[0].costs,
        block_size: BLOCK,
        blocks,
        batched_tokens: 8192,
        sequences: 256,
    }
}

/// The chain of a prompt whose blocks are `names`, each of which appears only after the same ones before it.
fn chain(names: &[u64]) -> PromptChain {
    let mut seed = 1_u64;
    let hashes: Vec<u64> = names
        .iter()
        .map(|name| {
            seed = seed.wrapping_mul(1_000_003) ^ (name + 1);
            seed
        })
        .collect();
    PromptChain::new(hashes, BLOCK as f32)
}

fn index(endpoint: usize) -> EndpointIndex {
    EndpointIndex::new(endpoint.try_into().unwrap())
}

/// The tokens of full blocks and `more`.
fn tokens(blocks: &[u64], more: u32) -> TokenCount {
    TokenCount::new(u32::try_from(blocks.len()).unwrap() * BLOCK + more)
}

/// A prompt of `count` blocks named from `from` on.
fn run(from: u64, count: u64) -> Vec<u64> {
    (from..from + count).collect()
}

impl Table {
    fn new(name: &str, endpoints: usize) -> Self {
        let start = Time::ZERO;
        let engine = EngineModel::new(&EngineProfile::ALL[0], &EngineOptions::default(), start);
        Self {
            router: rival(name, &vec![facts(1000); endpoints], 7).unwrap(),
            engines: vec![engine; endpoints],
            calls: Vec::new(),
            now: start,
        }
    }

    /// Sends a call and tells where it went.
    fn send(&mut self, blocks: &[u64]) -> usize {
        self.send_with(blocks).0
    }

    /// The same, with the predicted hit.
    fn send_with(&mut self, blocks: &[u64]) -> (usize, Option<u32>) {
        let call = LabCall {
            number: self.calls.len() as u64,
            arrived: self.now,
            ..LabCall::of_chain(chain(blocks), tokens(blocks, 8), TokenCount::new(100))
        };
        let fleet = FleetView::new(&self.engines, self.now);
        let placement = self.router.arrive(&call, self.now, &fleet);
        self.calls.push(call);
        match placement {
            Placement::Go {
                endpoint,
                predicted_cached,
            } => (endpoint.get(), predicted_cached.map(TokenCount::get)),
            other => panic!("{other:?}"),
        }
    }

    /// The first token of the `number`th call comes.
    fn first_token(&mut self, number: usize, endpoint: usize) {
        let endpoint = index(endpoint);
        self.router.first_token(&self.calls[number], endpoint, self.now);
    }

    fn finish(&mut self, number: usize, endpoint: usize) {
        let report = CallReport {
            cached: None,
            output: TokenCount::new(100),
            end: CallEnd::Answered,
        };
        let endpoint = index(endpoint);
        self.router.finished(&self.calls[number], endpoint, &report, self.now);
    }

    fn page(&mut self, endpoint: usize, queued: u32, kv_used: f64) {
        let page = PageReading {
            queued,
            kv_used,
            ..PageReading::default()
        };
        self.router.page(index(endpoint), &page, self.now);
    }
}

fn picks(name: &str, calls: usize) -> Vec<usize> {
    let mut table = Table::new(name, 4);
    (0..calls).map(|call| table.send(&run(call as u64 * 100, 8))).collect()
}

#[test]
fn every_name_leads_to_the_policy_of_that_name() {
    for name in RIVALS {
        let router = rival(name, &[facts(100)], 1).unwrap();
        assert_eq!(router.name(), name);
        assert_eq!(picks(name, 40), picks(name, 40), "{name} differs for the same seed");
        assert_eq!(Table::new(name, 1).send(&run(0, 4)), 0, "{name} with one endpoint");
        assert_eq!(
            Table::new(name, 1).send(&[]),
            0,
            "{name} with a prompt of no full block"
        );
    }
    assert!(rival("best", &[facts(100)], 1).is_none());
}

#[test]
fn round_robin_goes_round() {
    assert_eq!(picks("round_robin", 6), [0, 1, 2, 3, 0, 1]);
}

#[test]
fn random_is_even_in_the_long_run() {
    let picks = picks("random", 4000);
    for endpoint in 0..4 {
        let count = picks.iter().filter(|pick| **pick == endpoint).count();
        assert!((900..1100).contains(&count), "{endpoint} got {count}");
    }
}

#[test]
fn least_request_fills_the_emptiest() {
    let mut table = Table::new("least_request", 3);
    let first: Vec<usize> = (0..3).map(|_| table.send(&[])).collect();
    assert_eq!(first.iter().sum::<usize>(), 3, "{first:?}: each once");
    table.finish(1, first[1]);
    assert_eq!(table.send(&[]), first[1]);
}

#[test]
fn power_of_two_never_takes_the_fullest_of_all() {
    let mut table = Table::new("power_of_two", 3);
    let mut counts = [0_i32; 3];
    for _ in 0..300 {
        let chosen = table.send(&[]);
        let most = counts.iter().copied().max().unwrap();
        let is_alone = counts.iter().filter(|count| **count == most).count() == 1;
        assert!(counts[chosen] < most || !is_alone, "{counts:?}, chose {chosen}");
        counts[chosen] += 1;
    }
}

#[test]
fn chwbl_follows_the_prefix_until_the_bound() {
    let mut table = Table::new("chwbl", 4);
    // 64 blocks are the key; what follows them does not count.
    let same = |tail: u64| [run(0, 64), run(1000 + tail, 3)].concat();
    let home = table.send(&same(0));
    table.finish(0, home);
    for call in 1..20 {
        assert_eq!(table.send(&same(call)), home, "alone it is below the bound");
        table.finish(usize::try_from(call).unwrap(), home);
    }
    // Nobody finishes any more: no endpoint goes over ⌈1.25 · mean⌉.
    let mut counts = [0_u32; 4];
    for call in 1..=100 {
        let chosen = table.send(&same(100 + call));
        counts[chosen] += 1;
        let most = (1.25 * call as f64 / 4.0).ceil();
        assert!(f64::from(counts[chosen]) <= most, "{counts:?} after {call}");
    }
    assert!(counts[home] >= 31, "{counts:?}: the home is as full as it may be");
}

#[test]
fn smg_switches_by_match_and_by_imbalance() {
    let mut table = Table::new("smg_cache_aware", 3);
    let home = table.send(&run(0, 10));
    // 4 of 11 blocks match: above 0.3, so the holder, although it is the fuller one.
    assert_eq!(table.send(&[run(0, 4), run(500, 7)].concat()), home);
    // 3 of 11 do not.
    assert_ne!(table.send(&[run(0, 3), run(600, 8)].concat()), home);
    // At 33 calls more than the emptiest one, affinity ends.
    let mut sent = Vec::new();
    while sent.len() < 60 {
        sent.push(table.send(&run(0, 10)));
    }
    let switch = sent.iter().position(|endpoint| *endpoint != home).unwrap();
    assert_eq!(switch, 31, "it had two calls before, and 33 when it was left");
}

#[test]
fn dynamo_adds_prefill_and_decode_blocks() {
    let mut table = Table::new("dynamo_linear", 2);
    let large = table.send(&run(0, 20));
    let small = table.send(&run(100, 5));
    assert_ne!(large, small, "blocks to prefill and to decode are more than none");
    // After the first token only the 20 blocks to decode are left there; every prompt here ends in half a block.
    table.first_token(0, large);
    assert_eq!(
        table.send(&run(200, 3)),
        large,
        "4 · 3.5 + 23 against 4 · (5.5 + 3.5) + 8"
    );
    assert_eq!(
        table.send(&run(300, 4)),
        small,
        "4 · (3.5 + 4.5) + 27 against 4 · (5.5 + 4.5) + 9"
    );
    // Shared active blocks are counted once: the large one has all the blocks of this call, else it would cost 139.
    table.first_token(1, small);
    assert_eq!(
        table.send(&run(0, 20)),
        large,
        "4 · (3.5 + 20.5) + 23 against 4 · (4.5 + 20.5) + 29"
    );
}

#[test]
fn llmd_default_weighs_queue_room_and_prefix() {
    let mut table = Table::new("llmd_default", 2);
    // The queue's score is scaled between the least and the most: one waiting request is worth 2.
    table.page(0, 1, 0.0);
    table.page(1, 0, 0.9);
    assert_eq!(table.send(&run(0, 8)), 1, "0 + 2 against 2 + 0.2");
    table.page(0, 0, 0.0);
    assert_eq!(table.send(&run(500, 8)), 0, "2 + 2 against 2 + 0.2");
    // 8 of 9 entries of 64 tokens match: 3 · 8/9 = 2.67 outweigh 1.8 of room.
    table.page(0, 0, 0.9);
    table.page(1, 0, 0.0);
    assert_eq!(table.send(&run(1000, 32)), 1);
    table.page(0, 0, 0.0);
    table.page(1, 0, 0.8);
    assert_eq!(
        table.send_with(&run(1000, 32)),
        (1, Some(512)),
        "2 + 0.4 + 2.67 against 2 + 2"
    );
    table.page(1, 1, 0.8);
    assert_eq!(table.send(&run(1000, 32)), 0, "0 + 0.4 + 2.67 against 4");
}

#[test]
fn llmd_sticky_stays_until_two_seconds() {
    let mut table = Table::new("llmd_sticky", 2);
    let home = table.send(&run(0, 64));
    // 49 383 tokens a second and 2 s: 98 765 tokens more than the other one.
    let mut sent = 1;
    while table.send(&[run(0, 64), run(10_000 + sent * 100, 10)].concat()) == home {
        sent += 1;
        assert!(sent < 20_000, "it never left");
    }
    // 1032 tokens for the first and 168 for each of the others.
    let expected = (98_765.0_f64 - 1032.0) / 168.0;
    assert!((sent as f64 - expected).abs() < 3.0, "{sent} against {expected}");
    // Below the threshold it is the token load that counts.
    assert_ne!(table.send(&[run(0, 64), run(5000, 17)].concat()), home);
}

#[test]
fn lmetric_multiplies_work_and_company() {
    let mut table = Table::new("lmetric_product", 2);
    let heavy = table.send(&run(0, 1000));
    let light = 1 - heavy;
    assert_eq!(table.send(&run(5000, 10)), light);
    // (168 + 168) · 2 is less than (16 008 + 168) · 2; nine more times too.
    for call in 0..9 {
        assert_eq!(table.send(&run(6000 + call * 50, 10)), light);
    }
    // The heavy prompt is computed: (0 + 168) · 2 against (1680 + 168) · 11.
    table.first_token(0, heavy);
    assert_eq!(table.send(&run(9000, 10)), heavy);
}

#[test]
fn preble_exploits_what_is_there_and_leaves_the_heaviest() {
    let mut table = Table::new("preble", 2);
    let home = table.send(&run(0, 100));
    assert_ne!(table.send(&run(500, 100)), home, "it explores where the load is less");
    // More matched than missing: the holder, while its load is less than 1.5 times the other's.
    assert_eq!(table.send(&[run(0, 100), run(900, 10)].concat()), home);
    // Not more than missing: the cheapest.
    assert_ne!(table.send(&[run(0, 5), run(2000, 95)].concat()), home);
    let mut sent = 0;
    while table.send(&[run(0, 100), run(3000 + sent * 50, 40)].concat()) == home {
        sent += 1;
        assert!(sent < 1000, "it never left");
    }
    assert!(sent > 1);
    // After three minutes the loads are forgotten.
    table.now = Time::from_millis(181_000);
    assert_eq!(table.send(&[run(0, 100), run(9000, 10)].concat()), home);
}

#[test]
fn the_oracle_finds_what_is_being_computed_and_fills_the_idle() {
    let mut table = Table::new("oracle", 3);
    let home = table.send(&run(0, 400));
    assert_ne!(
        table.send(&run(5000, 400)),
        home,
        "ties go to whoever has had least work"
    );
    let again = table.send(&[run(0, 400), run(9000, 4)].concat());
    assert_eq!(again, home, "what is being computed will be cached");
    table.first_token(0, home);
    table.finish(0, home);
    table.finish(2, home);
    // The engines of this table compute nothing, so now nothing is cached anywhere.
    assert_ne!(table.send(&run(0, 400)), home);
}

#[test]
fn believed_caches_are_bounded_and_forget_the_deepest_first() {
    let belief = believed::Belief {
        entry_tokens: 16,
        capacity: believed::Capacity::KvTokens,
        matching: believed::Matching::Contiguous,
    };
    let mut caches = believed::BelievedCaches::new(&[facts(10), facts(10)], belief);
    let mut matched = [0; 2];
    caches.insert(0, &chain(&run(0, 8)));
    caches.insert(0, &chain(&run(100, 4)));
    caches.matched(&chain(&run(0, 8)), &mut matched);
    assert_eq!(matched, [6 * 16, 0], "the last two of the older prompt made room");
    assert_eq!(caches.evicted(0, 3).collect::<Vec<_>>(), [1, 1, 1]);
    assert_eq!(caches.evicted(0, 50).count(), 10);
    caches.clear(0);
    caches.matched(&chain(&run(0, 8)), &mut matched);
    assert_eq!(matched, [0, 0]);
}

#[test]
fn a_match_may_go_on_as_long_as_any_endpoint_holds() {
    let belief = believed::Belief {
        entry_tokens: 64,
        capacity: believed::Capacity::KvBlocks,
        matching: believed::Matching::UntilNobodyHolds,
    };
    let mut caches = believed::BelievedCaches::new(&[facts(2), facts(8)], belief);
    let mut matched = [0; 2];
    // Entries are the 4th, 8th, … block; endpoint 0 has room for two and keeps the first ones.
    caches.insert(0, &chain(&run(0, 16)));
    caches.insert(1, &chain(&run(0, 8)));
    caches.matched(&chain(&run(0, 19)), &mut matched);
    assert_eq!(matched, [128, 128]);
}

#[test]
fn the_pooled_cache_has_the_room_of_all() {
    let call = |blocks: &[u64]| LabCall::of_chain(chain(blocks), tokens(blocks, 0), TokenCount::ZERO);
    let hits = |endpoints: usize| {
        let mut pooled = PooledCache::new(&vec![facts(11); endpoints]);
        for _ in 0..2 {
            pooled.arrive(&call(&run(0, 8)));
            pooled.arrive(&call(&run(100, 8)));
        }
        pooled.hits()
    };
    // The last token of a prompt is always computed: of eight full blocks seven count.
    assert_eq!(hits(2).cached_tokens, 2 * 7 * 16);
    // Ten blocks for two prompts of eight: each finds the two that the other one left of it.
    assert_eq!(hits(1).cached_tokens, 2 * 2 * 16);
    assert_eq!(hits(1).input_tokens, 4 * 128);
    // A next turn finds the answer too: 8 + 4 blocks, of which the last one of its own is new.
    let mut pooled = PooledCache::new(&[facts(100)]);
    let first = LabCall::of_chain(chain(&run(0, 8)), TokenCount::new(128), TokenCount::new(64));
    let turn = [first.answered(first.output).hashes(), &[77]].concat();
    pooled.arrive(&first);
    let turn = PromptChain::new(turn, BLOCK as f32);
    pooled.arrive(&LabCall::of_chain(turn, TokenCount::new(210), TokenCount::ZERO));
    assert_eq!(pooled.hits().cached_tokens, 12 * 16);
}
