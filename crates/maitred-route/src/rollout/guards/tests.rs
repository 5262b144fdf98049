use super::*;

const TOLERANCES: Tolerances = Tolerances {
    latency: 20_000,
    cost: 50_000,
    rate: 1_000,
};

/// The guard that speaks loudest after calls in turn of the one side and the other, and the odds' logarithm.
fn odds(calls: u32, baseline: impl Fn(u32) -> Observation, candidate: impl Fn(u32) -> Observation) -> Odds {
    let mut guards = Guards::new();
    for number in 0..calls {
        for (side, observed) in [(Side::Baseline, baseline(number)), (Side::Candidate, candidate(number))] {
            let seen = Seen {
                side,
                cell: (number % 251) as u8,
                settled: Settled::Yes,
                observed: &observed,
            };
            guards.observe(&seen, &TOLERANCES);
        }
    }
    guards.odds()
}

fn every(number: u32, step: u32) -> bool {
    number.is_multiple_of(step)
}

/// A good call, with latencies and cost that differ from one to the next.
fn good(number: u32) -> Observation {
    let varied = u64::from(number.wrapping_mul(2_654_435_761) >> 16);
    Observation {
        ttft: Some(Duration::from_micros(200_000 + varied)),
        tpot: Some(Duration::from_nanos(20_000_000 + varied * 500)),
        tool_calls_valid: Some(true),
        cost: Some(1_000_000 + varied),
        ..Observation::default()
    }
}

#[track_caller]
fn check(worse: impl Fn(&mut Observation, u32), expected: &[Guard]) {
    let candidate = |number| {
        let mut observed = good(number + 7);
        worse(&mut observed, number);
        observed
    };
    let found = odds(4_000, good, candidate);
    assert!(expected.contains(&found.guard), "{found:?}, not {expected:?}");
    assert!(found.log > 100_f64.ln(), "{found:?}");
    // The other way about the candidate is better, and nothing speaks against it.
    let found = odds(4_000, candidate, good);
    assert!(found.log < 3_f64.ln(), "{found:?}");
}

#[test]
fn each_guard_finds_what_it_is_for() {
    let error = |class| move |call: &mut Observation, number| call.error = every(number, 20).then_some(class);
    check(error(ErrorClass::Timeout), &[Guard::Timeout]);
    check(error(ErrorClass::Overload), &[Guard::Overload]);
    check(error(ErrorClass::Failure), &[Guard::Failure]);
    check(error(ErrorClass::Broken), &[Guard::Broken]);
    check(error(ErrorClass::Refused), &[Guard::Refused]);
    check(|call, number| call.truncated = every(number, 20), &[Guard::Truncated]);
    check(
        |call, number| call.tool_calls_valid = Some(!every(number, 20)),
        &[Guard::ToolCalls],
    );
    check(|call, number| call.degraded = every(number, 20), &[Guard::Degraded]);
    check(|call, _| call.cost = call.cost.map(|cost| cost * 2), &[Guard::Cost]);
    let tail = |number| if every(number, 60) { 3 } else { 1 };
    check(
        |call, number| call.ttft = call.ttft.map(|time| time * tail(number)),
        &[Guard::TtftP95, Guard::TtftP99],
    );
    check(
        |call, number| call.tpot = call.tpot.map(|time| time * tail(number)),
        &[Guard::TpotP95, Guard::TpotP99],
    );
}

#[test]
fn what_is_tolerated_is_no_evidence() {
    let candidate = |number| {
        let good = good(number + 7);
        Observation {
            ttft: good.ttft.map(|ttft| ttft.mul_f64(1.015)),
            cost: good.cost.map(|cost| cost * 104 / 100),
            truncated: every(number, 2_000),
            ..good
        }
    };
    let found = odds(20_000, good, candidate);
    assert!(found.log < 3_f64.ln(), "{found:?}");
}

#[test]
fn what_callers_or_the_gateway_are_to_blame_for_is_no_error_of_a_release() {
    for fault in FaultKind::ALL {
        let is_upstream = fault.row().origin == maitred_types::Origin::Upstream;
        let is_for_want_of_endpoints = matches!(
            fault,
            FaultKind::NoEndpoint | FaultKind::Saturated | FaultKind::RetryBudget | FaultKind::CallTimeout
        );
        assert_eq!(
            ErrorClass::of(*fault).is_some(),
            is_upstream || is_for_want_of_endpoints,
            "{fault:?}"
        );
    }
}

#[test]
fn the_parts_of_the_risk_make_a_whole() {
    let guards = Guards::new();
    // Before anything is seen the odds are one to one, however many guards there are.
    assert!(guards.odds().log.abs() < 1e-9, "{:?}", guards.odds());
    let mut labels: Vec<_> = Guard::ALL.iter().map(|guard| guard.label()).collect();
    labels.sort_unstable();
    labels.dedup();
    assert_eq!(labels.len(), Guard::ALL.len());
}
