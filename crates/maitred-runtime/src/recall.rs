//! Quota after a restart, and limits that are added: what calls used before is read from the ledger and counted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use maitred_store::ledger::{By, Ledger, Past as Question, Stretch, Whose};
use maitred_tenant::{Amount, Dimensions, Limit, Lookback, Past, SharedQuota, Subject};
use tokio::sync::oneshot;

use crate::quota::QuotaHost;
use crate::runtime::Runtime;

/// How long the first call waits for it. After that calls are let go by what is known, and the past is counted when it is read.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait before the ledger is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// Which of a call's owners is which column.
const OWNERS: [(Dimensions, By); 5] = [
    (Dimensions::TENANT, By::Tenant),
    (Dimensions::USER, By::User),
    (Dimensions::KEY, By::Key),
    (Dimensions::MODEL, By::Model),
    (Dimensions::TASK, By::Task),
];

impl Runtime {
    /// Counts what calls of earlier starts used, for the limits that hold now; from now on limits that are added have counted what was used
    /// before them too. Completes when that is done; or, if the ledger does not say it in time, sooner, and it is done later. Call it once,
    /// after the ledger is kept and what was changed at run time is in force.
    pub async fn recall_quota(&self) {
        let done = if self.quota().is_shared() {
            self.stand_in()
        } else {
            self.recalls_limits.store(true, Ordering::Relaxed);
            self.recall(self.quota().lookbacks(), Whose::Earlier)
        };
        if tokio::time::timeout(PATIENCE, done).await.is_err() {
            tracing::error!(
                "what calls used before this start is not known yet: limits may be passed by it until the ledger's database answers"
            );
        }
    }

    /// Takes other limits. Those that are new begin with what was used before.
    pub(crate) fn take_limits(&self, limits: &[Limit]) {
        let at = self.quota().reconfigure(limits);
        if self.recalls_limits.load(Ordering::Relaxed) {
            // Nobody waits: until it is known, calls are let go by what is.
            drop(self.recall(self.quota().lookbacks(), Whose::Own(at)));
        }
    }

    /// Lets the ledger stand in for the store of shared quota, whenever that is gone. What is returned completes when that is not needed, or
    /// done.
    fn stand_in(&self) -> oneshot::Receiver<()> {
        let (done, is_done) = oneshot::channel();
        if let Some(ledger) = self.ledger() {
            let (quota, ledger) = (Arc::clone(self.quota()), Arc::clone(ledger));
            self.tasks()
                .spawn_until_stop(async move { stand_in(&quota, &ledger, done).await });
        }
        is_done
    }

    /// Counts what was used, in a task of its own. What is returned completes when that is done.
    fn recall(&self, lookbacks: Vec<Lookback>, whose: Whose) -> oneshot::Receiver<()> {
        let (done, is_done) = oneshot::channel();
        if let Some(ledger) = self.ledger().filter(|_| !lookbacks.is_empty()) {
            let (quota, ledger) = (Arc::clone(self.quota()), Arc::clone(ledger));
            self.tasks().spawn_until_stop(async move {
                recall(&quota, &ledger, (lookbacks, whose)).await;
                // Nobody waits any more if it took long.
                let _gone = done.send(());
            });
        }
        is_done
    }
}

/// Whenever the store is gone, takes once from the ledger what all gateways used: counters of which the store has not spoken begin there,
/// and not with nothing. Says when that is done for the first time, or the store is there.
async fn stand_in(quota: &QuotaHost, ledger: &Ledger, done: oneshot::Sender<()>) {
    let mut answers = quota.store_answers.subscribe();
    let mut done = Some(done);
    loop {
        if !*answers.borrow_and_update() {
            let lookbacks = quota.with_shared(SharedQuota::lookbacks).unwrap_or_default();
            tokio::select! {
                _ = answers.wait_for(|answers| *answers) => {}
                () = recall(quota, ledger, (lookbacks, Whose::Everybody)) => {}
            }
        }
        // Nobody waits any more if it took long.
        let _gone = done.take().map(|done| done.send(()));
        let comes_and_goes = async {
            answers.wait_for(|answers| *answers).await?;
            answers.wait_for(|answers| !*answers).await.map(drop)
        };
        if comes_and_goes.await.is_err() {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

async fn recall(quota: &QuotaHost, ledger: &Ledger, (lookbacks, whose): (Vec<Lookback>, Whose)) {
    ledger.settled().await;
    if whose != Whose::Earlier {
        ledger.flushed().await;
    }
    let mut calls = 0;
    for lookback in lookbacks {
        let question = Question {
            whose,
            by: OWNERS
                .iter()
                .filter(|(dimension, _)| lookback.by.has(*dimension))
                .map(|(_, by)| *by)
                .collect(),
            since: lookback.since,
            grain: lookback.grain,
        };
        let stretches = loop {
            match ledger.past(&question).await {
                Ok(stretches) => break stretches,
                Err(error) => {
                    tracing::error!(%error, "what calls used before cannot be read; trying again");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        };
        calls = calls.max(stretches.iter().map(|stretch| stretch.calls).sum());
        let pasts = stretches.iter().map(|stretch| past(&question.by, stretch));
        if !quota.recall(&lookback, pasts) {
            tracing::error!("there are more counters of quota than are kept: some do not know what was used before");
        }
    }
    tracing::info!(calls, "limits go on from what was used before");
}

fn past<'a>(by: &[By], stretch: &'a Stretch) -> Past<'a> {
    let mut subject = Subject::default();
    for (by, name) in by.iter().zip(&stretch.owners) {
        let some = Some(name.as_str()).filter(|name| !name.is_empty());
        match by {
            By::Tenant => subject.tenant = name,
            By::User => subject.user = some,
            By::Key => subject.key = some,
            By::Model => subject.model = name,
            By::Task => subject.task = some,
            _ => {}
        }
    }
    Past {
        subject,
        first: stretch.first,
        last: stretch.last,
        calls: stretch.calls,
        used: Amount {
            tokens: stretch.tokens,
            money: stretch.money,
        },
    }
}
