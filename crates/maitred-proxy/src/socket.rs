//! The bytes' way to an endpoint or provider: a socket, with or without TLS.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use maitred_runtime::{Connected, Provider, dial_endpoint};
use maitred_types::Address;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// An open connection.
#[derive(Debug)]
pub(crate) struct Socket(Connected);

impl Socket {
    /// Connects to the provider, or, if it is none, to the endpoint at `address`.
    pub(crate) async fn open(address: &Address, provider: Option<&Provider>) -> io::Result<Self> {
        Ok(Self(match provider {
            Some(provider) => provider.connect().await?,
            None => Connected::Plain(dial_endpoint(address.as_str()).await?),
        }))
    }

    /// Waits until there is something to read, an end included.
    #[cfg(test)]
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match &self.0 {
            Connected::Plain(stream) => stream.readable().await,
            Connected::Tls(stream) => stream.get_ref().0.readable().await,
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Connected::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Connected::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Connected::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Connected::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Connected::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Connected::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    /// With TLS, what was written may still be here.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Connected::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Connected::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Connected::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Connected::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
