//! Noticing that the client of an HTTP/2 stream takes nothing.
//!
//! A stream whose client grants no more room is not polled, and neither is its answer's body, so no alarm of the call rings. But
//! a stream waits for its client only after its body has given a piece and was not asked for the next; when the body itself had
//! nothing to give, the call's own limits hold. The body notes which of the two it was, on the thread that polls the stream.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use maitred_runtime::Clock;
use maitred_types::Time;

thread_local! {
    /// Whether the body polled last on this thread gave something; `None` when none was polled.
    static GAVE: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Notes that a body was polled, and whether it gave something.
pub(crate) fn note(gave: bool) {
    GAVE.set(Some(gave));
}

/// How long a stream may last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamLimits {
    /// In all.
    pub(crate) total: Duration,
    /// While its client takes nothing.
    pub(crate) stall: Duration,
}

/// A stream was longer than it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stalled;

/// Runs a stream until it ends, or for as long as it may last.
pub(crate) async fn until_stalled(
    stream: impl Future<Output = ()>,
    limits: StreamLimits,
    clock: Clock,
) -> Result<(), Stalled> {
    let mut stream = pin!(stream);
    let end = clock.now() + limits.total;
    // Since when it waits for its client, if it does.
    let mut since: Option<Time> = None;
    let mut sleep = pin!(tokio::time::sleep(limits.total.min(limits.stall)));
    poll_fn(|cx| {
        GAVE.set(None);
        if stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        if let Some(gave) = GAVE.take() {
            since = gave.then(|| clock.now());
        }
        while sleep.as_mut().poll(cx).is_ready() {
            let now = clock.now();
            if now >= end || since.is_some_and(|since| now.since(since) >= limits.stall) {
                return Poll::Ready(Err(Stalled));
            }
            let next = end.min(since.unwrap_or(now) + limits.stall);
            sleep.as_mut().reset(clock.instant(next));
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: StreamLimits = StreamLimits {
        total: Duration::from_secs(600),
        stall: Duration::from_secs(30),
    };

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_when_its_client_takes_nothing() {
        assert_eq!(run(0, 0, true).await, (Err(Stalled), 30));
        // However little it takes, it takes something.
        assert_eq!(run(10, 25, true).await, (Err(Stalled), 280));
        assert_eq!(run(1, 40, true).await, (Err(Stalled), 30));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_endpoint_is_not_the_clients_fault() {
        assert_eq!(run(3, 10, false).await, (Err(Stalled), 600));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_by_itself() {
        assert_eq!(
            until_stalled(async { note(true) }, LIMITS, Clock::start()).await,
            Ok(())
        );
    }

    /// How a stream ends, and after how many seconds, that first gives pieces at an interval and then waits with a body that gave
    /// something, or had nothing to give.
    async fn run(pieces: u32, interval: u64, gave: bool) -> (Result<(), Stalled>, u64) {
        let clock = Clock::start();
        let stream = async {
            for _ in 0..pieces {
                note(true);
                tokio::time::sleep(Duration::from_secs(interval)).await;
            }
            note(gave);
            std::future::pending::<()>().await;
        };
        let ended = until_stalled(stream, LIMITS, clock).await;
        (ended, clock.now().since(Time::ZERO).as_secs())
    }
}
