//! An HTTP/2 client: in clear text with prior knowledge, or over whatever stream it is given.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::http::response::Parts;
use hyper::{Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use crate::wire::Stream;
use crate::{Background, BodyEnd, background, within};

/// A body larger than this fails the test.
const BODY_BYTES_MAX: usize = 64 << 20;

/// One connection with any number of streams. Clones share it.
#[derive(Clone, Debug)]
pub struct Http2 {
    sender: SendRequest<Full<Bytes>>,
    address: SocketAddr,
    _connection: Arc<Background<()>>,
}

impl Http2 {
    /// Connects and shakes hands.
    pub async fn open(address: SocketAddr) -> Self {
        let stream = within("connecting", TcpStream::connect(address))
            .await
            .expect("a connection");
        Self::over(stream, address).await
    }

    /// Shakes hands over a stream to `address` that is already there, such as one of TLS.
    #[expect(private_bounds, reason = "the bound only names what any byte stream has")]
    pub async fn over(stream: impl Stream + 'static, address: SocketAddr) -> Self {
        let shaken = within(
            "the HTTP/2 handshake",
            handshake(TokioExecutor::new(), TokioIo::new(stream)),
        )
        .await;
        let (sender, connection) = shaken.expect("an HTTP/2 handshake");
        let connection = background(async move { drop(connection.await) });
        Self {
            sender,
            address,
            _connection: Arc::new(connection),
        }
    }

    /// POSTs a JSON text with a bearer key and gives the status and the whole body.
    pub async fn post(&self, path: &str, key: &str, json: &str) -> (StatusCode, Bytes) {
        let request = self.request(path, key, json);
        let (head, body, end) = self.send(request).await;
        assert_eq!(end, BodyEnd::Complete, "{}", String::from_utf8_lossy(&body));
        (head.status, body)
    }

    /// A POST of a JSON text with a bearer key.
    #[must_use]
    pub fn request(&self, path: &str, key: &str, json: &str) -> hyper::Request<Full<Bytes>> {
        hyper::Request::post(format!("http://{}{path}", self.address))
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {key}"))
            .body(Full::from(json.to_owned()))
            .expect("a valid request")
    }

    /// Sends any request and waits, however long, for the head of its answer.
    ///
    /// # Errors
    /// When there is none.
    pub async fn begin(&self, request: hyper::Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        self.sender.clone().send_request(request).await
    }

    /// Sends any request and gives the head, the body, and how that ended: well, or by a reset of the stream.
    pub async fn send(&self, request: hyper::Request<Full<Bytes>>) -> (Parts, Bytes, BodyEnd) {
        let answer = within("an answer over HTTP/2", self.begin(request)).await;
        let (head, mut body): (_, Incoming) = answer.map(Response::into_parts).expect("an answer over HTTP/2");
        let mut gathered = Vec::new();
        let end = loop {
            match within("more of a body", body.frame()).await {
                Some(Ok(frame)) => gathered.extend_from_slice(&frame.into_data().unwrap_or_default()),
                Some(Err(_reset)) => break BodyEnd::Cut,
                None => break BodyEnd::Complete,
            }
            assert!(
                gathered.len() <= BODY_BYTES_MAX,
                "a body of more than {BODY_BYTES_MAX} bytes"
            );
        };
        (head, gathered.into(), end)
    }
}

#[cfg(test)]
mod tests {
    use hyper::service::service_fn;
    use tokio::net::TcpListener;

    use super::*;

    async fn echo(request: hyper::Request<Incoming>) -> Result<Response<Incoming>, hyper::Error> {
        let mut answer = Response::new(request.into_body());
        *answer.status_mut() = StatusCode::ACCEPTED;
        Ok(answer)
    }

    #[tokio::test]
    async fn several_streams_share_a_connection() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free loopback port");
        let address = listener.local_addr().expect("an address");
        let _server = background(async move {
            let (stream, _) = listener.accept().await.expect("a connection");
            let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            drop(server.serve_connection(TokioIo::new(stream), service_fn(echo)).await);
        });
        let client = Http2::open(address).await;
        let (one, two) = tokio::join!(client.post("/a", "k", "{1}"), client.post("/b", "k", "{2}"));
        assert_eq!((one.0, one.1.as_ref()), (StatusCode::ACCEPTED, &b"{1}"[..]));
        assert_eq!(two.1.as_ref(), b"{2}");
    }
}
