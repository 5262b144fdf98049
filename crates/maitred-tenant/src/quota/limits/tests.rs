use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::quota::{Dimensions, LimitMatch};
use crate::{ModelPattern, UserId};

const MEASURES: [Measure; 3] = [Measure::TokensPerDay, Measure::TokensPerTask, Measure::ConcurrentCalls];

fn name(number: u8) -> Option<String> {
    (number > 0).then(|| format!("n{number}"))
}

/// A limit for some of few owners, so that many of them meet.
fn some_limit() -> impl Strategy<Value = Limit> {
    let owners = (0_u8..4, 0_u8..4, 0_u8..4, 0_u8..6);
    (owners, 0_usize..3, any::<bool>()).prop_map(|((tenant, user, key, model), measure, is_default)| Limit {
        name: format!("{tenant}{user}{key}{model}{measure}"),
        only: LimitMatch {
            tenant: name(tenant).map(|name| name.as_str().into()),
            user: name(user).map(|name| UserId::from(name.as_str())),
            key: name(key).map(|name| name.as_str().into()),
            model: match model {
                0 => None,
                4 => ModelPattern::parse("n*").ok(),
                5 => ModelPattern::parse("n1*").ok(),
                _ => ModelPattern::parse(&format!("n{model}")).ok(),
            },
        },
        per: Dimensions::NONE,
        measure: MEASURES[measure],
        amount: 1,
        is_default,
    })
}

/// What the index has to find: a look at every limit.
fn by_looking_at_all(limits: &[Limit], subject: &Subject<'_>) -> Vec<u16> {
    let applies = |limit: &Limit| {
        let gives_way = |other: &Limit| !other.is_default && other.measure == limit.measure && other.applies(subject);
        limit.applies(subject) && !(limit.is_default && limits.iter().any(gives_way))
    };
    let numbered = (0_u16..).zip(limits);
    numbered
        .filter(|(_, limit)| applies(limit))
        .map(|(number, _)| number)
        .collect()
}

proptest! {
    #[test]
    fn the_index_finds_what_a_look_at_all_finds(
        limits in proptest::collection::vec(some_limit(), 0..40),
        owners in (1_u8..4, 0_u8..4, 0_u8..4, 1_u8..5, 0_u8..2),
    ) {
        let (tenant, user, key, model, task) = owners;
        let named = |number| name(number).unwrap_or_default();
        let (tenant, user, key, model) = (named(tenant), name(user), name(key), named(model));
        let subject = Subject {
            tenant: &tenant,
            user: user.as_deref(),
            key: key.as_deref(),
            model: &model,
            task: (task > 0).then_some("t"),
        };
        let all = Limits::new(limits.clone());
        let found: Vec<u16> = all.concerning(&subject).iter().map(|one| one.number).collect();
        prop_assert_eq!(found, by_looking_at_all(&limits, &subject));
    }

    /// Whatever comes and goes, a limit that stays keeps its series, and no two have the same.
    #[test]
    fn a_series_is_of_one_limit(lists in proptest::collection::vec(proptest::collection::vec(some_limit(), 0..12), 1..6)) {
        let mut all = Limits::default();
        let mut before: Vec<(Limit, Series)> = Vec::new();
        let mut gone = BTreeSet::new();
        for list in lists {
            all.replace(list.clone());
            let now: Vec<(Limit, Series)> = list.into_iter().zip(all.series.iter().copied()).collect();
            let series: BTreeSet<Series> = now.iter().map(|(_, series)| *series).collect();
            prop_assert_eq!(series.len(), now.len());
            prop_assert!(series.is_disjoint(&gone));
            for (limit, series) in &now {
                prop_assert_eq!(all.of(*series), Some(limit));
                let earlier = before.iter().find(|(other, _)| other.counts_as() == limit.counts_as());
                if let Some((_, earlier)) = earlier {
                    let first = now.iter().find(|(other, _)| other.counts_as() == limit.counts_as());
                    prop_assert_eq!(first.map(|(_, series)| series), Some(earlier));
                }
            }
            gone.extend(before.iter().map(|(_, series)| *series).filter(|old| !series.contains(old)));
            before = now;
        }
    }
}
