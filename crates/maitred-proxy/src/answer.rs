//! Reading the answers of endpoints off the wire: HTTP/1, strictly, and nothing but what a proxy needs of it.
//!
//! The reader takes bytes as they come, however they are cut, and holds none back but a head that is not complete. So a
//! connection between two reads owns no buffer, which is most of what a thousand waiting streams would otherwise cost.
//! It does not know sockets or time.

use std::mem::MaybeUninit;

use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use httparse::{ParserConfig, Status};

use crate::framing::{Framing, Malformed, Pieces};

/// Largest header section of an answer that is accepted from an endpoint, in bytes.
const HEAD_MAX: usize = 64 << 10;
/// Most header fields of one.
const FIELDS_MAX: usize = 100;

/// What the answer is an answer to, as far as its framing depends on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// For a head only: no body follows, whatever the head says (RFC 9110 section 9.3.2).
    Head,
    /// For anything else.
    Whole,
}

/// The head of an answer.
#[derive(Debug)]
pub(crate) struct AnswerHead {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
}

/// Reads one answer after another.
#[derive(Debug)]
pub(crate) struct AnswerReader {
    asked: Asked,
    /// The beginning of a head whose end has not come.
    partial: Vec<u8>,
    framing: Framing,
    /// Payload that came along with the head.
    ready: Bytes,
    /// Whether another answer may follow this one on the same connection.
    is_reusable: bool,
}

impl AnswerReader {
    /// A reader on a fresh connection.
    pub(crate) const fn new() -> Self {
        Self {
            asked: Asked::Whole,
            partial: Vec::new(),
            framing: Framing::Ended,
            ready: Bytes::new(),
            is_reusable: true,
        }
    }

    /// An answer is to come.
    pub(crate) fn expect(&mut self, asked: Asked) {
        self.asked = asked;
        // Until its head says otherwise, nothing that comes is a body, and nothing may follow.
        self.is_reusable = false;
    }

    /// Takes bytes in while the head is not complete; what lies behind it is the body's beginning.
    ///
    /// # Errors
    /// When this is no answer of HTTP/1, or it frames its body ambiguously.
    pub(crate) fn head(&mut self, input: &[u8]) -> Result<Option<AnswerHead>, Malformed> {
        if self.partial.is_empty() {
            return self.head_of(input);
        }
        let mut all = std::mem::take(&mut self.partial);
        all.extend_from_slice(input);
        if input.contains(&b'\n') {
            return self.head_of(&all);
        }
        self.hold_back(all)
    }

    fn head_of(&mut self, input: &[u8]) -> Result<Option<AnswerHead>, Malformed> {
        let Some(found) = find_head(input, self.asked)? else {
            return self.hold_back(input.to_vec());
        };
        self.framing = found.framing;
        self.is_reusable = found.is_reusable;
        self.ready = self.body(input.get(found.length..).unwrap_or_default());
        Ok(Some(found.head))
    }

    fn hold_back(&mut self, partial: Vec<u8>) -> Result<Option<AnswerHead>, Malformed> {
        if partial.len() > HEAD_MAX {
            return Err(TOO_LARGE);
        }
        self.partial = partial;
        Ok(None)
    }

    /// The payload in `input`, in one piece, and the end of the body if it is there.
    pub(crate) fn body(&mut self, input: &[u8]) -> Bytes {
        let mut pieces = Pieces::new();
        let taken = self.framing.take(input, &mut pieces);
        if taken < input.len() {
            // Bytes that nobody asked for: whose answer they are cannot be known.
            self.is_reusable = false;
        }
        match pieces.as_slice() {
            [] => Bytes::new(),
            [only] => Bytes::copy_from_slice(only),
            several => {
                let mut joined = BytesMut::with_capacity(several.iter().map(|piece| piece.len()).sum());
                several.iter().for_each(|piece| joined.extend_from_slice(piece));
                joined.freeze()
            }
        }
    }

    /// Payload that has been read already.
    pub(crate) fn take_ready(&mut self) -> Bytes {
        std::mem::take(&mut self.ready)
    }

    /// The connection has ended.
    pub(crate) fn close(&mut self) {
        self.is_reusable = false;
        self.framing.close();
    }

    /// How far the body has come; what [`AnswerReader::take_ready`] holds is past that.
    pub(crate) const fn framing(&self) -> &Framing {
        &self.framing
    }

    /// The bytes of the body that have not been handed out, if their number is known.
    pub(crate) fn remaining(&self) -> Option<u64> {
        let ready = self.ready.len() as u64;
        match self.framing {
            Framing::Length(left) => Some(left.saturating_add(ready)),
            Framing::Ended => Some(ready),
            Framing::Chunked(_) | Framing::UntilClose | Framing::Broken(_) => None,
        }
    }

    /// Whether everything has been read and handed out, and another answer may follow.
    pub(crate) fn is_between_answers(&self) -> bool {
        self.is_reusable && self.framing == Framing::Ended && self.ready.is_empty() && self.partial.is_empty()
    }
}

const TOO_LARGE: Malformed = Malformed("the head of the answer is too large");

