//! A cursor that walks over JSON and checks its grammar (RFC 8259), without building values.

use crate::Span;

use super::text::{Alphabet, skip_text};
use super::{BodyError, Media};

/// How deep arrays and objects may be nested, the outermost object included. It is what `serde_json` allows.
pub const MAX_DEPTH: u32 = 127;

/// A string at least this long that consists of the letters of base64 and URLs alone is taken for encoded media.
const MEDIA_MIN: usize = 1024;
/// So many of its first bytes are looked at.
const MEDIA_PROBE: usize = 128;

/// A string in the body: the bytes between its quotes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    /// Without the quotes.
    pub(super) span: Span,
    /// Whether there is any backslash in it.
    pub(super) escaped: bool,
}

/// A string from which on it is worth to remember where it ends, for those who walk over the body again.
const LONG: usize = 256;
/// No more of them are remembered.
const MAX_LONG: usize = 4096;

/// A long string in the body: the bytes between its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LongText {
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) spelling: Spelling,
}

/// How a string is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// As every writer has to: nothing is escaped but what must be, and in the shortest way.
    Plain,
    /// With escapes that another writer may do without.
    Free,
}

/// The walk over one body.
#[derive(Debug)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    alphabet: Alphabet,
    media: Media,
    long: Vec<LongText>,
    parts: Parts,
}

/// Which values of members called `type` were passed, of those that tell what a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    /// An image, in any dialect: `image_url`, `input_image` or `image`.
    pub(super) image: bool,
    /// `json_schema`.
    pub(super) json_schema: bool,
}

impl Parts {
    const NONE: Self = Self {
        image: false,
        json_schema: false,
    };
}

