//! A gateway that is killed over and over under load, while streams run, clients leave and endpoints die: whatever reached an endpoint
//! is in the ledger once, with what the endpoint worked, and no limit was passed by starting again.
//!
//! `MAITRED_KILLS=200` kills as often as that, and `MAITRED_SEED` changes the schedule.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use maitred_test::{Connection, Folder, Request, Signal};
use parking_lot::Mutex;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::table::{CHAT, Config, Engine, Gateway, MODEL, key, maitred};

mod books;

/// How often the gateway is killed if nothing is said.
const KILLS: u64 = 16;
/// How many endpoints there are. The first lives for ever, so what it has counted is all that it ever worked.
const ENDPOINTS: usize = 3;
const CLIENTS: u64 = 16;
/// The largest output that a call asks for. What is expected of a call is no more than 256 tokens, so no call that is cut short can have
/// used more than it counts for.
const OUTPUT_MAX: u32 = 200;

/// Each tenant has a limit of another sort, and each limit is one that the load would pass many times over.
/// For each kill, so that there is something left for the last ones.
const PER_DAY_AND_KILL: u64 = 2_500;
const PER_MINUTE: u64 = 15_000;
const PER_SECOND: u64 = 5;
const BURST: u64 = 30;
const PLACES: u64 = 3;

/// How a client behaves in one call.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// It waits for a whole answer.
    Whole,
    /// It reads a stream to its end.
    Stream,
    /// It leaves after so many events.
    Leave(u32),
    /// It leaves so many microseconds after it has asked.
    Vanish(u64),
}

/// Where the gateway is, and what clients have got.
#[derive(Debug, Default)]
struct Traffic {
    address: Mutex<Option<SocketAddr>>,
    /// Ids of calls that were answered in full, and the tokens that the answer says, if it does.
    answered: Mutex<Vec<(String, Option<u64>)>>,
    refused: AtomicU64,
    is_over: AtomicBool,
}

impl Traffic {
    async fn call_on(self: Arc<Self>, client: u64, seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed ^ (client << 32));
        for number in 0_u64.. {
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let Some(address) = *self.address.lock() else {
                pass(Duration::from_millis(5)).await;
                continue;
            };
            let id = format!("call-{client}-{number}");
            let manner = match random.u32(0..10) {
                0..4 => Manner::Whole,
                4..8 => Manner::Stream,
                8 => Manner::Leave(random.u32(0..12)),
                _ => Manner::Vanish(random.u64(0..2_000)),
            };
            let tenant = random.u8(1..=3);
            let call = call(&id, tenant, (manner, random.u32(2..=OUTPUT_MAX)));
            match self.try_call(address, &call, manner, &id).await {
                Some(429) => {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    pass(Duration::from_millis(10)).await;
                }
                Some(200) => {}
                _ => pass(Duration::from_millis(2)).await,
            }
        }
    }

    /// The status, if there was one.
    async fn try_call(&self, address: SocketAddr, call: &Request, manner: Manner, id: &str) -> Option<u16> {
        let stream = TcpStream::connect(address).await.ok()?;
        let mut connection = Connection::over(stream);
        connection.send(&call.to_bytes()).await;
        if let Manner::Vanish(micros) = manner {
            pass(Duration::from_micros(micros)).await;
            return None;
        }
        let head = connection.try_head().await?;
        let status = head.status();
        match manner {
            Manner::Leave(events) if status == 200 => {
                for _ in 0..events {
                    connection.event().await?;
                }
            }
            _ => {
                let answer = connection.rest(head).await;
                let is_whole = answer.end == maitred_test::BodyEnd::Complete;
                if status == 200 && is_whole {
                    let tokens = match manner {
                        Manner::Whole => answer.json()["usage"]["total_tokens"].as_u64(),
                        _ => None,
                    };
                    let is_good = tokens.is_some() || answer.text().trim_end().ends_with("data: [DONE]");
                    if is_good {
                        self.answered.lock().push((id.to_owned(), tokens));
                    }
                }
            }
        }
        Some(status)
    }
}

fn call(id: &str, tenant: u8, (manner, tokens): (Manner, u32)) -> Request {
    let is_stream = !matches!(manner, Manner::Whole);
    let body = json!({
        "model": MODEL, "max_tokens": tokens, "ignore_eos": true, "stream": is_stream,
        "messages": [{ "role": "user", "content": format!("Hello, I am {id}, and I would like to know what time it is") }],
    });
    Request::post(CHAT, body.to_string())
        .bearer(&key(tenant).0)
        .header("x-request-id", id)
}

/// The file in which an endpoint notes its calls.
fn call_log(index: usize) -> String {
    format!("endpoint-{index}.jsonl")
}

