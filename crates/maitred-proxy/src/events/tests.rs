use std::future::poll_fn;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::*;
use crate::answer::Asked;
use crate::link::Outgoing;
use crate::link::tests::linked;

const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
const OUTPUT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n";
const FINISH: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

/// A stream whose endpoint has sent `events` and does not close the connection.
async fn stream(events: &str, event_max: usize) -> (EventStream, TcpStream) {
    let (mut link, mut endpoint) = linked().await;
    endpoint.write_all(HEAD).await.unwrap();
    endpoint.write_all(events.as_bytes()).await.unwrap();
    let request = Outgoing {
        head: b"POST / HTTP/1.1\r\nhost: a\r\n\r\n",
        body: &[],
        asked: Asked::Whole,
    };
    link.send(request).await.unwrap();
    let stream = EventStream::new(link, Engine::default(), CallKind::Chat, UsageAsk::Nobody, event_max);
    (stream, endpoint)
}

/// Everything until the stream is delivered or fails.
async fn read(stream: &mut EventStream) -> (String, Option<Box<Failure>>) {
    let mut text = String::new();
    loop {
        while let Some(bytes) = stream.pop() {
            text.push_str(std::str::from_utf8(&bytes).unwrap());
        }
        let failure = stream.take_failure();
        if failure.is_some() || stream.is_delivered() {
            return (text, failure);
        }
        poll_fn(|cx| stream.poll_advance(cx)).await;
    }
}

#[tokio::test]
async fn an_answer_is_complete_before_its_body_ends() {
    let all = [OUTPUT, FINISH, DONE].concat();
    let (mut stream, mut endpoint) = stream(&all, 1 << 10).await;
    let (text, failure) = read(&mut stream).await;
    assert_eq!(text, all);
    assert!(failure.is_none() && !stream.is_over());
    // What comes after it is no part of it.
    endpoint.write_all(&[b'a'; 2 << 10]).await.unwrap();
    while !stream.is_over() {
        poll_fn(|cx| stream.poll_advance(cx)).await;
    }
    assert!(stream.take_failure().is_none() && stream.is_delivered());
}

#[tokio::test]
async fn an_answer_is_not_complete_before_its_last_event() {
    let (mut stream, endpoint) = stream(&[OUTPUT, FINISH].concat(), 1 << 10).await;
    poll_fn(|cx| stream.poll_advance(cx)).await;
    while stream.pop().is_some() {}
    assert!(!stream.is_delivered());
    drop(endpoint);
    assert!(read(&mut stream).await.1.is_some());
}

#[tokio::test]
async fn an_event_over_the_limit_is_not_the_endpoints_fault() {
    let (mut stream, _endpoint) = stream(&"a".repeat(2 << 10), 1 << 10).await;
    let failure = read(&mut stream).await.1.unwrap();
    assert_eq!(failure.end, LeaseEnd::Cancelled);
    assert!(failure.fault.message.contains("`limits.event`"), "{failure:?}");
    assert!(failure.fault.detail.unwrap().contains("`limits.event`"));
}
