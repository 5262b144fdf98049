//! Rollouts in virtual time: who is worse is rolled back, who is equal is promoted, and how many calls that takes.
//!
//! The full figures are from the example, which runs the same world: `cargo run --release -p maitred-route --example rollouts`.
#![expect(
    clippy::print_stdout,
    reason = "the figures are what a reader of the test wants to see"
)]
#![expect(clippy::unwrap_used, reason = "terms that are written here are good")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a model of a service, not a count of anything"
)]

#[path = "../examples/rollouts/world.rs"]
mod world;

use maitred_route::rollout::{Guard, Stage};
use world::{Case, World};

/// Calls of the candidate before it is promoted.
const SAMPLE: u64 = 20_000;

/// Rolls out once for each seed; the endings that are not as they should be, at most `wrong_max`.
#[track_caller]
fn check(case: Case, seeds: std::ops::Range<u64>, expected: Stage, wrong_max: usize) {
    let count = seeds.end - seeds.start;
    let endings: Vec<_> = seeds.map(|seed| (seed, World::new(case, seed).run(SAMPLE))).collect();
    let wrong: Vec<_> = endings.iter().filter(|(_, ending)| ending.stage != expected).collect();
    let mut calls: Vec<_> = endings.iter().map(|(_, ending)| ending.compared).collect();
    calls.sort_unstable();
    println!(
        "{case:?}: {} of {count} not {expected:?}; calls of the candidate: median {}, most {}",
        wrong.len(),
        calls[calls.len() / 2],
        calls[calls.len() - 1]
    );
    assert!(wrong.len() <= wrong_max, "{wrong:?}");
}

#[test]
fn equals_are_promoted() {
    check(Case::Equal, 0..20, Stage::Promoting, 0);
}

#[test]
fn more_equals_are_promoted() {
    check(Case::Equal, 20..40, Stage::Promoting, 0);
}

#[test]
fn who_is_slower_at_the_far_end_is_rolled_back() {
    check(Case::SlowTail, 0..40, Stage::RollingBack, 1);
    check(Case::SlowTokens, 0..40, Stage::RollingBack, 0);
    check(Case::Slower, 0..40, Stage::RollingBack, 0);
}

#[test]
fn who_truncates_is_rolled_back() {
    check(Case::Truncates, 0..40, Stage::RollingBack, 0);
}

#[test]
fn who_breaks_tool_calls_is_rolled_back() {
    check(Case::BreaksTools, 0..40, Stage::RollingBack, 0);
}

#[test]
fn who_fails_costs_more_or_annoys_is_rolled_back() {
    check(Case::Fails, 0..20, Stage::RollingBack, 0);
    check(Case::Costs, 0..20, Stage::RollingBack, 0);
    check(Case::Annoys, 0..20, Stage::RollingBack, 1);
}

/// The check can fail: of a sample that is far too small nothing comes.
#[test]
fn a_small_sample_misses_what_a_large_one_finds() {
    let missed = (0..10).filter(|seed| World::new(Case::SlowTail, *seed).run(1_500).stage == Stage::Promoting);
    assert!(missed.count() > 5);
}

#[test]
fn the_guard_that_is_named_is_the_one_for_what_is_worse() {
    for (case, guard) in [
        (Case::Truncates, Guard::Truncated),
        (Case::BreaksTools, Guard::ToolCalls),
        (Case::Fails, Guard::Failure),
        (Case::Costs, Guard::Cost),
        (Case::Annoys, Guard::Takeover),
    ] {
        assert_eq!(World::new(case, 1).run(SAMPLE).guard, guard, "{case:?}");
    }
}
