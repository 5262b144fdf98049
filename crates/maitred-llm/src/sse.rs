//! Reading server-sent events out of a byte stream, however it is cut.
//!
//! The grammar is the one of the HTML standard (section 9.2, "Server-sent events"): lines end with LF, CRLF or CR, a blank line
//! ends an event, several `data` lines are joined with LF, a colon begins a comment, one space after a colon is dropped, a byte
//! order mark at the very start is ignored. Unlike a browser the reader keeps each event's exact bytes, so that joining them gives
//! the stream again, and it hands out an unfinished last event, marked as such.
//!
//! One consequence of keeping exact bytes: after a blank line that ends in CR the reader waits for the next byte, which may be
//! the LF that belongs to it. Nothing is lost by that with LF and CRLF; with bare CR an event is seen when the next one begins.

use std::fmt;
use std::mem;

use bytes::{Bytes, BytesMut};
use memchr::memchr2;

use crate::Span;

/// The largest event that is read by default, in bytes.
pub const MAX_EVENT: usize = 1 << 20;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One event as it came over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    raw: Bytes,
    data: Payload,
    name: Option<Span>,
    is_complete: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Payload {
    /// There is no `data` line: a comment, a keep-alive, a stray blank line.
    None,
    /// One line.
    Line(Span),
    /// Several lines, joined.
    Lines(Vec<u8>),
}

impl Event {
    /// The exact bytes, comments and the blank line at the end included.
    #[must_use]
    pub const fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// The exact bytes, to be relayed.
    #[must_use]
    pub fn into_raw(self) -> Bytes {
        self.raw
    }

    /// The bytes, to be relayed, with the blank line that an incomplete event lacks. Use it for a last event that turned out to be
    /// whole, such as a `[DONE]` without a blank line after it.
    #[must_use]
    pub fn into_closed(self) -> Bytes {
        if self.is_complete {
            return self.raw;
        }
        let end: &[u8] = if self.raw.ends_with(b"\n") { b"\n" } else { b"\n\n" };
        Bytes::from([&self.raw, end].concat())
    }

    /// What the event says; `None` when it has no `data` line at all, as comments that keep a connection alive.
    #[must_use]
    pub fn data(&self) -> Option<&[u8]> {
        match &self.data {
            Payload::None => None,
            Payload::Line(span) => self.raw.get(span.range()),
            Payload::Lines(joined) => Some(joined),
        }
    }

    /// The value of its last `event` line.
    #[must_use]
    pub fn name(&self) -> Option<&[u8]> {
        self.raw.get(self.name?.range())
    }

    /// Whether the blank line was there. An event without it is the last of its stream, and may have been cut short: bytes sent
    /// after it would run into it.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.is_complete
    }
}

/// An event exceeds the limit. The stream cannot be read on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTooLarge {
    /// The limit, in bytes.
    pub limit: usize,
}

impl fmt::Display for EventTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an event of the stream is larger than {} bytes", self.limit)
    }
}

impl std::error::Error for EventTooLarge {}

/// Reads events from chunks. Feed a chunk, take events until there is none, feed the next, and finish at the end.
///
/// A chunk that holds whole events is not copied: the events are slices of it. Only an event that lies across chunks is put
/// together, in a buffer that is handed out with it; so a reader between events holds no memory.
#[derive(Debug)]
pub struct Reader {
    /// The beginning of an event whose end has not come yet.
    carry: BytesMut,
    /// What has been fed and not been read.
    chunk: Bytes,
    place: Place,
    max_event: usize,
    has_begun: bool,
    is_broken: bool,
}

/// Where in the line structure the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    LineStart,
    InLine,
    /// After a CR that ended a line; an LF would belong to it.
    AfterCr,
    /// After a CR that ended a blank line; an LF would belong to it.
    AfterBlankCr,
}

impl Default for Reader {
    fn default() -> Self {
        Self::new(MAX_EVENT)
    }
}

impl Reader {
    /// A reader at the start of a stream. `max_event` is the largest event it puts up with, in bytes.
    #[must_use]
    pub fn new(max_event: usize) -> Self {
        Self {
            carry: BytesMut::new(),
            chunk: Bytes::new(),
            place: Place::LineStart,
            max_event,
            has_begun: false,
            is_broken: false,
        }
    }

    /// Takes in the next bytes of the stream.
    pub fn feed(&mut self, chunk: Bytes) {
        if self.chunk.is_empty() {
            self.chunk = chunk;
        } else {
            // The caller did not take all events first. That costs a copy, and is right all the same.
            let mut joined = BytesMut::from(mem::take(&mut self.chunk));
            joined.extend_from_slice(&chunk);
            self.chunk = joined.freeze();
        }
    }

