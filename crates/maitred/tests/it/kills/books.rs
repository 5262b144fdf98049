//! What the ledger says beside what endpoints have noted, and what clients were told.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use maitred_test::{Folder, Request, eventually};
use serde_json::Value;
use sqlx::{AnyConnection, Connection as _, Row as _};

use super::{BURST, ENDPOINTS, PER_MINUTE, PER_SECOND, PLACES, Traffic, call_log};
use crate::table::{Engine, maitred, sum};

/// What clocks and threads may be apart, in milliseconds: a call has arrived before its quota is taken.
const JITTER: i64 = 150;

/// What calls use beyond their reservation is charged and comes on top: of each that runs at once a part of its prompt, whose length was
/// estimated too low.
const EXCESS: i64 = 16 * 10;

/// A row of the ledger.
#[derive(Debug)]
struct Row {
    start: i64,
    attempt: i64,
    id: String,
    tenant: String,
    endpoint: Option<String>,
    arrived: i64,
    queued_us: i64,
    total_us: i64,
    input: i64,
    output: i64,
    source: String,
    outcome: String,
}

impl Row {
    const fn tokens(&self) -> i64 {
        self.input + self.output
    }
}

async fn rows(folder: &Folder) -> Vec<Row> {
    sqlx::any::install_default_drivers();
    let url = format!("sqlite:{}?mode=ro", folder.path().join("ledger.db").display());
    let mut connection = AnyConnection::connect(&url).await.unwrap();
    let months = "SELECT month FROM maitred_months ORDER BY month";
    let months = sqlx::query(months).fetch_all(&mut connection).await.unwrap();
    let mut rows = Vec::new();
    for month in months {
        let month: i64 = month.get(0);
        let select = format!(
            "SELECT gateway, attempt, request_id, tenant, COALESCE(endpoint, ''), arrived_ms, COALESCE(queue_us, 0), total_us, \
             COALESCE(input_tokens, 0), COALESCE(output_tokens, 0), source, outcome FROM maitred_usage_{month:06}"
        );
        let found = sqlx::query(sqlx::AssertSqlSafe(select)).fetch_all(&mut connection);
        rows.extend(found.await.unwrap().iter().map(|row| Row {
            start: row.get(0),
            attempt: row.get(1),
            id: row.get(2),
            tenant: row.get(3),
            endpoint: Some(row.get::<String, _>(4)).filter(|name| !name.is_empty()),
            arrived: row.get(5),
            queued_us: row.get(6),
            total_us: row.get(7),
            input: row.get(8),
            output: row.get(9),
            source: row.get(10),
            outcome: row.get(11),
        }));
    }
    connection.close().await.unwrap();
    rows
}

/// What an endpoint has worked on.
#[derive(Clone, Copy, Debug, Default)]
struct Work {
    begun: u64,
    prompt: i64,
    /// What it generated, if it lived to say so.
    generated: Option<i64>,
}

/// By call and endpoint.
fn work(logs: &Folder, engines: &[Engine]) -> BTreeMap<(String, String), Work> {
    let mut all: BTreeMap<(String, String), Work> = BTreeMap::new();
    for (index, engine) in (0..ENDPOINTS).zip(engines) {
        for line in logs.read(&call_log(index)).lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let id = line["begin"].as_str().or(line["end"].as_str()).unwrap();
            let work = all.entry((id.to_owned(), engine.address.to_string())).or_default();
            if line["begin"].is_string() {
                work.begun += 1;
                work.prompt = line["prompt_tokens"].as_i64().unwrap();
            } else {
                work.generated = Some(work.generated.unwrap_or(0) + line["generated_tokens"].as_i64().unwrap());
            }
        }
    }
    all
}

/// Checks everything; says what there was.
pub(super) async fn check(
    folder: &Folder,
    (logs, engines): (&Folder, &[Engine]),
    traffic: &Traffic,
    per_day: u64,
) -> String {
    counters_are_what_was_noted(logs, &engines[0]).await;
    let rows = rows(folder).await;
    let work = work(logs, engines);
    let mut report = String::new();
    every_call_is_there_once(&rows, &work, traffic, &mut report);
    sums_agree(&rows, &work, &mut report);
    in_a_day(&rows, per_day, &mut report);
    in_a_minute(&rows, &mut report);
    at_a_rate(&rows, &mut report);
    at_once(&rows, &mut report);
    // Nothing is left to settle, and the audit is a whole chain.
    let left = std::fs::read_dir(folder.path().join("ledger.db.spool")).unwrap();
    let left: Vec<_> = left
        .map(|item| item.unwrap().file_name())
        .filter(|name| *name != "starts")
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let verified = maitred(["audit", "verify", "--folder", "audit"])
        .folder(folder.path())
        .run()
        .await;
    assert_eq!(verified.code, Some(0), "{} {}", verified.stdout, verified.stderr);
    report
}

