//! The body of an answer, in the three ways it comes about.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::relay::StreamRelay;
use crate::stall;
use crate::through::Through;

/// What the client's connection reads its answer from.
#[derive(Debug)]
pub(crate) enum ClientBody {
    /// Known in full: the gateway's own answers, and small ones of endpoints.
    Whole(Option<Bytes>),
    /// Events, judged and relayed one by one.
    Stream(Box<StreamRelay>),
    /// Bytes relayed as they come.
    Through(Box<Through>),
}

impl ClientBody {
    pub(crate) const fn whole(bytes: Bytes) -> Self {
        Self::Whole(Some(bytes))
    }
}

/// The answer broke after its beginning had been sent; the connection must not end as if it were complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the endpoint's answer broke off")
    }
}

impl std::error::Error for Broken {}

impl From<Infallible> for Broken {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl Body for ClientBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let chunk = match self.get_mut() {
            Self::Whole(bytes) => return Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Stream(relay) => relay.poll_chunk(cx),
            Self::Through(through) => through.poll_chunk(cx),
        };
        stall::note(chunk.is_ready());
        chunk.map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(Some(bytes)) => SizeHint::with_exact(bytes.len() as u64),
            Self::Whole(None) => SizeHint::with_exact(0),
            Self::Stream(_) => SizeHint::default(),
            Self::Through(through) => through.size_hint(),
        }
    }
}
