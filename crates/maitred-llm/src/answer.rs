//! Reading a few members of an answer that passes by in pieces, without keeping the answer.
//!
//! Answers can be large (a batch of embeddings has megabytes) and the members that matter come last. So the tap walks over the
//! JSON as it flows, knows only how deep it is and whether it is inside a string, and keeps nothing but the values it wants. It
//! does not check the grammar: the endpoint wrote it, and the client gets it as it is.

use memchr::memchr2;
use smallvec::SmallVec;

use maitred_types::{TokenCount, Usage};

use crate::BYTES_PER_TOKEN;
use crate::usage::Counts;

/// The longest value that is kept, in bytes; a longer one counts as absent.
pub const MAX_MEMBER: usize = 64 << 10;

/// Longer keys are none of those wanted.
const MAX_KEY: usize = 8;
/// Bytes that are skipped at once when none of them opens or closes anything.
const BLOCK: usize = 32;

/// Reads usage, error and model from an answer that is no stream.
#[derive(Clone, Debug, Default)]
pub struct AnswerTap {
    place: Place,
    /// Containers open around the next byte.
    depth: u32,
    /// Whether the outermost container is an object.
    is_object: bool,
    /// Whether the outermost container has ended.
    is_over: bool,
    /// Whether the next string of the outermost object is a key.
    wants_key: bool,
    key: SmallVec<[u8; MAX_KEY]>,
    wanted: Option<Member>,
    values: [Value; 3],
    bytes: u64,
}

/// Where the next byte stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Outside,
    Text,
    Escape,
}

/// The members that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Usage = 0,
    Error = 1,
    Model = 2,
}

/// The bytes of a member's value, or that they are too many.
#[derive(Clone, Debug, Default)]
struct Value {
    bytes: Vec<u8>,
    is_too_long: bool,
}

impl AnswerTap {
    /// A tap at the start of an answer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the next bytes.
    pub fn feed(&mut self, chunk: &[u8]) {
        self.bytes = self.bytes.saturating_add(chunk.len() as u64);
        let mut rest = chunk;
        while !rest.is_empty() && !self.is_over {
            let taken = match self.place {
                Place::Outside => self.outside(rest),
                Place::Text => self.text(rest),
                Place::Escape => {
                    self.keep(rest.get(..1).unwrap_or_default());
                    self.place = Place::Text;
                    1
                }
            };
            rest = rest.get(taken..).unwrap_or_default();
        }
    }

    /// What the endpoint said it used; `None` when it said nothing (yet).
    #[must_use]
    pub fn reported(&self) -> Option<Usage> {
        self.counts().usage()
    }

    /// What the endpoint said, and an estimate for what it did not say, marked as such: `input` for the prompt, and for the output
    /// the answer's bytes by the same ratio as prompts are estimated, but no more than `most`, if the endpoint was told not to make more.
    #[must_use]
    pub fn usage(&self, input: TokenCount, most: Option<TokenCount>) -> Usage {
        let output = TokenCount::saturating_from(self.bytes.div_ceil(BYTES_PER_TOKEN as u64));
        let output = most.map_or(output, |most| output.min(most));
        self.counts().usage_or(input, output)
    }

    /// The value of `error` as it was written, unless it is null.
    #[must_use]
    pub fn error(&self) -> Option<&[u8]> {
        self.value(Member::Error).filter(|value| *value != b"null")
    }

    /// The model that says it answered.
    #[must_use]
    pub fn model(&self) -> Option<String> {
        serde_json::from_slice(self.value(Member::Model)?).ok()
    }

