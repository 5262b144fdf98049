//! Several gateways before one pool, and what they tell each other.

use maitred_types::{LeaseEnd, PromptChain, TokenCount};

use super::{Stage, ask};
use crate::{Ask, Profile, ShareMessage};

fn gateways(count: usize) -> Vec<Stage> {
    (0..count).map(|_| Stage::ready(4, Profile::least_cost())).collect()
}

/// Lets the first tell the second, over the wire.
fn tell(stages: &mut [Stage], from: usize, to: usize) {
    let now = stages[from].now;
    let bytes = stages[from].pool.share(now).to_bytes();
    let message = ShareMessage::read(&bytes).unwrap();
    let now = stages[to].now;
    stages[to].pool.hear(from as u64, &message, now);
}

fn chain(seed: u64, blocks: u64) -> PromptChain {
    PromptChain::new((0..blocks).map(|block| seed * 1000 + block).collect::<Vec<_>>(), 64.0)
}

#[test]
fn each_sees_what_the_others_have_under_way() {
    let mut stages = gateways(2);
    // The first sends large prompts to three endpoints of four.
    let mut taken = Vec::new();
    for _ in 0..3 {
        let picked = stages[0].pick_as(&ask(20_000)).unwrap();
        taken.push(stages[0].place(&picked));
    }
    tell(&mut stages, 0, 1);
    assert_eq!(stages[1].pool.peers(), 1);
    // The second, whose pages show nothing, knows all the same which one is free; again and again, for small calls.
    for _ in 0..5 {
        let picked = stages[1].pick_as(&ask(10)).unwrap();
        assert!(!taken.contains(&stages[1].place(&picked)), "{taken:?}");
        stages[1].finish(&picked, LeaseEnd::Success);
    }
    // Without a word it would not: some of these go to one that is taken.
    let mut deaf = gateways(1);
    let blind = (0..5).filter(|_| {
        let picked = deaf[0].pick_as(&ask(10)).unwrap();
        taken.contains(&deaf[0].place(&picked))
    });
    assert!(blind.count() > 0);
}

#[test]
fn work_that_was_told_is_worked_off_and_silence_ends_it() {
    let mut stages = gateways(2);
    let picked = stages[0].pick_as(&ask(20_000)).unwrap();
    let at = stages[0].place(&picked);
    tell(&mut stages, 0, 1);
    let queue = |stage: &Stage| stage.row(stage.ids[at]).unwrap().queue_seconds;
    let at_once = queue(&stages[1]);
    assert!(at_once > 0.2, "{at_once}");
    stages[1].wait_scraping(100);
    let later = queue(&stages[1]);
    assert!((at_once - later - 0.1).abs() < 0.02, "{at_once} then {later}");
    // The call ends, and the next message says so by not naming the endpoint.
    stages[0].finish(&picked, LeaseEnd::Success);
    tell(&mut stages, 0, 1);
    assert!(queue(&stages[1]).abs() < 1e-9);

    stages[0].pick_as(&ask(200_000)).unwrap();
    tell(&mut stages, 0, 1);
    stages[1].wait_scraping(2_900);
    assert_eq!(stages[1].pool.peers(), 1);
    stages[1].wait_scraping(200);
    let now = stages[1].now;
    stages[1].pool.share(now);
    assert_eq!(stages[1].pool.peers(), 0);
    let all: f64 = stages[1].pool.rows(now).map(|row| row.queue_seconds).sum();
    assert!(all.abs() < 1e-9, "{all}");
}

#[test]
fn a_prompt_that_another_gateway_sent_is_found_where_it_is() {
    let mut stages = gateways(2);
    let now = stages[0].now;
    stages[0].pool.share(now);
    let prompt = chain(1, 200);
    let call = Ask {
        chain: Some(&prompt),
        input_tokens: TokenCount::new(12_900),
        ..ask(0)
    };
    let picked = stages[0].pick_as(&call).unwrap();
    let home = stages[0].place(&picked);
    let now = stages[0].now;
    stages[0].pool.first_token(picked.lease, now);
    stages[0].finish(&picked, LeaseEnd::Success);
    tell(&mut stages, 0, 1);
    for _ in 0..3 {
        let second = stages[1].pick_as(&call).unwrap();
        assert_eq!(stages[1].place(&second), home);
        stages[1].finish(&second, LeaseEnd::Cancelled);
    }
    // What was told is not told again, by the one or the other.
    let now = stages[0].now;
    assert!(stages[0].pool.share(now).prompts.is_empty());
    let now = stages[1].now;
    stages[1].pool.share(now);
    stages[1].pick_as(&call).unwrap();
    assert!(stages[1].pool.share(now).prompts.is_empty());
}

#[test]
fn the_past_brings_prompts_and_no_load() {
    let mut stages = gateways(2);
    let now = stages[0].now;
    stages[0].pool.share(now);
    let prompt = chain(2, 100);
    let call = Ask {
        chain: Some(&prompt),
        input_tokens: TokenCount::new(6_400),
        ..ask(0)
    };
    let picked = stages[0].pick_as(&call).unwrap();
    let message = stages[0].pool.share(now);
    stages[1].pool.hear_past(&message, now);
    assert_eq!(stages[1].pool.peers(), 0);
    let second = stages[1].pick_as(&call).unwrap();
    assert_eq!(stages[1].place(&second), stages[0].place(&picked));
}

#[test]
fn a_life_that_is_over_takes_what_was_told_with_it() {
    let mut stages = gateways(2);
    let picked = stages[0].pick_as(&ask(50_000)).unwrap();
    let at = stages[0].place(&picked);
    tell(&mut stages, 0, 1);
    let (id, now) = (stages[1].ids[at], stages[1].now);
    let next = stages[1].pool.restart(id, now).unwrap();
    let queue = stages[1].row(next).unwrap().queue_seconds;
    assert!(queue.abs() < 1e-9, "{queue}");
}
