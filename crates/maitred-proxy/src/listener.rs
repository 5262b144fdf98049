//! Sockets: binding them for several threads, and serving the connections that arrive.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use maitred_config::Limits;
use maitred_runtime::Tasks;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::gate::{Client, Gate};
use crate::patience::{Patience, Patient};
use crate::refusal::Explaining;
use crate::seldom::Seldom;
use crate::stall::{Stalled, StreamLimits, until_stalled};

/// Connections that may wait to be accepted, per thread.
const BACKLOG: i32 = 1024;
/// How long a TLS handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// After an error such as "too many open files", how long accepting rests.
const ACCEPT_REST: Duration = Duration::from_millis(50);
/// What is buffered of a head at most, if the configuration does not allow more: hyper's own limit for HTTP/1.
const HEAD_BUFFER: usize = 8192 + 4096 * 100;
/// How much longer than its call a stream of HTTP/2 may last, so that a call whose time is up can say so.
const OVERTIME: Duration = Duration::from_secs(1);
/// How long connections stay open for calls when the gateway drains. What their clients send meanwhile, not knowing, is served;
/// a connection that is closed at once would answer it with a reset.
const LINGER: Duration = Duration::from_secs(1);
/// An idle HTTP/2 connection is asked whether it is still there.
const HTTP2_PING: Duration = Duration::from_secs(30);

/// Binds `address` `threads` times, so that the kernel spreads connections over them.
///
/// # Errors
/// When the address is taken or not this machine's.
pub(crate) fn bind(address: SocketAddr, threads: usize) -> io::Result<Vec<std::net::TcpListener>> {
    // Sockets that share their port would share it with another process as well, which then took half of the connections.
    drop(bind_one(address, Sharing::Alone)?);
    let first = bind_one(address, Sharing::Port)?;
    // Port 0 is resolved once; the others must get the same port.
    let address = first.local_addr()?;
    let mut sockets = vec![first];
    for _ in 1..threads {
        sockets.push(bind_one(address, Sharing::Port)?);
    }
    Ok(sockets)
}

/// Whether other sockets may be bound to the same port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    Alone,
    Port,
}

fn bind_one(address: SocketAddr, sharing: Sharing) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(sharing == Sharing::Port)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// What a listener does with the connections it accepts.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) gate: Arc<Gate>,
    pub(crate) tls: Option<TlsAcceptor>,
    /// Most streams at one time on one HTTP/2 connection.
    pub(crate) concurrent_streams: u32,
}

/// Accepts until the gateway drains.
pub(crate) async fn accept(listener: std::net::TcpListener, door: Door) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "a listener could not be handed to its thread");
            return;
        }
    };
    let tasks = door.gate.tasks.clone();
    loop {
        let accepted = tokio::select! {
            biased;
            () = tasks.stopping() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => admit(&tasks, door.clone(), stream, peer),
            Err(error) => {
                // The connection is still in the backlog; without a rest this would spin.
                tracing::warn!(%error, "accepting a connection failed");
                tokio::time::sleep(ACCEPT_REST).await;
            }
        }
    }
    // Whoever waits in the queue is connected already as far as its client knows.
    match listener.into_std() {
        Ok(listener) => waiting(&listener).for_each(|(stream, peer)| admit(&tasks, door.clone(), stream, peer)),
        Err(error) => tracing::warn!(%error, "connections that waited to be accepted are lost"),
    }
}

/// The connections in a listener's queue. Asked of the kernel itself: the event loop may not know of them yet.
fn waiting(listener: &std::net::TcpListener) -> impl Iterator<Item = (TcpStream, SocketAddr)> + '_ {
    std::iter::from_fn(|| listener.accept().ok()).filter_map(|(stream, peer)| {
        stream.set_nonblocking(true).ok()?;
        Some((TcpStream::from_std(stream).ok()?, peer))
    })
}

fn admit(tasks: &Tasks, door: Door, stream: TcpStream, peer: SocketAddr) {
    let Some(mut client) = Client::enter(&door.gate, peer) else {
        door.gate.meters.connection_refused("too_many");
        return;
    };
    tasks.spawn(async move {
        if stream.set_nodelay(true).is_err() {
            return;
        }
        match &door.tls {
            None => serve(&door, client, stream).await,
            Some(acceptor) => match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let chain = stream.get_ref().1.peer_certificates();
                    client.certificate = chain.and_then(maitred_runtime::certificate_names);
                    serve(&door, client, stream).await;
                }
                Ok(Err(_)) | Err(_) => door.gate.meters.connection_refused("tls_handshake"),
            },
        }
    });
}

