//! What the prefix index does in the life of a pool, seen through the pool's public face.

use std::time::Duration;

use maitred_types::{LeaseEnd, PromptChain, TokenCount, Usage, UsageSource};

use super::{SECOND, Stage};
use crate::hash::mix;
use crate::{
    Ask, Picked, Picker, PoolEvent, PoolOptions, PrefixSnapshot, Profile, Scorer, Signals, SnapshotError, Weighted,
};

const BLOCKS: usize = 100;
const TOKENS: u32 = 1_650;

fn affine() -> Profile {
    let prefix = Weighted {
        scorer: Scorer::PrefixAffinity,
        weight: 1.0,
    };
    Profile::build(&[], &[prefix], &[Picker::MaxScore]).unwrap()
}

fn chain(of: u64, blocks: usize) -> PromptChain {
    let mut last = of;
    let hashes: Vec<_> = std::iter::repeat_with(|| {
        last = mix(last);
        last
    })
    .take(blocks)
    .collect();
    PromptChain::new(hashes, 16.0)
}

fn ask(chain: &PromptChain) -> Ask<'_> {
    Ask {
        model: "tiny",
        input_tokens: TokenCount::new(TOKENS),
        chain: Some(chain),
        ..Ask::default()
    }
}

fn usage(cached: Option<u32>) -> Usage {
    Usage {
        input: TokenCount::new(TOKENS),
        cached_input: cached.map(TokenCount::new),
        output: TokenCount::new(20),
        reasoning: None,
        source: UsageSource::Reported,
    }
}

impl Stage {
    fn ask_for(&mut self, chain: &PromptChain) -> Picked {
        self.pick_as(&ask(chain)).unwrap()
    }

    /// A whole call whose answer reports so many cached tokens.
    fn serve(&mut self, chain: &PromptChain, cached: Option<u32>) -> Picked {
        let picked = self.serve_unchecked(chain, cached);
        self.pool.check_invariants().unwrap();
        picked
    }

    /// The same without a look at everything.
    fn serve_unchecked(&mut self, chain: &PromptChain, cached: Option<u32>) -> Picked {
        let picked = self.pool.pick(&ask(chain), self.now).unwrap();
        self.pool.first_token(picked.lease, self.now);
        let usage = usage(cached);
        self.pool
            .finish(picked.lease, LeaseEnd::Success, Some(&usage), self.now);
        picked
    }

    /// What each endpoint is taken to hold of a prompt.
    fn held(&mut self, chain: &PromptChain) -> Vec<f32> {
        let full = Ask {
            explain: crate::Explain::Full,
            ..ask(chain)
        };
        let why = self.pick_as(&full).unwrap();
        let held = self.ids.iter().map(|id| {
            let ranked = why.why.ranked().iter().find(|ranked| ranked.endpoint == *id);
            ranked.map_or(-1.0, |ranked| ranked.matched)
        });
        let held = held.collect();
        // Ended before its first token, it leaves nothing behind.
        self.finish(&why, LeaseEnd::Cancelled);
        held
    }

    fn cache(&self, at: usize) -> crate::CacheRow {
        self.row(self.ids[at]).unwrap().cache
    }
}

fn matched(picked: &Picked) -> f32 {
    picked.why.ranked()[0].matched
}

fn assert_tokens(found: f32, expected: f32) {
    assert!((found - expected).abs() < 0.5, "{found} tokens, not {expected}");
}

#[test]
fn calls_with_the_same_beginning_follow_each_other() {
    let mut stage = Stage::ready(6, affine());
    let prompt = chain(1, BLOCKS);
    let first = stage.serve(&prompt, None);
    assert_tokens(matched(&first), 0.0);
    for blocks in [BLOCKS, 40, BLOCKS + 20] {
        let next = stage.serve(&chain(1, blocks), None);
        assert_eq!(next.endpoint, first.endpoint);
        assert_tokens(matched(&next), 16.0 * blocks.min(BLOCKS) as f32);
    }
    let other = stage.ask_for(&chain(2, BLOCKS));
    assert_tokens(matched(&other), 0.0);
}

