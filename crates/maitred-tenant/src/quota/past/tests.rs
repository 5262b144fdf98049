use maitred_types::Time;

use super::super::LimitMatch;
use super::*;
use crate::UserId;

/// 2026-12-10T12:00:00Z.
const NOON: u64 = 1_796_904_000_000;
/// What the monotone clock says then: it has run for a year.
const RUN: u64 = 366 * 86_400_000;

/// So long after noon, or before it.
fn at(millis: i64) -> Moment {
    Moment {
        now: Time::from_millis(RUN.checked_add_signed(millis).unwrap()),
        unix: unix(millis),
    }
}

fn unix(millis: i64) -> UnixMillis {
    UnixMillis::new(NOON.checked_add_signed(millis).unwrap())
}

const SUBJECT: Subject<'static> = Subject {
    tenant: "acme",
    user: Some("ann"),
    key: Some("k1"),
    model: "m",
    task: Some("t1"),
};

const RATE: Measure = Measure::Calls {
    period: Duration::from_secs(1),
    burst: 5,
};
const MEASURES: [Measure; 5] = [
    RATE,
    Measure::TokensPerMinute,
    Measure::TokensPerDay,
    Measure::TokensPerTask,
    Measure::MoneyPerMonth,
];

fn quota() -> Quota {
    let limits = MEASURES.map(|measure| Limit {
        name: measure.name().to_owned(),
        only: LimitMatch::default(),
        per: Dimensions::TENANT,
        measure,
        amount: if measure == RATE { 10 } else { 1_000_000 },
        is_default: false,
    });
    Quota::new(limits.into(), 100)
}

const fn used(tokens: u64) -> Amount {
    Amount {
        tokens,
        money: tokens * 3,
    }
}

/// What was used by calls at these times, each of so many tokens, oldest first: a ledger that adds up as it is asked to.
fn recall(quota: &mut Quota, calls: &[(i64, u64)], now: Moment) {
    for lookback in quota.lookbacks(now) {
        let mut stretches: Vec<(u64, Past<'_>)> = Vec::new();
        for (when, tokens) in calls {
            let arrived = unix(*when);
            if arrived < lookback.since {
                continue;
            }
            let grain = lookback
                .grain
                .map_or(u64::MAX, |grain| u64::try_from(grain.as_millis()).unwrap());
            let number = arrived.get() / grain;
            match stretches.last_mut().filter(|(last, _)| *last == number) {
                Some((_, past)) => {
                    past.last = arrived;
                    past.calls += 1;
                    past.used.tokens += tokens;
                    past.used.money += used(*tokens).money;
                }
                None => stretches.push((
                    number,
                    Past {
                        subject: SUBJECT,
                        first: arrived,
                        last: arrived,
                        calls: 1,
                        used: used(*tokens),
                    },
                )),
            }
        }
        for (_, past) in &stretches {
            assert!(quota.recall(&lookback, past, now));
        }
    }
}

fn left(quota: &mut Quota, now: Moment) -> Vec<u64> {
    let standings = quota.standings(&SUBJECT, now);
    standings.iter().map(|(_, standing)| standing.remaining).collect()
}

#[test]
fn a_gateway_that_starts_again_knows_what_one_that_lived_on_would() {
    // A quarter of a minute to two days between calls, so that minutes, days and lives of tasks end among them.
    for seed in 0..200_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut draw = |most: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % most
        };
        let mut times = vec![-1];
        let reach = [30, 60_000, 3_600_000, 40_000_000][usize::try_from(seed % 4).unwrap()];
        for _ in 0..draw(40) {
            let last = *times.last().unwrap();
            times.push(last - 1 - i64::try_from(draw(reach)).unwrap());
        }
        times.reverse();
        let (mut lived, mut calls) = (quota(), Vec::new());
        for when in times {
            let tokens = 1 + draw(500);
            // One that is refused has used nothing, and is in no ledger.
            if let Ok(reservation) = lived.reserve(&SUBJECT, used(tokens + 50), at(when)) {
                lived.settle(reservation, used(tokens), at(when));
                calls.push((when, tokens));
            }
        }
        let mut again = quota();
        recall(&mut again, &calls, at(0));
        let (lived, again) = (left(&mut lived, at(0)), left(&mut again, at(0)));
        // Tokens of a minute lie in pieces, so they are equal too; of calls a stretch counts as if all came at its end.
        assert_eq!(lived[1..], again[1..], "seed {seed}: {calls:?}");
        assert!(
            again[0] <= lived[0] && again[0] + 1 >= lived[0],
            "seed {seed}: {calls:?}"
        );
    }
}

