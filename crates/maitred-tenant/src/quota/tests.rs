use std::time::Duration;

use super::*;
use crate::{ModelPattern, UserId};

/// 2026-12-01T00:00:00Z.
const DECEMBER: u64 = 1_796_083_200_000;

fn at(millis: u64) -> Moment {
    Moment {
        now: Time::from_millis(millis),
        unix: UnixMillis::new(DECEMBER + millis),
    }
}

fn limit(measure: Measure, amount: u64, per: Dimensions) -> Limit {
    Limit {
        name: measure.name().to_owned(),
        only: LimitMatch::default(),
        per,
        measure,
        amount,
        is_default: false,
    }
}

const SUBJECT: Subject<'static> = Subject {
    tenant: "acme",
    user: Some("ann"),
    key: Some("k1"),
    model: "m",
    task: Some("t1"),
};

const fn tokens(tokens: u64) -> Amount {
    Amount { tokens, money: 0 }
}

fn quota(limits: Vec<Limit>) -> Quota {
    Quota::new(limits, 100)
}

/// The refusal's limit, what is left, and the wait in milliseconds.
fn refused(outcome: Result<Reservation, QuotaRefusal>) -> (u16, u64, Option<u128>) {
    match outcome {
        Err(QuotaRefusal::Exceeded {
            limit,
            remaining,
            retry_after,
            ..
        }) => (limit, remaining, retry_after.map(|wait| wait.as_millis())),
        other => panic!("{other:?}"),
    }
}

#[test]
fn calls_come_evenly_but_for_a_burst() {
    let calls = Measure::Calls {
        period: Duration::from_secs(1),
        burst: 3,
    };
    let mut quota = quota(vec![limit(calls, 10, Dimensions::TENANT)]);
    for left in [2, 1, 0] {
        let reservation = quota.reserve(&SUBJECT, tokens(1), at(0)).unwrap();
        assert_eq!(reservation.calls.map(|standing| standing.remaining), Some(left));
        quota.settle(reservation, tokens(1), at(0));
    }
    assert_eq!(refused(quota.reserve(&SUBJECT, tokens(1), at(0))), (0, 0, Some(100)));
    assert_eq!(refused(quota.reserve(&SUBJECT, tokens(1), at(60))), (0, 0, Some(40)));
    let reservation = quota.reserve(&SUBJECT, tokens(1), at(100)).unwrap();
    quota.settle(reservation, tokens(1), at(100));
    // Another tenant has its own.
    let other = Subject {
        tenant: "other",
        ..SUBJECT
    };
    assert!(quota.reserve(&other, tokens(1), at(100)).is_ok());
}

#[test]
fn places_are_given_back() {
    let mut quota = quota(vec![limit(Measure::ConcurrentCalls, 2, Dimensions::USER)]);
    let one = quota.reserve(&SUBJECT, tokens(9), at(0)).unwrap();
    let two = quota.reserve(&SUBJECT, tokens(9), at(0)).unwrap();
    assert_eq!(refused(quota.reserve(&SUBJECT, tokens(9), at(1))), (0, 0, Some(1000)));
    quota.settle(one, tokens(50), at(2));
    let three = quota.reserve(&SUBJECT, tokens(9), at(2)).unwrap();
    quota.check(&[&two, &three]).unwrap();
}

