//! Work beside the test.

use tokio::task::JoinHandle;

use crate::within;

/// A future that runs beside the test; stopped when this is dropped.
#[derive(Debug)]
pub struct Background<T> {
    task: JoinHandle<T>,
}

/// Runs `future` beside the test.
pub fn background<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> Background<T> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the guard stops the task; this is the spawner of tests"
    )]
    let task = tokio::spawn(future);
    Background { task }
}

impl<T> Background<T> {
    /// Waits for the result; a panic in the future is a panic here.
    pub async fn join(mut self) -> T {
        match within("background work", &mut self.task).await {
            Ok(value) => value,
            Err(error) => panic!("background work: {error}"),
        }
    }
}

impl Background<()> {
    /// Waits for the end; waiting again is harmless.
    pub(crate) async fn finished(&mut self) {
        if !self.task.is_finished() {
            drop((&mut self.task).await);
        }
    }
}

impl<T> Drop for Background<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}
