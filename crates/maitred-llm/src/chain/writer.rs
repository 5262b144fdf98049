//! Writing values into the canonical text, straight into its blocks.

use super::blocks::{Blocks, link};
use super::text::Text;
use super::walk::{Raw, Value, Walk};
use crate::{BYTES_PER_TOKEN, MEDIA_TOKENS};

/// Bytes that stand for one piece of media.
pub(super) const MEDIA_BYTES: usize = MEDIA_TOKENS * BYTES_PER_TOKEN;
/// Objects in objects that are read without regard to the order of their members; deeper ones are taken as they are written.
const ORDER_FREE_DEPTH: u32 = 4;
/// Seed of what is named as a whole.
const DIGEST_SEED: u64 = 0x6d61_6974_7265_6421;

/// What is put between texts, where a chat template puts its own markers. None of these bytes occurs in UTF-8, so no text can
/// pass for a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Mark {
    /// A message begins with its role.
    Message = 0xff,
    /// The name of whoever speaks.
    Name = 0xfe,
    /// What the model thought before it answered.
    Reasoning = 0xfd,
    /// The message's content.
    Content = 0xfc,
    /// A further part of the content.
    Part = 0xfb,
    /// A tool that is called.
    Call = 0xfa,
    /// What it is called with.
    Arguments = 0xf9,
    /// What it answered.
    Answer = 0xf8,
    /// The list of tools.
    Tools = 0xf7,
    /// A bracket of a value that is written as it came.
    Bracket = 0xf6,
    /// A key in it.
    Key = 0xf5,
    /// A string in it.
    String = 0xc1,
    /// Any other value in it.
    Plain = 0xc0,
}

/// Writes canonical text.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    pub(super) blocks: Blocks,
    /// Bytes so far.
    pub(super) bytes: usize,
    /// Pieces of media so far.
    pub(super) media: usize,
}

impl Writer {
    pub(super) const fn new(blocks: Blocks) -> Self {
        Self {
            blocks,
            bytes: 0,
            media: 0,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        self.blocks.push(bytes);
    }

    pub(super) fn mark(&mut self, mark: Mark) {
        self.push(&[mark as u8]);
    }

    pub(super) fn text(&mut self, text: Text<'_>) {
        text.runs(|run| self.push(run));
    }

    /// A string as its text, anything else but `null` as it is written.
    pub(super) fn loose(&mut self, value: Value<'_>) {
        match value {
            Value::Text(text) => self.text(text),
            Value::Plain(b"null") => {}
            Value::Node(_) | Value::Plain(_) => self.exact(value),
        }
    }

    /// A value as it is written, less its whitespace and with its escapes in their usual spelling. The order of members stays: templates print tools
    /// in it. Only marks for a provider's cache are left out, which move from turn to turn.
    pub(super) fn exact(&mut self, value: Value<'_>) {
        match value {
            Value::Text(text) => {
                self.mark(Mark::String);
                self.text(text);
            }
            Value::Plain(raw) => {
                self.mark(Mark::Plain);
                self.push(raw);
            }
            Value::Node(raw) => self.node(raw),
        }
    }

    /// Any JSON text, value by value, without recursion.
    pub(super) fn node(&mut self, raw: Raw<'_>) {
        let mut walk = Walk::new(raw);
        while let Some(first) = walk.peek() {
            match first {
                b'"' => {
                    let Some(text) = walk.text() else { return };
                    if !walk.take(b':') {
                        self.mark(Mark::String);
                    } else if text.is(b"cache_control") {
                        walk.value();
                        continue;
                    } else {
                        self.mark(Mark::Key);
                    }
                    self.text(text);
                }
                b'{' | b'[' | b'}' | b']' => {
                    walk.next();
                    self.push(&[Mark::Bracket as u8, first]);
                }
                b',' | b':' => {
                    walk.next();
                }
                _ => {
                    let Some(plain) = walk.plain() else { return };
                    self.mark(Mark::Plain);
                    self.push(plain);
                }
            }
        }
    }

    /// Media by the hash of its content: the same piece leaves the same bytes wherever it lies and however it is written, and as
    /// many of them as its tokens are taken to weigh.
    pub(super) fn media(&mut self, raw: Raw<'_>) {
        let name = digest(Value::Node(raw), ORDER_FREE_DEPTH).to_le_bytes();
        let mut filler = [0; 64];
        for place in filler.as_chunks_mut::<8>().0 {
            *place = name;
        }
        for _ in 0..MEDIA_BYTES / filler.len() {
            self.blocks.push(&filler);
        }
        self.bytes += MEDIA_BYTES;
        self.media += 1;
    }
}

/// A value's hash. The order of members does not matter down to `depth`.
fn digest(value: Value<'_>, depth: u32) -> u64 {
    let mut writer = Writer::new(Blocks::new(256, DIGEST_SEED, 0));
    match value {
        Value::Node(raw) if depth > 0 && raw.begins_with(b'{') => {
            let mut walk = Walk::new(raw);
            walk.take(b'{');
            let mut sum = DIGEST_SEED;
            while let Some(key) = walk.member() {
                let Some(value) = walk.value() else { break };
                if !key.is(b"cache_control") {
                    sum = sum.wrapping_add(link(name(key), digest(value, depth - 1)));
                }
            }
            return sum;
        }
        _ => writer.exact(value),
    }
    writer.blocks.digest()
}

fn name(key: Text<'_>) -> u64 {
    let mut writer = Writer::new(Blocks::new(256, DIGEST_SEED, 0));
    writer.text(key);
    writer.blocks.digest()
}
