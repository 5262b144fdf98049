//! Streams that do not go well: timeouts, breaks, and what the client sees of them.

use maitred_test::{Answer, BodyEnd, Connection, Gate, Play, ScriptedEndpoint, background, eventually, vllm, within};
use serde_json::Value;

use super::{chat, one_with, streamed};
use crate::table::{CHAT, Config, Gateway, MODEL};

fn word() -> String {
    vllm::chat_event(MODEL, "word")
}

/// The answer of a gateway with one endpoint that plays `play`, and the record of the call.
async fn answer(timeouts: &str, play: Play) -> (Answer, Value) {
    let (endpoint, gateway) = one_with(|config| config.file(timeouts)).await;
    endpoint.on(CHAT, play);
    let answer = gateway.ask(streamed()).await;
    let record = gateway.until_records(1).await.remove(0);
    gateway.until_idle().await;
    (answer, record)
}

/// Sees that an answer broke off honestly: what came before is there, then an error event, no mark of the end, no clean end.
fn check_broken(answer: &Answer, record: &Value, fault: &str) {
    assert_eq!(answer.status(), 200);
    let events = answer.events();
    let (last, before) = events.split_last().expect("events");
    assert!(
        before.iter().any(|event| event.data.contains("word")),
        "{}",
        answer.text()
    );
    let error = &last.json()["error"];
    assert_eq!(error["code"], fault, "{}", answer.text());
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()));
    assert!(!events.iter().any(maitred_test::Event::is_done), "{}", answer.text());
    assert_eq!(answer.end, BodyEnd::Cut, "{}", answer.text());
    assert_eq!(
        (&record["outcome"], &record["fault"]),
        (&"broken".into(), &fault.into()),
        "{record}"
    );
}

#[tokio::test]
async fn a_stream_that_is_cut_or_reset_breaks_off_honestly() {
    for play in [
        Play::stream().chunk(word()).cut(),
        Play::stream().chunk(word()).chunk("data: {\"id\":").cut(),
    ] {
        let (answer, record) = answer("", play).await;
        check_broken(&answer, &record, "upstream_broken");
        assert_eq!(
            (&record["output_tokens"], &record["usage_source"]),
            (&1.into(), &"estimated".into()),
            "{record}"
        );
    }
}

#[tokio::test]
async fn a_stream_without_its_mark_of_the_end_is_no_success() {
    let (answer, record) = answer("", Play::stream().chunk(word()).end()).await;
    check_broken(&answer, &record, "upstream_broken");
}

#[tokio::test]
async fn an_error_before_the_mark_of_the_end_is_an_error() {
    // So a dying vLLM ends its streams: an error inside the 200, then the mark of a good end.
    let error = r#"{"error":{"message":"EngineCore encountered an issue.","type":"InternalServerError","param":null,"code":500}}"#;
    let play = Play::stream()
        .chunk(word())
        .chunk(format!("data: {error}\n\n"))
        .chunk("data: [DONE]\n\n")
        .end();
    let (answer, record) = answer("", play).await;
    check_broken(&answer, &record, "upstream_error");
}

#[tokio::test]
async fn an_aborted_answer_is_no_success() {
    // So a vLLM that was told to go ends its streams.
    let finish = vllm::chat_end(MODEL, None).replace("\"stop\"", "\"abort\"");
    let (answer, record) = answer("", Play::stream().chunk(word()).chunk(finish).end()).await;
    check_broken(&answer, &record, "upstream_aborted");
}

#[tokio::test]
async fn silence_in_mid_stream_ends_it() {
    let (answer, record) = answer("timeouts: { idle: 300ms }", Play::stream().chunk(word()).hang()).await;
    check_broken(&answer, &record, "idle_timeout");
}

/// A play of many steps, each behind the gate.
fn paced(gate: &Gate, steps: usize, step: &str) -> Play {
    (0..steps).fold(Play::stream().chunk(word()), |play, _| play.wait(gate).chunk(step))
}

/// Lets the gate's plays go on, step by step, until `answer` is there.
async fn driven(gate: &Gate, gateway: &Gateway) -> Answer {
    let request = gateway.chat(streamed());
    let address = gateway.address;
    let (told, mut is_over) = tokio::sync::watch::channel(false);
    let answer = background(async move {
        let answer = request.send(address).await;
        told.send_replace(true);
        answer
    });
    eventually("the end of the answer", async || {
        gate.let_one_pass();
        is_over.borrow_and_update().then_some(())
    })
    .await;
    answer.join().await
}

#[tokio::test]
async fn comments_are_no_sign_of_life() {
    let (endpoint, gateway) = one_with(|config| config.file("timeouts: { idle: 300ms }")).await;
    let gate = Gate::closed();
    endpoint.on(CHAT, paced(&gate, 3_000, ": keep-alive\n\n").hang());
    let answer = driven(&gate, &gateway).await;
    let record = gateway.until_records(1).await.remove(0);
    check_broken(&answer, &record, "idle_timeout");
}

