use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

/// What the client makes of `wire` and a close after it.
async fn answer(wire: &str) -> Answer {
    let (client, mut server) = tokio::io::duplex(1 << 16);
    server.write_all(wire.as_bytes()).await.expect("room in the pipe");
    drop(server);
    let mut connection = Connection::over(client);
    let head = connection.head().await;
    connection.rest(head).await
}

async fn check(wire: &str, status: u16, body: &str, end: BodyEnd) {
    let answer = answer(wire).await;
    assert_eq!(
        (answer.status(), answer.text().as_str(), answer.end),
        (status, body, end),
        "{wire}"
    );
}

#[tokio::test]
async fn bodies_end_as_their_framing_says() {
    use BodyEnd::{Complete, Cut};
    check("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd", 200, "abc", Complete).await;
    check("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc", 200, "abc", Cut).await;
    check("HTTP/1.1 204 No Content\r\n\r\n", 204, "", Complete).await;
    check("HTTP/1.0 502 Bad\r\n\r\nto the end", 502, "to the end", Complete).await;
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n";
    check(&format!("{chunked}0\r\n\r\n"), 200, "abcde", Complete).await;
    check(&format!("{chunked}0\r\ntrailer: x\r\n\r\n"), 200, "abcde", Complete).await;
    check(chunked, 200, "abcde", Cut).await;
    check(&format!("{chunked}5\r\nfg"), 200, "abcde", Cut).await;
    check(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        200,
        "",
        Complete,
    )
    .await;
}

#[tokio::test]
async fn a_close_without_an_answer_is_seen() {
    let (client, server) = tokio::io::duplex(64);
    drop(server);
    assert_eq!(Connection::over(client).try_head().await, None);
}

#[tokio::test]
async fn a_request_goes_out_as_written() {
    let (client, mut server) = tokio::io::duplex(1 << 16);
    let mut connection = Connection::over(client);
    connection
        .send(&Request::post("/v1/x?y=z", "{}").bearer("k").to_bytes())
        .await;
    drop(connection);
    let mut sent = String::new();
    server.read_to_string(&mut sent).await.expect("text");
    assert_eq!(
        sent,
        "POST /v1/x?y=z HTTP/1.1\r\nhost: maitred.test\r\ncontent-type: application/json\r\nauthorization: Bearer k\r\n\
         content-length: 2\r\n\r\n{}"
    );
}
