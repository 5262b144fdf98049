use std::collections::BTreeMap;
use std::path::Path;

use maitred_test::{Folder, Postgres};
use maitred_types::{TokenCount, Usage, UsageSource};
use sqlx::Row as _;

use idle::{
    hours_are_counted_once_however_many_gateways_write_them, hours_leave_with_their_month,
    tables_of_the_second_version_get_hours,
};

use super::*;

/// 2026-12-01T00:00:00Z.
const NOW: u64 = 1_796_083_200_000;

/// A database, and a folder for the spool.
struct Store {
    folder: Folder,
    server: Option<Postgres>,
}

impl Store {
    /// A file that is not there yet.
    fn sqlite() -> Self {
        Self {
            folder: Folder::new(),
            server: None,
        }
    }

    /// A server without tables.
    async fn postgres() -> Self {
        Self {
            folder: Folder::new(),
            server: Some(Postgres::start().await),
        }
    }

    fn place(&self) -> Place {
        match &self.server {
            Some(server) => Place::Postgres(server.url()),
            None => Place::Sqlite(self.folder.path().join("ledger.db")),
        }
    }

    fn options(&self, start: u64) -> LedgerOptions {
        options(self.place(), self.folder.path(), start)
    }

    async fn database(&self, access: Access) -> Database {
        Database::open(&self.place(), access).await.unwrap()
    }

    async fn migrate(&self) {
        let mut database = Database::connect(&self.place(), Access::Create).await.unwrap();
        database.migrate().await.unwrap();
        database.close().await;
    }

    async fn sums(&self, by: Vec<By>) -> Vec<(Vec<String>, Sums)> {
        let question = Question {
            by,
            since: UnixMillis::new(0),
            until: UnixMillis::new(u64::MAX >> 1),
        };
        self.database(Access::Read).await.usage(&question).await.unwrap()
    }

    /// Takes this month's table away, for a while.
    async fn take_away(&self) -> Database {
        let mut database = self.database(Access::Write).await;
        database.prepare(&[202_612, 202_701]).await.unwrap();
        AssertSql("ALTER TABLE maitred_usage_202612 RENAME TO away".into())
            .run(&mut database)
            .await;
        database
    }

    /// How many files the spool has, besides the list of starts.
    fn files(&self) -> usize {
        std::fs::read_dir(self.folder.path().join("spool")).unwrap().count() - 1
    }

    /// Another process, as far as the lock on the spool is concerned: what a dead gateway leaves.
    fn abandon(&self, start: u64) {
        let spool = Spool::open(&self.folder.path().join("spool"), start).unwrap();
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

    /// Every row's name, and how often it is there.
    async fn names(&self) -> BTreeMap<(i64, i64, i64), i64> {
        let mut database = self.database(Access::Read).await;
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
}

async fn bring_back(database: &mut Database) {
    AssertSql("ALTER TABLE away RENAME TO maitred_usage_202612".into())
        .run(database)
        .await;
}

/// The same test with a file of SQLite and with a server of PostgreSQL.
macro_rules! on_both {
    ($($test:ident)*) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(super::Store::sqlite()).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(super::Store::postgres().await).await;
            })*
        }
    };
}