#[test]
fn no_minute_has_more_tokens_than_the_limit() {
    let mut quota = quota(vec![limit(Measure::TokensPerMinute, 100, Dimensions::TENANT)]);
    let first = quota.reserve(&SUBJECT, tokens(60), at(9_999)).unwrap();
    assert_eq!(first.tokens.map(|standing| standing.remaining), Some(40));
    // What is reserved counts as used until the truth is known.
    assert_eq!(
        refused(quota.reserve(&SUBJECT, tokens(41), at(10_000))),
        (0, 40, Some(60_000))
    );
    quota.settle(first, tokens(20), at(10_000));
    let second = quota.reserve(&SUBJECT, tokens(80), at(10_000)).unwrap();
    quota.settle(second, tokens(80), at(10_001));
    assert_eq!(refused(quota.reserve(&SUBJECT, tokens(1), at(69_999))), (0, 0, Some(1)));
    // The twenty of the first ten seconds are a minute old.
    let third = quota.reserve(&SUBJECT, tokens(20), at(70_000)).unwrap();
    quota.settle(third, tokens(20), at(70_000));
    assert_eq!(
        refused(quota.reserve(&SUBJECT, tokens(1), at(70_001))),
        (0, 0, Some(9_999))
    );
    // A call that is larger than the limit is told that waiting does not help.
    assert_eq!(
        refused(quota.reserve(&SUBJECT, tokens(101), at(900_000))),
        (0, 100, None)
    );
    assert!(quota.reserve(&SUBJECT, tokens(100), at(900_000)).is_ok());
}

#[test]
fn days_months_and_tasks_end_when_they_do() {
    let check = |measure: Measure, ends: u64, told: Option<u128>| {
        let mut quota = quota(vec![limit(measure, 10, Dimensions::NONE)]);
        let amount = Amount { tokens: 10, money: 10 };
        let taken = quota.reserve(&SUBJECT, amount, at(1000)).unwrap();
        quota.settle(taken, amount, at(1000));
        assert_eq!(
            refused(quota.reserve(&SUBJECT, amount, at(2000))),
            (0, 0, told),
            "{measure:?}"
        );
        assert!(quota.reserve(&SUBJECT, amount, at(ends - 1)).is_err(), "{measure:?}");
        assert!(quota.reserve(&SUBJECT, amount, at(ends)).is_ok(), "{measure:?}");
    };
    const DAY: u64 = 86_400_000;
    check(Measure::TokensPerDay, DAY, Some(u128::from(DAY) - 2000));
    check(Measure::MoneyPerMonth, 31 * DAY, Some(31 * u128::from(DAY) - 2000));
    // A task lives a day longer than its last call, refused or not: the first attempt here is at 2 s, the second a millisecond before.
    let mut quota = quota(vec![limit(Measure::TokensPerTask, 10, Dimensions::NONE)]);
    let taken = quota.reserve(&SUBJECT, tokens(10), at(0)).unwrap();
    quota.settle(taken, tokens(10), at(0));
    assert_eq!(refused(quota.reserve(&SUBJECT, tokens(1), at(DAY - 1))), (0, 0, None));
    let other = Subject {
        task: Some("t2"),
        ..SUBJECT
    };
    assert!(quota.reserve(&other, tokens(10), at(DAY - 1)).is_ok());
    assert!(quota.reserve(&SUBJECT, tokens(10), at(2 * DAY)).is_ok());
    let none = Subject { task: None, ..SUBJECT };
    assert!(quota.reserve(&none, tokens(1000), at(2 * DAY)).is_ok());
}

#[test]
fn what_was_used_beyond_the_reservation_is_charged() {
    let mut quota = quota(vec![limit(Measure::TokensPerDay, 100, Dimensions::TENANT)]);
    let call = quota.reserve(&SUBJECT, tokens(50), at(0)).unwrap();
    quota.settle(call, tokens(120), at(1));
    quota.check(&[]).unwrap();
    assert_eq!(refused(quota.reserve(&SUBJECT, tokens(1), at(2))).1, 0);
}

#[test]
fn either_all_limits_or_none() {
    let mut quota = quota(vec![
        limit(Measure::TokensPerDay, 100, Dimensions::TENANT),
        limit(Measure::ConcurrentCalls, 1, Dimensions::KEY),
        limit(Measure::MoneyPerMonth, 5, Dimensions::USER),
    ]);
    let most = Amount { tokens: 10, money: 6 };
    // Money fails for good, so that is told rather than a wait.
    let held = quota.reserve(&SUBJECT, Amount { tokens: 1, money: 1 }, at(0)).unwrap();
    assert_eq!(refused(quota.reserve(&SUBJECT, most, at(0))), (2, 4, None));
    quota.check(&[&held]).unwrap();
    quota.settle(held, Amount::default(), at(1));
    quota.check(&[]).unwrap();
    let whole = quota.reserve(&SUBJECT, Amount { tokens: 100, money: 5 }, at(1));
    assert!(whole.is_ok());
}

