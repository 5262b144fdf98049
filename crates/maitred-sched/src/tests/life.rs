//! Readiness, drains, restarts and removals.

use maitred_types::LeaseEnd;

use super::{SECOND, Stage, ask};
use crate::{
    DrainCause, EndpointOptions, EndpointState, FinishReport, PoolEvent, PoolFull, PoolOptions, Profile, Proofs,
    ReadinessChange, ReadinessReport, Refusal,
};

#[test]
fn an_endpoint_that_only_listens_gets_nothing() {
    let mut stage = Stage::ready(0, Profile::default());
    let id = stage.add("10.0.0.1:8000");
    stage.ids.push(id);
    stage.scrape();
    let half = Proofs::MODEL_LISTED.union(Proofs::KV_POOL);
    for proofs in [Proofs::NONE, half, half] {
        let change = stage
            .pool
            .set_readiness(id, ReadinessReport::Healthy(proofs), stage.now);
        assert_eq!(change, ReadinessChange::None);
        assert!(matches!(stage.pick_as(&ask(1)), Err(Refusal::NotReady { .. })));
    }
    let last = ReadinessReport::Healthy(Proofs::INFERENCE);
    assert_eq!(stage.pool.set_readiness(id, last, stage.now), ReadinessChange::Ready);
    assert_eq!(stage.pick().endpoint, id);
    assert_eq!(stage.events(), [PoolEvent::Ready { endpoint: id }]);
}

#[test]
fn the_third_failed_probe_takes_an_endpoint_out() {
    let mut stage = Stage::ready(1, Profile::default());
    let id = stage.ids[0];
    let mut probe = |report| stage.pool.set_readiness(id, report, stage.now);
    let expected = [
        (ReadinessReport::Failed, ReadinessChange::None),
        (ReadinessReport::Failed, ReadinessChange::None),
        (ReadinessReport::Healthy(Proofs::NONE), ReadinessChange::None),
        (ReadinessReport::Failed, ReadinessChange::None),
        (ReadinessReport::Failed, ReadinessChange::None),
        (ReadinessReport::Failed, ReadinessChange::NotReady),
        (ReadinessReport::Healthy(Proofs::MODEL_LISTED), ReadinessChange::None),
        (ReadinessReport::Healthy(Proofs::ALL), ReadinessChange::Ready),
    ];
    for (report, change) in expected {
        assert_eq!(probe(report), change, "{report:?}");
    }
}

#[test]
fn a_503_of_the_health_page_drains_until_all_is_proven_again() {
    let mut stage = Stage::ready(2, Profile::default());
    let id = stage.ids[0];
    let running = stage.pick_on(0);
    let change = stage.pool.set_readiness(id, ReadinessReport::Unavailable, stage.now);
    assert_eq!(change, ReadinessChange::Draining);
    let draining = EndpointState::Draining {
        cause: DrainCause::HealthUnavailable,
    };
    assert_eq!(stage.state(0), draining);
    for _ in 0..20 {
        let other = stage.pick();
        assert_eq!(stage.place(&other), 1);
    }
    // An answer to one probe is not the full proof.
    let partly = ReadinessReport::Healthy(Proofs::MODEL_LISTED);
    assert_eq!(stage.pool.set_readiness(id, partly, stage.now), ReadinessChange::None);
    assert_eq!(stage.state(0), draining);
    stage.finish(&running, LeaseEnd::Success);
    assert_eq!(stage.state(0), EndpointState::Loading);
    stage.prove(id);
    assert_eq!(stage.state(0), EndpointState::Ready);
}

