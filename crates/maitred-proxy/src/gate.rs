//! What every call on one thread of the data path has at hand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use maitred_obs::{LogFormat, Meters, RecordSink, Recording, ServiceMeters};
use maitred_runtime::{CertificateNames, Clock, DecisionRing, Pins, Runtime, Tasks};
use maitred_types::RequestId;

use crate::cutoff::Cutoff;
use crate::prompt::ChainUse;
use crate::shard::Shard;

/// The shared things of the data path, and one thread's own.
#[derive(Debug)]
pub(crate) struct Gate {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) clock: Clock,
    pub(crate) tasks: Tasks,
    pub(crate) meters: Arc<Meters>,
    /// This thread's own.
    pub(crate) service: ServiceMeters,
    pub(crate) records: RecordSink,
    pub(crate) record_format: LogFormat,
    pub(crate) recording: Option<Recording>,
    pub(crate) shard: Shard,
    /// Where this thread's calls leave why they went where they went.
    pub(crate) decisions: Arc<DecisionRing>,
    pub(crate) connections: Arc<Connections>,
    pub(crate) ids: RequestIds,
    pub(crate) cutoff: Arc<Cutoff>,
}

impl Gate {
    /// Who reads prompts' chains besides the scheduler.
    pub(crate) const fn chain_use(&self) -> ChainUse {
        if self.recording.is_some() {
            ChainUse::Recorded
        } else {
            ChainUse::Scheduled
        }
    }

    /// An id for a call that came without one.
    pub(crate) fn request_id(&self) -> RequestId {
        self.ids.next()
    }
}

/// Makes ids that no other gateway makes, as long as the salts differ.
#[derive(Debug)]
pub(crate) struct RequestIds {
    salt: u64,
    made: AtomicU64,
}

impl RequestIds {
    pub(crate) const fn new(salt: u64) -> Self {
        Self {
            salt,
            made: AtomicU64::new(0),
        }
    }

    fn next(&self) -> RequestId {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        RequestId::from(format!("{:016x}{number:016x}", self.salt))
    }
}

/// Counts the client connections of all threads against their limit.
#[derive(Debug)]
pub(crate) struct Connections {
    open: AtomicUsize,
    max: usize,
}

impl Connections {
    pub(crate) const fn new(max: usize) -> Self {
        Self {
            open: AtomicUsize::new(0),
            max,
        }
    }
}

/// One client connection, for as long as it is open.
#[derive(Debug)]
pub(crate) struct Client {
    gate: Arc<Gate>,
    /// The peer's address, as the access record writes it.
    pub(crate) address: String,
    /// Which endpoint this connection is bound to, per pool that balances by connection.
    pub(crate) pins: Pins,
    /// The names in its certificate, if it has shown one.
    pub(crate) certificate: Option<CertificateNames>,
}

impl Client {
    /// Lets a connection in, unless there are too many.
    pub(crate) fn enter(gate: &Arc<Gate>, peer: SocketAddr) -> Option<Self> {
        let connections = &gate.connections;
        if connections.open.fetch_add(1, Ordering::Relaxed) >= connections.max {
            connections.open.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        gate.meters.open_connections.inc();
        Some(Self {
            gate: Arc::clone(gate),
            address: peer.to_string(),
            pins: Pins::default(),
            certificate: None,
        })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.gate.connections.open.fetch_sub(1, Ordering::Relaxed);
        self.gate.meters.open_connections.dec();
    }
}
