//! A walk over JSON that has been checked before, for looking at parts of it once more.
//!
//! It trusts the grammar: of broken JSON it makes something, but never panics, reads on without end, or takes memory.

use std::borrow::Cow;

use memchr::memchr;

use crate::body::text::{Alphabet, skip_text};

/// A string: the bytes between its quotes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a> {
    raw: &'a [u8],
    /// Whether there is any backslash in it.
    is_escaped: bool,
}

/// A value, and where it lies.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Text(Text<'a>),
    /// An array or object with its brackets.
    Node(&'a [u8]),
    /// A number, `true`, `false` or `null`.
    Plain(&'a [u8]),
}

/// Where the walk has come to.
#[derive(Clone, Debug)]
pub(super) struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Walk<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next byte that is not whitespace, left unread.
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.bytes.get(self.at)?;
            if byte > b' ' {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// Reads `byte` if it comes next, whitespace aside.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    /// Reads the next byte, whitespace aside, whatever it is.
    pub(super) fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    /// The next member's key, with the walk before its value; `None` once the object has been left.
    pub(super) fn member(&mut self) -> Option<Text<'a>> {
        self.take(b',');
        if self.peek()? != b'"' {
            self.take(b'}');
            return None;
        }
        let key = self.text()?;
        self.take(b':').then_some(key)
    }

    /// The next item of an array; `None` once the array has been left.
    pub(super) fn item(&mut self) -> Option<Value<'a>> {
        self.take(b',');
        if self.take(b']') { None } else { self.value() }
    }

    /// The string whose quote comes next.
    pub(super) fn text(&mut self) -> Option<Text<'a>> {
        if !self.take(b'"') {
            return None;
        }
        let start = self.at;
        let mut is_escaped = false;
        loop {
            let stop = skip_text(self.bytes, self.at, Alphabet::Any);
            is_escaped |= stop.escaped;
            self.at = stop.at;
            match self.bytes.get(self.at)? {
                b'"' => break,
                b'\\' => {
                    is_escaped = true;
                    self.at += 2;
                }
                // A bare control character, which a checked body does not have.
                _ => self.at += 1,
            }
        }
        let raw = self.bytes.get(start..self.at)?;
        self.at += 1;
        Some(Text { raw, is_escaped })
    }

    /// The next value.
    pub(super) fn value(&mut self) -> Option<Value<'a>> {
        match self.peek()? {
            b'"' => self.text().map(Value::Text),
            b'{' | b'[' => self.node().map(Value::Node),
            _ => self.plain().map(Value::Plain),
        }
    }

    fn node(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            match *self.bytes.get(self.at)? {
                b'"' => {
                    self.text()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return self.bytes.get(start..self.at);
            }
        }
    }

    /// A value without quotes or brackets.
    pub(super) fn plain(&mut self) -> Option<&'a [u8]> {
        let rest = self.bytes.get(self.at..)?;
        let ends = |byte: &u8| matches!(byte, 0..=b' ' | b',' | b':' | b']' | b'}' | b'"' | b'[' | b'{');
        let len = rest.iter().position(ends).unwrap_or(rest.len());
        self.at += len;
        rest.get(..len).filter(|plain| !plain.is_empty())
    }
}

impl<'a> Text<'a> {
    /// Whether the text is `name`, however it is written.
    pub(super) fn is(self, name: &[u8]) -> bool {
        self.decoded().as_ref() == name
    }

    /// How long it is as it is written.
    pub(super) const fn raw_len(self) -> usize {
        self.raw.len()
    }

    /// The text itself.
    pub(super) fn decoded(self) -> Cow<'a, [u8]> {
        if !self.is_escaped {
            return Cow::Borrowed(self.raw);
        }
        let mut decoded = Vec::with_capacity(self.raw.len());
        self.runs(|run| decoded.extend_from_slice(run));
        Cow::Owned(decoded)
    }

    /// Hands over the text run by run: plain text where it lies; what has escapes in it as what they mean, many at a time.
    pub(super) fn runs(self, mut run: impl FnMut(&[u8])) {
        if !self.is_escaped {
            return run(self.raw);
        }
        let mut stage = Stage::default();
        let mut rest = self.raw;
        loop {
            if let Some(after) = stage.copy_to_escape(rest) {
                rest = stage.unescape(after);
                if stage.is_full() {
                    run(stage.take());
                }
                continue;
            }
            // No escape is near, so the way to the next one is worth no copy.
            let copied = stage.copied;
            run(stage.take());
            rest = rest.get(copied..).unwrap_or_default();
            let Some(at) = memchr(b'\\', rest) else { break };
            let (plain, escape) = rest.split_at(at);
            run(plain);
            rest = stage.unescape(escape);
        }
        run(rest);
    }
}

