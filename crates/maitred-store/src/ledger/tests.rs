use std::collections::BTreeMap;
use std::path::Path;

use maitred_test::Folder;
use maitred_types::{TokenCount, Usage, UsageSource};
use sqlx::Row as _;

use super::*;

/// 2026-12-01T00:00:00Z.
const NOW: u64 = 1_796_083_200_000;

fn options(folder: &Path, start: u64) -> LedgerOptions {
    LedgerOptions {
        place: Place::Sqlite(folder.join("ledger.db")),
        spool: folder.join("spool"),
        spool_max: 1 << 30,
        policy: Policy::Spool,
        wait: Duration::from_secs(10),
        durability: Durability::Process,
        keep_months: None,
        start,
        now: || UnixMillis::new(NOW),
    }
}

async fn migrated(folder: &Path) {
    let place = Place::Sqlite(folder.join("ledger.db"));
    let mut database = Database::connect(&place, Access::Create).await.unwrap();
    database.migrate().await.unwrap();
    database.close().await;
}

async fn open(options: LedgerOptions) -> Ledger {
    Ledger::open(options, LedgerMeters::default()).await.unwrap()
}

fn beginning(call: u64, arrived: u64) -> [Entry<&'static str>; 2] {
    let head = CallHead {
        request_id: "r-1",
        arrived: UnixMillis::new(arrived),
        tenant: "acme",
        user: Some("ada"),
        key: None,
        task: None,
        model: "m",
        served: "served-m",
        pool: "main",
        dialect: "openai",
        price: None,
        expected: Expected {
            input: TokenCount::new(100),
            output: TokenCount::new(7),
            money: 3,
        },
    };
    let attempt = AttemptHead {
        endpoint: "127.0.0.1:1",
        began_us: 10,
    };
    [
        Entry::Call { call, head },
        Entry::Attempt {
            call,
            number: 1,
            head: attempt,
        },
    ]
}

fn end(call: u64, input: u32) -> [Entry<&'static str>; 2] {
    let ending = |outcome| Ending {
        usage: Some(Usage {
            input: TokenCount::new(input),
            cached_input: Some(TokenCount::ZERO),
            output: TokenCount::new(1),
            reasoning: None,
            source: UsageSource::Reported,
        }),
        first_token_us: Some(5),
        total_us: 9,
        outcome,
        fault: None,
        money: 11,
    };
    [
        Entry::AttemptEnd {
            call,
            number: 1,
            ending: ending("success"),
        },
        Entry::CallEnd {
            call,
            ending: ending("answered"),
        },
    ]
}

async fn sums(folder: &Path, by: Vec<By>) -> Vec<(Vec<String>, Sums)> {
    let place = Place::Sqlite(folder.join("ledger.db"));
    let mut database = Database::open(&place, Access::Read).await.unwrap();
    let question = Question {
        by,
        since: UnixMillis::new(0),
        until: UnixMillis::new(u64::MAX >> 1),
    };
    database.usage(&question).await.unwrap()
}

fn files(folder: &Path) -> usize {
    std::fs::read_dir(folder.join("spool")).unwrap().count()
}

const LIMIT: Duration = Duration::from_secs(60);

#[tokio::test]
async fn calls_are_in_the_ledger_once_and_the_spool_is_empty_afterwards() {
    let folder = Folder::new();
    migrated(folder.path()).await;
    let ledger = open(options(folder.path(), 1)).await;
    for call in 1..=200 {
        ledger.begin(&beginning(call, NOW)).await.unwrap();
        ledger.end(&end(call, 10));
    }
    assert!(ledger.close(LIMIT));
    let lines = sums(folder.path(), vec![By::Tenant, By::Day, By::Endpoint]).await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    let (values, sums) = &lines[0];
    assert_eq!(values, &["acme", "2026-12-01", "127.0.0.1:1"]);
    let expected = Sums {
        calls: 200,
        input: 2000,
        output: 200,
        money: 2200,
        ..Sums::default()
    };
    assert_eq!(sums, &expected);
    assert_eq!(files(folder.path()), 0);
}

