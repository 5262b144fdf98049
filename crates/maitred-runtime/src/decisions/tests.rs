use maitred_config::{DecisionSettings, Detail};
use maitred_route::Evidence;
use maitred_tenant::Principal;
use maitred_types::{ByteSize, OutcomeStatus, RequestId, Time, UnixMillis};
use std::time::Duration;

use super::*;
use crate::decision::Decision;

fn decisions(keep: u32, size: u64) -> Decisions {
    let decisions = Decisions::default();
    configure(&decisions, keep, size);
    decisions
}

fn configure(decisions: &Decisions, keep: u32, size: u64) {
    decisions.configure(&DecisionSettings {
        keep,
        size: ByteSize::new(size),
        detail: Detail::Full,
        archive: None,
    });
}

fn decision(id: &str, arrived: u64) -> Decision {
    Decision {
        request_id: RequestId::from(id),
        arrived: Time::from_millis(arrived),
        arrived_unix: UnixMillis::new(arrived),
        principal: Principal::anonymous("t".into()),
        task: None,
        asked: None,
        evidence: Evidence::default(),
        target: None,
        left: Vec::new(),
        degradation: None,
        quota: None,
        choices: Vec::new(),
        status: OutcomeStatus::Answered,
        detail: None,
        first_token: None,
        duration: Duration::ZERO,
    }
}

#[test]
fn the_oldest_make_room_for_the_newest() {
    let decisions = decisions(3, 1 << 20);
    let ring = decisions.add_ring();
    for number in 0..10 {
        ring.keep(decision(&format!("call-{number}"), number));
    }
    assert_eq!(decisions.list().newest, ["call-9", "call-8", "call-7"]);
    assert!(decisions.find("call-6").is_none());
    assert_eq!(decisions.find("call-7").unwrap().arrived, Time::from_millis(7));
}

#[test]
fn all_rings_together_stay_within_the_bounds() {
    for (keep, size) in [(7, 1 << 20), (1_000, 4_000), (2, 1 << 20), (0, 1 << 20)] {
        let decisions = decisions(keep, size);
        let rings: Vec<_> = (0..3).map(|_| decisions.add_ring()).collect();
        for number in 0..500_u64 {
            // Uneven traffic: one ring gets most of it.
            let ring = &rings[if number % 10 == 0 { 1 } else { 0 }];
            let long = "x".repeat(usize::try_from(number % 100).unwrap());
            ring.keep(decision(&format!("call-{number}-{long}"), number));
            let list = decisions.list();
            assert!(list.kept <= keep as usize && list.bytes as u64 <= size, "{list:?}");
        }
        assert_eq!(
            decisions.list().kept == 0,
            keep == 0 || decisions.list().newest.is_empty()
        );
    }
}

#[test]
fn the_count_of_bytes_is_that_of_what_is_kept() {
    let decisions = decisions(5, 1 << 20);
    let ring = decisions.add_ring();
    for number in 0..50 {
        ring.keep(decision(&"i".repeat(number), 0));
    }
    configure(&decisions, 0, 1 << 20);
    let list = decisions.list();
    assert_eq!((list.kept, list.bytes), (0, 0), "what was added is what was taken away");
}

#[test]
fn a_smaller_bound_takes_effect_at_once_and_a_new_ring_takes_its_share() {
    let decisions = decisions(8, 1 << 20);
    let ring = decisions.add_ring();
    for number in 0..8 {
        ring.keep(decision(&number.to_string(), number));
    }
    assert_eq!(decisions.list().kept, 8);
    let _other = decisions.add_ring();
    assert_eq!(decisions.list().kept, 4);
    configure(&decisions, 2, 1 << 20);
    assert_eq!(decisions.list().newest, ["7"]);
}

#[test]
fn the_newest_call_of_an_id_is_found_whatever_ring_it_is_in() {
    let decisions = decisions(10, 1 << 20);
    let rings = [decisions.add_ring(), decisions.add_ring()];
    for (at, arrived) in [(0, 5), (1, 9), (0, 7)] {
        rings[at].keep(decision("same", arrived));
    }
    assert_eq!(decisions.find("same").unwrap().arrived, Time::from_millis(9));
}

#[test]
fn nothing_is_asked_for_when_nothing_is_kept() {
    assert_eq!(decisions(0, 1 << 20).detail(), None);
    assert_eq!(decisions(1, 1 << 20).detail(), Some(Explain::Full));
}

#[test]
fn a_long_detail_is_cut_between_characters() {
    let cut = Decision::cut(&"é".repeat(200));
    assert_eq!(cut.len(), Decision::DETAIL_MAX);
    assert_eq!(&*Decision::cut("short"), "short");
}
