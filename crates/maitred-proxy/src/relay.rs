//! A stream on its way to the client, after its beginning has been sent.
//!
//! What goes wrong from here on cannot be hidden: the client gets an error event in its dialect, never the protocol's proper
//! end, and the connection does not end as a complete answer would.

use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use maitred_llm::error_event;
use maitred_runtime::Gathering;
use maitred_types::{LeaseEnd, OutcomeStatus, TokenCount};

use crate::account::Account;
use crate::alarm::{Alarm, AnswerLimits};
use crate::body::Broken;
use crate::events::{EventStream, Failure};

/// After how many output tokens the scheduler hears of them again.
const PROGRESS_STEP: u32 = 32;

/// How long the connection has for sending an error event before it is cut. A reset of HTTP/2 overtakes what was not sent.
const PARTING: Duration = Duration::from_millis(50);

/// How long a complete answer waits for the end of its body, so that its link can be used again.
const TRAILING: Duration = Duration::from_millis(100);

/// A stream being relayed.
#[derive(Debug)]
pub(crate) struct StreamRelay {
    /// `None` once the link has been given back or cut.
    events: Option<Box<EventStream>>,
    account: Box<Account>,
    /// What has been handed out, if it is to be kept.
    answer: Option<Box<Gathering>>,
    /// Comments are no sign of life to it (S18 of the translation rules).
    alarm: Alarm,
    /// The prompt's tokens, in case the endpoint does not say.
    input: TokenCount,
    told: TokenCount,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Flowing,
    /// All of the answer has been handed out; only the end of the endpoint's body is missing.
    Trailing,
    /// The error event has been handed out; the connection gets a moment to send it.
    Parting,
    Ended,
}

impl StreamRelay {
    pub(crate) fn new(
        events: Box<EventStream>,
        (mut account, answer): (Box<Account>, Option<Box<Gathering>>),
        limits: AnswerLimits,
    ) -> Self {
        account.first_output();
        let alarm = Alarm::set(limits, account.gate.clock);
        Self {
            events: Some(events),
            account,
            answer,
            alarm,
            input: limits.input,
            told: TokenCount::ZERO,
            state: State::Flowing,
        }
    }

    /// The next bytes for the client.
    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        loop {
            match self.state {
                State::Flowing | State::Trailing => {}
                State::Parting => match self.alarm.poll_paused(cx) {
                    Poll::Ready(()) => {
                        self.state = State::Ended;
                        return Poll::Ready(Some(Err(Broken)));
                    }
                    Poll::Pending => return Poll::Pending,
                },
                State::Ended => return Poll::Ready(None),
            }
            let Some(events) = self.events.as_mut() else {
                return Poll::Ready(None);
            };
            if let Some(bytes) = events.pop() {
                self.account.passed(&bytes);
                if let Some(answer) = &mut self.answer {
                    answer.add(&bytes);
                }
                return Poll::Ready(Some(Ok(bytes)));
            }
            if let Some(failure) = events.take_failure() {
                return Poll::Ready(Some(Ok(self.break_off(*failure))));
            }
            if events.is_over() {
                self.end_well();
                return Poll::Ready(None);
            }
            match events.poll_advance(cx) {
                Poll::Ready(is_alive) => self.note(is_alive),
                Poll::Pending if events.is_complete() => {
                    if self.poll_trailing(cx).is_pending() {
                        return Poll::Pending;
                    }
                    self.end_well();
                    return Poll::Ready(None);
                }
                Poll::Pending => match self.poll_end(cx) {
                    Poll::Ready(failure) => return Poll::Ready(Some(Ok(self.break_off(failure)))),
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
    }

    /// Whether the end of the body has been waited for long enough.
    fn poll_trailing(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.account.gate.cutoff.failure().is_some() {
            return Poll::Ready(());
        }
        if self.state == State::Flowing {
            self.state = State::Trailing;
            self.alarm.pause(TRAILING);
        }
        self.alarm.poll_paused(cx)
    }

    /// Whether there is a reason to wait no longer.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<Failure> {
        match self.account.gate.cutoff.failure() {
            Some(failure) => Poll::Ready(failure),
            None => self.alarm.poll_ring(cx),
        }
    }

    fn note(&mut self, is_alive: bool) {
        if is_alive {
            self.alarm.note_sign();
        }
        let Some(events) = &self.events else { return };
        let output = events.output_so_far();
        if output.saturating_sub(self.told).get() >= PROGRESS_STEP {
            self.told = output;
            self.account.progress(output);
        }
    }

    /// Ends the answer honestly. Dropping the link tells the endpoint to stop.
    fn break_off(&mut self, failure: Failure) -> Bytes {
        let Failure { fault, end } = failure;
        self.settle();
        self.events = None;
        self.state = State::Parting;
        self.alarm.pause(PARTING);
        let event = error_event(
            self.account.dialect,
            fault.kind,
            &fault.message,
            self.account.request_id.as_str(),
        );
        self.account.passed(&event);
        self.account
            .set_detail(fault.detail.unwrap_or_else(|| fault.message.into_owned()));
        self.account.close(OutcomeStatus::Broken(fault.kind), end);
        event
    }

    fn end_well(&mut self) {
        self.settle();
        self.state = State::Ended;
        if let Some(mut events) = self.events.take() {
            if let Some(reply) = events.take_reply() {
                self.account.replied(reply);
            }
            // A link whose body has not ended is of no further use, and is dropped.
            self.account.gate.shard.park(events.into_link(), self.account.now());
        }
        self.account.keep(self.answer.take());
        self.account.close(OutcomeStatus::Answered, LeaseEnd::Success);
    }

    /// Takes the usage so far into the account.
    fn settle(&mut self) {
        if let Some(events) = &self.events {
            self.account.usage = Some(events.usage(self.input));
        }
    }
}

impl Drop for StreamRelay {
    fn drop(&mut self) {
        if self.events.as_ref().is_some_and(|events| events.is_delivered()) {
            // Clients need not wait for more than the last event.
            self.end_well();
            return;
        }
        // The client went away in mid-stream; what the endpoint has generated until now has been used all the same.
        self.settle();
    }
}
