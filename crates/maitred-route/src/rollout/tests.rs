use proptest::prelude::*;

use super::*;
use crate::release::{Part, Release, Source, Statement};
use maitred_types::{Address, PoolName};

const SIDES: [Side; 2] = [Side::Baseline, Side::Candidate];

pub(super) fn release(name: &str) -> Release {
    Release {
        name: name.to_owned(),
        pool: PoolName::from(name),
        weights: format!("weights of {name}"),
        engine: None,
        quantization: None,
        chat_template: None,
        route: None,
    }
}

pub(super) fn terms() -> Terms {
    let step = |percent, tenants: &[&str]| Step {
        portion: Portion::from_percent(percent),
        tenants: tenants.iter().map(|tenant| (*tenant).to_owned()).collect(),
    };
    Terms {
        name: "spring".to_owned(),
        baseline: release("blue"),
        candidate: release("green"),
        shadow: None,
        steps: vec![step(10, &["acme"]), step(30, &[]), step(50, &[])],
        sample: 900,
        sample_min: 20,
        step_min: Duration::from_secs(10),
        settle: Duration::ZERO,
        linger: Duration::from_secs(60),
        risk: 10_000,
        tolerances: Tolerances {
            latency: 20_000,
            cost: 50_000,
            rate: 1_000,
        },
    }
}

fn at(seconds: u64) -> UnixMillis {
    UnixMillis::new(1_800_000_000_000 + seconds * 1_000)
}

/// What endpoints say of which each runs the named release's weights.
fn found(side: Side, runs: &[&str]) -> Verification {
    let statements: Vec<_> = runs
        .iter()
        .map(|runs| {
            let mut statement = Statement::new(Address::from("10.0.0.1:8000"));
            statement.tell(Part::Weights, &release(runs).weights, Source::Models);
            statement
        })
        .collect();
    release(name_of(side)).verify(&statements)
}

fn name_of(side: Side) -> &'static str {
    match side {
        Side::Baseline => "blue",
        Side::Candidate => "green",
    }
}

fn start(terms: Terms) -> Rollout {
    let [baseline, candidate] = SIDES.map(|side| found(side, &[name_of(side)]));
    Rollout::start(terms, baseline, candidate, at(0)).unwrap().0
}

fn caller(number: u64) -> Caller<'static> {
    Caller {
        tenant: "acme",
        session: SessionHash::of("acme", &number.to_string()),
        session_since: None,
    }
}

fn good() -> Observation {
    Observation {
        ttft: Some(Duration::from_millis(300)),
        tpot: Some(Duration::from_millis(20)),
        cost: Some(2_000_000),
        ..Observation::default()
    }
}

fn failed() -> Observation {
    Observation {
        error: Some(ErrorClass::Failure),
        ..Observation::default()
    }
}

/// So many calls of different sessions, one a second from `from` on; the candidate's are observed as `candidate` says.
fn calls(rollout: &mut Rollout, range: std::ops::Range<u64>, candidate: Observation) -> Vec<Event> {
    let mut events = Vec::new();
    for number in range {
        let call = rollout.assign(&caller(number), at(number));
        let observed = if call.side == Side::Candidate {
            candidate
        } else {
            good()
        };
        events.extend(rollout.observe(&call, &observed, at(number)));
    }
    events
}

fn stages(events: &[Event]) -> Vec<Stage> {
    let entered = events.iter().filter_map(|event| match event {
        Event::Entered { stage, .. } => Some(*stage),
        _ => None,
    });
    entered.collect()
}

#[test]
fn an_equal_candidate_goes_through_all_steps_and_is_promoted_when_endpoints_say_so() {
    let mut rollout = start(terms());
    let events = calls(&mut rollout, 0..5_000, good());
    assert_eq!(stages(&events), [Stage::Step(1), Stage::Step(2), Stage::Promoting]);
    assert_eq!(rollout.portion(), Portion::ALL);
    // Asked before the promotion began: proves nothing of it.
    let ready = found(Side::Candidate, &["green"]);
    assert_eq!(rollout.verified(Side::Candidate, ready.clone(), at(1), at(6_000)), []);
    let half = found(Side::Candidate, &["green", "blue"]);
    let events = rollout.verified(Side::Candidate, half.clone(), at(6_000), at(6_001));
    assert_eq!(events, [Event::NotDone(half)]);
    assert_eq!(rollout.stage(), Stage::Promoting);
    let events = rollout.verified(Side::Candidate, ready, at(6_010), at(6_011));
    assert_eq!(stages(&events), [Stage::Promoted]);
    assert_eq!(rollout.abort("ann", at(6_020)), []);
}

