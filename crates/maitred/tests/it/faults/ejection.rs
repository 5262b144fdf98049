//! Endpoints that fail are left alone for a while, unless there is nobody else.

use super::*;

#[tokio::test]
async fn an_endpoint_that_fails_rests_and_returns() {
    let engines = Engine::start_several(2, &["--time-scale", "20"]).await;
    let config = Config::engines(&engines)
        .pool("staleness: { after: 5s }")
        .pool("profile: round-robin")
        .pool("ejection: { failures: 3, base: 2s }");
    let gateway = Gateway::ready(&config).await;
    let bad = &engines[0];
    bad.fault(r#"{"fail":1}"#).await;
    let mut asked = 0;
    while gateway.endpoint(bad.address).await.unwrap()["state"] != "ejected" {
        let answer = gateway.ask(streamed(asked, 5, 4)).await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        asked += 1;
        assert!(asked < 20, "it is never ejected");
    }
    assert_eq!(counted(&gateway, bad.address, "errors").await, 3);
    // While it rests, it gets nothing.
    for number in 0..4 {
        gateway.ask(streamed(number, 5, 4)).await;
    }
    assert_eq!(counted(&gateway, bad.address, "picks").await, 3);
    bad.fault(r#"{"fail":0}"#).await;
    gateway.until_state(bad.address, "ready").await;
    for number in 0..4 {
        let answer = gateway.ask(streamed(number, 5, 4)).await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
    }
    assert!(counted(&gateway, bad.address, "picks").await > 3);
    println!("ejected after 3 failures among {asked} calls, none of which failed, and back again");
}

/// When all have been ejected, a guess beats a certain refusal.
#[tokio::test]
async fn when_all_are_ejected_calls_go_to_them_all_the_same() {
    let engines = Engine::start_several(2, &["--time-scale", "20"]).await;
    let config = Config::engines(&engines)
        .pool("staleness: { after: 5s }")
        .pool("ejection: { failures: 1, base: 1m }");
    let gateway = Gateway::ready(&config).await;
    for engine in &engines {
        engine.fault(r#"{"fail":1}"#).await;
    }
    let answer = gateway.ask(streamed(0, 5, 4)).await;
    assert_eq!((answer.status(), code(&answer).as_str()), (502, "upstream_error"));
    for engine in &engines {
        gateway.until_state(engine.address, "ejected").await;
        engine.fault(r#"{"fail":0}"#).await;
    }
    eventually("panic", async || {
        (gateway
            .metric("maitred_pool_events_total", &[("event", "panic_entered")])
            .await
            == 1.0)
            .then_some(())
    })
    .await;
    let answer = gateway.ask(streamed(1, 5, 4)).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    assert_eq!(gateway.metric("maitred_picks_total", &[("reason", "panic")]).await, 1.0);
    // Its output has proven that it works, long before its time is over.
    gateway.until_ready(1).await;
}
