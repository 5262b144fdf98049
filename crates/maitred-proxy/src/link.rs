//! One HTTP/1.1 connection to an endpoint, driven by whoever uses it.
//!
//! A connection is usually a task of its own that talks to its user through channels. Here the user polls it: the task that
//! serves the call also moves the bytes, which saves a wake-up and a switch per message, and dropping the link closes the
//! socket at once, which is how an engine learns that nobody wants the answer any more.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use maitred_types::{Address, Time};
use smallvec::SmallVec;
use tokio::net::TcpStream;

/// Pieces of a request's body: the client's bytes with the gateway's edits between them.
pub(crate) type Segments = SmallVec<[Bytes; 5]>;

/// Largest header section of an answer that is accepted from an endpoint, in bytes.
const RESPONSE_HEADERS_MAX: usize = 64 << 10;

type Connection = http1::Connection<TokioIo<TcpStream>, RequestBody>;

/// A connection with at most one exchange under way.
pub(crate) struct Link {
    address: Address,
    sender: http1::SendRequest<RequestBody>,
    connection: Pin<Box<Connection>>,
    is_closed: bool,
    /// Since when it has been idle; meaningful in the pool only.
    pub(crate) idle_since: Time,
    /// Whether an exchange went over it before.
    pub(crate) is_reused: bool,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("address", &self.address)
            .field("is_closed", &self.is_closed)
            .finish()
    }
}

/// Why no answer came over a link.
#[derive(Debug)]
pub(crate) struct SendError {
    /// What happened.
    pub(crate) source: hyper::Error,
    /// Whether the endpoint cannot have acted on the request, because it was never written in full.
    pub(crate) is_unsent: bool,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl Link {
    /// Connects within `limit`.
    pub(crate) async fn open(address: &Address, limit: Duration) -> std::io::Result<Self> {
        let connecting = async {
            let stream = TcpStream::connect(address.as_str()).await?;
            stream.set_nodelay(true)?;
            Ok::<_, std::io::Error>(stream)
        };
        let stream: TcpStream = match tokio::time::timeout(limit, connecting).await {
            Ok(connected) => connected?,
            Err(_elapsed) => return Err(std::io::ErrorKind::TimedOut.into()),
        };
        let handshake = http1::Builder::new()
            .max_header_size(RESPONSE_HEADERS_MAX)
            .handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(std::io::Error::other)?;
        Ok(Self {
            address: address.clone(),
            sender,
            connection: Box::pin(connection),
            is_closed: false,
            idle_since: Time::ZERO,
            is_reused: false,
        })
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Moves bytes in both directions, as far as they go without waiting.
    pub(crate) fn poll_drive(&mut self, cx: &mut Context<'_>) {
        if !self.is_closed && self.connection.as_mut().poll(cx).is_ready() {
            // An error is also told to the exchange that is under way, so it is not needed here.
            self.is_closed = true;
        }
    }

    /// Whether another exchange can begin. Looks at the socket, so that a close by the endpoint is noticed. Leaves no waker behind:
    /// between two exchanges there is nobody to wake.
    pub(crate) fn is_usable(&mut self) -> bool {
        self.poll_drive(&mut nobody());
        !self.is_closed && self.sender.is_ready()
    }

    /// Sends a request and waits for the head of its answer.
    pub(crate) async fn send(&mut self, request: Request<RequestBody>) -> Result<Response<Incoming>, SendError> {
        let mut response = pin!(self.sender.try_send_request(request));
        let (connection, is_closed) = (&mut self.connection, &mut self.is_closed);
        let answer = poll_fn(|cx| {
            if !*is_closed && connection.as_mut().poll(cx).is_ready() {
                *is_closed = true;
            }
            response.as_mut().poll(&mut nobody())
        });
        answer.await.map_err(|mut error| SendError {
            is_unsent: error.take_message().is_some(),
            source: error.into_error(),
        })
    }

    /// The next piece of an answer's body, driving the connection meanwhile.
    pub(crate) fn poll_chunk(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Bytes>>> {
        loop {
            let frame = match Pin::new(&mut *body).poll_frame(&mut nobody()) {
                Poll::Pending => {
                    // Asking for a frame lets the connection read one; it may be there at once.
                    self.poll_drive(cx);
                    match Pin::new(&mut *body).poll_frame(&mut nobody()) {
                        Poll::Pending => return Poll::Pending,
                        Poll::Ready(frame) => frame,
                    }
                }
                Poll::Ready(frame) => frame,
            };
            match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if data.is_empty() => {}
                    Ok(data) => return Poll::Ready(Some(Ok(data))),
                    // Trailers of an endpoint's answer mean nothing to any dialect.
                    Err(_trailers) => {}
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

/// Wakes nobody. What hyper hands from a connection to its user arrives only while the user drives the connection, who looks
/// right afterwards; to be woken for it would mean to look a second time.
fn nobody() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// A request's body in pieces of known length.
#[derive(Clone, Debug)]
pub(crate) struct RequestBody {
    /// Boxed, since hyper sets room aside for thirty-two requests on every connection.
    segments: Box<smallvec::IntoIter<[Bytes; 5]>>,
    remaining: u64,
}

impl RequestBody {
    pub(crate) fn new(segments: Segments) -> Self {
        let remaining = segments.iter().map(|segment| segment.len() as u64).sum();
        Self {
            segments: Box::new(segments.into_iter()),
            remaining,
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let segment = self.segments.find(|segment| !segment.is_empty());
        Poll::Ready(segment.map(|segment| {
            self.remaining -= segment.len() as u64;
            Ok(Frame::data(segment))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining)
    }
}
