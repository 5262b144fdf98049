use super::*;

const OPTIONS: BreakerOptions = BreakerOptions {
    failures: 3,
    base: Duration::from_secs(5),
    max: Duration::from_secs(60),
    forgive_after: 4,
    probe: Duration::from_secs(30),
};

fn at(secs: u64) -> Time {
    Time::from_millis(secs * 1_000)
}

fn pass(breaker: &mut Breaker, now: Time) -> Pass {
    match breaker.ask(now) {
        Admission::Open(pass) => pass,
        closed @ Admission::Closed { .. } => panic!("{closed:?} at {now:?}"),
    }
}

/// One call that ends at once.
fn call(breaker: &mut Breaker, end: CallEnd, secs: u64) -> Option<Turn> {
    let pass = pass(breaker, at(secs));
    breaker.end(pass, end, at(secs))
}

/// Fails until the breaker opens; how long it is open.
fn open(breaker: &mut Breaker, secs: u64) -> u64 {
    for _ in 0..OPTIONS.failures {
        if let Some(Turn::Opened { until, .. }) = call(breaker, CallEnd::Failed, secs) {
            return until.since(at(secs)).as_secs();
        }
    }
    panic!("not open after {} failures", OPTIONS.failures)
}

fn busy(retry_after: Option<u64>) -> CallEnd {
    CallEnd::Busy {
        reason: DegradeReason::Quota,
        retry_after: retry_after.map(Duration::from_secs),
    }
}

#[test]
fn failures_in_a_row_open_it_and_one_call_closes_it() {
    let mut breaker = Breaker::new(OPTIONS);
    assert_eq!(call(&mut breaker, CallEnd::Failed, 0), None);
    assert_eq!(call(&mut breaker, CallEnd::Failed, 0), None);
    assert_eq!(call(&mut breaker, CallEnd::Good, 0), None);
    assert_eq!(open(&mut breaker, 1), 5);
    let closed = |until| Admission::Closed {
        reason: DegradeReason::Unavailable,
        until: at(until),
    };
    assert_eq!(breaker.ask(at(5)), closed(6));
    let probe = pass(&mut breaker, at(6));
    assert!(probe.is_probe());
    // Nobody else while the probe is under way, and the next one if it is not heard of.
    assert_eq!(breaker.ask(at(35)), closed(36));
    let second = pass(&mut breaker, at(36));
    assert_eq!(breaker.end(probe, CallEnd::Good, at(37)), None);
    assert_eq!(breaker.end(second, CallEnd::Good, at(37)), Some(Turn::Closed));
    assert!(!pass(&mut breaker, at(37)).is_probe());
}

#[test]
fn openings_double_and_are_forgiven() {
    let mut breaker = Breaker::new(OPTIONS);
    assert_eq!(open(&mut breaker, 0), 5);
    let mut now = 100;
    for expected in [10, 20, 40, 60, 60] {
        let turn = call(&mut breaker, CallEnd::Failed, now);
        let reason = DegradeReason::Unavailable;
        let until = at(now + expected);
        assert_eq!(turn, Some(Turn::Opened { reason, until }));
        now += 100;
    }
    let good = (0..40).filter_map(|_| call(&mut breaker, CallEnd::Good, now)).count();
    assert_eq!(good, 1);
    assert_eq!(open(&mut breaker, now), 5);
}

#[test]
fn having_too_much_to_do_is_no_failure() {
    let mut breaker = Breaker::new(OPTIONS);
    for _ in 0..100 {
        assert_eq!(call(&mut breaker, busy(None), 0), None);
    }
    call(&mut breaker, CallEnd::Failed, 0);
    call(&mut breaker, CallEnd::Failed, 0);
    // It is there, so the row of failures is over.
    let reason = DegradeReason::Quota;
    let opened = Turn::Opened { reason, until: at(7) };
    assert_eq!(call(&mut breaker, busy(Some(7)), 0), Some(opened));
    assert_eq!(breaker.ask(at(6)), Admission::Closed { reason, until: at(7) });
    // The probe meets the same and is told how long again.
    let opened = Turn::Opened { reason, until: at(67) };
    assert_eq!(call(&mut breaker, busy(Some(9_000)), 7), Some(opened));
    assert_eq!(call(&mut breaker, busy(None), 67), Some(Turn::Closed));
    assert_eq!(open(&mut breaker, 67), 5);
}

