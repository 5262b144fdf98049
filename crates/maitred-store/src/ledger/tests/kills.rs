//! A process that writes the ledger is killed over and over, and nothing is lost or there twice (invariant M1).

use std::collections::BTreeSet;

use maitred_test::Start;
use tokio::task::JoinSet;

use super::*;

/// How often it is killed.
const KILLS: u64 = 20;
/// How many calls the process writes at most; on a busy machine it may be far ahead of whoever reads what it says.
const MOST: u64 = 1_500;
/// The folder that the killed process is to work in.
const FOLDER: &str = "MAITRED_TEST_LEDGER";

/// The process that is killed: this very test program, told to run nothing else. Without its folder it has nothing to do.
#[tokio::test]
async fn child() {
    #[expect(clippy::disallowed_methods, reason = "how a test's own child learns its folder")]
    let Ok(place) = std::env::var(FOLDER) else { return };
    let [folder, start, url] = *place.split(' ').collect::<Vec<_>>() else {
        return;
    };
    let folder = Path::new(folder);
    let place = match url {
        "" => Place::Sqlite(folder.join("ledger.db")),
        url => Place::Postgres(url.to_owned()),
    };
    let ledger = Arc::new(open(options(place, folder, start.parse().unwrap())).await);
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let ledger = Arc::clone(&ledger);
        tasks.spawn(feed(ledger));
    }
    tasks.join_next().await;
}

/// Writes calls until it is killed, or has written as many as its parent remembers. Some of them never end.
async fn feed(ledger: Arc<Ledger>) {
    loop {
        let call = ledger.number();
        if call > MOST {
            std::future::pending::<()>().await;
        }
        begin(&ledger, &beginning(call, NOW)).await.unwrap();
        println!("begun {call}.");
        tokio::task::yield_now().await;
        if !call.is_multiple_of(7) {
            ledger.end(&end(call, 10));
        }
    }
}

/// The calls of which it said that they had begun.
fn begun(output: &str) -> BTreeSet<i64> {
    let calls = output
        .lines()
        .filter_map(|line| line.split_once("begun ")?.1.strip_suffix('.')?.parse().ok());
    calls.collect()
}

on_both! {
    what_has_begun_is_in_the_ledger_once_whenever_the_process_is_killed
}

async fn what_has_begun_is_in_the_ledger_once_whenever_the_process_is_killed(store: Store) {
    store.migrate().await;
    let url = store.server.as_ref().map(Postgres::url).unwrap_or_default();
    let mut random = fastrand::Rng::with_seed(7);
    let mut promised: Vec<(i64, BTreeSet<i64>)> = Vec::new();
    for start in 1..=KILLS {
        let place = format!("{} {start} {url}", store.folder.path().display());
        let mut child = Start::new("ledger", std::env::current_exe().unwrap())
            .args(["--exact", "ledger::tests::kills::child", "--nocapture"])
            .env(FOLDER, place)
            .spawn();
        let last = random.u64(1..600);
        child.line(&format!("begun {last}.")).await;
        child.kill().await;
        promised.push((start.cast_signed(), begun(&child.output())));
    }
    // Before the last one is settled, something is missing: the check below can fail.
    let (last, calls) = promised.last().unwrap();
    let rows = store.names().await;
    assert!(calls.iter().any(|call| !rows.contains_key(&(*last, *call, 0))));

    assert!(open(store.options(1000)).await.close(LIMIT));
    let rows = store.names().await;
    for (start, calls) in &promised {
        assert!(!calls.is_empty());
        for call in calls {
            for attempt in [0, 1] {
                assert_eq!(
                    rows.get(&(*start, *call, attempt)),
                    Some(&1),
                    "{start} {call} {attempt}"
                );
            }
        }
    }
    assert!(rows.values().all(|count| *count == 1));
    assert_eq!(rows.keys().filter(|row| row.2 == 0).count() * 2, rows.len());
    assert_eq!(store.files(), 0);
    let sums = store.sums(vec![]).await[0].1;
    assert!(sums.interrupted > 0 && sums.interrupted < sums.calls, "{sums:?}");
    assert_eq!(
        sums.input,
        (sums.calls - sums.interrupted) * 10 + sums.interrupted * 100
    );
}
