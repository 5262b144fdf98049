//! An HTTP/1 client that sends just what it is told, malformed or not, and shows just what came back.

use std::net::SocketAddr;

use tokio::net::TcpStream;

use crate::wire::{Framing, Stream, Wire};
use crate::{BodyEnd, Event, Head, SseReader, within};

/// A body larger than this fails the test.
const BODY_BYTES_MAX: usize = 256 << 20;

/// A request as bytes in the making.
#[derive(Clone, Debug)]
pub struct Request {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    /// A request without body.
    #[must_use]
    pub fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    /// GET.
    #[must_use]
    pub fn get(target: &str) -> Self {
        Self::new("GET", target)
    }

    /// POST of a JSON text.
    #[must_use]
    pub fn post(target: &str, json: impl Into<Vec<u8>>) -> Self {
        Self::new("POST", target)
            .header("content-type", "application/json")
            .body(json)
    }

    /// Adds a header. Without a `host` among them there will be one.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds `Authorization: Bearer KEY`.
    #[must_use]
    pub fn bearer(self, key: &str) -> Self {
        self.header("authorization", &format!("Bearer {key}"))
    }

    /// Sets the body, whose length is announced.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// As it goes onto the wire.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        if !self.headers.iter().any(|(name, _)| name == "host") {
            head.push_str("host: maitred.test\r\n");
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let announces = !self.body.is_empty() || matches!(self.method.as_str(), "POST" | "PUT" | "PATCH");
        if announces && !self.headers.iter().any(|(name, _)| name == "transfer-encoding") {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// Sends it over a connection of its own and reads the whole answer.
    pub async fn send(&self, address: SocketAddr) -> Answer {
        Connection::open(address).await.call(self).await
    }

    /// The same, to a server that may come and go: nothing if it is not there, or goes before the answer is whole.
    pub async fn try_send(&self, address: SocketAddr) -> Option<Answer> {
        let stream = within("connecting", TcpStream::connect(address)).await.ok()?;
        let mut connection = Connection::over(stream);
        connection.send(&self.to_bytes()).await;
        let head = connection.try_head().await?;
        let answer = connection.rest(head).await;
        (answer.end == BodyEnd::Complete).then_some(answer)
    }
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status line and headers.
    pub head: Head,
    /// The body without its framing.
    pub body: Vec<u8>,
    /// How the body ended.
    pub end: BodyEnd,
}

impl Answer {
    /// The status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.head.status()
    }

    /// The value of the first header `name` (in lower case).
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => panic!("not JSON ({error}): {}", self.text()),
        }
    }

    /// The body as events.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        SseReader::all(&self.body)
    }
}

/// One connection; as many requests as the other side allows.
#[derive(Debug)]
pub struct Connection {
    wire: Wire<Box<dyn Stream>>,
    framing: Framing,
    events: SseReader,
}

impl Connection {
    /// Connects over TCP.
    pub async fn open(address: SocketAddr) -> Self {
        match within("connecting", TcpStream::connect(address)).await {
            Ok(stream) => Self::over(stream),
            Err(error) => panic!("no connection to {address}: {error}"),
        }
    }

    /// Speaks over a stream that is already there, such as one of TLS.
    #[expect(private_bounds, reason = "the bound only names what any byte stream has")]
    pub fn over(stream: impl Stream + 'static) -> Self {
        Self {
            wire: Wire::new(Box::new(stream)),
            framing: Framing::Ended(BodyEnd::Complete),
            events: SseReader::default(),
        }
    }

    /// Sends bytes as they are. That the other side has already closed is no fault here; the missing answer will show it.
    pub async fn send(&mut self, bytes: &[u8]) {
        drop(within("sending", self.wire.write(bytes)).await);
    }

    /// Says that nothing more will be sent, but goes on reading.
    pub async fn shut(&mut self) {
        drop(within("closing one direction", self.wire.shut()).await);
    }

    /// The head of the next answer; nothing when the connection closed without one. Interim answers are passed over.
    pub async fn try_head(&mut self) -> Option<Head> {
        let mut head = within("the head of an answer", self.wire.head()).await?;
        while head.status() / 100 == 1 {
            head = within("the head of an answer", self.wire.head()).await?;
        }
        self.framing = head.answer_framing();
        self.events = SseReader::default();
        Some(head)
    }

    /// The head of the next answer.
    pub async fn head(&mut self) -> Head {
        self.try_head().await.expect("an answer, not a closed connection")
    }

    /// The next bytes of the body; nothing once it has ended.
    pub async fn piece(&mut self) -> Option<Vec<u8>> {
        let piece = within("more of a body", self.wire.piece(&mut self.framing)).await;
        piece.map(|bytes| bytes.to_vec())
    }

    /// The next event of a streamed body; nothing once it has ended.
    pub async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.events.next_event() {
                return Some(event);
            }
            let piece = self.piece().await?;
            self.events.push(&piece);
        }
    }

    /// How the body ended; it must have.
    #[must_use]
    pub fn body_end(&self) -> BodyEnd {
        match self.framing {
            Framing::Ended(end) => end,
            _ => panic!("the body has not ended"),
        }
    }

    /// Sends a request and reads the head of its answer; the body is for [`Connection::piece`] or [`Connection::event`].
    pub async fn start(&mut self, request: &Request) -> Head {
        self.send(&request.to_bytes()).await;
        self.head().await
    }

    /// Sends a request and reads its whole answer.
    pub async fn call(&mut self, request: &Request) -> Answer {
        let head = self.start(request).await;
        self.rest(head).await
    }

    /// Reads what is left of the body under `head`.
    pub async fn rest(&mut self, head: Head) -> Answer {
        let mut body = Vec::new();
        while let Some(piece) = self.piece().await {
            body.extend_from_slice(&piece);
            assert!(
                body.len() <= BODY_BYTES_MAX,
                "a body of more than {BODY_BYTES_MAX} bytes"
            );
        }
        Answer {
            head,
            body,
            end: self.body_end(),
        }
    }

    /// Waits until the other side has closed the connection.
    pub async fn closed(&mut self) {
        within("the other side's close", self.wire.closed()).await;
    }
}

#[cfg(test)]
mod tests;