#[test]
fn a_failing_candidate_is_rolled_back_at_once_and_everybody_with_it() {
    let mut rollout = start(terms());
    let events = calls(&mut rollout, 0..1_000, failed());
    assert_eq!(stages(&events), [Stage::RollingBack]);
    assert!(rollout.compared() < 40, "{}", rollout.compared());
    let Some(Why::Guard { guard, odds }) = rollout.status().why else {
        panic!("{:?}", rollout.status());
    };
    assert_eq!(*guard, Guard::Failure);
    assert!(*odds >= 100);
    for number in 0..1_000 {
        assert_eq!(rollout.assign(&caller(number), at(2_000)).side, Side::Baseline);
    }
}

#[test]
fn with_the_weights_left_behind_a_rollback_is_not_done() {
    let mut rollout = start(terms());
    let events = rollout.abort("ann", at(5));
    assert_eq!(events[0], Event::RollbackBegan(Why::Operator("ann".to_owned())));
    // The configuration is back, an endpoint's weights are not.
    let half = found(Side::Baseline, &["blue", "green"]);
    assert_eq!(
        rollout.verified(Side::Baseline, half.clone(), at(6), at(6)),
        [Event::NotDone(half.clone())]
    );
    assert_eq!(rollout.verified(Side::Baseline, half, at(7), at(7)), []);
    assert_eq!(
        rollout
            .verified(Side::Baseline, found(Side::Baseline, &[]), at(8), at(8))
            .len(),
        1
    );
    assert_eq!(rollout.stage(), Stage::RollingBack);
    let events = rollout.verified(Side::Baseline, found(Side::Baseline, &["blue", "blue"]), at(9), at(9));
    assert_eq!(stages(&events), [Stage::RolledBack]);
}

#[test]
fn nothing_begins_that_could_not_be_taken_back() {
    let [baseline, candidate] = SIDES.map(|side| found(side, &[name_of(side)]));
    let drifted = found(Side::Baseline, &["green"]);
    let refusal = Rollout::start(terms(), drifted, candidate.clone(), at(0)).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "release blue: 1 of 1 endpoints do not prove that they run it; 10.0.0.1:8000: weights is weights of green, the release says \
         weights of blue. Deploy it, or name in the release only what endpoints tell"
    );
    // What was found of another release proves nothing.
    assert!(Rollout::start(terms(), candidate.clone(), candidate, at(0)).is_err());
    let mut same = terms();
    same.candidate = release("blue");
    let refusal = Rollout::start(same, baseline.clone(), baseline, at(0)).unwrap_err();
    assert_eq!(refusal, StartRefusal::Terms(TermsFault::SameRelease));
}

#[test]
fn drift_holds_a_step_and_a_candidate_that_is_nowhere_is_rolled_back() {
    let mut rollout = start(terms());
    let half = found(Side::Candidate, &["green", "blue"]);
    let events = rollout.verified(Side::Candidate, half, at(1), at(1));
    assert_eq!(events, [Event::Held(Hold::Drift)]);
    calls(&mut rollout, 0..5_000, good());
    assert_eq!(rollout.stage(), Stage::Step(0));
    let nowhere = found(Side::Candidate, &["blue"]);
    let events = rollout.verified(Side::Candidate, nowhere, at(5_001), at(5_001));
    assert_eq!(stages(&events), [Stage::RollingBack]);
    assert_eq!(rollout.status().why, Some(&Why::Drift));
}

#[test]
fn a_step_for_tenants_concerns_only_them() {
    let rollout = start(terms());
    let mut candidates = 0;
    for number in 0..1_000 {
        let mut caller = caller(number);
        candidates += u32::from(rollout.assign(&caller, at(1)).side == Side::Candidate);
        caller.tenant = "umbrella";
        let call = rollout.assign(&caller, at(1));
        assert_eq!((call.side, call.compared), (Side::Baseline, None));
    }
    assert!((70..130).contains(&candidates), "{candidates}");
}