#[test]
fn a_drain_with_a_final_cause_ends_with_the_last_lease() {
    for cause in [DrainCause::Operator, DrainCause::Unlisted] {
        let mut stage = Stage::ready(1, Profile::default());
        let id = stage.ids[0];
        let (first, second) = (stage.pick(), stage.pick());
        stage.pool.drain(id, cause, stage.now);
        assert!(matches!(stage.pick_as(&ask(1)), Err(Refusal::NotReady { .. })));
        stage.finish(&first, LeaseEnd::Success);
        // Proofs do not bring back what is leaving.
        stage.prove(id);
        assert_eq!(stage.state(0), EndpointState::Draining { cause });
        stage.finish(&second, LeaseEnd::Success);
        assert!(stage.row(id).is_none());
        let gone = PoolEvent::Gone {
            endpoint: id,
            address: "10.0.0.0:8000".into(),
            fenced: vec![],
        };
        assert_eq!(stage.events(), [PoolEvent::Draining { endpoint: id, cause }, gone]);
    }
}

#[test]
fn who_leaves_for_good_has_a_limited_time_to() {
    let limited = |limit: u64| PoolOptions {
        drain_limit: Some(SECOND * u32::try_from(limit).unwrap()),
        ..PoolOptions::default()
    };
    let mut stage = Stage::with(2, Profile::default(), limited(30));
    let id = stage.ids[0];
    let running = stage.pick_on(0);
    // A drain that may end well again is not limited, and its time does not count.
    stage.pool.drain(id, DrainCause::Aborting, stage.now);
    assert_eq!(stage.pool.next_wakeup(), None);
    stage.wait(60_000);
    assert!(stage.row(id).is_some());
    stage.pool.drain(id, DrainCause::Unlisted, stage.now);
    assert_eq!(stage.pool.next_wakeup(), Some(stage.now + SECOND * 30));
    stage.wait(29_999);
    assert!(stage.row(id).is_some());
    // Other settings hold for drains under way too.
    stage.pool.reconfigure(limited(40), Profile::default());
    stage.wait(9_000);
    assert!(stage.row(id).is_some());
    stage.events();
    stage.wait(1_001);
    assert!(stage.row(id).is_none());
    let gone = PoolEvent::Gone {
        endpoint: id,
        address: "10.0.0.0:8000".into(),
        fenced: vec![running.lease],
    };
    assert_eq!(stage.events(), [PoolEvent::DrainCutShort { endpoint: id }, gone]);
    assert_eq!(stage.pool.next_wakeup(), None);
    assert_eq!(
        stage.pool.address(id),
        Some(&"10.0.0.0:8000".into()),
        "its place is still its own"
    );
    let report = stage.pool.finish(running.lease, LeaseEnd::Success, None, stage.now);
    assert_eq!(report, FinishReport::Fenced { endpoint: id });
    let next = stage.add("10.0.0.7:8000");
    assert_eq!((next.slot, stage.pool.address(id)), (id.slot, None));
    stage.pool.check_invariants().unwrap();
}

#[test]
fn an_answer_that_was_aborted_drains() {
    let mut stage = Stage::ready(1, Profile::default());
    let (first, second) = (stage.pick(), stage.pick());
    stage.finish(&first, LeaseEnd::Draining);
    let draining = EndpointState::Draining {
        cause: DrainCause::Aborting,
    };
    assert_eq!(stage.state(0), draining);
    stage.finish(&second, LeaseEnd::Draining);
    assert_eq!(stage.state(0), EndpointState::Loading);
    assert_eq!(stage.row(stage.ids[0]).unwrap().failed_calls, 0, "nobody is blamed");
    // What was proven before is forgotten.
    let partly = ReadinessReport::Healthy(Proofs::INFERENCE);
    let change = stage.pool.set_readiness(stage.ids[0], partly, stage.now);
    assert_eq!(change, ReadinessChange::None);
}

