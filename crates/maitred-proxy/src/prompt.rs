//! A time limit on the first bytes of a connection.
//!
//! The first bytes say which HTTP a client speaks, and hyper begins to count the time for a request's head only once it
//! knows. Without a limit of its own, a connection on which nothing is ever sent would stay for ever.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How many bytes tell the versions of HTTP apart: the length of the preface of HTTP/2 (RFC 9113 section 3.4).
const TELLING: usize = 24;

/// A socket that fails unless its first bytes come in time.
#[derive(Debug)]
pub(crate) struct Prompt<T> {
    socket: T,
    missing: usize,
    /// `None` once the bytes have come.
    limit: Option<Pin<Box<Sleep>>>,
}

impl<T> Prompt<T> {
    /// Begins to count.
    pub(crate) fn new(socket: T, limit: Duration) -> Self {
        Self {
            socket,
            missing: TELLING,
            limit: Some(Box::pin(tokio::time::sleep(limit))),
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Prompt<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.socket).poll_read(cx, buffer);
        let Some(limit) = &mut self.limit else { return read };
        if read.is_pending() {
            return limit.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()));
        }
        self.missing = self.missing.saturating_sub(buffer.filled().len() - before);
        if self.missing == 0 {
            self.limit = None;
        }
        read
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Prompt<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    #[tokio::test(start_paused = true)]
    async fn silence_ends_the_connection_and_the_first_bytes_lift_the_limit() {
        let check = async |sent: &[u8], is_patient: bool| {
            let (mut client, server) = duplex(64);
            let mut server = Prompt::new(server, LIMIT);
            client.write_all(sent).await.unwrap();
            let mut buffer = vec![0; sent.len()];
            server.read_exact(&mut buffer).await.unwrap();
            let waited = tokio::time::timeout(2 * LIMIT, server.read_u8()).await;
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
}
