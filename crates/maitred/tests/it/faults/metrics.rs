//! Metrics that stand still or are missing: nothing is dispatched blind, unless the settings say so.

use super::*;

/// Keeps two endpoints at work on long answers, breaks the metrics of both, and asks for one more.
async fn with_metrics(fault: &str, policy: &str) -> (Gateway, Answer) {
    let engines = Engine::start_several(2, &["--profile", "l40s-8b", "--time-scale", "0.5"]).await;
    let staleness = format!("staleness: {{ after: 1s, frozen_after: 1s, policy: {policy} }}");
    let config = Config::engines(&engines).pool("profile: round-robin").pool(&staleness);
    let gateway = Gateway::ready(&config).await;
    let mut busy = Vec::new();
    for number in 0..4 {
        let mut connection = Connection::open(gateway.address).await;
        connection.start(&gateway.chat(streamed(number, 5, 4_000))).await;
        busy.push(connection);
    }
    for engine in &engines {
        engine.fault(fault).await;
    }
    let frozen = fault.contains("frozen");
    eventually("metrics to be given up", async || {
        let all_frozen = gateway
            .metric("maitred_pool_events_total", &[("event", "frozen")])
            .await
            == 2.0;
        let endpoints = gateway.endpoints().await;
        let all_old = endpoints.iter().all(|endpoint| endpoint["age"].as_f64() > Some(1.0));
        (if frozen { all_frozen } else { all_old }).then_some(())
    })
    .await;
    let answer = gateway.ask(streamed(9, 5, 4)).await;
    println!(
        "metrics {fault} under {policy}: {} {:?}",
        answer.status(),
        answer.header("retry-after")
    );
    (gateway, answer)
}

async fn saturated(fault: &str) {
    let (gateway, answer) = with_metrics(fault, "saturated").await;
    assert_eq!((answer.status(), code(&answer).as_str()), (429, "saturated"));
    assert_eq!(answer.header("retry-after"), Some("1"));
    // They are not down, and nobody takes them for down.
    gateway.until_ready(2).await;
}

async fn flowing(fault: &str) {
    let (_gateway, answer) = with_metrics(fault, "ignore").await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
}

#[tokio::test]
async fn frozen_metrics_count_as_full() {
    saturated(r#"{"metrics":"frozen"}"#).await;
}

#[tokio::test]
async fn missing_metrics_count_as_full() {
    saturated(r#"{"metrics":"missing"}"#).await;
}

#[tokio::test]
async fn metrics_without_the_figures_count_as_full() {
    saturated(r#"{"metrics":"partial"}"#).await;
}

#[tokio::test]
async fn with_frozen_metrics_ignored_traffic_flows() {
    flowing(r#"{"metrics":"frozen"}"#).await;
}

#[tokio::test]
async fn with_missing_metrics_ignored_traffic_flows() {
    flowing(r#"{"metrics":"missing"}"#).await;
}

/// One endpoint without metrics among others gets nothing, and the others everything.
#[tokio::test]
async fn who_has_no_metrics_is_passed_over() {
    let engines = Engine::start_several(2, &["--time-scale", "20"]).await;
    let config = Config::engines(&engines)
        .pool("profile: round-robin")
        .pool("staleness: { after: 1s, policy: saturated }");
    let gateway = Gateway::ready(&config).await;
    engines[0].fault(r#"{"metrics":"missing"}"#).await;
    eventually("its metrics to be old", async || {
        let endpoint = gateway.endpoint(engines[0].address).await?;
        (endpoint["age"].as_f64()? > 1.0).then_some(())
    })
    .await;
    for number in 0..6 {
        let answer = gateway.ask(streamed(number, 5, 4)).await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
    }
    assert_eq!(counted(&gateway, engines[0].address, "picks").await, 0);
    assert_eq!(counted(&gateway, engines[1].address, "picks").await, 6);
}
