use std::net::Ipv4Addr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const HEAD: &[u8] = b"POST / HTTP/1.1\r\nhost: a\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A link and the endpoint's end of it.
pub(crate) async fn linked() -> (Link, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = Address::from(listener.local_addr().unwrap().to_string().as_str());
    let open = Link::open(&address, None, Duration::from_secs(10));
    let (link, accepted) = tokio::join!(open, listener.accept());
    (link.unwrap(), accepted.unwrap().0)
}

fn request<'a>(body: &'a [Bytes]) -> Outgoing<'a> {
    Outgoing {
        head: HEAD,
        body,
        asked: Asked::Whole,
    }
}

/// Everything that comes of the body, and whether it ended well.
async fn body(link: &mut Link) -> (Vec<u8>, bool) {
    let mut all = Vec::new();
    loop {
        match poll_fn(|cx| link.poll_chunk(cx)).await {
            Some(Ok(chunk)) => all.extend_from_slice(&chunk),
            Some(Err(_)) => return (all, false),
            None => return (all, true),
        }
    }
}

/// Waits until the link's socket has something to tell, an end included.
async fn told(link: &Link) {
    link.stream.readable().await.unwrap();
}

#[tokio::test]
async fn a_link_is_used_again_and_notices_that_it_was_closed() {
    let (mut link, mut endpoint) = linked().await;
    for _ in 0..2 {
        assert!(link.is_usable());
        let parts = [Bytes::from_static(b"one "), Bytes::new(), Bytes::from_static(b"two")];
        let serve = async {
            let mut read = vec![0; HEAD.len() + 7];
            endpoint.read_exact(&mut read).await.unwrap();
            assert_eq!(read, [HEAD, b"one two"].concat());
            endpoint.write_all(OK).await.unwrap();
        };
        let (head, ()) = tokio::join!(link.send(request(&parts)), serve);
        assert_eq!(head.unwrap().status, 200);
        assert_eq!(body(&mut link).await, (b"ok".to_vec(), true));
    }
    drop(endpoint);
    told(&link).await;
    assert!(!link.is_usable());
}

#[tokio::test]
async fn bytes_that_nobody_asked_for_end_the_use_of_a_link() {
    let (mut link, mut endpoint) = linked().await;
    assert!(link.is_usable());
    endpoint.write_all(OK).await.unwrap();
    told(&link).await;
    assert!(!link.is_usable());
}

#[tokio::test]
async fn a_request_counts_as_sent_once_it_may_have_been_read() {
    let (mut link, endpoint) = linked().await;
    drop(endpoint);
    told(&link).await;
    // The socket still takes bytes, so the endpoint may have read them for all that is known.
    assert!(!link.send(request(&[])).await.unwrap_err().is_unsent);
    // By now it takes none.
    link.reader = AnswerReader::new();
    assert!(link.send(request(&[])).await.unwrap_err().is_unsent);
}

#[tokio::test]
async fn an_answer_may_come_before_the_request_is_written() {
    let (mut link, mut endpoint) = linked().await;
    // More than fits into the sockets' buffers.
    let large = [Bytes::from(vec![b'x'; 32 << 20])];
    let early = async {
        endpoint
            .write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\n")
            .await
            .unwrap();
    };
    let (head, ()) = tokio::join!(link.send(request(&large)), early);
    assert_eq!(head.unwrap().status, 413);
    // An endpoint that reads everything before it ends gets everything.
    let finish = async {
        let mut read = vec![0; HEAD.len() + large[0].len()];
        endpoint.read_exact(&mut read).await.unwrap();
        endpoint.write_all(b"no").await.unwrap();
    };
    let (read, ()) = tokio::join!(body(&mut link), finish);
    assert_eq!(read, (b"no".to_vec(), true));
    assert!(!link.is_usable(), "whether all was written is not known any more");
}

#[tokio::test]
async fn dropping_a_link_closes_its_socket() {
    let (link, mut endpoint) = linked().await;
    drop(link);
    assert_eq!(endpoint.read(&mut [0]).await.unwrap(), 0);
}
