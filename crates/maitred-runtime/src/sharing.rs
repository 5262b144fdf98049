//! The talk among gateways about one pool, by way of the shared log.
//!
//! Two tasks for each pool: one speaks, one listens. Neither is on a call's way. When the log cannot be reached they try again, more and
//! more seldom, and the pool goes on with its own calls and the endpoints' pages; the metrics say so.

use std::sync::Arc;
use std::time::Duration;

use maitred_config::SharingSettings;
use maitred_sched::ShareMessage;
use maitred_store::{Entry, LogError, SharedLog, SharedLogOptions};
use maitred_types::Time;

use crate::clock::Clock;
use crate::host::PoolHost;
use crate::tasks::Tasks;

/// Entries that a log keeps: some minutes of the talk of a few busy gateways.
const KEEP: usize = 20_000;
/// Entries of the past that a gateway reads when it joins.
const PAST: usize = 4_096;
/// How long the log's server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// How long to wait before the first further try; doubled with each, up to the longest.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LONGEST: Duration = Duration::from_secs(5);
/// Bookings after which a gateway speaks before its time.
const BOOKED_MAX: u32 = 32;
/// How often it is looked whether that many have come.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// One pool's part in the talk.
#[derive(Clone, Debug)]
pub(crate) struct Sharing {
    pub(crate) host: Arc<PoolHost>,
    pub(crate) clock: Clock,
    /// This gateway's name among the others.
    pub(crate) gateway: u64,
    log: SharedLog,
    period: Duration,
}

impl Sharing {
    /// The part of `host` in the talk that `settings` describe. Their form has been checked; what a server's address still has wrong is
    /// an error.
    pub(crate) fn new(
        host: Arc<PoolHost>,
        clock: Clock,
        gateway: u64,
        settings: &SharingSettings,
    ) -> Result<Self, LogError> {
        let log = SharedLog::new(SharedLogOptions {
            url: settings.url.expose().to_owned(),
            key: format!("{}:pool:{}", settings.group, host.name()),
            keep: KEEP,
            timeout: TIMEOUT,
        })?;
        Ok(Self {
            host,
            clock,
            gateway,
            log,
            period: settings.period,
        })
    }

    /// Starts both tasks.
    pub(crate) fn begin(self, tasks: &Tasks) {
        tasks.spawn_until_stop(self.clone().speak());
        tasks.spawn_until_stop(self.listen());
    }

    async fn speak(self) {
        let mut pause = RETRY_FIRST;
        while !self.host.is_over() {
            let told = self.speak_until_error(&mut pause).await;
            self.lost("written", told);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_LONGEST);
        }
    }

    async fn speak_until_error(&self, pause: &mut Duration) -> Result<(), LogError> {
        let mut writer = self.log.writer(self.gateway).await?;
        while !self.host.is_over() {
            let message = self.host.share(self.clock.now()).to_bytes();
            writer
                .append(&message)
                .await
                .inspect_err(|_| self.host.meters().shared("lost"))?;
            self.host.meters().shared("sent");
            self.host.meters().sharing_up(true);
            *pause = RETRY_FIRST;
            self.rest().await;
        }
        Ok(())
    }

    /// Waits until the time to speak has come, or there is much to say.
    async fn rest(&self) {
        let due = self.clock.now() + self.period;
        while self.clock.now() < due && self.host.booked_unshared() < BOOKED_MAX {
            let left = due.since(self.clock.now());
            tokio::time::sleep(left.min(LOOK_INTERVAL)).await;
        }
    }

    async fn listen(self) {
        let mut pause = RETRY_FIRST;
        while !self.host.is_over() {
            let heard = self.listen_until_error(&mut pause).await;
            self.lost("read", heard);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_LONGEST);
        }
    }

    async fn listen_until_error(&self, pause: &mut Duration) -> Result<(), LogError> {
        let (mut reader, past) = self.log.reader(self.gateway, PAST).await?;
        for entry in &past {
            self.hear(entry, PoolHost::hear_past);
        }
        while !self.host.is_over() {
            for entry in &reader.next().await? {
                self.hear(entry, PoolHost::hear);
            }
            *pause = RETRY_FIRST;
            self.host.meters().sharing_peers(self.host.peers());
        }
        Ok(())
    }

    fn hear(&self, entry: &Entry, take: fn(&PoolHost, u64, &ShareMessage, Time)) {
        match ShareMessage::read(&entry.bytes) {
            Ok(message) => {
                take(&self.host, entry.writer, &message, self.clock.now());
                self.host.meters().shared("heard");
            }
            Err(error) => {
                self.host.meters().shared("unreadable");
                tracing::debug!(pool = %self.host.name(), %error, "a message of another gateway cannot be read");
            }
        }
    }

    fn lost(&self, what: &'static str, outcome: Result<(), LogError>) {
        let Err(error) = outcome else { return };
        self.host.meters().sharing_up(false);
        self.host.meters().sharing_peers(self.host.peers());
        tracing::warn!(pool = %self.host.name(), %error, "the shared log cannot be {what}; going on without it");
    }
}
