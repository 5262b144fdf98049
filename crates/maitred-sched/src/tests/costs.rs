//! Choices by cost in seconds, seen through the records and the rows.

use std::collections::BTreeSet;
use std::time::Duration;

use maitred_types::{LeaseEnd, TokenCount, Usage, UsageSource};

use super::{Stage, ask};
use crate::{Ask, CostTerms, Explain, Pace, PickReason, Picked, PoolOptions, Profile, Signals, StalenessPolicy, Why};

fn stage(count: usize) -> Stage {
    Stage::ready(count, Profile::least_cost())
}

fn explained(input: u32) -> Ask<'static> {
    Ask {
        explain: Explain::Full,
        ..ask(input)
    }
}

fn costs(why: &Why) -> Vec<CostTerms> {
    why.ranked().iter().map(|ranked| ranked.cost.unwrap()).collect()
}

fn usage(input: u32, cached: u32, output: u32) -> Usage {
    Usage {
        input: TokenCount::new(input),
        cached_input: Some(TokenCount::new(cached)),
        output: TokenCount::new(output),
        reasoning: None,
        source: UsageSource::Reported,
    }
}

impl Stage {
    /// A call on the endpoint at `at` whose first token takes what an endpoint of this pace takes.
    fn served(&mut self, at: usize, input: u32, pace: &Pace) {
        let picked = {
            let others: Vec<_> = self.ids.iter().copied().filter(|id| *id != self.ids[at]).collect();
            let only = Ask {
                excluded: &others,
                ..ask(input)
            };
            self.pick_as(&only).unwrap()
        };
        let work = crate::Work::of(f64::from(input), 0.0);
        self.now = self.now + Duration::from_secs_f64(pace.fixed + pace.seconds(work));
        self.pool.first_token(picked.lease, self.now);
        self.now = self.now + Duration::from_secs_f64(99.0 * pace.step);
        self.scrape();
        self.pool
            .finish(picked.lease, LeaseEnd::Success, Some(&usage(input, 0, 100)), self.now);
        self.pool.check_invariants().unwrap();
    }

    fn queue(&self, at: usize) -> f64 {
        self.row(self.ids[at]).unwrap().queue_seconds
    }
}

#[test]
fn the_record_has_the_terms_of_the_cost() {
    let mut stage = stage(3);
    let first = stage.pick_as(&explained(8_192)).unwrap();
    assert_eq!(first.why.reason, PickReason::Cheapest);
    assert_eq!(first.why.price, Some(1.0), "nobody queues");
    let terms = costs(&first.why);
    assert_eq!(terms.len(), 3);
    // 8,192 tokens take 0.19 s on an idle endpoint.
    assert!(
        terms
            .iter()
            .all(|cost| cost.queue == 0.0 && (0.18..0.20).contains(&cost.own)),
        "{terms:?}"
    );
    let second = stage.pick_as(&explained(8_192)).unwrap();
    assert_ne!(first.endpoint, second.endpoint);
    let price = second.why.price.unwrap();
    // Eight for each second of the mean wait, and a little for the rate of calls.
    let mean = terms[0].own / 3.0;
    assert!((1.0 + 8.0 * mean..1.0 + 8.5 * mean).contains(&price), "{price}");
    for cost in costs(&second.why) {
        let local = 1.0 + (price - 1.0) * f64::midpoint(cost.queue, mean) / mean;
        assert!(
            (cost.price - local).abs() < 1e-9,
            "half of it is the endpoint's own wait: {cost:?}"
        );
        let sum = cost.queue + cost.fixed + cost.price * cost.own + cost.decode + cost.kv + cost.adapter;
        assert!((sum - cost.total).abs() < 1e-9, "{cost:?}");
    }
    let ranked: Vec<_> = costs(&second.why).iter().map(|cost| cost.total).collect();
    assert!(ranked.is_sorted(), "{ranked:?}");
}

#[test]
fn prompts_spread_by_their_work_and_not_by_their_number() {
    let mut stage = stage(2);
    let long = stage.pick_as(&ask(20_000)).unwrap();
    // Ten short ones are less than a long one.
    for _ in 0..10 {
        let short = stage.pick_as(&ask(500)).unwrap();
        assert_ne!(short.endpoint, long.endpoint);
    }
}

#[test]
fn the_queue_drains_with_time_and_ends_with_first_tokens() {
    let mut stage = stage(1);
    let picks: Vec<Picked> = (0..3).map(|_| stage.pick_as(&ask(16_384)).unwrap()).collect();
    let each = stage.queue(0) / 3.0;
    assert!((0.40..0.45).contains(&each), "{each}");
    stage.wait_scraping(200);
    assert!((stage.queue(0) - 3.0 * each + 0.2).abs() < 1e-6, "no page resets it");
    // What is late by more than a chunk is owed by somebody.
    stage.wait(1_000);
    assert!(stage.queue(0) > 2.0 * each);
    stage.pool.first_token(picks[0].lease, stage.now);
    assert!((stage.queue(0) - 2.0 * each).abs() < 1e-6);
    stage.finish(&picks[2], LeaseEnd::Cancelled);
    assert!((stage.queue(0) - each).abs() < 1e-6);
    stage.pool.first_token(picks[1].lease, stage.now);
    assert!(stage.queue(0).abs() < 1e-9);
}

