use maitred_types::{TokenCount, UnixMillis};

use super::super::entry::Expected;
use super::*;

fn head() -> CallHead<String> {
    CallHead {
        request_id: "r".into(),
        arrived: UnixMillis::new(1_000),
        tenant: "t".into(),
        user: None,
        key: None,
        task: None,
        model: "m".into(),
        served: "m".into(),
        pool: "p".into(),
        dialect: "openai".into(),
        price: None,
        expected: Expected {
            input: TokenCount::new(10),
            output: TokenCount::new(20),
            money: 30,
        },
    }
}

fn attempt(number: u32) -> Entry<String> {
    let head = AttemptHead {
        endpoint: format!("e{number}"),
        began_us: u64::from(number) * 100,
    };
    Entry::Attempt { call: 1, number, head }
}

fn ending(outcome: &str) -> Ending<String> {
    Ending {
        usage: None,
        first_token_us: None,
        total_us: 5,
        outcome: outcome.into(),
        fault: None,
        money: 0,
    }
}

/// What a series of entries leaves, before and after the gateway's death: attempt, endpoint, outcome, tokens.
fn check(
    entries: Vec<Entry<String>>,
    settled: &[(u32, Option<&str>, &str, u32)],
    dead: &[(u32, Option<&str>, &str, u32)],
) {
    let mut assembler = Assembler::new(7);
    let mut rows = Vec::new();
    entries
        .into_iter()
        .for_each(|entry| assembler.take(entry, 3, &mut rows));
    let shown = |rows: &[Row]| {
        let shown = rows.iter().map(|row| {
            let usage = row
                .ending
                .usage
                .map_or(0, |usage| usage.input.get() + usage.output.get());
            (row.attempt, row.endpoint.clone(), row.ending.outcome.clone(), usage)
        });
        shown.collect::<Vec<_>>()
    };
    let wanted = |rows: &[(u32, Option<&str>, &str, u32)]| {
        let wanted = rows.iter().map(|(attempt, endpoint, outcome, usage)| {
            (*attempt, endpoint.map(str::to_owned), (*outcome).to_owned(), *usage)
        });
        wanted.collect::<Vec<_>>()
    };
    assert_eq!(shown(&rows), wanted(settled));
    assert_eq!(assembler.oldest_segment(), (assembler.open_calls() > 0).then_some(3));
    rows.clear();
    assembler.interrupt(&mut rows);
    assert_eq!(shown(&rows), wanted(dead));
    assert_eq!(assembler.open_calls(), 0);
}

#[test]
fn a_call_and_its_attempts_make_a_row_each() {
    let call = || Entry::Call { call: 1, head: head() };
    let end = |number, outcome| Entry::AttemptEnd {
        call: 1,
        number,
        ending: ending(outcome),
    };
    let over = || Entry::CallEnd {
        call: 1,
        ending: ending("answered"),
        is_degraded: false,
    };
    check(
        vec![
            call(),
            attempt(1),
            end(1, "failed"),
            attempt(2),
            end(2, "success"),
            over(),
        ],
        &[
            (0, Some("e2"), "answered", 0),
            (1, Some("e1"), "failed", 0),
            (2, Some("e2"), "success", 0),
        ],
        &[],
    );
    // Nobody had a place for it.
    check(vec![call(), over()], &[(0, None, "answered", 0)], &[]);
    // An end twice, or without a beginning, makes nothing.
    check(vec![over(), call(), over(), over()], &[(0, None, "answered", 0)], &[]);
}

#[test]
fn what_death_cuts_short_counts_as_expected() {
    let call = || Entry::Call { call: 1, head: head() };
    check(
        vec![call(), attempt(1)],
        &[],
        &[(0, Some("e1"), INTERRUPTED, 30), (1, Some("e1"), INTERRUPTED, 30)],
    );
    let failed = Entry::AttemptEnd {
        call: 1,
        number: 1,
        ending: ending("failed"),
    };
    check(
        vec![call(), attempt(1), failed],
        &[],
        &[(0, Some("e1"), INTERRUPTED, 0), (1, Some("e1"), "failed", 0)],
    );
}

#[test]
fn a_call_that_goes_on_has_rows_of_each_target_and_is_called_by_the_last() {
    let target = |pool: &str, degrades: Option<(&str, &str)>| Entry::Target {
        call: 1,
        head: TargetHead {
            asked: "assistant".into(),
            model: format!("{pool}-model"),
            served: "s".into(),
            pool: pool.into(),
            price: None,
            expected: Expected {
                input: TokenCount::new(1),
                output: TokenCount::new(2),
                money: 3,
            },
            degrades: degrades.map(|(kind, reason)| Degrades {
                kind: kind.into(),
                reason: reason.into(),
            }),
        },
    };
    let rows = |entries: Vec<Entry<String>>| {
        let mut assembler = Assembler::new(7);
        let mut rows = Vec::new();
        entries
            .into_iter()
            .for_each(|entry| assembler.take(entry, 3, &mut rows));
        assembler.interrupt(&mut rows);
        let shown = rows.iter().map(|row| {
            let reason = row.degraded.as_ref().map(|degraded| degraded.reason.clone());
            assert_eq!(row.asked.as_deref(), Some("assistant"));
            (row.attempt, row.head.pool.clone(), reason)
        });
        shown.collect::<Vec<_>>()
    };
    let begun = || {
        vec![
            Entry::Call { call: 1, head: head() },
            target("big", None),
            attempt(1),
            Entry::AttemptEnd {
                call: 1,
                number: 1,
                ending: ending("overload"),
            },
            target("small", Some(("model", "quota"))),
            attempt(2),
        ]
    };
    let ended = |is_degraded| {
        let end = Entry::CallEnd {
            call: 1,
            ending: ending("answered"),
            is_degraded,
        };
        rows([begun(), vec![end]].concat())
    };
    let quota = || Some("quota".to_owned());
    let row = |number: u32, pool: &str, reason| (number, pool.to_owned(), reason);
    let attempts = || vec![row(1, "big", None), row(2, "small", None)];
    assert_eq!(ended(true), [vec![row(0, "small", quota())], attempts()].concat());
    assert_eq!(ended(false), [vec![row(0, "small", None)], attempts()].concat());
    // It was at work there when the gateway died.
    assert_eq!(rows(begun()), [vec![row(0, "small", quota())], attempts()].concat());
}
