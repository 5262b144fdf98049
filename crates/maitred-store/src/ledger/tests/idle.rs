//! Hours that are paid for, and what of them nobody was charged.

use super::*;

const PRICE: &str = "pool chat@always 1 x 60";
/// Sixty billionths an hour: one for each minute.
const PER_HOUR: u64 = 60;
const MINUTE: u64 = 60_000;

fn ready(endpoint: &'static str, moment: u64) -> Entry<&'static str> {
    Entry::Ready(Ready::at(
        UnixMillis::new(moment),
        ("chat", endpoint),
        (PRICE, PER_HOUR),
    ))
}

/// A call on the first endpoint that was charged eleven.
fn called(call: u64, arrived: u64) -> Vec<Entry<&'static str>> {
    let mut all: Vec<_> = beginning(call, arrived).into_iter().chain(end(call, 10)).collect();
    if let Some(Entry::Call { head, .. }) = all.first_mut() {
        (head.pool, head.price) = ("chat", Some(PRICE));
    }
    all
}

async fn report(store: &Store, by: &[By], (since, until): (u64, u64)) -> Report {
    let mut database = store.database(Access::Read).await;
    let question = Question {
        by: by.to_vec(),
        since: UnixMillis::new(since),
        until: UnixMillis::new(until),
    };
    database.report(&question).await.unwrap()
}

/// Values, minutes, cost and what is idle of it.
fn told(report: &Report) -> Vec<(String, i64, i64, i64)> {
    let values = |idle: &Idle| {
        let values = idle.values.iter().map(|value| value.as_deref().unwrap_or("?"));
        values.collect::<Vec<_>>().join(" ")
    };
    let lines = report.idle.iter();
    lines
        .map(|idle| (values(idle), idle.minutes, idle.cost, idle.money))
        .collect()
}

pub(super) async fn hours_are_counted_once_however_many_gateways_write_them(store: Store) {
    store.migrate().await;
    let first = open(store.options(1)).await;
    let other = LedgerOptions {
        spool: store.folder.path().join("other"),
        ..store.options(2)
    };
    let second = open(other).await;
    // Both see the first endpoint, each for a part of the time, and write some of it twice.
    for minute in 0..80 {
        for (gateway, from, to) in [(&first, 0, 50), (&second, 40, 80), (&second, 40, 60)] {
            if (from..to).contains(&minute) {
                gateway.enter(&[ready("127.0.0.1:1", NOW + minute * MINUTE)]);
            }
        }
        if minute < 10 {
            first.enter(&[ready("127.0.0.1:2", NOW + minute * MINUTE)]);
        }
    }
    first.enter(&called(1, NOW + 5 * MINUTE));
    second.enter(&called(1, NOW + 70 * MINUTE));
    assert!(first.close(LIMIT) && second.close(LIMIT));
    let all = (NOW - MINUTE, NOW + 120 * MINUTE);
    let line = |values: &str, minutes, money| (values.to_owned(), minutes, minutes, money);
    let by = async |by: &[By]| report(&store, by, all).await;
    // What was used and what was not are what the hours cost, whatever it is summed by.
    let by_pool = by(&[By::Pool]).await;
    assert_eq!(told(&by_pool), [line("chat", 90, 90 - 22)]);
    assert_eq!(by_pool.lines.iter().map(|(_, sums)| sums.money).sum::<i64>(), 22);
    assert_eq!(told(&by(&[By::Tenant, By::Model]).await), [line("? ?", 90, 68)]);
    assert_eq!(told(&by(&[]).await), [line("", 90, 68)]);
    let by_endpoint = by(&[By::Endpoint, By::Tenant]).await;
    let expected = [line("127.0.0.1:1 ?", 80, 58), line("127.0.0.1:2 ?", 10, 10)];
    assert_eq!(told(&by_endpoint), expected);
    let by_day = by(&[By::Day, By::Price]).await;
    assert_eq!(told(&by_day), [line(&format!("2026-12-01 {PRICE}"), 90, 68)]);
    assert_eq!(told(&by(&[By::Month]).await), [line("2026-12", 90, 68)]);
    // Of the hours at both ends only what lies within.
    let part = report(&store, &[By::Pool], (NOW + 50 * MINUTE, NOW + 75 * MINUTE)).await;
    assert_eq!(told(&part), [line("chat", 25, 25 - 11)]);
    let none = report(&store, &[By::Pool], (NOW + 90 * MINUTE, NOW + 95 * MINUTE)).await;
    assert_eq!(none.idle, []);
}

pub(super) async fn hours_leave_with_their_month(store: Store) {
    store.migrate().await;
    let day = 86_400_000;
    let ledger = open(store.options(1)).await;
    for ago in [0, 20 * day, 50 * day] {
        begin(&ledger, &beginning(ago + 1, NOW - ago)).await.unwrap();
        ledger.end(&end(ago + 1, 1));
        ledger.enter(&[ready("e", NOW - ago)]);
    }
    assert!(ledger.close(LIMIT));
    let keep = LedgerOptions {
        keep_months: Some(1),
        ..store.options(2)
    };
    assert!(open(keep).await.close(LIMIT));
    let left = report(&store, &[By::Month], (0, NOW + day)).await;
    let months: Vec<_> = told(&left).into_iter().map(|(month, ..)| month).collect();
    assert_eq!(months, ["2026-11", "2026-12"]);
}

pub(super) async fn tables_of_the_second_version_get_hours(store: Store) {
    store.migrate().await;
    let ledger = open(store.options(1)).await;
    begin(&ledger, &beginning(1, NOW)).await.unwrap();
    ledger.end(&end(1, 10));
    assert!(ledger.close(LIMIT));
    let mut database = store.database(Access::Write).await;
    take_later_columns(&store, &mut database).await;
    for statement in ["DROP TABLE maitred_hours", "UPDATE maitred_schema SET version = 2"] {
        AssertSql(statement.to_owned()).run(&mut database).await;
    }
    let refused = Database::open(&store.place(), Access::Write).await.unwrap_err();
    assert!(refused.to_string().contains("maitred store migrate"), "{refused}");
    assert_eq!(database.migrate().await.unwrap(), Some(2));
    let ledger = open(store.options(2)).await;
    ledger.enter(&[ready("e", NOW)]);
    assert!(ledger.close(LIMIT));
    let all = report(&store, &[By::Pool], (0, NOW + MINUTE)).await;
    assert_eq!((all.lines.len(), told(&all).len()), (1, 1));
}