#[test]
fn an_endpoint_that_owes_first_tokens_looks_worse_and_worse() {
    let mut stage = stage(2);
    let stuck = stage.pick_as(&ask(1_000)).unwrap();
    let place = stage.place(&stuck);
    let mut before = 0.0;
    for _ in 0..20 {
        stage.wait_scraping(500);
        assert!(stage.queue(place) > before);
        before = stage.queue(place);
        let picked = stage.pick_as(&ask(1_000)).unwrap();
        assert_ne!(picked.endpoint, stuck.endpoint);
        stage.pool.first_token(picked.lease, stage.now);
    }
}

#[test]
fn waiting_requests_of_others_are_work_too() {
    let mut stage = stage(2);
    stage.pick_on(1);
    let busy = Signals {
        queued: 50,
        running: 1,
        ..Signals::default()
    };
    stage.wait(50);
    stage.page(stage.ids[0], &busy);
    assert!(stage.queue(0) > 0.1, "{}", stage.queue(0));
    let picked = stage.pick_as(&ask(1_000)).unwrap();
    assert_eq!(stage.place(&picked), 1);
    // Drained as time passes, though no page says so.
    stage.wait(150);
    assert!(stage.queue(0) < 0.06, "{}", stage.queue(0));
}

#[test]
fn own_requests_on_a_page_are_not_taken_for_those_of_others() {
    let mut stage = stage(1);
    (0..20).for_each(|_| drop(stage.pick_as(&ask(1_000)).unwrap()));
    let own = stage.queue(0);
    stage.wait(50);
    let page = Signals {
        queued: 19,
        running: 1,
        ..Signals::default()
    };
    stage.page(stage.ids[0], &page);
    assert!((stage.queue(0) - own + 0.05).abs() < 1e-6);
}

#[test]
fn a_slow_endpoint_is_recognised_and_gets_less() {
    let mut stage = stage(3);
    let fast = Pace::default();
    let slow = Pace {
        token: 2.0 * fast.token,
        attention: 2.0 * fast.attention,
        step: 2.0 * fast.step,
        ..fast
    };
    for _ in 0..40 {
        for at in 0..3 {
            stage.served(at, 4_000, if at == 0 { &slow } else { &fast });
        }
    }
    let rows: Vec<_> = stage.pool.rows(stage.now).map(|row| row.slowness).collect();
    assert!(
        (1.8..2.2).contains(&rows[0]) && rows[1..].iter().all(|slowness| (0.9..1.1).contains(slowness)),
        "{rows:?}"
    );
    let mut shares = [0; 3];
    for _ in 0..100 {
        let picked = stage.pick_as(&ask(4_000)).unwrap();
        shares[stage.place(&picked)] += 1;
    }
    assert!((10..25).contains(&shares[0]), "{shares:?}");
}

#[test]
fn a_newcomer_starts_with_the_speed_of_the_fleet() {
    let mut stage = stage(2);
    let slow = Pace {
        token: 3.0 * Pace::default().token,
        attention: 3.0 * Pace::default().attention,
        ..Pace::default()
    };
    for _ in 0..30 {
        stage.served(0, 4_000, &slow);
        stage.served(1, 4_000, &slow);
    }
    let id = stage.add("10.0.0.9:8000");
    let pace = stage.row(id).unwrap().pace;
    assert!((pace.token / slow.token - 1.0).abs() < 0.1, "{pace:?}");
}

/// A prior that is far too slow would keep all calls from a newcomer, and so the proof that it is not.
#[test]
fn a_newcomer_begins_as_soon_as_the_others_of_its_pool() {
    let mut stage = stage(2);
    let quick = Pace {
        fixed: 0.2 * Pace::default().fixed,
        ..Pace::default()
    };
    for _ in 0..30 {
        stage.served(0, 100, &quick);
        stage.served(1, 100, &quick);
    }
    let id = stage.add("10.0.0.9:8000");
    let newcomer = stage.row(id).unwrap().pace.fixed;
    let usual = stage.row(stage.ids[0]).unwrap().pace.fixed;
    assert!(usual < 0.7 * Pace::default().fixed, "{usual}");
    assert!((newcomer / usual - 1.0).abs() < 0.1, "{newcomer} {usual}");
    stage.ids.push(id);
    stage.prove(id);
    stage.scrape();
    let places: Vec<_> = (0..3).map(|_| stage.pick_as(&ask(4_000)).unwrap()).collect();
    let places: BTreeSet<_> = places.iter().map(|picked| stage.place(picked)).collect();
    assert_eq!(places.len(), 3, "each gets one");
}