    /// The next event, or `None` when more bytes are needed.
    ///
    /// # Errors
    /// When an event exceeds the limit; from then on always.
    pub fn next_event(&mut self) -> Result<Option<Event>, EventTooLarge> {
        let limit = self.max_event;
        if self.is_broken {
            return Err(EventTooLarge { limit });
        }
        if self.chunk.is_empty() {
            return Ok(None);
        }
        let end = self.place.find_end(&self.chunk);
        let taken = end.unwrap_or(self.chunk.len());
        if self.carry.len() + taken > limit {
            self.is_broken = true;
            self.carry = BytesMut::new();
            self.chunk = Bytes::new();
            return Err(EventTooLarge { limit });
        }
        let piece = if taken == self.chunk.len() {
            mem::take(&mut self.chunk)
        } else {
            self.chunk.split_to(taken)
        };
        if end.is_some() && self.carry.is_empty() {
            return Ok(Some(self.event(piece)));
        }
        self.carry.extend_from_slice(&piece);
        if end.is_none() {
            return Ok(None);
        }
        let raw = mem::take(&mut self.carry).freeze();
        Ok(Some(self.event(raw)))
    }

    /// Ends the stream: what remains is the last event, complete only if nothing but an optional LF was missing.
    ///
    /// # Errors
    /// When the reader met an event over the limit.
    pub fn finish(&mut self) -> Result<Option<Event>, EventTooLarge> {
        if let Some(event) = self.next_event()? {
            return Ok(Some(event));
        }
        if self.carry.is_empty() {
            return Ok(None);
        }
        let is_complete = self.place == Place::AfterBlankCr;
        self.place = Place::LineStart;
        let raw = mem::take(&mut self.carry).freeze();
        let event = self.event(raw);
        Ok(Some(Event { is_complete, ..event }))
    }

    /// Whether all bytes fed so far have been handed out as complete events.
    #[must_use]
    pub fn is_between_events(&self) -> bool {
        self.carry.is_empty() && self.chunk.is_empty()
    }

    /// Bytes held back because their event is not complete.
    #[must_use]
    pub fn held(&self) -> usize {
        self.carry.len() + self.chunk.len()
    }

    fn event(&mut self, raw: Bytes) -> Event {
        let is_first = !mem::replace(&mut self.has_begun, true);
        let start = if is_first && raw.starts_with(BYTE_ORDER_MARK) {
            BYTE_ORDER_MARK.len()
        } else {
            0
        };
        parse(raw, start)
    }
}

impl Place {
    /// Moves over `bytes`; stops after the blank line that ends an event and returns the offset there.
    fn find_end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            *self = match (*self, byte) {
                (Self::InLine, _) => {
                    let rest = bytes.get(at..)?;
                    let offset = memchr2(b'\n', b'\r', rest)?;
                    at += offset;
                    if rest.get(offset) == Some(&b'\r') {
                        Self::AfterCr
                    } else {
                        Self::LineStart
                    }
                }
                (Self::LineStart, b'\n') => return Some(at + 1),
                (Self::LineStart, b'\r') => Self::AfterBlankCr,
                (Self::LineStart, _) => Self::InLine,
                (Self::AfterCr, b'\n') => Self::LineStart,
                (Self::AfterCr, _) => {
                    *self = Self::LineStart;
                    continue;
                }
                (Self::AfterBlankCr, _) => {
                    *self = Self::LineStart;
                    return Some(at + usize::from(byte == b'\n'));
                }
            };
            at += 1;
        }
        None
    }
}

/// Reads the fields of a whole event, whose lines begin at `start`.
fn parse(raw: Bytes, start: usize) -> Event {
    let mut data = Payload::None;
    let mut name = None;
    let mut at = start;
    while at < raw.len() {
        let line = line_at(&raw, at);
        at = line.end + 1;
        match field(&raw, line) {
            Some((b"data", value)) => data.add(&raw, value),
            Some((b"event", value)) => name = Some(value),
            _ => {}
        }
    }
    Event {
        raw,
        data,
        name,
        is_complete: true,
    }
}

/// The line that begins at `at`, without its end. Of a CRLF the CR is the end, and the LF is taken for an empty line, which says
/// nothing inside an event.
fn line_at(raw: &[u8], at: usize) -> Span {
    let rest = raw.get(at..).unwrap_or_default();
    let len = memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
    Span::new(at, at + len)
}

/// The name of a line's field and where its value lies. A comment has an empty name; a line without a colon is all name.
fn field(raw: &[u8], line: Span) -> Option<(&[u8], Span)> {
    let text = raw.get(line.range())?;
    // The fields that matter have short names, so a colon farther on is of no interest.
    let colon = text.iter().take(8).position(|&byte| byte == b':');
    let Some(colon) = colon else {
        return Some((text, Span::at(line.end)));
    };
    let space = usize::from(text.get(colon + 1) == Some(&b' '));
    let value = Span::new(line.start + colon + 1 + space, line.end);
    Some((text.get(..colon)?, value))
}

impl Payload {
    fn add(&mut self, raw: &[u8], value: Span) {
        let text = raw.get(value.range()).unwrap_or_default();
        match self {
            Self::None => *self = Self::Line(value),
            Self::Line(first) => {
                let first = raw.get(first.range()).unwrap_or_default();
                *self = Self::Lines([first, text].join(&b'\n'));
            }
            Self::Lines(joined) => {
                joined.push(b'\n');
                joined.extend_from_slice(text);
            }
        }
    }
}

#[cfg(test)]
mod tests;
