//! The members the gateway reads, and what each may be.

use crate::Span;

use super::BodyError;
use super::cursor::{Cursor, Parts, Text};

/// The outermost object is open around every value.
const DEPTH_OF_MEMBERS: u32 = 1;

/// A string value the gateway reads.
#[derive(Clone, Debug)]
pub(super) struct Name {
    /// Between the quotes.
    pub(super) span: Span,
    /// The text, if escapes make it differ from the bytes.
    pub(super) decoded: Option<Box<str>>,
}

/// What `stream_options` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamOptions {
    /// `null`.
    Null(Span),
    /// An object.
    Object {
        /// The place right after its brace.
        open: usize,
        /// Whether there is nothing in it.
        is_empty: bool,
        /// Where the value of `include_usage` lies, and whether it is true; `null` is as good as false.
        include_usage: Option<(Span, bool)>,
    },
}

/// A limit on the output, as the client says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SaidLimit {
    /// Where its value lies.
    pub(crate) span: Span,
    /// What it says.
    pub(crate) figure: Figure,
}

/// What stands where a number of at least zero is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    /// `null`, which says as much as nothing.
    Null,
    /// A whole number, however it is written: `1e3` is a thousand.
    Whole(u64),
    /// Another number. What an endpoint makes of it cannot be known: `-1` is no limit to some.
    Odd,
}

/// Where the members lie.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    /// The place right after the opening brace.
    pub(super) open: usize,
    pub(super) model: Option<Name>,
    pub(super) stream: Option<bool>,
    pub(super) stream_options: Option<StreamOptions>,
    /// One place for each of the three names that the limit has: `max_tokens`, `max_completion_tokens`, `max_output_tokens`.
    pub(super) output_limits: [Option<SaidLimit>; 3],
    /// `n` and `best_of`.
    pub(super) choices: [Option<u64>; 2],
    /// How many prompts there are in `prompt` and in `prompt_embeds`.
    pub(super) prompts: [u64; 2],
    pub(super) user: Option<Name>,
    pub(super) messages: Option<Span>,
    pub(super) prompt: Option<Span>,
    pub(super) input: Option<Span>,
    pub(super) tools: Option<Span>,
    /// What chats called tools before there were any others.
    pub(super) functions: Option<Span>,
    pub(super) system: Option<Span>,
    pub(super) cache_salt: Option<Span>,
    /// Whether there are images in what is asked.
    pub(super) images: bool,
    /// Whether the answer has to be of a JSON schema.
    pub(super) json_schema: bool,
    has_stream: bool,
}

/// Reads the whole body.
pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<Fields, BodyError> {
    let mut fields = Fields::default();
    cursor.peek();
    fields.open = cursor.at() + 1;
    cursor.object(|cursor, key| {
        if key.escaped {
            let name = decode(cursor, key, "a key without broken surrogates")?;
            member(cursor, &mut fields, name.as_bytes(), key)
        } else {
            member(cursor, &mut fields, cursor.raw(key.span), key)
        }
    })?;
    cursor.end()?;
    Ok(fields)
}

