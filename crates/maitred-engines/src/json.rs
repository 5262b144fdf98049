//! A cursor over JSON text that finds a few wanted keys without building anything.
//!
//! It runs once per relayed event, so it allocates nothing and compares keys as raw bytes. It knows where strings begin and
//! end, so text inside a string can never pass for structure. It is no validator: it follows quotes and brackets and gives
//! up (`None`) where they do not add up. Keys written with escapes are not recognised; no engine writes such keys.

use memchr::memchr2;

/// Words of eight bytes after which a string counts as long.
const SHORT_STRING_WORDS: usize = 8;

/// A position in JSON text.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of `bytes`.
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next byte that is not white space, without consuming it.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.bytes.get(self.at)?;
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// Consumes `wanted`, after white space, or gives up.
    fn eat(&mut self, wanted: u8) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    /// Reads a string and returns its inside as written, escapes and all.
    pub(crate) fn string(&mut self) -> Option<&'a [u8]> {
        self.eat(b'"')?;
        let start = self.at;
        self.at = string_end(self.bytes, start)?;
        let inside = self.bytes.get(start..self.at)?;
        self.at += 1;
        Some(inside)
    }

    /// Passes over one value of any kind and returns it as written.
    pub(crate) fn value(&mut self) -> Option<&'a [u8]> {
        let first = self.peek()?;
        let start = self.at;
        match first {
            b'"' => {
                self.string()?;
            }
            b'{' | b'[' => self.container()?,
            _ => self.scalar()?,
        }
        self.bytes.get(start..self.at)
    }

    /// Calls `member` with each key of an object; `member` must consume the value.
    pub(crate) fn object(&mut self, mut member: impl FnMut(&'a [u8], &mut Self) -> Option<()>) -> Option<()> {
        self.eat(b'{')?;
        if self.peek()? == b'}' {
            self.at += 1;
            return Some(());
        }
        loop {
            let key = self.string()?;
            self.eat(b':')?;
            member(key, self)?;
            if self.ends_with(b'}')? {
                return Some(());
            }
        }
    }

    /// Calls `element` at each element of an array; `element` must consume it.
    pub(crate) fn array(&mut self, mut element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.eat(b'[')?;
        if self.peek()? == b']' {
            self.at += 1;
            return Some(());
        }
        loop {
            element(self)?;
            if self.ends_with(b']')? {
                return Some(());
            }
        }
    }

    /// Consumes a comma (`false`) or the closing bracket (`true`).
    fn ends_with(&mut self, close: u8) -> Option<bool> {
        let byte = self.peek()?;
        self.at += 1;
        match byte {
            b',' => Some(false),
            _ => (byte == close).then_some(true),
        }
    }

    fn container(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match *self.bytes.get(self.at)? {
                b'"' => self.at = string_end(self.bytes, self.at + 1)?,
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }

    fn scalar(&mut self) -> Option<()> {
        let start = self.at;
        if self.bytes.get(start..).is_some_and(|rest| rest.starts_with(b"null")) {
            self.at += 4;
        }
        while let Some(&byte) = self.bytes.get(self.at) {
            if matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t' | b':' | b'"') {
                break;
            }
            self.at += 1;
        }
        (self.at > start).then_some(())
    }
}

/// The index of the quote that closes the string whose inside begins at `start`.
fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    loop {
        at = skip_plain(bytes, at)?;
        match *bytes.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Moves towards the next quote or backslash, and past neither. Eight bytes at a time, since most strings are a few words
/// long; only a long one is worth the set-up of a vector search.
fn skip_plain(bytes: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    for _ in 0..SHORT_STRING_WORDS {
        let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) else {
            return Some(at);
        };
        let word = u64::from_le_bytes(*word);
        let hit = lowest_byte(word, b'"') | lowest_byte(word, b'\\');
        if hit != 0 {
            return Some(at + (hit.trailing_zeros() / 8) as usize);
        }
        at += 8;
    }
    Some(at + memchr2(b'"', b'\\', bytes.get(at..)?)?)
}

/// Has the top bit of the lowest byte that equals `wanted` set, and no bit below it; zero when no byte equals it. Bits above
/// it mean nothing. This is the well-known test for a zero byte in a word.
const fn lowest_byte(word: u64, wanted: u8) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x8080_8080_8080_8080;
    let zero_where_equal = word ^ (ONES * wanted as u64);
    zero_where_equal.wrapping_sub(ONES) & !zero_where_equal & TOPS
}

/// Whether a value says nothing: `null`, or an empty string, array or object.
pub(crate) fn is_void(raw: &[u8]) -> bool {
    match raw {
        b"null" | b"\"\"" => true,
        [b'[' | b'{', inside @ .., b']' | b'}'] => inside.iter().all(u8::is_ascii_whitespace),
        _ => false,
    }
}

/// The inside of a value that is a string, as written.
pub(crate) fn as_string(raw: &[u8]) -> Option<&[u8]> {
    match raw {
        [b'"', inside @ .., b'"'] => Some(inside),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Option<Vec<(String, String)>> {
        let mut found = Vec::new();
        Cursor::new(text.as_bytes()).object(|key, cursor| {
            let value = cursor.value()?;
            found.push((
                String::from_utf8_lossy(key).into_owned(),
                String::from_utf8_lossy(value).into_owned(),
            ));
            Some(())
        })?;
        Some(found)
    }

    #[test]
    fn members_are_found_and_brackets_in_strings_are_text() {
        let check = |text: &str, wanted: &[(&str, &str)]| {
            let found = keys(text).unwrap();
            let found: Vec<_> = found.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            assert_eq!(found, wanted, "{text}");
        };
        check("{}", &[]);
        check(" { } ", &[]);
        check(r#"{"a":1,"b" : "x" }"#, &[("a", "1"), ("b", "\"x\"")]);
        check(
            r#"{"a":{"b":[1,{"c":"}]"}]},"d":null}"#,
            &[("a", r#"{"b":[1,{"c":"}]"}]}"#), ("d", "null")],
        );
        check(
            r#"{"a":"\"},\"b\":1,{\\","c":[]}"#,
            &[("a", r#""\"},\"b\":1,{\\""#), ("c", "[]")],
        );
        check(
            r#"{"long":"0123456789012345678901234567890123456789\"\\","z":true}"#,
            &[
                ("long", r#""0123456789012345678901234567890123456789\"\\""#),
                ("z", "true"),
            ],
        );
    }

    #[test]
    fn broken_text_is_given_up() {
        for text in [
            "",
            "{",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\":1,",
            "{a:1}",
            "[]",
            "{\"a\":}",
            "{\"a\":\"\\\"}",
        ] {
            assert_eq!(keys(text), None, "{text}");
        }
    }

    #[test]
    fn void_values_are_known() {
        for void in ["null", "\"\"", "[]", "{}", "[ ]"] {
            assert!(is_void(void.as_bytes()), "{void}");
        }
        for full in ["0", "false", "\" \"", "[0]", "{\"a\":null}"] {
            assert!(!is_void(full.as_bytes()), "{full}");
        }
    }
}
