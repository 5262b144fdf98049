//! What the endpoint publishes of its prefix cache, in vLLM's framing: a PUB socket, and a ROUTER socket that plays recent batches
//! again. As with the real thing, a subscriber that is too slow misses batches, and the numbers tell.
//!
//! Token ids and parents are left out, since the model keeps neither: it knows blocks by their hashes.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use maitred_engines::kv_events::{
    BlockHash, BlocksRemoved, BlocksStored, KvBatch, KvEvent, Place, REPLAY_END, sequence_bytes,
};
use maitred_runtime::{Tasks, ZmtpPeer};
use maitred_sim::CacheChange;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// The topic, as vLLM's is unless configured otherwise.
const TOPIC: &[u8] = b"kv-events";
/// Batches that a slow subscriber may be behind; as many as vLLM's queue holds would be 100,000.
const BEHIND_MAX: usize = 1_024;
/// Batches that can be played again; vLLM keeps 10,000.
const KEPT_MAX: usize = 1_024;

/// Publishes changes of one prefix cache.
#[derive(Debug)]
pub(super) struct Publisher {
    block_size: u32,
    kept: Mutex<Kept>,
    live: broadcast::Sender<Arc<Batch>>,
}

#[derive(Debug, Default)]
struct Kept {
    next: u64,
    batches: VecDeque<Arc<Batch>>,
    /// Batches that are yet to be lost on the way, so that numbers are missing.
    to_lose: u32,
}

#[derive(Debug)]
struct Batch {
    sequence: u64,
    payload: Vec<u8>,
}

impl Publisher {
    pub(super) fn new(block_size: u32) -> Arc<Self> {
        Arc::new(Self {
            block_size,
            kept: Mutex::default(),
            live: broadcast::Sender::new(BEHIND_MAX),
        })
    }

    /// The next `batches` batches are lost on the way to subscribers; they can be played again.
    pub(super) fn lose(&self, batches: u32) {
        self.kept.lock().to_lose = batches;
    }

    /// Publishes what happened, if anything did. `at` is Unix time in seconds.
    pub(super) fn publish(&self, changes: &[CacheChange], at: f64) {
        if changes.is_empty() {
            return;
        }
        let payload = KvBatch {
            at: Some(at),
            events: events(changes, self.block_size),
            rank: Some(0),
            passed_over: 0,
        }
        .write();
        let mut kept = self.kept.lock();
        let batch = Arc::new(Batch {
            sequence: kept.next,
            payload,
        });
        kept.next += 1;
        if kept.batches.len() >= KEPT_MAX {
            kept.batches.pop_front();
        }
        kept.batches.push_back(Arc::clone(&batch));
        if kept.to_lose > 0 {
            kept.to_lose -= 1;
            return;
        }
        // Nobody may be listening.
        drop(self.live.send(batch));
    }

    /// Serves subscribers until the task is dropped.
    pub(super) async fn serve(self: Arc<Self>, listener: TcpListener, connections: Tasks) {
        while let Some(stream) = accepted(&listener).await {
            let publisher = Arc::clone(&self);
            connections.spawn_until_stop(async move {
                if let Err(error) = publisher.feed(stream).await {
                    tracing::debug!(%error, "a subscriber has gone");
                }
            });
        }
    }

    async fn feed(&self, stream: TcpStream) -> io::Result<()> {
        let mut peer = ZmtpPeer::shake_hands(stream, "PUB").await?;
        let mut live = self.live.subscribe();
        let mut topics: Vec<Vec<u8>> = Vec::new();
        loop {
            let batch = tokio::select! {
                message = peer.receive() => {
                    heed(&message?, &mut topics);
                    continue;
                }
                batch = live.recv() => batch,
            };
            match batch {
                Ok(batch) if topics.iter().any(|topic| TOPIC.starts_with(topic)) => {
                    let frames: [&[u8]; 3] = [TOPIC, &sequence_bytes(batch.sequence), &batch.payload];
                    peer.send(&frames).await?;
                }
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return Ok(()),
            }
        }
    }

    /// Serves those who want batches again until the task is dropped.
    pub(super) async fn serve_again(self: Arc<Self>, listener: TcpListener, connections: Tasks) {
        while let Some(stream) = accepted(&listener).await {
            let publisher = Arc::clone(&self);
            connections.spawn_until_stop(async move {
                if let Err(error) = publisher.play(stream).await {
                    tracing::debug!(%error, "one who wanted batches again has gone");
                }
            });
        }
    }

    async fn play(&self, stream: TcpStream) -> io::Result<()> {
        let mut peer = ZmtpPeer::shake_hands(stream, "ROUTER").await?;
        loop {
            let request = peer.receive().await?;
            let first = request.last().and_then(|first| first.as_slice().try_into().ok());
            let Some(first) = first.map(u64::from_be_bytes) else {
                continue;
            };
            let batches: Vec<_> = self.kept.lock().batches.iter().cloned().collect();
            for batch in batches.iter().filter(|batch| batch.sequence >= first) {
                let frames: [&[u8]; 4] = [b"", TOPIC, &sequence_bytes(batch.sequence), &batch.payload];
                peer.send(&frames).await?;
            }
            let end: [&[u8]; 4] = [b"", TOPIC, &sequence_bytes(REPLAY_END), b""];
            peer.send(&end).await?;
        }
    }
}

async fn accepted(listener: &TcpListener) -> Option<TcpStream> {
    listener.accept().await.ok().map(|(stream, _)| stream)
}

/// Takes a subscription, or its end, as plain messages have them.
fn heed(message: &[Vec<u8>], topics: &mut Vec<Vec<u8>>) {
    /// Most topics of one subscriber.
    const TOPICS_MAX: usize = 16;
    match message.first().map(Vec::as_slice) {
        Some([1, topic @ ..]) if topics.len() < TOPICS_MAX => topics.push(topic.to_vec()),
        Some([0, topic @ ..]) => topics.retain(|known| known != topic),
        _ => {}
    }
}

/// Changes as events: neighbours of one kind together.
fn events(changes: &[CacheChange], block_size: u32) -> Vec<KvEvent> {
    let place = || Place {
        medium: Some("GPU".to_owned()),
        group: 0,
        kind: None,
    };
    let mut events: Vec<KvEvent> = Vec::new();
    for change in changes {
        match (change, events.last_mut()) {
            (CacheChange::Stored(hash), Some(KvEvent::Stored(stored))) => stored.hashes.push(BlockHash(hash.get())),
            (CacheChange::Removed(hash), Some(KvEvent::Removed(removed))) => removed.hashes.push(BlockHash(hash.get())),
            (CacheChange::Stored(hash), _) => events.push(KvEvent::Stored(BlocksStored {
                hashes: vec![BlockHash(hash.get())],
                block_size,
                place: Place {
                    kind: Some("full_attention".to_owned()),
                    ..place()
                },
                ..BlocksStored::default()
            })),
            (CacheChange::Removed(hash), _) => events.push(KvEvent::Removed(BlocksRemoved {
                hashes: vec![BlockHash(hash.get())],
                place: place(),
            })),
        }
    }
    events
}
