use super::*;
use crate::{BodyEnd, Connection, Request};

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn the_face_is_that_of_a_ready_endpoint() {
    let endpoint = ScriptedEndpoint::start("tiny").await;
    let mut connection = Connection::open(endpoint.address()).await;
    for (path, part) in [
        ("/health", ""),
        ("/v1/models", "\"tiny\""),
        ("/metrics", "vllm:num_requests_waiting{"),
    ] {
        let answer = connection.call(&Request::get(path)).await;
        assert_eq!(answer.status(), 200, "{path}");
        assert!(answer.text().contains(part), "{path}: {}", answer.text());
    }
    assert_eq!(connection.call(&Request::get("/other")).await.status(), 404);
}

#[tokio::test]
async fn plays_of_one_time_come_before_the_standing_one() {
    let endpoint = ScriptedEndpoint::start("tiny").await;
    endpoint.once(CHAT, Play::json(500, "{}"));
    endpoint.once(CHAT, Play::json(429, "{}"));
    let mut connection = Connection::open(endpoint.address()).await;
    for status in [500, 429, 200, 200] {
        assert_eq!(
            connection.call(&Request::post(CHAT, "{\"a\":1}")).await.status(),
            status
        );
    }
    let received = endpoint.next_on(CHAT).await;
    assert_eq!(received.json()["a"], 1);
    assert_eq!(received.ended().await, End::Played);
    assert_eq!(endpoint.received_on(CHAT).len(), 4);
}

#[tokio::test]
async fn a_gate_holds_a_stream() {
    let endpoint = ScriptedEndpoint::start("tiny").await;
    let gate = Gate::closed();
    let event = |text| vllm::chat_event("tiny", text);
    endpoint.on(
        CHAT,
        Play::stream().chunk(event("one")).wait(&gate).chunk(event("two")).end(),
    );
    let mut connection = Connection::open(endpoint.address()).await;
    connection.start(&Request::post(CHAT, "{}")).await;
    let first = connection.event().await.expect("an event before the gate");
    assert_eq!(first.json()["choices"][0]["delta"]["content"], "one");
    assert_eq!(*endpoint.next_on(CHAT).await.end.borrow(), End::Playing);
    gate.let_one_pass();
    assert!(
        connection
            .event()
            .await
            .expect("an event behind the gate")
            .data
            .contains("two")
    );
    assert_eq!(connection.event().await, None);
    assert_eq!(connection.body_end(), BodyEnd::Complete);
}

#[tokio::test]
async fn cuts_and_resets_reach_the_caller() {
    let endpoint = ScriptedEndpoint::start("tiny").await;
    for play in [
        Play::stream().chunk("data: 1\n\n").cut(),
        Play::stream().chunk("data: 1\n\n").reset(),
    ] {
        endpoint.once(CHAT, play);
        let mut connection = Connection::open(endpoint.address()).await;
        connection.send(&Request::post(CHAT, "{}").to_bytes()).await;
        // A reset may overtake what was sent before it.
        if let Some(head) = connection.try_head().await {
            assert_eq!(connection.rest(head).await.end, BodyEnd::Cut);
        }
    }
}

#[tokio::test]
async fn a_caller_that_leaves_is_noticed() {
    let endpoint = ScriptedEndpoint::start("tiny").await;
    endpoint.on(CHAT, Play::silence());
    let mut connection = Connection::open(endpoint.address()).await;
    connection.send(&Request::post(CHAT, "{}").to_bytes()).await;
    let received = endpoint.next_on(CHAT).await;
    drop(connection);
    assert_eq!(received.ended().await, End::CallerClosed);
}

#[tokio::test]
async fn a_dropped_endpoint_refuses_and_may_come_back() {
    let endpoint = ScriptedEndpoint::start("tiny").await;
    let address = endpoint.address();
    drop(endpoint);
    crate::eventually("the port to close", async || TcpStream::connect(address).await.err()).await;
    let again = ScriptedEndpoint::start_at("tiny", address).await;
    assert_eq!(Request::get("/health").send(again.address()).await.status(), 200);
}
