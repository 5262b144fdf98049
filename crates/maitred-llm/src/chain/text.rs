//! Strings of JSON in the one spelling that is hashed.
//!
//! A writer of JSON is free to escape what need not be escaped, and how. Hashed is the spelling that is in use nearly everywhere:
//! escaped is what must be (quotes, backslashes, control characters), with two bytes where there is such an escape. So nearly all
//! text is hashed where it lies.

use std::borrow::Cow;

use memchr::memchr;

use crate::Spelling;

/// A string: the bytes between its quotes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text<'a> {
    raw: &'a [u8],
    spelling: Spelling,
}

impl<'a> Text<'a> {
    pub(super) const fn new(raw: &'a [u8], spelling: Spelling) -> Self {
        Self { raw, spelling }
    }

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
        let Some(first) = memchr(b'\\', self.raw) else {
            return Cow::Borrowed(self.raw);
        };
        let mut decoded = Vec::with_capacity(self.raw.len());
        let (plain, mut rest) = self.raw.split_at(first);
        decoded.extend_from_slice(plain);
        while !rest.is_empty() {
            let (char, len) = unescape(rest);
            decoded.extend_from_slice(char.bytes.get(..char.len).unwrap_or_default());
            rest = rest.get(len..).unwrap_or_default();
            let (plain, escape) = rest.split_at(memchr(b'\\', rest).unwrap_or(rest.len()));
            decoded.extend_from_slice(plain);
            rest = escape;
        }
        Cow::Owned(decoded)
    }

    /// Hands over the text in the usual spelling, run by run: where it lies if it is spelled so, put together otherwise.
    pub(super) fn runs(self, mut run: impl FnMut(&[u8])) {
        if self.spelling == Spelling::Plain {
            return run(self.raw);
        }
        let mut stage = Stage::default();
        let mut rest = self.raw;
        loop {
            if let Some(after) = stage.copy_to_escape(rest) {
                rest = stage.respell(after);
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
            rest = stage.respell(escape);
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

    /// Adds the escape at the start of `text` in its usual spelling, and returns what follows it.
    fn respell<'a>(&mut self, text: &'a [u8]) -> &'a [u8] {
        let (char, len) = unescape(text);
        let char = char.spelled();
        if let Some(place) = self.bytes.get_mut(self.len..).and_then(<[u8]>::first_chunk_mut::<WORD>) {
            *place = char.bytes;
            self.len += char.len;
        }
        text.get(len..).unwrap_or_default()
    }

    /// Whether another search and an escape may find no place.
    const fn is_full(&self) -> bool {
        self.len + NEAR + 2 * WORD > STAGE
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

/// A character, or the escape that stands for it.
#[derive(Clone, Copy, Debug)]
struct Char {
    bytes: [u8; WORD],
    len: usize,
}

impl Char {
    fn of(written: &[u8]) -> Self {
        let mut bytes = [0; WORD];
        let len = written.len().min(WORD);
        bytes.iter_mut().zip(written).for_each(|(place, byte)| *place = *byte);
        Self { bytes, len }
    }

    /// What stands for it in a string.
    fn spelled(self) -> Self {
        let [byte, ..] = self.bytes;
        if self.len != 1 {
            return self;
        }
        let letter = match byte {
            b'"' | b'\\' => byte,
            0x08 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            0x0c => b'f',
            b'\r' => b'r',
            0..0x20 => {
                let digit = |value: u8| b"0123456789abcdef".get(usize::from(value)).copied().unwrap_or(b'0');
                return Self::of(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 0xf)]);
            }
            _ => return self,
        };
        Self::of(&[b'\\', letter])
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
        None => return (Char::of(b"\\"), 1),
    };
    (Char::of(&[plain]), 2)
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
    match code {
        0..0x80 => Char::of(&[code as u8]),
        0x80..0x800 => Char::of(&[0xc0 | (code >> 6) as u8, tail(0)]),
        0x800..0x1_0000 => Char::of(&[0xe0 | (code >> 12) as u8, tail(6), tail(0)]),
        _ => Char::of(&[0xf0 | (code >> 18) as u8, tail(12), tail(6), tail(0)]),
    }
}