#[test]
fn what_is_about_to_come_counts_and_goes_if_it_does_not_come() {
    let mut stage = Stage::ready(4, affine());
    let prompt = chain(1, BLOCKS);
    let first = stage.ask_for(&prompt);
    let second = stage.ask_for(&prompt);
    assert_eq!(
        second.endpoint, first.endpoint,
        "it queues behind the first and finds its blocks"
    );
    assert_tokens(matched(&second), 1_600.0);
    stage.finish(&first, LeaseEnd::Failure);
    stage.finish(&second, LeaseEnd::Cancelled);
    assert_eq!(stage.held(&prompt), [0.0; 4]);
    // The one that survives brings it after all.
    let (first, second) = (stage.ask_for(&prompt), stage.ask_for(&prompt));
    stage.finish(&first, LeaseEnd::Failure);
    stage.pool.first_token(second.lease, stage.now);
    let place = stage.place(&second);
    assert_tokens(stage.held(&prompt)[place], 1_600.0);
}

#[test]
fn the_last_token_is_always_computed() {
    let mut stage = Stage::ready(2, affine());
    let prompt = chain(1, BLOCKS);
    let exact = Ask {
        input_tokens: TokenCount::new(1_600),
        ..ask(&prompt)
    };
    let first = stage.pick_as(&exact).unwrap();
    stage.pool.first_token(first.lease, stage.now);
    let second = stage.pick_as(&exact).unwrap();
    assert_tokens(matched(&second), 1_584.0);
}

#[test]
fn the_answer_is_part_of_the_next_turn() {
    let mut stage = Stage::ready(3, affine());
    let picked = stage.ask_for(&chain(1, BLOCKS));
    stage.pool.first_token(picked.lease, stage.now);
    stage.pool.extend(picked.lease, &chain(1, BLOCKS + 10), stage.now);
    stage.finish(&picked, LeaseEnd::Success);
    // Too late: the lease is over.
    stage.pool.extend(picked.lease, &chain(1, BLOCKS + 50), stage.now);
    let next = stage.serve(&chain(1, BLOCKS + 30), None);
    assert_eq!(next.endpoint, picked.endpoint);
    assert_tokens(matched(&next), 16.0 * (BLOCKS + 10) as f32);
}

#[test]
fn an_answer_that_read_less_corrects_the_index() {
    let mut stage = Stage::ready(1, affine());
    let (prompt, branch) = (chain(1, BLOCKS), {
        let mut hashes = chain(1, 60).hashes().to_vec();
        hashes.extend(chain(9, 30).hashes());
        PromptChain::new(hashes, 16.0)
    });
    stage.serve(&prompt, None);
    stage.serve(&branch, None);
    assert_tokens(stage.held(&branch)[0], 1_440.0);
    let before = stage.cache(0);
    // The engine had kept twenty blocks: the branch at the sixtieth is gone, the prompt itself is there again.
    stage.serve(&prompt, Some(320));
    assert_tokens(stage.held(&branch)[0], 960.0);
    assert_tokens(stage.held(&prompt)[0], 1_600.0);
    let after = stage.cache(0);
    assert!(after.scale < before.scale && after.capacity_tokens < before.capacity_tokens);
    let said = after.calibration;
    assert_eq!(
        (said.answers, said.predicted, said.reported, said.error),
        (1, 1_600, 320, 1_280)
    );
    let figures = stage.pool.prefix_figures();
    assert_eq!(
        (figures.shortfalls, figures.surpluses, figures.calibration),
        (1, 0, said)
    );
}

#[test]
fn an_answer_that_says_nothing_changes_nothing() {
    let mut stage = Stage::ready(1, affine());
    stage.serve(&chain(1, BLOCKS), None);
    let before = stage.cache(0);
    stage.serve(&chain(1, BLOCKS), None);
    assert_eq!(stage.cache(0), before);
}

