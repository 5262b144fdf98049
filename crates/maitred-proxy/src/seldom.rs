//! Waiting beside something busy for something that comes once.
//!
//! A connection is polled for every event that passes through it, and each time it would ask whether the gateway is to stop.
//! The signal knows the task's waker from the first time it was asked, and a flag that all connections share says when to ask
//! again; the flag lies in the cache, what the signal keeps for each connection does not.

use std::pin::Pin;
use std::task::{Context, Poll};

/// A signal that is asked only when it has to be.
#[derive(Debug)]
pub(crate) struct Seldom<'a, F> {
    signal: Pin<&'a mut F>,
    is_asked: bool,
}

impl<'a, F: Future<Output = ()>> Seldom<'a, F> {
    pub(crate) const fn new(signal: Pin<&'a mut F>) -> Self {
        Self {
            signal,
            is_asked: false,
        }
    }

    /// Whether the signal has come. Always to be polled by the same task. `may_have_come` is set before the signal is given.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, may_have_come: bool) -> Poll<()> {
        if self.is_asked && !may_have_come {
            return Poll::Pending;
        }
        self.is_asked = true;
        self.signal.as_mut().poll(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::pin::pin;

    use tokio_util::sync::CancellationToken;

    use super::*;

    #[tokio::test]
    async fn the_signal_wakes_and_is_asked_no_more_than_it_must() {
        let token = CancellationToken::new();
        let (flag, asked) = (Cell::new(false), Cell::new(0));
        let mut cancelled = pin!(token.cancelled());
        let signal = pin!(poll_fn(|cx| {
            asked.set(asked.get() + 1);
            cancelled.as_mut().poll(cx)
        }));
        let mut seldom = Seldom::new(signal);
        for _ in 0..10 {
            assert!(
                poll_fn(|cx| Poll::Ready(seldom.poll(cx, flag.get())))
                    .await
                    .is_pending()
            );
        }
        assert_eq!(asked.get(), 1);
        let waiting = poll_fn(|cx| seldom.poll(cx, flag.get()));
        let coming = async {
            flag.set(true);
            token.cancel();
        };
        tokio::join!(waiting, coming);
        assert_eq!(asked.get(), 2);
    }
}
