//! Ejection, probation, panic, cooling, and pages that cannot be believed.

use std::time::Duration;

use maitred_types::LeaseEnd;

use super::{Stage, ask, ignoring_age, saturating};
use crate::{
    EndpointState, Filter, Observed, PickReason, PoolEvent, PoolOptions, Profile, Proofs, ReadinessReport, Refusal,
    ReturnCause, Signals,
};

fn eject(stage: &mut Stage, at: usize) {
    for _ in 0..3 {
        stage.call_on(at, LeaseEnd::Failure);
    }
    assert!(matches!(stage.state(at), EndpointState::Ejected { .. }));
}

#[test]
fn three_failures_eject_and_the_return_is_a_probation() {
    let mut stage = Stage::ready(2, Profile::default());
    eject(&mut stage, 0);
    let until = stage.now + Duration::from_secs(5);
    let ejected = PoolEvent::Ejected {
        endpoint: stage.ids[0],
        until,
    };
    assert_eq!(stage.events(), [ejected]);
    assert_eq!(stage.pool.next_wakeup(), Some(until));
    stage.wait_scraping(4_999);
    assert!((0..20).all(|_| {
        let picked = stage.pick();
        stage.place(&picked) == 1
    }));
    stage.wait_scraping(1);
    let returned = PoolEvent::Returned {
        endpoint: stage.ids[0],
        cause: ReturnCause::TimeOver,
    };
    assert_eq!(stage.events(), [returned]);
    assert_eq!(stage.pool.next_wakeup(), None);
    // One call, however much busier the other is.
    let trial = stage.pick();
    assert_eq!(stage.place(&trial), 0);
    let second = stage.pick();
    assert_eq!(stage.place(&second), 1);
    stage.pool.first_token(trial.lease, stage.now);
    let third = stage.pick();
    assert_eq!(stage.place(&third), 0);
}

#[test]
fn a_failed_probation_ejects_at_once_and_for_twice_as_long() {
    let mut stage = Stage::ready(2, Profile::default());
    eject(&mut stage, 0);
    stage.wait_scraping(5_000);
    stage.call_on(0, LeaseEnd::Failure);
    let until = stage.now + Duration::from_secs(10);
    assert_eq!(stage.state(0), EndpointState::Ejected { until });
    stage.wait_scraping(10_000);
    // A client that goes away decides nothing: the probation goes on.
    stage.call_on(0, LeaseEnd::Cancelled);
    assert!(stage.row(stage.ids[0]).unwrap().on_probation);
    stage.call_on(0, LeaseEnd::Success);
    assert!(!stage.row(stage.ids[0]).unwrap().on_probation);
}

#[test]
fn overload_cancellation_and_abandonment_are_no_failures() {
    for end in [LeaseEnd::Overload, LeaseEnd::Cancelled, LeaseEnd::Abandoned] {
        let mut stage = Stage::ready(2, Profile::default());
        (0..10).for_each(|_| stage.call_on(0, end));
        assert_eq!(stage.state(0), EndpointState::Ready, "{end:?}");
        assert_eq!(stage.row(stage.ids[0]).unwrap().failed_calls, 0, "{end:?}");
    }
}

#[test]
fn an_overloaded_endpoint_is_spared_while_others_can_serve() {
    let mut stage = Stage::ready(2, Profile::default());
    stage
        .pool
        .cool_down(stage.ids[0], Duration::from_secs(3_600), stage.now);
    let picked = stage.pick();
    assert_eq!(stage.place(&picked), 1);
    assert_eq!(picked.why.removed.by(Filter::NotCooling), 1);
    assert_eq!(stage.row(stage.ids[0]).unwrap().spared_for, Duration::from_secs(30));
    stage.pool.remove(stage.ids[1], stage.now);
    let picked = stage.pick();
    assert_eq!(stage.place(&picked), 0, "a busy endpoint is better than none");
    // Thirty seconds is the longest that it can ask for.
    stage.ids.truncate(1);
    let other = stage.add("10.0.0.7:8000");
    stage.ids.push(other);
    stage.prove(other);
    stage.wait_scraping(30_000);
    assert_eq!(stage.pick().why.removed.by(Filter::NotCooling), 0);
}