#[test]
fn an_answer_that_read_more_lets_the_capacity_grow() {
    let mut stage = Stage::ready(1, affine());
    let before = stage.cache(0).capacity_tokens;
    stage.serve(&chain(1, BLOCKS), Some(1_200));
    assert!(stage.cache(0).capacity_tokens > before);
    // What was about to come when the call was booked is no certainty, and its lack no evidence.
    let pending = stage.ask_for(&chain(2, BLOCKS));
    let scale = stage.cache(0).scale;
    stage.serve(&chain(2, BLOCKS), Some(0));
    assert!((stage.cache(0).scale - scale).abs() < f32::EPSILON);
    stage.finish(&pending, LeaseEnd::Success);
}

#[test]
fn an_endpoint_holds_no_more_than_its_cache() {
    let mut stage = Stage::ready(1, affine());
    let page = Signals {
        block_size: Some(16),
        blocks: Some(500),
        ..Signals::default()
    };
    stage.page(stage.ids[0], &page);
    for of in 0..20 {
        stage.serve(&chain(of, BLOCKS), None);
        let cache = stage.cache(0);
        assert!(cache.held_tokens <= 8_000, "{cache:?}");
        assert_eq!(cache.capacity_tokens, Some(8_000));
    }
    // The newest are there in full, an older one only in part: its end went first.
    assert_tokens(stage.held(&chain(19, BLOCKS))[0], 1_600.0);
    assert_tokens(stage.held(&chain(3, BLOCKS))[0], 0.0);
    // What running calls hold beside it is not there for prefixes.
    let chainless = Ask {
        output_tokens: TokenCount::new(350),
        ..super::ask(TOKENS)
    };
    let running = stage.pick_as(&chainless).unwrap();
    assert_eq!(stage.cache(0).capacity_tokens, Some(6_000));
    stage.serve(&chain(19, BLOCKS), None);
    assert!(stage.cache(0).held_tokens <= 6_000);
    stage.finish(&running, LeaseEnd::Success);
    assert_eq!(stage.cache(0).capacity_tokens, Some(8_000));
}

#[test]
fn a_new_life_inherits_no_cache() {
    let mut stage = Stage::ready(2, affine());
    let prompt = chain(1, BLOCKS);
    let first = stage.serve(&prompt, None);
    let running = stage.ask_for(&prompt);
    let next = stage.pool.restart(first.endpoint, stage.now).unwrap();
    let at = stage.place(&first);
    stage.ids[at] = next;
    stage.prove(next);
    stage.scrape();
    assert_eq!(stage.held(&prompt), [0.0; 2]);
    // The end of a call of the old life says nothing about the new one.
    stage.finish(&running, LeaseEnd::Success);
    assert_eq!(stage.held(&prompt), [0.0; 2]);
    assert_eq!(stage.pool.prefix_figures().held_blocks, 0);
}

#[test]
fn events_of_the_engine_take_the_place_of_guesses() {
    let mut stage = Stage::ready(1, affine());
    let (id, now) = (stage.ids[0], stage.now);
    (0..3).for_each(|of| drop(stage.serve(&chain(of, BLOCKS), None)));
    stage.pool.cache_stored(id, 0, now);
    assert_eq!(stage.cache(0).capacity_tokens, None);
    stage.pool.cache_removed(id, 150, now);
    let held = [0, 1, 2].map(|of| stage.held(&chain(of, BLOCKS))[0]);
    for (held, expected) in held.into_iter().zip([0.0, 800.0, 1_600.0]) {
        assert_tokens(held, expected);
    }
    // A shortfall is not the capacity's fault where the engine says itself what it lets go.
    stage.serve(&chain(2, BLOCKS), Some(0));
    assert!((stage.cache(0).scale - 1.0).abs() < f32::EPSILON);
    stage.pool.cache_cleared(id, now);
    assert_eq!(stage.cache(0).held_tokens, 0);
    stage.pool.cache_unknown(id, now);
    assert_eq!(stage.cache(0).capacity_tokens, Some(500_000));
}