/// A head, and what it says about the rest.
struct Found {
    head: AnswerHead,
    framing: Framing,
    is_reusable: bool,
    /// Bytes up to its end, with the interim answers before it.
    length: usize,
}

/// The head at the beginning of `input`, after any interim answers; nothing when its end has not come.
fn find_head(input: &[u8], asked: Asked) -> Result<Option<Found>, Malformed> {
    let mut start = 0;
    loop {
        let bytes = input.get(start..).unwrap_or_default();
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut parsed = httparse::Response::new(&mut []);
        let status = ParserConfig::default()
            .parse_response_with_uninit_headers(&mut parsed, bytes, &mut fields)
            .map_err(|error| malformed(&error))?;
        let Status::Complete(length) = status else {
            return Ok(None);
        };
        start += length;
        if start > HEAD_MAX {
            return Err(TOO_LARGE);
        }
        match parsed.code {
            // Nobody asked for another protocol.
            Some(101) => return Err(Malformed("the answer changes the protocol")),
            Some(100..200) => {}
            _ => {
                let bytes = bytes.get(..length).unwrap_or_default();
                return found(&parsed, bytes, start, asked).map(Some);
            }
        }
    }
}

fn malformed(error: &httparse::Error) -> Malformed {
    Malformed(match error {
        httparse::Error::HeaderName | httparse::Error::HeaderValue => "a header of the answer is not well-formed",
        httparse::Error::NewLine => "a line of the answer's head does not end as it must",
        httparse::Error::Status => "the answer has no status",
        httparse::Error::Token => "the answer's status line is not well-formed",
        httparse::Error::TooManyHeaders => "the answer has too many headers",
        httparse::Error::Version => "the answer is not HTTP/1",
    })
}

fn found(parsed: &httparse::Response<'_, '_>, bytes: &[u8], length: usize, asked: Asked) -> Result<Found, Malformed> {
    const BAD_HEADER: Malformed = Malformed("a header of the answer is not well-formed");
    let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok());
    let status = status.ok_or(Malformed("the answer has no status"))?;
    // One copy of the head; the values are slices of it.
    let text = Bytes::copy_from_slice(bytes);
    let mut headers = HeaderMap::with_capacity(parsed.headers.len());
    let mut facts = Facts::default();
    for field in parsed.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| BAD_HEADER)?;
        let value = if field.value.is_empty() {
            HeaderValue::from_static("")
        } else {
            let start = offset(bytes, field.value);
            HeaderValue::from_maybe_shared(text.slice(start..start + field.value.len())).map_err(|_| BAD_HEADER)?
        };
        facts.note(&name, field.value)?;
        headers.try_append(name, value).map_err(|_| TOO_LARGE)?;
    }
    let is_latest = parsed.version == Some(1);
    let framing = facts.framing(status, is_latest, asked)?;
    let is_reusable = framing != Framing::UntilClose && !facts.closes && (is_latest || facts.keeps);
    Ok(Found {
        head: AnswerHead { status, headers },
        framing,
        is_reusable,
        length,
    })
}

/// Where `part` lies in `whole`, which it is a part of.
fn offset(whole: &[u8], part: &[u8]) -> usize {
    part.as_ptr()
        .addr()
        .saturating_sub(whole.as_ptr().addr())
        .min(whole.len())
}

/// What the headers say about the body's end and the connection's.
#[derive(Debug, Default)]
struct Facts {
    length: Option<u64>,
    /// How many transfer codings there are; each is `chunked`, or the answer would have been refused.
    codings: u32,
    closes: bool,
    keeps: bool,
}

impl Facts {
    fn note(&mut self, name: &HeaderName, value: &[u8]) -> Result<(), Malformed> {
        if *name == CONTENT_LENGTH {
            let length = length(value).ok_or(Malformed("the answer's length is not a number"))?;
            if self.length.replace(length).is_some_and(|before| before != length) {
                return Err(Malformed("the answer has several lengths"));
            }
        } else if *name == TRANSFER_ENCODING {
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err(BAD_CODING);
            }
            self.codings += 1;
        } else if *name == CONNECTION {
            for token in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                self.closes |= token.eq_ignore_ascii_case(b"close");
                self.keeps |= token.eq_ignore_ascii_case(b"keep-alive");
            }
        }
        Ok(())
    }

    /// The length of the body by RFC 9112 section 6.3, with what that leaves to the recipient's courage refused.
    fn framing(&self, status: StatusCode, is_latest: bool, asked: Asked) -> Result<Framing, Malformed> {
        let is_chunked = self.codings == 1 && is_latest;
        if self.codings > 0 && !is_chunked {
            return Err(BAD_CODING);
        }
        if is_chunked && self.length.is_some() {
            return Err(Malformed("the answer has both a length and a transfer coding"));
        }
        if asked == Asked::Head || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            return Ok(Framing::Ended);
        }
        Ok(match self.length {
            _ if is_chunked => Framing::chunked(),
            Some(length) => Framing::length(length),
            None => Framing::UntilClose,
        })
    }
}

const BAD_CODING: Malformed = Malformed("the answer has a transfer coding other than chunked alone");

fn length(value: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(value).ok()?;
    digits
        .parse()
        .ok()
        .filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
