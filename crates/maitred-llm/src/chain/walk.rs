//! A walk over JSON that has been checked before, for looking at parts of it once more.
//!
//! It trusts the grammar: of broken JSON it makes something, but never panics, reads on without end, or takes memory.

use super::text::Text;
use crate::body::text::{Alphabet, skip_text};
use crate::{BodyView, LongText, Span, Spelling};

/// JSON text as it is written, with what was noted of it when it was checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw<'a> {
    pub(super) bytes: &'a [u8],
    /// Offset of the first of these bytes in the body that `long` is of.
    at: usize,
    /// The long strings in it, in their order; none of an unknown text.
    long: &'a [LongText],
}

/// A value, and where it lies.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    Text(Text<'a>),
    /// An array or object with its brackets.
    Node(Raw<'a>),
    /// A number, `true`, `false` or `null`.
    Plain(&'a [u8]),
}

/// Where the walk has come to.
#[derive(Clone, Debug)]
pub(super) struct Walk<'a> {
    raw: Raw<'a>,
    at: usize,
    /// How many of the long strings have been passed.
    passed: usize,
}

impl<'a> Raw<'a> {
    /// Text of which nothing was noted.
    pub(super) const fn unknown(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            long: &[],
        }
    }

    /// A value of a body.
    pub(super) fn of(view: &'a BodyView, span: Span) -> Self {
        let long = view.long_texts();
        let from = long.partition_point(|text| (text.start as usize) < span.start);
        Self {
            bytes: view.raw(span),
            at: span.start,
            long: long.get(from..).unwrap_or_default(),
        }
    }

    /// How long it is.
    pub(super) const fn len(self) -> usize {
        self.bytes.len()
    }

    /// Whether it begins with `byte`.
    pub(super) fn begins_with(self, byte: u8) -> bool {
        self.bytes.first() == Some(&byte)
    }
}

impl<'a> Walk<'a> {
    pub(super) const fn new(raw: Raw<'a>) -> Self {
        Self { raw, at: 0, passed: 0 }
    }

    /// The next byte that is not whitespace, left unread.
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.raw.bytes.get(self.at)?;
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
        let spelling = match self.known() {
            Some(text) => {
                self.at = (text.end as usize).checked_sub(self.raw.at)?;
                text.spelling
            }
            None => self.find_quote()?,
        };
        let text = self.raw.bytes.get(start..self.at)?;
        self.at += 1;
        Some(Text::new(text, spelling))
    }

    /// What was noted of the string that begins here.
    fn known(&mut self) -> Option<LongText> {
        let here = self.raw.at + self.at;
        loop {
            let next = self.raw.long.get(self.passed)?;
            if next.start as usize > here {
                return None;
            }
            self.passed += 1;
            if next.start as usize == here {
                return Some(*next);
            }
        }
    }

    /// Goes to the quote that ends the string.
    fn find_quote(&mut self) -> Option<Spelling> {
        let mut spelling = Spelling::Plain;
        loop {
            let stop = skip_text(self.raw.bytes, self.at, Alphabet::Any);
            if stop.slashed {
                spelling = Spelling::Free;
            }
            self.at = stop.at;
            match self.raw.bytes.get(self.at)? {
                b'"' => return Some(spelling),
                b'\\' => {
                    spelling = Spelling::Free;
                    self.at += 2;
                }
                // A bare control character, which a checked body does not have.
                _ => self.at += 1,
            }
        }
    }

    /// The next value.
    pub(super) fn value(&mut self) -> Option<Value<'a>> {
        match self.peek()? {
            b'"' => self.text().map(Value::Text),
            b'{' | b'[' => self.node().map(Value::Node),
            _ => self.plain().map(Value::Plain),
        }
    }

    fn node(&mut self) -> Option<Raw<'a>> {
        let (start, passed) = (self.at, self.passed);
        let mut depth = 0_usize;
        loop {
            match *self.raw.bytes.get(self.at)? {
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
                return Some(Raw {
                    bytes: self.raw.bytes.get(start..self.at)?,
                    at: self.raw.at + start,
                    long: self.raw.long.get(passed..self.passed).unwrap_or_default(),
                });
            }
        }
    }

    /// A value without quotes or brackets.
    pub(super) fn plain(&mut self) -> Option<&'a [u8]> {
        let rest = self.raw.bytes.get(self.at..)?;
        let ends = |byte: &u8| matches!(byte, 0..=b' ' | b',' | b':' | b']' | b'}' | b'"' | b'[' | b'{');
        let len = rest.iter().position(ends).unwrap_or(rest.len());
        self.at += len;
        rest.get(..len).filter(|plain| !plain.is_empty())
    }
}
