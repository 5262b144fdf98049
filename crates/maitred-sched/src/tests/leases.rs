//! Leases, caps, the retry budget, and reconfiguration.

use std::time::Duration;

use maitred_types::{LeaseEnd, Time, TokenCount, Usage, UsageSource};

use super::{Stage, ask};
use crate::pace::Work;
use crate::{Ask, AttemptKind, EndpointOptions, FinishReport, PoolOptions, Profile, Refusal, ShareMessage, SharedLoad};

#[test]
fn a_lease_ends_once() {
    let mut stage = Stage::ready(1, Profile::default());
    let picked = stage.pick();
    stage.wait(30);
    stage.pool.first_token(picked.lease, stage.now);
    stage.pool.first_token(picked.lease, stage.now);
    stage.wait(70);
    let report = stage.pool.finish(picked.lease, LeaseEnd::Success, None, stage.now);
    let ended = FinishReport::Ended {
        endpoint: picked.endpoint,
        held: Duration::from_millis(100),
        first_token: Some(Duration::from_millis(30)),
    };
    assert_eq!(report, ended);
    let again = stage.pool.finish(picked.lease, LeaseEnd::Failure, None, stage.now);
    assert_eq!(again, FinishReport::Unknown);
    assert_eq!(stage.pool.counters().late_finishes, 1);
    let row = stage.row(picked.endpoint).unwrap();
    assert_eq!((row.in_flight, row.tally.successes, row.tally.failures), (0, 1, 0));
    stage.pool.check_invariants().unwrap();
}

#[test]
fn an_endpoints_time_is_split_among_its_calls() {
    let mut stage = Stage::ready(1, Profile::default());
    let share = |stage: &mut Stage, lease| stage.pool.time_share(lease, stage.now).map(|share| share.as_millis());
    stage.wait(500);
    let first = stage.pick();
    stage.wait(100);
    let second = stage.pick();
    stage.wait(60);
    assert_eq!(share(&mut stage, first.lease), Some(130));
    stage.finish(&first, LeaseEnd::Success);
    assert_eq!(share(&mut stage, first.lease), None);
    // Another gateway has a call there, then goes silent.
    let endpoint = stage.pool.share(stage.now).loads[0].endpoint;
    let load = SharedLoad {
        endpoint,
        work: Work::NONE,
        sequences: 1,
    };
    let message = |loads: &[SharedLoad]| ShareMessage {
        loads: loads.to_vec(),
        prompts: Vec::new(),
    };
    stage.pool.hear(7, &message(&[load]), stage.now);
    stage.wait(20);
    assert_eq!(share(&mut stage, second.lease), Some(40));
    stage.pool.hear(7, &message(&[]), stage.now);
    stage.wait(10);
    assert_eq!(share(&mut stage, second.lease), Some(50));
    // What was had of an endpoint that is gone was had.
    stage.pool.remove(second.endpoint, stage.now);
    stage.wait(1000);
    assert_eq!(share(&mut stage, second.lease), Some(50));
    stage.pool.finish(second.lease, LeaseEnd::Cancelled, None, stage.now);
    assert_eq!(share(&mut stage, second.lease), None);
}

#[test]
fn caps_hold_per_endpoint_and_per_pool() {
    let options = PoolOptions {
        max_in_flight: 2,
        max_leases: 5,
        ..PoolOptions::default()
    };
    let mut stage = Stage::with(2, Profile::default(), options);
    let roomy = EndpointOptions {
        max_in_flight: Some(4),
        ..EndpointOptions::default()
    };
    stage.pool.add("10.0.0.1:8000".into(), roomy, stage.now).unwrap();
    let mut taken = [0; 2];
    let picks: Vec<_> = (0..5).map(|_| stage.pick()).collect();
    for picked in &picks {
        taken[stage.place(picked)] += 1;
    }
    assert!(taken[0] <= 2 && taken[1] <= 4, "{taken:?}");
    assert!(matches!(stage.pick_as(&ask(1)), Err(Refusal::Saturated { .. })));
    stage.finish(&picks[0], LeaseEnd::Success);
    stage.pick();
}

