//! Faults after the first output: an error event in the client's dialect, no proper end, and a connection that is cut.

use super::*;

/// How an endpoint is made to fail in the middle of its answer.
enum By<'a> {
    /// A fault that is there from the start.
    Fault(&'a str),
    /// A command, once output has come.
    Command(&'a str),
    /// A signal, once output has come.
    Signal(Signal),
}

async fn honest(flavor: &str, by: By<'_>, expected: &str) {
    // Slow enough for the command to come in the middle of an answer.
    let engine = Engine::start(&["--flavor", flavor, "--profile", "l40s-8b"]).await;
    let config = Config::of([engine.address])
        .pool(&format!("engine: {flavor}"))
        .pool(PATIENT)
        .file("timeouts: { idle: 500ms }");
    let gateway = Gateway::ready(&config).await;
    if let By::Fault(fault) = by {
        engine.fault(fault).await;
    }
    let mut connection = Connection::open(gateway.address).await;
    let head = connection.start(&gateway.chat(streamed(0, 5, 400))).await;
    assert_eq!(head.status(), 200);
    let mut events = Vec::new();
    while let Some(event) = connection.event().await {
        events.push(event.data);
        if events.len() == 3 {
            match by {
                By::Fault(_) => {}
                By::Command(name) => engine.command(name).await,
                By::Signal(signal) => engine.child.signal(signal),
            }
        }
    }
    let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
    println!("{flavor}: {} events, then {last}", events.len() - 1);
    assert_eq!(last["error"]["code"], expected, "{events:#?}");
    assert_eq!(connection.body_end(), BodyEnd::Cut);
    assert!(
        events
            .iter()
            .all(|data| data != "[DONE]" && !data.contains(r#""finish_reason":""#)),
        "{events:#?}"
    );
    assert!(events.len() >= 3, "{events:#?}");
    let record = &gateway.until_records(1).await[0];
    assert_eq!(
        (record["outcome"].as_str(), record["fault"].as_str()),
        (Some("broken"), Some(expected)),
        "{record}"
    );
}

#[tokio::test]
async fn an_answer_that_falls_silent() {
    honest("vllm", By::Fault(r#"{"hang_after":3}"#), "idle_timeout").await;
}

#[tokio::test]
async fn an_answer_that_is_cut() {
    honest("vllm", By::Fault(r#"{"cut_after":3}"#), "upstream_broken").await;
}

#[tokio::test]
async fn an_error_event_before_a_proper_end() {
    honest("vllm", By::Fault(r#"{"error_after":3}"#), "upstream_error").await;
}

/// vLLM ends a stream whose engine died with an error object inside the 200, and then `[DONE]`.
#[tokio::test]
async fn a_vllm_whose_engine_dies() {
    honest("vllm", By::Command("die"), "upstream_error").await;
}

/// vLLM ends its streams with the reason `abort` and `[DONE]` when it is told to go.
#[tokio::test]
async fn a_vllm_that_is_told_to_go() {
    honest("vllm", By::Signal(Signal::Terminate), "upstream_aborted").await;
}

#[tokio::test]
async fn a_vllm_that_is_killed() {
    honest("vllm", By::Signal(Signal::Kill), "upstream_broken").await;
}

/// SGLang cuts the body without a word.
#[tokio::test]
async fn an_sglang_whose_engine_dies() {
    honest("sglang", By::Command("die"), "upstream_broken").await;
}

#[tokio::test]
async fn an_endpoint_that_is_frozen() {
    honest("vllm", By::Signal(Signal::Stop), "idle_timeout").await;
}

/// A call that is no stream has shown nothing yet, however far it was: it moves.
#[tokio::test]
async fn a_whole_answer_that_breaks_moves() {
    let check = async |fault: &str| {
        let engines = Engine::start_several(2, &["--time-scale", "20"]).await;
        let gateway = Gateway::ready(&Config::engines(&engines).pool(PATIENT)).await;
        engines[0].fault(fault).await;
        for _ in 0..2 {
            let body = format!(r#"{{"model":"{MODEL}","max_tokens":9,"messages":[{{"role":"user","content":"Hi"}}]}}"#);
            let answer = gateway.ask(body).await;
            assert_eq!(
                (answer.status(), &answer.json()["choices"][0]["finish_reason"]),
                (200, &Value::from("length"))
            );
        }
        let records = gateway.until_records(2).await;
        let attempts: u64 = records.iter().map(|record| record["attempts"].as_u64().unwrap()).sum();
        assert_eq!(attempts, 3, "{fault}: {records:#?}");
    };
    check(r#"{"cut_after":3}"#).await;
    check(r#"{"error_after":3}"#).await;
    check(r#"{"fail":1}"#).await;
}

#[test]
fn the_reader_of_these_tests_sees_a_proper_end() {
    let events = SseReader::all(b"data: {}\n\ndata: [DONE]\n\n");
    assert!(events.last().is_some_and(Event::is_done));
}
