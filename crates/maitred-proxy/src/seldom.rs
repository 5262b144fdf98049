//! Waiting beside something busy for something that comes once.
//!
//! A connection is polled for every event that passes through it, and each time it would ask whether the gateway is to stop.
//! A signal that is waited for by a waker of its own is asked only when it has something to say.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

/// A signal, and whether it is worth asking.
#[derive(Debug)]
pub(crate) struct Seldom<F> {
    signal: Pin<Box<F>>,
    bell: Arc<Bell>,
    waker: Waker,
}

/// Wakes the task, and remembers that it did.
#[derive(Debug)]
struct Bell {
    has_rung: AtomicBool,
    task: Mutex<Waker>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_rung.store(true, Ordering::Release);
        self.task.lock().wake_by_ref();
    }
}

impl<F: Future<Output = ()>> Seldom<F> {
    pub(crate) fn new(signal: F) -> Self {
        let bell = Arc::new(Bell {
            // The first time it has to be asked, so that it knows whom to wake.
            has_rung: AtomicBool::new(true),
            task: Mutex::new(Waker::noop().clone()),
        });
        Self {
            signal: Box::pin(signal),
            waker: Waker::from(Arc::clone(&bell)),
            bell,
        }
    }

    /// Whether the signal has come. Always to be polled by the same task.
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        if !self.bell.has_rung.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        self.bell.task.lock().clone_from(cx.waker());
        self.signal.as_mut().poll(&mut Context::from_waker(&self.waker))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio_util::sync::CancellationToken;

    use super::*;

    #[tokio::test]
    async fn the_signal_wakes_and_is_asked_no_more_than_it_must() {
        let token = CancellationToken::new();
        let asked = std::cell::Cell::new(0);
        let mut cancelled = Box::pin(token.cancelled());
        let mut seldom = Seldom::new(poll_fn(|cx| {
            asked.set(asked.get() + 1);
            cancelled.as_mut().poll(cx)
        }));
        for _ in 0..10 {
            assert!(poll_fn(|cx| Poll::Ready(seldom.poll(cx))).await.is_pending());
        }
        assert_eq!(asked.get(), 1);
        let waiting = poll_fn(|cx| seldom.poll(cx));
        let coming = async { token.cancel() };
        tokio::join!(waiting, coming);
        assert_eq!(asked.get(), 2);
    }
}
