//! Connections: how requests arrive on them, and what their end means.

use std::time::Duration;

use maitred_test::{Connection, End, Http2, Play, Request, ScriptedEndpoint, eventually, vllm, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{chat, one, one_with, streamed};
use crate::table::{CHAT, Config, Engine, Gateway, MODEL};

/// How long it may take until an endpoint hears that nobody waits for its answer.
const CANCELLED_WITHIN: Duration = Duration::from_secs(1);

#[tokio::test]
async fn one_connection_serves_many_calls() {
    let (_endpoint, gateway) = one().await;
    let mut connection = Connection::open(gateway.address).await;
    for _ in 0..3 {
        assert_eq!(connection.call(&gateway.chat(chat(""))).await.status(), 200);
    }
    // A refusal whose body was read does not end it either.
    let refused = gateway.chat(r#"{"model":"none"}"#);
    assert_eq!(connection.call(&refused).await.status(), 404);
    assert_eq!(
        connection
            .call(&Request::get("/v1/models").bearer(&gateway.key))
            .await
            .status(),
        200
    );
    assert_eq!(gateway.metric("maitred_open_connections", &[]).await, 1.0);
}

#[tokio::test]
async fn calls_sent_at_once_are_answered_in_order() {
    let (_endpoint, gateway) = one().await;
    let mut connection = Connection::open(gateway.address).await;
    let calls = ["first", "second", "third"].map(|id| gateway.chat(chat("")).header("x-request-id", id).to_bytes());
    connection.send(&calls.concat()).await;
    for id in ["first", "second", "third"] {
        let head = connection.head().await;
        let answer = connection.rest(head).await;
        assert_eq!((answer.status(), answer.header("x-request-id")), (200, Some(id)));
    }
}

#[tokio::test]
async fn a_body_may_come_in_chunks() {
    let (endpoint, gateway) = one().await;
    let body = chat("");
    let mut framed = String::new();
    for piece in body.as_bytes().chunks(7) {
        let piece = std::str::from_utf8(piece).unwrap();
        framed.push_str(&format!("{:x};extension=1\r\n{piece}\r\n", piece.len()));
    }
    framed.push_str("0\r\nx-trailer: 1\r\n\r\n");
    let request = gateway.chat("").header("transfer-encoding", "chunked").body(framed);
    let mut connection = Connection::open(gateway.address).await;
    for _ in 0..2 {
        assert_eq!(connection.call(&request).await.status(), 200);
        let received = endpoint.next_on(CHAT).await;
        assert_eq!(received.body, body.as_bytes());
        let length = body.len().to_string();
        assert_eq!(received.head.header("content-length"), Some(length.as_str()));
        assert_eq!(received.head.header("x-trailer"), None);
    }
}

/// Reads until `wanted` has come, and gives all that came.
async fn read_until(stream: &mut TcpStream, wanted: &str) -> String {
    let mut seen = Vec::new();
    let reading = async {
        while !String::from_utf8_lossy(&seen).contains(wanted) {
            assert!(
                stream.read_buf(&mut seen).await.unwrap() > 0,
                "closed before {wanted:?} came"
            );
        }
    };
    within(wanted, reading).await;
    String::from_utf8(seen).unwrap()
}

#[tokio::test]
async fn a_client_that_asks_before_it_sends_is_told_to_go_on() {
    let (endpoint, gateway) = one().await;
    let request = gateway.chat(chat("")).header("expect", "100-continue").to_bytes();
    let (head, body) = request.split_at(request.len() - chat("").len());
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    stream.write_all(head).await.unwrap();
    read_until(&mut stream, "HTTP/1.1 100 Continue\r\n\r\n").await;
    stream.write_all(body).await.unwrap();
    assert!(
        read_until(&mut stream, "\r\n\r\n")
            .await
            .starts_with("HTTP/1.1 200 OK\r\n")
    );
    assert_eq!(endpoint.next_on(CHAT).await.head.header("expect"), None);
    // A stranger is told at once, and sends nothing in vain.
    let request = Request::post(CHAT, chat(""))
        .bearer("wrong")
        .header("expect", "100-continue")
        .to_bytes();
    let (head, _) = request.split_at(request.len() - chat("").len());
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    stream.write_all(head).await.unwrap();
    assert!(
        read_until(&mut stream, "invalid_key")
            .await
            .starts_with("HTTP/1.1 401 Unauthorized\r\n")
    );
}

#[tokio::test]
async fn an_old_client_gets_an_old_answer() {
    let (_endpoint, gateway) = one().await;
    let request = String::from_utf8(gateway.chat(chat("")).to_bytes())
        .unwrap()
        .replace("HTTP/1.1", "HTTP/1.0");
    let mut connection = Connection::open(gateway.address).await;
    connection.send(request.as_bytes()).await;
    let head = connection.head().await;
    assert_eq!(head.status(), 200);
    assert!(connection.rest(head).await.text().contains("well done"));
    connection.closed().await;
}

#[tokio::test]
async fn an_endpoint_may_close_its_connection_after_any_answer() {
    let (endpoint, gateway) = one().await;
    // As uvicorn does when it restarts, without saying so before.
    endpoint.on(CHAT, Play::json(200, &vllm::chat(MODEL, "one")).cut());
    let mut connection = Connection::open(gateway.address).await;
    for _ in 0..20 {
        assert_eq!(connection.call(&gateway.chat(chat(""))).await.status(), 200);
    }
    let records = gateway.until_records(20).await;
    assert!(records.iter().all(|record| record["attempts"] == 1), "{records:#?}");
    assert_eq!(endpoint.received_on(CHAT).len(), 20);
}

/// Leaves during `play`, and sees whether the endpoint hears of it.
async fn leave(play: Play, body: String) -> (Gateway, ScriptedEndpoint) {
    let (endpoint, gateway) = one().await;
    endpoint.on(CHAT, play);
    let mut connection = Connection::open(gateway.address).await;
    connection.send(&gateway.chat(&body).to_bytes()).await;
    let received = endpoint.next_on(CHAT).await;
    if body.contains("stream") {
        assert!(connection.try_head().await.is_some());
        assert!(connection.event().await.is_some());
    }
    drop(connection);
    let ended = tokio::time::timeout(CANCELLED_WITHIN, received.ended()).await;
    assert_eq!(ended, Ok(End::CallerClosed));
    gateway.until_idle().await;
    (gateway, endpoint)
}

#[tokio::test]
async fn a_client_that_leaves_before_the_answer_cancels_it() {
    let (gateway, endpoint) = leave(Play::silence(), chat("")).await;
    let record = gateway.until_records(1).await.remove(0);
    assert_eq!(
        (&record["outcome"], &record["status"]),
        (&"client_closed".into(), &499.into()),
        "{record}"
    );
    // It says nothing about the endpoint.
    assert_eq!(gateway.endpoint(endpoint.address()).await.unwrap()["errors"], 0);
}

#[tokio::test]
async fn a_client_that_leaves_in_mid_stream_cancels_it() {
    let event = vllm::chat_event(MODEL, "word");
    let (gateway, _endpoint) = leave(Play::stream().chunk(event).hang(), streamed()).await;
    let record = gateway.until_records(1).await.remove(0);
    assert_eq!(
        (&record["outcome"], &record["status"]),
        (&"client_closed".into(), &200.into()),
        "{record}"
    );
    // What was generated until then has been used.
    assert_eq!(
        (&record["output_tokens"], &record["usage_source"]),
        (&1.into(), &"estimated".into()),
        "{record}"
    );
}

#[tokio::test]
async fn an_engine_stops_working_for_a_client_that_left() {
    let engine = Engine::start(&["--output-tokens", "100000", "--output-variation", "0"]).await;
    let gateway = Gateway::ready(&Config::of([engine.address])).await;
    let running = async || engine.state().await["running"].as_u64().unwrap();
    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut connection = Connection::open(gateway.address).await;
        let body = chat(r#","stream":true,"max_tokens":20000"#);
        assert_eq!(connection.start(&gateway.chat(body)).await.status(), 200);
        assert!(connection.event().await.is_some());
        clients.push(connection);
    }
    assert_eq!(running().await, 4);
    clients.truncate(1);
    let fallen = eventually("three to stop", async || (running().await == 1).then_some(()));
    assert!(tokio::time::timeout(CANCELLED_WITHIN, fallen).await.is_ok());
    assert!(clients.remove(0).event().await.is_some(), "the one that stayed goes on");
}

/// A stream whose client grants it no more room is not asked for the rest, and yet it must not be held for as long as a call may take.
#[tokio::test]
async fn an_http2_client_that_takes_nothing_is_given_up() {
    let (endpoint, gateway) = one_with(|config| config.file("timeouts: { idle: 500ms }")).await;
    // More than the client and all buffers on the way hold.
    let word = vllm::chat_event(MODEL, &"word ".repeat(2000));
    let play = (0..1600).fold(Play::stream(), |play, _| play.chunk(word.as_str()));
    endpoint.once(CHAT, play.hang());
    let client = Http2::open(gateway.address).await;
    let answer = client
        .begin(client.request(CHAT, &gateway.key, &streamed()))
        .await
        .unwrap();
    assert_eq!(answer.status(), 200);
    let record = &gateway.until_records(1).await[0];
    assert_eq!(record["outcome"], "client_closed", "{record}");
    assert_eq!(endpoint.next_on(CHAT).await.ended().await, End::CallerClosed);
    gateway.until_idle().await;
    // The connection itself is sound.
    assert_eq!(client.post(CHAT, &gateway.key, &chat("")).await.0, 200);
}
