//! Faults before the first output: another endpoint, never the same one again, within the budget.

use super::*;

/// Two good endpoints and a bad one, asked in turn: every call succeeds, some at the second attempt.
async fn hidden(flags: &[&str], fault: &str) {
    let mut engines = Engine::start_several(2, &["--time-scale", "20"]).await;
    engines.push(Engine::start(&[&["--time-scale", "20"], flags].concat()).await);
    let config = Config::engines(&engines)
        .pool(PATIENT)
        .file("timeouts: { connect: 500ms, first_token: 500ms }");
    let config = if flags.contains(&"sglang") {
        config.pool("engine: sglang")
    } else {
        config
    };
    let gateway = Gateway::ready(&config).await;
    engines[2].fault(fault).await;
    for number in 0..9 {
        let answer = gateway.ask(streamed(number, 5, 4)).await;
        let events = answer.events();
        assert!(events.last().is_some_and(Event::is_done), "{fault}: {}", answer.text());
    }
    let records = gateway.until_records(9).await;
    let moved = records.iter().filter(|record| record["attempts"] == 2).count();
    assert!(
        records
            .iter()
            .all(|record| record["attempts"] == 1 || record["attempts"] == 2),
        "{fault}: {records:#?}"
    );
    assert!(moved > 0, "{fault}: it was never asked");
    let picks = counted(&gateway, engines[2].address, "picks").await;
    assert_eq!(u64::try_from(moved).unwrap(), picks, "{fault}");
    assert_eq!(
        gateway.metric("maitred_retries_total", &[]).await,
        picks as f64,
        "{fault}"
    );
    println!("{fault}: 9 calls answered, {moved} of them at the second attempt");
}

#[tokio::test]
async fn a_refused_call_moves() {
    hidden(&[], r#"{"reject":1}"#).await;
}

#[tokio::test]
async fn a_failed_call_moves() {
    hidden(&[], r#"{"fail":1}"#).await;
}

#[tokio::test]
async fn a_call_without_output_in_time_moves() {
    hidden(&[], r#"{"hang":1}"#).await;
}

#[tokio::test]
async fn a_call_whose_first_event_is_an_error_moves() {
    hidden(&[], r#"{"error_after":0}"#).await;
}

#[tokio::test]
async fn a_call_cut_before_its_first_output_moves() {
    hidden(&[], r#"{"cut_after":0}"#).await;
}

#[tokio::test]
async fn a_refused_connection_moves() {
    hidden(&[], r#"{"refuse":true}"#).await;
}

/// Three endpoints that all fail, each in its own way.
#[tokio::test]
async fn no_endpoint_is_tried_twice_by_one_call() {
    let engines = Engine::start_several(3, &["--time-scale", "20"]).await;
    let config = Config::engines(&engines)
        .pool(PATIENT)
        .pool("retry: { attempts: 16, after: 7s }");
    let gateway = Gateway::ready(&config).await;
    for (engine, fault) in engines
        .iter()
        .zip([r#"{"fail":1}"#, r#"{"error_after":0}"#, r#"{"cut_after":0}"#])
    {
        engine.fault(fault).await;
    }
    for number in 0..5 {
        let answer = gateway.ask(streamed(number, 5, 4)).await;
        assert_eq!(answer.status(), 502, "{}", answer.text());
    }
    for engine in &engines {
        assert_eq!(counted(&gateway, engine.address, "picks").await, 5);
    }
    let records = gateway.until_records(5).await;
    assert!(records.iter().all(|record| record["attempts"] == 3), "{records:#?}");
}

#[tokio::test]
async fn when_all_have_too_much_to_do_the_client_is_told_to_wait() {
    let engines = Engine::start_several(2, &["--time-scale", "20", "--fault", "reject=1"]).await;
    for engine in &engines {
        engine.fault(r#"{"reject":0}"#).await;
    }
    let config = Config::engines(&engines).pool(PATIENT).pool("retry: { after: 7s }");
    let gateway = Gateway::ready(&config).await;
    for engine in &engines {
        engine.fault(r#"{"reject":1}"#).await;
    }
    let answer = gateway.ask(streamed(0, 5, 4)).await;
    assert_eq!((answer.status(), code(&answer).as_str()), (429, "upstream_overloaded"));
    assert_eq!(
        answer.header("retry-after"),
        Some("7"),
        "the pool's own advice, since the endpoints gave none"
    );
    let record = &gateway.until_records(1).await[0];
    assert_eq!(record["attempts"], 2);
    // Having too much to do is no failure: nobody is ejected for it.
    for engine in &engines {
        assert_eq!(gateway.endpoint(engine.address).await.unwrap()["state"], "ready");
    }
}

/// Thirty calls that all want another attempt at one time; how many further attempts there were.
async fn retries_with(budget: &str) -> (f64, f64) {
    let engines = Engine::start_several(3, &["--time-scale", "20"]).await;
    let config = Config::engines(&engines)
        .pool(PATIENT)
        .pool(budget)
        .file("timeouts: { connect: 1s, first_token: 1s }");
    let gateway = Gateway::ready(&config).await;
    for engine in &engines {
        engine.fault(r#"{"hang":1}"#).await;
    }
    let answers = at_once(&gateway, 30).await;
    let spent = answers.iter().filter(|answer| code(answer) == "retry_budget_spent");
    for answer in &answers {
        match code(answer).as_str() {
            "first_token_timeout" => assert_eq!(answer.status(), 504),
            "retry_budget_spent" => assert_eq!((answer.status(), answer.header("retry-after")), (503, Some("1"))),
            _ => panic!("{}", answer.text()),
        }
    }
    let retries = gateway.metric("maitred_retries_total", &[]).await;
    let denied = gateway.metric("maitred_retries_denied_total", &[]).await;
    assert_eq!(spent.count() as f64, denied);
    println!("{budget}: of 30 calls on endpoints that all hang, {retries} further attempts, {denied} denied");
    (retries, denied)
}

#[tokio::test]
async fn further_attempts_keep_within_the_budget() {
    // A fifth of at most thirty active calls, and three that are always allowed when those fail too.
    let (retries, denied) = retries_with("retry: { budget: 20%, min: 3 }").await;
    assert!((3.0..=12.0).contains(&retries), "{retries}");
    assert!(denied >= 20.0, "{denied}");
    // The negative control: without a bound every call tries them all.
    let (retries, denied) = retries_with("retry: { budget: 100%, min: 1000 }").await;
    assert_eq!((retries, denied), (60.0, 0.0));
}

#[tokio::test]
async fn rates_of_refusals_and_failures_are_hidden() {
    let engines = Engine::start_several(3, &["--time-scale", "5"]).await;
    let config = Config::engines(&engines)
        .pool("staleness: { after: 5s }")
        .pool("retry: { budget: 100%, min: 100 }");
    let gateway = Gateway::ready(&config).await;
    engines[0].fault(r#"{"reject":0.3}"#).await;
    engines[1].fault(r#"{"fail":0.3}"#).await;
    let calls = steady(&gateway, 50.0)
        .run(Duration::from_secs(3), |number| streamed(number, 20, 10))
        .await;
    all_clean(&calls);
    let retries = gateway.metric("maitred_retries_total", &[]).await;
    println!("{} calls, all answered, with {retries} further attempts", calls.len());
    assert!(retries >= 5.0, "{retries}");
}
