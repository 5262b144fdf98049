//! How long an answer that has begun, or the body of a request, may take, and may be silent.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use maitred_runtime::Clock;
use maitred_types::{FaultKind, LeaseEnd, Time, TokenCount};
use tokio::time::Sleep;

use crate::events::Failure;
use crate::fault::Fault;

/// What an answer that has begun is held to, and the body of a request as well.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerLimits {
    /// Longest silence between two signs of life.
    pub(crate) idle: Duration,
    /// When the whole call must be over.
    pub(crate) deadline: Time,
    /// The prompt's tokens, in case the endpoint does not say.
    pub(crate) input: TokenCount,
    /// The most output that the endpoint was told to make, if it was.
    pub(crate) output: Option<TokenCount>,
}

/// Rings when an answer has been silent, or its call has lasted, for too long.
#[derive(Debug)]
pub(crate) struct Alarm {
    limits: AnswerLimits,
    clock: Clock,
    last_sign: Time,
    sleep: Pin<Box<Sleep>>,
}

impl Alarm {
    /// Sets it; the beginning of the answer is its first sign of life.
    pub(crate) fn set(limits: AnswerLimits, clock: Clock) -> Self {
        let last_sign = clock.now();
        let at = clock.instant(limits.deadline.min(last_sign + limits.idle));
        Self {
            limits,
            clock,
            last_sign,
            sleep: Box::pin(tokio::time::sleep_until(at)),
        }
    }

    /// The endpoint has shown a sign of life.
    pub(crate) fn note_sign(&mut self) {
        self.last_sign = self.clock.now();
    }

    /// Uses the timer for a pause instead.
    pub(crate) fn pause(&mut self, length: Duration) {
        let end = self.clock.instant(self.clock.now() + length);
        self.sleep.as_mut().reset(end);
    }

    /// Completes when the pause is over.
    pub(crate) fn poll_paused(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.sleep.as_mut().poll(cx)
    }

    /// Completes when the answer must be broken off. The timer is moved only when it rings: most answers never let it.
    pub(crate) fn poll_ring(&mut self, cx: &mut Context<'_>) -> Poll<Failure> {
        while self.sleep.as_mut().poll(cx).is_ready() {
            let now = self.clock.now();
            if now >= self.limits.deadline {
                let fault = Fault::new(FaultKind::CallTimeout, "the call's time is up");
                return Poll::Ready(Failure {
                    fault,
                    end: LeaseEnd::Cancelled,
                });
            }
            if now.since(self.last_sign) >= self.limits.idle {
                let fault = Fault::new(
                    FaultKind::IdleTimeout,
                    "the model server fell silent in the middle of its answer",
                );
                return Poll::Ready(Failure {
                    fault,
                    end: LeaseEnd::Failure,
                });
            }
            let next = self.limits.deadline.min(self.last_sign + self.limits.idle);
            self.sleep.as_mut().reset(self.clock.instant(next));
        }
        Poll::Pending
    }
}
