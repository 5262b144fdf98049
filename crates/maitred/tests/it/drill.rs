//! `maitred drill`: it passes where the gateway keeps its promises, and each drill fails where one does not.

use std::net::SocketAddr;

use maitred_tenant::Role;
use maitred_test::{
    Background, Finished, Folder, Play, Request, ScriptedEndpoint, Signal, Start, background, eventually, vllm,
};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::ledger::LEDGER;
use crate::roles::{access, token_of};
use crate::table::{CHAT, Config, Engine, Gateway, MAITRED, MODEL, maitred};

/// Endpoints that begin anew are seen soon.
const PROBES: [&str; 2] = ["startup: { interval: 100ms }", "readiness: { interval: 200ms }"];

/// The report of one drill: whether it passed, and what did not hold.
#[derive(Debug)]
struct Seen {
    result: String,
    /// The claims that do not hold.
    broken: Vec<String>,
    why: String,
}

fn report(finished: &Finished) -> Value {
    let parsed = serde_json::from_str(&finished.stdout);
    parsed.unwrap_or_else(|error| panic!("{error}: {finished:?}"))
}

fn seen(drill: &Value) -> Seen {
    let words = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let claims = drill["seen"].as_array().unwrap().iter();
    Seen {
        result: words(&drill["result"]),
        broken: claims
            .filter(|claim| claim["holds"] == false)
            .map(|claim| words(&claim["claim"]))
            .collect(),
        why: words(&drill["why"]),
    }
}

/// A gateway that is drilled.
struct Drilled {
    gateway: Gateway,
    /// Where the drill calls, if not at the gateway itself.
    calls: Option<SocketAddr>,
    /// The file that the drill is given.
    config: String,
}

impl Drilled {
    /// One with this configuration before these endpoints.
    async fn new(config: &Config, endpoints: usize) -> Self {
        Self::of(&config.to_yaml(), endpoints).await
    }

    /// One with this file.
    async fn of(yaml: &str, endpoints: usize) -> Self {
        let open = "admin: { address: \"127.0.0.1:0\" }";
        assert_eq!(yaml.matches(open).count(), 1);
        let admin = format!(
            "admin: {{ address: \"127.0.0.1:0\", changes: changes.jsonl, {} }}",
            access()
        );
        let yaml = yaml.replace(open, &admin);
        let folder = Folder::new();
        folder.write("maitred.yaml", &yaml);
        let made = maitred(["store", "migrate"]).folder(folder.path()).run().await;
        assert!(made.success().contains("the tables are made"));
        let gateway = Gateway::start_in(folder, &yaml, &[]).await;
        eventually("ready endpoints", async || {
            let page = Request::get("/endpoints").bearer(&token_of(Role::Admin));
            let page = page.send(gateway.admin).await.json();
            let ready = page["endpoints"]
                .as_array()?
                .iter()
                .filter(|it| it["state"] == "ready")
                .count();
            (ready == endpoints).then_some(())
        })
        .await;
        Self {
            gateway,
            calls: None,
            config: "maitred.yaml".into(),
        }
    }

    async fn run(&self, flags: &[&str]) -> Finished {
        let calls = self.calls.unwrap_or(self.gateway.address);
        let run = maitred(["drill", "--json", "--config", &self.config])
            .args(["--gateway", &format!("http://{calls}")])
            .args(["--admin", &format!("http://{}", self.gateway.admin)])
            .args(flags);
        let run = run
            .env("MAITRED_KEY", &self.gateway.key)
            .env("MAITRED_ADMIN_TOKEN", token_of(Role::Admin));
        run.folder(self.gateway.folder.path()).run().await
    }

    /// Runs one drill.
    async fn drill(&self, name: &str) -> Seen {
        let finished = self.run(&["--only", name]).await;
        let report = report(&finished);
        let seen = seen(&report["drills"][0]);
        let code = if seen.result == "failed" { 1 } else { 0 };
        assert_eq!(finished.code, Some(code), "{report:#}");
        println!("{report:#}");
        seen
    }

    /// Runs one drill, which must fail by that claim.
    async fn fails(&self, name: &str, claim: &str) {
        let seen = self.drill(name).await;
        let by_it = seen.broken.iter().any(|broken| broken.contains(claim));
        assert!(seen.result == "failed" && by_it, "{seen:?}");
    }
}

fn config(engines: &[Engine], pool: &[&str]) -> Config {
    let with_ledger = Config::engines(engines).file(LEDGER);
    PROBES
        .iter()
        .filter(|line| pool.iter().all(|own| own.split(':').next() != line.split(':').next()))
        .chain(pool)
        .fold(with_ledger, |config, line| config.pool(line))
}

/// A client side proxy that changes the heads of answers.
async fn proxy(gateway: SocketAddr, change: fn(&str) -> String) -> (SocketAddr, Background<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = background(async move {
        let mut open = tokio::task::JoinSet::new();
        while let Ok((client, _)) = listener.accept().await {
            open.spawn(relay(client, gateway, change));
        }
    });
    (address, serving)
}

