//! From a call's body to the chain of block hashes that says what a prefix cache may hold of its prompt.
//!
//! The gateway has no tokenizer and no chat template, so it cuts text instead of tokens. The prompt is written in a canonical form
//! that keeps what a template would print, in its order: tools, system, messages, each with its role and its parts. Whitespace,
//! the spelling of escapes and the order of a message's members leave no trace in it. It is never held: the body's text is hashed where it lies,
//! block by block, each block's hash chained to the one before (`XXH3-64`, Collet's published algorithm, so that every gateway has
//! the same).
//!
//! As every message ends where the next one begins, a conversation's next turn begins with the very text of this one. So equal
//! beginnings have equal chains, and the answer's text can be appended ([`Reply`]) to have the chain that the next turn will begin
//! with.

mod blocks;
mod message;
mod reply;
mod text;
mod walk;
mod writer;

use std::sync::Arc;

use maitred_types::PromptChain;
use smallvec::SmallVec;

pub use reply::{MAX_REPLY_BLOCKS, Reply};

use crate::{BYTES_PER_TOKEN, BodyView, CallKind, PromptSize, TokenRatio, prompt_size};
use blocks::Blocks;
use message::LastRole;
use walk::{Raw, Value, Walk};
use writer::Writer;

/// The most blocks of a prompt that are named; what follows them has no part in the choice of an endpoint. With blocks of 64 tokens
/// this is a prompt of four million.
pub const MAX_PROMPT_BLOCKS: usize = 1 << 16;

/// How chains of one model are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainRule {
    seed: u64,
    /// Bytes per block.
    block: usize,
}

impl ChainRule {
    /// The rule for `model` with `adapter`, as endpoints call them, in blocks of about `tokens` tokens. Its chains have nothing in
    /// common with those of another model or adapter.
    #[must_use]
    pub fn new(model: &str, adapter: Option<&str>, tokens: u32) -> Self {
        let mut names = Blocks::new(256, 0, 0);
        names.push(model.as_bytes());
        // No byte of UTF-8 is like this one.
        names.push(&[0xff]);
        names.push(adapter.unwrap_or_default().as_bytes());
        Self {
            seed: names.digest(),
            block: (tokens.max(1) as usize).saturating_mul(BYTES_PER_TOKEN),
        }
    }

    /// Bytes of canonical text in a block. It never changes with what is learned of tokens, for then no chain would match an
    /// earlier one.
    #[must_use]
    pub const fn block_bytes(self) -> usize {
        self.block
    }
}

/// A prompt that has been read: its blocks, its size, and the place where its answer goes on.
#[derive(Clone, Debug)]
pub struct PromptText {
    hashes: Arc<[u64]>,
    size: PromptSize,
    block: f32,
    /// Bytes of a token where the prompt is made of tokens.
    exact: Option<f32>,
    tail: Option<Reply>,
}

impl PromptText {
    /// Reads the prompt of a call of this kind. `None` when such a call has none, or none that a cache could know.
    ///
    /// Of a list of prompts, each of which is a prompt of its own to an engine, the longest one stands for all: it decides how much
    /// work can be saved.
    #[must_use]
    pub fn read(view: &BodyView, kind: CallKind, rule: ChainRule) -> Option<Self> {
        let seed = view.cache_salt().map_or(rule.seed, |salt| {
            let mut blocks = Blocks::new(256, rule.seed, 0);
            blocks.push(view.raw(salt));
            blocks.digest()
        });
        let mut writer = Writer::new(Blocks::new(rule.block, seed, MAX_PROMPT_BLOCKS));
        let raw = |span: Option<crate::Span>| span.map(|span| Raw::of(view, span));
        let written = match kind {
            CallKind::Chat => writer.conversation(kind, raw(view.tools()), None, raw(view.messages())?),
            CallKind::Messages => {
                writer.conversation(kind, raw(view.tools()), raw(view.system()), raw(view.messages())?)
            }
            CallKind::Responses => writer.conversation(kind, raw(view.tools()), raw(view.system()), raw(view.input())?),
            CallKind::Completions => writer.prompt(kind, raw(view.prompt())?),
            CallKind::Embeddings => writer.prompt(kind, raw(view.input())?),
            CallKind::CountTokens | CallKind::Models | CallKind::Other => return None,
        };
        Some(written.finish(view, writer, rule))
    }

    /// The full blocks, in tokens as far as they are known.
    #[must_use]
    pub fn chain(&self, ratio: TokenRatio) -> PromptChain {
        PromptChain::new(
            Arc::clone(&self.hashes),
            self.block / self.exact.unwrap_or_else(|| ratio.bytes_per_token()),
        )
    }

    /// How large the prompt is.
    #[must_use]
    pub const fn size(&self) -> PromptSize {
        self.size
    }

