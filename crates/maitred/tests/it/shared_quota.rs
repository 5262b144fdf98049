//! Several gateways with one quota in a real Redis and one ledger in a real PostgreSQL, and what is left of both when they are killed.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use maitred_test::{Answer, Folder, Play, Postgres, Redis, Request, ScriptedEndpoint, Signal, Start, eventually};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::table::{CHAT, Config, Engine, Gateway, MAITRED, MODEL, key, maitred};

const GATEWAYS: usize = 3;

/// The stores that gateways share.
struct Stores {
    redis: Redis,
    postgres: Option<Postgres>,
}

impl Stores {
    /// A Redis alone.
    async fn redis() -> Self {
        Self {
            redis: Redis::start().await,
            postgres: None,
        }
    }

    /// With a PostgreSQL that has the ledger's tables.
    async fn both(config: &Config) -> Self {
        let stores = Self {
            redis: Redis::start().await,
            postgres: Some(Postgres::start().await),
        };
        let folder = Folder::new();
        folder.write("maitred.yaml", &config.to_yaml());
        stores.command(&folder, &["store", "migrate"]).await;
        stores
    }

    fn ledger(&self) -> String {
        self.postgres.as_ref().map(Postgres::url).unwrap_or_default()
    }

    /// What a command prints that uses the ledger.
    async fn command(&self, folder: &Folder, arguments: &[&str]) -> String {
        let command = maitred(arguments).folder(folder.path()).env("LEDGER", self.ledger());
        command.env("REDIS", self.redis.url()).run().await.success()
    }

    /// A gateway of the group, in a folder in which one may have been before.
    async fn gateway(&self, folder: Folder, config: &Config, endpoints: usize) -> Gateway {
        let start = Start::new("gateway", MAITRED)
            .env("REDIS", self.redis.url())
            .env("LEDGER", self.ledger());
        let gateway = Gateway::start_as(start, folder, &config.to_yaml(), &[]).await;
        gateway.until_ready(endpoints).await;
        gateway
    }

    async fn gateways(&self, config: &Config, endpoints: usize) -> Vec<Gateway> {
        let mut gateways = Vec::new();
        for _ in 0..GATEWAYS {
            gateways.push(self.gateway(Folder::new(), config, endpoints).await);
        }
        gateways
    }
}

fn sharing(more: &str) -> String {
    format!("sharing: {{ redis: {{ env: REDIS }}, quotas: {{ gateways: {GATEWAYS}{more} }} }}")
}

/// A call of so many output tokens that says which it is.
fn call(name: &str, tokens: u32) -> Request {
    let body = json!({
        "model": MODEL, "max_tokens": tokens, "ignore_eos": true,
        "messages": [{ "role": "user", "content": "Hi" }],
    });
    Request::post(CHAT, body.to_string())
        .bearer(&key(1).0)
        .header("x-maitred-task", name)
}

fn number(answer: &Answer, header: &str) -> u64 {
    let value = answer
        .header(header)
        .unwrap_or_else(|| panic!("no {header}: {answer:?}"));
    value.parse().unwrap()
}

fn tokens_of(answer: &Answer) -> u64 {
    answer.json()["usage"]["total_tokens"].as_u64().unwrap()
}

/// What clients got, and where they find the gateways, which come and go.
#[derive(Default)]
struct Traffic {
    addresses: Mutex<Vec<SocketAddr>>,
    answered: Mutex<BTreeMap<String, u64>>,
    refused: Mutex<u64>,
    is_over: AtomicBool,
}

impl Traffic {
    /// Calls one gateway after another call, until it is enough.
    async fn call_on(self: Arc<Self>, index: usize, client: usize) {
        for number in 0.. {
            if self.is_over.load(Ordering::Relaxed) {
                break;
            }
            let name = format!("call-{index}-{client}-{number}");
            let address = self.addresses.lock()[index];
            // It may have been killed, or not be there yet.
            let answer = call(&name, 20).try_send(address).await;
            match answer.as_ref().map(Answer::status) {
                Some(200) => self.note(&name, &answer.unwrap()),
                Some(429) => *self.refused.lock() += 1,
                _ => {}
            }
            tokio::task::yield_now().await;
        }
    }

    fn note(&self, name: &str, answer: &Answer) {
        assert_eq!(number(answer, "x-ratelimit-limit-tokens"), LIMIT);
        assert!(number(answer, "x-ratelimit-remaining-tokens") < LIMIT);
        self.answered.lock().insert(name.to_owned(), tokens_of(answer));
    }