async fn relay(client: TcpStream, gateway: SocketAddr, change: fn(&str) -> String) {
    let server = TcpStream::connect(gateway).await.unwrap();
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.into_split(), server.into_split());
    let asking = async {
        drop(tokio::io::copy(&mut from_client, &mut to_server).await);
    };
    let answering = async {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match from_server.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => return,
            }
        }
        let head = change(std::str::from_utf8(&head).unwrap());
        drop(to_client.write_all(head.as_bytes()).await);
        drop(tokio::io::copy(&mut from_server, &mut to_client).await);
    };
    tokio::select! {
        () = asking => {}
        () = answering => {}
    }
}

/// A head without its time to come again.
fn without_retry_after(head: &str) -> String {
    let lines = head.split_inclusive("\r\n");
    lines
        .filter(|line| !line.to_ascii_lowercase().starts_with("retry-after:"))
        .collect()
}

/// Runs some of the drills on a fleet of their own, which pass and leave nothing behind.
async fn alone(drills: &[&str]) {
    let place = Folder::new();
    let run = maitred(["drill", "--json", "--only", &drills.join(",")]).env("TMPDIR", place.path());
    let finished = run.run().await;
    let report = report(&finished);
    println!("{report:#}");
    assert_eq!(
        (finished.code, &report["passed"]),
        (Some(0), &Value::Bool(true)),
        "{report:#}"
    );
    let ran = report["drills"].as_array().unwrap();
    assert_eq!(ran.len(), drills.len());
    assert!(ran.iter().all(|drill| drill["result"] == "passed"), "{report:#}");
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "{finished:?}");
}

#[tokio::test]
async fn a_gateway_of_its_own_passes_those_in_which_endpoints_fail() {
    alone(&["not-loaded", "killed", "replaced", "all-down"]).await;
}

#[tokio::test]
async fn a_gateway_of_its_own_passes_those_in_which_nothing_fails_or_the_ledger_does() {
    alone(&["lookup", "rolling", "rate-limit", "metering"]).await;
}

#[tokio::test]
async fn who_interrupts_it_has_nothing_left_behind() {
    let place = Folder::new();
    let mut drill = Start::new("drill", MAITRED)
        .args(["drill"])
        .env("TMPDIR", place.path())
        .spawn();
    // The first drill has ended, so the others are under way.
    drill.line("not-loaded").await;
    let folder = std::fs::read_dir(place.path()).unwrap().next().unwrap().unwrap().path();
    let config = std::fs::read_to_string(folder.join("spool.yaml")).unwrap();
    let mut addresses = config
        .lines()
        .rev()
        .filter_map(|line| line.trim().strip_prefix("- address: "));
    let endpoint: SocketAddr = addresses.next().unwrap().parse().unwrap();
    assert!(TcpStream::connect(endpoint).await.is_ok());
    drill.signal(Signal::Interrupt);
    assert_eq!(drill.exit().await.code(), Some(2));
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    eventually("the end of the endpoint", async || {
        TcpStream::connect(endpoint).await.err()
    })
    .await;
}

#[tokio::test]
async fn an_endpoint_that_is_taken_for_ready_by_its_port_fails_it() {
    let engines = Engine::start_several(2, &[]).await;
    let by_port = [
        "startup: { interval: 100ms, check: port }",
        "staleness: { policy: ignore }",
        "profile: round-robin",
        "ejection: { failures: 1000 }",
    ];
    let drilled = Drilled::new(&config(&engines, &by_port), 2).await;
    drilled.fails("not-loaded", "before the model was loaded").await;
}

#[tokio::test]
async fn a_gateway_that_does_not_try_again_fails_it() {
    let engines = Engine::start_several(2, &[]).await;
    let once = [
        "retry: { attempts: 1 }",
        "startup: { interval: 100ms, check: port }",
        "ejection: { failures: 1000 }",
    ];
    let drilled = Drilled::new(&config(&engines, &once), 2).await;
    drilled.fails("killed", "answered by other endpoints").await;
    drilled.fails("rolling", "no call got a 5xx").await;
}

#[tokio::test]
async fn a_gateway_that_forgets_its_calls_fails_it() {
    let engines = Engine::start_several(1, &[]).await;
    let forgetful = config(&engines, &[]).file("decisions: { keep: 0 }");
    let mut drilled = Drilled::new(&forgetful, 1).await;
    drilled.fails("lookup", "decision record").await;
    // One that keeps no ledger either; the drill reads in its file that there is none.
    let without = forgetful.to_yaml().replace(LEDGER, "");
    drilled.gateway.folder.write("without.yaml", &without);
    drilled.config = "without.yaml".into();
    drilled.fails("lookup", "ledger").await;
}

#[tokio::test]
async fn an_error_without_a_time_to_come_again_fails_it() {
    let engines = Engine::start_several(1, &[]).await;
    let mut drilled = Drilled::new(&config(&engines, &[]), 1).await;
    let (address, _proxy) = proxy(drilled.gateway.address, without_retry_after).await;
    drilled.calls = Some(address);
    drilled.fails("all-down", "when to come again").await;
}

