//! A stream on its way to the client, after its beginning has been sent.
//!
//! What goes wrong from here on cannot be hidden: the client gets an error event in its dialect, never the protocol's proper
//! end, and the connection does not end as a complete answer would.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use maitred_llm::error_event;
use maitred_types::{FaultKind, LeaseEnd, OutcomeStatus, Time, TokenCount};
use tokio::time::{Instant, Sleep};

use crate::account::Account;
use crate::body::Broken;
use crate::events::{EventStream, Failure};
use crate::fault::Fault;

/// After how many output tokens the scheduler hears of them again.
const PROGRESS_STEP: u32 = 32;

/// How long a stream may take, and may be silent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamLimits {
    /// Between two events; comments do not count (S18 of the translation rules).
    pub(crate) idle: Duration,
    /// When the whole call must be over.
    pub(crate) deadline: Time,
    /// The prompt's tokens, in case the endpoint does not say.
    pub(crate) input: TokenCount,
}

/// A stream being relayed.
#[derive(Debug)]
pub(crate) struct StreamRelay {
    /// `None` once the link has been given back or cut.
    events: Option<EventStream>,
    account: Box<Account>,
    limits: StreamLimits,
    last_sign: Time,
    alarm: Pin<Box<Sleep>>,
    told: TokenCount,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Flowing,
    /// The error event has been handed out; the connection gets one turn to send it.
    Parting,
    /// Now the connection is to be cut.
    Cut,
    Ended,
}

impl StreamRelay {
    pub(crate) fn new(events: EventStream, mut account: Box<Account>, limits: StreamLimits) -> Self {
        account.first_output();
        let now = account.now();
        let alarm = Box::pin(tokio::time::sleep_until(next_alarm(&account, now, &limits)));
        Self {
            events: Some(events),
            account,
            limits,
            last_sign: now,
            alarm,
            told: TokenCount::ZERO,
            state: State::Flowing,
        }
    }

    /// The next bytes for the client.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        loop {
            match self.state {
                State::Flowing => {}
                State::Parting => {
                    // hyper sends what it has when the body has nothing; the error event must go out before the cut.
                    self.state = State::Cut;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                State::Cut => {
                    self.state = State::Ended;
                    return Poll::Ready(Some(Err(Broken)));
                }
                State::Ended => return Poll::Ready(None),
            }
            let Some(events) = self.events.as_mut() else {
                return Poll::Ready(None);
            };
            if let Some(bytes) = events.pop() {
                self.account.response_bytes += bytes.len() as u64;
                return Poll::Ready(Some(Ok(bytes)));
            }
            if let Some(failure) = events.take_failure() {
                return Poll::Ready(Some(Ok(self.break_off(*failure))));
            }
            if events.is_over() {
                self.end_well(cx);
                return Poll::Ready(None);
            }
            match events.poll_advance(cx) {
                Poll::Ready(is_alive) => self.note(is_alive),
                Poll::Pending => match self.poll_alarm(cx) {
                    Poll::Ready(failure) => return Poll::Ready(Some(Ok(self.break_off(failure)))),
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
    }

    fn note(&mut self, is_alive: bool) {
        if is_alive {
            self.last_sign = self.account.now();
        }
        let Some(events) = &self.events else { return };
        let output = events.output_so_far();
        if output.saturating_sub(self.told).get() >= PROGRESS_STEP {
            self.told = output;
            self.account.progress(output);
        }
    }

    /// The alarm is set once and moved only when it rings: most streams never let it.
    fn poll_alarm(&mut self, cx: &mut Context<'_>) -> Poll<Failure> {
        while self.alarm.as_mut().poll(cx).is_ready() {
            let now = self.account.now();
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
            let next = next_alarm(&self.account, self.last_sign, &self.limits);
            self.alarm.as_mut().reset(next);
        }
        Poll::Pending
    }

    /// Ends the answer honestly. Dropping the link tells the endpoint to stop.
    fn break_off(&mut self, failure: Failure) -> Bytes {
        let Failure { fault, end } = failure;
        self.settle();
        self.events = None;
        self.state = State::Parting;
        let event = error_event(
            self.account.dialect,
            fault.kind,
            &fault.message,
            self.account.request_id.as_str(),
        );
        self.account.response_bytes += event.len() as u64;
        self.account
            .set_detail(fault.detail.unwrap_or_else(|| fault.message.into_owned()));
        self.account.close(OutcomeStatus::Broken(fault.kind), end);
        event
    }

    fn end_well(&mut self, cx: &mut Context<'_>) {
        self.settle();
        self.state = State::Ended;
        if let Some(events) = self.events.take() {
            self.account.gate.shard.park(events.into_link(), self.account.now(), cx);
        }
        self.account.close(OutcomeStatus::Answered, LeaseEnd::Success);
    }

    /// Takes the usage so far into the account.
    fn settle(&mut self) {
        if let Some(events) = &self.events {
            self.account.usage = Some(events.usage(self.limits.input));
        }
    }
}

impl Drop for StreamRelay {
    fn drop(&mut self) {
        // The client went away in mid-stream; what the endpoint has generated until now has been used all the same.
        self.settle();
    }
}

fn next_alarm(account: &Account, last_sign: Time, limits: &StreamLimits) -> Instant {
    account.gate.clock.instant(limits.deadline.min(last_sign + limits.idle))
}