impl<'a> Cursor<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            at: 0,
            alphabet: Alphabet::Ascii,
            media: Media { count: 0, bytes: 0 },
            long: Vec::new(),
            parts: Parts::NONE,
        }
    }

    /// Offset of the next byte.
    pub(super) const fn at(&self) -> usize {
        self.at
    }

    /// Whether any byte of 0x80 or above was passed, so that the body must be checked as UTF-8.
    pub(super) fn saw_non_ascii(&self) -> bool {
        self.alphabet == Alphabet::Any
    }

    /// The encoded media passed so far.
    pub(super) const fn media(&self) -> Media {
        self.media
    }

    /// The long strings passed so far, in their order.
    pub(super) fn take_long(&mut self) -> Vec<LongText> {
        std::mem::take(&mut self.long)
    }

    /// The types passed since this was last asked.
    pub(super) const fn take_parts(&mut self) -> Parts {
        let passed = self.parts;
        self.parts = Parts::NONE;
        passed
    }

    /// The bytes of a span.
    pub(super) fn raw(&self, span: Span) -> &'a [u8] {
        self.bytes.get(span.range()).unwrap_or_default()
    }

    /// The next byte that is not whitespace, left unread.
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.bytes.get(self.at)?;
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
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

    /// An error about the next byte.
    pub(super) const fn wanted(&self, expected: &'static str) -> BodyError {
        BodyError::Syntax { at: self.at, expected }
    }

    /// Checks that nothing but whitespace follows.
    pub(super) fn end(&mut self) -> Result<(), BodyError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.wanted("nothing after the object")),
        }
    }

    /// Reads an object whose brace comes next, handing each member to `member` with the cursor before its value.
    /// Returns how many members there are.
    pub(super) fn object<F>(&mut self, mut member: F) -> Result<usize, BodyError>
    where
        F: FnMut(&mut Self, Text) -> Result<(), BodyError>,
    {
        if !self.take(b'{') {
            return Err(self.wanted("`{`"));
        }
        let mut members = 0;
        if self.take(b'}') {
            return Ok(members);
        }
        loop {
            let key = self.key()?;
            self.peek();
            member(self, key)?;
            members += 1;
            if self.take(b'}') {
                return Ok(members);
            }
            if !self.take(b',') {
                return Err(self.wanted("`,` or `}`"));
            }
        }
    }

    /// Reads any value inside the outermost object; `depth` containers are open around it.
    pub(super) fn value(&mut self, depth: u32) -> Result<Span, BodyError> {
        let first = self.peek();
        let start = self.at;
        match first {
            Some(b'{' | b'[') => self.containers(depth)?,
            _ => self.scalar("a value")?,
        }
        Ok(Span::new(start, self.at))
    }

    /// Reads a string whose quote comes next.
    pub(super) fn text(&mut self) -> Result<Text, BodyError> {
        if !self.take(b'"') {
            return Err(self.wanted("a string"));
        }
        let start = self.at;
        let mut escaped = false;
        let mut spelling = Spelling::Plain;
        loop {
            let stop = skip_text(self.bytes, self.at, self.alphabet);
            self.at = stop.at;
            escaped |= stop.escaped;
            if stop.slashed {
                spelling = Spelling::Free;
            }
            match self.bytes.get(self.at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    (escaped, spelling) = (true, Spelling::Free);
                    self.unicode_escape()?;
                }
                Some(0x80..) => self.alphabet = Alphabet::Any,
                Some(_) => return Err(self.wanted("no bare control character in a string")),
                None => return Err(self.wanted("the closing quote of a string")),
            }
        }
        let span = Span::new(start, self.at);
        self.at += 1;
        self.note_media(span);
        self.note_long(span, spelling);
        Ok(Text { span, escaped })
    }

    /// An array or object and all that is in it. Nesting is kept in [`Nesting`], so depth costs no stack.
    fn containers(&mut self, outer: u32) -> Result<(), BodyError> {
        let mut nesting = Nesting::within(outer);
        self.open(&mut nesting)?;
        loop {
            let expected = if nesting.in_object() {
                "`,` or `}`"
            } else {
                "`,` or `]`"
            };
            if self.take(nesting.closer()) {
                nesting.close();
                if nesting.is_closed() {
                    return Ok(());
                }
                continue;
            }
            if !nesting.is_first() && !self.take(b',') {
                return Err(self.wanted(expected));
            }
            self.member(&mut nesting)?;
        }
    }

    /// One item, or a key with its value; if the value is a container, only its opening.
    fn member(&mut self, nesting: &mut Nesting) -> Result<(), BodyError> {
        let is_type = nesting.in_object() && {
            let key = self.key()?;
            self.raw(key.span) == b"type"
        };
        nesting.note_member();
        match self.peek() {
            Some(b'{' | b'[') => self.open(nesting),
            Some(b'"') if is_type => {
                let text = self.text()?;
                match self.raw(text.span) {
                    b"image_url" | b"input_image" | b"image" => self.parts.image = true,
                    b"json_schema" => self.parts.json_schema = true,
                    _ => {}
                }
                Ok(())
            }
            _ => self.scalar("a value"),
        }
    }

    fn open(&mut self, nesting: &mut Nesting) -> Result<(), BodyError> {
        let is_object = self.peek() == Some(b'{');
        if !nesting.open(is_object) {
            return Err(BodyError::TooDeep { at: self.at });
        }
        self.at += 1;
        Ok(())
    }

    /// A key and its colon.
    fn key(&mut self) -> Result<Text, BodyError> {
        if self.peek() != Some(b'"') {
            return Err(self.wanted("a key in quotes"));
        }
        let key = self.text()?;
        if !self.take(b':') {
            return Err(self.wanted("`:`"));
        }
        Ok(key)
    }

    /// An escape of six bytes, `\u` and four hexadecimal digits; those of two bytes have been passed already.
    fn unicode_escape(&mut self) -> Result<(), BodyError> {
        match self.bytes.get(self.at..self.at + 6) {
            Some([_, b'u', digits @ ..]) if digits.iter().all(u8::is_ascii_hexdigit) => {
                self.at += 6;
                Ok(())
            }
            _ => Err(self.wanted("a known escape")),
        }
    }

    /// A string, number, `true`, `false` or `null`.
    fn scalar(&mut self, expected: &'static str) -> Result<(), BodyError> {
        match self.peek() {
            Some(b'"') => self.text().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.literal(b"true"),
            Some(b'f') => self.literal(b"false"),
            Some(b'n') => self.literal(b"null"),
            _ => Err(self.wanted(expected)),
        }
    }

    fn literal(&mut self, word: &'static [u8]) -> Result<(), BodyError> {
        if !self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(word)) {
            return Err(self.wanted("`true`, `false` or `null`"));
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), BodyError> {
        self.at += usize::from(self.next_is(b"-"));
        if self.next_is(b"0") {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.next_is(b".") {
            self.at += 1;
            self.digits()?;
        }
        if self.next_is(b"eE") {
            self.at += 1;
            self.at += usize::from(self.next_is(b"+-"));
            self.digits()?;
        }
        Ok(())
    }

    fn next_is(&self, any_of: &[u8]) -> bool {
        self.bytes.get(self.at).is_some_and(|byte| any_of.contains(byte))
    }

    fn digits(&mut self) -> Result<(), BodyError> {
        let start = self.at;
        while self.bytes.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        if self.at == start {
            return Err(self.wanted("a digit"));
        }
        Ok(())
    }

    /// Remembers a string that takes time to pass.
    fn note_long(&mut self, span: Span, spelling: Spelling) {
        if span.len() < LONG || self.long.len() >= MAX_LONG {
            return;
        }
        if let (Ok(start), Ok(end)) = (u32::try_from(span.start), u32::try_from(span.end)) {
            self.long.push(LongText { start, end, spelling });
        }
    }

    /// Remembers a string that looks like an encoded file rather than like words.
    fn note_media(&mut self, span: Span) {
        let is_code = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=-_:;,.".contains(byte);
        if span.len() >= MEDIA_MIN && self.raw(span).iter().take(MEDIA_PROBE).all(is_code) {
            self.media.count += 1;
            self.media.bytes += span.len();
        }
    }
}

/// Which containers are open: one bit each, the innermost lowest, so that no depth below the cap needs memory.
#[derive(Debug)]
struct Nesting {
    objects: u128,
    /// Open containers of this walk.
    open: u32,
    /// How many more may be opened.
    room: u32,
    /// Whether the innermost one is still empty.
    first: bool,
}

impl Nesting {
    const fn within(outer: u32) -> Self {
        Self {
            objects: 0,
            open: 0,
            room: MAX_DEPTH.saturating_sub(outer),
            first: true,
        }
    }

    /// Opens one; `false` when that would be too deep.
    const fn open(&mut self, is_object: bool) -> bool {
        if self.open >= self.room {
            return false;
        }
        self.objects = self.objects << 1 | is_object as u128;
        self.open += 1;
        self.first = true;
        true
    }

    const fn close(&mut self) {
        self.objects >>= 1;
        self.open -= 1;
        self.first = false;
    }

    const fn is_closed(&self) -> bool {
        self.open == 0
    }

    const fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }

    const fn closer(&self) -> u8 {
        if self.in_object() { b'}' } else { b']' }
    }

    const fn is_first(&self) -> bool {
        self.first
    }

    const fn note_member(&mut self) {
        self.first = false;
    }
}