/// The notes of the endpoint that never died are its own counters, so they may stand for those of the others.
async fn counters_are_what_was_noted(logs: &Folder, engine: &Engine) {
    eventually("the endpoint to rest, with all it did noted", async || {
        let page = Request::get("/metrics").send(engine.address).await.text();
        let busy = sum(&page, "vllm:num_requests_running", &[]) + sum(&page, "vllm:num_requests_waiting", &[]);
        let lines: Vec<Value> = logs
            .read(&call_log(0))
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let noted: f64 = lines.iter().filter_map(|line| line["generated_tokens"].as_f64()).sum();
        let counted = sum(&page, "vllm:generation_tokens_total", &[]);
        (busy == 0.0 && noted == counted && noted > 0.0).then_some(())
    })
    .await;
}

fn every_call_is_there_once(
    rows: &[Row],
    work: &BTreeMap<(String, String), Work>,
    traffic: &Traffic,
    report: &mut String,
) {
    let mut calls: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    let mut attempts: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for row in rows {
        if row.attempt == 0 {
            calls.entry(&row.id).or_default().push(row);
        } else {
            let endpoint = row.endpoint.as_deref().unwrap();
            *attempts.entry((&row.id, endpoint)).or_default() += 1;
        }
    }
    let twice: Vec<_> = calls.values().filter(|rows| rows.len() > 1).collect();
    assert!(twice.is_empty(), "calls are there twice: {twice:#?}");
    for ((id, endpoint), work) in work.iter().filter(|((id, _), _)| id.starts_with("call-")) {
        assert!(
            calls.contains_key(id.as_str()),
            "{id} reached {endpoint} and is not in the ledger"
        );
        let entered = attempts.get(&(id.as_str(), endpoint.as_str())).copied().unwrap_or(0);
        assert!(
            work.begun <= entered,
            "{id} reached {endpoint} {} times, and {entered} are in the ledger",
            work.begun
        );
    }
    let answered = traffic.answered.lock();
    for (id, tokens) in answered.iter() {
        let row = calls
            .get(id.as_str())
            .unwrap_or_else(|| panic!("{id} was answered and is not in the ledger"))[0];
        // One that the client had in full may still lack its end when the gateway was killed.
        let is_right =
            row.outcome == "interrupted" || tokens.is_none_or(|tokens| i64::try_from(tokens) == Ok(row.tokens()));
        assert!(is_right, "{id}: {tokens:?} {row:?}");
    }
    let known: BTreeSet<&str> = ["answered", "client_closed", "broken", "failed", "interrupted"].into();
    let unknown = rows
        .iter()
        .find(|row| row.attempt == 0 && !known.contains(row.outcome.as_str()));
    assert!(unknown.is_none(), "{unknown:?}");
    let mut outcomes: BTreeMap<&str, u32> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.attempt == 0) {
        *outcomes.entry(&row.outcome).or_default() += 1;
    }
    write!(
        report,
        "{} calls in the ledger {outcomes:?}, {} answered in full, {} refused; ",
        calls.len(),
        answered.len(),
        traffic.refused.load(std::sync::atomic::Ordering::Relaxed)
    )
    .unwrap();
}