#[test]
fn a_session_stays_where_it_began() {
    let mut rollout = start(terms());
    let before: Vec<_> = (0..1_000)
        .map(|number| rollout.assign(&caller(number), at(1)).side)
        .collect();
    calls(&mut rollout, 0..1_500, good());
    assert_eq!(rollout.stage(), Stage::Step(1));
    let mut moved = 0;
    for (number, before) in (0..).zip(before) {
        let known = Caller {
            session_since: Some(at(1)),
            ..caller(number)
        };
        assert_eq!(rollout.assign(&known, at(1_501)).side, before);
        let now = rollout.assign(&caller(number), at(1_501)).side;
        // Who is not known to have begun at the baseline may move, but never back.
        assert!(before == Side::Baseline || now == Side::Candidate);
        moved += u32::from(before != now);
    }
    assert!((150..250).contains(&moved), "{moved}");
    rollout.promote("ann", at(2_010));
    let (mut stay, mut later) = (0, 0);
    for number in 0..1_000 {
        let known = Caller {
            session_since: Some(at(1)),
            ..caller(number)
        };
        stay += u32::from(rollout.assign(&known, at(2_020)).side == Side::Baseline);
        later += u32::from(rollout.assign(&known, at(2_080)).side == Side::Baseline);
    }
    assert!((850..950).contains(&stay), "{stay}");
    assert_eq!(later, 0);
}

#[test]
fn the_shadow_keeps_to_its_own_budget() {
    let mut terms = terms();
    terms.shadow = Some(Shadow {
        portion: Portion::from_percent(50),
        calls: 200,
        cost: 1_000_000_000,
    });
    let mut rollout = start(terms.clone());
    assert_eq!(rollout.stage(), Stage::Shadow);
    let under_way: Vec<_> = (0..1_000).filter_map(|number| rollout.copy(&caller(number))).collect();
    assert_eq!(under_way.len() as u64, SHADOW_IN_FLIGHT_MAX);
    for copy in &under_way {
        rollout.forget(copy);
    }
    let mut copies = 0;
    for number in 0..2_000 {
        let call = rollout.assign(&caller(number), at(number));
        if rollout.stage() == Stage::Shadow {
            // Nobody is ever answered by the candidate.
            assert_eq!(call.side, Side::Baseline);
        }
        rollout.observe(&call, &good(), at(number));
        if let Some(copy) = rollout.copy(&caller(number)) {
            copies += 1;
            rollout.observe(&copy, &good(), at(number));
        }
    }
    assert_eq!(copies, 200);
    assert_ne!(rollout.stage(), Stage::Shadow);
    assert_eq!(rollout.status().shadow.cost, 200 * 2_000_000);

    // Of a budget of ten calls' cost the shadow makes ten copies, and then asks an operator.
    terms.shadow = terms.shadow.map(|shadow| Shadow {
        cost: 20_000_000,
        ..shadow
    });
    let mut rollout = start(terms);
    let mut copies = 0;
    for number in 0..1_000 {
        if let Some(copy) = rollout.copy(&caller(number)) {
            copies += 1;
            rollout.observe(&copy, &good(), at(number));
        }
    }
    assert_eq!((copies, rollout.stage()), (10, Stage::Shadow));
    assert_eq!(rollout.status().hold, Some(Hold::Budget));
}

#[test]
fn a_shadow_that_fails_is_never_shown_to_anybody() {
    let mut terms = terms();
    terms.shadow = Some(Shadow {
        portion: Portion::ALL,
        calls: 200,
        cost: u64::MAX,
    });
    let mut rollout = start(terms);
    for number in 0..1_000 {
        let call = rollout.assign(&caller(number), at(number));
        assert_eq!(call.side, Side::Baseline);
        rollout.observe(&call, &good(), at(number));
        if let Some(copy) = rollout.copy(&caller(number)) {
            rollout.observe(&copy, &failed(), at(number));
        }
    }
    assert_eq!(rollout.stage(), Stage::RollingBack);
}

#[test]
fn humans_who_take_over_are_counted_with_the_calls_that_come_after() {
    let mut rollout = start(terms());
    for number in 0..4_000 {
        let call = rollout.assign(&caller(number), at(number));
        rollout.observe(&call, &good(), at(number));
        if call.side == Side::Candidate && number % 3 == 0 {
            rollout.takeover(&call);
        }
    }
    assert!(
        matches!(
            rollout.status().why,
            Some(Why::Guard {
                guard: Guard::Takeover,
                ..
            })
        ),
        "{:?}",
        rollout.status()
    );
}