#[test]
fn when_all_ready_endpoints_are_ejected_ejection_is_ignored() {
    let mut stage = Stage::ready(2, Profile::default());
    let loading = stage.add("10.0.0.8:8000");
    stage.ids.push(loading);
    stage.scrape();
    eject(&mut stage, 0);
    assert!(!stage.pool.is_in_panic());
    stage.events();
    eject(&mut stage, 1);
    assert!(stage.pool.is_in_panic());
    assert!(stage.events().contains(&PoolEvent::PanicEntered));
    let mut seen = [0; 3];
    for _ in 0..20 {
        let picked = stage.pick();
        assert_eq!(picked.why.reason, PickReason::Panic);
        seen[stage.place(&picked)] += 1;
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    assert_eq!(seen[2], 0, "what loads is never a candidate");
    // Output of a call that was booked after the ejection ends it, and so the panic.
    stage.wait(1);
    let lucky = stage.pick();
    stage.pool.first_token(lucky.lease, stage.now);
    assert!(!stage.pool.is_in_panic());
    assert!(stage.events().contains(&PoolEvent::PanicLeft));
}

#[test]
fn a_call_that_has_tried_all_others_may_use_an_ejected_endpoint() {
    let mut stage = Stage::ready(2, Profile::default());
    eject(&mut stage, 0);
    assert!(!stage.pool.is_in_panic());
    let picked = stage.pick_on(0);
    assert_eq!(picked.why.reason, PickReason::Panic);
}

#[test]
fn a_full_endpoint_is_no_reason_to_use_a_broken_one() {
    let options = PoolOptions {
        max_in_flight: 1,
        ..PoolOptions::default()
    };
    let mut stage = Stage::with(2, Profile::default(), options);
    eject(&mut stage, 0);
    let running = stage.pick();
    assert_eq!(stage.place(&running), 1);
    assert!(matches!(stage.pick_as(&ask(1)), Err(Refusal::Saturated { .. })));
}

#[test]
fn an_endpoint_without_fresh_signals_counts_as_full_where_it_is_to() {
    let mut stage = Stage::with(2, Profile::default(), saturating());
    stage.wait(199);
    stage.pick();
    stage.wait(1);
    let refusal = stage.pick_as(&ask(1)).unwrap_err();
    assert_eq!(refusal.removed().by(Filter::Fresh), 2);
    assert_eq!(refusal.retry_after(), Some(Duration::from_secs(1)));
    assert_eq!(refusal.to_string(), "saturated, fresh removed 2");
    stage.pool.scrape_failed(stage.ids[0], stage.now);
    stage.page(stage.ids[1], &Signals::default());
    let picked = stage.pick();
    assert_eq!(stage.place(&picked), 1);
    assert_eq!(stage.row(stage.ids[0]).unwrap().tally.failed_scrapes, 1);
}

#[test]
fn stale_signals_are_left_out_where_they_are_to_be_ignored() {
    let mut stage = Stage::with(2, Profile::least_request(), ignoring_age());
    let busy = Signals {
        running: 50,
        ..Signals::default()
    };
    stage.page(stage.ids[0], &busy);
    let picked = stage.pick();
    assert_eq!(stage.place(&picked), 1, "fresh signals count");
    stage.wait(200);
    let picked = stage.pick();
    assert_eq!(stage.place(&picked), 0, "now own leases alone count");
    assert_eq!(stage.row(stage.ids[0]).unwrap().estimate.active, 1);
}

#[test]
fn a_page_that_stands_still_under_load_is_stale() {
    let mut stage = Stage::with(1, Profile::default(), saturating());
    let (id, page) = (
        stage.ids[0],
        Signals {
            running: 1,
            progress: Some(100),
            ..Signals::default()
        },
    );
    let read = |stage: &mut Stage, page: &Signals| {
        stage.wait(100);
        stage.pool.observe(id, page, stage.now, stage.now)
    };
    let running = stage.pick();
    for _ in 0..100 {
        assert_eq!(read(&mut stage, &page), Observed::Taken);
    }
    assert_eq!(read(&mut stage, &page), Observed::Frozen);
    assert_eq!(stage.events(), [PoolEvent::Frozen { endpoint: id }]);
    let refusal = stage.pick_as(&ask(1)).unwrap_err();
    assert_eq!(refusal.removed().by(Filter::Fresh), 1);
    let moved = Signals {
        progress: Some(101),
        ..page.clone()
    };
    assert_eq!(read(&mut stage, &moved), Observed::Taken);
    assert_eq!(stage.events(), [PoolEvent::Thawed { endpoint: id }]);
    stage.finish(&running, LeaseEnd::Success);
    stage.pick();
}

#[test]
fn a_figure_that_goes_backwards_is_a_restart() {
    let mut stage = Stage::ready(1, Profile::default());
    let id = stage.ids[0];
    let page = |progress| Signals {
        progress: Some(progress),
        ..Signals::default()
    };
    stage.page(id, &page(1_000));
    let observed = stage.pool.observe(id, &page(0), stage.now, stage.now);
    assert_eq!(observed, Observed::RestartSeen);
    stage.page(id, &page(5));
    assert_eq!(stage.events(), [PoolEvent::RestartSeen { endpoint: id }], "said once");
    let next = stage.pool.restart(id, stage.now).unwrap();
    let observed = stage.pool.observe(next, &page(5), stage.now, stage.now);
    assert_eq!(observed, Observed::Taken);
}

#[test]
fn samples_of_the_past_and_of_other_lives_are_ignored() {
    let mut stage = Stage::ready(1, Profile::default());
    let id = stage.ids[0];
    let earlier = stage.now;
    stage.wait_scraping(50);
    let observed = stage.pool.observe(id, &Signals::default(), earlier, stage.now);
    assert_eq!(observed, Observed::Old);
    stage.pool.remove(id, stage.now);
    let observed = stage.pool.observe(id, &Signals::default(), stage.now, stage.now);
    assert_eq!(observed, Observed::Unknown);
    let counters = stage.pool.counters();
    assert_eq!((counters.old_samples, counters.late_reports), (1, 1));
}

#[test]
fn an_ejected_endpoint_that_fails_its_probes_loads_again() {
    let mut stage = Stage::ready(2, Profile::default());
    eject(&mut stage, 0);
    for _ in 0..3 {
        stage
            .pool
            .set_readiness(stage.ids[0], ReadinessReport::Failed, stage.now);
    }
    assert_eq!(stage.state(0), EndpointState::Loading);
    stage.wait_scraping(5_000);
    assert_eq!(stage.state(0), EndpointState::Loading, "time alone proves nothing");
    stage
        .pool
        .set_readiness(stage.ids[0], ReadinessReport::Healthy(Proofs::ALL), stage.now);
    assert_eq!(stage.state(0), EndpointState::Ready);
}
