//! One HTTP/1.1 connection to an endpoint, driven by whoever uses it.
//!
//! A connection is usually a task of its own that talks to its user through channels. Here the task that serves the call also
//! moves the bytes, which saves a wake-up and a switch per message, and dropping the link closes the socket at once, which is
//! how an engine learns that nobody wants the answer any more.
//!
//! A link owns no buffer. Requests are written from the bytes that the client sent; answers are read into one buffer that all
//! links of a thread share, and what of them is payload is copied out, since it is small as a rule.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use maitred_runtime::Provider;
use maitred_types::{Address, Time};
use smallvec::SmallVec;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};

use crate::answer::{AnswerHead, AnswerReader, Asked};
use crate::framing::{Framing, Malformed};
use crate::joined::poll_write_joined;
use crate::socket::Socket;

/// Pieces of a request's body: the client's bytes with the gateway's edits between them.
pub(crate) type Segments = SmallVec<[Bytes; 5]>;

/// Bytes that are read of an answer at a time.
const READ_MAX: usize = 64 << 10;

thread_local! {
    /// Where answers are read into. Nothing stays in it from one read to the next.
    static READ: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_MAX]);
}

/// A connection with at most one exchange under way.
pub(crate) struct Link {
    address: Address,
    stream: Socket,
    reader: AnswerReader,
    /// What is still to be written of a request whose answer came early.
    unwritten: Option<Box<Unwritten>>,
    /// Since when it has been idle; meaningful in the pool only.
    pub(crate) idle_since: Time,
    /// Whether an exchange went over it before.
    pub(crate) is_reused: bool,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("address", &self.address)
            .field("reader", &self.reader)
            .finish_non_exhaustive()
    }
}

/// Why there is no answer, or no more of it.
#[derive(Debug)]
pub(crate) enum LinkError {
    /// The socket failed.
    Socket(io::Error),
    /// The endpoint closed the connection before it answered.
    NoAnswer,
    /// The answer is not HTTP as it must be, or has no proper end.
    Malformed(Malformed),
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(error) => error.fmt(f),
            Self::NoAnswer => f.write_str("the endpoint closed the connection without an answer"),
            Self::Malformed(malformed) => malformed.fmt(f),
        }
    }
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        Self::Socket(error)
    }
}

impl From<Malformed> for LinkError {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// Why no answer came over a link.
#[derive(Debug)]
pub(crate) struct SendError {
    /// What happened.
    pub(crate) source: LinkError,
    /// Whether the endpoint cannot have acted on the request, because nothing of it was written.
    pub(crate) is_unsent: bool,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

/// A request as it goes onto the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outgoing<'a> {
    /// Request line and headers, the blank line included.
    pub(crate) head: &'a [u8],
    /// The body.
    pub(crate) body: &'a [Bytes],
    /// What the answer's framing has to know.
    pub(crate) asked: Asked,
}

/// The rest of a request, when it outlives the wait for the head of its answer.
#[derive(Debug)]
struct Unwritten {
    head: Vec<u8>,
    body: Segments,
    written: usize,
}

impl Link {
    /// Connects within `limit`, to the provider if it is one.
    pub(crate) async fn open(address: &Address, provider: Option<&Provider>, limit: Duration) -> io::Result<Self> {
        let connecting = Socket::open(address, provider);
        let stream = match tokio::time::timeout(limit, connecting).await {
            Ok(connected) => connected?,
            Err(_elapsed) => return Err(io::ErrorKind::TimedOut.into()),
        };
        Ok(Self {
            address: address.clone(),
            stream,
            reader: AnswerReader::new(),
            unwritten: None,
            idle_since: Time::ZERO,
            is_reused: false,
        })
    }

    pub(crate) const fn address(&self) -> &Address {
        &self.address
    }

    /// Whether another exchange can begin. Looks at the socket, so that a close by the endpoint is noticed. Leaves no waker behind:
    /// between two exchanges there is nobody to wake.
    pub(crate) fn is_usable(&mut self) -> bool {
        if !self.reader.is_between_answers() || self.unwritten.is_some() {
            return false;
        }
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        // An end, an error and a byte that belongs to no answer are all reasons against it.
        Pin::new(&mut self.stream)
            .poll_read(&mut Context::from_waker(Waker::noop()), &mut buffer)
            .is_pending()
    }

