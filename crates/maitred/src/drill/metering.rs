//! The ledger's database takes no rows: calls are refused or kept, as the policy says, and none is lost.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use maitred_config::LedgerPolicy;
use serde_json::json;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};

use super::calls::{Answered, Ask, Ending};
use super::findings::{Findings, Ran};
use super::fleet::{Fleet, Gateway, until};

/// How long the database's own lock is waited for.
const LOCK: Duration = Duration::from_secs(10);
/// Calls while the gateway knows that the database takes nothing.
const CALLS: usize = 5;
const CALL: Ask = Ask {
    stream: false,
    tokens: 3,
};

pub(super) async fn run(fleet: &Fleet, found: &mut Findings) -> anyhow::Result<Ran> {
    let gateways = &fleet.gateways;
    // Both at one time, since noticing takes some seconds.
    let (first, second) = tokio::join!(one(gateways.first()), one(gateways.get(1)));
    let all: Vec<_> = [first?, second?].into_iter().flatten().collect();
    if all.is_empty() {
        let why = match fleet.gateway().ledger() {
            None => "there is no ledger; `ledger` in the configuration makes one",
            Some(_) => "the ledger's database is a server, which others may use; only a file is held on to",
        };
        return Ok(Ran::LeftOut(why.into()));
    }
    for seen in all {
        found.add(seen);
    }
    Ok(Ran::Through)
}

/// Drills a gateway, if it has a ledger in a file.
async fn one(gateway: Option<&Gateway>) -> anyhow::Result<Option<Findings>> {
    let Some(gateway) = gateway else { return Ok(None) };
    let Some((policy, file)) = gateway.ledger_file() else {
        return Ok(None);
    };
    let mut found = Findings::default();
    hold_and_call(gateway, policy, &file, &mut found).await?;
    Ok(Some(found))
}

async fn hold_and_call(
    gateway: &Gateway,
    policy: LedgerPolicy,
    file: &Path,
    found: &mut Findings,
) -> anyhow::Result<()> {
    let word = match policy {
        LedgerPolicy::Spool => "spool",
        LedgerPolicy::Reject => "reject",
    };
    let caller = &gateway.caller;
    let errors = gateway.metric("maitred_ledger_errors_total").await?;
    let lock = hold(file).await?;
    found.did(format!(
        "policy {word}: held on to the ledger's database as another program might, and called"
    ));
    // The gateway notices by a row that it cannot write.
    let mut answers = vec![caller.ask(CALL).await];
    until("the gateway to notice that the database takes no rows", async || {
        Ok((gateway.metric("maitred_ledger_errors_total").await? > errors).then_some(()))
    })
    .await?;
    let mut meanwhile = Vec::new();
    for _ in 0..CALLS {
        meanwhile.push(caller.ask(CALL).await);
    }
    let complete = meanwhile.iter().filter(|answered| answered.is_complete()).count();
    let refused = meanwhile.iter().filter(|answered| is_refused(answered)).count();
    let words = meanwhile.first().map(Answered::words);
    let figures = json!({ "calls": CALLS, "answered": complete, "refused": refused, "first": words });
    match policy {
        LedgerPolicy::Spool => found.saw("policy spool: calls go on", complete == CALLS, figures),
        LedgerPolicy::Reject => found.saw(
            "policy reject: calls are refused and not let through",
            refused == CALLS,
            figures,
        ),
    }
    lock.close().await.context("cannot let go of the ledger's database")?;

    until("calls to be answered again", async || {
        let answered = caller.ask(CALL).await;
        let is_complete = answered.is_complete();
        meanwhile.push(answered);
        Ok(is_complete.then_some(()))
    })
    .await?;
    answers.extend(meanwhile);
    nothing_is_lost(gateway, word, &answers, found).await
}

/// Whether the ledger has each call that was answered once, and none that was refused.
async fn nothing_is_lost(
    gateway: &Gateway,
    policy: &str,
    answers: &[Answered],
    found: &mut Findings,
) -> anyhow::Result<()> {
    let answered: Vec<_> = answers.iter().filter(|answered| answered.is_complete()).collect();
    let count = async || {
        let rows = gateway.rows("outcome").await?;
        let once = |answered: &Answered| {
            let of_it: Vec<_> = rows.iter().filter(|row| row.word("task") == answered.id).collect();
            of_it.len() == 1
                && of_it
                    .iter()
                    .all(|row| row.count("calls") == 1 && row.word("outcome") == "answered")
        };
        let kept = answered.iter().filter(|answered| once(answered)).count();
        let mut refused = answers.iter().filter(|answered| !answered.is_complete());
        let is_charged = |answered: &Answered| rows.iter().any(|row| row.word("task") == answered.id);
        anyhow::Ok((kept, refused.any(is_charged)))
    };
    let all_kept = until("the rows of all calls", async || {
        let (kept, _) = count().await?;
        Ok((kept == answered.len()).then_some(()))
    });
    let came = all_kept.await.is_ok();
    let (kept, is_charged) = count().await?;
    found.saw(
        format!("policy {policy}: nothing is lost: each answered call is in the ledger once, and no refused one"),
        came && !is_charged,
        json!({ "answered": answered.len(), "in_the_ledger": kept, "refused": answers.len() - answered.len() }),
    );
    Ok(())
}

fn is_refused(answered: &Answered) -> bool {
    matches!(&answered.ending, Ending::Refused(code) if code == "ledger_unavailable")
}

/// A transaction that lets nobody else write. It is over with its connection.
async fn hold(file: &Path) -> anyhow::Result<SqliteConnection> {
    let options = SqliteConnectOptions::new().filename(file).busy_timeout(LOCK);
    let connected = options.connect().await;
    let mut connection = connected.with_context(|| format!("cannot open the ledger's database {}", file.display()))?;
    let held = sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut connection).await;
    held.context("cannot hold on to the ledger's database")?;
    Ok(connection)
}