fn options(place: Place, folder: &Path, start: u64) -> LedgerOptions {
    LedgerOptions {
        place,
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

async fn open(options: LedgerOptions) -> Ledger {
    Ledger::open(options, LedgerMeters::default()).await.unwrap()
}

async fn begin(ledger: &Ledger, entries: &[Entry<&'static str>]) -> Result<(), Unavailable> {
    ledger.begin(entries)?.durable().await
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
            is_degraded: false,
        },
    ]
}

const LIMIT: Duration = Duration::from_secs(60);

on_both! {
    calls_are_in_the_ledger_once_and_the_spool_is_empty_afterwards
    without_tables_there_is_no_ledger_and_the_command_is_named
    what_a_dead_gateway_left_is_settled_once
    what_earlier_starts_used_is_told_by_owner_and_stretch
    what_had_ended_by_a_moment_is_told_of_this_start_too
    a_living_gateways_segments_are_left_alone
    a_damaged_segment_is_put_aside_and_what_precedes_it_is_kept
    tables_of_the_third_version_get_the_new_columns
    months_leave_when_their_time_is_over
    the_next_months_have_tables_before_they_begin
    gateways_that_begin_a_month_at_once_do_not_disturb_each_other
    a_database_that_takes_nothing_holds_up_nobody_and_nothing_is_lost
    under_reject_no_call_begins_while_the_database_takes_nothing
    a_full_spool_lets_no_call_begin
    lengths_are_told_by_model
    hours_are_counted_once_however_many_gateways_write_them
    hours_leave_with_their_month
    tables_of_the_second_version_get_hours
}

async fn lengths_are_told_by_model(store: Store) {
    store.migrate().await;
    let ledger = open(store.options(1)).await;
    for (call, tokens) in (1..).zip([5, 20, 20, 1_000, 3_000_000]) {
        ledger.enter(&beginning(call, NOW));
        ledger.end(&end(call, tokens));
    }
    assert!(ledger.close(LIMIT));
    let mut database = store.database(Access::Read).await;
    let all = (UnixMillis::new(NOW), UnixMillis::new(NOW + 1));
    let lengths = database.lengths(all).await.unwrap();
    let lengths = &lengths["m"];
    assert_eq!((lengths.calls(), lengths.longest), (5, 3_000_000));
    assert!((20..23).contains(&lengths.quantile(0.5)), "{lengths:?}");
    let line = lengths.line(1_000 - 100);
    assert!((line.calls - 0.4).abs() < 1e-9, "{line:?}");
    assert!(line.tokens > 0.99, "{line:?}");
    let none = database
        .lengths((UnixMillis::new(NOW + 1), UnixMillis::new(NOW + 2)))
        .await
        .unwrap();
    assert!(none.is_empty());
}

async fn calls_are_in_the_ledger_once_and_the_spool_is_empty_afterwards(store: Store) {
    store.migrate().await;
    let ledger = open(store.options(1)).await;
    for call in 1..=200 {
        begin(&ledger, &beginning(call, NOW)).await.unwrap();
        ledger.end(&end(call, 10));
    }
    assert!(ledger.close(LIMIT));
    let lines = store.sums(vec![By::Tenant, By::Day, By::Endpoint]).await;
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
    assert_eq!(store.files(), 0);
}

async fn without_tables_there_is_no_ledger_and_the_command_is_named(store: Store) {
    let refused = |error: LedgerError| error.to_string();
    let error = Ledger::open(store.options(1), LedgerMeters::default()).await;
    assert!(refused(error.unwrap_err()).contains("maitred store migrate"));
    // A file without tables is no better.
    let mut database = Database::connect(&store.place(), Access::Create).await.unwrap();
    let error = Ledger::open(store.options(1), LedgerMeters::default()).await;
    assert!(refused(error.unwrap_err()).contains("maitred store migrate"));
    assert_eq!(database.migrate().await.unwrap(), None);
    assert_eq!(database.migrate().await.unwrap(), Some(SCHEMA_VERSION));
    // Nor is a newer one.
    sqlx::query("UPDATE maitred_schema SET version = 99")
        .execute(&mut database.connection)
        .await
        .unwrap();
    let error = Ledger::open(store.options(1), LedgerMeters::default()).await;
    assert!(refused(error.unwrap_err()).contains("run a newer maitred"));
}

async fn what_earlier_starts_used_is_told_by_owner_and_stretch(store: Store) {
    store.migrate().await;
    let past = Past {
        whose: Whose::Earlier,
        by: vec![By::Tenant, By::Task],
        since: UnixMillis::new(NOW - 10_000),
        grain: Some(Duration::from_secs(1)),
    };
    let first = open(store.options(5)).await;
    for (call, arrived) in [(1, NOW - 20_000), (2, NOW - 10_000), (3, NOW - 9_400), (4, NOW)] {
        begin(&first, &beginning(call, arrived)).await.unwrap();
        first.end(&end(call, 10));
    }
    first.settled().await;
    assert_eq!(first.past(&past).await.unwrap(), [], "it is the first");
    assert!(first.close(LIMIT));
    // Another gateway with the same database, whose spool is elsewhere, has nothing to do with these.
    let other = LedgerOptions {
        spool: store.folder.path().join("other"),
        ..store.options(8)
    };
    let other = open(other).await;
    begin(&other, &beginning(1, NOW)).await.unwrap();
    other.end(&end(1, 10));
    assert_eq!(other.past(&past).await.unwrap(), []);
    assert!(other.close(LIMIT));
    // What a dead one left is settled before: one call of three has no end, and counts as expected.
    store.abandon(u64::MAX - 1);
    let again = open(store.options(6)).await;
    again.settled().await;
    let stretch = |first: u64, last: u64, (calls, tokens, money): (u64, u64, u64)| Stretch {
        owners: vec!["acme".to_owned(), String::new()],
        first: UnixMillis::new(first),
        last: UnixMillis::new(last),
        calls,
        tokens,
        money,
    };
    let told = again.past(&past).await.unwrap();
    let expected = [
        stretch(NOW - 10_000, NOW - 9_400, (2, 22, 22)),
        stretch(NOW, NOW, (4, 11 + 11 + 21 + 107, 11 + 11 + 11 + 3)),
    ];
    assert_eq!(told, expected);
    // Its own are none of an earlier start.
    begin(&again, &beginning(9, NOW)).await.unwrap();
    again.end(&end(9, 10));
    let all = Past { grain: None, ..past };
    let told = again.past(&all).await.unwrap();
    assert_eq!(told, [stretch(NOW - 10_000, NOW, (6, 172, 58))]);
    assert!(again.close(LIMIT));
}

async fn what_had_ended_by_a_moment_is_told_of_this_start_too(store: Store) {
    store.migrate().await;
    let other = LedgerOptions {
        spool: store.folder.path().join("other"),
        ..store.options(8)
    };
    let other = open(other).await;
    begin(&other, &beginning(1, NOW)).await.unwrap();
    other.end(&end(1, 500));
    assert!(other.close(LIMIT));
    let earlier = open(store.options(5)).await;
    begin(&earlier, &beginning(1, NOW - 2_000)).await.unwrap();
    earlier.end(&end(1, 100));
    assert!(earlier.close(LIMIT));
    let ledger = open(store.options(6)).await;
    for (call, arrived) in [(1, NOW - 1_000), (2, NOW), (3, NOW + 1)] {
        begin(&ledger, &beginning(call, arrived)).await.unwrap();
        ledger.end(&end(call, 10));
    }
    // One that is under way has used nothing yet.
    begin(&ledger, &beginning(4, NOW - 500)).await.unwrap();
    // At once, although rows go to the database only now and then.
    ledger.flushed().await;
    let tokens = async |whose| {
        let past = Past {
            whose,
            by: vec![By::Tenant],
            since: UnixMillis::new(NOW - 10_000),
            grain: None,
        };
        let told = ledger.past(&past).await.unwrap();
        told.iter().map(|stretch| stretch.tokens).sum::<u64>()
    };
    assert_eq!(tokens(Whose::Earlier).await, 101);
    assert_eq!(tokens(Whose::Own(UnixMillis::new(NOW - 1))).await, 101 + 11);
    assert_eq!(tokens(Whose::Own(UnixMillis::new(NOW))).await, 101 + 22);
    assert_eq!(tokens(Whose::Own(UnixMillis::new(NOW + 1))).await, 101 + 33);
    assert_eq!(tokens(Whose::Everybody).await, 501 + 101 + 33);
    ledger.end(&end(4, 10));
    assert!(ledger.close(LIMIT));
}

async fn what_a_dead_gateway_left_is_settled_once(store: Store) {
    store.migrate().await;
    store.abandon(5);
    let ledger = open(store.options(6)).await;
    assert!(ledger.close(LIMIT));
    // A second time the same changes nothing: as if the gateway had died between the commit and the removal.
    store.abandon(5);
    let ledger = open(store.options(7)).await;
    assert!(ledger.close(LIMIT));
    let lines = store.sums(vec![]).await;
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
    assert_eq!(store.files(), 0);
}

async fn a_living_gateways_segments_are_left_alone(store: Store) {
    store.migrate().await;
    let first = open(store.options(1)).await;
    begin(&first, &beginning(1, NOW)).await.unwrap();
    let second = open(store.options(2)).await;
    assert!(second.close(LIMIT));
    first.end(&end(1, 10));
    assert!(first.close(LIMIT));
    let lines = store.sums(vec![By::Outcome]).await;
    assert_eq!(lines.len(), 1);
    assert_eq!((lines[0].0[0].as_str(), lines[0].1.calls), ("answered", 1));
}

async fn a_damaged_segment_is_put_aside_and_what_precedes_it_is_kept(store: Store) {
    store.migrate().await;
    store.abandon(5);
    let path = store
        .folder
        .path()
        .join("spool")
        .join(format!("{:016x}-{:08}.spool", 5, 1));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let ledger = open(store.options(6)).await;
    assert!(ledger.close(LIMIT));
    // The end of the second call was in the damage.
    let lines = store.sums(vec![By::Outcome]).await;
    let outcomes: Vec<_> = lines.iter().map(|(by, sums)| (by[0].as_str(), sums.calls)).collect();
    assert_eq!(outcomes, [("answered", 1), (INTERRUPTED, 1)]);
    assert!(path.with_extension("damaged").is_file());
}

async fn months_leave_when_their_time_is_over(store: Store) {
    store.migrate().await;
    let day = 86_400_000;
    let ledger = open(store.options(1)).await;
    for (call, ago) in [(1, 0), (2, 20 * day), (3, 50 * day), (4, 400 * day)] {
        begin(&ledger, &beginning(call, NOW - ago)).await.unwrap();
        ledger.end(&end(call, 1));
    }
    assert!(ledger.close(LIMIT));
    let months =
        |lines: Vec<(Vec<String>, Sums)>| lines.into_iter().map(|(mut by, _)| by.remove(0)).collect::<Vec<_>>();
    let all = months(store.sums(vec![By::Month]).await);
    assert_eq!(all, ["2025-10", "2026-10", "2026-11", "2026-12"]);
    let keep = LedgerOptions {
        keep_months: Some(1),
        ..store.options(2)
    };
    assert!(open(keep).await.close(LIMIT));
    assert_eq!(months(store.sums(vec![By::Month]).await), ["2026-11", "2026-12"]);
}

async fn the_next_months_have_tables_before_they_begin(store: Store) {
    store.migrate().await;
    let ledger = open(store.options(1)).await;
    assert!(ledger.close(LIMIT));
    let database = store.database(Access::Read).await;
    assert_eq!(database.months(), [202_612, 202_701]);
}

/// The rows of a call that a gateway's death cut short.
fn interrupted(gateway: u64, call: u64, arrived: u64) -> Vec<Row> {
    let mut bytes = Vec::new();
    frame::write(&mut bytes, &beginning(call, arrived));
    let mut rows = Vec::new();
    let mut assembler = row::Assembler::new(gateway);
    for entry in frame::entries(&bytes[crate::frame::HEAD..]).unwrap() {
        assembler.take(entry, 0, &mut rows);
    }
    assembler.interrupt(&mut rows);
    rows
}

async fn gateways_that_begin_a_month_at_once_do_not_disturb_each_other(store: Store) {
    const GATEWAYS: u64 = 4;
    store.migrate().await;
    // As many as there are begin, and all write of months that nobody has made yet.
    let mut writers = tokio::task::JoinSet::new();
    for gateway in 0..GATEWAYS {
        let mut database = store.database(Access::Write).await;
        writers.spawn(async move {
            for month in 0..12 {
                let rows = interrupted(gateway, month + 1, NOW - month * 31 * 86_400_000);
                database.write(&rows).await.unwrap();
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    let sums = store.sums(vec![]).await[0].1;
    assert_eq!(sums.calls, i64::try_from(GATEWAYS * 12).unwrap());
}

/// The tables of PostgreSQL that the first version made are taken over with their rows.
#[tokio::test]
async fn tables_of_the_first_version_become_partitions() {
    let store = Store::postgres().await;
    let mut database = Database::connect(&store.place(), Access::Write).await.unwrap();
    let first = [
        "CREATE TABLE maitred_schema (version BIGINT NOT NULL)".to_owned(),
        "CREATE TABLE maitred_months (month BIGINT NOT NULL PRIMARY KEY)".to_owned(),
        "INSERT INTO maitred_schema (version) VALUES (1)".to_owned(),
        "INSERT INTO maitred_months (month) VALUES (202611)".to_owned(),
        schema::lone_table(202_611),
    ];
    for statement in first.into_iter().chain(without_later_columns("maitred_usage_202611")) {
        AssertSql(statement).run(&mut database).await;
    }
    AssertSql(
        "INSERT INTO maitred_usage_202611 (gateway, call, attempt, request_id, arrived_ms, tenant, model, served_model, pool, \
         dialect, source, total_us, outcome, money) \
         VALUES (1, 1, 0, 'r', 1796083199999, 't', 'm', 'm', 'p', 'openai', 'none', 1, 'answered', 5)"
            .into(),
    )
    .run(&mut database)
    .await;
    let refused = Database::open(&store.place(), Access::Write).await.unwrap_err();
    assert!(refused.to_string().contains("maitred store migrate"), "{refused}");
    assert_eq!(database.migrate().await.unwrap(), Some(1));
    let ledger = open(store.options(1)).await;
    begin(&ledger, &beginning(1, NOW)).await.unwrap();
    ledger.end(&end(1, 10));
    assert!(ledger.close(LIMIT));
    assert_eq!(store.sums(vec![]).await[0].1.calls, 2);
    // All of it is one table to whoever looks from outside.
    let count = sqlx::query("SELECT COUNT(*) FROM maitred_usage WHERE attempt = 0");
    let count: i64 = count.fetch_one(&mut database.connection).await.unwrap().get(0);
    assert_eq!(count, 2);
}

/// What takes the columns of version 4 from a table.
fn without_later_columns(table: &str) -> impl Iterator<Item = String> + use<'_> {
    let columns = ["asked_model", "degraded", "degrade_reason"];
    columns
        .into_iter()
        .map(move |column| format!("ALTER TABLE {table} DROP COLUMN {column}"))
}

/// Makes of all tables what the third version had.
async fn take_later_columns(store: &Store, database: &mut Database) {
    let months = Database::open(&store.place(), Access::Read)
        .await
        .unwrap()
        .months()
        .to_vec();
    let tables: Vec<String> = match store.place() {
        Place::Postgres(_) => vec!["maitred_usage".to_owned()],
        Place::Sqlite(_) => months.iter().map(|month| schema::table(*month)).collect(),
    };
    for statement in tables.iter().flat_map(|table| without_later_columns(table)) {
        AssertSql(statement).run(database).await;
    }
}

/// Rows of the third version stay, and what is new is written beside them.
async fn tables_of_the_third_version_get_the_new_columns(store: Store) {
    store.migrate().await;
    let ledger = open(store.options(1)).await;
    begin(&ledger, &beginning(1, NOW)).await.unwrap();
    ledger.end(&end(1, 10));
    assert!(ledger.close(LIMIT));
    let mut database = Database::connect(&store.place(), Access::Write).await.unwrap();
    take_later_columns(&store, &mut database).await;
    AssertSql("UPDATE maitred_schema SET version = 3".into())
        .run(&mut database)
        .await;
    assert_eq!(database.migrate().await.unwrap(), Some(3));
    let ledger = open(store.options(2)).await;
    begin(&ledger, &beginning(2, NOW)).await.unwrap();
    let target = Entry::Target {
        call: 2,
        head: TargetHead {
            asked: "assistant",
            model: "m",
            served: "m",
            pool: "p",
            price: None,
            expected: Expected::default(),
            degrades: Some(Degrades {
                kind: "model",
                reason: "quota",
            }),
        },
    };
    begin(&ledger, &[target]).await.unwrap();
    let [attempt, call] = end(2, 10);
    let Entry::CallEnd { call, ending, .. } = call else {
        panic!("the end of a call");
    };
    let call = Entry::CallEnd {
        call,
        ending,
        is_degraded: true,
    };
    ledger.end(&[attempt, call]);
    assert!(ledger.close(LIMIT));
    let by = store.sums(vec![By::Asked, By::DegradeReason]).await;
    let lines: Vec<_> = by
        .iter()
        .map(|(values, sums)| (values[0].as_str(), values[1].as_str(), sums.calls, sums.degraded))
        .collect();
    assert_eq!(lines, [("assistant", "quota", 1, 1), ("m", "", 1, 0)]);
}

async fn a_database_that_takes_nothing_holds_up_nobody_and_nothing_is_lost(store: Store) {
    store.migrate().await;
    let mut database = store.take_away().await;
    let meters = LedgerMeters::default();
    let ledger = Ledger::open(store.options(1), meters.clone()).await.unwrap();
    for call in 1..=50 {
        begin(&ledger, &beginning(call, NOW)).await.unwrap();
        ledger.end(&end(call, 1));
    }
    maitred_test::eventually("the database to be missed", async || {
        (meters.errors("refused") > 0).then_some(())
    })
    .await;
    bring_back(&mut database).await;
    assert!(ledger.close(LIMIT));
    assert_eq!(store.sums(vec![]).await[0].1.calls, 50);
}

async fn under_reject_no_call_begins_while_the_database_takes_nothing(store: Store) {
    store.migrate().await;
    let mut database = store.take_away().await;
    let strict = LedgerOptions {
        policy: Policy::Reject,
        ..store.options(1)
    };
    let ledger = open(strict).await;
    begin(&ledger, &beginning(1, NOW)).await.unwrap();
    ledger.end(&end(1, 1));
    let refused = maitred_test::eventually("calls to be refused", async || {
        let call = ledger.number() + 1;
        match begin(&ledger, &beginning(call, NOW)).await {
            Ok(()) => {
                ledger.end(&end(call, 1));
                None
            }
            Err(unavailable) => Some(unavailable),
        }
    })
    .await;
    assert_eq!(refused, Unavailable::DatabaseDown);
    bring_back(&mut database).await;
    assert!(ledger.close(LIMIT));
}

async fn a_full_spool_lets_no_call_begin(store: Store) {
    store.migrate().await;
    let small = LedgerOptions {
        spool_max: 1,
        ..store.options(1)
    };
    let ledger = open(small).await;
    begin(&ledger, &beginning(1, NOW)).await.unwrap();
    assert_eq!(begin(&ledger, &beginning(2, NOW)).await, Err(Unavailable::SpoolFull));
    ledger.end(&end(1, 1));
    assert!(ledger.close(LIMIT));
    assert_eq!(store.sums(vec![]).await[0].1.calls, 1);
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

mod idle;
mod kills;

/// A server that accepts and says nothing holds up no start; the time is virtual.
#[tokio::test(start_paused = true)]
async fn a_silent_database_does_not_hold_up_the_start() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let place = Place::Postgres(format!("postgres://u:p@{}/db", silent.local_addr().unwrap()));
    let folder = Folder::new();
    let options = options(place, folder.path(), 1);
    let strict = LedgerOptions {
        policy: Policy::Reject,
        ..options.clone()
    };
    let refused = Ledger::open(strict, LedgerMeters::default()).await.unwrap_err();
    assert!(
        matches!(refused, LedgerError::Database(DatabaseError::Timeout)),
        "{refused}"
    );
    // Rows wait in the spool instead.
    drop(open(options).await);
}
