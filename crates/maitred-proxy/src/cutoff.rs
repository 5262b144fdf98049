//! The end of patience: when the time to drain is over, what still runs ends at once, and honestly.
//!
//! Cutting a connection from outside would leave its client with a bare end and its call without a true record. So the tasks
//! are woken, and each call ends itself: with an error if its answer has not begun, with an error event if it has.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use maitred_types::{FaultKind, LeaseEnd};
use tokio_util::sync::CancellationToken;

use crate::events::Failure;
use crate::fault::Fault;
use crate::seldom::Seldom;

/// How long a connection may take to send its last words.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(1);

/// When to try again: another gateway can answer at once.
const ELSEWHERE: Duration = Duration::from_secs(1);

/// Says whether the end has come, and wakes who waits for it.
#[derive(Debug, Default)]
pub(crate) struct Cutoff {
    is_near: AtomicBool,
    has_come: AtomicBool,
    token: CancellationToken,
}

impl Cutoff {
    /// The gateway is about to stop. To be said before its tasks are asked to.
    pub(crate) fn announce(&self) {
        self.is_near.store(true, Ordering::Release);
    }

    /// Whether the gateway is about to stop, or does already.
    pub(crate) fn is_near(&self) -> bool {
        self.is_near.load(Ordering::Acquire)
    }

    /// The end has come.
    pub(crate) fn come(&self) {
        self.has_come.store(true, Ordering::Release);
        self.token.cancel();
    }

    /// What a call is to end with, if the end has come.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.has_come.load(Ordering::Acquire).then(|| Failure {
            fault: Fault {
                retry_after: Some(ELSEWHERE),
                ..Fault::new(
                    FaultKind::Draining,
                    "this gateway is shutting down and the time to finish is over",
                )
            },
            end: LeaseEnd::Cancelled,
        })
    }

    /// Runs a call's work until the end comes. The task that polls it is woken by [`Cutoff::watch`].
    pub(crate) async fn guard<T>(&self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let mut work = pin!(work);
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Pending => match self.failure() {
                Some(failure) => Poll::Ready(Err(failure.fault)),
                None => Poll::Pending,
            },
            done @ Poll::Ready(_) => done,
        })
        .await
    }

    /// Runs what calls live in, a connection or a stream of one. When the end comes it is polled once more, so that its calls
    /// notice, and has a moment for their last words. `None` when it did not end by then.
    pub(crate) async fn watch<T>(&self, life: impl Future<Output = T>) -> Option<T> {
        let mut life = pin!(life);
        let come = pin!(self.token.cancelled());
        let mut end = Seldom::new(come);
        let ended = poll_fn(|cx| match life.as_mut().poll(cx) {
            Poll::Ready(ended) => Poll::Ready(Some(ended)),
            Poll::Pending => end.poll(cx, self.has_come.load(Ordering::Acquire)).map(|()| None),
        });
        match ended.await {
            Some(ended) => Some(ended),
            None => tokio::time::timeout(LAST_WORDS, life).await.ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_cut_off_is_told_when_to_try_again() {
        let cutoff = Cutoff::default();
        assert!(cutoff.failure().is_none());
        cutoff.come();
        assert_eq!(cutoff.failure().unwrap().fault.retry_after, Some(ELSEWHERE));
    }
}
