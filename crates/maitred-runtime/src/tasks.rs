//! The tracked spawner: every task is known, and a shutdown waits for it.

use std::future::Future;

use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};
use tokio_util::task::TaskTracker;

/// Spawns tasks that a shutdown can ask to stop and wait for. Clones share the same set of tasks.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Tasks {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `future` on the current runtime until it ends by itself. It should watch [`Tasks::stopping`].
    pub fn spawn<F>(&self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // The handle is not kept: the tracker knows when the task has ended, and a panic is printed by the panic hook.
        drop(self.tracker.spawn(future));
    }

    /// Runs `future` on the current runtime, and drops it at its next await once a stop is asked for.
    pub fn spawn_until_stop<F>(&self, future: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = self.stop.clone();
        self.spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = future => {}
            }
        });
    }

    /// A set of its own whose stop follows this one's, but which can be stopped alone.
    #[must_use]
    pub fn child(&self) -> Self {
        Self {
            tracker: self.tracker.clone(),
            stop: self.stop.child_token(),
        }
    }

    /// Asks every task to stop.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Completes when a stop has been asked for.
    pub fn stopping(&self) -> WaitForCancellationFuture<'_> {
        self.stop.cancelled()
    }

    /// Whether a stop has been asked for.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// How many tasks have not ended.
    #[must_use]
    pub fn running(&self) -> usize {
        self.tracker.len()
    }

    /// Waits until every task has ended; no more may be spawned usefully after this.
    pub async fn wait(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }
}
