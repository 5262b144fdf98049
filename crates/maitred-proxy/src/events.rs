//! The events of one answer, read from its endpoint, judged one by one, and queued for the client.

use std::collections::VecDeque;
use std::task::{Context, Poll};

use bytes::Bytes;
use maitred_engines::{BodyEnd, EndVerdict, Engine, EventVerdict, StreamJudge};
use maitred_llm::sse::{Event, EventTooLarge, Reader};
use maitred_llm::{CallKind, EventKind, Pass, Reply, StreamFilter, UsageAsk, UsageTap};
use maitred_types::{FaultKind, LeaseEnd, TokenCount, Usage};

use crate::fault::{Fault, nameable};
use crate::link::Link;

/// Bytes of an answer's preamble that are held back while waiting for output. What exceeds them is sent on.
const PREAMBLE_MAX: usize = 64 << 10;

/// A stream that must not go on, and what that says about its endpoint.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) fault: Fault,
    pub(crate) end: LeaseEnd,
}

/// An answer in events.
#[derive(Debug)]
pub(crate) struct EventStream {
    link: Link,
    reader: Reader,
    judge: StreamJudge,
    tap: UsageTap,
    filter: StreamFilter,
    /// Takes the answer's text into its prompt's chain, if the scheduler cares.
    reply: Option<Reply>,
    queue: VecDeque<Bytes>,
    queued_bytes: usize,
    has_output: bool,
    is_over: bool,
    failure: Option<Box<Failure>>,
}

impl EventStream {
    pub(crate) fn new(link: Link, engine: Engine, kind: CallKind, ask: UsageAsk, event_max: usize) -> Self {
        Self {
            link,
            reader: Reader::new(event_max),
            judge: StreamJudge::new(engine),
            tap: UsageTap::new(kind),
            filter: StreamFilter::new(ask),
            reply: None,
            queue: VecDeque::new(),
            queued_bytes: 0,
            has_output: false,
            is_over: false,
            failure: None,
        }
    }

    /// Has the answer's text go into a chain.
    pub(crate) fn into_chain(self, reply: Option<Reply>) -> Self {
        Self { reply, ..self }
    }

    /// The answer's text so far.
    pub(crate) const fn take_reply(&mut self) -> Option<Reply> {
        self.reply.take()
    }

    /// Whether output has come, or as much preamble as is worth holding back, so that the answer may begin.
    pub(crate) const fn may_begin(&self) -> bool {
        self.has_output || self.queued_bytes > PREAMBLE_MAX
    }