#[test]
fn old_calls_say_nothing_of_a_new_state() {
    let mut breaker = Breaker::new(OPTIONS);
    let many: Vec<Pass> = (0..20).map(|_| pass(&mut breaker, at(0))).collect();
    let turns = many
        .iter()
        .filter_map(|pass| breaker.end(*pass, CallEnd::Failed, at(1)));
    assert_eq!(turns.count(), 1);
    let late = pass(&mut breaker, at(6));
    assert_eq!(breaker.end(many[0], CallEnd::Good, at(6)), None);
    assert_eq!(breaker.end(late, CallEnd::Silent, at(6)), None);
    assert!(breaker.would_pass(at(6)));
    assert!(pass(&mut breaker, at(6)).is_probe());
    assert!(!breaker.would_pass(at(6)));
}

/// A target that is well, broken or busy by turns, and many calls that overlap: what must hold whatever happens.
#[test]
fn what_holds_whatever_happens() {
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut breaker = Breaker::new(OPTIONS);
        let mut now = Time::ZERO;
        let mut under_way: Vec<Pass> = Vec::new();
        let mut left_alone = Time::ZERO;
        let (mut row, mut phase, mut is_closed) = (0, 0, true);
        for step in 0..400 {
            let place = format!("seed {seed}, step {step}");
            now = now + Duration::from_millis(random.u64(..2_000));
            if random.u8(..40) == 0 {
                phase = random.u8(..3);
            }
            let would_pass = breaker.would_pass(now);
            match breaker.ask(now) {
                Admission::Open(pass) => {
                    assert!(would_pass, "{place}");
                    assert!(now >= left_alone, "{place}: let through too early");
                    assert_eq!(pass.is_probe(), !is_closed, "{place}");
                    under_way.push(pass);
                }
                Admission::Closed { until, .. } => {
                    assert!(!would_pass && !is_closed, "{place}");
                    assert!(until > now && until.since(now) <= OPTIONS.max, "{place}");
                }
            }
            while !under_way.is_empty() && random.bool() {
                let pass = under_way.swap_remove(random.usize(..under_way.len()));
                let end = match phase {
                    0 => CallEnd::Good,
                    1 => CallEnd::Failed,
                    _ => busy(random.bool().then(|| random.u64(1..30))),
                };
                let counts = pass.epoch == breaker.epoch;
                row = match end {
                    CallEnd::Failed if counts => row + 1,
                    _ if counts => 0,
                    _ => row,
                };
                match breaker.end(pass, end, now) {
                    Some(_) if !counts => panic!("{place}: an old call turned it"),
                    Some(Turn::Closed) => is_closed = true,
                    Some(Turn::Opened { reason, until }) => {
                        let for_failures = reason == DegradeReason::Unavailable;
                        assert!(!for_failures || pass.is_probe() || row >= OPTIONS.failures, "{place}");
                        (left_alone, is_closed, row) = (until, false, 0);
                    }
                    None => {}
                }
            }
        }
        // A target that is well again gets its calls again, within the longest opening and one lost probe.
        let healed = now + OPTIONS.max + OPTIONS.probe;
        let pass = pass(&mut breaker, healed);
        breaker.end(pass, CallEnd::Good, healed);
        assert!(
            !matches!(breaker.ask(healed), Admission::Open(pass) if pass.is_probe()),
            "seed {seed}"
        );
        assert!(breaker.would_pass(healed), "seed {seed}");
    }
}
