//! Following what one endpoint publishes of its KV cache, and telling the pool.
//!
//! The subscription belongs to one life of the endpoint: when it begins another, what was known is forgotten. PUB drops what is
//! not taken in time, so numbers may be missing; the replay socket gives them again, else the pool is told that its knowledge
//! has a hole and guesses the cache's capacity again.

use std::io;
use std::time::Duration;

use maitred_config::KvEventSettings;
use maitred_engines::kv_events::zmtp::subscribe;
use maitred_engines::kv_events::{KvBatch, KvMessage, KvTrack, Sequence, replay_request};
use maitred_sched::Pool;
use maitred_types::{Address, EndpointId, Time};
use tokio::time::timeout;

use crate::dial::dial_endpoint;
use crate::watch::{Watch, page_address};
use crate::zmtp::ZmtpPeer;

/// How long a connection and its handshake may take.
const CONNECT: Duration = Duration::from_secs(2);
/// How long all that is played again may take.
const REPLAY: Duration = Duration::from_secs(10);
/// Most batches that are played again in one go; vLLM keeps 10,000.
const REPLAY_MAX: usize = 20_000;
/// How often it is looked whether the endpoint is still wanted, and the same.
const LOOK: Duration = Duration::from_secs(1);
/// The first and the longest rest between two tries to connect.
const REST: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// One endpoint's subscription.
#[derive(Debug)]
pub(crate) struct Follower {
    watch: Watch,
    track: KvTrack,
    /// The life that `track` is of.
    id: Option<EndpointId>,
}

impl Follower {
    pub(crate) fn new(watch: Watch) -> Self {
        Self {
            watch,
            track: KvTrack::new(),
            id: None,
        }
    }

    /// Follows until the endpoint is not wanted any more. Connects again whenever the connection ends.
    pub(crate) async fn follow(mut self) {
        let mut rest = REST.0;
        while let Some(settings) = self.look() {
            let Some(settings) = settings else {
                tokio::time::sleep(LOOK).await;
                continue;
            };
            match self.connect(&settings).await {
                Ok(peer) => {
                    rest = REST.0;
                    let why = self.listen(peer, &settings).await;
                    tracing::debug!(endpoint = %self.watch.address, why, "the KV events have ended");
                    self.lose_track("disconnected");
                }
                Err(error) => {
                    tracing::debug!(endpoint = %self.watch.address, %error, "no KV events");
                    self.count("unreachable");
                }
            }
            tokio::time::sleep(rest).await;
            rest = (rest * 2).min(REST.1);
        }
    }

    /// Where the endpoint publishes, if it does; `None` once it is not wanted. Forgets what another life has told.
    fn look(&mut self) -> Option<Option<KvEventSettings>> {
        let subject = self.watch.subject()?;
        if self.id != Some(subject.id) {
            self.track.forget();
            self.id = Some(subject.id);
        }
        Some(subject.engine.kv_events.clone())
    }

    async fn connect(&self, settings: &KvEventSettings) -> io::Result<ZmtpPeer> {
        let address = page_address(&self.watch.address, Some(settings.port));
        let mut peer = reach(&address, "SUB").await?;
        peer.send_bytes(&subscribe(settings.topic.as_bytes())).await?;
        Ok(peer)
    }