    /// How many bytes the answer has so far.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing has come yet.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        let usage = self.value(Member::Usage);
        if let Some(raw) = usage.and_then(|usage| serde_json::from_slice(usage).ok()) {
            counts.note_usage(&raw);
        }
        counts
    }

    fn value(&self, member: Member) -> Option<&[u8]> {
        let value = &self.values[member as usize];
        let bytes = value.bytes.trim_ascii();
        (!value.is_too_long && !bytes.is_empty()).then_some(bytes)
    }

    /// Inside a string: runs to its end or to the next escape.
    fn text(&mut self, rest: &[u8]) -> usize {
        let Some(stop) = memchr2(b'"', b'\\', rest) else {
            self.keep(rest);
            return rest.len();
        };
        let taken = stop + 1;
        if rest.get(stop) == Some(&b'\\') {
            self.keep(rest.get(..taken).unwrap_or_default());
            self.place = Place::Escape;
        } else {
            self.keep(rest.get(..stop).unwrap_or_default());
            if !self.is_key() {
                self.keep(b"\"");
            }
            self.place = Place::Outside;
        }
        taken
    }

    /// Outside strings: one byte that means something, and all before it that does not.
    fn outside(&mut self, rest: &[u8]) -> usize {
        let dull = if self.depth > 1 { dull_prefix(rest) } else { 0 };
        let Some(&byte) = rest.get(dull) else {
            self.keep(rest);
            return rest.len();
        };
        let taken = dull + 1;
        let piece = rest.get(..taken).unwrap_or_default();
        match byte {
            b'"' => {
                self.key.clear();
                if !self.is_key() {
                    self.keep(piece);
                }
                self.place = Place::Text;
            }
            b'{' | b'[' => self.open(byte == b'{', piece),
            b'}' | b']' => self.close(piece),
            b':' | b',' if self.depth == 1 && self.is_object => self.separate(byte),
            _ => self.keep(piece),
        }
        taken
    }

    fn open(&mut self, is_object: bool, piece: &[u8]) {
        if self.depth == 0 {
            self.is_object = is_object;
            self.wants_key = is_object;
        } else {
            self.keep(piece);
        }
        self.depth = self.depth.saturating_add(1);
    }

    fn close(&mut self, piece: &[u8]) {
        self.depth = self.depth.saturating_sub(1);
        if self.depth == 0 {
            self.wanted = None;
            self.is_over = true;
        } else {
            self.keep(piece);
        }
    }

    /// A colon or comma of the outermost object.
    fn separate(&mut self, byte: u8) {
        self.wants_key = byte == b',';
        self.wanted = None;
        if byte == b':' {
            self.wanted = match self.key.as_slice() {
                b"usage" => Some(Member::Usage),
                b"error" => Some(Member::Error),
                b"model" => Some(Member::Model),
                _ => None,
            };
            self.key.clear();
        }
        if let Some(member) = self.wanted {
            self.values[member as usize] = Value::default();
        }
    }

    /// Whether the string being read is a key of the outermost object.
    const fn is_key(&self) -> bool {
        self.depth == 1 && self.wants_key
    }

    /// Adds bytes to the key or value they belong to.
    fn keep(&mut self, bytes: &[u8]) {
        if self.is_key() {
            if self.place != Place::Outside {
                let room = MAX_KEY.saturating_sub(self.key.len());
                self.key
                    .extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
            }
        } else if let Some(member) = self.wanted {
            self.values[member as usize].add(bytes);
        }
    }
}

impl Value {
    fn add(&mut self, bytes: &[u8]) {
        if self.is_too_long || self.bytes.len() + bytes.len() > MAX_MEMBER {
            *self = Self {
                bytes: Vec::new(),
                is_too_long: true,
            };
        } else {
            self.bytes.extend_from_slice(bytes);
        }
    }
}

/// How many bytes come before the first quote, brace or bracket.
fn dull_prefix(bytes: &[u8]) -> usize {
    let mut at = 0;
    let block_at = |at: usize| bytes.get(at..).and_then(|rest| rest.first_chunk::<BLOCK>());
    while let Some(block) = block_at(at) {
        let seen = block.iter().fold(0_u8, |seen, &byte| seen | u8::from(is_sharp(byte)));
        if seen != 0 {
            break;
        }
        at += BLOCK;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    let sharp = rest.iter().position(|&byte| is_sharp(byte));
    sharp.map_or(bytes.len(), |offset| at + offset)
}

/// A quote, brace or bracket; brackets and braces differ in one bit.
const fn is_sharp(byte: u8) -> bool {
    let braced = byte | 0x20;
    (byte == b'"') | (braced == b'{') | (braced == b'}')
}

#[cfg(test)]
mod tests;
