//! Filters, scorers, pickers, refusals and the record of a choice.

use maitred_types::{LeaseEnd, ModelName};

use super::{Stage, ask};
use crate::{
    Ask, Explain, Filter, LoraSignal, PickReason, Picker, PoolOptions, Profile, Refusal, Scorer, Signals, Weighted,
};

fn profile(filters: &[Filter], scorers: &[(Scorer, f32)], picker: Picker) -> Profile {
    let weighted: Vec<_> = scorers
        .iter()
        .map(|(scorer, weight)| Weighted {
            scorer: *scorer,
            weight: *weight,
        })
        .collect();
    Profile::build(filters, &weighted, &[picker]).unwrap()
}

fn lora(max: u32, running: &[&str], waiting: &[&str]) -> Signals {
    let names = |names: &[&str]| names.iter().map(|name| ModelName::from(*name)).collect();
    Signals {
        lora: Some(LoraSignal {
            max,
            running: names(running),
            waiting: names(waiting),
        }),
        ..Signals::default()
    }
}

/// How often each endpoint is picked in `times` calls that end at once.
fn shares(stage: &mut Stage, ask: &Ask<'_>, times: usize) -> Vec<usize> {
    let mut shares = vec![0; stage.ids.len()];
    for _ in 0..times {
        let picked = stage.pick_as(ask).unwrap();
        shares[stage.place(&picked)] += 1;
        stage.finish(&picked, LeaseEnd::Success);
    }
    shares
}

#[test]
fn each_scorer_prefers_what_it_says() {
    let check = |scorer: Scorer, worse: Signals, better: Signals| {
        let mut stage = Stage::ready(2, profile(&[], &[(scorer, 1.0)], Picker::MaxScore));
        for (worse_at, better_at) in [(0, 1), (1, 0)] {
            stage.page(stage.ids[worse_at], &worse);
            stage.page(stage.ids[better_at], &better);
            let asked = Ask {
                adapter: Some("a"),
                ..ask(10)
            };
            assert_eq!(shares(&mut stage, &asked, 5)[better_at], 5, "{scorer:?}");
        }
    };
    let load = |queued, running, kv| Signals {
        queued,
        running,
        kv_used: Some(kv),
        ..Signals::default()
    };
    check(Scorer::LeastRequest, load(5, 5, 0.0), load(0, 9, 0.0));
    check(Scorer::Queue, load(8, 0, 0.0), load(1, 30, 0.9));
    check(Scorer::Running, load(0, 9, 0.0), load(9, 3, 0.9));
    check(Scorer::Kv, load(0, 0, 0.93), load(9, 9, 0.9));
    check(Scorer::LoraAffinity, lora(2, &["b"], &["a"]), lora(2, &["a", "b"], &[]));
    check(Scorer::LoraAffinity, lora(2, &["b"], &[]), lora(2, &["b"], &["a"]));
    check(Scorer::LoraAffinity, lora(1, &["b"], &[]), lora(2, &["b"], &[]));
}

#[test]
fn prefill_counts_prompt_tokens_that_have_no_output_yet() {
    let mut stage = Stage::ready(2, profile(&[], &[(Scorer::Prefill, 1.0)], Picker::MaxScore));
    let long = stage.pick_as(&ask(20_000)).unwrap();
    let busy = stage.place(&long);
    for _ in 0..5 {
        let short = stage.pick_as(&ask(1_000)).unwrap();
        assert_ne!(stage.place(&short), busy);
    }
    stage.pool.first_token(long.lease, stage.now);
    let next = stage.pick_as(&ask(1_000)).unwrap();
    assert_eq!(stage.place(&next), busy);
}

#[test]
fn the_textbook_policy_takes_the_less_loaded_of_two() {
    let mut stage = Stage::ready(3, Profile::least_request());
    stage.page(
        stage.ids[2],
        &Signals {
            running: 500,
            ..Signals::default()
        },
    );
    let shares = shares(&mut stage, &ask(10), 300);
    // The busiest of three is never the better of two different ones.
    assert_eq!(shares[2], 0);
    assert!(shares[0] > 100 && shares[1] > 100, "{shares:?}");
    let why = stage.pick().why;
    assert_eq!((why.reason, why.ranked().len()), (PickReason::TwoChoices, 2));
    assert!(why.ranked()[0].total >= why.ranked()[1].total);
    assert_ne!(why.ranked()[0].endpoint, why.ranked()[1].endpoint);
}

#[test]
fn calls_one_after_the_other_are_spread_by_every_picker() {
    for picker in Picker::ALL {
        let mut stage = Stage::ready(4, profile(&[], &[(Scorer::LeastRequest, 1.0)], *picker));
        let shares = shares(&mut stage, &ask(10), 400);
        assert!(
            shares.iter().all(|share| (60..=140).contains(share)),
            "{picker:?} {shares:?}"
        );
        if matches!(picker, Picker::MaxScore | Picker::RoundRobin) {
            assert!(shares.iter().all(|share| *share == 100), "{picker:?} {shares:?}");
        }
    }
}

