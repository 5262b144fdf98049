//! The ledger: every call once, with what the endpoints counted, whatever happens to the gateway.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use maitred_test::{Connection, Folder, Play, Request, ScriptedEndpoint, Signal, eventually};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::table::{CHAT, Config, Engine, Gateway, MODEL, key, maitred, sum};

pub(crate) const LEDGER: &str = "ledger: { sqlite: ledger.db }";

/// A call of so many output tokens that says which it is.
pub(crate) fn call(name: &str, stream: bool, tokens: u32) -> Request {
    let body = json!({
        "model": MODEL, "max_tokens": tokens, "ignore_eos": true, "stream": stream,
        "messages": [{ "role": "user", "content": format!("Hello, I am {name}") }],
    });
    Request::post(CHAT, body.to_string())
        .bearer(&key(1).0)
        .header("x-maitred-task", name)
}

/// A folder with this configuration and a ledger that has its tables.
pub(crate) async fn laid(config: &Config) -> Folder {
    let folder = Folder::new();
    folder.write("maitred.yaml", &config.to_yaml());
    let printed = maitred(["store", "migrate"])
        .folder(folder.path())
        .run()
        .await
        .success();
    assert!(printed.contains("the tables are made"), "{printed}");
    folder
}

pub(crate) async fn served(folder: Folder, config: &Config, endpoints: usize) -> Gateway {
    let gateway = Gateway::start_in(folder, &config.to_yaml(), &[]).await;
    gateway.until_ready(endpoints).await;
    gateway
}

/// How many files the spool has, besides the list of starts, which stays.
fn spooled(folder: &Folder) -> usize {
    let items = std::fs::read_dir(folder.path().join("ledger.db.spool")).unwrap();
    items
        .filter(|item| item.as_ref().unwrap().file_name() != "starts")
        .count()
}

/// The lines of a report.
pub(crate) async fn usage(folder: &Folder, by: &str) -> Vec<Value> {
    let arguments = ["usage", "--format", "json", "--since", "1d", "--by", by];
    let printed = maitred(arguments).folder(folder.path()).run().await.success();
    let report: Value = serde_json::from_str(&printed).unwrap();
    report["lines"].as_array().unwrap().clone()
}

/// What the endpoints have counted: prompt and generated tokens.
async fn counted(engines: &[Engine]) -> [u64; 2] {
    let mut counted = [0, 0];
    for engine in engines {
        let page = Request::get("/metrics").send(engine.address).await.text();
        for (count, name) in counted
            .iter_mut()
            .zip(["vllm:prompt_tokens_total", "vllm:generation_tokens_total"])
        {
            let tokens = sum(&page, name, &[]);
            assert!(tokens.fract() == 0.0 && tokens >= 0.0);
            *count += format!("{tokens}").parse::<u64>().unwrap();
        }
    }
    counted
}

/// Twenty whole answers and twenty streams.
async fn answered(gateway: &Gateway) {
    for number in 0..20 {
        for (kind, tokens) in [("whole", 5 + number), ("stream", 3)] {
            let call = call(&format!("{kind}-{number}"), kind == "stream", tokens);
            let answer = call.send(gateway.address).await;
            assert_eq!(answer.status(), 200, "{}", answer.text());
        }
    }
}