#[test]
fn without_sharing_the_work_is_switched_off_and_said() {
    let mut stage = Stage::ready(3, affine());
    stage.events();
    let mut fresh = 100;
    for _ in 0..2_000 {
        stage.now = stage.now + Duration::from_millis(100);
        stage.scrape();
        fresh += 1;
        stage.serve_unchecked(&chain(fresh, 10), None);
    }
    assert_eq!(stage.events(), [PoolEvent::PrefixOff]);
    let figures = stage.pool.prefix_figures();
    assert!(!figures.is_on && figures.skipped > 500, "{figures:?}");
    // Conversations come: each goes on for ten turns.
    for call in 0..4_000_usize {
        stage.now = stage.now + Duration::from_millis(100);
        stage.scrape();
        stage.serve_unchecked(&chain(10_000 + call as u64 / 10, 20 + 10 * (call % 10)), None);
    }
    assert_eq!(stage.events(), [PoolEvent::PrefixOn]);
    let figures = stage.pool.prefix_figures();
    assert!(figures.chosen_tokens > figures.random_tokens, "{figures:?}");
}

#[test]
fn bytes_are_bounded_and_the_least_used_forgotten() {
    let mut options = PoolOptions::default();
    options.prefix.max_bytes = 1 << 18;
    options.prefix.min_gain = 0.0;
    let mut stage = Stage::with(2, affine(), options);
    for of in 0..2_000 {
        stage.wait(70);
        stage.scrape();
        stage.serve_unchecked(&chain(of, 60), None);
    }
    stage.pool.check_invariants().unwrap();
    let figures = stage.pool.prefix_figures();
    assert!(figures.bytes <= 1 << 18 && figures.lost_blocks > 0, "{figures:?}");
    assert!(stage.held(&chain(1_999, 60)).contains(&960.0));
    assert_eq!(stage.held(&chain(1, 60)), [0.0; 2]);
    let none = PoolOptions {
        prefix: crate::PrefixOptions {
            max_bytes: 0,
            ..crate::PrefixOptions::default()
        },
        ..PoolOptions::default()
    };
    stage.pool.reconfigure(none, affine());
    stage.wait_scraping(SECOND.subsec_millis().into());
    assert_eq!(stage.held(&chain(1_999, 60)), [0.0; 2]);
    assert_eq!(stage.pool.prefix_figures().held_blocks, 0);
}

#[test]
fn a_snapshot_brings_back_what_was_held() {
    let mut stage = Stage::ready(2, affine());
    let (first, second) = (chain(1, BLOCKS), chain(2, 50));
    let at = stage.serve(&first, None);
    let place = stage.place(&at);
    stage.serve(&chain(1, BLOCKS + 40), None);
    let branch = PromptChain::new([&first.hashes()[..30], chain(7, 9).hashes()].concat(), 16.0);
    stage.serve(&branch, None);
    stage.serve(&second, None);
    let before = [&first, &second, &branch].map(|chain| stage.held(chain));
    // What has not come is not written.
    let pending = stage.ask_for(&chain(3, BLOCKS));
    let bytes: Vec<_> = stage
        .ids
        .clone()
        .into_iter()
        .map(|id| stage.pool.export_prefixes(id, 77, 1 << 20).unwrap())
        .collect();
    stage.finish(&pending, LeaseEnd::Cancelled);
    let mut later = Stage::ready(2, affine());
    let (id, now) = (later.ids[place], later.now);
    let snapshot = PrefixSnapshot::parse(&bytes[place]).unwrap();
    assert_eq!(
        later.pool.import_prefixes(id, 78, &snapshot, now),
        Err(SnapshotError::OtherLife)
    );
    let other = later.ids[1 - place];
    assert_eq!(
        later.pool.import_prefixes(other, 77, &snapshot, now),
        Err(SnapshotError::OtherLife)
    );
    assert_eq!(later.pool.prefix_figures().held_blocks, 0);
    for (id, bytes) in later.ids.clone().into_iter().zip(&bytes) {
        let snapshot = PrefixSnapshot::parse(bytes).unwrap();
        assert_eq!(
            later.pool.import_prefixes(id, 77, &snapshot, now),
            Ok(snapshot.blocks() as u64)
        );
    }
    assert_eq!([&first, &second, &branch].map(|chain| later.held(chain)), before);
    assert!(later.held(&chain(3, BLOCKS)).iter().all(|held| *held < 1.0));
    // A second snapshot is the first: the order of use has survived.
    let again: Vec<_> = later
        .ids
        .clone()
        .into_iter()
        .map(|id| later.pool.export_prefixes(id, 77, 1 << 20).unwrap())
        .collect();
    assert_eq!(again, bytes);
}

