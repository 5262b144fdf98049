//! The talk with the store of shared quota: what the core wants to know is asked, and what others use is heard of.
//!
//! One task, off every call's way. When the store cannot be reached it tries again, and the core goes on with what it holds, as long
//! as its leases last, and then as the configuration says.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::rand::{SecureRandom as _, SystemRandom};
use maitred_config::SharingSettings;
use maitred_obs::Meters;
use maitred_store::{QuotaConnection, QuotaStore, QuotaStoreError};
use maitred_tenant::{Question, Word};
use tokio::sync::watch;

use crate::clock::Clock;
use crate::quota::QuotaHost;
use crate::tasks::Tasks;

/// How long the store may take to answer.
const TIMEOUT: Duration = Duration::from_secs(1);
/// How long to wait before the first further try; doubled with each, up to the longest.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LONGEST: Duration = Duration::from_secs(1);
/// How often the core is looked at, and how often news is asked for.
const LOOK: Duration = Duration::from_millis(25);
const NEWS: Duration = Duration::from_millis(100);
/// Counters that are asked about in one message.
const BATCH: usize = 256;
/// News is asked for from so long before the last time on, since it may have been told in the very moment.
const OVERLAP_MILLIS: u64 = 1_000;

/// One gateway's part in the talk.
#[derive(Debug)]
pub(crate) struct QuotaLeases {
    host: Arc<QuotaHost>,
    store: QuotaStore,
    meters: Arc<Meters>,
    /// A name that no other start of a gateway has: its leases are not mixed up with those of an earlier one.
    gateway: u64,
    met: watch::Sender<bool>,
    /// The store's time when news was last heard.
    news_at: u64,
}

impl QuotaLeases {
    /// The part of `host` in the talk that `sharing` describes.
    pub(crate) fn new(
        host: Arc<QuotaHost>,
        sharing: &SharingSettings,
        meters: Arc<Meters>,
        met: watch::Sender<bool>,
    ) -> Result<Self, QuotaStoreError> {
        let mut bytes = [0; 8];
        if SystemRandom::new().fill(&mut bytes).is_err() {
            tracing::error!("the system gives no random numbers; gateways may take each other for the same");
        }
        Ok(Self {
            host,
            store: QuotaStore::new(sharing.url.expose(), &sharing.group, TIMEOUT)?,
            meters,
            gateway: u64::from_be_bytes(bytes),
            met,
            news_at: 0,
        })
    }

    /// Talks until a stop is asked for, and gives back then what is held.
    pub(crate) async fn keep(mut self, clock: Clock, tasks: Tasks) {
        let mut pause = RETRY_FIRST;
        while !tasks.is_stopping() {
            let talked = tokio::select! {
                biased;
                () = tasks.stopping() => break,
                talked = self.talk(clock, &mut pause) => talked,
            };
            if let Err(error) = talked {
                self.meters.quota_store_up.set(0);
                self.host.store_answers.send_replace(false);
                self.met.send_replace(true);
                tracing::warn!(%error, "going on without the store of shared quota");
            }
            tokio::select! {
                () = tasks.stopping() => {}
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(RETRY_LONGEST);
        }
        if let Err(error) = self.give_back().await {
            tracing::warn!(%error, "what is held of shared quota is not given back; it is free again when the lease is over");
        }
    }

    async fn talk(&mut self, clock: Clock, pause: &mut Duration) -> Result<(), QuotaStoreError> {
        let mut leases = self.store.connect(self.gateway).await?;
        let mut news_due = clock.now();
        loop {
            if clock.now() >= news_due {
                self.hear_news(&mut leases).await?;
                news_due = clock.now() + NEWS;
            }
            while self.ask_batch(&mut leases).await? == BATCH {}
            let begins = |answers: &mut bool| !std::mem::replace(answers, true);
            self.host.store_answers.send_if_modified(begins);
            self.met.send_if_modified(begins);
            *pause = RETRY_FIRST;
            self.meters.quota_store_up.set(1);
            // A rest that is over is no error.
            drop(tokio::time::timeout(LOOK, self.host.hungry.notified()).await);
        }
    }

    async fn hear_news(&mut self, leases: &mut QuotaConnection) -> Result<(), QuotaStoreError> {
        let since = match self.news_at {
            0 => 0,
            at => at.saturating_sub(OVERLAP_MILLIS),
        };
        let news = leases.news(since).await?;
        self.host.with_shared(|quota, at| {
            quota.hear_from(news.gateways, at.now);
            news.names.iter().for_each(|name| quota.hear_of(name, at));
        });
        self.news_at = news.now;
        Ok(())
    }

    /// Asks what is to be asked, up to a batch. Says how much that was.
    async fn ask_batch(&self, leases: &mut QuotaConnection) -> Result<usize, QuotaStoreError> {
        let questions = self
            .host
            .with_shared(|quota, at| quota.asks(BATCH, at))
            .unwrap_or_default();
        self.ask(leases, &questions).await
    }

    async fn ask(&self, leases: &mut QuotaConnection, questions: &[Question]) -> Result<usize, QuotaStoreError> {
        if questions.is_empty() {
            return Ok(0);
        }
        let flight = Flight {
            host: &self.host,
            questions,
            is_over: false,
        };
        let numbers: Vec<_> = questions.iter().map(|question| question.ask.numbers()).collect();
        let asks: Vec<(&str, &[u64])> = questions
            .iter()
            .zip(&numbers)
            .map(|(question, numbers)| (question.key.as_str(), numbers.as_slice()))
            .collect();
        let answers = leases.ask(&asks, None).await;
        let result = if answers.is_ok() { "answered" } else { "lost" };
        self.meters.quota_asks(result, questions.len() as u64);
        let answers = answers?;
        let late = answers.iter().filter(|answer| answer.is_empty()).count();
        self.meters.quota_asks("late", late as u64);
        flight.land(&answers);
        Ok(questions.len())
    }

    async fn give_back(&self) -> Result<(), QuotaStoreError> {
        let questions = self
            .host
            .with_shared(|quota, at| quota.last_asks(at))
            .unwrap_or_default();
        let mut leases = self.store.connect(self.gateway).await?;
        for questions in questions.chunks(BATCH) {
            self.ask(&mut leases, questions).await?;
        }
        leases.leave().await
    }
}

/// Questions under way. Those that are dropped without an answer are lost, and the core hears so.
struct Flight<'a> {
    host: &'a QuotaHost,
    questions: &'a [Question],
    is_over: bool,
}

impl Flight<'_> {
    fn land(mut self, answers: &[Vec<u64>]) {
        self.is_over = true;
        self.host.with_shared(|quota, at| {
            for (index, question) in self.questions.iter().enumerate() {
                let word = answers.get(index).and_then(|numbers| Word::read(numbers));
                quota.hear(question, word, at.now);
            }
        });
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.host.with_shared(|quota, at| {
                self.questions
                    .iter()
                    .for_each(|question| quota.hear(question, None, at.now));
            });
        }
    }
}

#[cfg(test)]
mod tests;