/// Attempt by attempt: what the endpoint said is in the row to the token; what it could not say is marked as an estimate.
fn sums_agree(rows: &[Row], work: &BTreeMap<(String, String), Work>, report: &mut String) {
    let (mut reported, mut noted, mut estimated, mut unsaid) = (0, 0, 0, 0);
    for row in rows.iter().filter(|row| row.attempt > 0) {
        let of = (row.id.clone(), row.endpoint.clone().unwrap());
        let Some(work) = work.get(&of).filter(|work| work.begun == 1) else {
            assert!(
                row.source != "reported" || work.contains_key(&of),
                "{row:?} used what nobody worked"
            );
            continue;
        };
        if row.source == "reported" {
            assert_eq!((row.input, Some(row.output)), (work.prompt, work.generated), "{row:?}");
            (reported, noted) = (reported + row.tokens(), noted + work.prompt + work.generated.unwrap());
            continue;
        }
        // Killed or broken off, or its client left.
        assert!(row.outcome != "answered" || row.source == "estimated", "{row:?}");
        if row.outcome == "interrupted" {
            assert_eq!(row.source, "estimated", "{row:?}");
            assert!(row.output >= work.generated.unwrap_or(0), "{row:?} {work:?}");
        }
        (estimated, unsaid) = (
            estimated + row.tokens(),
            unsaid + work.prompt + work.generated.unwrap_or(0),
        );
    }
    assert_eq!(reported, noted);
    write!(
        report,
        "{reported} tokens reported, as the endpoints counted; {estimated} estimated where the endpoints worked {unsaid}; "
    )
    .unwrap();
}

fn calls_of<'a>(rows: &'a [Row], tenant: &'a str) -> Vec<&'a Row> {
    let mut calls: Vec<&Row> = rows
        .iter()
        .filter(|row| row.attempt == 0 && row.tenant == tenant)
        .collect();
    calls.sort_by_key(|row| row.arrived);
    calls
}

fn in_a_day(rows: &[Row], per_day: u64, report: &mut String) {
    let calls = calls_of(rows, "tenant-1");
    let mut days: BTreeMap<i64, i64> = BTreeMap::new();
    for call in &calls {
        *days.entry(call.arrived / 86_400_000).or_default() += call.tokens();
    }
    let limit = i64::try_from(per_day).unwrap();
    assert!(
        days.values().all(|used| *used <= limit + EXCESS),
        "{days:?} of {limit} tokens a day"
    );
    write!(
        report,
        "{:?} of {limit} tokens a day; ",
        days.into_values().collect::<Vec<_>>()
    )
    .unwrap();
}

fn in_a_minute(rows: &[Row], report: &mut String) {
    let calls = calls_of(rows, "tenant-3");
    let (mut most, mut first, mut used) = (0, 0, 0);
    for call in &calls {
        used += call.tokens();
        while call.arrived - calls[first].arrived >= 60_000 - JITTER {
            used -= calls[first].tokens();
            first += 1;
        }
        most = most.max(used);
        let limit = i64::try_from(PER_MINUTE).unwrap();
        let allowed = limit + EXCESS;
        assert!(
            used <= allowed,
            "{used} of {limit} tokens in the minute before {call:?}"
        );
    }
    write!(report, "{most} of {PER_MINUTE} tokens in a minute; ").unwrap();
}

/// Calls conform to the rate if each comes no earlier than its turn, less the burst.
fn at_a_rate(rows: &[Row], report: &mut String) {
    let calls = calls_of(rows, "tenant-2");
    let interval = 1000 / i64::try_from(PER_SECOND).unwrap();
    let early = interval * (i64::try_from(BURST).unwrap() - 1);
    let (mut due, mut earliest) = (0, 0);
    for call in &calls {
        earliest = earliest.max(due - early - call.arrived);
        assert!(
            due - early - JITTER <= call.arrived,
            "{call:?} came {} ms early",
            due - early - call.arrived
        );
        due = due.max(call.arrived) + interval;
    }
    write!(report, "calls of a rate came {earliest} ms early at most; ").unwrap();
}

/// In each life of the gateway. A call holds its place from when it is sent on until its end; one without an end, until the kill.
fn at_once(rows: &[Row], report: &mut String) {
    let mut turns: Vec<(i64, i64, i64)> = Vec::new();
    for call in calls_of(rows, "tenant-3").iter().filter(|call| call.endpoint.is_some()) {
        let begin = call.arrived * 1000 + call.queued_us;
        turns.push((call.start, begin, 1));
        if call.outcome != "interrupted" {
            // Moments of arrival are in whole milliseconds.
            turns.push((call.start, (call.arrived * 1000 + call.total_us - 1000).max(begin), -1));
        }
    }
    turns.sort_unstable();
    let (mut of, mut held, mut most) = (0, 0, 0);
    for (start, _, turn) in turns {
        if start != of {
            (of, held) = (start, 0);
        }
        held += turn;
        most = most.max(held);
    }
    assert!(most <= i64::try_from(PLACES).unwrap(), "{most} at once of {PLACES}");
    write!(report, "{most} of {PLACES} calls at once").unwrap();
}