    /// Sends a request and waits for the head of its answer.
    pub(crate) async fn send(&mut self, request: Outgoing<'_>) -> Result<AnswerHead, SendError> {
        self.reader.expect(request.asked);
        let mut written = 0;
        // An endpoint that takes no more may still have said why, so its answer is looked for all the same.
        let mut refusal = None;
        let answer = poll_fn(|cx| {
            if refusal.is_none()
                && let Poll::Ready(Err(error)) = poll_write(&mut self.stream, request, &mut written, cx)
            {
                refusal = Some(error);
            }
            self.poll_head(cx)
        });
        let answer = answer.await;
        if refusal.is_some() || written < request.length() {
            self.keep_unwritten(request, written, refusal.is_some());
        }
        answer.map_err(|error| SendError {
            source: refusal.map_or(error, LinkError::Socket),
            is_unsent: written == 0,
        })
    }

    /// An answer came before its request was written in full. The rest is sent along, for some endpoints want it before they end.
    fn keep_unwritten(&mut self, request: Outgoing<'_>, written: usize, is_refused: bool) {
        self.unwritten = Some(Box::new(if is_refused {
            Unwritten {
                head: Vec::new(),
                body: Segments::new(),
                written: 0,
            }
        } else {
            Unwritten {
                head: request.head.to_vec(),
                body: request.body.iter().cloned().collect(),
                written,
            }
        }));
    }

    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<AnswerHead, LinkError>> {
        loop {
            let head = ready!(self.poll_read(cx, |reader, input| {
                if input.is_empty() {
                    reader.close();
                    return Err(LinkError::NoAnswer);
                }
                Ok(reader.head(input)?)
            }))?;
            if let Some(head) = head? {
                return Poll::Ready(Ok(head));
            }
        }
    }

    /// Reads once, and hands what came to `take`; nothing means that the connection has ended.
    fn poll_read<T>(
        &mut self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&mut AnswerReader, &[u8]) -> T,
    ) -> Poll<io::Result<T>> {
        let (stream, reader) = (&mut self.stream, &mut self.reader);
        READ.with_borrow_mut(|bytes| {
            let mut buffer = ReadBuf::new(bytes);
            ready!(Pin::new(stream).poll_read(cx, &mut buffer))?;
            Poll::Ready(Ok(take(reader, buffer.filled())))
        })
    }

    /// The next piece of an answer's body: all payload that one read gives.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, LinkError>>> {
        let mut payload = self.reader.take_ready();
        loop {
            if !payload.is_empty() {
                return Poll::Ready(Some(Ok(payload)));
            }
            match self.reader.framing() {
                Framing::Ended => return Poll::Ready(None),
                Framing::Broken(malformed) => return Poll::Ready(Some(Err((*malformed).into()))),
                Framing::Length(_) | Framing::Chunked(_) | Framing::UntilClose => {}
            }
            self.write_on(cx);
            let read = self.poll_read(cx, |reader, input| {
                if input.is_empty() {
                    reader.close();
                }
                reader.body(input)
            });
            payload = match ready!(read) {
                Ok(payload) => payload,
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            };
        }
    }

    /// Writes more of a request whose answer came early. An error is of no interest: the answer is what counts.
    fn write_on(&mut self, cx: &mut Context<'_>) {
        if let Some(unwritten) = &mut self.unwritten {
            let request = Outgoing {
                head: &unwritten.head,
                body: &unwritten.body,
                asked: Asked::Whole,
            };
            if poll_write(&mut self.stream, request, &mut unwritten.written, cx).is_ready() {
                // It stays, empty, as the mark of a link that is not used again.
                **unwritten = Unwritten {
                    head: Vec::new(),
                    body: Segments::new(),
                    written: 0,
                };
            }
        } else {
            // With TLS the end of a request may still be here, though all of it was taken.
            drop(Pin::new(&mut self.stream).poll_flush(cx));
        }
    }

    /// The bytes of the body that are still to come, if their number is known.
    pub(crate) fn remaining(&self) -> Option<u64> {
        self.reader.remaining()
    }
}

impl Outgoing<'_> {
    fn length(&self) -> usize {
        self.head.len() + self.body.iter().map(Bytes::len).sum::<usize>()
    }
}

/// Writes until everything is written.
fn poll_write(
    stream: &mut Socket,
    request: Outgoing<'_>,
    written: &mut usize,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    loop {
        let mut skip = *written;
        let parts = std::iter::once(request.head).chain(request.body.iter().map(AsRef::as_ref));
        let slices = parts.filter_map(|part| {
            let rest = part.get(skip..);
            skip = skip.saturating_sub(part.len());
            rest.filter(|rest| !rest.is_empty()).map(IoSlice::new)
        });
        let slices: SmallVec<[IoSlice<'_>; 6]> = slices.collect();
        if slices.is_empty() {
            return Pin::new(&mut *stream).poll_flush(cx);
        }
        match ready!(poll_write_joined(Pin::new(&mut *stream), cx, &slices))? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            more => *written += more,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