    fn used(&self) -> u64 {
        self.answered.lock().values().sum()
    }
}

const LIMIT: u64 = 60_000;
/// What a call reserves at most: its output, and its prompt by an estimate.
const CALL: u64 = 80;

/// Kills each gateway once and stops each once, under load, and starts it again.
async fn kill_and_stop(stores: &Stores, config: &Config, gateways: &mut Vec<Gateway>, traffic: &Traffic) {
    for (round, signal) in [Signal::Kill, Signal::Terminate]
        .into_iter()
        .cycle()
        .take(2 * GATEWAYS)
        .enumerate()
    {
        let enough = LIMIT / 10 * (round as u64 + 1);
        eventually("calls to be answered", async || {
            (traffic.used() >= enough).then_some(())
        })
        .await;
        let index = (round / 2) % GATEWAYS;
        let Gateway { mut child, folder, .. } = gateways.remove(index);
        child.signal(signal);
        child.exit().await;
        let again = stores.gateway(folder, config, 2).await;
        traffic.addresses.lock()[index] = again.address;
        gateways.insert(index, again);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_quota_and_one_ledger_hold_while_gateways_are_killed() {
    let engines = Engine::start_several(2, &["--time-scale", "100"]).await;
    let config = Config::engines(&engines)
        .file(&format!("quotas: [{{ name: daily, tokens_per_day: {LIMIT} }}]"))
        .file("ledger: { postgres: { env: LEDGER }, spool: spool }")
        .file(&sharing(""));
    let stores = Stores::both(&config).await;
    let mut gateways = stores.gateways(&config, 2).await;
    let traffic = Arc::new(Traffic::default());
    *traffic.addresses.lock() = gateways.iter().map(|gateway| gateway.address).collect();
    let mut clients = JoinSet::new();
    for index in 0..GATEWAYS {
        for client in 0..4 {
            clients.spawn(Arc::clone(&traffic).call_on(index, client));
        }
    }
    kill_and_stop(&stores, &config, &mut gateways, &traffic).await;
    // The quota is used up, and everybody says so.
    for gateway in &gateways {
        eventually("the quota to be used up", async || {
            let refused = call("last", 1000).send(gateway.address).await;
            (refused.status() == 429).then(|| assert_eq!(refused.json()["error"]["code"], "quota_exceeded"))
        })
        .await;
    }
    let before = traffic.used();
    eventually("nothing to be answered any more", async || {
        let refused = call("last", 20).send(gateways[0].address).await.status() == 429;
        (refused && traffic.used() + 3 * CALL > LIMIT.min(before)).then_some(())
    })
    .await;
    traffic.is_over.store(true, Ordering::Relaxed);
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    let mut folders = Vec::new();
    for gateway in gateways {
        let Gateway { mut child, folder, .. } = gateway;
        child.signal(Signal::Terminate);
        assert!(child.exit().await.success());
        folders.push(folder);
    }
    let report = ["usage", "--format", "json", "--since", "1d", "--by", "task"];
    let report: Value = serde_json::from_str(&stores.command(&folders[0], &report).await).unwrap();
    let used = check_rows(report["lines"].as_array().unwrap(), &traffic);
    // The bound of the handbook: what each gateway that was killed held, and what the others let go without knowing.
    let held = LIMIT / (2 * GATEWAYS as u64);
    assert!(used <= LIMIT + GATEWAYS as u64 * held + 2 * CALL, "{used} of {LIMIT}");
    assert!(used > LIMIT / 2, "{used}: most of it can be used");
}

/// Every answered call is in the ledger once, with what its client was told. Says how many tokens whole calls used.
fn check_rows(lines: &[Value], traffic: &Traffic) -> u64 {
    let rows: BTreeMap<&str, &Value> = lines
        .iter()
        .map(|line| (line["task"].as_str().unwrap(), line))
        .collect();
    assert_eq!(rows.len(), lines.len(), "the report has a line for each task");
    // Those that only ask whether there is something left bear the same name.
    for (name, row) in rows.iter().filter(|(name, _)| **name != "last") {
        assert_eq!(row["calls"], 1, "{name} is not there once: {row}");
    }
    let used = |row: &Value| row["input_tokens"].as_u64().unwrap() + row["output_tokens"].as_u64().unwrap();
    let answered = traffic.answered.lock();
    for (name, tokens) in answered.iter() {
        let row = rows.get(name.as_str());
        let row = row.unwrap_or_else(|| panic!("{name} is not in the ledger"));
        assert!(
            row["interrupted"] == 1 || used(row) == *tokens,
            "{name}: {tokens} {row}"
        );
    }
    let whole = rows.values().filter(|row| row["interrupted"] == 0);
    let sum = whole.map(|row| used(row)).sum();
    let (answered, refused) = (answered.len(), traffic.refused.lock());
    println!(
        "{answered} answered, {} in the ledger, {refused} refused; {sum} tokens of {LIMIT}",
        rows.len()
    );
    sum
}

#[tokio::test]
async fn what_one_gateway_uses_the_others_know() {
    let engines = Engine::start_several(1, &["--time-scale", "100"]).await;
    let config = Config::engines(&engines)
        .file(&format!("quotas: [{{ name: daily, tokens_per_day: {LIMIT} }}]"))
        .file(&sharing(""));
    let stores = Stores::redis().await;
    let gateways = stores.gateways(&config, 1).await;
    let mut used = 0;
    for round in 0..5 {
        for gateway in &gateways {
            let answer = call(&format!("round-{round}"), 500).send(gateway.address).await;
            assert_eq!(answer.status(), 200, "{}", answer.text());
            used += tokens_of(&answer);
        }
    }
    // Once the others have given back what they held, each says exactly what is left.
    for gateway in &gateways {
        eventually("what is left to be known", async || {
            let answer = call("one more", 1).send(gateway.address).await;
            used += tokens_of(&answer);
            let left = number(&answer, "x-ratelimit-remaining-tokens");
            (left + used + CALL >= LIMIT && left + used <= LIMIT + CALL).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn places_of_a_gateway_that_dies_come_back_and_the_others_keep_the_limit() {
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    let config = Config::of([endpoint.address()])
        .file("quotas: [{ name: places, concurrent_calls: 6 }]")
        .file(&sharing(""));
    let stores = Stores::redis().await;
    let mut gateways = stores.gateways(&config, 1).await;
    // One gateway takes all places, which takes it a few asks.
    endpoint.on(CHAT, Play::silence().hang());
    let mut waiting = Vec::new();
    for number in 0..6 {
        let address = gateways[0].address;
        waiting.push(maitred_test::background(async move {
            let request = call(&format!("hanging-{number}"), 5);
            while request
                .try_send(address)
                .await
                .is_some_and(|answer| answer.status() == 429)
            {}
        }));
        eventually("the call to be under way", async || {
            (endpoint.received_on(CHAT).len() > number).then_some(())
        })
        .await;
    }
    let ok = r#"{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}"#;
    endpoint.on(CHAT, Play::json(200, ok));
    for gateway in &gateways[1..] {
        eventually("the others to know", async || {
            let refused = call("no place", 5).send(gateway.address).await;
            (refused.status() == 429).then_some(())
        })
        .await;
        let refused = call("no place", 5).send(gateway.address).await;
        assert_eq!((refused.status(), refused.header("retry-after")), (429, Some("1")));
    }
    // It dies, and its places are free when its lease is over.
    gateways[0].child.kill().await;
    eventually("the places to be free", async || {
        let answer = call("place", 5).send(gateways[1].address).await;
        (answer.status() == 200).then_some(())
    })
    .await;
    drop(waiting);
}

#[tokio::test]
async fn without_the_store_gateways_go_on_with_their_part_or_refuse() {
    let engines = Engine::start_several(1, &["--time-scale", "100"]).await;
    let config = |more: &str| {
        Config::engines(&engines)
            .file("quotas: [{ name: daily, tokens_per_day: 3000 }]")
            .file(&sharing(more))
    };
    let mut stores = Stores::redis().await;
    let gateways = stores.gateways(&config(""), 1).await;
    let strict = stores
        .gateway(Folder::new(), &config(", without_store: refuse"), 1)
        .await;
    let mut used = 0;
    for gateway in gateways.iter().chain([&strict]) {
        let answer = call("first", 30).send(gateway.address).await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        used += tokens_of(&answer);
        eventually("the store to be there", async || {
            (gateway.metric("maitred_quota_store_up", &[]).await == 1.0).then_some(())
        })
        .await;
    }
    stores.redis.stop(Signal::Kill).await;
    let refused = eventually("the strict one to refuse", async || {
        let answer = call("strict", 1).send(strict.address).await;
        if answer.status() == 200 {
            used += tokens_of(&answer);
        }
        // Until its lease is over it may use what it holds, and say that no more is left.
        (answer.status() == 503).then_some(answer)
    })
    .await;
    assert_eq!(
        (refused.status(), refused.json()["error"]["code"].clone()),
        (503, json!("quota_unavailable"))
    );
    // The others go on, and together they do not pass the limit.
    for gateway in &gateways {
        assert_eq!(gateway.metric("maitred_quota_store_up", &[]).await, 0.0);
        loop {
            let answer = call("alone", 30).send(gateway.address).await;
            if answer.status() != 200 {
                assert_eq!(answer.status(), 429);
                break;
            }
            used += tokens_of(&answer);
        }
        assert!(gateway.metric("maitred_quota_blind_calls_total", &[]).await > 0.0);
        let blind = gateway.records_with(|record| record["blind_quota"] == true).await;
        assert!(blind.iter().all(|record| record["status"] == 200));
    }
    assert!(used <= 3000 && used > 1500, "{used} of 3000");
    // The store comes back with nothing in it, and is told what was used: nothing is given twice.
    stores.redis.restart().await;
    for gateway in gateways.iter().chain([&strict]) {
        eventually("the store to be there again", async || {
            (gateway.metric("maitred_quota_store_up", &[]).await == 1.0).then_some(())
        })
        .await;
    }
    for _ in 0..100 {
        for gateway in gateways.iter().chain([&strict]) {
            let answer = call("again", 30).send(gateway.address).await;
            if answer.status() == 200 {
                used += tokens_of(&answer);
            }
        }
    }
    println!("{used} tokens of 3000");
    assert!(used <= 3000 + 3 * CALL, "{used} of 3000");
}

#[tokio::test]
async fn a_gateway_that_starts_without_the_store_begins_where_the_ledger_says() {
    let engines = Engine::start_several(1, &["--time-scale", "100"]).await;
    let config = Config::engines(&engines)
        .file("quotas: [{ name: daily, tokens_per_day: 3000 }]")
        .file("ledger: { postgres: { env: LEDGER }, spool: spool }")
        .file(&sharing(""));
    let mut stores = Stores::both(&config).await;
    let use_up = async |gateway: &Gateway, most: u64| {
        let (mut used, mut calls) = (0, 0.0);
        while used < most {
            let answer = call("some", 30).send(gateway.address).await;
            if answer.status() != 200 {
                assert_eq!(answer.status(), 429);
                break;
            }
            used += tokens_of(&answer);
            calls += 1.0;
        }
        (used, calls)
    };
    let first = stores.gateway(Folder::new(), &config, 1).await;
    let (used, calls) = use_up(&first, 1800).await;
    eventually("the ledger to know", async || {
        (first.metric("maitred_ledger_rows_total", &[]).await == 2.0 * calls).then_some(())
    })
    .await;
    stores.redis.stop(Signal::Kill).await;
    let second = stores.gateway(Folder::new(), &config, 1).await;
    let (more, _) = use_up(&second, 3000).await;
    // Its part is one in three of what is left, and not of all. Prompts are estimated, so a call may use a little more than it reserved.
    let part = (3000 - used) / GATEWAYS as u64;
    assert!(more.abs_diff(part) < CALL, "{more} of {part}");
}

#[tokio::test]
async fn a_database_that_is_killed_has_every_row_when_it_comes_back() {
    let engines = Engine::start_several(1, &["--time-scale", "100"]).await;
    let config = Config::engines(&engines)
        .file("ledger: { postgres: { env: LEDGER }, spool: spool }")
        .file(&sharing(""));
    let mut stores = Stores::both(&config).await;
    let gateway = stores.gateway(Folder::new(), &config, 1).await;
    let answer_all = async |range: std::ops::Range<u32>| {
        for number in range {
            let answer = call(&format!("call-{number}"), 3).send(gateway.address).await;
            assert_eq!(answer.status(), 200, "{}", answer.text());
        }
    };
    answer_all(0..20).await;
    let postgres = stores.postgres.as_mut().unwrap();
    postgres.stop(Signal::Kill).await;
    answer_all(20..40).await;
    eventually("the database to be missed", async || {
        (gateway.metric("maitred_ledger_errors_total", &[]).await > 0.0).then_some(())
    })
    .await;
    postgres.restart().await;
    // The call and its attempt are a row each.
    eventually("all rows", async || {
        (gateway.metric("maitred_ledger_rows_total", &[]).await == 80.0).then_some(())
    })
    .await;
    let report = ["usage", "--format", "json", "--since", "1d", "--by", "task"];
    let report: Value = serde_json::from_str(&stores.command(&gateway.folder, &report).await).unwrap();
    let lines = report["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 40);
    assert!(lines.iter().all(|line| line["calls"] == 1 && line["interrupted"] == 0));
}
