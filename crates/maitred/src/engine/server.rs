//! The port and its connections.
//!
//! A port that is shut is held by a socket that is bound and does not listen: connections are refused, and nobody else can
//! take the number.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;

use anyhow::Context;
use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use maitred_runtime::Tasks;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;

/// Pending connections that the kernel holds, as uvicorn asks for.
const BACKLOG: u32 = 2048;

/// Connections beyond these are closed at once.
const MAX_CONNECTIONS: usize = 8192;

/// Whether connections are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// They are refused, and those that are there end after the answer under way.
    Shut,
    /// They are.
    Open,
}

/// A port that this process holds, listening or not.
#[derive(Debug)]
pub(super) struct Port {
    address: SocketAddr,
    held: Held,
}

#[derive(Debug)]
enum Held {
    Bound(TcpSocket),
    Listening(TcpListener),
    /// Somebody else was faster while it changed hands; connections go there, which is as good as refused.
    Lost,
}

impl Port {
    /// Takes a port, and listens there at once if the gate is open, so that whoever hears of it can connect.
    ///
    /// # Errors
    /// When somebody else has it.
    pub(super) fn take(address: SocketAddr, gate: Gate) -> anyhow::Result<Self> {
        let cannot = || format!("cannot take {address}");
        let socket = bind(address).with_context(cannot)?;
        let address = socket.local_addr()?;
        let held = match gate {
            Gate::Open => Held::Listening(socket.listen(BACKLOG).with_context(cannot)?),
            Gate::Shut => Held::Bound(socket),
        };
        Ok(Self { address, held })
    }

    /// Where it is.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    fn listen(&mut self) -> std::io::Result<TcpListener> {
        match std::mem::replace(&mut self.held, Held::Lost) {
            Held::Bound(socket) => socket.listen(BACKLOG),
            Held::Listening(listener) => Ok(listener),
            Held::Lost => bind(self.address)?.listen(BACKLOG),
        }
    }

    fn hold(&mut self) {
        self.held = bind(self.address).map_or(Held::Lost, Held::Bound);
    }
}

fn bind(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

/// What answers requests. An error cuts the connection.
pub(super) trait Answering: Clone + Send + Sync + 'static {
    /// The body of answers.
    type Body: http_body::Body<Data = Bytes, Error: std::error::Error + Send + Sync> + Send + 'static;
    /// Why a connection is cut.
    type Cut: std::error::Error + Send + Sync + 'static;

    /// Answers a request.
    fn answer(
        self,
        request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response<Self::Body>, Self::Cut>> + Send + 'static;
}

/// Takes connections while the gate is open. Ends with the sender of the gate.
pub(super) async fn serve(
    mut port: Port,
    mut gate: watch::Receiver<Gate>,
    connections: Tasks,
    answering: impl Answering,
) {
    loop {
        if gate.wait_for(|gate| *gate == Gate::Open).await.is_err() {
            return;
        }
        let Ok(listener) = port.listen() else { return };
        let for_connections = gate.clone();
        loop {
            tokio::select! {
                accepted = listener.accept() => {
                    if let Ok((stream, _)) = accepted
                        && connections.running() < MAX_CONNECTIONS
                    {
                        let connection = connection(stream, for_connections.clone(), answering.clone());
                        connections.spawn_until_stop(connection);
                    }
                }
                shut = gate.wait_for(|gate| *gate == Gate::Shut) => {
                    if shut.is_err() {
                        return;
                    }
                    break;
                }
            }
        }
        drop(listener);
        port.hold();
    }
}

async fn connection(stream: TcpStream, mut gate: watch::Receiver<Gate>, answering: impl Answering) {
    // Events are small and must not wait for one another.
    drop(stream.set_nodelay(true));
    let service = service_fn(move |request| answering.clone().answer(request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let shut = async move { drop(gate.wait_for(|gate| *gate == Gate::Shut).await) };
    tokio::pin!(shut);
    let mut is_shut = false;
    loop {
        tokio::select! {
            // How a connection ends is the other side's affair.
            _ = connection.as_mut() => return,
            () = &mut shut, if !is_shut => {
                is_shut = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    }
}

/// For services that never cut a connection.
pub(super) type Never = Infallible;