#[test]
fn a_newcomer_does_not_win_every_tie() {
    let mut stage = Stage::ready(2, Profile::default());
    shares(&mut stage, &ask(1_000), 100);
    let newcomer = stage.add("10.0.0.7:8000");
    stage.ids.push(newcomer);
    stage.prove(newcomer);
    stage.scrape();
    let shares = shares(&mut stage, &ask(1_000), 90);
    assert!(shares.iter().all(|share| (29..=31).contains(share)), "{shares:?}");
}

#[test]
fn a_session_stays_at_its_home_until_that_is_much_busier() {
    let sessions = profile(
        &[],
        &[(Scorer::LeastRequest, 1.0), (Scorer::SessionAffinity, 0.5)],
        Picker::MaxScore,
    );
    let two_choices = profile(
        &[],
        &[(Scorer::LeastRequest, 1.0), (Scorer::SessionAffinity, 0.5)],
        Picker::PowerOfTwo,
    );
    for profile in [sessions, two_choices] {
        let mut stage = Stage::ready(5, profile);
        let with_session = |session| Ask {
            session: Some(session),
            ..ask(10)
        };
        let home = stage.pick_as(&with_session(42)).unwrap();
        assert_eq!(home.why.reason, PickReason::Session);
        let mut at_home = 0;
        for _ in 0..40 {
            let picked = stage.pick_as(&with_session(42)).unwrap();
            at_home += u32::from(picked.endpoint == home.endpoint);
            assert_eq!(
                picked.endpoint == home.endpoint,
                picked.why.reason == PickReason::Session
            );
        }
        assert!((12..40).contains(&at_home), "{at_home}");
        // Other sessions have other homes, and when a home goes, only its own sessions move.
        let homes = |stage: &mut Stage| -> Vec<_> {
            let homes = (0..50).map(|session| {
                let picked = stage.pool.pick(&with_session(session), stage.now).unwrap();
                stage.pool.finish(picked.lease, LeaseEnd::Success, None, stage.now);
                picked.endpoint
            });
            homes.collect()
        };
        let mut stage = Stage::ready(5, stage.pool.profile().clone());
        let before = homes(&mut stage);
        stage.pool.remove(stage.ids[0], stage.now);
        let after = homes(&mut stage);
        let moved = before.iter().zip(&after).filter(|(before, after)| before != after);
        assert!(moved.clone().all(|(before, _)| *before == stage.ids[0]));
        assert!((2..25).contains(&moved.count()));
    }
}

#[test]
fn a_burst_for_one_adapter_stays_together_between_scrapes() {
    let affine = profile(
        &[],
        &[(Scorer::LeastRequest, 1.0), (Scorer::LoraAffinity, 1.0)],
        Picker::MaxScore,
    );
    let mut stage = Stage::ready(4, affine);
    for id in stage.ids.clone() {
        stage.page(id, &lora(2, &[], &[]));
    }
    let asked = Ask {
        adapter: Some("a"),
        ..ask(10)
    };
    let first = stage.pick_as(&asked).unwrap();
    for _ in 0..4 {
        assert_eq!(stage.pick_as(&asked).unwrap().endpoint, first.endpoint);
    }
    let plain = stage.pick();
    assert_ne!(
        plain.endpoint, first.endpoint,
        "calls without an adapter go where it is quiet"
    );
}

#[test]
fn optional_filters_leave_out_and_refuse_or_step_back() {
    let low_queue = profile(&[Filter::LowQueue { max: 5 }], &[], Picker::Random);
    let mut stage = Stage::ready(2, low_queue);
    let queue = |queued| Signals {
        queued,
        running: 4,
        ..Signals::default()
    };
    stage.page(stage.ids[0], &queue(5));
    let picked = stage.pick();
    assert_eq!((stage.place(&picked), picked.why.reason), (1, PickReason::OnlyOne));
    stage.page(stage.ids[1], &queue(7));
    let refusal = stage.pick_as(&ask(1)).unwrap_err();
    assert!(matches!(refusal, Refusal::Saturated { .. }));
    assert_eq!(refusal.removed().by(Filter::LowQueue { max: 5 }), 2);

    let headroom = profile(&[Filter::KvHeadroom { max: 0.8 }], &[], Picker::Random);
    let mut stage = Stage::ready(2, headroom);
    let kv = |kv_used| Signals {
        kv_used,
        ..Signals::default()
    };
    stage.page(stage.ids[0], &kv(Some(0.8)));
    stage.page(stage.ids[1], &kv(None));
    let picked = stage.pick();
    assert_eq!(stage.place(&picked), 1);

    let capacity = profile(&[Filter::LoraCapacity], &[], Picker::Random);
    let mut stage = Stage::ready(2, capacity);
    let asked = Ask {
        adapter: Some("a"),
        ..ask(1)
    };
    stage.page(stage.ids[0], &lora(1, &["b"], &[]));
    stage.page(stage.ids[1], &lora(1, &[], &["a"]));
    let picked = stage.pick_as(&asked).unwrap();
    assert_eq!(stage.place(&picked), 1);
    stage.page(stage.ids[1], &lora(1, &["b"], &[]));
    stage.finish(&picked, LeaseEnd::Success);
    stage.pick_as(&asked).unwrap();
}

