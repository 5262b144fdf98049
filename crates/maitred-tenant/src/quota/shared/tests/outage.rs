//! Gateways that start while the store is gone, and ask a ledger what was used.

use super::*;

/// What a gateway that has just started hears from the ledger of calls that had ended so long ago. Says what it may take without knowing.
pub(super) fn ask_ledger(world: &mut World, index: usize, lag: u64) -> u64 {
    let now = world.now;
    world.truth();
    let known = || world.used.iter().filter(|(ended, _)| *ended + lag <= now);
    let quota = &mut world.gateways[index].quota;
    let lookbacks = quota.lookbacks(at(now));
    assert!(lookbacks.len() <= 1);
    for lookback in &lookbacks {
        for (ended, tokens) in known() {
            let past = Past {
                subject: SUBJECT,
                first: at(*ended).unix,
                last: at(*ended).unix,
                calls: 1,
                used: super::tokens(*tokens),
            };
            assert!(quota.recall(lookback, &past, at(now)));
        }
    }
    let used = if lookbacks.is_empty() {
        0
    } else {
        known().map(|(_, tokens)| tokens).sum()
    };
    (world.limit.amount.saturating_sub(used) / 4).max(world.largest)
}

const HARD: Mishaps = Mishaps {
    lost: 5,
    late: 100,
    deaths: 20,
    outages: 20,
    forgets: false,
    ledger: None,
};

/// By how many thousandths of its amount a limit was passed, at worst in each run.
fn passed_by(limit: &Limit, mishaps: Mishaps) -> Vec<u64> {
    let run = |seed| {
        let mut world = World::new(seed, limit.clone(), mishaps);
        let mut worst = 0;
        for _ in 0..STEPS {
            world.step();
            worst = worst.max(world.truth().saturating_sub(limit.amount));
            if let Err(violation) = world.check() {
                panic!("{:?}, seed {seed}: {violation}", limit.measure);
            }
        }
        worst * 1000 / limit.amount
    };
    (0..SEEDS).map(run).collect()
}

#[test]
fn a_gateway_that_starts_without_the_store_begins_where_the_ledger_says() {
    let with = Mishaps {
        ledger: Some(200),
        ..HARD
    };
    for limit in measures().split_off(2) {
        let (before, after) = (passed_by(&limit, HARD), passed_by(&limit, with));
        let figures = |runs: &[u64]| (runs.iter().max().copied(), runs.iter().sum::<u64>() / SEEDS);
        println!(
            "{:?}: {:?}, {:?} of a thousand",
            limit.measure,
            figures(&before),
            figures(&after)
        );
        assert!(figures(&after).1 < figures(&before).1, "{:?}", limit.measure);
    }
}

/// A gateway of two that has just started, and knows from a ledger of so many tokens that were used so long ago.
fn started(limit: Limit, used: &[(u64, u64)], now: u64) -> Pair {
    let mut pair = Pair::new(limit, WithoutStore::LocalShare);
    told(&mut pair, used, now);
    pair
}

fn told(pair: &mut Pair, used: &[(u64, u64)], now: u64) {
    for lookback in pair.quota.lookbacks(at(now)) {
        for (ago, tokens) in used {
            let then = UnixMillis::new(at(now).unix.get() - ago);
            let past = Past {
                subject: SUBJECT,
                first: then,
                last: then,
                calls: 1,
                used: super::tokens(*tokens),
            };
            assert!(pair.quota.recall(&lookback, &past, at(now)));
        }
    }
}

const FAR: u64 = 40 * 86_400_000;

#[test]
fn what_was_used_is_nobodys_to_take_without_the_store() {
    for measure in [Measure::TokensPerMinute, Measure::TokensPerDay, Measure::TokensPerTask] {
        let mut pair = started(limit(measure, 100), &[(2_000, 30), (1_000, 20)], FAR + 5_000);
        // Half of what is left; a second answer takes the place of the first.
        pair.reserve(26, FAR + 5_000).map(drop).unwrap();
        pair.reserve(1, FAR + 5_000).unwrap_err();
        let mut pair = started(limit(measure, 100), &[(2_000, 30)], FAR + 5_000);
        told(&mut pair, &[(2_000, 30), (1_000, 50)], FAR + 6_000);
        pair.reserve(21, FAR + 6_000).unwrap_err();
        pair.reserve(20, FAR + 6_000).map(drop).unwrap();
    }
}

#[test]
fn what_the_ledger_says_counts_until_the_store_speaks_or_the_time_is_over() {
    let mut pair = started(limit(Measure::TokensPerTask, 100), &[(2_000, 90)], FAR);
    pair.reserve(11, FAR).unwrap_err();
    // The store knows better: nothing was used that it has not heard of.
    pair.sync(FAR + 10);
    pair.reserve(50, FAR + 20).map(drop).unwrap();
    told(&mut pair, &[(2_000, 90)], FAR + 30);
    pair.reserve(40, FAR + 30).map(drop).unwrap();

    let mut minute = started(limit(Measure::TokensPerMinute, 100), &[(80_000, 70), (2_000, 90)], FAR);
    minute.reserve(11, FAR).unwrap_err();
    minute.reserve(50, FAR + 75_000).map(drop).unwrap();

    // Days begin at midnight, which is nine seconds after the beginning.
    let mut day = started(limit(Measure::TokensPerDay, 100), &[(2_000, 90)], MIDNIGHT - 1_000);
    day.reserve(11, MIDNIGHT - 1).unwrap_err();
    day.reserve(100, MIDNIGHT).map(drop).unwrap();
    let mut day = started(
        limit(Measure::TokensPerDay, 100),
        &[(2_000, 90), (500, 10)],
        MIDNIGHT + 1_000,
    );
    day.reserve(90, MIDNIGHT + 1_000).map(drop).unwrap();

    // The task of two days ago was another one.
    let old = [(2 * 86_400_000, 90), (1_000, 10)];
    let mut task = started(limit(Measure::TokensPerTask, 100), &old, FAR);
    task.reserve(90, FAR).map(drop).unwrap();
}
