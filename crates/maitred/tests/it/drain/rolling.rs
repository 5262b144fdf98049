//! Three endpoints are restarted one after another while clients call.

use super::*;

/// How an endpoint is taken out of service.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// SIGTERM, upon which it says 503 on its health page and finishes what runs.
    Announced,
    /// SIGTERM, upon which it aborts what runs, as vLLM does.
    Abrupt,
    /// By the gateway's administrative listener first, then SIGTERM.
    SentAway,
}

/// Restarts all three, and gives what came of the calls meanwhile.
async fn restart_all(way: Way, flags: &[&str]) -> Vec<maitred_test::load::Streamed> {
    let flags = [&["--profile", "l40s-8b", "--drain-grace", "200ms"], flags].concat();
    let mut engines = Engine::start_several(3, &flags).await;
    let config = Config::engines(&engines)
        .pool("readiness: { interval: 100ms }")
        .pool("retry: { budget: 100%, min: 100 }")
        .pool("startup: { interval: 100ms }");
    let config = if flags.contains(&"sglang") {
        config.pool("engine: sglang")
    } else {
        config
    };
    let gateway = Gateway::ready(&config).await;
    let restarts = async {
        for (at, engine) in engines.iter_mut().enumerate() {
            let address = engine.address;
            eventually("calls on the endpoint", async || {
                let endpoint = gateway.endpoint(address).await?;
                (endpoint["in_flight"].as_u64()? >= 3).then_some(())
            })
            .await;
            if way == Way::SentAway {
                assert_eq!(send_away(&gateway, address).await, 202);
                until_gone(&gateway, address).await;
            }
            engine.child.signal(Signal::Terminate);
            assert_eq!(engine.child.exit().await.code(), Some(0));
            *engine = Engine::start_at(address, &flags).await;
            if way == Way::SentAway {
                gateway.child.signal(Signal::HangUp);
            }
            // What comes back is another process at the old address.
            let event = if way == Way::SentAway { "gone" } else { "restarted" };
            eventually("the newcomer to serve", async || {
                let newcomers = gateway.metric("maitred_pool_events_total", &[("event", event)]).await;
                let picks = counted(&gateway, address, "picks").await;
                let endpoint = gateway.endpoint(address).await?;
                (newcomers > at as f64 && endpoint["state"] == "ready" && picks >= 10).then_some(())
            })
            .await;
        }
    };
    let (calls, ()) = steady(&gateway, 30.0)
        .during(|number| streamed(number, 200, 20), restarts)
        .await;
    let records = gateway.until_records(calls.len()).await;
    let moved = records.iter().filter(|record| record["attempts"] != 1).count();
    println!(
        "{flags:?}: {} calls ended {:?}; {moved} moved",
        calls.len(),
        endings(&calls)
    );
    calls
}

#[tokio::test]
async fn endpoints_that_announce_it_are_restarted_without_an_error() {
    all_clean(&restart_all(Way::Announced, &["--drain-on-sigterm"]).await);
}

#[tokio::test]
async fn sglangs_are_restarted_without_an_error() {
    all_clean(&restart_all(Way::Announced, &["--flavor", "sglang"]).await);
}

#[tokio::test]
async fn endpoints_sent_away_first_are_restarted_without_an_error() {
    all_clean(&restart_all(Way::SentAway, &[]).await);
}

/// A vLLM that is told to go aborts its answers. There is no 5xx all the same: calls without output move, and those with
/// output have their status and get an honest error event.
#[tokio::test]
async fn vllms_are_restarted_without_a_5xx() {
    let calls = restart_all(Way::Abrupt, &[]).await;
    for call in &calls {
        assert_eq!(call.status, 200, "{call:#?}");
        let is_honest =
            call.ending == Ending::ErrorEvent && call.outputs > 0 && call.problem.contains("upstream_aborted");
        assert!(call.ending == Ending::Clean || is_honest, "{call:#?}");
    }
    assert!(
        calls.iter().any(|call| call.ending == Ending::ErrorEvent),
        "nothing was running"
    );
}
