//! What a call's quota costs, by the number of limits and of counters.

use std::time::Duration;

use divan::Bencher;
use divan::black_box;
use maitred_tenant::{
    Amount, Dimensions, Limit, LimitMatch, Measure, ModelPattern, Moment, Quota, SharedOptions, SharedQuota, Subject,
    UserId, WithoutStore,
};
use maitred_types::{Time, UnixMillis};

fn main() {
    divan::main();
}

/// As many as a gateway keeps.
const COUNTERS: usize = 200_000;
const LIMITS: [usize; 3] = [10, 500, 4_096];
const MOST: Amount = Amount {
    tokens: 1_000,
    money: 0,
};

fn at(millis: u64) -> Moment {
    Moment {
        now: Time::from_millis(millis),
        unix: UnixMillis::new(1_796_083_200_000 + millis),
    }
}

/// A limit for everybody, and for the rest one of each tenant, user or model in turn: what those have who write down each of them.
fn limits(count: usize) -> Vec<Limit> {
    let limit = |number: usize| {
        let name = format!("owner-{}", number / 3);
        let only = match number % 3 {
            _ if number == 0 => LimitMatch::default(),
            0 => LimitMatch {
                tenant: Some(name.as_str().into()),
                ..LimitMatch::default()
            },
            1 => LimitMatch {
                user: Some(UserId::from(name.as_str())),
                ..LimitMatch::default()
            },
            _ => LimitMatch {
                model: ModelPattern::parse(&name).ok(),
                ..LimitMatch::default()
            },
        };
        Limit {
            name: format!("limit-{number}"),
            only,
            per: Dimensions::TENANT,
            measure: Measure::TokensPerDay,
            amount: 1 << 50,
            is_default: false,
        }
    };
    (0..count).map(limit).collect()
}

fn subject(owner: &str) -> Subject<'_> {
    Subject {
        tenant: owner,
        user: Some(owner),
        key: Some("mk_key"),
        model: owner,
        task: None,
    }
}

#[divan::bench(args = LIMITS)]
fn own(bencher: Bencher<'_, '_>, count: usize) {
    let mut quota = Quota::new(limits(count), COUNTERS);
    let owner = format!("owner-{}", count / 6);
    bencher.bench_local(|| {
        let reserved = quota.reserve(&subject(black_box(&owner)), MOST, at(1));
        reserved.map(|reserved| quota.settle(reserved, MOST, at(2))).is_ok()
    });
}

#[divan::bench(args = LIMITS)]
fn shared(bencher: Bencher<'_, '_>, count: usize) {
    let options = SharedOptions {
        counters: COUNTERS,
        gateways: 1,
        without_store: WithoutStore::LocalShare,
    };
    let mut quota = SharedQuota::new(limits(count), options);
    let owner = format!("owner-{}", count / 6);
    bencher.bench_local(|| {
        let reserved = quota.reserve(&subject(black_box(&owner)), MOST, at(1));
        reserved.map(|reserved| quota.settle(reserved, MOST)).is_ok()
    });
}

/// Other limits are taken while as many counters are kept as may be.
#[divan::bench(args = LIMITS, sample_count = 5, sample_size = 1)]
fn reconfigure(bencher: Bencher<'_, '_>, count: usize) {
    let mut quota = full(limits(count));
    bencher
        .with_inputs(|| limits(count))
        .bench_local_values(|limits| quota.reconfigure(limits, COUNTERS));
}

/// Every call has an owner of its own, in a table that is full: of counters that are in use, and of ones that say nothing any more. What
/// matters is the slowest.
#[divan::bench(args = [1, 4], sample_count = 20_000, sample_size = 1)]
fn flood(bencher: Bencher<'_, '_>, days: u64) {
    let mut quota = full(limits(10));
    let later = at(Duration::from_secs(days * 86_400 - 86_400)
        .as_millis()
        .try_into()
        .unwrap_or(0));
    let mut number = 0;
    bencher.bench_local(|| {
        number += 1;
        let owner = format!("new-{number}");
        let reserved = quota.reserve(&subject(&owner), MOST, later);
        reserved.map(|reserved| quota.settle(reserved, MOST, later)).is_ok()
    });
}

fn full(limits: Vec<Limit>) -> Quota {
    let mut quota = Quota::new(limits, COUNTERS);
    for number in 0..COUNTERS {
        let owner = format!("old-{number}");
        if let Ok(reserved) = quota.reserve(&subject(&owner), MOST, at(1)) {
            quota.settle(reserved, MOST, at(1));
        }
    }
    quota
}