    /// Where the answer's text goes on; `None` where the next turn will not begin with it: after several choices, after one of
    /// several prompts, and for what generates nothing.
    pub fn take_reply(&mut self) -> Option<Reply> {
        self.tail.take()
    }
}

/// What was learned while a prompt was written.
#[derive(Debug)]
struct Written {
    /// Size of the text; `None` where the general estimate is better.
    size: Option<PromptSize>,
    exact: Option<f32>,
    reply: Option<CallKind>,
}

impl Written {
    fn finish(self, view: &BodyView, writer: Writer, rule: ChainRule) -> PromptText {
        let mut blocks = writer.blocks;
        let is_whole = !blocks.is_full();
        let hashes: Arc<[u64]> = blocks.take_hashes(MAX_REPLY_BLOCKS).into();
        let goes_on = is_whole && view.choices() == 1;
        PromptText {
            size: self.size.unwrap_or_else(|| prompt_size(view)),
            #[expect(clippy::cast_precision_loss, reason = "a block has a few hundred bytes")]
            block: rule.block as f32,
            exact: self.exact,
            tail: self
                .reply
                .filter(|_| goes_on)
                .map(|kind| Reply::new(kind, blocks, Arc::clone(&hashes))),
            hashes,
        }
    }
}

impl Writer {
    fn conversation(
        &mut self,
        kind: CallKind,
        tools: Option<Raw<'_>>,
        system: Option<Raw<'_>>,
        messages: Raw<'_>,
    ) -> Written {
        let len = |raw: Option<Raw<'_>>| raw.map_or(0, Raw::len);
        self.blocks.reserve(len(tools) + len(system) + messages.len());
        if let Some(tools) = tools {
            self.tools(tools);
        }
        if let Some(system) = system.and_then(|raw| Walk::new(raw).value())
            && !system.is_nothing()
        {
            self.speech(b"system", system);
        }
        let last = self.messages(messages);
        Written {
            size: Some(PromptSize {
                text: self.bytes.saturating_sub(self.media * writer::MEDIA_BYTES),
                media: self.media,
                ids: 0,
            }),
            exact: None,
            // What continues a message that is there already is no message of its own.
            reply: (last == LastRole::Other).then_some(kind),
        }
    }

    /// A prompt without messages: text, tokens, or a list of either.
    fn prompt(&mut self, kind: CallKind, raw: Raw<'_>) -> Written {
        self.blocks.reserve(raw.len());
        let (mut count, mut longest) = (1_usize, Walk::new(raw).value());
        if let Some(Value::Node(_)) = longest {
            (count, longest) = longest_item(raw);
        }
        let exact = match longest {
            Some(Value::Text(text)) => {
                self.text(text);
                None
            }
            // What has numbers in it is one prompt, and no list of them.
            Some(Value::Plain(_)) => self.token_ids(raw),
            Some(Value::Node(ids)) => self.token_ids(ids),
            None => None,
        };
        let is_one_text = count == 1 && exact.is_none();
        Written {
            // The engine reads all of a list, not only the one that stands for it.
            size: is_one_text.then_some(PromptSize {
                text: self.bytes,
                media: 0,
                ids: 0,
            }),
            exact,
            reply: Some(kind).filter(|kind| is_one_text && *kind == CallKind::Completions),
        }
    }

    /// A list of token ids, four bytes each. Returns how many bytes a token takes then.
    fn token_ids(&mut self, raw: Raw<'_>) -> Option<f32> {
        const BATCH: usize = 256;
        let mut walk = Walk::new(raw);
        if !walk.take(b'[') {
            return None;
        }
        self.blocks.reserve(raw.len());
        let mut batch: SmallVec<[u8; BATCH]> = SmallVec::new();
        while let Some(Value::Plain(digits)) = walk.item() {
            // What is no id is the endpoint's to refuse.
            let digits = str::from_utf8(digits).unwrap_or_default();
            let id = digits.parse::<u32>().unwrap_or(u32::MAX);
            batch.extend_from_slice(&id.to_le_bytes());
            if batch.len() >= BATCH {
                self.push(&batch);
                batch.clear();
            }
        }
        self.push(&batch);
        Some(4.0)
    }
}

/// How many items a list has, and the longest of them, the first among equals.
fn longest_item(raw: Raw<'_>) -> (usize, Option<Value<'_>>) {
    let mut walk = Walk::new(raw);
    walk.take(b'[');
    let (mut count, mut longest) = (0, None::<Value<'_>>);
    while let Some(item) = walk.item() {
        count += 1;
        if longest.is_none_or(|longest| item.raw_len() > longest.raw_len()) {
            longest = Some(item);
        }
    }
    (count, longest)
}

#[cfg(test)]
mod tests;