#[tokio::test]
async fn events_are_a_sign_of_life() {
    let (endpoint, gateway) = one_with(|config| config.file("timeouts: { idle: 1s }")).await;
    let gate = Gate::closed();
    endpoint.on(
        CHAT,
        paced(&gate, 150, &word()).chunk(vllm::chat_end(MODEL, None)).end(),
    );
    let answer = driven(&gate, &gateway).await;
    assert_eq!(answer.end, BodyEnd::Complete);
    assert!(answer.events().last().is_some_and(maitred_test::Event::is_done));
    let record = gateway.until_records(1).await.remove(0);
    assert!(record["duration_ms"].as_f64().unwrap() > 1_000.0, "{record}");
    assert_eq!(record["outcome"], "answered");
}

#[tokio::test]
async fn the_whole_call_has_its_time() {
    let (endpoint, gateway) =
        one_with(|config| config.file("timeouts: { connect: 1s, first_token: 1s, idle: 1s, total: 1s }")).await;
    let gate = Gate::closed();
    endpoint.on(CHAT, paced(&gate, 3_000, &word()).hang());
    let answer = driven(&gate, &gateway).await;
    let record = gateway.until_records(1).await.remove(0);
    check_broken(&answer, &record, "call_timeout");
}

#[tokio::test]
async fn an_endpoint_without_output_is_given_up_for_another() {
    let silent = ScriptedEndpoint::start(MODEL).await;
    let good = ScriptedEndpoint::start(MODEL).await;
    // A role and comments are no output.
    let role = vllm::chat_event(MODEL, "").replace("\"content\"", "\"role\":\"assistant\",\"content\"");
    silent.on(CHAT, Play::stream().chunk(role).chunk(": wait\n\n").hang());
    good.on(CHAT, Play::chat_stream(MODEL, &["word"]));
    let config = Config::of([silent.address(), good.address()]).file("timeouts: { connect: 1s, first_token: 1s }");
    let gateway = Gateway::ready(&config.pool("profile: round-robin")).await;
    for _ in 0..2 {
        let answer = gateway.ask(streamed()).await;
        assert_eq!((answer.status(), answer.end), (200, BodyEnd::Complete));
        assert!(
            answer.events().last().is_some_and(maitred_test::Event::is_done),
            "{}",
            answer.text()
        );
    }
    let records = gateway.until_records(2).await;
    let attempts: Vec<_> = records
        .iter()
        .map(|record| record["attempts"].as_u64().unwrap())
        .collect();
    assert_eq!(
        attempts.iter().sum::<u64>(),
        3,
        "one of two calls met the silent endpoint: {records:#?}"
    );
    assert_eq!(
        silent.next_on(CHAT).await.ended().await,
        maitred_test::End::CallerClosed
    );
    assert_eq!(
        gateway
            .metric("maitred_retries_total", &[("fault", "first_token_timeout")])
            .await,
        1.0
    );
    gateway.until_idle().await;
}

#[tokio::test]
async fn with_no_other_endpoint_the_silence_is_an_error() {
    let times = "timeouts: { connect: 200ms, first_token: 200ms, idle: 1s, total: 1s }";
    let (endpoint, gateway) = one_with(|config| config.file(times)).await;
    endpoint.on(CHAT, Play::silence());
    // What is not streamed comes at its end, so only the whole call's time bounds it.
    for (body, fault) in [(streamed(), "first_token_timeout"), (chat(""), "call_timeout")] {
        let answer = gateway.ask(body).await;
        assert_eq!((answer.status(), &answer.json()["error"]["code"]), (504, &fault.into()));
        let record = gateway.records_with(|record| record["fault"] == fault).await.remove(0);
        assert_eq!(
            (&record["outcome"], &record["status"]),
            (&"failed".into(), &504.into()),
            "{record}"
        );
        // Whose time is up is charged like one that left; a silent endpoint is not the caller's fault.
        let (output, source) = (record["output_tokens"].as_u64(), record["usage_source"].as_str());
        if fault == "call_timeout" {
            // A second's worth.
            assert!((80..200).contains(&output.unwrap_or_default()), "{record}");
            assert_eq!(source, Some("estimated"), "{record}");
        } else {
            assert_eq!((output, source), (None, None), "{record}");
        }
        assert_eq!(
            endpoint.next_on(CHAT).await.ended().await,
            maitred_test::End::CallerClosed
        );
    }
    // The endpoint is blamed for the one, not for the other.
    assert_eq!(gateway.endpoint(endpoint.address()).await.unwrap()["errors"], 1);
}

