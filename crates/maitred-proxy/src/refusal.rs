//! Gives a body to the answers that hyper makes by itself.
//!
//! A head that cannot be parsed, or is too large, never reaches a service: hyper answers with a bare status line and closes.
//! A client of an API deserves to be told why, in the form of its errors. So this layer between hyper and the socket replaces
//! such an answer. It knows one by its form: a whole 4xx head without a body and without the request id that every answer of
//! the service carries.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use maitred_llm::error_body;
use maitred_obs::Meters;
use maitred_types::{Dialect, FaultKind};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Longest head that hyper writes by itself, in bytes.
const BARE_HEAD_MAX: usize = 256;

/// A socket that explains refusals.
#[derive(Debug)]
pub(crate) struct Explaining<T> {
    socket: T,
    meters: Arc<Meters>,
    /// What goes out instead of a bare refusal.
    instead: Bytes,
}

impl<T> Explaining<T> {
    pub(crate) fn new(socket: T, meters: Arc<Meters>) -> Self {
        Self {
            socket,
            meters,
            instead: Bytes::new(),
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Explaining<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl<T: AsyncWrite + Unpin> Explaining<T> {
    /// Writes what is owed in place of a bare refusal.
    fn poll_instead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.instead.has_remaining() {
            match Pin::new(&mut self.socket).poll_write(cx, &self.instead) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => self.instead.advance(written),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Swallows `written` when it is a bare refusal, and owes the explained one.
    fn replaces(&mut self, written: &[u8]) -> bool {
        match explained(written) {
            Some((fault, instead)) => {
                // No call came of it, so there is no record either.
                self.meters.call_refused(fault);
                self.instead = instead;
                true
            }
            None => false,
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Explaining<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.replaces(bytes) {
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [only] = slices
            && self.replaces(only)
        {
            return Poll::Ready(Ok(only.len()));
        }
        Pin::new(&mut self.socket).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.poll_instead(cx) {
            Poll::Ready(Ok(())) => Pin::new(&mut self.socket).poll_flush(cx),
            other => other,
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.poll_instead(cx) {
            Poll::Ready(Ok(())) => Pin::new(&mut self.socket).poll_shutdown(cx),
            other => other,
        }
    }
}

/// The answer to send in place of `head`, if that is one of hyper's bare refusals.
fn explained(head: &[u8]) -> Option<(FaultKind, Bytes)> {
    let status = head
        .strip_prefix(b"HTTP/1.1 4")
        .or_else(|| head.strip_prefix(b"HTTP/1.0 4"))?;
    if head.len() > BARE_HEAD_MAX || !head.ends_with(b"\r\n\r\n") {
        return None;
    }
    let text = std::str::from_utf8(head).ok()?;
    if text.contains("x-request-id") || !text.contains("content-length: 0\r\n") {
        return None;
    }
    let (kind, status, message) = match status.get(..2)? {
        b"31" => (
            FaultKind::HeadersTooLarge,
            "431 Request Header Fields Too Large",
            "there are too many headers, or they are too large; see `limits.headers`",
        ),
        b"14" => (FaultKind::HeadersTooLarge, "414 URI Too Long", "the path is too long"),
        _ => (
            FaultKind::Malformed,
            "400 Bad Request",
            "the request is not well-formed HTTP",
        ),
    };
    // The dialect is not known yet, and OpenAI's clients are the most common ones.
    let body = error_body(Dialect::OpenAi, kind, message, "");
    let mut answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    )
    .into_bytes();
    answer.extend_from_slice(&body);
    Some((kind, answer.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bare_refusals_are_replaced() {
        let check = |head: &str, status: Option<&str>| {
            let answer = explained(head.as_bytes());
            let begins = answer.as_ref().map(|(_, answer)| {
                let text = std::str::from_utf8(answer).unwrap();
                let (head, body) = text.split_once("\r\n\r\n").unwrap();
                assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{head}");
                text.get(..12).unwrap()
            });
            assert_eq!(begins, status, "{head:?}");
        };
        check(
            "HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\ndate: x\r\n\r\n",
            Some("HTTP/1.1 431"),
        );
        check(
            "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\ndate: x\r\n\r\n",
            Some("HTTP/1.1 400"),
        );
        check(
            "HTTP/1.1 404 Not Found\r\nx-request-id: 1\r\ncontent-length: 0\r\n\r\n",
            None,
        );
        check("HTTP/1.1 400 Bad Request\r\ncontent-length: 10\r\n\r\n", None);
        check("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", None);
        check("data: HTTP/1.1 431", None);
    }
}