    /// Takes what comes until the connection ends or is of no use; says why.
    async fn listen(&mut self, mut peer: ZmtpPeer, settings: &KvEventSettings) -> &'static str {
        // The subscription may have come late. What happened before it is history to the pool, which is told the sum alone.
        self.play_again(settings, 0, None).await;
        let known = u32::try_from(self.track.known()).unwrap_or(u32::MAX);
        if known > 0 {
            self.tell(|pool, id, now| pool.cache_stored(id, known, now));
        }
        self.count("connected");
        let mut tick = tokio::time::interval(LOOK);
        loop {
            let message = tokio::select! {
                message = peer.receive() => message,
                _ = tick.tick() => match self.look() {
                    Some(Some(now)) if now == *settings => continue,
                    _ => return "the settings have changed",
                },
            };
            let Ok(frames) = message else {
                return "the connection has ended";
            };
            if self.look().flatten().is_none() {
                return "the endpoint is not followed any more";
            }
            self.take_in(&frames, settings).await;
        }
    }

    async fn take_in(&mut self, frames: &[Vec<u8>], settings: &KvEventSettings) {
        let Some((sequence, batch)) = read(frames) else {
            self.count("unreadable");
            return;
        };
        match self.track.look(sequence) {
            Sequence::Next => {}
            Sequence::Seen => return,
            Sequence::Restart => {
                self.count("restart");
                self.track.forget();
                self.tell(Pool::cache_cleared);
                if sequence > 0 {
                    self.play_again(settings, 0, Some(sequence)).await;
                }
            }
            Sequence::Gap { first } => {
                self.count("gap");
                self.play_again(settings, first, Some(sequence)).await;
            }
        }
        match self.track.look(sequence) {
            Sequence::Next => {}
            // It has been played again with the others.
            Sequence::Seen | Sequence::Restart => return,
            Sequence::Gap { .. } => self.lose_track("gap_kept"),
        }
        self.count("taken");
        self.apply(sequence, &batch);
    }

    /// Has batches from `first` on played again, and takes those that are new. Those from `before` on come live anyway; without it
    /// all are history, and the pool is not told.
    async fn play_again(&mut self, settings: &KvEventSettings, first: u64, before: Option<u64>) {
        let Some(port) = settings.replay_port else { return };
        let address = page_address(&self.watch.address, Some(port));
        let played = timeout(REPLAY, self.play(&address, first, before)).await;
        if !matches!(played, Ok(Ok(()))) {
            self.count("replay_failed");
        }
    }

    async fn play(&mut self, address: &Address, first: u64, before: Option<u64>) -> io::Result<()> {
        let mut peer = reach(address, "DEALER").await?;
        peer.send(&replay_request(first)).await?;
        for _ in 0..REPLAY_MAX {
            let frames = peer.receive().await?;
            let slices: Vec<_> = frames.iter().map(Vec::as_slice).collect();
            let Some(message) = KvMessage::read(&slices) else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            if message.is_replay_end() || before.is_some_and(|before| message.sequence >= before) {
                return Ok(());
            }
            let batch = KvBatch::read(message.payload).map_err(io::Error::other)?;
            if self.track.look(message.sequence) == Sequence::Next {
                self.count("played_again");
                match before {
                    Some(_) => self.apply(message.sequence, &batch),
                    None => {
                        self.track.take(message.sequence, &batch);
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes a batch, and tells the pool what it did to the cache.
    fn apply(&mut self, sequence: u64, batch: &KvBatch) {
        let change = self.track.take(sequence, batch);
        self.tell(|pool, id, now| {
            if change.cleared {
                pool.cache_cleared(id, now);
            }
            if change.stored > 0 {
                pool.cache_stored(id, change.stored, now);
            }
            if change.removed > 0 {
                pool.cache_removed(id, change.removed, now);
            }
        });
    }

    /// What is known of the cache is a guess again.
    fn lose_track(&mut self, why: &'static str) {
        self.count(why);
        self.track.forget();
        self.tell(Pool::cache_unknown);
    }

    fn tell(&self, tell: impl FnOnce(&mut Pool, EndpointId, Time)) {
        if let Some(id) = self.id {
            let now = self.watch.clock.now();
            self.watch.host.with_core(now, |core| tell(&mut core.pool, id, now));
        }
    }

    fn count(&self, result: &'static str) {
        self.watch.host.meters().kv_event(result);
    }
}

async fn reach(address: &Address, socket_type: &str) -> io::Result<ZmtpPeer> {
    let reach = async {
        let stream = dial_endpoint(address.as_str()).await?;
        ZmtpPeer::shake_hands(stream, socket_type).await
    };
    timeout(CONNECT, reach).await?
}

fn read(frames: &[Vec<u8>]) -> Option<(u64, KvBatch)> {
    let frames: Vec<_> = frames.iter().map(Vec::as_slice).collect();
    let message = KvMessage::read(&frames)?;
    let batch = KvBatch::read(message.payload).ok()?;
    Some((message.sequence, batch))
}