#[tokio::test]
async fn an_event_beyond_the_limit_is_refused_honestly() {
    let huge = vllm::chat_event(MODEL, &"x".repeat(1 << 20));
    // After output the stream breaks off.
    let play = Play::stream()
        .chunk(word())
        .chunk(huge.clone())
        .chunk(vllm::chat_end(MODEL, None))
        .end();
    let (answered, record) = answer("", play).await;
    check_broken(&answered, &record, "upstream_malformed");
    // Before it there is a plain error.
    let (refused, record) = answer("", Play::stream().chunk(huge.clone()).hang()).await;
    assert_eq!(
        (refused.status(), &refused.json()["error"]["code"]),
        (502, &"upstream_malformed".into())
    );
    assert_eq!(record["outcome"], "failed");
    // It is a limit of the configuration, not of nature.
    let play = Play::stream()
        .chunk(huge.clone())
        .chunk(vllm::chat_end(MODEL, None))
        .end();
    let (answered, _) = answer("limits: { event: 2MiB }", play).await;
    assert_eq!((answered.status(), answered.end), (200, BodyEnd::Complete));
    assert!(answered.body.len() > huge.len());
}

#[tokio::test]
async fn nothing_is_held_back() {
    let (endpoint, gateway) = one_with(|config| config).await;
    let gate = Gate::closed();
    endpoint.on(CHAT, paced(&gate, 3, &word()).chunk(vllm::chat_end(MODEL, None)).end());
    let mut connection = Connection::open(gateway.address).await;
    assert_eq!(connection.start(&gateway.chat(streamed())).await.status(), 200);
    for _ in 0..3 {
        // Each event arrives although nothing follows it.
        assert!(connection.event().await.unwrap().data.contains("word"));
        gate.let_one_pass();
    }
    let rest = async { while connection.event().await.is_some() {} };
    within("the rest", rest).await;
    assert_eq!(connection.body_end(), BodyEnd::Complete);
}

#[tokio::test]
async fn a_client_that_takes_nothing_is_given_up() {
    let (endpoint, gateway) = one_with(|config| config.file("timeouts: { idle: 300ms }")).await;
    let large = vllm::chat_event(MODEL, &"x".repeat(512 << 10));
    endpoint.on(
        CHAT,
        (0..128)
            .fold(Play::stream().chunk(word()), |play, _| play.chunk(large.clone()))
            .hang(),
    );
    let mut connection = Connection::open(gateway.address).await;
    assert_eq!(connection.start(&gateway.chat(streamed())).await.status(), 200);
    // Nothing is read from here on, and the connection stays open at this end.
    assert_eq!(
        endpoint.next_on(CHAT).await.ended().await,
        maitred_test::End::CallerClosed
    );
    let record = gateway.until_records(1).await.remove(0);
    assert_eq!(record["outcome"], "client_closed", "{record}");
    assert_eq!(
        gateway.endpoint(endpoint.address()).await.unwrap()["errors"],
        0,
        "it is not the endpoint's fault"
    );
    gateway.until_idle().await;
    gateway.until_connections(0).await;
    drop(connection);
}

#[tokio::test]
async fn a_slow_reader_holds_back_its_own_endpoint_only() {
    // Far more than all buffers on the way: the gateway must not read it all into memory.
    let (endpoint, gateway) = one_with(|config| config).await;
    let gate = Gate::closed();
    let large = vllm::chat_event(MODEL, &"x".repeat(512 << 10));
    let flood = (0..64).fold(Play::stream().chunk(word()), |play, _| play.chunk(large.clone()));
    endpoint.once(CHAT, flood.wait(&gate).chunk(vllm::chat_end(MODEL, None)).end());
    let before = gateway.resident_bytes();
    let mut slow = Connection::open(gateway.address).await;
    assert_eq!(slow.start(&gateway.chat(streamed())).await.status(), 200);
    // Other calls go on meanwhile.
    assert_eq!(gateway.ask(chat("")).await.status(), 200);
    // What may be held is held soon; then the endpoint stands still, and so does the gateway.
    let (mut held, mut unchanged) = (0, 0);
    eventually("the gateway to stand still", async || {
        let now = gateway.resident_bytes();
        unchanged = if now == held { unchanged + 1 } else { 0 };
        held = now;
        (unchanged == 20).then_some(())
    })
    .await;
    let grown = held.saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes held for a reader that does not read");
    gate.open();
    let rest = async { while slow.piece().await.is_some() {} };
    within("the rest", rest).await;
    assert_eq!(slow.body_end(), BodyEnd::Complete);
    let grown = gateway.resident_bytes().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes held for a reader that is slow");
}

/// What an endpoint owes after the last event is of no interest to the client.
#[tokio::test]
async fn an_endpoint_that_falls_silent_after_the_last_event_has_answered() {
    let (endpoint, gateway) = one_with(|config| config.file("timeouts: { idle: 2s }")).await;
    let events = vllm::chat_event(MODEL, "one") + &vllm::chat_end(MODEL, None);
    endpoint.once(CHAT, Play::stream().chunk(events.as_str()).hang());
    let answer = gateway.ask(streamed()).await;
    assert_eq!((answer.text(), answer.end), (events, BodyEnd::Complete));
    let record = &gateway.until_records(1).await[0];
    assert_eq!(record["outcome"], "answered", "{record}");
}
