//! Reading the token counts out of a stream as it passes by.
//!
//! The tap only reads. It works in every dialect at once, since the names of the fields tell them apart: OpenAI's
//! `prompt_tokens` with the cached part inside, Anthropic's `input_tokens` with the cached part beside it, the Responses API's
//! `input_tokens` with details.

mod counts;
mod opening;

use std::sync::LazyLock;

use maitred_types::{TokenCount, Usage};
use memchr::memmem::Finder;

pub(crate) use counts::Counts;

use crate::CallKind;
use crate::sse::Event;
use counts::EventFacts;
use opening::is_opening;

/// The member that all dialects have, with its quotes: inside a JSON string the closing quote would have a backslash before it,
/// so a match is a key or a whole string value and never a part of some text.
static USAGE_KEY: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"usage\""));

/// What one event of a stream is, as far as relaying and counting care. How an engine's errors are to be judged is not said here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It says nothing: a comment, a keep-alive, a stray blank line.
    Silence,
    /// A part of the answer.
    Output,
    /// Anything that frames the answer: the role, the start of a message, the end of a block, a ping.
    Frame,
    /// OpenAI's extra chunk at the end: no choices, only the usage.
    UsageOnly,
    /// The proper end of the stream.
    Done,
    /// An error instead of an answer.
    Error,
}

/// Reads usage from the events of one stream.
#[derive(Clone, Debug)]
pub struct UsageTap {
    kind: CallKind,
    counts: Counts,
    outputs: u32,
}

impl UsageTap {
    /// A tap for the stream that answers a call of this kind.
    #[must_use]
    pub fn new(kind: CallKind) -> Self {
        Self {
            kind,
            counts: Counts::default(),
            outputs: 0,
        }
    }

    /// Reads one event and says what it is.
    pub fn event(&mut self, event: &Event) -> EventKind {
        let Some(data) = event.data() else {
            return EventKind::Silence;
        };
        let is_usage_only = self.read_usage(data);
        let kind = match self.kind {
            CallKind::Messages => messages_kind(event.name()),
            CallKind::Responses => responses_kind(event.name()),
            _ if is_usage_only => EventKind::UsageOnly,
            _ => openai_kind(event.name(), data),
        };
        // Once there was output, what has none is a token whose text is still to come.
        let may_open = self.kind == CallKind::Chat && self.outputs == 0 && kind == EventKind::Output;
        let kind = if may_open && is_opening(data) {
            EventKind::Frame
        } else {
            kind
        };
        self.outputs = self.outputs.saturating_add(u32::from(kind == EventKind::Output));
        kind
    }

    /// What the endpoint said, the last word counting; `None` until it has said both sides.
    #[must_use]
    pub fn reported(&self) -> Option<Usage> {
        self.counts.usage()
    }

    /// What the endpoint said, and an estimate for what it did not say, marked as such.
    ///
    /// `input` stands for an unsaid prompt. Unsaid output is taken to be one token per event with output, which is how vLLM and
    /// SGLang stream unless they are told to bundle; it is the best figure there is when a client leaves in mid-stream.
    #[must_use]
    pub fn usage(&self, input: TokenCount) -> Usage {
        self.counts.usage_or(input, self.output_so_far())
    }

    /// Output tokens so far: the endpoint's running figure if it gives one, otherwise events with output.
    #[must_use]
    pub fn output_so_far(&self) -> TokenCount {
        self.counts.output().unwrap_or(TokenCount::new(self.outputs))
    }

    /// Takes in the usage of an event, if it has any. Returns whether the event has nothing else.
    fn read_usage(&mut self, data: &[u8]) -> bool {
        if !has_usage(data) {
            return false;
        }
        let Ok(facts) = serde_json::from_slice::<EventFacts>(data) else {
            return false;
        };
        self.counts.note(&facts);
        facts.is_usage_only()
    }
}

/// What a whole answer that is no stream says it used; `None` when it does not say both sides, or is no JSON object. Faster than
/// an [`crate::AnswerTap`], which is for answers that come in pieces and for estimates.
#[must_use]
pub fn answer_usage(body: &[u8]) -> Option<Usage> {
    let facts: EventFacts = serde_json::from_slice(body).ok()?;
    let mut counts = Counts::default();
    counts.note(&facts);
    counts.usage()
}

/// Whether there may be a `usage` in it that is not null. Some engines write `"usage":null` into every chunk.
fn has_usage(data: &[u8]) -> bool {
    let mut found = USAGE_KEY.find_iter(data);
    found.any(|at| {
        let rest = data.get(at + USAGE_KEY.needle().len()..).unwrap_or_default();
        let value = rest.trim_ascii_start().strip_prefix(b":");
        value.is_some_and(|value| !value.trim_ascii_start().starts_with(b"n"))
    })
}

fn messages_kind(name: Option<&[u8]>) -> EventKind {
    match name {
        Some(b"content_block_delta") => EventKind::Output,
        Some(b"message_stop") => EventKind::Done,
        Some(b"error") => EventKind::Error,
        _ => EventKind::Frame,
    }
}

fn responses_kind(name: Option<&[u8]>) -> EventKind {
    match name {
        Some(b"response.completed" | b"response.incomplete") => EventKind::Done,
        Some(b"response.failed" | b"error") => EventKind::Error,
        Some(name) if name.ends_with(b".delta") => EventKind::Output,
        _ => EventKind::Frame,
    }
}

fn openai_kind(name: Option<&[u8]>, data: &[u8]) -> EventKind {
    if data == b"[DONE]" {
        return EventKind::Done;
    }
    let inside = data.strip_prefix(b"{").unwrap_or_default().trim_ascii_start();
    if name == Some(b"error") || inside.starts_with(br#""error""#) || inside.starts_with(br#""object":"error""#) {
        return EventKind::Error;
    }
    EventKind::Output
}

#[cfg(test)]
mod tests;
