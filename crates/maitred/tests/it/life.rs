//! How an endpoint comes into service: it gets its first call when it can infer, not when its port opens.

use maitred_test::{Request, eventually};

use crate::table::{Config, Engine, Gateway};
use crate::traffic::{all_clean, chats, counted, endings, steady, streamed};

/// Loading takes 210 s, as an 8B model from a network disk does, 42 times faster than real.
const SLOW_TO_LOAD: [&str; 4] = ["--load-time", "210s", "--time-scale", "42"];

/// Without a look at metrics, which would show that something is amiss; as other load balancers do it.
const BLIND: &str = "staleness: { policy: ignore }\n    profile: round-robin";

/// What a test saw of an endpoint that loads while its neighbour works.
struct Seen {
    /// Chat calls that it answered with an error, by its own count where it has one.
    too_early: u64,
    /// Attempts on it that failed.
    failed: u64,
    /// Calls that needed more than one attempt.
    moved: usize,
}

/// Lets two endpoints serve steady calls, one of which is there and one of which loads.
async fn while_one_loads(flavor: &str, check: &str) -> Seen {
    let flavor = ["--flavor", flavor];
    let ready = Engine::start(&[&flavor[..], &["--time-scale", "42"]].concat()).await;
    let loading = Engine::start(&[&flavor[..], &SLOW_TO_LOAD].concat()).await;
    let config = Config::of([ready.address, loading.address])
        .pool(&format!("engine: {}", flavor[1]))
        // Ten seconds at the speed of these endpoints.
        .pool(&format!("startup: {{ interval: 240ms, check: {check} }}"))
        .pool("readiness: { interval: 120ms }")
        .pool("ejection: { base: 120ms, max: 1s }")
        .pool(if check == "full" {
            "staleness: { after: 5s }"
        } else {
            BLIND
        });
    let gateway = Gateway::start(&config).await;
    gateway.until_state(ready.address, "ready").await;
    if flavor[1] == "sglang" {
        let models = Request::get("/v1/models").send(loading.address).await;
        assert_eq!(models.status(), 200, "it lists its model before it is healthy");
    }

    let load = steady(&gateway, 40.0);
    let calls = load.during(
        |number| streamed(number, 5, 4),
        eventually("the endpoint that loads to serve", async || {
            let picks = counted(&gateway, loading.address, "picks").await;
            let failed = counted(&gateway, loading.address, "errors").await;
            (picks >= failed + 20).then_some(())
        }),
    );
    let (calls, ()) = calls.await;
    let moved = gateway.until_records(calls.len()).await;
    let moved = moved.iter().filter(|record| record["attempts"] != 1).count();
    let seen = Seen {
        too_early: chats(loading.address, "5xx").await,
        failed: counted(&gateway, loading.address, "errors").await,
        moved,
    };
    let picks = counted(&gateway, loading.address, "picks").await;
    println!(
        "{} by {check}: {} calls ended {:?}; of {picks} attempts on the endpoint that loads {} failed, {moved} calls had to move",
        flavor[1],
        calls.len(),
        endings(&calls),
        seen.failed,
    );
    if check == "full" {
        all_clean(&calls);
    }
    seen
}

#[tokio::test]
async fn a_vllm_gets_its_first_call_when_it_can_infer() {
    let seen = while_one_loads("vllm", "full").await;
    assert_eq!((seen.too_early, seen.failed, seen.moved), (0, 0, 0));
}

#[tokio::test]
async fn an_sglang_gets_its_first_call_when_it_can_infer() {
    let seen = while_one_loads("sglang", "full").await;
    assert_eq!((seen.too_early, seen.failed, seen.moved), (0, 0, 0));
}

/// The negative control: the same with a check of the port.
#[tokio::test]
async fn by_its_port_alone_an_endpoint_is_called_too_early() {
    let seen = while_one_loads("vllm", "port").await;
    assert!(seen.too_early >= 3, "{}", seen.too_early);
    assert_eq!(seen.failed, seen.too_early);
    assert!(seen.moved >= 3, "{}", seen.moved);
}

/// An endpoint alone has no neighbour to hide its failures.
#[tokio::test]
async fn clients_see_what_a_check_of_the_port_does() {
    let check = async |check: &str| {
        let loading = Engine::start(&SLOW_TO_LOAD).await;
        let startup = format!("startup: {{ interval: 240ms, check: {check} }}");
        let config = Config::of([loading.address]).pool(&startup).pool(BLIND);
        let gateway = Gateway::start(&config).await;
        if check == "port" {
            gateway.until_ready(1).await;
        }
        let answer = gateway.ask(streamed(0, 5, 4)).await;
        (
            answer.json()["error"]["code"].clone(),
            counted(&gateway, loading.address, "errors").await,
        )
    };
    let (code, calls) = check("port").await;
    assert_eq!((code.as_str(), calls), (Some("upstream_error"), 1));
    let (code, calls) = check("full").await;
    assert_eq!((code.as_str(), calls), (Some("no_endpoint"), 0));
}
