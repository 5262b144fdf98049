//! Usage in streams is asked for always, and shown only to clients that asked (S19 of the translation rules).

use maitred_test::{Answer, BodyEnd, Play, ScriptedEndpoint, vllm};

use super::{chat, one};
use crate::table::{CHAT, Gateway, MODEL};

/// A stream with everything that may be between events: a comment, an event without choices, odd line ends, usage, the end.
fn stream() -> Vec<String> {
    vec![
        ": first\n\n".to_owned(),
        vllm::chat_event(MODEL, "well"),
        vllm::chat_event(MODEL, "done").replace('\n', "\r\n"),
        vllm::chat_end(MODEL, None).replace("data: [DONE]\n\n", ""),
        usage(),
        "data: [DONE]\n\n".to_owned(),
    ]
}

/// The event that holds nothing but usage, as vLLM sends it.
fn usage() -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"{MODEL}\",\
         \"choices\":[],\"usage\":{{\"prompt_tokens\":12,\"total_tokens\":14,\"completion_tokens\":2}}}}\n\n"
    )
}

/// Sends a body and gives what the endpoint got and the client got.
async fn exchange(endpoint: &ScriptedEndpoint, gateway: &Gateway, body: &str) -> (String, Answer) {
    let play = stream()
        .into_iter()
        .fold(Play::stream(), |play, event| play.chunk(event));
    endpoint.once(CHAT, play.end());
    let answer = gateway.ask(body).await;
    assert_eq!(
        (answer.status(), answer.end),
        (200, BodyEnd::Complete),
        "{}",
        answer.text()
    );
    let received = endpoint.next_on(CHAT).await.body;
    (String::from_utf8(received).unwrap(), answer)
}

#[tokio::test]
async fn usage_not_asked_for_is_asked_and_taken_out_again() {
    let (endpoint, gateway) = one().await;
    let all_but_usage = stream().concat().replace(&usage(), "");
    let check = async |options: &str, insertion: Option<&str>| {
        let body = chat(&format!(r#", "stream" : true{options}"#));
        let (received, answer) = exchange(&endpoint, &gateway, &body).await;
        let asked: serde_json::Value = serde_json::from_str(&received).unwrap();
        assert_eq!(asked["stream_options"]["include_usage"], true, "{received}");
        if let Some(insertion) = insertion {
            assert_eq!(received.replacen(insertion, "", 1), body);
        }
        assert_eq!(answer.text(), all_but_usage, "{options}");
    };
    check("", Some(r#""stream_options":{"include_usage":true},"#)).await;
    check(r#","stream_options":{}"#, Some(r#""include_usage":true"#)).await;
    check(r#","stream_options":{"other":1}"#, Some(r#""include_usage":true,"#)).await;
    check(r#","stream_options":null"#, None).await;
    check(r#","stream_options":{"include_usage":false}"#, None).await;
    for record in gateway.until_records(5).await {
        assert_eq!(
            (&record["input_tokens"], &record["output_tokens"]),
            (&12.into(), &2.into()),
            "{record}"
        );
        assert_eq!(record["usage_source"], "reported", "{record}");
    }
}

#[tokio::test]
async fn usage_asked_for_arrives_and_nothing_is_touched() {
    let (endpoint, gateway) = one().await;
    let body = chat(r#","stream":true,"stream_options":{"include_usage":true}"#);
    let (received, answer) = exchange(&endpoint, &gateway, &body).await;
    assert_eq!(received, body);
    assert_eq!(answer.text(), stream().concat());
}

#[tokio::test]
async fn it_does_not_matter_how_the_bytes_are_cut() {
    let (endpoint, gateway) = one().await;
    let whole = stream().concat();
    for size in [1, 2, 7, 64, whole.len()] {
        let pieces = whole.as_bytes().chunks(size);
        endpoint.once(CHAT, pieces.fold(Play::stream(), |play, piece| play.chunk(piece)).end());
        let answer = gateway.ask(super::streamed()).await;
        assert_eq!(
            (answer.text(), answer.end),
            (whole.replace(&usage(), ""), BodyEnd::Complete),
            "pieces of {size}"
        );
    }
    for record in gateway.until_records(5).await {
        assert_eq!(
            (&record["output_tokens"], &record["usage_source"]),
            (&2.into(), &"reported".into()),
            "{record}"
        );
    }
}

#[tokio::test]
async fn a_stream_without_usage_is_estimated() {
    let (endpoint, gateway) = one().await;
    let events = (0..7).fold(Play::stream(), |play, _| play.chunk(vllm::chat_event(MODEL, "word")));
    endpoint.on(CHAT, events.chunk(vllm::chat_end(MODEL, None)).end());
    assert_eq!(gateway.ask(super::streamed()).await.status(), 200);
    let records = gateway.until_records(1).await;
    let record = &records[0];
    // Seven with text, and the token that ends an answer.
    assert_eq!(
        (&record["usage_source"], &record["output_tokens"]),
        (&"estimated".into(), &8.into()),
        "{record}"
    );
    assert!(record["input_tokens"].as_u64().unwrap() > 0, "{record}");
    let labels = [("pool", crate::table::POOL)];
    assert_eq!(gateway.metric("maitred_usage_estimated_total", &labels).await, 1.0);
}