/// What stood before a call is reckoned, and a reckoning may be off. Here long prompts take half as long as is thought; the short call
/// behind one begins almost at once. That must not make the endpoint look many times as fast as it is.
#[test]
fn a_call_behind_another_says_little_about_what_it_waited_for() {
    let mut stage = stage(1);
    let work = crate::Work::of(30_000.0, 0.0);
    let takes = 0.5 * Pace::default().seconds(work);
    for _ in 0..6 {
        let long = stage.pick_as(&ask(30_000)).unwrap();
        stage.now = stage.now + Duration::from_secs_f64(takes - 0.02);
        let short = stage.pick_as(&ask(500)).unwrap();
        stage.now = stage.now + Duration::from_millis(20);
        stage.pool.first_token(long.lease, stage.now);
        stage.now = stage.now + Duration::from_millis(12);
        stage.pool.first_token(short.lease, stage.now);
        stage.now = stage.now + Duration::from_secs(1);
        for (picked, input) in [(short, 500), (long, 30_000)] {
            let usage = usage(input, 0, 50);
            stage
                .pool
                .finish(picked.lease, LeaseEnd::Success, Some(&usage), stage.now);
        }
        let pace = stage.row(stage.ids[0]).unwrap().pace;
        let factor = pace.seconds(work) / takes;
        assert!((0.9..2.1).contains(&factor), "{factor} times what it takes");
    }
    let factor = stage.row(stage.ids[0]).unwrap().pace.seconds(work) / takes;
    assert!((0.9..1.1).contains(&factor), "{factor} times what it takes, in the end");
}

#[test]
fn a_full_cache_is_avoided() {
    let mut stage = stage(2);
    let full = Signals {
        kv_used: Some(1.0),
        block_size: Some(16),
        blocks: Some(27_000),
        ..Signals::default()
    };
    stage.page(stage.ids[0], &full);
    for _ in 0..5 {
        let picked = stage.pick_as(&ask(20_000)).unwrap();
        assert_eq!(stage.place(&picked), 1);
        stage.finish(&picked, LeaseEnd::Cancelled);
    }
}

#[test]
fn answers_teach_what_to_expect() {
    let mut stage = stage(1);
    let of_kind = |explain| Ask {
        length_key: Some(7),
        output_tokens: TokenCount::new(256),
        explain,
        ..ask(1_000)
    };
    let decode = |stage: &mut Stage| {
        let picked = stage.pick_as(&of_kind(Explain::Full)).unwrap();
        let term = costs(&picked.why)[0].decode;
        stage.pool.finish(
            picked.lease,
            LeaseEnd::Success,
            Some(&usage(1_000, 0, 2_560)),
            stage.now,
        );
        term
    };
    let before = decode(&mut stage);
    for _ in 0..20 {
        decode(&mut stage);
    }
    let after = decode(&mut stage);
    assert!(after > 9.0 * before, "{before} {after}");
    // No answer is longer than its client allows.
    let limited = Ask {
        output_limit: Some(TokenCount::new(256)),
        ..of_kind(Explain::Full)
    };
    let picked = stage.pick_as(&limited).unwrap();
    assert!((costs(&picked.why)[0].decode - before).abs() < 1e-9);
}

#[test]
fn old_signals_are_no_halt_under_trust() {
    let mut options = PoolOptions::default();
    options.staleness.policy = StalenessPolicy::Trust;
    let mut stage = Stage::with(2, Profile::least_cost(), options);
    let busy = Signals {
        queued: 0,
        running: 40,
        ..Signals::default()
    };
    stage.page(stage.ids[0], &busy);
    let running = |stage: &Stage| stage.row(stage.ids[0]).unwrap().estimate.running;
    assert_eq!(running(&stage), 40);
    stage.wait(5_200);
    assert_eq!(running(&stage), 20, "half is believed after five seconds");
    stage.wait(60_000);
    assert_eq!(running(&stage), 0);
    for _ in 0..10 {
        stage.pick_as(&ask(1_000)).unwrap();
    }
    let shares: Vec<_> = stage.pool.rows(stage.now).map(|row| row.in_flight).collect();
    assert_eq!(shares, [5, 5], "own leases count as ever");
}

#[test]
fn predicted_latency_falls_with_the_queue() {
    let profile = Profile::build(
        &[],
        &[crate::Weighted {
            scorer: crate::Scorer::PredictedLatency,
            weight: 1.0,
        }],
        &[crate::Picker::MaxScore],
    )
    .unwrap();
    let mut stage = Stage::ready(2, profile);
    let first = stage.pick_as(&explained(8_000)).unwrap();
    let second = stage.pick_as(&explained(8_000)).unwrap();
    assert_ne!(first.endpoint, second.endpoint);
    let totals: Vec<_> = second.why.ranked().iter().map(|ranked| ranked.total).collect();
    assert!(totals[0] > totals[1] && totals[0] < 1.0, "{totals:?}");
}