fn member(cursor: &mut Cursor<'_>, fields: &mut Fields, name: &[u8], key: Text) -> Result<(), BodyError> {
    match name {
        b"model" => {
            once("model", fields.model.is_some(), key)?;
            fields.model = Some(text(cursor, "model")?);
        }
        b"stream" => {
            once("stream", fields.has_stream, key)?;
            fields.has_stream = true;
            fields.stream = flag(cursor, "stream")?;
        }
        b"stream_options" => {
            once("stream_options", fields.stream_options.is_some(), key)?;
            fields.stream_options = Some(stream_options(cursor)?);
        }
        b"max_tokens" => fields.output_limits[0] = Some(limit(cursor, "max_tokens")?),
        b"max_completion_tokens" => fields.output_limits[1] = Some(limit(cursor, "max_completion_tokens")?),
        b"max_output_tokens" => fields.output_limits[2] = Some(limit(cursor, "max_output_tokens")?),
        b"n" => fields.choices[0] = at_least(cursor, "n")?,
        b"best_of" => fields.choices[1] = at_least(cursor, "best_of")?,
        b"user" => fields.user = text_or_null(cursor, "user")?,
        b"messages" => {
            let (span, parts) = parts(cursor)?;
            (fields.messages, fields.images) = (Some(span), fields.images | parts.image);
        }
        b"prompt" => {
            let (span, prompts) = prompts(cursor)?;
            (fields.prompt, fields.prompts[0]) = (Some(span), prompts);
        }
        b"prompt_embeds" => fields.prompts[1] = prompts(cursor)?.1,
        b"input" => {
            let (span, parts) = parts(cursor)?;
            (fields.input, fields.images) = (Some(span), fields.images | parts.image);
        }
        b"response_format" | b"text" | b"output_format" | b"output_config" => {
            fields.json_schema |= parts(cursor)?.1.json_schema;
        }
        // Extensions of vLLM and SGLang.
        b"guided_json" | b"json_schema" => {
            let span = value(cursor)?;
            fields.json_schema |= cursor.raw(span) != b"null";
        }
        b"structured_outputs" => {
            let span = value(cursor)?;
            fields.json_schema |= cursor.raw(span).windows(6).any(|key| key == b"\"json\"");
        }
        b"tools" => fields.tools = Some(value(cursor)?),
        b"functions" => fields.functions = Some(value(cursor)?),
        b"system" | b"instructions" => fields.system = Some(value(cursor)?),
        b"cache_salt" => fields.cache_salt = Some(value(cursor)?),
        _ => {
            value(cursor)?;
        }
    }
    Ok(())
}

fn value(cursor: &mut Cursor<'_>) -> Result<Span, BodyError> {
    cursor.value(DEPTH_OF_MEMBERS)
}

/// A value, and the types of what is in it.
fn parts(cursor: &mut Cursor<'_>) -> Result<(Span, Parts), BodyError> {
    cursor.take_parts();
    let span = value(cursor)?;
    Ok((span, cursor.take_parts()))
}

fn once(field: &'static str, is_second: bool, key: Text) -> Result<(), BodyError> {
    if is_second {
        return Err(BodyError::Duplicate {
            field,
            at: key.span.start - 1,
        });
    }
    Ok(())
}

/// Reads a scalar value for `field`; anything else than `wanted` allows is an error about the field, broken grammar an error
/// about the grammar.
fn scalar<'a>(
    cursor: &mut Cursor<'a>,
    field: &'static str,
    expected: &'static str,
    wanted: fn(&[u8]) -> bool,
) -> Result<&'a [u8], BodyError> {
    let first = cursor.peek();
    let wrong = BodyError::Field {
        field,
        at: cursor.at(),
        expected,
    };
    if matches!(first, Some(b'{' | b'[')) {
        return Err(wrong);
    }
    let span = value(cursor)?;
    let raw = cursor.raw(span);
    if wanted(raw) { Ok(raw) } else { Err(wrong) }
}

fn flag(cursor: &mut Cursor<'_>, field: &'static str) -> Result<Option<bool>, BodyError> {
    let raw = scalar(cursor, field, "true or false", |raw| {
        matches!(raw, b"true" | b"false" | b"null")
    })?;
    Ok(match raw {
        b"true" => Some(true),
        b"false" => Some(false),
        _ => None,
    })
}

fn number<'a>(cursor: &mut Cursor<'a>, field: &'static str) -> Result<&'a str, BodyError> {
    let raw = scalar(cursor, field, "a number", |raw| {
        matches!(raw, [b'-' | b'0'..=b'9', ..] | b"null")
    })?;
    // A number in JSON is plain ASCII.
    Ok(str::from_utf8(raw).unwrap_or("null"))
}

fn limit(cursor: &mut Cursor<'_>, field: &'static str) -> Result<SaidLimit, BodyError> {
    cursor.peek();
    let start = cursor.at();
    let raw = number(cursor, field)?;
    Ok(SaidLimit {
        span: Span::new(start, start + raw.len()),
        figure: figure(raw),
    })
}

/// A whole number written with a point or an exponent counts as one up to here, where every whole number still has a double of
/// its own (2^53).
const EXACT: f64 = 9_007_199_254_740_992.0;

fn figure(raw: &str) -> Figure {
    if raw == "null" {
        return Figure::Null;
    }
    if let Ok(whole) = raw.parse() {
        return Figure::Whole(whole);
    }
    match raw.parse::<f64>() {
        Ok(number) if number.fract() == 0.0 && (0.0..=EXACT).contains(&number) => Figure::Whole(saturating(number)),
        _ => Figure::Odd,
    }
}