#[test]
fn a_small_budget_keeps_the_most_recent() {
    let mut stage = Stage::ready(1, affine());
    for of in 0..10 {
        stage.serve(&chain(of, BLOCKS), None);
    }
    let bytes = stage.pool.export_prefixes(stage.ids[0], 1, 2_600).unwrap();
    assert!(bytes.len() <= 2_600);
    let mut later = Stage::ready(1, affine());
    let (id, now) = (later.ids[0], later.now);
    let snapshot = PrefixSnapshot::parse(&bytes).unwrap();
    assert_eq!(later.pool.import_prefixes(id, 1, &snapshot, now), Ok(300));
    assert_tokens(later.held(&chain(9, BLOCKS))[0], 1_600.0);
    assert_tokens(later.held(&chain(6, BLOCKS))[0], 0.0);
}

/// A call whose prompt has this many tokens of a beginning of 8,000.
fn hot(chain: &PromptChain) -> Ask<'_> {
    Ask {
        input_tokens: TokenCount::new(8_100),
        output_tokens: TokenCount::new(200),
        ..ask(chain)
    }
}

/// Three of four endpoints hold the beginning that all calls have. The fourth has next to nothing to do, and each single call is
/// better off without computing it there; all together are not.
#[test]
fn what_most_endpoints_hold_is_soon_held_by_all() {
    let mut stage = Stage::ready(4, Profile::least_cost());
    let chain = chain(1, 500);
    for at in 0..3 {
        let others: Vec<_> = stage.ids.iter().copied().filter(|id| *id != stage.ids[at]).collect();
        let only = Ask {
            excluded: &others,
            ..hot(&chain)
        };
        let picked = stage.pick_as(&only).unwrap();
        stage.pool.first_token(picked.lease, stage.now);
    }
    let mut calls = 3;
    while calls < 100 {
        let picked = stage.pick_as(&hot(&chain)).unwrap();
        if stage.place(&picked) == 3 {
            break;
        }
        stage.wait(20);
        stage.pool.first_token(picked.lease, stage.now);
        calls += 1;
    }
    assert!((6..40).contains(&calls), "{calls} calls on three endpoints");
}

/// A beginning is at one endpoint, behind a long queue. The others idle, and no queue elsewhere makes computing it once more dear.
#[test]
fn a_prefix_behind_a_long_queue_is_copied_to_who_has_none() {
    let mut stage = Stage::ready(8, Profile::least_cost());
    let (chain, other) = (chain(1, 500), chain(2, 10));
    let holder = stage.pick_as(&hot(&chain)).unwrap();
    stage.pool.first_token(holder.lease, stage.now);
    let others: Vec<_> = stage.ids.iter().copied().filter(|id| *id != holder.endpoint).collect();
    let queue = |stage: &mut Stage, tokens| {
        let only = Ask {
            input_tokens: TokenCount::new(tokens),
            excluded: &others,
            ..ask(&other)
        };
        stage.pick_as(&only).unwrap()
    };
    // A second of work: more than the fifth of one that computing it takes, times what that is charged where nobody waits.
    for _ in 0..2 {
        queue(&mut stage, 18_000);
    }
    let picked = stage.pick_as(&hot(&chain)).unwrap();
    assert_ne!(picked.endpoint, holder.endpoint);
}
