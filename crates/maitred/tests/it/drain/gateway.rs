//! The gateway's own end.

use std::time::Duration;

use maitred_test::{Folder, Http2, Start, within};
use tokio::net::TcpStream;

use super::*;

const SLOW: [&str; 2] = ["--profile", "l40s-8b"];

async fn draining(drain: &str) -> (Vec<Engine>, Gateway) {
    let engines = Engine::start_several(1, &SLOW).await;
    let config = Config::engines(&engines).file(&format!("timeouts: {{ drain: {drain} }}"));
    let gateway = Gateway::ready(&config).await;
    (engines, gateway)
}

#[tokio::test]
async fn streams_finish_and_nothing_new_is_taken() {
    let (_engines, mut gateway) = draining("30s").await;
    let idle = Connection::open(gateway.address).await;
    let streams = Http2::open(gateway.address).await;
    let running = Running::begin(&gateway, 0, 60).await;
    let request = (gateway.key.clone(), streamed(1, 5, 60));
    let second = streams.clone();
    let over_http2 =
        maitred_test::background(async move { second.post(crate::table::CHAT, &request.0, &request.1).await });
    eventually("both to run", async || {
        let metric = gateway.metric("maitred_active_calls", &[]).await;
        (metric == 2.0).then_some(())
    })
    .await;
    assert_eq!(gateway.page("/readyz").await.status(), 200);

    gateway.child.signal(Signal::Terminate);
    gateway.child.line("draining").await;
    let mut idle = idle;
    idle.closed().await;
    let ready = gateway.page("/readyz").await;
    assert_eq!(
        (ready.status(), &ready.json()["draining"]),
        (503, &serde_json::Value::Bool(true))
    );
    eventually("connections to be refused", async || {
        TcpStream::connect(gateway.address).await.is_err().then_some(())
    })
    .await;

    running.finish().await;
    let (status, body) = over_http2.join().await;
    assert_eq!(status.as_u16(), 200);
    assert!(body.ends_with(b"data: [DONE]\n\n"));
    assert_eq!(gateway.child.exit().await.code(), Some(0));
    let records = gateway.records();
    assert!(
        records.iter().all(|record| record["outcome"] == "answered"),
        "{records:#?}"
    );
    assert_eq!(records.len(), 2);
}

/// Clients that have not noticed send on over connections they have.
#[tokio::test]
async fn calls_on_open_connections_are_served_while_it_drains() {
    let (_engines, mut gateway) = draining("30s").await;
    let mut fresh = Connection::open(gateway.address).await;
    let mut used = Connection::open(gateway.address).await;
    assert_eq!(used.call(&gateway.chat(streamed(0, 5, 2))).await.status(), 200);
    let streams = Http2::open(gateway.address).await;
    gateway.child.signal(Signal::Terminate);
    gateway.child.line("draining").await;
    let json = streamed(1, 5, 2);
    let over_http2 = streams.post(crate::table::CHAT, &gateway.key, &json);
    let (first, second) = (gateway.chat(streamed(2, 5, 2)), gateway.chat(streamed(3, 5, 2)));
    let (fresh, used, (status, _)) = tokio::join!(fresh.call(&first), used.call(&second), over_http2);
    for answer in [fresh, used] {
        assert_eq!(answer.status(), 200, "{}", answer.text());
        assert_eq!(answer.header("connection"), Some("close"));
    }
    assert_eq!(status.as_u16(), 200);
    assert_eq!(gateway.child.exit().await.code(), Some(0));
}

#[tokio::test]
async fn what_takes_too_long_is_cut() {
    let (_engines, mut gateway) = draining("500ms").await;
    let mut running = Running::begin(&gateway, 0, 4_000).await;
    gateway.child.signal(Signal::Terminate);
    assert_eq!(gateway.child.exit().await.code(), Some(0));
    let mut last = String::new();
    while let Some(event) = running.connection.event().await {
        assert!(!event.is_done());
        last = event.data;
    }
    assert!(last.contains("\"code\":\"draining\""), "{last}");
    assert_eq!(running.connection.body_end(), BodyEnd::Cut);
    let records = gateway.records();
    assert_eq!(records.len(), 1, "{records:#?}");
    assert_eq!(
        (&records[0]["outcome"], &records[0]["fault"]),
        (&"broken".into(), &"draining".into())
    );
    assert!(
        gateway.child.output().contains("connections were cut"),
        "{}",
        gateway.child.output()
    );
}

#[tokio::test]
async fn a_second_signal_ends_it_at_once() {
    let (_engines, mut gateway) = draining("10m").await;
    let running = Running::begin(&gateway, 0, 4_000).await;
    gateway.child.signal(Signal::Terminate);
    gateway.child.line("draining").await;
    gateway.child.signal(Signal::Terminate);
    let ended = tokio::time::timeout(Duration::from_secs(5), gateway.child.exit());
    let status = within("the end", ended).await.expect("an end at once");
    assert_eq!(status.code(), Some(1));
    drop(running);
}

#[tokio::test]
async fn without_calls_it_ends_at_once() {
    let (_engines, mut gateway) = draining("10m").await;
    let _idle = Connection::open(gateway.address).await;
    gateway.child.signal(Signal::Interrupt);
    assert_eq!(gateway.child.exit().await.code(), Some(0));
}

/// A database that accepts and says nothing is waited for, but not by whoever wants the gateway to end.
#[tokio::test]
async fn a_signal_ends_a_start_that_waits() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://maitred@{}/maitred", silent.local_addr().unwrap());
    let config = Config::of([silent.local_addr().unwrap()]).file("ledger: { postgres: { env: LEDGER }, spool: spool }");
    let folder = Folder::new();
    folder.write("maitred.yaml", &config.to_yaml());
    let start = Start::new("gateway", MAITRED).env("LEDGER", url).folder(folder.path());
    let mut child = start.args(["serve", "--config", "maitred.yaml"]).spawn();
    // It has asked the database, and waits.
    let (_asked, _) = within("the database to be asked", silent.accept()).await.unwrap();
    child.signal(Signal::Terminate);
    let status = within("the end", tokio::time::timeout(Duration::from_secs(5), child.exit())).await;
    assert_eq!(status.expect("an end at once").code(), Some(0));
    assert!(
        child.output().contains("a signal during the start"),
        "{}",
        child.output()
    );
}
