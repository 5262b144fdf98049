//! Time limits of a client's socket, for what hyper does not time by itself.
//!
//! The first bytes say which HTTP a client speaks, and hyper begins to count the time for a request's head only once it
//! knows; without a limit of its own, a connection on which nothing is ever sent would stay for ever. And a client that takes
//! nothing of its answer would hold the endpoint's place for as long as it likes: while the socket is full, nobody asks the
//! answer whether its time is up.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::joined::poll_write_joined;

/// How many bytes tell the versions of HTTP apart: the length of the preface of HTTP/2 (RFC 9113 section 3.4).
const TELLING: usize = 24;

/// How long a client is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Until its first bytes have come.
    pub(crate) first_bytes: Duration,
    /// Until it takes more of what is written to it.
    pub(crate) stall: Duration,
}

/// A socket that fails when its client makes it wait for too long.
#[derive(Debug)]
pub(crate) struct Patient<T> {
    socket: T,
    missing: usize,
    /// `None` once the first bytes have come.
    first_bytes: Option<Pin<Box<Sleep>>>,
    stall: Duration,
    /// `None` while bytes flow.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<T> Patient<T> {
    /// Begins to count.
    pub(crate) fn new(socket: T, patience: Patience) -> Self {
        Self {
            socket,
            missing: TELLING,
            first_bytes: Some(Box::pin(tokio::time::sleep(patience.first_bytes))),
            stall: patience.stall,
            stalled: None,
        }
    }

    /// Looks at what came of writing, and counts the time while nothing can be written.
    fn time<R>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let limit = self.stall;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        stalled.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Patient<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(cx, buffer);
        let Some(limit) = &mut self.first_bytes else {
            return read;
        };
        if read.is_pending() {
            return limit.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()));
        }
        self.missing = self.missing.saturating_sub(buffer.filled().len() - before);
        if self.missing == 0 {
            self.first_bytes = None;
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Patient<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.time(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = poll_write_joined(Pin::new(&mut self.socket), cx, slices);
        self.time(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.socket).poll_flush(cx);
        self.time(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.socket).poll_shutdown(cx);
        self.time(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const PATIENCE: Patience = Patience {
        first_bytes: Duration::from_secs(5),
        stall: Duration::from_secs(5),
    };
    /// Longer than that.
    const LONG: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn silence_ends_the_connection_and_the_first_bytes_lift_the_limit() {
        let check = async |sent: &[u8], is_patient: bool| {
            let (mut client, server) = duplex(64);
            let mut server = Patient::new(server, PATIENCE);
            client.write_all(sent).await.unwrap();
            let mut buffer = vec![0; sent.len()];
            server.read_exact(&mut buffer).await.unwrap();
            let waited = tokio::time::timeout(LONG, server.read_u8()).await;
            let failed = waited.map(|read| read.map_err(|error| error.kind()));
            assert_eq!(failed.is_err(), is_patient, "{sent:?}");
            if let Ok(read) = failed {
                assert_eq!(read, Err(io::ErrorKind::TimedOut));
            }
        };
        check(b"", false).await;
        check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r", false).await;
        check(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", true).await;
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_is_given_up_and_who_takes_little_is_not() {
        let (mut client, server) = duplex(64);
        let mut server = Patient::new(server, PATIENCE);
        let writing = async {
            server.write_all(&[0; 64 + 8]).await.unwrap();
            server.write_all(&[0; 1]).await.map_err(|error| error.kind())
        };
        let reading = async {
            for _ in 0..8 {
                tokio::time::sleep(PATIENCE.stall.mul_f32(0.9)).await;
                client.read_u8().await.unwrap();
            }
            client
        };
        let (written, _client) = tokio::join!(writing, reading);
        assert_eq!(written, Err(io::ErrorKind::TimedOut));
    }
}