async fn endpoint(folder: &Folder, index: usize, listen: &str) -> Engine {
    let log = folder.path().join(call_log(index));
    let seed = (index + 1).to_string();
    let flags = [
        "--time-scale",
        "4",
        "--seed",
        &seed,
        "--call-log",
        log.to_str().unwrap(),
    ];
    Engine::start_at(listen, &flags).await
}

fn config(engines: &[Engine], per_day: u64) -> Config {
    Config::engines(engines)
        .file("ledger: { sqlite: ledger.db }")
        .file("audit: { folder: audit, durable: process }")
        .file(&format!(
            "quotas: [{{ name: day, tenant: tenant-1, tokens_per_day: {per_day} }}, \
             {{ name: rate, tenant: tenant-2, calls_per_second: {PER_SECOND}, burst: {BURST} }}, \
             {{ name: minute, tenant: tenant-3, tokens_per_minute: {PER_MINUTE} }}, \
             {{ name: places, tenant: tenant-3, concurrent_calls: {PLACES} }}]"
        ))
        .pool("retry: { budget: 100%, min: 1000 }")
        .pool("ejection: { failures: 1000 }")
}

/// Lets time pass in which a client thinks, or the load goes on. Nothing is expected to have happened by then.
async fn pass(time: Duration) {
    drop(tokio::time::timeout(time, std::future::pending::<()>()).await);
}

fn number_from(variable: &str) -> Option<u64> {
    #[expect(clippy::disallowed_methods, reason = "how somebody asks for a longer run")]
    std::env::var(variable).ok()?.parse().ok()
}

/// Lets clients call for a while, which is often before all endpoints are ready, and sometimes for longer.
async fn for_a_while(traffic: &Traffic, random: &mut fastrand::Rng) {
    let answered = || traffic.answered.lock().len();
    let enough = answered() + random.usize(0..40);
    let patience = Duration::from_secs(3);
    let reached = async {
        while answered() < enough {
            pass(Duration::from_millis(5)).await;
        }
    };
    drop(tokio::time::timeout(patience, reached).await);
    pass(Duration::from_millis(random.u64(0..150))).await;
}

/// Endpoints but the first die in one way or another and come again where they were, which takes them a moment.
async fn kill_endpoint(folder: &Folder, engines: &mut Vec<Engine>, random: &mut fastrand::Rng) {
    let index = random.usize(1..ENDPOINTS);
    let mut engine = engines.remove(index);
    match random.u8(0..3) {
        0 => engine.child.signal(Signal::Kill),
        1 => engine.command("die").await,
        _ => engine.command("crash").await,
    }
    engine.child.exit().await;
    engines.insert(index, endpoint(folder, index, &engine.address.to_string()).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_is_killed_loses_no_call_and_passes_no_limit() {
    let (kills, seed) = (
        number_from("MAITRED_KILLS").unwrap_or(KILLS),
        number_from("MAITRED_SEED").unwrap_or(1),
    );
    let mut random = fastrand::Rng::with_seed(seed);
    let mut folder = Folder::new();
    let logs = Folder::new();
    let mut engines = Vec::new();
    for index in 0..ENDPOINTS {
        engines.push(endpoint(&logs, index, "127.0.0.1:0").await);
    }
    let per_day = PER_DAY_AND_KILL * kills;
    let config = config(&engines, per_day);
    folder.write("maitred.yaml", &config.to_yaml());
    let migrate = maitred(["store", "migrate"]).folder(folder.path());
    drop(migrate.run().await.success());
    let traffic = Arc::new(Traffic::default());
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        clients.spawn(Arc::clone(&traffic).call_on(client, seed));
    }
    for round in 0..kills {
        let gateway = Gateway::start_in(folder, &config.to_yaml(), &[]).await;
        *traffic.address.lock() = Some(gateway.address);
        for_a_while(&traffic, &mut random).await;
        if round % 3 == 1 {
            kill_endpoint(&logs, &mut engines, &mut random).await;
            for_a_while(&traffic, &mut random).await;
        }
        let Gateway {
            mut child,
            folder: place,
            ..
        } = gateway;
        child.kill().await;
        *traffic.address.lock() = None;
        folder = place;
    }
    traffic.is_over.store(true, Ordering::Relaxed);
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    // One more start settles what the last kill has left, and ends in order.
    let gateway = Gateway::start_in(folder, &config.to_yaml(), &[]).await;
    let Gateway { mut child, folder, .. } = gateway;
    child.signal(Signal::Terminate);
    assert!(child.exit().await.success());
    let report = books::check(&folder, (&logs, &engines), &traffic, per_day).await;
    println!("{kills} kills, seed {seed}: {report}");
}
