//! Several gateways before the same endpoints, and what they tell each other through a real Redis.

use maitred_test::{Folder, Redis, Request, ScriptedEndpoint, Signal, Start, eventually};
use serde_json::json;

use crate::table::{CHAT, Config, Gateway, MAITRED, MODEL, POOL};

/// A gateway of the group, before these endpoints.
async fn gateway(config: &Config, redis: &Redis) -> Gateway {
    let start = Start::new("gateway", MAITRED).env("REDIS", redis.url());
    let sharing = "sharing: { redis: { env: REDIS }, period: 20ms }";
    let yaml = config.clone().file(sharing).to_yaml();
    let gateway = Gateway::start_as(start, Folder::new(), &yaml, &[]).await;
    gateway.until_ready(2).await;
    gateway
}

async fn until_peers(gateway: &Gateway, peers: f64) {
    eventually("other gateways to be heard of", async || {
        let found = gateway.metric("maitred_sharing_peers", &[("pool", POOL)]).await;
        (found == peers).then_some(())
    })
    .await;
}

fn long_call(gateway: &Gateway, prompt: &str) -> Request {
    let body = json!({ "model": MODEL, "stream": true, "messages": [{ "role": "user", "content": prompt }] });
    gateway.chat(body)
}

/// How many seconds of work a gateway sees before its endpoints, by their addresses.
async fn queues(gateway: &Gateway) -> Vec<(String, f64)> {
    let rows = gateway.endpoints().await;
    let queue = |row: &serde_json::Value| {
        let address = row["endpoint"].as_str().unwrap().to_owned();
        (address, row["queue_seconds"].as_f64().unwrap())
    };
    rows.iter().map(queue).collect()
}

#[tokio::test]
async fn a_gateway_sees_the_calls_of_another_and_lives_without_the_log() {
    let mut redis = Redis::start().await;
    let endpoints = [
        ScriptedEndpoint::start(MODEL).await,
        ScriptedEndpoint::start(MODEL).await,
    ];
    let config = Config::of(endpoints.iter().map(ScriptedEndpoint::address))
        .pool("profile: mine")
        .file("profiles: [{ name: mine, picker: least-cost }]");
    let (one, two) = (gateway(&config, &redis).await, gateway(&config, &redis).await);
    until_peers(&one, 1.0).await;
    until_peers(&two, 1.0).await;

    // One sends a prompt that takes long and gets no answer yet. The endpoints' pages show nothing, but two knows.
    for endpoint in &endpoints {
        endpoint.on(CHAT, maitred_test::Play::silence().hang());
    }
    let call = long_call(&one, &"word ".repeat(40_000));
    let address = one.address;
    let waiting = maitred_test::background(async move {
        call.send(address).await;
    });
    let busy = eventually("work of another gateway to be seen", async || {
        let queues = queues(&two).await;
        queues.into_iter().find(|(_, seconds)| *seconds > 0.1)
    })
    .await;
    drop(waiting);
    eventually("work that is over to be gone", async || {
        let queues = queues(&two).await;
        queues.iter().all(|(_, seconds)| *seconds < 0.01).then_some(())
    })
    .await;
    assert!(
        endpoints
            .iter()
            .any(|endpoint| endpoint.address().to_string() == busy.0)
    );

    // The log goes: both say so and serve on. It comes back, and they find each other again.
    for endpoint in &endpoints {
        endpoint.on(
            CHAT,
            maitred_test::Play::json(
                200,
                r#"{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}"#,
            ),
        );
    }
    redis.stop(Signal::Kill).await;
    for gateway in [&one, &two] {
        eventually("the loss to be seen", async || {
            (gateway.metric("maitred_sharing_up", &[]).await == 0.0).then_some(())
        })
        .await;
        let answer = gateway.ask(format!(r#"{{"model":"{MODEL}","messages":[]}}"#)).await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
    }
    redis.restart().await;
    until_peers(&one, 1.0).await;
    eventually("the log to be written again", async || {
        (one.metric("maitred_sharing_up", &[]).await == 1.0).then_some(())
    })
    .await;

    // A gateway that dies is forgotten.
    let mut two = two;
    two.child.kill().await;
    until_peers(&one, 0.0).await;
}

#[tokio::test]
async fn the_servers_address_is_checked_and_not_shown() {
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    let config = Config::of([endpoint.address()]).file("sharing: { redis: { env: REDIS }, period: 5s }");
    let folder = Folder::new();
    let file = folder.write("maitred.yaml", &config.to_yaml());
    let checked = crate::table::maitred(["check".as_ref(), "-c".as_ref(), file.as_os_str()])
        .env("REDIS", "hunter2.example")
        .run()
        .await;
    assert_eq!(checked.code, Some(1));
    let shown = checked.stderr + &checked.stdout;
    assert!(shown.contains("holds no address of a server"), "{shown}");
    assert!(shown.contains("a gateway cannot speak every 5s"), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
}
