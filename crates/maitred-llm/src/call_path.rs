//! Which call a path means.

use std::borrow::Cow;
use std::fmt;

use maitred_types::{Dialect, FaultKind};

/// What kind of call a client makes, as its path says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallKind {
    /// `POST /v1/chat/completions`.
    Chat,
    /// `POST /v1/completions`.
    Completions,
    /// `POST /v1/embeddings`.
    Embeddings,
    /// `GET /v1/models` and `GET /v1/models/{id}`; the gateway answers these itself.
    Models,
    /// `POST /v1/messages`, Anthropic's dialect.
    Messages,
    /// `POST /v1/messages/count_tokens`, Anthropic's dialect.
    CountTokens,
    /// `POST /v1/responses`.
    Responses,
    /// Any other path under `/v1/` that an endpoint may have.
    Other,
}

/// Paths by which vLLM loads and unloads adapters. They change one endpoint for everybody, so they are the operator's business and
/// not a client's; and the gateway would send them to any one endpoint of a pool.
const CHANGES_AN_ENDPOINT: [&str; 2] = ["load_lora_adapter", "unload_lora_adapter"];

/// Where a call says which model it wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelPlace {
    /// In `model` of a JSON body, which must be there.
    Body,
    /// In `model` of the body, if the body is JSON at all.
    BodyIfJson,
    /// The call goes to no endpoint and needs none.
    Nowhere,
}

impl CallKind {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::Chat,
        Self::Completions,
        Self::Embeddings,
        Self::Models,
        Self::Messages,
        Self::CountTokens,
        Self::Responses,
        Self::Other,
    ];

    /// The word in metrics, logs and records.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Completions => "completions",
            Self::Embeddings => "embeddings",
            Self::Models => "models",
            Self::Messages => "messages",
            Self::CountTokens => "count_tokens",
            Self::Responses => "responses",
            Self::Other => "other",
        }
    }

    /// The dialect in which the client speaks and expects its errors.
    #[must_use]
    pub const fn dialect(self) -> Dialect {
        match self {
            Self::Messages | Self::CountTokens => Dialect::Anthropic,
            Self::Chat | Self::Completions | Self::Embeddings | Self::Models | Self::Responses | Self::Other => {
                Dialect::OpenAi
            }
        }
    }

    /// The methods with which the path exists, for the check and for the `allow` header of a refusal.
    #[must_use]
    pub const fn methods(self) -> &'static [&'static str] {
        match self {
            Self::Models => &["GET"],
            Self::Other => &["GET", "POST", "PUT", "PATCH", "DELETE"],
            Self::Chat
            | Self::Completions
            | Self::Embeddings
            | Self::Messages
            | Self::CountTokens
            | Self::Responses => &["POST"],
        }
    }

    /// Whether the path exists with `method`, in the spelling of HTTP (capital letters).
    #[must_use]
    pub fn allows(self, method: &str) -> bool {
        self.methods().contains(&method)
    }

    /// Whether an endpoint runs a model for it, so that it costs accelerator time and ends in a usage record.
    #[must_use]
    pub const fn is_inference(self) -> bool {
        self.generates() || matches!(self, Self::Embeddings)
    }

    /// Whether the answer is generated token by token, so that a first token is worth waiting for and timing.
    #[must_use]
    pub const fn generates(self) -> bool {
        matches!(self, Self::Chat | Self::Completions | Self::Messages | Self::Responses)
    }

    /// Whether the body may hold `stream_options.include_usage`, which OpenAI's chat and completions have and no other path.
    #[must_use]
    pub const fn has_usage_option(self) -> bool {
        matches!(self, Self::Chat | Self::Completions)
    }

    /// Where the call names its model.
    #[must_use]
    pub const fn model_place(self) -> ModelPlace {
        match self {
            Self::Models => ModelPlace::Nowhere,
            Self::Other => ModelPlace::BodyIfJson,
            Self::Chat
            | Self::Completions
            | Self::Embeddings
            | Self::Messages
            | Self::CountTokens
            | Self::Responses => ModelPlace::Body,
        }
    }
}

/// Why a path is refused. All are [`FaultKind::UnknownPath`] to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// It does not begin with `/v1/`.
    NotUnderV1,
    /// It has an empty segment, as in `//` or with a slash at the end.
    EmptySegment,
    /// It has a segment `.` or `..`.
    DotSegment,
    /// It has a byte that must not stand in a path.
    BadByte,
    /// It is a path by which an engine is managed.
    ChangesAnEndpoint,
    /// It has a percent sign that begins no escape, or an escape that hides a slash, a backslash, a percent sign, a control
    /// character or a character that needs none.
    BadEscape,
}