#[test]
fn an_address_that_comes_back_while_it_drains_is_another_endpoint() {
    let mut stage = Stage::ready(1, Profile::default());
    let old = stage.ids[0];
    let running = stage.pick();
    stage.pool.drain(old, DrainCause::Unlisted, stage.now);
    let new = stage.add("10.0.0.0:8000");
    assert_ne!(old, new);
    assert_eq!(stage.pool.endpoint_at(&"10.0.0.0:8000".into()), Some(new));
    assert_eq!(stage.pool.endpoint_at(&"10.0.0.5:8000".into()), None);
    assert_eq!(stage.pool.rows(stage.now).count(), 2);
    stage.ids[0] = new;
    stage.prove(new);
    stage.scrape();
    assert_eq!(stage.pick().endpoint, new);
    stage.finish(&running, LeaseEnd::Success);
    assert!(stage.row(old).is_none());
    // The slot is free again, for another life.
    let third = stage.add("10.0.0.9:8000");
    assert_eq!(third.slot, old.slot);
    assert_eq!(third.incarnation, old.incarnation.next());
    assert_eq!(
        stage.add("10.0.0.9:8000"),
        third,
        "an address that stays keeps its life"
    );
}

#[test]
fn a_restart_begins_a_new_life_with_nothing_kept() {
    let mut stage = Stage::ready(1, Profile::default());
    let old = stage.ids[0];
    stage.call_on(0, LeaseEnd::Failure);
    let running = stage.pick();
    stage.events();
    let new = stage.pool.restart(old, stage.now).unwrap();
    assert_eq!((new.slot, new.incarnation), (old.slot, old.incarnation.next()));
    let restarted = PoolEvent::Restarted {
        endpoint: old,
        next: new,
        fenced: vec![running.lease],
    };
    assert_eq!(stage.events(), [restarted]);
    let row = stage.row(new).unwrap();
    assert_eq!(row.state, EndpointState::Loading);
    assert_eq!(
        (row.in_flight, row.failed_calls, row.tally.picks, row.age),
        (0, 0, 0, None)
    );
    // The old life is over for everybody.
    assert_eq!(stage.pool.restart(old, stage.now), None);
    assert_eq!(
        stage
            .pool
            .set_readiness(old, ReadinessReport::Healthy(Proofs::ALL), stage.now),
        ReadinessChange::Unknown
    );
    let report = stage.pool.finish(running.lease, LeaseEnd::Failure, None, stage.now);
    assert_eq!(report, FinishReport::Fenced { endpoint: old });
    assert_eq!(stage.row(new).unwrap().failed_calls, 0, "the new life is not to blame");
    assert_eq!(stage.pool.counters().late_reports, 2);
    stage.pool.check_invariants().unwrap();
}

#[test]
fn a_removed_endpoint_cuts_off_its_leases() {
    let mut stage = Stage::ready(1, Profile::default());
    let leases: Vec<_> = (0..3).map(|_| stage.pick().lease).collect();
    stage.pool.remove(stage.ids[0], stage.now);
    let gone = PoolEvent::Gone {
        endpoint: stage.ids[0],
        address: "10.0.0.0:8000".into(),
        fenced: leases.clone(),
    };
    assert_eq!(stage.events(), [gone]);
    assert_eq!(stage.pool.live_leases(), 3);
    for lease in leases {
        let report = stage.pool.finish(lease, LeaseEnd::Failure, None, stage.now);
        assert!(matches!(report, FinishReport::Fenced { .. }));
    }
    assert_eq!(stage.pool.live_leases(), 0);
    stage.pool.check_invariants().unwrap();
}

#[test]
fn a_pool_takes_no_more_endpoints_than_it_may() {
    let options = PoolOptions {
        max_endpoints: 2,
        ..PoolOptions::default()
    };
    let mut stage = Stage::with(2, Profile::default(), options);
    let third = stage
        .pool
        .add("10.0.0.9:8000".into(), EndpointOptions::default(), stage.now);
    assert_eq!(third, Err(PoolFull { max_endpoints: 2 }));
    assert_eq!(stage.add("10.0.0.1:8000"), stage.ids[1], "it is there already");
    stage.pool.remove(stage.ids[0], stage.now);
    assert_eq!(stage.add("10.0.0.9:8000").slot, stage.ids[0].slot);
}