/// How many at the most an endpoint can take a number for: rounded up. `None` where it is not said.
fn at_least(cursor: &mut Cursor<'_>, field: &'static str) -> Result<Option<u64>, BodyError> {
    let raw = number(cursor, field)?;
    Ok(match figure(raw) {
        Figure::Null => None,
        Figure::Whole(whole) => Some(whole),
        Figure::Odd => raw.parse::<f64>().ok().map(|number| saturating(number.ceil())),
    })
}

/// The number without its fraction; zero below zero, and the largest there is beyond it.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, which is what is wanted"
)]
const fn saturating(number: f64) -> u64 {
    number as u64
}

/// A prompt, and how many prompts it is: a list of texts or of lists of tokens is one for each, a list of tokens is one.
fn prompts(cursor: &mut Cursor<'_>) -> Result<(Span, u64), BodyError> {
    let first = cursor.peek();
    let start = cursor.at();
    if first != Some(b'[') {
        let span = value(cursor)?;
        return Ok((span, u64::from(first != Some(b'n'))));
    }
    cursor.take(b'[');
    let are_tokens = matches!(cursor.peek(), Some(b'-' | b'0'..=b'9'));
    let mut items = 0;
    if !cursor.take(b']') {
        loop {
            cursor.value(DEPTH_OF_MEMBERS + 1)?;
            items += 1;
            if cursor.take(b']') {
                break;
            }
            if !cursor.take(b',') {
                return Err(cursor.wanted("`,` or `]`"));
            }
        }
    }
    let prompts = if are_tokens { 1 } else { items };
    Ok((Span::new(start, cursor.at()), prompts))
}

fn text(cursor: &mut Cursor<'_>, field: &'static str) -> Result<Name, BodyError> {
    let expected = "a string";
    cursor.peek();
    let at = cursor.at();
    let raw = scalar(cursor, field, expected, |raw| raw.starts_with(b"\""))?;
    let span = Span::new(at + 1, at + raw.len() - 1);
    let decoded = if raw.contains(&b'\\') {
        let text = Text { span, escaped: true };
        let decoded = decode(cursor, text, "").map_err(|_| BodyError::Field { field, at, expected })?;
        Some(decoded.into_boxed_str())
    } else {
        None
    };
    Ok(Name { span, decoded })
}

fn text_or_null(cursor: &mut Cursor<'_>, field: &'static str) -> Result<Option<Name>, BodyError> {
    if cursor.peek() == Some(b'n') {
        value(cursor)?;
        return Ok(None);
    }
    text(cursor, field).map(Some)
}

fn stream_options(cursor: &mut Cursor<'_>) -> Result<StreamOptions, BodyError> {
    let field = "stream_options";
    let first = cursor.peek();
    let at = cursor.at();
    if first != Some(b'{') {
        scalar(cursor, field, "an object", |raw| raw == b"null")?;
        return Ok(StreamOptions::Null(Span::new(at, cursor.at())));
    }
    let mut include_usage = None;
    let members = cursor.object(|cursor, key| {
        let is_ours = if key.escaped {
            decode(cursor, key, "a key without broken surrogates")? == "include_usage"
        } else {
            cursor.raw(key.span) == b"include_usage"
        };
        if !is_ours {
            cursor.value(DEPTH_OF_MEMBERS + 1)?;
            return Ok(());
        }
        let field = "stream_options.include_usage";
        once(field, include_usage.is_some(), key)?;
        cursor.peek();
        let start = cursor.at();
        let wanted = flag(cursor, field)? == Some(true);
        include_usage = Some((Span::new(start, cursor.at()), wanted));
        Ok(())
    })?;
    Ok(StreamOptions::Object {
        open: at + 1,
        is_empty: members == 0,
        include_usage,
    })
}

/// The text of a string with escapes. Fails when a surrogate stands alone, or when the bytes are not UTF-8.
fn decode(cursor: &Cursor<'_>, text: Text, expected: &'static str) -> Result<String, BodyError> {
    let quoted = Span::new(text.span.start - 1, text.span.end + 1);
    serde_json::from_slice(cursor.raw(quoted)).map_err(|_| BodyError::Syntax {
        at: quoted.start,
        expected,
    })
}