#[test]
fn limits_are_for_those_they_name() {
    let mut only = limit(Measure::TokensPerDay, 1, Dimensions::NONE);
    only.only = LimitMatch {
        tenant: Some("acme".into()),
        user: Some(UserId::from("ann")),
        key: None,
        model: Some(ModelPattern::parse("m*").unwrap()),
    };
    let mut quota = quota(vec![only]);
    let check = |quota: &mut Quota, subject: Subject<'_>, expected: bool| {
        let outcome = quota.reserve(&subject, tokens(2), at(0));
        assert_eq!(outcome.is_err(), expected, "{subject:?}");
    };
    check(&mut quota, SUBJECT, true);
    check(&mut quota, Subject { tenant: "b", ..SUBJECT }, false);
    check(&mut quota, Subject { user: None, ..SUBJECT }, false);
    check(
        &mut quota,
        Subject {
            model: "other",
            ..SUBJECT
        },
        false,
    );
}

#[test]
fn a_default_gives_way_to_what_is_written() {
    let mut default = limit(Measure::TokensPerTask, 10, Dimensions::NONE);
    default.is_default = true;
    let mut written = limit(Measure::TokensPerTask, 50, Dimensions::NONE);
    written.only.tenant = Some("acme".into());
    let mut quota = quota(vec![written, default]);
    assert!(quota.reserve(&SUBJECT, tokens(50), at(0)).is_ok());
    let other = Subject { tenant: "b", ..SUBJECT };
    assert_eq!(refused(quota.reserve(&other, tokens(11), at(0))), (1, 10, None));
}

#[test]
fn names_that_read_alike_are_told_apart() {
    let mut quota = quota(vec![limit(Measure::TokensPerDay, 10, Dimensions::USER)]);
    let one = Subject {
        tenant: "a",
        user: Some("b3.c"),
        ..SUBJECT
    };
    let two = Subject {
        tenant: "a4.b3",
        user: Some("c"),
        ..SUBJECT
    };
    let held = quota.reserve(&one, tokens(10), at(0)).unwrap();
    assert!(quota.reserve(&two, tokens(10), at(0)).is_ok());
    assert!(quota.reserve(&Subject { user: None, ..one }, tokens(10), at(0)).is_ok());
    quota.settle(held, tokens(10), at(0));
}

#[test]
fn a_flood_of_owners_is_refused_once_the_table_is_full_of_use() {
    let mut quota = Quota::new(vec![limit(Measure::TokensPerDay, 10, Dimensions::USER)], 32);
    let names: Vec<String> = (0..64).map(|number| format!("user-{number}")).collect();
    let mut let_in = 0;
    for name in &names {
        let subject = Subject {
            user: Some(name),
            ..SUBJECT
        };
        match quota.reserve(&subject, tokens(1), at(0)) {
            Ok(reservation) => {
                quota.settle(reservation, tokens(1), at(0));
                let_in += 1;
            }
            Err(refusal) => assert_eq!(refusal, QuotaRefusal::TableFull),
        }
    }
    // One tenant has half of it.
    assert_eq!(let_in, 16);
    let other = Subject { tenant: "b", ..SUBJECT };
    let held = quota.reserve(&other, tokens(1), at(0)).unwrap();
    quota.settle(held, tokens(1), at(0));
    // Two days later nobody's figure counts any more.
    for name in names.iter().skip(40) {
        let subject = Subject {
            user: Some(name),
            ..SUBJECT
        };
        if let Ok(reservation) = quota.reserve(&subject, tokens(1), at(2 * 86_400_000)) {
            quota.settle(reservation, tokens(1), at(2 * 86_400_000));
            let_in += 1;
        }
    }
    assert!(let_in > 16 + 12, "{let_in}");
    quota.check(&[]).unwrap();
}