#[tokio::test]
async fn a_limit_that_says_a_wrong_time_or_none_fails_it() {
    let engines = Engine::start_several(1, &["--time-scale", "10"]).await;
    let mut drilled = Drilled::new(&config(&engines, &[]), 1).await;
    assert_eq!(drilled.drill("rate-limit").await.result, "passed");
    let (address, _proxy) = proxy(drilled.gateway.address, without_retry_after).await;
    drilled.calls = Some(address);
    drilled.fails("rate-limit", "when to come again").await;
}

#[tokio::test]
async fn a_ledger_that_lets_through_what_it_should_refuse_fails_it() {
    let engines = Engine::start_several(1, &["--time-scale", "10"]).await;
    let config = config(&engines, &[]);
    let mut drilled = Drilled::new(&config, 1).await;
    // The file says `reject`, and the gateway spools.
    let strict = config
        .to_yaml()
        .replace(LEDGER, "ledger: { sqlite: ledger.db, policy: reject }");
    drilled.gateway.folder.write("strict.yaml", &strict);
    drilled.config = "strict.yaml".into();
    drilled.fails("metering", "calls are refused").await;
}

/// Two pools, and a route from the one to the other.
async fn with_a_fallback() -> (Vec<Engine>, String) {
    let mut engines = Engine::start_several(1, &["--time-scale", "10"]).await;
    let smaller = Engine::start(&["--time-scale", "10", "--served-name", "small"]).await;
    let config = config(&engines, &["ejection: { failures: 1000 }"])
        .file(&format!(
            "routes: [{{ model: assistant, targets: [{{ pool: main, model: {MODEL}, within: 300ms }}], \
             fallback: [{{ pool: smaller, model: small }}] }}]"
        ))
        .file("degradation: { objective: {} }");
    let pool = format!(
        "  - name: smaller\n    models: [{{ name: small }}]\n    staleness: {{ after: 10s, frozen_after: 1m }}\n    \
         {}\n    {}\n    endpoints: [{{ address: {} }}]\n",
        PROBES[0], PROBES[1], smaller.address
    );
    engines.push(smaller);
    (engines, config.to_yaml() + &pool)
}

/// A head without what says that the answer is not what was asked for.
fn without_marks(head: &str) -> String {
    let lines = head.split_inclusive("\r\n");
    lines
        .filter(|line| !line.to_ascii_lowercase().starts_with("x-degrade"))
        .collect()
}

#[tokio::test]
async fn an_answer_of_another_model_that_does_not_say_so_fails_it() {
    let (_engines, yaml) = with_a_fallback().await;
    let mut drilled = Drilled::of(&yaml, 2).await;
    assert_eq!(drilled.drill("replaced").await.result, "passed");
    let (address, _proxy) = proxy(drilled.gateway.address, without_marks).await;
    drilled.calls = Some(address);
    drilled.fails("replaced", "the headers say").await;
}

#[tokio::test]
async fn what_is_not_simulated_is_not_broken() {
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    endpoint.on(CHAT, Play::json(200, &vllm::chat(MODEL, "one")));
    let config = Config::of([endpoint.address()]).file(LEDGER);
    let drilled = Drilled::new(&config, 1).await;
    let refused = drilled.run(&[]).await;
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        refused.stderr.contains("is not a simulated endpoint"),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.contains("--live"), "{}", refused.stderr);
    let before = endpoint.received_on(CHAT).len();
    let live = report(&drilled.run(&["--live"]).await);
    let calls = endpoint.received_on(CHAT).len() - before;
    assert!((1..20).contains(&calls), "{calls}");
    for drill in live["drills"].as_array().unwrap() {
        let is_harmless = drill["name"] == "lookup" || drill["name"] == "ready";
        let seen = seen(drill);
        assert_eq!(seen.result != "left-out", is_harmless, "{live:#}");
        assert_eq!(seen.why.contains("harmless"), !is_harmless, "{live:#}");
    }
}

#[tokio::test]
async fn what_cannot_be_run_is_neither_passed_nor_failed() {
    let engines = Engine::start_several(1, &[]).await;
    let drilled = Drilled::new(&config(&engines, &[]), 1).await;
    for (name, why) in [("not-loaded", "one endpoint"), ("rolling", "one endpoint")] {
        let seen = drilled.drill(name).await;
        assert!(seen.result == "left-out" && seen.why.contains(why), "{seen:?}");
    }
    // Without a key, without a gateway, without a file.
    let gone = maitred(["drill", "--config", "nothing.yaml"]).run().await;
    assert_eq!(gone.code, Some(2), "{gone:?}");
    let stranger = maitred(["drill", "--config", "maitred.yaml", "--gateway", "http://127.0.0.1:1"])
        .args(["--admin", "http://127.0.0.1:1", "--key-env", "NO_SUCH_VARIABLE"])
        .folder(drilled.gateway.folder.path())
        .run()
        .await;
    assert_eq!(stranger.code, Some(2), "{stranger:?}");
    assert!(stranger.stderr.contains("NO_SUCH_VARIABLE"), "{}", stranger.stderr);
}
