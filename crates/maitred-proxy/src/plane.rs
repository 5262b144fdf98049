//! The data path as a whole: its threads, their listeners, and how it ends.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use maitred_config::Settings;
use maitred_obs::{LogFormat, Meters, RecordSink, Recording};
use maitred_runtime::{Runtime, Tasks};
use tokio_rustls::TlsAcceptor;

use crate::cutoff::{Cutoff, LAST_WORDS};
use crate::gate::{Connections, Gate, RequestIds};
use crate::listener::{Door, accept, bind};
use crate::shard::Shard;

/// How often idle links are looked through.
const SWEEP: Duration = Duration::from_secs(2);

/// What the data path needs from outside.
#[derive(Debug)]
pub struct PlaneOptions {
    /// Threads; connections are spread over them by the kernel.
    pub threads: usize,
    /// Where records go.
    pub records: RecordSink,
    /// How records are written.
    pub record_format: LogFormat,
    /// Where the traffic is recorded, if at all.
    pub recording: Option<Recording>,
    /// TLS of each listener, in the order of the settings.
    pub tls: Vec<Option<Arc<rustls::ServerConfig>>>,
    /// Makes request ids differ from those of other gateways.
    pub salt: u64,
}

/// The running data path.
#[derive(Debug)]
pub struct DataPlane {
    addresses: Vec<SocketAddr>,
    tasks: Tasks,
    threads: Vec<JoinHandle<()>>,
    cutoff: Arc<Cutoff>,
}

impl DataPlane {
    /// Binds every listener and starts the threads.
    ///
    /// # Errors
    /// When a listener cannot be bound (the message names its address) or a thread cannot be started.
    pub fn start(runtime: &Arc<Runtime>, meters: &Arc<Meters>, options: &PlaneOptions) -> io::Result<Self> {
        let snapshot = runtime.snapshot();
        let settings = snapshot.settings();
        let threads = options.threads.max(1);
        let (addresses, mut sockets) = bind_all(settings, threads)?;
        let tasks = Tasks::new();
        let connections = Arc::new(Connections::new(settings.limits.connections.get() as usize));
        let cutoff = Arc::new(Cutoff::default());
        let mut plane = Self {
            cutoff: Arc::clone(&cutoff),
            addresses,
            tasks: tasks.clone(),
            threads: Vec::with_capacity(threads),
        };
        for number in 0..threads {
            let gate = Arc::new(Gate {
                runtime: Arc::clone(runtime),
                clock: runtime.clock(),
                tasks: tasks.clone(),
                meters: Arc::clone(meters),
                service: meters.service(),
                records: options.records.clone(),
                record_format: options.record_format,
                recording: options.recording.clone(),
                shard: Shard::default(),
                decisions: runtime.decisions().add_ring(),
                connections: Arc::clone(&connections),
                ids: RequestIds::new(options.salt.wrapping_add(number as u64)),
                cutoff: Arc::clone(&cutoff),
            });
            let doors = sockets
                .iter_mut()
                .zip(&options.tls)
                .zip(&settings.listeners)
                .filter_map(|((sockets, tls), listener)| {
                    let door = Door {
                        gate: Arc::clone(&gate),
                        tls: tls.clone().map(TlsAcceptor::from),
                        concurrent_streams: listener.max_concurrent_streams,
                    };
                    Some((sockets.pop()?, door))
                });
            let doors: Vec<_> = doors.collect();
            let thread = std::thread::Builder::new().name(format!("data-{number}"));
            plane.threads.push(thread.spawn(move || run_thread(&gate, doors))?);
        }
        Ok(plane)
    }

    /// Where clients can connect; port 0 is resolved.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Stops accepting, lets the calls that run finish for at most `limit`, and ends; what still runs by then ends with an error.
    /// Says how many connections that concerned.
    pub async fn drain(self, limit: Duration) -> usize {
        self.cutoff.announce();
        self.tasks.stop();
        if tokio::time::timeout(limit, self.tasks.wait()).await.is_ok() {
            return self.join(0);
        }
        let cut = self.tasks.running();
        self.cutoff.come();
        match tokio::time::timeout(LAST_WORDS * 2, self.tasks.wait()).await {
            Ok(()) => self.join(cut),
            // Whoever takes no last words ends with the process.
            Err(_elapsed) => cut,
        }
    }

    /// Waits for the threads, whose tasks have all ended.
    fn join(self, cut: usize) -> usize {
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the data path died");
            }
        }
        cut
    }
}

type Sockets = Vec<std::net::TcpListener>;

fn bind_all(settings: &Settings, threads: usize) -> io::Result<(Vec<SocketAddr>, Vec<Sockets>)> {
    let mut addresses = Vec::new();
    let mut all = Vec::new();
    for listener in &settings.listeners {
        let sockets = bind(listener.address, threads)
            .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {}: {error}", listener.address)))?;
        addresses.extend(sockets.first().map(std::net::TcpListener::local_addr).transpose()?);
        all.push(sockets);
    }
    Ok((addresses, all))
}

fn run_thread(gate: &Arc<Gate>, doors: Vec<(std::net::TcpListener, Door)>) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "a thread of the data path has no event loop");
            return;
        }
    };
    runtime.block_on(async {
        for (socket, door) in doors {
            gate.tasks.spawn(accept(socket, door));
        }
        let (shard, clock) = (gate.shard.clone(), gate.clock);
        gate.tasks.spawn_until_stop(async move {
            loop {
                tokio::time::sleep(SWEEP).await;
                shard.sweep(clock.now());
            }
        });
        gate.tasks.stopping().await;
        gate.tasks.wait().await;
    });
}