#[tokio::test]
async fn without_tables_there_is_no_ledger_and_the_command_is_named() {
    let folder = Folder::new();
    let refused = |error: LedgerError| error.to_string();
    let error = Ledger::open(options(folder.path(), 1), LedgerMeters::default()).await;
    assert!(refused(error.unwrap_err()).contains("maitred store migrate"));
    // A file without tables is no better.
    let place = Place::Sqlite(folder.path().join("ledger.db"));
    let mut database = Database::connect(&place, Access::Create).await.unwrap();
    let error = Ledger::open(options(folder.path(), 1), LedgerMeters::default()).await;
    assert!(refused(error.unwrap_err()).contains("maitred store migrate"));
    assert_eq!(database.migrate().await.unwrap(), None);
    assert_eq!(database.migrate().await.unwrap(), Some(SCHEMA_VERSION));
    // Nor is a newer one.
    sqlx::query("UPDATE maitred_schema SET version = 99")
        .execute(&mut database.connection)
        .await
        .unwrap();
    let error = Ledger::open(options(folder.path(), 1), LedgerMeters::default()).await;
    assert!(refused(error.unwrap_err()).contains("run a newer maitred"));
}

/// Another process, as far as the lock on the spool is concerned: what a dead gateway leaves.
fn abandoned(folder: &Path, start: u64) {
    let spool = Spool::open(&folder.join("spool"), start).unwrap();
    let mut segment = spool.create(0).unwrap();
    let mut bytes = Vec::new();
    frame::write(&mut bytes, &beginning(1, NOW));
    frame::write(&mut bytes, &beginning(2, NOW));
    frame::write(&mut bytes, &end(1, 10));
    segment.append(&bytes).unwrap();
    let mut segment = spool.create(1).unwrap();
    bytes.clear();
    frame::write(&mut bytes, &end(2, 20));
    frame::write(&mut bytes, &beginning(3, NOW));
    frame::write(&mut bytes, &end(3, 30));
    // The last end is torn.
    segment.append(&bytes[..bytes.len() - 1]).unwrap();
}

#[tokio::test]
async fn what_a_dead_gateway_left_is_settled_once() {
    let folder = Folder::new();
    migrated(folder.path()).await;
    abandoned(folder.path(), 5);
    let ledger = open(options(folder.path(), 6)).await;
    assert!(ledger.close(LIMIT));
    // A second time the same changes nothing: as if the gateway had died between the commit and the removal.
    abandoned(folder.path(), 5);
    let ledger = open(options(folder.path(), 7)).await;
    assert!(ledger.close(LIMIT));
    let lines = sums(folder.path(), vec![]).await;
    let expected = Sums {
        calls: 3,
        interrupted: 1,
        estimated: 1,
        input: 10 + 20 + 100,
        output: 1 + 1 + 7,
        estimated_tokens: 107,
        interrupted_tokens: 107,
        money: 11 + 11 + 3,
        ..Sums::default()
    };
    assert_eq!(lines, [(vec![], expected)]);
    assert_eq!(files(folder.path()), 0);
}

#[tokio::test]
async fn a_living_gateways_segments_are_left_alone() {
    let folder = Folder::new();
    migrated(folder.path()).await;
    let first = open(options(folder.path(), 1)).await;
    first.begin(&beginning(1, NOW)).await.unwrap();
    let second = open(options(folder.path(), 2)).await;
    assert!(second.close(LIMIT));
    first.end(&end(1, 10));
    assert!(first.close(LIMIT));
    let lines = sums(folder.path(), vec![By::Outcome]).await;
    assert_eq!(lines.len(), 1);
    assert_eq!((lines[0].0[0].as_str(), lines[0].1.calls), ("answered", 1));
}

#[tokio::test]
async fn a_damaged_segment_is_put_aside_and_what_precedes_it_is_kept() {
    let folder = Folder::new();
    migrated(folder.path()).await;
    abandoned(folder.path(), 5);
    let path = folder.path().join("spool").join(format!("{:016x}-{:08}.spool", 5, 1));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let ledger = open(options(folder.path(), 6)).await;
    assert!(ledger.close(LIMIT));
    // The end of the second call was in the damage.
    let lines = sums(folder.path(), vec![By::Outcome]).await;
    let outcomes: Vec<_> = lines.iter().map(|(by, sums)| (by[0].as_str(), sums.calls)).collect();
    assert_eq!(outcomes, [("answered", 1), (INTERRUPTED, 1)]);
    assert!(path.with_extension("damaged").is_file());
}

#[tokio::test]
async fn months_leave_when_their_time_is_over() {
    let folder = Folder::new();
    migrated(folder.path()).await;
    let day = 86_400_000;
    let ledger = open(options(folder.path(), 1)).await;
    for (call, ago) in [(1, 0), (2, 20 * day), (3, 50 * day), (4, 400 * day)] {
        ledger.begin(&beginning(call, NOW - ago)).await.unwrap();
        ledger.end(&end(call, 1));
    }
    assert!(ledger.close(LIMIT));
    let months =
        |lines: Vec<(Vec<String>, Sums)>| lines.into_iter().map(|(mut by, _)| by.remove(0)).collect::<Vec<_>>();
    let all = months(sums(folder.path(), vec![By::Month]).await);
    assert_eq!(all, ["2025-10", "2026-10", "2026-11", "2026-12"]);
    let keep = LedgerOptions {
        keep_months: Some(1),
        ..options(folder.path(), 2)
    };
    assert!(open(keep).await.close(LIMIT));
    assert_eq!(
        months(sums(folder.path(), vec![By::Month]).await),
        ["2026-11", "2026-12"]
    );
}