#[test]
fn refused_and_unused_tasks_take_no_place_in_the_table() {
    let mut quota = Quota::new(vec![limit(Measure::TokensPerTask, 10, Dimensions::NONE)], 32);
    let names: Vec<String> = (0..64).map(|number| format!("task-{number}")).collect();
    let of = |name: &'static str| Subject {
        task: Some(name),
        ..SUBJECT
    };
    for name in &names {
        let subject = Subject {
            task: Some(name),
            ..SUBJECT
        };
        assert_eq!(refused(quota.reserve(&subject, tokens(11), at(0))).1, 10);
    }
    assert_eq!(quota.table.len(), 0);
    for name in &names {
        let subject = Subject {
            task: Some(name),
            ..SUBJECT
        };
        let held = quota.reserve(&subject, tokens(10), at(0)).unwrap();
        quota.settle(held, tokens(0), at(0));
    }
    let held = quota.reserve(&of("used"), tokens(10), at(0)).unwrap();
    quota.settle(held, tokens(10), at(0));
    assert_eq!(refused(quota.reserve(&of("used"), tokens(1), at(1))).1, 0);
}

#[test]
fn other_limits_keep_what_was_used() {
    let daily = |amount| limit(Measure::TokensPerDay, amount, Dimensions::TENANT);
    let mut quota = quota(vec![limit(Measure::ConcurrentCalls, 9, Dimensions::NONE), daily(100)]);
    let open = quota.reserve(&SUBJECT, tokens(60), at(0)).unwrap();
    quota.reconfigure(vec![daily(50)], 100);
    assert_eq!(refused(quota.reserve(&SUBJECT, tokens(1), at(1))).1, 0);
    quota.check(&[&open]).unwrap();
    quota.settle(open, tokens(10), at(2));
    assert_eq!(refused(quota.reserve(&SUBJECT, tokens(41), at(2))).1, 40);
    assert!(quota.reserve(&SUBJECT, tokens(40), at(2)).is_ok());
}

/// A small generator of numbers, so that a failure names one seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        // The generator called splitmix64 (Steele, Lea, Flood, 2014).
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }
}

impl Dice {
    fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap()
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }
}

fn all_kinds() -> Vec<Limit> {
    let calls = Measure::Calls {
        period: Duration::from_secs(1),
        burst: 20,
    };
    vec![
        limit(calls, 50, Dimensions::TENANT),
        limit(Measure::ConcurrentCalls, 12, Dimensions::USER),
        limit(
            Measure::TokensPerMinute,
            4_000,
            Dimensions::TENANT.and(Dimensions::MODEL),
        ),
        limit(Measure::TokensPerDay, 60_000, Dimensions::KEY),
        limit(Measure::TokensPerTask, 9_000, Dimensions::NONE),
        limit(Measure::MoneyPerMonth, 1_000_000, Dimensions::TENANT),
    ]
}