#[tokio::test]
async fn what_calls_used_is_what_the_endpoints_counted() {
    let engines = Engine::start_several(2, &["--time-scale", "100"]).await;
    let config = Config::engines(&engines)
        .file(LEDGER)
        .file("prices: [{ model: \"*\", input: \"1\", cached_input: \"0.5\", output: \"2\", per: 1000 }]");
    let gateway = served(laid(&config).await, &config, 2).await;
    // Probes ask for a token each before a call is let in.
    let before = counted(&engines).await;
    answered(&gateway).await;
    // What is refused before it is admitted is not in the ledger.
    let unknown = Request::post(CHAT, r#"{"model":"nobody","messages":[]}"#).bearer(&key(1).0);
    assert_eq!(unknown.send(gateway.address).await.status(), 404);
    gateway.until_idle().await;
    let page = "/admin/v1/usage?by=tenant,model&since=1d";
    let told = eventually("the rows to be in the database", async || {
        let told = gateway.page(page).await.json();
        (told["lines"][0]["calls"] == 40).then_some(told)
    })
    .await;
    let csv = gateway.page(&format!("{page}&format=csv")).await;
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    assert!(csv.text().starts_with("tenant,model,calls,"), "{}", csv.text());
    let table = gateway.page(&format!("{page}&format=table")).await.text();
    for wrong in ["?by=nobody", "?since=soon", "?format=pdf", "?what=1"] {
        let refused = gateway.page(&format!("/admin/v1/usage{wrong}")).await;
        assert_eq!(refused.status(), 400, "{}", refused.text());
    }
    let mut after = counted(&engines).await;
    after
        .iter_mut()
        .zip(before)
        .for_each(|(after, before)| *after -= before);
    let Gateway { mut child, folder, .. } = gateway;
    child.signal(Signal::Terminate);
    assert!(child.exit().await.success());

    let lines = usage(&folder, "tenant,model").await;
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(told["lines"], json!(lines), "the page says what the command says");
    let same = maitred(["usage", "--since", "1d"]).folder(folder.path()).run().await;
    assert_eq!(table, same.success());
    let line = &lines[0];
    assert_eq!((&line["tenant"], &line["model"]), (&json!("tenant-1"), &json!(MODEL)));
    assert_eq!((&line["calls"], &line["estimated"]), (&json!(40), &json!(0)));
    assert_eq!(
        [&line["input_tokens"], &line["output_tokens"]],
        [&json!(after[0]), &json!(after[1])]
    );
    let (input, cached) = (after[0], line["cached_input_tokens"].as_u64().unwrap());
    // In thousandths of the unit: 1, 0.5 and 2 for each token.
    let halves = 2 * (input - cached) + cached + 4 * after[1];
    let money: f64 = line["money"].as_str().unwrap().parse().unwrap();
    assert_eq!((money * 2000.0).round().to_string(), halves.to_string());
    let by_task = usage(&folder, "task").await;
    assert_eq!(by_task.len(), 40);
    assert!(by_task.iter().all(|line| line["calls"] == 1));
    let endpoints: u64 = usage(&folder, "endpoint")
        .await
        .iter()
        .map(|line| line["output_tokens"].as_u64().unwrap())
        .sum();
    assert_eq!(endpoints, after[1]);
    assert_eq!(spooled(&folder), 0);
    let table = maitred(["usage"]).folder(folder.path()).run().await.success();
    assert!(table.starts_with("tenant"), "{table}");
}

#[tokio::test]
async fn who_leaves_early_and_what_fails_is_in_it_too() {
    let engines = Engine::start_several(2, &["--time-scale", "10"]).await;
    let config = Config::engines(&engines).file(LEDGER);
    let gateway = served(laid(&config).await, &config, 2).await;
    // A client leaves in mid-stream.
    let mut connection = Connection::open(gateway.address).await;
    let head = connection.start(&call("left", true, 5000)).await;
    assert_eq!(head.status(), 200);
    assert!(connection.event().await.is_some());
    drop(connection);
    gateway.until_idle().await;
    // An endpoint refuses, and another answers.
    engines[0].fault(r#"{"fail":1}"#).await;
    for number in 0..4 {
        let name = format!("moved-{number}");
        assert_eq!(call(&name, false, 3).send(gateway.address).await.status(), 200);
    }
    let Gateway { mut child, folder, .. } = gateway;
    child.signal(Signal::Terminate);
    assert!(child.exit().await.success());
    let lines = usage(&folder, "task,outcome").await;
    assert_eq!(lines.len(), 5, "{lines:?}");
    let left = lines.iter().find(|line| line["task"] == "left").unwrap();
    assert_eq!(
        (&left["outcome"], &left["client_closed"]),
        (&json!("client_closed"), &json!(1))
    );
    assert_eq!(left["estimated"], 1);
    assert!(left["output_tokens"].as_u64().unwrap() > 0, "{left}");
}

#[tokio::test]
async fn who_leaves_while_the_beginning_is_written_is_in_it_once() {
    const CALLS: usize = 60;
    let engines = Engine::start_several(1, &["--time-scale", "10"]).await;
    let ledger = "ledger: { sqlite: ledger.db, durable: machine, wait: 5s }";
    let config = Config::engines(&engines).file(ledger);
    let gateway = served(laid(&config).await, &config, 1).await;
    // Each leaves at another moment of its way in, for each waits for the disk behind another number of others.
    let mut connections = Vec::new();
    for _ in 0..CALLS {
        let mut connection = Connection::open(gateway.address).await;
        connection.send(&call("left", false, 50).to_bytes()).await;
        connections.push(connection);
        if connections.len() > 3 {
            drop(connections.remove(0));
        }
    }
    drop(connections);
    gateway.until_idle().await;
    eventually("every call to have its end", async || {
        (gateway.metric("maitred_ledger_open_calls", &[]).await == 0.0).then_some(())
    })
    .await;
    let Gateway { mut child, folder, .. } = gateway;
    child.signal(Signal::Terminate);
    assert!(child.exit().await.success());
    let lines = usage(&folder, "outcome").await;
    let counted: u64 = lines.iter().map(|line| line["calls"].as_u64().unwrap()).sum();
    assert!(counted <= CALLS as u64, "{lines:?}");
    assert!(lines.iter().all(|line| line["outcome"] != "interrupted"), "{lines:?}");
    assert_eq!(spooled(&folder), 0, "no segment is kept for a call without an end");
}

#[tokio::test]
async fn what_failed_and_timed_out_attempts_used_is_in_it() {
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    let config = Config::of([endpoint.address()])
        .file(LEDGER)
        .file("timeouts: { connect: 500ms, first_token: 1s, idle: 2s, total: 2s }")
        .pool("ejection: { failures: 1000 }");
    let gateway = served(laid(&config).await, &config, 1).await;
    let error = r#"{"error":{"message":"it broke","type":"InternalServerError","code":500}}"#;
    let opened = format!(
        "data: {{\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"{MODEL}\",\
         \"choices\":[{{\"index\":0,\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}},\"finish_reason\":null}}],\
         \"usage\":{{\"prompt_tokens\":1234,\"completion_tokens\":0,\"total_tokens\":1234}}}}\n\n"
    );
    let failing = format!("data: {error}\n\n");
    let ask = async |name: &str, stream: bool| {
        let status = call(name, stream, 5000).send(gateway.address).await.status();
        assert!(status >= 500, "{name}: {status}");
    };
    // It said what it had read before it failed; it only failed; it refused.
    endpoint.on(
        CHAT,
        Play::stream().chunk(opened.as_str()).chunk(failing.as_str()).end(),
    );
    ask("said", true).await;
    endpoint.on(CHAT, Play::stream().chunk(failing.as_str()).end());
    ask("unsaid", true).await;
    endpoint.on(CHAT, Play::json(200, error));
    ask("whole", false).await;
    endpoint.on(CHAT, Play::json(500, error));
    ask("refused", false).await;
    // It works until the call's time is up.
    endpoint.on(CHAT, Play::silence());
    ask("late", false).await;
    gateway.until_idle().await;
    let Gateway { mut child, folder, .. } = gateway;
    child.signal(Signal::Terminate);
    assert!(child.exit().await.success());
    let lines = usage(&folder, "task").await;
    let lost = |task: &str| total(&lines, task, &["lost_tokens"]);
    assert_eq!((lost("said"), lost("refused"), lost("late")), (1234, 0, 0), "{lines:?}");
    assert!(lost("unsaid") > 0 && lost("whole") > 0, "{lines:?}");
    let late = total(&lines, "late", &["output_tokens"]);
    assert!((150..400).contains(&late), "two seconds' worth: {lines:?}");
    assert_eq!(total(&lines, "late", &["estimated"]), 1, "{lines:?}");
}

#[tokio::test]
async fn without_its_tables_the_gateway_does_not_start() {
    let folder = Folder::new();
    let config = Config::of(["127.0.0.1:9".parse::<SocketAddr>().unwrap()]).file(LEDGER);
    folder.write("maitred.yaml", &config.to_yaml());
    let refused = maitred(["serve"]).folder(folder.path()).run().await;
    assert_ne!(refused.code, Some(0));
    assert!(refused.stderr.contains("maitred store migrate"), "{}", refused.stderr);
    let refused = maitred(["usage"]).folder(folder.path()).run().await;
    assert!(refused.stderr.contains("maitred store migrate"), "{}", refused.stderr);
    // Without a ledger it does, and the check says what that means.
    folder.write("maitred.yaml", &config.to_yaml().replace(LEDGER, ""));
    let checked = maitred(["check"]).folder(folder.path()).run().await;
    assert!(checked.code == Some(0) && checked.stderr.contains("what calls use is not kept"));
}

/// What a client got: its call's name and the tokens that its answer says.
type Got = Arc<Mutex<Vec<(String, u64)>>>;

/// Sends calls one after another until the gateway is gone.
async fn call_on(address: SocketAddr, name: String, got: Got) {
    for number in 0..1000 {
        let name = format!("{name}-{number}");
        let answer = call(&name, number % 2 == 0, 4).send(address).await;
        if answer.status() != 200 {
            continue;
        }
        let usage = if number % 2 == 0 {
            // The client did not ask for the usage, so the stream does not say it.
            0
        } else {
            answer.json()["usage"]["total_tokens"].as_u64().unwrap()
        };
        got.lock().push((name, usage));
    }
}

#[tokio::test]
async fn every_answered_call_is_in_the_ledger_once_after_kills() {
    const KILLS: usize = 6;
    let engines = Engine::start_several(2, &["--time-scale", "100"]).await;
    let config = Config::engines(&engines)
        .file(LEDGER)
        .file("tasks: { tokens: 1000000 }");
    let mut folder = laid(&config).await;
    let got: Got = Arc::default();
    for round in 0..KILLS {
        let gateway = served(folder, &config, 2).await;
        let mut clients = JoinSet::new();
        for client in 0..6 {
            let name = format!("call-{round}-{client}");
            clients.spawn(call_on(gateway.address, name, Arc::clone(&got)));
        }
        let enough = got.lock().len() + 10 + round * 13;
        eventually("some answers", async || (got.lock().len() >= enough).then_some(())).await;
        let Gateway {
            mut child,
            folder: place,
            ..
        } = gateway;
        child.kill().await;
        // Their connections are gone, which ends them one way or another.
        clients.shutdown().await;
        folder = place;
    }
    let gateway = served(folder, &config, 2).await;
    let Gateway { mut child, folder, .. } = gateway;
    child.signal(Signal::Terminate);
    assert!(child.exit().await.success());

    let lines = usage(&folder, "task").await;
    let rows: BTreeMap<&str, &Value> = lines
        .iter()
        .map(|line| (line["task"].as_str().unwrap(), line))
        .collect();
    for (name, row) in &rows {
        assert_eq!(row["calls"], 1, "{name} is not there once: {row}");
    }
    let got = got.lock();
    for (name, tokens) in got.iter() {
        let row = rows
            .get(name.as_str())
            .unwrap_or_else(|| panic!("{name} is not in the ledger"));
        let used = row["input_tokens"].as_u64().unwrap() + row["output_tokens"].as_u64().unwrap();
        // One that the client had in full may still lack its end when the gateway was killed.
        let is_whole = row["interrupted"] == 0;
        assert!(!is_whole || *tokens == 0 || used == *tokens, "{name}: {tokens} {row}");
    }
    let interrupted = rows.values().filter(|row| row["interrupted"] == 1).count();
    println!(
        "{} answered, {} in the ledger, {interrupted} interrupted",
        got.len(),
        rows.len()
    );
    assert!(interrupted < rows.len() / 2);
}

/// The sum of some figures over all calls whose task begins so.
fn total(lines: &[Value], task: &str, figures: &[&str]) -> u64 {
    let of_task = lines
        .iter()
        .filter(|line| line["task"].as_str().is_some_and(|name| name.starts_with(task)));
    of_task
        .flat_map(|line| figures.iter().map(|figure| line[*figure].as_u64().unwrap()))
        .sum()
}

/// What the endpoints have counted since `before`, once nothing runs in them any more.
async fn counted_since(engines: &[Engine], before: [u64; 2]) -> [u64; 2] {
    eventually("the endpoints to rest", async || {
        let mut busy = 0.0;
        for engine in engines {
            let page = Request::get("/metrics").send(engine.address).await.text();
            busy += sum(&page, "vllm:num_requests_running", &[]) + sum(&page, "vllm:num_requests_waiting", &[]);
        }
        (busy == 0.0).then_some(())
    })
    .await;
    let after = counted(engines).await;
    [after[0] - before[0], after[1] - before[1]]
}

#[tokio::test]
async fn sums_are_those_of_the_endpoints_through_faults() {
    const BROKEN: u64 = 12;
    let engines = Engine::start_several(2, &["--time-scale", "10"]).await;
    let config = Config::engines(&engines)
        .file(LEDGER)
        .pool("profile: round-robin")
        .pool("retry: { budget: 100%, min: 1000 }")
        .pool("ejection: { failures: 1000 }");
    let gateway = served(laid(&config).await, &config, 2).await;

    // Refusals, failures and second attempts: nothing was worked on, so all is exact.
    let before = counted(&engines).await;
    engines[0].fault(r#"{"reject":0.3,"fail":0.3}"#).await;
    for number in 0..40 {
        let answer = call(&format!("moved-{number}"), number % 2 == 0, 5 + number);
        assert_eq!(answer.send(gateway.address).await.status(), 200);
    }
    gateway.until_idle().await;
    let moved = counted_since(&engines, before).await;

    // Streams that an endpoint breaks off, and clients that leave in mid-stream: nobody says what was used.
    engines[0].fault(r#"{"reject":0.0,"fail":0.0,"cut_after":6}"#).await;
    engines[1].fault(r#"{"cut_after":6}"#).await;
    let before = counted(&engines).await;
    for number in 0..BROKEN {
        call(&format!("broken-{number}"), true, 40).send(gateway.address).await;
    }
    for engine in &engines {
        engine.fault(r#"{"cut_after":null}"#).await;
    }
    for number in 0..BROKEN {
        let mut connection = Connection::open(gateway.address).await;
        connection.start(&call(&format!("left-{number}"), true, 5000)).await;
        assert!(connection.event().await.is_some());
    }
    gateway.until_idle().await;
    let unsaid = counted_since(&engines, before).await;

    let Gateway { mut child, folder, .. } = gateway;
    child.signal(Signal::Terminate);
    assert!(child.exit().await.success());
    let lines = usage(&folder, "task").await;
    assert_eq!(total(&lines, "moved-", &["calls"]), 40);
    assert_eq!(total(&lines, "moved-", &["lost_tokens", "estimated"]), 0);
    for (figure, counted) in ["input_tokens", "output_tokens"].iter().zip(moved) {
        assert_eq!(total(&lines, "moved-", &[figure]), counted, "{figure}");
    }
    let of_both = |figure: &str| {
        ["broken-", "left-"]
            .map(|task| total(&lines, task, &[figure]))
            .iter()
            .sum::<u64>()
    };
    assert_eq!((of_both("calls"), of_both("estimated")), (2 * BROKEN, 2 * BROKEN));
    println!(
        "endpoints counted {unsaid:?}, the ledger has {:?} and {} of failed attempts",
        [of_both("input_tokens"), of_both("output_tokens")],
        of_both("lost_tokens")
    );
    // Prompts are estimated by what the endpoints counted of earlier ones. Of outputs the gateway counts what it has seen; an
    // endpoint works on until it notices that nobody listens.
    let (input, output) = (of_both("input_tokens"), of_both("output_tokens"));
    assert!(input.abs_diff(unsaid[0]) * 20 <= unsaid[0], "{input} {unsaid:?}");
    assert!(output <= unsaid[1], "{output} {unsaid:?}");
    assert!(unsaid[1] - output <= 2 * BROKEN * 200, "{output} {unsaid:?}");
}
