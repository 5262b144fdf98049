//! Reading a call's body in one pass: where the members lie that the gateway cares about, and whether the whole is JSON.
//!
//! No tree is built and nothing is copied. The pass checks the full grammar of JSON (RFC 8259) and UTF-8 on its way, so an
//! endpoint never gets a body that the gateway took for something else. Beyond the grammar it is stricter in two points: a depth
//! cap ([`MAX_DEPTH`]), and members that must not occur twice. It is laxer than a parser that builds values in one: text and
//! numbers that it does not read itself may be unrepresentable (`"\ud800"`, `1e999`); the endpoint judges those.

mod cursor;
mod error;
mod fields;
pub(crate) mod text;

use std::borrow::Cow;

use bytes::Bytes;

pub use cursor::MAX_DEPTH;
pub(crate) use cursor::{LongText, Spelling};
pub use error::BodyError;
pub(crate) use fields::{Figure, SaidLimit, StreamOptions};

use crate::{CallKind, Span};
use cursor::Cursor;
use fields::Fields;

/// What the gateway knows of a call's body. It shares the body's bytes and holds nothing but places in them.
#[derive(Clone, Debug)]
pub struct BodyView {
    body: Bytes,
    fields: Fields,
    media: Media,
    long: Vec<LongText>,
}

/// Long runs of encoded bytes (images, sound, files) in the body's strings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Media {
    /// How many there are.
    pub(crate) count: usize,
    /// How many bytes they take in all.
    pub(crate) bytes: usize,
}

/// Reads a body.
///
/// Where a key occurs twice the last one counts, as it does for Python's and Rust's usual parsers. `model`, `stream` and
/// `stream_options` must not occur twice, for an endpoint could read another of the two than the gateway.
///
/// # Errors
/// When the body is not UTF-8, not JSON, not an object or too deep, when one of the three members occurs twice, or when a member
/// that the gateway reads has a value it cannot have. A missing `model` is not an error here: see [`BodyView::require_model`].
pub fn scan(body: &Bytes) -> Result<BodyView, BodyError> {
    let mut cursor = Cursor::new(body);
    let read = fields::read(&mut cursor);
    let failed_at = read.as_ref().err().map_or(body.len(), BodyError::at);
    // Plain ASCII is known to be UTF-8 without a second look.
    if (cursor.saw_non_ascii() || read.is_err())
        && let Err(error) = str::from_utf8(body)
        && error.valid_up_to() <= failed_at
    {
        return Err(BodyError::Utf8 {
            at: error.valid_up_to(),
        });
    }
    let media = cursor.media();
    Ok(BodyView {
        body: body.clone(),
        fields: read?,
        media,
        long: cursor.take_long(),
    })
}

impl BodyView {
    /// The body itself.
    #[must_use]
    pub const fn body(&self) -> &Bytes {
        &self.body
    }

