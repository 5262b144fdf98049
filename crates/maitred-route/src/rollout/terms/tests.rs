use super::super::tests::{release, terms};
use super::*;

#[track_caller]
fn check(change: impl FnOnce(&mut Terms), expected: Result<(), TermsFault>) {
    let mut terms = terms();
    change(&mut terms);
    assert_eq!(terms.check(), expected);
}

#[test]
fn terms_must_make_sense() {
    check(|_| (), Ok(()));
    check(|terms| terms.steps.clear(), Err(TermsFault::Steps));
    check(
        |terms| terms.steps = vec![terms.steps[2].clone(); STEPS_MAX + 1],
        Err(TermsFault::Steps),
    );
    for percent in [0, 91, 100] {
        check(
            |terms| terms.steps[2].portion = Portion::from_percent(percent),
            Err(TermsFault::StepPortion(2)),
        );
    }
    check(
        |terms| terms.steps[1].portion = Portion::from_percent(5),
        Err(TermsFault::StepNarrows(1)),
    );
    check(
        |terms| terms.steps[1].tenants = vec!["umbrella".to_owned()],
        Err(TermsFault::StepNarrows(1)),
    );
    check(
        |terms| terms.steps[2].tenants = vec!["acme".to_owned()],
        Err(TermsFault::StepNarrows(2)),
    );
    check(
        |terms| terms.steps[0].tenants = vec!["acme".to_owned(); STEP_TENANTS_MAX + 1],
        Err(TermsFault::StepTenants(0)),
    );
    check(|terms| terms.candidate = release("blue"), Err(TermsFault::SameRelease));
    check(|terms| terms.risk = 0, Err(TermsFault::Risk));
    check(|terms| terms.risk = 100_001, Err(TermsFault::Risk));
    check(|terms| terms.tolerances.rate = 100_001, Err(TermsFault::Tolerance));
    check(|terms| terms.sample = 170, Err(TermsFault::Sample));
    check(|terms| terms.sample_min = 0, Err(TermsFault::Sample));
    let shadow = |calls| {
        Some(Shadow {
            portion: Portion::ALL,
            calls,
            cost: 1,
        })
    };
    check(|terms| terms.shadow = shadow(19), Err(TermsFault::Shadow));
    check(|terms| terms.shadow = shadow(20), Ok(()));
}

#[test]
fn the_sample_falls_to_the_steps_by_their_portions() {
    let terms = terms();
    let samples: Vec<_> = (0..4).map(|step| terms.sample_of(step)).collect();
    assert_eq!(samples, [100, 300, 500, 0]);
}

#[test]
fn faults_say_what_to_do() {
    let said: Vec<_> = [TermsFault::StepPortion(0), TermsFault::StepNarrows(1)]
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        said,
        [
            "step 1: its portion must be more than 0 % and at most 90 %, so that there is a baseline to compare with",
            "step 2: it must keep every session of the step before; raise its portion and keep its tenants",
        ]
    );
}
