//! What clients see when endpoints fail: nothing, as long as no output has come; an honest error after that.

use std::time::Duration;

use maitred_test::load::Ending;
use maitred_test::{Answer, BodyEnd, Connection, Event, Signal, SseReader, eventually};
use serde_json::Value;

use crate::table::{Config, Engine, Gateway, MODEL};
use crate::traffic::{Running, all_clean, counted, endings, steady, streamed};

mod broken;
mod ejection;
mod metrics;
mod moved;

/// Settings of pools whose subject is not how often an endpoint fails.
const PATIENT: &str = "ejection: { failures: 1000 }\n    profile: round-robin";

/// The code of an error's body.
fn code(answer: &Answer) -> String {
    answer.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
}

/// Sends so many calls at one time, each over a connection of its own.
async fn at_once(gateway: &Gateway, calls: usize) -> Vec<Answer> {
    let calls = (0..calls).map(|number| {
        let request = gateway.chat(streamed(number, 5, 4));
        let address = gateway.address;
        maitred_test::background(async move { request.send(address).await })
    });
    let calls: Vec<_> = calls.collect();
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.join().await);
    }
    answers
}

#[tokio::test]
async fn when_an_endpoint_is_killed_only_calls_with_output_see_it() {
    let mut engines = Engine::start_several(3, &["--profile", "l40s-8b"]).await;
    let config = Config::engines(&engines)
        .pool("staleness: { after: 1s }")
        .pool("readiness: { interval: 300ms }")
        // Otherwise the endpoint would soon be spared.
        .pool("profile: round-robin")
        // How many calls have no output yet depends on how busy this machine is; the budget is another test's subject.
        .pool("retry: { budget: 100%, min: 100 }")
        .pool("startup: { interval: 200ms }");
    let gateway = Gateway::ready(&config).await;
    let victim = engines.remove(0);
    let address = victim.address;

    // One has surely given output and is not through when it dies.
    let running = Running::begin_on(&gateway, address, 1_500).await;
    let calls = steady(&gateway, 20.0).during(|number| streamed(number, 200, 100), async {
        let picks = async |more: u64| {
            let before = counted(&gateway, address, "picks").await;
            eventually("calls on the endpoint", async || {
                (counted(&gateway, address, "picks").await >= before + more).then_some(())
            })
            .await;
        };
        picks(10).await;
        // From here on its calls get no output, so that some surely have none when it dies.
        victim.fault(r#"{"hang":1}"#).await;
        picks(4).await;
        victim.child.signal(Signal::Kill);
        gateway.until_state(address, "loading").await;
    });
    let (calls, ()) = calls.await;
    assert_eq!(running.broken().await, "upstream_broken");

    let moved = gateway.metric("maitred_retries_total", &[]).await;
    println!("{} calls ended {:?}; {moved} moved", calls.len(), endings(&calls));
    for call in &calls {
        assert_eq!(call.status, 200, "{call:#?}");
        match call.ending {
            Ending::Clean => {}
            Ending::ErrorEvent => {
                assert!(
                    call.outputs > 0 && call.problem.contains("upstream_broken"),
                    "{call:#?}"
                );
                assert_eq!(call.endpoint, address.to_string());
            }
            _ => panic!("{call:#?}"),
        }
    }
    assert!(moved >= 4.0, "{moved}");

    // The process that takes its place proves itself, and is a newcomer.
    let _next = Engine::start_at(address, &["--profile", "l40s-8b"]).await;
    gateway.until_ready(3).await;
    assert_eq!(counted(&gateway, address, "picks").await, 0);
}