    /// The model the client names, escapes resolved; `None` when there is no such member.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        let model = self.fields.model.as_ref()?;
        match &model.decoded {
            Some(decoded) => Some(decoded),
            None => self.text(model.span),
        }
    }

    /// The model the client names, which must be there and not be empty.
    ///
    /// # Errors
    /// [`BodyError::MissingModel`].
    pub fn require_model(&self) -> Result<&str, BodyError> {
        self.model()
            .filter(|name| !name.is_empty())
            .ok_or(BodyError::MissingModel)
    }

    /// Whether the client wants a stream. Absent and `null` mean no, in every dialect.
    #[must_use]
    pub fn wants_stream(&self) -> bool {
        self.fields.stream == Some(true)
    }

    /// Whether the client itself asks for usage in its stream (`stream_options.include_usage`).
    #[must_use]
    pub fn wants_usage(&self) -> bool {
        matches!(
            self.fields.stream_options,
            Some(StreamOptions::Object {
                include_usage: Some((_, true)),
                ..
            })
        )
    }

    /// The most tokens that can be generated per choice, by what the client says: the largest of `max_tokens`,
    /// `max_completion_tokens` and `max_output_tokens`, for engines differ in which of them they read first.
    ///
    /// `None` when the client sets no limit: when the path has none of them (a chat does not look at `max_output_tokens`), or one of
    /// the path's own is no whole number of at least zero, which an endpoint may take for anything.
    #[must_use]
    pub fn output_limit(&self, kind: CallKind) -> Option<u64> {
        let mut own = self.own_limits(kind).map(|said| said.figure).peekable();
        own.peek()?;
        let mut is_said = false;
        for figure in own {
            match figure {
                Figure::Odd => return None,
                Figure::Whole(_) => is_said = true,
                Figure::Null => {}
            }
        }
        let all = self.fields.output_limits.iter().flatten();
        all.filter_map(|said| match said.figure {
            Figure::Whole(tokens) if is_said => Some(tokens),
            _ => None,
        })
        .max()
    }

    /// Whether the client says anything in the members by which calls of this kind limit their output, be it `null`.
    #[must_use]
    pub fn says_output_limit(&self, kind: CallKind) -> bool {
        self.own_limits(kind).next().is_some()
    }

    /// What the client says in the members by which calls of this kind limit their output.
    pub(crate) fn own_limits(&self, kind: CallKind) -> impl Iterator<Item = SaidLimit> {
        let [tokens, completion, output] = self.fields.output_limits;
        match kind {
            CallKind::Chat => [completion, tokens, None],
            CallKind::Completions | CallKind::Messages => [tokens, None, None],
            CallKind::Responses => [output, None, None],
            CallKind::Embeddings | CallKind::Models | CallKind::CountTokens | CallKind::Other => {
                [completion, tokens, output]
            }
        }
        .into_iter()
        .flatten()
    }

    /// How many answers are generated: for each prompt in a list as many as `n` says, or `best_of` if that is more. One when
    /// nothing of it is said.
    #[must_use]
    pub fn choices(&self) -> u64 {
        let each = self.fields.choices.iter().flatten().copied().max().unwrap_or(1);
        let [texts, embeds] = self.fields.prompts;
        each.max(1).saturating_mul((texts + embeds).max(1))
    }

    /// The client's own name for its user, escapes resolved.
    #[must_use]
    pub fn user(&self) -> Option<Cow<'_, str>> {
        let user = self.fields.user.as_ref()?;
        match &user.decoded {
            Some(decoded) => Some(Cow::Borrowed(decoded)),
            None => self.text(user.span).map(Cow::Borrowed),
        }
    }

    /// Where the value of `messages` lies.
    #[must_use]
    pub const fn messages(&self) -> Option<Span> {
        self.fields.messages
    }

    /// Where the value of `prompt` lies.
    #[must_use]
    pub const fn prompt(&self) -> Option<Span> {
        self.fields.prompt
    }

    /// Where the value of `input` lies.
    #[must_use]
    pub const fn input(&self) -> Option<Span> {
        self.fields.input
    }

    /// Where the value of `tools` lies.
    #[must_use]
    pub const fn tools(&self) -> Option<Span> {
        self.fields.tools
    }

    /// Whether it brings tools, or functions as they were called before: at least one.
    #[must_use]
    pub fn has_tools(&self) -> bool {
        let lists = [self.fields.tools, self.fields.functions];
        let mut items = lists.into_iter().flatten().map(|span| self.raw(span).iter());
        items.any(|raw| {
            let mut bytes = raw.filter(|byte| !byte.is_ascii_whitespace());
            bytes.next() == Some(&b'[') && bytes.next() != Some(&b']')
        })
    }

    /// Whether there are images in its messages or its input.
    #[must_use]
    pub const fn has_images(&self) -> bool {
        self.fields.images
    }

    /// Whether its answer has to be of a JSON schema.
    #[must_use]
    pub const fn wants_json_schema(&self) -> bool {
        self.fields.json_schema
    }

    /// Where the value of `system` (Anthropic) or `instructions` (Responses) lies.
    #[must_use]
    pub const fn system(&self) -> Option<Span> {
        self.fields.system
    }

    /// Where the value of `cache_salt` lies, with which vLLM keeps the prefix caches of its callers apart.
    #[must_use]
    pub const fn cache_salt(&self) -> Option<Span> {
        self.fields.cache_salt
    }

    /// The bytes of a value, exactly as the client wrote them; empty for a span of another body.
    #[must_use]
    pub fn raw(&self, span: Span) -> &[u8] {
        self.body.get(span.range()).unwrap_or_default()
    }

    /// Where `model` lies with its quotes, for the splice.
    pub(crate) fn model_span(&self) -> Option<Span> {
        let text = self.fields.model.as_ref()?.span;
        Some(Span::new(text.start - 1, text.end + 1))
    }

    /// Whether `model` is written with escapes.
    pub(crate) fn model_is_escaped(&self) -> bool {
        self.fields.model.as_ref().is_some_and(|model| model.decoded.is_some())
    }

    /// What stands in `stream_options`.
    pub(crate) const fn stream_options(&self) -> Option<&StreamOptions> {
        self.fields.stream_options.as_ref()
    }

    /// The place right after the opening brace.
    pub(crate) const fn open(&self) -> usize {
        self.fields.open
    }

    /// The encoded bytes in its strings.
    pub(crate) const fn media(&self) -> Media {
        self.media
    }

    /// The long strings in it, in their order.
    pub(crate) fn long_texts(&self) -> &[LongText] {
        &self.long
    }

    fn text(&self, span: Span) -> Option<&str> {
        str::from_utf8(self.body.get(span.range())?).ok()
    }
}

#[cfg(test)]
mod tests;
