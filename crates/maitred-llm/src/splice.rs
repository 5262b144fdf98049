//! Editing a body without rebuilding it: every byte outside the edited places stays as it was (R1 of passing through), and
//! nothing but the few new bytes is copied.

use bytes::Bytes;
use smallvec::SmallVec;

use crate::body::{Figure, StreamOptions};
use crate::{BodyView, CallKind, Span};

/// Two edits cut a body into five pieces at most; further ones are rare.
const USUAL_SEGMENTS: usize = 5;

/// Who wants to see the usage of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UsageAsk {
    /// The client asked for it and gets to see it.
    ByClient,
    /// The gateway asks for it, for its own books; the client must not see it.
    ByGateway,
    /// Nobody asks: it is no stream, or the path has no such option.
    Nobody,
}

/// Edits of one body, in the order of their places and never overlapping.
#[derive(Clone, Debug)]
pub struct Edits<'a> {
    view: &'a BodyView,
    edits: SmallVec<[Edit; 2]>,
}

#[derive(Clone, Debug)]
struct Edit {
    /// What is replaced; empty for an insertion.
    span: Span,
    order: Order,
    text: Bytes,
}

/// Which of two edits of one place comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    /// A limit on the output, which has its comma behind it.
    Limit,
    Other,
}

impl<'a> Edits<'a> {
    /// No edits yet.
    #[must_use]
    pub fn new(view: &'a BodyView) -> Self {
        Self {
            view,
            edits: SmallVec::new(),
        }
    }

    /// Whether the body stays as it is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.edits.is_empty()
    }

    /// Puts `name` in place of the model the client named. Where the bytes would be the same, or the body names no model, nothing
    /// changes: a gateway adds no members of its own to a body.
    pub fn set_model(&mut self, name: &str) {
        let Some(span) = self.view.model_span() else { return };
        if self.view.model() == Some(name) && !self.view.model_is_escaped() {
            return;
        }
        self.put(span, Order::Other, Bytes::from(quoted(name)));
    }

    /// Sees to it that a stream ends with its usage, and says who asked for it.
    ///
    /// Only OpenAI's chat and completions have the option. A client that sets `continuous_usage_stats` without `include_usage` gets
    /// the running figures it named, which engines that tie the two together would have withheld.
    pub fn ask_for_usage(&mut self, kind: CallKind) -> UsageAsk {
        if !kind.has_usage_option() || !self.view.wants_stream() {
            return UsageAsk::Nobody;
        }
        if self.view.wants_usage() {
            return UsageAsk::ByClient;
        }
        let (span, text) = match self.view.stream_options() {
            // There is at least `stream` in the body, so a comma is always right.
            None => (
                Span::at(self.view.open()),
                r#""stream_options":{"include_usage":true},"#,
            ),
            Some(StreamOptions::Null(span)) => (*span, r#"{"include_usage":true}"#),
            Some(StreamOptions::Object {
                include_usage: Some((span, _)),
                ..
            }) => (*span, "true"),
            Some(StreamOptions::Object {
                open, is_empty: true, ..
            }) => (Span::at(*open), r#""include_usage":true"#),
            Some(StreamOptions::Object { open, .. }) => (Span::at(*open), r#""include_usage":true,"#),
        };
        self.put(span, Order::Other, Bytes::from_static(text.as_bytes()));
        UsageAsk::ByGateway
    }

    /// Sees to it that an answer has no more than `tokens` of output where the client sets no limit that is known to bind (where
    /// [`BodyView::output_limit`] is `None`): a limit that it left open, or that is no whole number, is replaced in its place, and
    /// where there is none the one of the path is added. What limits it further stays.
    pub fn limit_output(&mut self, kind: CallKind, tokens: u64) {
        let text = Bytes::from(tokens.to_string());
        let mut is_said = false;
        for said in self.view.own_limits(kind) {
            is_said = true;
            if !matches!(said.figure, Figure::Whole(less) if less <= tokens) {
                self.put(said.span, Order::Other, text.clone());
            }
        }
        if is_said {
            return;
        }
        let name = match kind {
            CallKind::Responses => "max_output_tokens",
            _ => "max_tokens",
        };
        let rest = self.view.body().get(self.view.open()..).unwrap_or_default();
        let comma = if rest.trim_ascii_start().starts_with(b"}") {
            ""
        } else {
            ","
        };
        let member = format!("\"{name}\":{tokens}{comma}");
        self.put(Span::at(self.view.open()), Order::Limit, Bytes::from(member));
    }

    /// The edited body.
    #[must_use]
    pub fn apply(&self) -> Spliced {
        let body = self.view.body();
        let mut segments = SmallVec::new();
        let mut at = 0;
        for edit in &self.edits {
            push(&mut segments, body.slice(at..edit.span.start));
            push(&mut segments, edit.text.clone());
            at = edit.span.end;
        }
        push(&mut segments, body.slice(at..));
        let len = segments.iter().map(Bytes::len).sum();
        Spliced { segments, len }
    }

    /// Keeps the edits in order. The places are those of different members, so they cannot overlap; an edit of the same place
    /// replaces the one before.
    fn put(&mut self, span: Span, order: Order, text: Bytes) {
        match self
            .edits
            .binary_search_by_key(&(span, order), |edit| (edit.span, edit.order))
        {
            Ok(same) => self.edits[same].text = text,
            Err(place) => self.edits.insert(place, Edit { span, order, text }),
        }
    }
}

fn push(segments: &mut SmallVec<[Bytes; USUAL_SEGMENTS]>, segment: Bytes) {
    if !segment.is_empty() {
        segments.push(segment);
    }
}

/// `name` as a JSON string.
fn quoted(name: &str) -> Vec<u8> {
    serde_json::to_vec(name).unwrap_or_default()
}

/// A body in pieces, most of them shared with the original. Cloning it is cheap, so that an attempt can be repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spliced {
    segments: SmallVec<[Bytes; USUAL_SEGMENTS]>,
    len: usize,
}

impl Spliced {
    /// The pieces, none of them empty, in the order in which they are sent.
    #[must_use]
    pub fn segments(&self) -> &[Bytes] {
        &self.segments
    }

    /// The pieces, to be sent.
    #[must_use]
    pub fn into_segments(self) -> SmallVec<[Bytes; USUAL_SEGMENTS]> {
        self.segments
    }

    /// How many bytes the pieces hold in all; the `content-length`.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing to send.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests;