#[test]
fn refusals_say_what_stood_in_the_way() {
    let options = PoolOptions {
        max_in_flight: 1,
        ..PoolOptions::default()
    };
    let mut stage = Stage::with(2, Profile::default(), options);
    let all = stage.ids.clone();
    let tried = Ask {
        excluded: &all,
        ..ask(1)
    };
    let refusal = stage.pick_as(&tried).unwrap_err();
    assert_eq!(
        (refusal.label(), refusal.fault().label()),
        ("all_excluded", "no_endpoint")
    );
    let running = stage.pick();
    let half = Ask {
        excluded: &[*all.iter().find(|id| **id != running.endpoint).unwrap()],
        ..ask(1)
    };
    let refusal = stage.pick_as(&half).unwrap_err();
    assert_eq!((refusal.label(), refusal.fault().label()), ("saturated", "saturated"));
    assert_eq!(
        refusal.to_string(),
        "saturated, not-excluded removed 1, below-cap removed 1"
    );
    for id in all {
        stage.pool.remove(id, stage.now);
    }
    let refusal = stage.pick_as(&ask(1)).unwrap_err();
    assert_eq!((refusal.label(), refusal.fault().label()), ("not_ready", "no_endpoint"));
}

#[test]
fn a_bound_connection_keeps_its_endpoint_while_that_may_serve() {
    let mut stage = Stage::ready(3, Profile::default());
    let bound = |id| Ask {
        pinned: Some(id),
        ..ask(10)
    };
    let id = stage.ids[1];
    for _ in 0..20 {
        let picked = stage.pick_as(&bound(id)).unwrap();
        assert_eq!((picked.endpoint, picked.why.reason), (id, PickReason::Pinned));
    }
    stage.pool.drain(id, crate::DrainCause::Operator, stage.now);
    let picked = stage.pick_as(&bound(id)).unwrap();
    assert_ne!(picked.endpoint, id);
    assert_eq!(picked.why.reason, PickReason::Cheapest);
    let tried = Ask {
        excluded: &[picked.endpoint],
        ..bound(picked.endpoint)
    };
    assert_ne!(stage.pick_as(&tried).unwrap().endpoint, picked.endpoint);
}

#[test]
fn the_long_record_names_the_best_and_changes_no_choice() {
    let pick_all = |explain: Explain, picker: Picker| {
        let mut stage = Stage::ready(12, profile(&[], &[(Scorer::LeastRequest, 2.0)], picker));
        let asked = Ask { explain, ..ask(10) };
        let picks: Vec<_> = (0..50).map(|_| stage.pick_as(&asked).unwrap()).collect();
        picks
    };
    for picker in Picker::ALL {
        let (short, full) = (pick_all(Explain::Short, *picker), pick_all(Explain::Full, *picker));
        for (short, full) in short.iter().zip(&full) {
            assert_eq!(short.endpoint, full.endpoint, "{picker:?}");
            // Twelve are too many to be scored for the record alone.
            let named = match picker {
                Picker::WeightedRandom | Picker::MaxScore | Picker::LeastCost => 8,
                Picker::PowerOfTwo => 2,
                Picker::Random | Picker::RoundRobin => 1,
            };
            let candidates = usize::try_from(full.why.candidates).unwrap();
            assert_eq!(full.why.ranked().len(), named.min(candidates), "{picker:?}");
            assert_eq!(full.why.ranked()[0].endpoint, full.endpoint);
            assert_eq!(short.why.ranked()[0], full.why.ranked()[0]);
            let others = &full.why.ranked()[1..];
            assert!(
                others.windows(2).skip(1).all(|pair| pair[0].total >= pair[1].total),
                "{picker:?}"
            );
        }
    }
}

#[test]
fn the_record_reads_as_one_line() {
    let mut stage = Stage::ready(3, Profile::least_request());
    stage.pool.cool_down(stage.ids[0], super::SECOND, stage.now);
    let why = stage.pick().why;
    let (first, second) = (
        why.ranked()[0].endpoint.slot.index(),
        why.ranked()[1].endpoint.slot.index(),
    );
    assert_eq!(
        why.to_string(),
        format!(
            "two-choices: 2 of 3 (not-cooling -1); slot {first} total 1.000 (least-request 1.000); \
             slot {second} total 1.000 (least-request 1.000)"
        )
    );
    assert_eq!(
        why.values(&why.ranked()[0]).collect::<Vec<_>>(),
        [(Scorer::LeastRequest, 1.0)]
    );
}

#[test]
fn a_pick_makes_nothing_on_the_heap_after_the_first() {
    // Counted for real by the benchmark; here the buffers must not grow any more.
    let mut stage = Stage::ready(20, Profile::default());
    let asked = Ask {
        explain: Explain::Full,
        ..ask(10)
    };
    let why = stage.pick_as(&asked).unwrap().why;
    assert!(!why.ranked.spilled() && !why.scorers.spilled());
}