#[test]
fn until_caches_are_warm_latencies_are_not_compared() {
    let slow = Observation {
        ttft: Some(Duration::from_secs(3)),
        ..good()
    };
    for (settle, expected) in [(0, Stage::RollingBack), (4_000, Stage::Promoting)] {
        let mut terms = terms();
        terms.settle = Duration::from_secs(settle);
        let mut rollout = start(terms);
        calls(&mut rollout, 0..5_000, slow);
        assert_eq!(rollout.stage(), expected, "{settle}");
    }
}

#[test]
fn what_was_written_down_goes_on_or_back_but_is_never_forgotten() {
    let mut rollout = start(terms());
    calls(&mut rollout, 0..1_500, good());
    let (same, events) = rollout.clone().resume(Some(&terms()), at(2_000));
    assert_eq!(
        (same.stage(), events),
        (Stage::Step(1), vec![Event::Resumed(Stage::Step(1))])
    );
    let mut other = terms();
    other.candidate = release("red");
    for now in [None, Some(&other)] {
        let (back, events) = rollout.clone().resume(now, at(2_000));
        assert_eq!(stages(&events), [Stage::RollingBack]);
        assert_eq!(back.status().why, Some(&Why::TermsChanged));
        // Also when it dies again before the endpoints were asked.
        let (back, events) = back.resume(None, at(1_501));
        assert_eq!((back.stage(), stages(&events)), (Stage::RollingBack, vec![]));
    }
    let mut text = serde_json::to_value(&rollout).unwrap();
    text["guards"]["evidence"].as_array_mut().unwrap().pop();
    let (back, _) = serde_json::from_value::<Rollout>(text)
        .unwrap()
        .resume(Some(&terms()), at(2_000));
    assert_eq!(
        (back.stage(), back.status().why),
        (Stage::RollingBack, Some(&Why::Unreadable))
    );
    assert!(calls(&mut back.clone(), 2_000..3_000, good()).is_empty());
}

#[test]
fn a_state_takes_bounded_room() {
    let mut rollout = start(terms());
    calls(&mut rollout, 0..1_000, good());
    let early = serde_json::to_string(&rollout).unwrap().len();
    let mut terms = terms();
    terms.sample = u64::from(u32::MAX);
    let mut rollout = start(terms);
    calls(&mut rollout, 0..40_000, good());
    let late = serde_json::to_string(&rollout).unwrap().len();
    assert!(late < early + 20_000 && late < 64_000, "{early} {late}");
}

/// One thing that may happen to a rollout.
#[derive(Clone, Debug)]
enum Input {
    Call { session: u64, worse: bool, known: bool },
    Copy { session: u64, worse: bool },
    Lost { session: u64 },
    Verified { side: Side, runs: Vec<bool>, late: u64 },
    Tick,
    Promote,
    Abort,
    Restart,
}

fn inputs() -> impl Strategy<Value = Vec<(Input, bool)>> {
    let call = (0..40_u64, prop::bool::weighted(0.02), any::<bool>());
    let input = prop_oneof![
        60 => call.prop_map(|(session, worse, known)| Input::Call { session, worse, known }),
        20 => (0..40_u64, prop::bool::weighted(0.02)).prop_map(|(session, worse)| Input::Copy { session, worse }),
        3 => (0..40_u64).prop_map(|session| Input::Lost { session }),
        3 => (0..2_usize, prop::collection::vec(prop::bool::weighted(0.9), 0..4), 0..3_u64)
            .prop_map(|(side, runs, late)| Input::Verified { side: SIDES[side], runs, late }),
        10 => Just(Input::Tick),
        1 => Just(Input::Restart),
        1 => prop_oneof![Just(Input::Promote), Just(Input::Abort)],
    ];
    prop::collection::vec((input, prop::bool::weighted(0.1)), 0..400)
}