#[test]
fn what_is_recalled_late_comes_on_top() {
    let mut quota = quota();
    let reservation = quota.reserve(&SUBJECT, used(100), at(0)).unwrap();
    recall(&mut quota, &[(-86_400_000, 7), (-5_000, 1_000), (-100, 200)], at(50));
    quota.check(&[&reservation]).unwrap();
    quota.settle(reservation, used(40), at(60));
    let (left, most) = (left(&mut quota, at(60)), 1_000_000);
    assert_eq!(left[1..], [most - 1_240, most - 1_240, most - 1_247, most - 3 * 1_247]);
    assert!(left[0] < 5);
    quota.check(&[]).unwrap();
}

#[test]
fn more_than_the_limit_is_no_broken_promise_and_lets_nobody_in() {
    let mut quota = quota();
    recall(&mut quota, &[(-100, 2_000_000)], at(0));
    assert!(quota.reserve(&SUBJECT, used(1), at(0)).is_err());
    quota.check(&[]).unwrap();
}

#[test]
fn owners_are_told_apart_as_far_as_limits_need_it() {
    let quota = quota();
    let by = |limits: &[Limit], measure| {
        let all = Quota::new(limits.to_vec(), 100).lookbacks(at(0));
        all.iter().find(|lookback| lookback.measure == measure).unwrap().by
    };
    assert_eq!(by(quota.limits(), Measure::TokensPerDay), Dimensions::TENANT);
    assert_eq!(
        by(quota.limits(), Measure::TokensPerTask),
        Dimensions::TENANT.and(Dimensions::TASK)
    );
    let mut limits = quota.limits().to_vec();
    limits.push(Limit {
        name: "ann".to_owned(),
        only: LimitMatch {
            user: Some(UserId::from("ann")),
            ..LimitMatch::default()
        },
        per: Dimensions::MODEL,
        ..limits[2].clone()
    });
    let all = Dimensions::TENANT.and(Dimensions::USER).and(Dimensions::MODEL);
    assert_eq!(by(&limits, Measure::TokensPerDay), all);
}

/// Calls that run before, while and after limits are added, of which the ledger tells late. However they lie, the limits know of each once.
/// `spoil` breaks something on purpose.
fn add_limits(seed: u64, spoil: fn(&mut Ledgered)) -> (Vec<u64>, u64) {
    let random = &mut fastrand::Rng::with_seed(seed);
    let mut world = Ledgered::default();
    // One limit is there all the time, so that those that are added are not the first.
    let all = quota().limits()[1..].to_vec();
    let mut quota = Quota::new(vec![all[3].clone()], 100);
    quota.lookbacks(at(0));
    let (added, told) = (random.i64(100..900), random.i64(0..400));
    let mut lookbacks = None;
    let mut open: Vec<(Reservation, i64, u64)> = Vec::new();
    for now in 0..2_000 {
        if now == added {
            quota.reconfigure(all.clone(), 100);
            lookbacks = Some(quota.lookbacks(at(now)));
            spoil(&mut world);
        }
        if now >= added + told
            && let Some(lookbacks) = lookbacks.take()
        {
            let ended: Vec<_> = world.ended.iter().filter(|(_, end, _)| *end < added).collect();
            for lookback in &lookbacks {
                for (arrived, _, tokens) in &ended {
                    let past = Past {
                        subject: SUBJECT,
                        first: unix(*arrived),
                        last: unix(*arrived),
                        calls: 1,
                        used: used(*tokens),
                    };
                    quota.recall(lookback, &past, at(now));
                }
            }
        }
        if now < 1_500 && random.u8(0..20) == 0 {
            let most = random.u64(1..200);
            let reservation = quota.reserve(&SUBJECT, used(most), at(now)).unwrap();
            open.push((reservation, now, random.u64(0..=most)));
        }
        if !open.is_empty() && (random.u8(0..20) == 0 || now > 1_900) {
            let (reservation, arrived, tokens) = open.swap_remove(random.usize(0..open.len()));
            if !world.forgets_late {
                quota.charge_late(&reservation, &SUBJECT, used(tokens), at(now));
            }
            quota.settle(reservation, used(tokens), at(now));
            world.ended.push((arrived, now, tokens));
        }
    }
    assert!(open.is_empty());
    quota.check(&[]).unwrap();
    let tokens = world.ended.iter().map(|(_, _, tokens)| tokens).sum();
    (left(&mut quota, at(2_000)), tokens)
}

#[derive(Default)]
struct Ledgered {
    /// When each call arrived and ended, and what it used.
    ended: Vec<(i64, i64, u64)>,
    forgets_late: bool,
}

#[test]
fn a_limit_that_is_added_knows_what_every_call_used() {
    for seed in 0..300 {
        let (left, tokens) = add_limits(seed, |_| {});
        let expected = [tokens, tokens, tokens, 3 * tokens].map(|used| 1_000_000 - used);
        assert_eq!(left, expected, "seed {seed}");
    }
    let is_wrong = |seed| {
        let (left, tokens) = add_limits(seed, |world| world.forgets_late = true);
        1_000_000 - left[0] != tokens
    };
    assert!((0..300).any(is_wrong), "the test sees nothing");
}
