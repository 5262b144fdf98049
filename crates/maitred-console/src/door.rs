//! Connections to the administrative listener: so many at one time, in clear text or TLS.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use maitred_runtime::{CertificateNames, certificate_names};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// Most connections at one time; further ones wait in the kernel.
const CONNECTIONS_MAX: usize = 256;
/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// After an error such as "too many open files", how long accepting rests.
const ACCEPT_REST: Duration = Duration::from_millis(50);

/// The listener.
#[derive(Debug)]
pub struct Door {
    tcp: TcpListener,
    tls: Option<Arc<ServerConfig>>,
    room: Arc<Semaphore>,
    /// Handshakes under way, so that a slow one holds up nobody else.
    handshakes: JoinSet<Option<(Connection, Peer)>>,
}

impl Door {
    /// A door to `tcp`, with TLS if there is a configuration of it.
    #[must_use]
    pub fn new(tcp: TcpListener, tls: Option<Arc<ServerConfig>>) -> Self {
        Self {
            tcp,
            tls,
            room: Arc::new(Semaphore::new(CONNECTIONS_MAX)),
            handshakes: JoinSet::new(),
        }
    }
}

/// Whoever is at the other end.
#[derive(Clone, Debug)]
pub struct Peer {
    /// The names in its certificate, if it has shown one.
    pub(crate) certificate: Option<Arc<CertificateNames>>,
    address: SocketAddr,
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.address.fmt(f)
    }
}

impl Connected<IncomingStream<'_, Door>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Door>) -> Self {
        stream.remote_addr().clone()
    }
}

impl Listener for Door {
    type Io = Connection;
    type Addr = Peer;

    async fn accept(&mut self) -> (Connection, Peer) {
        loop {
            // Both halves may be dropped at any time: an accepted connection is with the handshakes at once.
            tokio::select! {
                accepted = accept(&self.tcp, &self.room) => {
                    let Some((stream, address, permit)) = accepted else { continue };
                    let tls = self.tls.clone();
                    self.handshakes.spawn(shake_hands(stream, address, permit, tls));
                }
                Some(shaken) = self.handshakes.join_next() => {
                    if let Ok(Some(connection)) = shaken {
                        return connection;
                    }
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<Peer> {
        Ok(Peer {
            certificate: None,
            address: self.tcp.local_addr()?,
        })
    }
}

async fn accept(tcp: &TcpListener, room: &Arc<Semaphore>) -> Option<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let permit = Arc::clone(room).acquire_owned().await.ok()?;
    match tcp.accept().await {
        Ok((stream, address)) => Some((stream, address, permit)),
        Err(error) => {
            tracing::warn!(%error, "accepting an administrative connection failed");
            tokio::time::sleep(ACCEPT_REST).await;
            None
        }
    }
}

async fn shake_hands(
    stream: TcpStream,
    address: SocketAddr,
    permit: OwnedSemaphorePermit,
    tls: Option<Arc<ServerConfig>>,
) -> Option<(Connection, Peer)> {
    let Some(tls) = tls else {
        let stream: Box<dyn Stream> = Box::new(stream);
        let peer = Peer {
            certificate: None,
            address,
        };
        return Some((
            Connection {
                stream,
                _permit: permit,
            },
            peer,
        ));
    };
    let shaken = tokio::time::timeout(HANDSHAKE, TlsAcceptor::from(tls).accept(stream)).await;
    let stream = shaken.ok()?.ok()?;
    let chain = stream.get_ref().1.peer_certificates();
    let certificate = chain.and_then(certificate_names).map(Arc::new);
    let stream: Box<dyn Stream> = Box::new(stream);
    Some((
        Connection {
            stream,
            _permit: permit,
        },
        Peer { certificate, address },
    ))
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connection, which holds its place as long as it lives.
pub struct Connection {
    stream: Box<dyn Stream>,
    _permit: OwnedSemaphorePermit,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connection")
    }
}

impl AsyncRead for Connection {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
