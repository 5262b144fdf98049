//! Releases: an endpoint that does not run what its pool's release says gets no calls.

use maitred_test::{Play, ScriptedEndpoint};

use crate::table::{Config, Gateway, MODEL};

#[tokio::test]
async fn an_endpoint_with_other_weights_or_another_engine_gets_no_calls() {
    let good = ScriptedEndpoint::start(MODEL).await;
    let (other_weights, other_engine) = (
        ScriptedEndpoint::start(MODEL).await,
        ScriptedEndpoint::start(MODEL).await,
    );
    let listed = format!(r#"{{"object":"list","data":[{{"id":"{MODEL}","object":"model","root":"model/other"}}]}}"#);
    other_weights.on("/v1/models", Play::json(200, &listed));
    other_engine.on("/version", Play::json(200, r#"{"version":"0.31.0"}"#));
    let bad = [other_weights.address(), other_engine.address()];
    let config = Config::of([good.address(), bad[0], bad[1]])
        .pool(&format!("release: {{ name: blue, weights: {MODEL}, engine: 0.32.0 }}"))
        .pool("startup: { interval: 20ms }")
        .pool("readiness: { interval: 20ms }");
    let gateway = Gateway::start(&config).await;
    gateway.until_state(good.address(), "ready").await;
    let hello = format!(r#"{{"model":"{MODEL}","messages":[{{"role":"user","content":"hello"}}]}}"#);
    for _ in 0..6 {
        assert_eq!(gateway.ask(&hello).await.status(), 200);
    }
    assert_eq!(good.received_on("/v1/chat/completions").len(), 6);
    for endpoint in bad {
        gateway.until_state(endpoint, "loading").await;
    }
    // The right version is deployed there too: it serves without anybody saying so.
    other_engine.on("/version", Play::json(200, r#"{"version":"0.32.0"}"#));
    gateway.until_state(other_engine.address(), "ready").await;
}
