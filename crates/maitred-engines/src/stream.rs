//! Judges a stream while it is relayed: what each event is, and whether the end was a proper one.
//!
//! Engines die inside a 200: with an error object and then a proper `[DONE]`, with a finish reason that means "I am going
//! away", or by falling silent in mid-sentence. None of these may pass for a success, so every event is looked at. For that
//! the look must be cheap: ordinary events are scanned for a few keys, without allocation, and text inside JSON strings can
//! never be taken for structure.

mod choices;
mod event;
mod indexes;
mod messages;
mod responses;

use std::fmt;

use event::Event;
use indexes::IndexSet;

use crate::Engine;
use crate::fault::UpstreamErrorBody;

/// What an event of a stream is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventVerdict {
    /// A known event without output: a role or an empty delta, a ping, the bounds of a block.
    Preamble,
    /// It carries output.
    Output,
    /// A choice, or the whole answer, ends as it should.
    Finish {
        /// Why it ends.
        reason: FinishReason,
        /// Whether the event carries output as well.
        with_output: bool,
    },
    /// It carries usage and no choice.
    UsageOnly,
    /// The protocol's last event.
    Done,
    /// An error inside the 200 stream.
    Error(Box<UpstreamErrorBody>),
    /// The engine gave the answer up because it is going away; the event may carry a last piece of text.
    Aborted,
    /// Nothing that is known. To be relayed: paths and dialects exist that this crate does not know.
    Unknown,
}

/// Why an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// It is complete, or a stop sequence came.
    Stop,
    /// A limit on its length was reached.
    Length,
    /// The model calls a tool.
    ToolCalls,
    /// A filter held the rest back, or the model refused.
    ContentFilter,
    /// A reason that is not known, but one.
    Other,
}

impl FinishReason {
    /// The word for logs, metrics and records.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
            Self::Other => "other",
        }
    }
}

/// How a stream's body ended, as the transport saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// With proper framing.
    Clean,
    /// The connection broke, or the framing did.
    Cut,
}

/// How a stream ended, all in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndVerdict {
    /// With everything that its protocol owes.
    Complete,
    /// Something that its protocol owes never came.
    Truncated,
    /// The engine gave it up because it is going away.
    Aborted,
    /// An error came inside it.
    Errored,
}

/// The protocol of a stream, learnt from its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    /// OpenAI's chat and completions: choices, then `[DONE]`.
    Choices,
    /// Anthropic's messages: `message_start` to `message_stop`.
    Messages,
    /// OpenAI's responses: `response.created` to `response.completed` or its siblings.
    Responses,
    /// Events that are not known.
    Foreign,
}

/// What is known of one stream so far.
#[derive(Clone)]
pub struct StreamJudge {
    engine: Engine,
    protocol: Option<Protocol>,
    /// Choices that were seen, and those that were finished.
    started: IndexSet,
    finished: IndexSet,
    /// A reason for the end of the whole answer was given (messages and responses).
    reasoned: bool,
    done: bool,
    aborted: bool,
    errored: bool,
}

impl fmt::Debug for StreamJudge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamJudge")
            .field("engine", &self.engine)
            .field("protocol", &self.protocol)
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
}

impl StreamJudge {
    /// A stream of which nothing has been seen.
    #[must_use]
    pub fn new(engine: Engine) -> Self {
        Self {
            engine,
            protocol: None,
            started: IndexSet::default(),
            finished: IndexSet::default(),
            reasoned: false,
            done: false,
            aborted: false,
            errored: false,
        }
    }

    /// The engine whose stream it is.
    #[must_use]
    pub const fn engine(&self) -> Engine {
        self.engine
    }

    /// Judges one event by its data: the lines after `data:`, joined by line feeds.
    pub fn judge_event(&mut self, data: &[u8]) -> EventVerdict {
        let data = data.trim_ascii();
        if data == b"[DONE]" {
            self.done = true;
            return EventVerdict::Done;
        }
        let Some(event) = Event::parse(data) else {
            self.protocol.get_or_insert(Protocol::Foreign);
            return EventVerdict::Unknown;
        };
        if event.is_error() {
            return self.errored(data);
        }
        if event.choices.present {
            self.protocol = Some(Protocol::Choices);
            return self.judge_choices(&event.choices, event.has_usage);
        }
        let kind = event.kind.unwrap_or_default();
        if let Some(kind) = kind.strip_prefix(b"response.") {
            self.protocol = Some(Protocol::Responses);
            return self.judge_response(kind, &event, data);
        }
        let verdict = self.judge_message(kind, &event);
        let protocol = if verdict == EventVerdict::Unknown {
            Protocol::Foreign
        } else {
            Protocol::Messages
        };
        self.protocol.get_or_insert(protocol);
        verdict
    }

    /// Judges the end. A stream of nothing is truncated; one whose protocol is not known is complete if it ended cleanly.
    #[must_use]
    pub fn end(&self, end: BodyEnd) -> EndVerdict {
        if self.errored {
            return EndVerdict::Errored;
        }
        if self.aborted {
            return EndVerdict::Aborted;
        }
        let complete = match self.protocol {
            None => false,
            Some(Protocol::Choices) => {
                self.done && !self.started.is_empty() && self.started.is_subset_of(&self.finished)
            }
            Some(Protocol::Messages | Protocol::Responses) => self.done && self.reasoned,
            Some(Protocol::Foreign) => end == BodyEnd::Clean,
        };
        if complete {
            EndVerdict::Complete
        } else {
            EndVerdict::Truncated
        }
    }

    /// Whether the protocol's last event has come, so that nothing more is owed.
    #[must_use]
    pub const fn is_done(&self) -> bool {
        self.done
    }

    fn errored(&mut self, data: &[u8]) -> EventVerdict {
        self.errored = true;
        EventVerdict::Error(Box::new(UpstreamErrorBody::read(data)))
    }
}

#[cfg(test)]
mod tests;