impl PathError {
    /// What went wrong, for the table of faults.
    #[must_use]
    pub const fn fault(self) -> FaultKind {
        FaultKind::UnknownPath
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotUnderV1 => "calls go to paths under /v1/",
            Self::EmptySegment => "the path has an empty segment",
            Self::DotSegment => "the path has a segment `.` or `..`",
            Self::BadByte => "the path has a character that must not stand there",
            Self::ChangesAnEndpoint => "the path changes an endpoint and is not served through the gateway",
            Self::BadEscape => "the path has a percent escape that is broken or hides a plain character",
        })
    }
}

impl std::error::Error for PathError {}

/// A path that the gateway serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallPath<'a> {
    /// What kind of call it is.
    pub kind: CallKind,
    /// The id in `/v1/models/{id}`, percent escapes resolved. It may hold slashes, as names of model hubs do.
    pub model: Option<Cow<'a, str>>,
}

impl<'a> CallPath<'a> {
    /// Reads a path (without its query).
    ///
    /// There is no normalisation: a path that could mean another one to an endpoint that normalises is refused, so that nobody
    /// reaches `/v1/completions` under a name by which the gateway does not know it. The one exception is the id in
    /// `/v1/models/{id}`, which the gateway looks up itself: there `%2F` is how SDKs write the slash in a name.
    ///
    /// # Errors
    /// When the path is not under `/v1/` or is not in its plain form.
    pub fn parse(path: &'a str) -> Result<Self, PathError> {
        let rest = path.strip_prefix("/v1/").ok_or(PathError::NotUnderV1)?;
        check_segments(rest)?;
        if let Some(id) = rest.strip_prefix("models/") {
            let model = Some(decode_id(id)?);
            return Ok(Self {
                kind: CallKind::Models,
                model,
            });
        }
        let kind = match rest {
            "chat/completions" => CallKind::Chat,
            "completions" => CallKind::Completions,
            "embeddings" => CallKind::Embeddings,
            "models" => CallKind::Models,
            "messages" => CallKind::Messages,
            "messages/count_tokens" => CallKind::CountTokens,
            "responses" => CallKind::Responses,
            _ if CHANGES_AN_ENDPOINT.contains(&rest) => return Err(PathError::ChangesAnEndpoint),
            _ => {
                check_escapes(rest)?;
                CallKind::Other
            }
        };
        Ok(Self { kind, model: None })
    }
}

/// The dialect in which to answer at `path`, also when the path is refused.
#[must_use]
pub fn dialect_of(path: &str) -> Dialect {
    match path.strip_prefix("/v1/messages") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => Dialect::Anthropic,
        _ => Dialect::OpenAi,
    }
}

/// The characters of a path segment (RFC 3986, section 3.3) and `%`; no dot segments, none empty.
fn check_segments(rest: &str) -> Result<(), PathError> {
    for segment in rest.split('/') {
        match segment {
            "" => return Err(PathError::EmptySegment),
            "." | ".." => return Err(PathError::DotSegment),
            _ => {}
        }
        let fits = |byte: u8| is_unreserved(byte) || b"!$&'()*+,;=:@%".contains(&byte);
        if !segment.bytes().all(fits) {
            return Err(PathError::BadByte);
        }
    }
    Ok(())
}

/// The characters that never need an escape (RFC 3986, section 2.3).
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

fn check_escapes(rest: &str) -> Result<(), PathError> {
    let mut pieces = rest.split('%');
    pieces.next();
    for piece in pieces {
        let byte = escaped_byte(piece.as_bytes()).ok_or(PathError::BadEscape)?;
        if byte.is_ascii_control() || is_unreserved(byte) || b"/\\%".contains(&byte) {
            return Err(PathError::BadEscape);
        }
    }
    Ok(())
}

/// The byte that the two hexadecimal digits after a percent sign mean.
fn escaped_byte(digits: &[u8]) -> Option<u8> {
    let nibble = |at: usize| {
        let digit = char::from(*digits.get(at)?).to_digit(16)?;
        u8::try_from(digit).ok()
    };
    Some(nibble(0)? << 4 | nibble(1)?)
}

fn decode_id(id: &str) -> Result<Cow<'_, str>, PathError> {
    if !id.contains('%') {
        return Ok(Cow::Borrowed(id));
    }
    let mut decoded = Vec::with_capacity(id.len());
    let mut rest = id.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte == b'%' {
            let byte = escaped_byte(after).filter(|byte| !byte.is_ascii_control());
            decoded.push(byte.ok_or(PathError::BadEscape)?);
            rest = after.get(2..).unwrap_or_default();
        } else {
            decoded.push(byte);
            rest = after;
        }
    }
    String::from_utf8(decoded)
        .map(Cow::Owned)
        .map_err(|_| PathError::BadEscape)
}

#[cfg(test)]
mod tests;