/// Serves one connection to its end: the client's, or that of the drain.
async fn serve<T>(door: &Door, client: Client, stream: T)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (gate, tasks) = (Arc::clone(&door.gate), door.gate.tasks.clone());
    let (limits, timeouts) = {
        let snapshot = gate.runtime.snapshot();
        (snapshot.settings().limits, snapshot.settings().timeouts)
    };
    let patience = Patience {
        first_bytes: timeouts.header_read,
        stall: timeouts.idle,
    };
    let stream = Explaining::new(Patient::new(stream, patience), Arc::clone(&gate.meters));
    let client = Arc::new(client);
    let service = service_fn(move |request: Request<Incoming>| {
        // Boxed, so that it takes no room on connections that wait, or whose answer has begun.
        Box::pin(crate::call::serve(Arc::clone(&gate), Arc::clone(&client), request))
    });
    let spawner = Spawner(Arc::clone(&door.gate));
    let builder = builder(&limits, timeouts.header_read, door.concurrent_streams, spawner);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let stop = pin!(tasks.stopping());
    let mut stopping = Seldom::new(stop);
    let cutoff = &door.gate.cutoff;
    let mut linger = None;
    let mut is_stopping = false;
    let life = poll_fn(|cx| {
        let polled = connection.as_mut().poll(cx);
        if polled.is_ready() || is_stopping || stopping.poll(cx, cutoff.is_near()).is_pending() {
            return polled;
        }
        let linger = linger.get_or_insert_with(|| Box::pin(tokio::time::sleep(LINGER)));
        if linger.as_mut().poll(cx).is_pending() && cutoff.failure().is_none() {
            return polled;
        }
        // No further call on this connection; the one that runs finishes.
        is_stopping = true;
        connection.as_mut().graceful_shutdown();
        connection.as_mut().poll(cx)
    });
    if let Some(Err(error)) = door.gate.cutoff.watch(life).await {
        tracing::debug!(%error, "a client connection ended early");
    }
}

fn builder(limits: &Limits, head_timeout: Duration, streams: u32, spawner: Spawner) -> auto::Builder<Spawner> {
    let mut builder = auto::Builder::new(spawner);
    // Heads within the buffer are measured when they have been read, so that the refusal is in the caller's dialect.
    let buffer = limits.header_size.as_usize().max(HEAD_BUFFER);
    let mut http1 = builder.http1();
    http1.timer(TokioTimer::new()).header_read_timeout(head_timeout);
    http1.max_buf_size(buffer);
    let headers = limits.header_count.get() as usize;
    if headers != 100 {
        // hyper's own limit is 100, which needs no allocation.
        http1.max_headers(headers);
    }
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(streams)
        .max_header_list_size(u32::try_from(buffer).unwrap_or(u32::MAX))
        .keep_alive_interval(HTTP2_PING);
    builder
}

/// Runs the streams of HTTP/2 connections, tracked like all tasks.
///
/// A client that grants its stream no more room stops the answer without stopping the socket, and then nobody asks the answer
/// whether its time is up. So a stream has an end of its own: when its client has taken nothing for the idle time, and a little
/// after the call's in any case.
#[derive(Clone, Debug)]
struct Spawner(Arc<Gate>);

impl<F> Executor<F> for Spawner
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        let gate = Arc::clone(&self.0);
        // A stream begins with its call, so these are the settings that the call goes by.
        let timeouts = gate.runtime.snapshot().settings().timeouts;
        let limits = StreamLimits {
            total: timeouts.total + OVERTIME,
            stall: timeouts.idle,
        };
        self.0.tasks.spawn(async move {
            let stream = gate.cutoff.watch(until_stalled(future, limits, gate.clock));
            if let Some(Err(Stalled)) = stream.await {
                tracing::debug!("a stream was given up: its client takes nothing");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[tokio::test]
    async fn nobody_is_left_in_the_queue() {
        let listener = bind_one((Ipv4Addr::LOCALHOST, 0).into(), Sharing::Port).unwrap();
        let address = listener.local_addr().unwrap();
        let clients: Vec<_> = (0..3).map(|_| std::net::TcpStream::connect(address).unwrap()).collect();
        let peers: Vec<_> = waiting(&listener).map(|(_, peer)| peer).collect();
        let expected: Vec<_> = clients.iter().map(|client| client.local_addr().unwrap()).collect();
        assert_eq!(peers, expected);
    }
}