/// Applies an input and says everything that can be seen of it.
fn apply(rollout: &mut Rollout, input: &Input, now: u64) -> (Vec<Event>, Option<Assignment>) {
    let observed = |worse: bool| if worse { failed() } else { good() };
    match input {
        Input::Call { session, worse, known } => {
            let caller = Caller {
                session_since: known.then(|| at(now / 2)),
                ..caller(*session)
            };
            let call = rollout.assign(&caller, at(now));
            if *worse && *known {
                rollout.takeover(&call);
            }
            (rollout.observe(&call, &observed(*worse), at(now)), Some(call))
        }
        Input::Copy { session, worse } => match rollout.copy(&caller(*session)) {
            Some(copy) => (rollout.observe(&copy, &observed(*worse), at(now)), Some(copy)),
            None => (Vec::new(), None),
        },
        Input::Lost { session } => {
            let copy = rollout.copy(&caller(*session));
            if let Some(copy) = &copy {
                rollout.forget(copy);
            }
            (Vec::new(), copy)
        }
        Input::Verified { side, runs, late } => {
            let other = SIDES[usize::from(*side == Side::Baseline)];
            let runs: Vec<_> = runs
                .iter()
                .map(|right| name_of(if *right { *side } else { other }))
                .collect();
            let asked = at(now.saturating_sub(*late));
            (rollout.verified(*side, found(*side, &runs), asked, at(now)), None)
        }
        Input::Tick => (rollout.tick(at(now)), None),
        Input::Promote => (rollout.promote("ann", at(now)), None),
        Input::Abort => (rollout.abort("ann", at(now)), None),
        Input::Restart => {
            let (resumed, events) = rollout.clone().resume(Some(&terms_of_property()), at(now));
            *rollout = resumed;
            (events, None)
        }
    }
}

fn terms_of_property() -> Terms {
    let mut terms = terms();
    terms.shadow = Some(Shadow {
        portion: Portion::from_percent(80),
        calls: 20,
        cost: 60_000_000,
    });
    terms.sample = 120;
    terms.sample_min = 10;
    terms
}

/// What must hold after every step, whatever came before.
fn invariants(before: &Rollout, after: &Rollout, input: &Input) {
    let ends = |stage| matches!(stage, Stage::Promoted | Stage::RolledBack);
    assert!(!ends(before.stage) || before.stage == after.stage, "an end is left");
    if matches!(before.stage, Stage::RollingBack | Stage::RolledBack) {
        assert_eq!(
            after.portion(),
            Portion::NONE,
            "a rollback gives the candidate sessions"
        );
    }
    if ends(after.stage) && !ends(before.stage) {
        assert!(matches!(input, Input::Verified { .. }), "an end without proof");
        let side = usize::from(after.stage == Stage::Promoted);
        assert!(after.found[side].as_ref().unwrap().holds(), "an end with drift");
    }
    if let Some(shadow) = after.terms.shadow {
        assert!(after.shadow.made <= shadow.calls, "the shadow made too many copies");
    }
    if after.stage != Stage::RollingBack && after.stage != Stage::RolledBack {
        assert!(after.portion() >= before.portion(), "sessions are taken away");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_state_that_is_written_and_read_at_any_moment_goes_on_in_the_same_way(inputs in inputs()) {
        let mut whole = start(terms_of_property());
        let mut restored = whole.clone();
        for (now, (input, is_written)) in (1..).zip(&inputs) {
            let before = whole.clone();
            if *is_written {
                let text = serde_json::to_string(&restored).unwrap();
                restored = serde_json::from_str(&text).unwrap();
            }
            prop_assert_eq!(&restored, &whole);
            let seen = apply(&mut whole, input, now);
            prop_assert_eq!(apply(&mut restored, input, now), seen);
            invariants(&before, &whole, input);
        }
    }
}

#[test]
fn the_invariants_notice_what_they_are_for() {
    let fails = |before: &Rollout, after: &Rollout| {
        let seen = std::panic::catch_unwind(|| invariants(before, after, &Input::Tick));
        assert!(seen.is_err());
    };
    let rollout = start(terms_of_property());
    let with = |stage| Rollout {
        stage,
        ..rollout.clone()
    };
    fails(&with(Stage::RolledBack), &with(Stage::Step(0)));
    fails(&with(Stage::RollingBack), &with(Stage::Promoting));
    fails(&with(Stage::RollingBack), &with(Stage::RolledBack));
    fails(&with(Stage::Step(1)), &with(Stage::Step(0)));
    let mut spent = rollout.clone();
    spent.shadow.made = 21;
    fails(&rollout, &spent);
}