    /// Whether the answer has come to its proper end. What is queued is still to be sent.
    pub(crate) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether everything that the protocol owes has come. The body's end may still be missing; it is not worth waiting for long.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_over || (self.failure.is_none() && self.judge.end(BodyEnd::Cut) == EndVerdict::Complete)
    }

    /// Whether all of a complete answer has been handed out.
    pub(crate) fn is_delivered(&self) -> bool {
        self.queue.is_empty() && self.is_complete()
    }

    /// The next bytes for the client.
    pub(crate) fn pop(&mut self) -> Option<Bytes> {
        let bytes = self.queue.pop_front()?;
        self.queued_bytes -= bytes.len();
        Some(bytes)
    }

    /// Why the stream must not go on, if it must not. What was queued before may still be sent.
    pub(crate) fn take_failure(&mut self) -> Option<Box<Failure>> {
        self.failure.take()
    }

    pub(crate) fn usage(&self, input: TokenCount) -> Usage {
        self.tap.usage(input)
    }

    pub(crate) fn output_so_far(&self) -> TokenCount {
        self.tap.output_so_far()
    }

    /// Gives the link back once the stream is over.
    pub(crate) fn into_link(self) -> Link {
        self.link
    }

    /// Reads on until something is new: bytes in the queue, the end, or a failure. Says whether the endpoint said anything
    /// that counts as a sign of life.
    pub(crate) fn poll_advance(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut is_alive = false;
        loop {
            let chunk = match self.link.poll_chunk(cx) {
                Poll::Ready(chunk) => chunk,
                // A comment was swallowed, or half an event; that is news of a kind, but nothing to send.
                Poll::Pending if is_alive => return Poll::Ready(true),
                Poll::Pending => return Poll::Pending,
            };
            match chunk {
                Some(Ok(chunk)) => is_alive |= self.take_in(chunk),
                Some(Err(error)) => self.cut_off(&error.to_string()),
                None => self.finish(),
            }
            if !self.queue.is_empty() || self.is_over || self.failure.is_some() {
                return Poll::Ready(is_alive);
            }
        }
    }

    fn take_in(&mut self, chunk: Bytes) -> bool {
        let was_between = self.reader.is_between_events();
        self.reader.feed(chunk.clone());
        let mut passed: smallvec::SmallVec<[Bytes; 4]> = smallvec::SmallVec::new();
        let (mut all_pass, mut is_alive) = (was_between, false);
        while self.failure.is_none() && !self.is_over {
            match self.reader.next_event() {
                Ok(Some(event)) => {
                    is_alive |= event.data().is_some();
                    match self.judge(&event) {
                        Pass::Relay => passed.push(event.into_raw()),
                        Pass::Drop => all_pass = false,
                    }
                }
                Ok(None) => break,
                Err(error) => self.give_up(error),
            }
        }
        // Events that lie side by side in one read are sent on as they came, in one piece.
        if all_pass && passed.len() > 1 && self.failure.is_none() && self.reader.is_between_events() {
            self.push(chunk);
        } else {
            passed.into_iter().for_each(|bytes| self.push(bytes));
        }
        is_alive
    }

    fn push(&mut self, bytes: Bytes) {
        self.queued_bytes += bytes.len();
        self.queue.push_back(bytes);
    }

    /// Judges one event. A bad one becomes the stream's failure and does not pass.
    fn judge(&mut self, event: &Event) -> Pass {
        let kind = self.tap.event(event);
        if let Some(reply) = self.reply.as_mut().filter(|_| kind != EventKind::UsageOnly) {
            reply.event(event);
        }
        let Some(data) = event.data() else { return Pass::Relay };
        match self.judge.judge_event(data) {
            EventVerdict::Preamble | EventVerdict::UsageOnly => {}
            EventVerdict::Output | EventVerdict::Finish { .. } | EventVerdict::Unknown => self.has_output = true,
            EventVerdict::Done => match self.judge.end(BodyEnd::Clean) {
                EndVerdict::Complete => self.has_output = true,
                EndVerdict::Truncated | EndVerdict::Aborted | EndVerdict::Errored => {
                    self.fail(
                        FaultKind::UpstreamBroken,
                        "the stream ended before its answer did".into(),
                        LeaseEnd::Failure,
                    );
                    return Pass::Drop;
                }
            },
            EventVerdict::Error(body) => {
                let end = if body.is_overload(self.judge.engine()) {
                    LeaseEnd::Overload
                } else {
                    LeaseEnd::Failure
                };
                let kind = if end == LeaseEnd::Overload {
                    FaultKind::UpstreamOverloaded
                } else {
                    FaultKind::UpstreamError
                };
                self.fail(kind, nameable("an error inside the stream", &body), end);
                return Pass::Drop;
            }
            EventVerdict::Aborted => {
                self.fail(
                    FaultKind::UpstreamAborted,
                    "the endpoint aborted the answer".into(),
                    LeaseEnd::Draining,
                );
                return Pass::Drop;
            }
        }
        self.filter.pass(kind)
    }

    fn cut_off(&mut self, why: &str) {
        match self.judge.end(BodyEnd::Cut) {
            // Everything the protocol owes had come; only the framing's end is missing.
            EndVerdict::Complete => self.is_over = true,
            EndVerdict::Truncated | EndVerdict::Aborted | EndVerdict::Errored => {
                self.fail(
                    FaultKind::UpstreamBroken,
                    format!("the stream was cut: {why}"),
                    LeaseEnd::Failure,
                );
            }
        }
    }

    fn finish(&mut self) {
        match self.reader.finish() {
            Ok(Some(event)) => {
                // An event that was judged whole lacks at most its blank line; a torn one is a failure by now.
                if self.judge(&event) == Pass::Relay && self.judge.is_done() {
                    self.push(event.into_closed());
                }
            }
            Ok(None) => {}
            Err(error) => self.give_up(error),
        }
        if self.failure.is_some() {
            return;
        }
        match self.judge.end(BodyEnd::Clean) {
            EndVerdict::Complete => self.is_over = true,
            EndVerdict::Truncated | EndVerdict::Aborted | EndVerdict::Errored => {
                self.fail(
                    FaultKind::UpstreamBroken,
                    "the stream ended before its answer did".into(),
                    LeaseEnd::Failure,
                );
            }
        }
    }

    /// An event is larger than the gateway reads. That is this gateway's limit and no fault of the endpoint, and another would
    /// send the same.
    fn give_up(&mut self, error: EventTooLarge) {
        self.fail(
            FaultKind::UpstreamMalformed,
            format!("{error}; see `limits.event`"),
            LeaseEnd::Cancelled,
        );
    }

    fn fail(&mut self, kind: FaultKind, detail: String, end: LeaseEnd) {
        if self.is_complete() {
            // What comes after the proper end is no part of the answer.
            self.is_over = true;
            return;
        }
        let message = match kind {
            FaultKind::UpstreamAborted => "the model server aborted the answer",
            FaultKind::UpstreamOverloaded => "the model server has too much to do",
            FaultKind::UpstreamError => "the model server failed while answering",
            FaultKind::UpstreamMalformed => {
                "an event of the answer is larger than this gateway allows; the operator can raise `limits.event`"
            }
            _ => "the answer of the model server broke off",
        };
        self.failure = Some(Box::new(Failure {
            fault: Fault::new(kind, message).with_detail(detail),
            end,
        }));
    }
}

#[cfg(test)]
mod tests;