/// Random calls of a few owners that reserve, end, are refunded, live through midnights and reloads. Invariant Q1 after every step.
fn simulate(
    seed: u64,
    steps: u32,
    mut spoil: impl FnMut(&mut Quota, &mut Vec<Reservation>),
) -> Result<u32, (u32, QuotaViolation)> {
    let mut dice = Dice(seed);
    let mut quota = Quota::new(all_kinds(), 64);
    let mut open: Vec<(Reservation, Amount)> = Vec::new();
    let mut millis = 0;
    let mut served = 0;
    for step in 0..steps {
        millis += if dice.below(500) == 0 {
            dice.below(90_000_000)
        } else {
            dice.below(400)
        };
        let tenant = dice.of(&["a", "b"]);
        let user = dice.of(&[None, Some("u"), Some("v")]);
        let task = dice.of(&[None, Some("t"), Some("s")]);
        let key = dice.of(&[None, Some("k"), Some("l")]);
        let model = dice.of(&["m", "n"]);
        let subject = Subject {
            tenant,
            user,
            key,
            model,
            task,
        };
        if dice.below(2) == 0 {
            let most = dice.below(900);
            let most = Amount {
                tokens: most,
                money: most * 7,
            };
            if let Ok(reservation) = quota.reserve(&subject, most, at(millis)) {
                open.push((reservation, most));
                served += 1;
            }
        } else if !open.is_empty() {
            let (reservation, most) = open.swap_remove(dice.index(open.len()));
            let tokens = dice.below(most.tokens + 1);
            quota.settle(
                reservation,
                Amount {
                    tokens,
                    money: tokens * 7,
                },
                at(millis),
            );
        }
        if dice.below(300) == 0 {
            quota.reconfigure(all_kinds(), 64);
        }
        let (mut reservations, amounts): (Vec<_>, Vec<_>) = open.into_iter().unzip();
        spoil(&mut quota, &mut reservations);
        let references: Vec<_> = reservations.iter().collect();
        quota.check(&references).map_err(|violation| (step, violation))?;
        open = reservations.into_iter().zip(amounts).collect();
    }
    for (reservation, _) in open {
        quota.settle(reservation, Amount::default(), at(millis));
    }
    quota.check(&[]).map_err(|violation| (steps, violation))?;
    Ok(served)
}

#[test]
fn spent_and_reserved_never_pass_a_limit() {
    let mut served = 0;
    for seed in 0..60 {
        match simulate(seed, 1500, |_, _| {}) {
            Ok(calls) => served += calls,
            Err((step, violation)) => panic!("seed {seed}, step {step}: {violation:?}"),
        }
    }
    assert!(served > 10_000, "{served}");
}

#[test]
fn a_lost_reservation_and_an_overfull_counter_are_found() {
    let lost = simulate(1, 500, |_, open| {
        open.pop();
    });
    assert!(lost.is_err());
    let mut quota = quota(vec![limit(Measure::TokensPerDay, 100, Dimensions::TENANT)]);
    let call = quota.reserve(&SUBJECT, tokens(80), at(0)).unwrap();
    // What a second reservation without a look at the room would do.
    let place = quota.table.look((0, &quota.limits.as_slice()[0]), &SUBJECT).unwrap();
    let mark = {
        let (limits, table) = (&quota.limits, &mut quota.table);
        let want = Want { amount: 80, at: at(0) };
        table.get_mut(place).unwrap().take(&limits.as_slice()[0], want)
    };
    let blind = Reservation {
        next: call.next,
        is_blind: false,
        limits_output: true,
        holds: [Hold {
            place,
            reserved: 80,
            mark,
        }]
        .into_iter()
        .collect(),
        calls: None,
        tokens: None,
    };
    assert_eq!(
        quota.check(&[&call, &blind]),
        Err(QuotaViolation("spent and reserved pass a hard limit"))
    );
}

#[test]
fn a_call_that_goes_on_elsewhere_counts_once() {
    let calls = Measure::Calls {
        period: Duration::from_secs(60),
        burst: 1,
    };
    for measure in [
        calls,
        Measure::ConcurrentCalls,
        Measure::TokensPerMinute,
        Measure::TokensPerDay,
    ] {
        let amount = if measure.counts_tokens() { 100 } else { 1 };
        let mut quota = quota(vec![limit(measure, amount, Dimensions::TENANT)]);
        let first = quota.reserve(&SUBJECT, tokens(100), at(0)).unwrap();
        assert!(quota.reserve(&SUBJECT, tokens(100), at(1)).is_err(), "{measure:?}");
        quota.give_back(first, at(2));
        let elsewhere = quota.reserve(&SUBJECT, tokens(100), at(3)).unwrap();
        assert!(quota.reserve(&SUBJECT, tokens(100), at(4)).is_err(), "{measure:?}");
        quota.check(&[&elsewhere]).unwrap();
        quota.settle(elsewhere, tokens(100), at(5));
        let is_place = measure == Measure::ConcurrentCalls;
        assert_eq!(
            quota.reserve(&SUBJECT, tokens(1), at(6)).is_ok(),
            is_place,
            "{measure:?}"
        );
    }
}