#[test]
fn a_lowered_cap_cuts_off_nobody_and_lets_nobody_in() {
    let mut stage = Stage::ready(1, Profile::default());
    let picks: Vec<_> = (0..4).map(|_| stage.pick()).collect();
    let options = PoolOptions {
        max_in_flight: 2,
        ..PoolOptions::default()
    };
    stage.pool.reconfigure(options, Profile::round_robin());
    stage.pool.check_invariants().unwrap();
    for picked in &picks[..3] {
        assert!(matches!(stage.pick_as(&ask(1)), Err(Refusal::Saturated { .. })));
        stage.finish(picked, LeaseEnd::Success);
        if stage.row(picked.endpoint).unwrap().in_flight < 2 {
            break;
        }
    }
    stage.pick();
    assert_eq!(stage.row(picks[0].endpoint).unwrap().in_flight, 2);
}

#[test]
fn second_attempts_are_held_until_their_leases_end() {
    let mut stage = Stage::ready(2, Profile::default());
    let again = Ask {
        attempt: AttemptKind::Retry,
        ..ask(10)
    };
    let retries: Vec<_> = (0..3).map(|_| stage.pick_as(&again).unwrap()).collect();
    assert!(!stage.pool.may_retry());
    assert!(matches!(stage.pick_as(&again), Err(Refusal::RetryBudget { .. })));
    assert_eq!(stage.pool.live_retries(), 3);
    // A fifth of the active leases: the fourth retry needs twenty.
    (0..17).for_each(|_| drop(stage.pick()));
    stage.pick_as(&again).unwrap();
    assert!(!stage.pool.may_retry());
    // A place is free again when a lease ends, however it ends.
    for (retry, end) in retries.iter().zip([LeaseEnd::Success, LeaseEnd::Abandoned]) {
        stage.finish(retry, end);
    }
    assert_eq!(stage.pool.live_retries(), 2);
    // Also when its endpoint goes, and only then when the lease itself is finished.
    stage.pool.remove(stage.ids[0], stage.now);
    stage.pool.remove(stage.ids[1], stage.now);
    assert_eq!(stage.pool.live_retries(), 2);
    stage.finish(&retries[2], LeaseEnd::Failure);
    assert_eq!(stage.pool.live_retries(), 1);
}

#[test]
fn a_refused_retry_takes_no_place() {
    let mut stage = Stage::ready(1, Profile::default());
    let again = Ask {
        attempt: AttemptKind::Retry,
        excluded: &[stage.ids[0]],
        ..ask(10)
    };
    for _ in 0..10 {
        assert!(matches!(
            stage.pool.pick(&again, stage.now),
            Err(Refusal::AllExcluded { .. })
        ));
    }
    assert_eq!(stage.pool.live_retries(), 0);
}

#[test]
fn the_clock_never_runs_backwards_inside() {
    let mut stage = Stage::ready(1, Profile::default());
    let picked = stage.pick();
    let report = stage.pool.finish(picked.lease, LeaseEnd::Success, None, Time::ZERO);
    assert!(matches!(report, FinishReport::Ended { held, .. } if held == Duration::ZERO));
    assert_eq!(stage.pool.counters().clock_jumps, 1);
}

#[test]
fn answers_teach_the_decode_rate_and_cached_tokens_are_no_work() {
    let mut stage = Stage::ready(1, Profile::default());
    let before = stage.row(stage.ids[0]).unwrap().decode_rate;
    let picked = stage.pick();
    stage.pool.first_token(picked.lease, stage.now);
    stage.wait(1_000);
    let usage = Usage {
        input: TokenCount::new(100),
        cached_input: Some(TokenCount::new(90)),
        output: TokenCount::new(101),
        reasoning: None,
        source: UsageSource::Reported,
    };
    stage
        .pool
        .finish(picked.lease, LeaseEnd::Success, Some(&usage), stage.now);
    let after = stage.row(stage.ids[0]).unwrap().decode_rate;
    assert!((before - 40.0).abs() < 1e-9);
    assert!((after - 52.0).abs() < 1e-9, "40 + 0.2 · (100 − 40), not {after}");
}
