//! Four ways for an endpoint to leave. In each it gets no new calls and finishes those it has.

use std::fs;

use maitred_test::{Folder, Program, Start};

use super::*;
use crate::table::MAITRED;

const SLOW: [&str; 2] = ["--profile", "l40s-8b"];
/// Some two seconds' worth.
const LONG: u32 = 80;

#[tokio::test]
async fn sent_away_by_an_operator() {
    let engines = Engine::start_several(2, &SLOW).await;
    let gateway = Gateway::ready(&Config::engines(&engines)).await;
    let leaving = engines[0].address;
    let running = Running::begin_on(&gateway, leaving, LONG).await;
    assert_eq!(send_away(&gateway, leaving).await, 202);
    gateway.until_state(leaving, "draining").await;
    none_from(&gateway, leaving, 4).await;
    running.finish().await;
    until_gone(&gateway, leaving).await;
    assert_eq!(send_away(&gateway, leaving).await, 404, "it is not there any more");
    // It stays away until the configuration is loaded, even if that says what it said before.
    gateway.child.signal(Signal::HangUp);
    gateway.until_ready(2).await;
    assert_eq!(counted(&gateway, leaving, "picks").await, 0);
}

/// By a change of the file that the gateway sees by itself, and by SIGHUP.
#[tokio::test]
async fn no_longer_in_the_configuration() {
    for signal in [None, Some(Signal::HangUp)] {
        let engines = Engine::start_several(2, &SLOW).await;
        let gateway = Gateway::ready(&Config::engines(&engines)).await;
        let leaving = engines[0].address;
        let running = Running::begin_on(&gateway, leaving, LONG).await;
        gateway.rewrite(&Config::engines(&engines[1..]));
        if let Some(signal) = signal {
            gateway.child.signal(signal);
        }
        gateway.until_state(leaving, "draining").await;
        none_from(&gateway, leaving, 4).await;
        running.finish().await;
        until_gone(&gateway, leaving).await;
        // And back again, as a newcomer.
        gateway.rewrite(&Config::engines(&engines));
        gateway.until_ready(2).await;
        assert_eq!(counted(&gateway, leaving, "picks").await, 0);
    }
}

#[tokio::test]
async fn its_health_page_says_503() {
    let flags = ["--flavor", "sglang", "--drain-grace", "300ms"];
    let mut engines = Engine::start_several(2, &[&SLOW[..], &flags].concat()).await;
    let config = Config::engines(&engines)
        .pool("engine: sglang")
        .pool("readiness: { interval: 50ms }");
    let gateway = Gateway::ready(&config).await;
    let leaving = engines[0].address;
    let running = Running::begin_on(&gateway, leaving, LONG).await;
    engines[0].child.signal(Signal::Terminate);
    gateway.until_state(leaving, "draining").await;
    none_from(&gateway, leaving, 4).await;
    running.finish().await;
    assert_eq!(engines[0].child.exit().await.code(), Some(0));
    // Its address is still wanted, so it is asked whether it is back.
    gateway.until_state(leaving, "loading").await;
}

/// A name server is played by a hosts file that only this gateway sees.
#[tokio::test]
async fn no_longer_in_the_dns_answer() {
    if Program::shell("unshare --mount true").run().await.code != Some(0) {
        println!("SKIPPED: this process may not have a mount namespace of its own");
        return;
    }
    // One port at two addresses that no other process of this machine uses.
    let id = std::process::id();
    let network = format!("127.{}.{}", 1 + id / 250 % 250, 1 + id % 250);
    let staying = Engine::start_at(format!("{network}.1:0"), &SLOW).await;
    let port = staying.address.port();
    let leaving = Engine::start_at(format!("{network}.2:{port}"), &SLOW).await;

    let folder = Folder::new();
    let hosts = folder.path().join("hosts");
    let answer = |last: &[u8]| {
        let lines: String = last
            .iter()
            .map(|last| format!("{network}.{last} endpoints.test\n"))
            .collect();
        fs::write(&hosts, lines).unwrap();
    };
    answer(&[1, 2]);
    let dns = format!("dns: {{ name: endpoints.test, port: {port}, refresh: 100ms }}");
    let yaml = Config::of([]).pool(&dns).to_yaml().replace("    endpoints:\n", "");
    let script = format!(
        "mount --bind '{}' /etc/hosts && exec '{MAITRED}' \"$@\"",
        hosts.display()
    );
    let start = Start::new("gateway", "unshare")
        .args(["--mount", "sh", "-c", &script, "maitred"])
        .env("RESOLV_MULTI", "on");
    let gateway = Gateway::start_as(start, folder, &yaml, &[]).await;
    gateway.until_ready(2).await;

    let running = Running::begin_on(&gateway, leaving.address, LONG).await;
    answer(&[1]);
    gateway.until_state(leaving.address, "draining").await;
    none_from(&gateway, leaving.address, 4).await;
    running.finish().await;
    until_gone(&gateway, leaving.address).await;
    answer(&[1, 2]);
    gateway.until_ready(2).await;
    assert_eq!(counted(&gateway, leaving.address, "picks").await, 0);
    assert!(counted(&gateway, staying.address, "picks").await >= 4);
}