/// Bytes gathered before they are handed over.
const STAGE: usize = 512;
/// Bytes that are copied in search of an escape before it counts as far.
const NEAR: usize = 64;
const WORD: usize = 8;

/// Where text with many escapes is put together.
#[derive(Debug)]
struct Stage {
    bytes: [u8; STAGE],
    len: usize,
    /// How much the last search copied.
    copied: usize,
}

impl Default for Stage {
    fn default() -> Self {
        Self {
            bytes: [0; STAGE],
            len: 0,
            copied: 0,
        }
    }
}

impl Stage {
    /// Copies text up to the next escape and returns what follows, the escape first; `None` if none is near.
    fn copy_to_escape<'a>(&mut self, text: &'a [u8]) -> Option<&'a [u8]> {
        self.copied = 0;
        while self.copied < NEAR {
            let word = text.get(self.copied..)?.first_chunk::<WORD>()?;
            // All eight are copied; those from the escape on are overwritten.
            *self.bytes.get_mut(self.len..)?.first_chunk_mut::<WORD>()? = *word;
            let before = before_escape(u64::from_le_bytes(*word));
            self.len += before;
            self.copied += before;
            if before < WORD {
                return text.get(self.copied..);
            }
        }
        None
    }

    /// Adds what the escape at the start of `text` means, and returns what follows it.
    fn unescape<'a>(&mut self, text: &'a [u8]) -> &'a [u8] {
        let (char, len) = unescape(text);
        if let Some(place) = self.bytes.get_mut(self.len..).and_then(<[u8]>::first_chunk_mut::<4>) {
            *place = char.bytes;
            self.len += char.len;
        }
        text.get(len..).unwrap_or_default()
    }

    /// Whether another search and an escape may find no place.
    const fn is_full(&self) -> bool {
        self.len + NEAR + WORD > STAGE
    }

    /// What was gathered.
    fn take(&mut self) -> &[u8] {
        let len = std::mem::take(&mut self.len);
        self.bytes.get(..len).unwrap_or_default()
    }
}

/// How many bytes of a word come before its first backslash.
const fn before_escape(word: u64) -> usize {
    const ONES: u64 = u64::from_ne_bytes([0x01; WORD]);
    const HIGH: u64 = u64::from_ne_bytes([0x80; WORD]);
    let slashed = word ^ u64::from_ne_bytes([b'\\'; WORD]);
    let stops = slashed.wrapping_sub(ONES) & !slashed & HIGH;
    (stops.trailing_zeros() / u8::BITS) as usize
}

/// Up to four bytes.
#[derive(Clone, Copy, Debug)]
struct Char {
    bytes: [u8; 4],
    len: usize,
}

impl Char {
    const fn of(byte: u8) -> Self {
        Self {
            bytes: [byte, 0, 0, 0],
            len: 1,
        }
    }
}

/// What the escape at the start of `bytes` means, and how long it is. A surrogate that stands alone is written in three bytes as if
/// it were a character.
fn unescape(bytes: &[u8]) -> (Char, usize) {
    let plain = match bytes.get(1) {
        Some(b'n') => b'\n',
        Some(b't') => b'\t',
        Some(b'r') => b'\r',
        Some(b'b') => 0x08,
        Some(b'f') => 0x0c,
        Some(b'u') => {
            let unit = unit(bytes);
            let low = bytes.get(6..).map_or(0, self::unit);
            if matches!(unit, 0xd800..=0xdbff) && matches!(low, 0xdc00..=0xdfff) {
                return (encode(0x1_0000 + ((unit & 0x3ff) << 10 | (low & 0x3ff))), 12);
            }
            return (encode(unit), 6);
        }
        Some(other) => *other,
        None => return (Char::of(b'\\'), 1),
    };
    (Char::of(plain), 2)
}

/// The number in `\uXXXX` at the start of `bytes`; zero if there is none.
fn unit(bytes: &[u8]) -> u32 {
    let Some([b'\\', b'u', digits @ ..]) = bytes.get(..6) else {
        return 0;
    };
    let digit = |byte: &u8| char::from(*byte).to_digit(16).unwrap_or(0);
    digits.iter().fold(0, |unit, byte| unit << 4 | digit(byte))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "each part is masked or shifted into a byte"
)]
fn encode(code: u32) -> Char {
    let tail = |shift: u32| 0x80 | (code >> shift & 0x3f) as u8;
    let (bytes, len) = match code {
        0..0x80 => ([code as u8, 0, 0, 0], 1),
        0x80..0x800 => ([0xc0 | (code >> 6) as u8, tail(0), 0, 0], 2),
        0x800..0x1_0000 => ([0xe0 | (code >> 12) as u8, tail(6), tail(0), 0], 3),
        _ => ([0xf0 | (code >> 18) as u8, tail(12), tail(6), tail(0)], 4),
    };
    Char { bytes, len }
}
