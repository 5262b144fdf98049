//! Connections that do not speak, or not as they should.

use maitred_test::{Connection, eventually};
use tokio::net::TcpStream;

use super::{Target, call};

#[tokio::test]
async fn what_is_not_http_is_refused() {
    let target = Target::new().await;
    let hello =
        b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\r\n\r\n";
    for bytes in [
        &hello[..],
        b"\0\0\0\0\0\0\0\0\0\0\0\0\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / FTP/1.0\r\n\r\n",
    ] {
        target.check_bytes(bytes, 400, "malformed_request").await;
    }
    // No call came of them, so there are no records; but they are counted.
    let refused = target
        .gateway
        .metric("maitred_refused_calls_total", &[("fault", "malformed_request")])
        .await;
    assert_eq!((refused, target.gateway.records().len()), (5.0, 0));
    target.check_unharmed().await;
}

#[tokio::test]
async fn random_bytes_do_no_harm() {
    let target = Target::new().await;
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..200 {
        let mut connection = Connection::open(target.gateway.address).await;
        let length = random.usize(1..600);
        let mut bytes: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(length).collect();
        if random.bool() {
            // A call with some bytes changed comes further.
            bytes = call(1).to_bytes();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..bytes.len());
                bytes[at] = random.u8(..);
            }
        }
        connection.send(&bytes).await;
        connection.shut().await;
        if let Some(head) = connection.try_head().await {
            connection.rest(head).await;
        }
    }
    // Some of the changed calls are good ones.
    assert_eq!(call(1).send(target.gateway.address).await.status(), 200);
    target.gateway.until_idle().await;
    target.gateway.until_connections(0).await;
    assert!(
        !target.gateway.child.output().contains("panicked"),
        "{}",
        target.gateway.child.output()
    );
}

#[tokio::test]
async fn who_does_not_speak_is_sent_away() {
    let target = Target::with(|config| config.file("timeouts: { header_read: 300ms }")).await;
    let whole = call(1).to_bytes();
    for beginning in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n", b"POST /v1/ch", &whole[..120]] {
        let mut connection = Connection::open(target.gateway.address).await;
        connection.send(beginning).await;
        connection.closed().await;
    }
    // One header after another, each in time, is no better.
    let mut connection = Connection::open(target.gateway.address).await;
    connection.send(b"POST /v1/chat/completions HTTP/1.1\r\n").await;
    eventually("the end of the connection", async || {
        connection.send(b"x-more: 1\r\n").await;
        (target.gateway.metric("maitred_open_connections", &[]).await == 0.0).then_some(())
    })
    .await;
    // Between two calls there is the same time.
    let mut connection = Connection::open(target.gateway.address).await;
    assert_eq!(connection.call(&call(1).body("{")).await.status(), 400);
    connection.closed().await;
    target.check_unharmed().await;
}

#[tokio::test]
async fn connections_have_a_limit() {
    let target = Target::with(|config| config.file("limits: { connections: 3 }")).await;
    let mut held = Vec::new();
    for number in 1..=3 {
        held.push(TcpStream::connect(target.gateway.address).await.unwrap());
        target.gateway.until_connections(number).await;
    }
    let mut fourth = Connection::open(target.gateway.address).await;
    fourth.closed().await;
    let refused = target
        .gateway
        .metric("maitred_connections_refused_total", &[("reason", "too_many")])
        .await;
    assert_eq!(refused, 1.0);
    drop(held);
    target.gateway.until_connections(0).await;
    target.check_unharmed().await;
}

#[tokio::test]
async fn clients_that_vanish_leave_nothing() {
    let target = Target::new().await;
    let whole = call(1).to_bytes();
    for cut in (0..whole.len()).step_by(9) {
        let mut connection = Connection::open(target.gateway.address).await;
        connection.send(&whole[..cut]).await;
    }
    target.gateway.until_connections(0).await;
    target.check_unharmed().await;
}