#[tokio::test]
async fn a_database_that_takes_nothing_holds_up_nobody_and_nothing_is_lost() {
    let folder = Folder::new();
    migrated(folder.path()).await;
    let meters = LedgerMeters::default();
    let ledger = Ledger::open(options(folder.path(), 1), meters.clone()).await.unwrap();
    // The tables are away for a while.
    let place = Place::Sqlite(folder.path().join("ledger.db"));
    let mut database = Database::open(&place, Access::Write).await.unwrap();
    let rename = |from: &str, to: &str| AssertSql(format!("ALTER TABLE {from} RENAME TO {to}"));
    rename("maitred_months", "away").run(&mut database).await;
    for call in 1..=50 {
        ledger.begin(&beginning(call, NOW)).await.unwrap();
        ledger.end(&end(call, 1));
    }
    maitred_test::eventually("the database to be missed", async || {
        (meters.errors("refused") > 0).then_some(())
    })
    .await;
    rename("away", "maitred_months").run(&mut database).await;
    assert!(ledger.close(LIMIT));
    assert_eq!(sums(folder.path(), vec![]).await[0].1.calls, 50);
}

#[tokio::test]
async fn under_reject_no_call_begins_while_the_database_takes_nothing() {
    let folder = Folder::new();
    migrated(folder.path()).await;
    let strict = LedgerOptions {
        policy: Policy::Reject,
        ..options(folder.path(), 1)
    };
    let ledger = open(strict).await;
    let place = Place::Sqlite(folder.path().join("ledger.db"));
    let mut database = Database::open(&place, Access::Write).await.unwrap();
    AssertSql("ALTER TABLE maitred_months RENAME TO away".into())
        .run(&mut database)
        .await;
    ledger.begin(&beginning(1, NOW)).await.unwrap();
    ledger.end(&end(1, 1));
    let refused = maitred_test::eventually("calls to be refused", async || {
        let call = ledger.number() + 1;
        match ledger.begin(&beginning(call, NOW)).await {
            Ok(()) => {
                ledger.end(&end(call, 1));
                None
            }
            Err(unavailable) => Some(unavailable),
        }
    })
    .await;
    assert_eq!(refused, Unavailable::DatabaseDown);
    AssertSql("ALTER TABLE away RENAME TO maitred_months".into())
        .run(&mut database)
        .await;
    assert!(ledger.close(LIMIT));
}

#[tokio::test]
async fn a_full_spool_lets_no_call_begin() {
    let folder = Folder::new();
    migrated(folder.path()).await;
    let small = LedgerOptions {
        spool_max: 1,
        ..options(folder.path(), 1)
    };
    let ledger = open(small).await;
    ledger.begin(&beginning(1, NOW)).await.unwrap();
    assert_eq!(ledger.begin(&beginning(2, NOW)).await, Err(Unavailable::SpoolFull));
    ledger.end(&end(1, 1));
    assert!(ledger.close(LIMIT));
    assert_eq!(sums(folder.path(), vec![]).await[0].1.calls, 1);
}

/// A statement of a test.
struct AssertSql(String);

impl AssertSql {
    async fn run(self, database: &mut Database) {
        sqlx::query(sqlx::AssertSqlSafe(self.0))
            .execute(&mut database.connection)
            .await
            .unwrap();
    }
}

/// Every row's name, and how often it is there.
async fn names(folder: &Path) -> BTreeMap<(i64, i64, i64), i64> {
    let place = Place::Sqlite(folder.join("ledger.db"));
    let mut database = Database::open(&place, Access::Read).await.unwrap();
    if database.months().is_empty() {
        return BTreeMap::new();
    }
    let rows = sqlx::query("SELECT gateway, call, attempt, COUNT(*) FROM maitred_usage_202612 GROUP BY 1, 2, 3")
        .fetch_all(&mut database.connection)
        .await
        .unwrap();
    rows.iter()
        .map(|row| ((row.get(0), row.get(1), row.get(2)), row.get(3)))
        .collect()
}

mod kills;
