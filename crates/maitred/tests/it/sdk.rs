//! The official SDKs, as their users run them.

use maitred_test::{Program, eventually, sdk};

use crate::table::{Config, Engine, Gateway, MODEL};

/// Three simulated endpoints at ten times their speed, and a gateway in front of them.
async fn table() -> (Vec<Engine>, Gateway) {
    let engines = Engine::start_several(3, &["--time-scale", "10", "--output-tokens", "30"]).await;
    let gateway = Gateway::ready(&Config::engines(&engines)).await;
    (engines, gateway)
}

/// Runs a script to its good end, and sees that it took these steps.
async fn run(program: Program, script: &[&str], gateway: &Gateway, steps: &[&str]) {
    let base = format!("http://{}/v1", gateway.address);
    let printed = program
        .args(script)
        .args([&base, &gateway.key, MODEL])
        .run()
        .await
        .success();
    assert_eq!(printed.split_whitespace().collect::<Vec<_>>(), steps);
}

#[tokio::test]
async fn openai_python() {
    let Some(python) = sdk::python() else { return };
    let (_engines, gateway) = table().await;
    let steps = [
        "chat",
        "chat_stream",
        "chat_stream_with_usage",
        "tools",
        "tools_stream",
        "structured",
        "completions",
        "embeddings",
        "models",
        "errors",
        "many_at_once",
    ];
    run(python, &["-c", include_str!("sdk/openai.py")], &gateway, &steps).await;
    gateway.until_idle().await;
    // Every call that generated is in the records with the endpoint's own figures.
    let records = gateway.records();
    let generated = records
        .iter()
        .filter(|record| record["outcome"] == "answered" && record["attempts"] == 1);
    assert_eq!(generated.clone().count(), 27, "{records:#?}");
    assert!(
        generated.clone().all(|record| record["usage_source"] == "reported"),
        "{records:#?}"
    );
    // The pool's scheduler was what chose: with load the calls are spread, if not evenly, since they share their beginnings.
    let busy = gateway
        .endpoints()
        .await
        .iter()
        .filter(|endpoint| endpoint["picks"].as_u64() > Some(0))
        .count();
    assert!(busy >= 2, "{busy} of 3");
}

#[tokio::test]
async fn openai_node() {
    let Some(node) = sdk::node() else { return };
    let (engines, gateway) = table().await;
    let steps = [
        "chat",
        "chatStream",
        "chatStreamWithUsage",
        "tools",
        "toolsStream",
        "completions",
        "embeddings",
        "models",
        "errors",
        "abort",
    ];
    let script = ["--input-type=module", "-e", include_str!("sdk/openai.mjs")];
    run(node, &script, &gateway, &steps).await;
    // The stream that was left in its middle has been given up everywhere.
    gateway.until_idle().await;
    let aborted = || {
        let records = gateway.records();
        records
            .iter()
            .filter(|record| record["outcome"] == "client_closed")
            .count()
    };
    eventually("the record of the abort", async || (aborted() > 0).then_some(())).await;
    assert_eq!(aborted(), 1);
    for engine in &engines {
        eventually("an idle engine", async || {
            (engine.state().await["running"] == 0).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn openai_python_learns_of_a_broken_stream() {
    let Some(python) = sdk::python() else { return };
    let engine = Engine::start(&[
        "--time-scale",
        "10",
        "--output-tokens",
        "100",
        "--output-variation",
        "0",
    ])
    .await;
    let gateway = Gateway::ready(&Config::of([engine.address])).await;
    engine.fault(r#"{"cut_after":5}"#).await;
    run(python, &["-c", include_str!("sdk/broken.py")], &gateway, &["told"]).await;
}

#[tokio::test]
async fn anthropic_python() {
    let Some(python) = sdk::python() else { return };
    let (_engines, gateway) = table().await;
    let steps = ["create", "stream", "count_tokens", "errors"];
    run(python, &["-c", include_str!("sdk/anthropic.py")], &gateway, &steps).await;
    let records = gateway.until_records(5).await;
    let generated = records
        .iter()
        .filter(|record| record["path"] == "/v1/messages" && record["outcome"] == "answered");
    assert!(
        generated.clone().all(|record| record["usage_source"] == "reported"),
        "{records:#?}"
    );
    assert_eq!(generated.count(), 2);
}
