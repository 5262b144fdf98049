//! Shadows: what another profile would have chosen, without a trace; and the names of those that filters removed.

use maitred_types::{EndpointId, LeaseEnd};

use super::{Stage, ask};
use crate::{
    Ask, DrainCause, Explain, Filter, MAX_REMOVALS, Picker, PoolOptions, Profile, Scorer, Shadow, Signals, Weighted,
};

fn profile(picker: Picker) -> Profile {
    let scorer = Weighted {
        scorer: Scorer::LeastRequest,
        weight: 1.0,
    };
    Profile::build(&[Filter::LowQueue { max: 5 }], &[scorer], &[picker]).unwrap()
}

/// What stands beside the live picks.
#[derive(Clone, Copy, PartialEq)]
enum Beside {
    Nothing,
    /// Shadows of every picker.
    Shadows,
    /// Picks that book: the control, which must be noticed.
    Picks,
}

/// Two hundred picks of which every third stays booked.
fn picks(live: Picker, beside: Beside) -> Vec<EndpointId> {
    let mut stage = Stage::ready(6, profile(live));
    let mut shadows: Vec<_> = Picker::ALL
        .iter()
        .map(|picker| Shadow::new(profile(*picker), 99))
        .collect();
    let mut picked_ids = Vec::new();
    for turn in 0..200 {
        match beside {
            Beside::Nothing => {}
            Beside::Shadows => {
                let before = stage.pool.counters();
                for shadow in &mut shadows {
                    assert!(stage.pool.consider(&ask(100), shadow, stage.now).is_some());
                }
                stage.pool.check_invariants().unwrap();
                assert_eq!(stage.pool.counters(), before);
            }
            Beside::Picks => {
                stage.pick();
            }
        }
        let picked = stage.pick();
        picked_ids.push(picked.endpoint);
        if turn % 3 > 0 {
            stage.finish(&picked, LeaseEnd::Success);
        }
    }
    picked_ids
}

#[test]
fn live_picks_are_the_same_with_shadows_and_without() {
    for live in Picker::ALL {
        let alone = picks(*live, Beside::Nothing);
        assert_eq!(picks(*live, Beside::Shadows), alone, "{live:?}");
        assert_ne!(
            picks(*live, Beside::Picks),
            alone,
            "{live:?}: the check does not see what it should"
        );
    }
}

#[test]
fn a_shadow_sees_what_the_live_pick_sees() {
    let mut stage = Stage::ready(3, Profile::round_robin());
    let mut shadow = Shadow::new(profile(Picker::MaxScore), 1);
    let busy = Signals {
        running: 50,
        ..Signals::default()
    };
    for at in [0, 2] {
        stage.page(stage.ids[at], &busy);
    }
    for _ in 0..3 {
        let why = stage.pool.consider(&ask(10), &mut shadow, stage.now).unwrap();
        assert_eq!(why.ranked()[0].endpoint, stage.ids[1]);
        let picked = stage.pick();
        stage.finish(&picked, LeaseEnd::Success);
    }
}

#[test]
fn a_shadow_whose_filters_leave_nobody_says_so() {
    let mut stage = Stage::ready(2, Profile::round_robin());
    let mut shadow = Shadow::new(profile(Picker::MaxScore), 1);
    let full = Signals {
        queued: 9,
        ..Signals::default()
    };
    for id in stage.ids.clone() {
        stage.page(id, &full);
    }
    assert!(stage.pool.consider(&ask(10), &mut shadow, stage.now).is_none());
    stage.pick();
}

fn full_ask() -> Ask<'static> {
    Ask {
        explain: Explain::Full,
        ..ask(10)
    }
}

#[test]
fn those_that_filters_removed_are_named() {
    let mut options = PoolOptions::default();
    options.outlier.failures = 1;
    let mut stage = Stage::with(6, profile(Picker::MaxScore), options);
    let ids = stage.ids.clone();
    stage.pick_on(0);
    stage.pool.drain(ids[0], DrainCause::HealthUnavailable, stage.now);
    stage.call_on(1, LeaseEnd::Failure);
    stage.call_on(2, LeaseEnd::Overload);
    stage.page(
        ids[3],
        &Signals {
            queued: 9,
            ..Signals::default()
        },
    );
    let excluded = [ids[4]];
    let picked = stage
        .pick_as(&Ask {
            excluded: &excluded,
            ..full_ask()
        })
        .unwrap();
    let named: Vec<_> = picked
        .why
        .removals
        .iter()
        .map(|lost| (lost.endpoint, lost.filter))
        .collect();
    let expected = [
        (ids[0], Filter::Ready),
        (ids[1], Filter::NotEjected),
        (ids[2], Filter::NotCooling),
        (ids[3], Filter::LowQueue { max: 5 }),
        (ids[4], Filter::NotExcluded),
    ];
    assert_eq!(named, expected);
    assert_eq!(picked.why.removals[0].state.label(), "draining");
    assert_eq!(picked.why.removed.total(), 5);
    assert!(stage.pick().why.removals.is_empty(), "a short record names nobody");
}

#[test]
fn the_names_are_bounded_and_the_counts_are_not() {
    let mut stage = Stage::ready(20, Profile::round_robin());
    for id in stage.ids.clone().into_iter().skip(1) {
        stage.pool.drain(id, DrainCause::HealthUnavailable, stage.now);
    }
    let why = stage.pick_as(&full_ask()).unwrap().why;
    assert_eq!(why.removals.len(), MAX_REMOVALS);
    assert_eq!(why.removed.by(Filter::Ready), 19);
}
