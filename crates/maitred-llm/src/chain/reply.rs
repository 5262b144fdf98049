//! Appending an answer to its prompt's chain, as the client will send it back at its next turn.
//!
//! The answer's text is read from its events as they pass, or from the whole answer. It is hashed and not kept. An answer of which
//! it cannot be said how it will come back (parts in an unheard-of order or of an unknown kind) extends nothing.

use std::sync::{Arc, LazyLock};

use maitred_types::PromptChain;
use memchr::memmem::Finder;

use super::blocks::Blocks;
use super::message::each_member;
use super::text::Text;
use super::walk::{Raw, Value, Walk};
use super::writer::{Mark, Writer};
use crate::CallKind;
use crate::sse::Event;

/// The most blocks of one answer that are added to its prompt's; with blocks of 64 tokens an answer of a quarter million.
pub const MAX_REPLY_BLOCKS: usize = 1 << 12;
/// The longest arguments of a tool, in bytes, that are gathered where only their end shows how they are written.
const MAX_ARGUMENTS: usize = 64 << 10;

/// Inside a string the closing quote would have a backslash before it, so these are keys or whole string values.
static DELTA: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"delta\""));
static TEXT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"text\""));

/// An answer on its way into the chain.
#[derive(Clone, Debug)]
pub struct Reply {
    kind: CallKind,
    writer: Writer,
    prompt: Arc<[u64]>,
    place: Place,
    /// Arguments of a tool in JSON, whose end has not come.
    arguments: Vec<u8>,
    is_broken: bool,
}

/// Where in its message the answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Start,
    Reasoning,
    Content,
    /// In the call of a tool, with its number.
    Call(u64),
    /// In something that will not come back.
    Aside,
}

impl Reply {
    pub(super) fn new(kind: CallKind, blocks: Blocks, prompt: Arc<[u64]>) -> Self {
        Self {
            kind,
            writer: Writer::new(blocks),
            prompt,
            place: Place::Start,
            arguments: Vec::new(),
            is_broken: false,
        }
    }

    /// Reads an event of the stream.
    pub fn event(&mut self, event: &Event) {
        let Some(data) = event.data() else { return };
        if self.is_broken || self.writer.blocks.is_full() {
            return;
        }
        match self.kind {
            CallKind::Chat => self.chat_chunk(data),
            CallKind::Completions => {
                if let Some(Value::Text(text)) = member(data, &TEXT) {
                    self.place = Place::Content;
                    self.writer.text(text);
                }
            }
            CallKind::Messages => self.messages_event(event.name(), data),
            CallKind::Responses => self.responses_event(event.name(), data),
            CallKind::Embeddings | CallKind::CountTokens | CallKind::Models | CallKind::Other => {}
        }
    }

    /// Reads an answer that is no stream.
    pub fn whole(&mut self, body: &[u8]) {
        let body = Raw::unknown(body);
        match self.kind {
            CallKind::Chat => {
                if let Some(Value::Node(message)) = choice(body).and_then(|choice| get(choice, b"message")) {
                    self.writer.message(message);
                }
            }
            CallKind::Completions => {
                if let Some(Value::Text(text)) = choice(body).and_then(|choice| get(choice, b"text")) {
                    self.writer.text(text);
                }
            }
            CallKind::Messages => {
                if let Some(content) = get(body, b"content") {
                    self.writer.speech(b"assistant", content);
                }
            }
            CallKind::Responses => {
                if let Some(Value::Node(output)) = get(body, b"output") {
                    self.writer.messages(output);
                }
            }
            CallKind::Embeddings | CallKind::CountTokens | CallKind::Models | CallKind::Other => {}
        }
    }

    /// The prompt's blocks and the answer's, each of `tokens_per_block` tokens. `None` when the answer filled no block, or when it
    /// is unknown how it will come back.
    #[must_use]
    pub fn finish(mut self, tokens_per_block: f32) -> Option<PromptChain> {
        let added = self.writer.blocks.take_hashes(0);
        if self.is_broken || added.is_empty() {
            return None;
        }
        let hashes: Arc<[u64]> = self.prompt.iter().copied().chain(added).collect();
        Some(PromptChain::new(hashes, tokens_per_block))
    }

    fn chat_chunk(&mut self, data: &[u8]) {
        let Some(Value::Node(delta)) = member(data, &DELTA) else {
            return;
        };
        let (mut reasoning, mut content, mut calls) = (None, None, None);
        each_member(delta, |key, value| match (key, value) {
            (b"reasoning_content" | b"reasoning", Value::Text(text)) => reasoning = Some(text),
            (b"content", Value::Text(text)) => content = Some(text),
            (b"tool_calls", Value::Node(raw)) => calls = Some(raw),
            _ => {}
        });
        if let Some(text) = reasoning.filter(|text| text.raw_len() > 0) {
            self.reasoning(text);
        }
        if let Some(text) = content.filter(|text| text.raw_len() > 0) {
            self.content(text);
        }
        if let Some(raw) = calls {
            let mut walk = Walk::new(raw);
            walk.take(b'[');
            while let Some(call) = walk.item() {
                if let Value::Node(raw) = call {
                    self.tool_call(raw);
                }
            }
        }
    }

    fn reasoning(&mut self, text: Text<'_>) {
        match self.place {
            Place::Start => {
                self.begin();
                self.writer.mark(Mark::Reasoning);
                self.place = Place::Reasoning;
            }
            Place::Reasoning => {}
            Place::Content | Place::Call(_) | Place::Aside => self.is_broken = true,
        }
        self.writer.text(text);
    }

    fn content(&mut self, text: Text<'_>) {
        self.open_content();
        // Templates print what is said before what is called.
        self.is_broken |= self.place != Place::Content;
        self.writer.text(text);
    }

    fn open_content(&mut self) {
        if self.place == Place::Start {
            self.begin();
        }
        if matches!(self.place, Place::Start | Place::Reasoning) {
            self.writer.mark(Mark::Content);
            self.place = Place::Content;
        }
    }

    fn tool_call(&mut self, raw: Raw<'_>) {
        self.open_content();
        let number = match get(raw, b"index") {
            Some(Value::Plain(digits)) => str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()),
            _ => None,
        };
        let Some(Value::Node(function)) = get(raw, b"function") else {
            self.is_broken = true;
            return;
        };
        let number = number.unwrap_or(0);
        if self.place != Place::Call(number) {
            self.is_broken |= matches!(self.place, Place::Call(before) if before > number);
            self.writer.call(get(function, b"name"), None);
            self.place = Place::Call(number);
        }
        if let Some(Value::Text(arguments)) = get(function, b"arguments") {
            self.writer.text(arguments);
        }
    }

    fn messages_event(&mut self, name: Option<&[u8]>, data: &[u8]) {
        match name {
            Some(b"content_block_start") => {
                if let Some(Value::Node(block)) = get(Raw::unknown(data), b"content_block") {
                    self.open_block(block);
                }
            }
            Some(b"content_block_delta") => {
                let Some(Value::Node(delta)) = member(data, &DELTA) else {
                    return;
                };
                each_member(delta, |key, value| match (key, value) {
                    (b"text" | b"thinking", Value::Text(text)) => self.writer.text(text),
                    (b"partial_json", Value::Text(text)) => self.gather(text),
                    _ => {}
                });
            }
            Some(b"content_block_stop") => {
                if let Place::Call(_) = self.place {
                    let arguments = std::mem::take(&mut self.arguments);
                    let raw = if arguments.is_empty() {
                        b"{}"
                    } else {
                        arguments.as_slice()
                    };
                    self.writer.node(Raw::unknown(raw));
                }
                self.place = Place::Content;
            }
            _ => {}
        }
    }

    fn open_block(&mut self, block: Raw<'_>) {
        if self.place == Place::Start {
            self.begin();
            self.writer.mark(Mark::Content);
        } else {
            self.writer.mark(Mark::Part);
        }
        self.place = Place::Content;
        let kind = get(block, b"type").and_then(Value::text).map(Text::decoded);
        match kind.as_deref() {
            Some(b"text") => {}
            Some(b"thinking") => self.writer.mark(Mark::Reasoning),
            Some(b"tool_use") => {
                self.writer.call(get(block, b"name"), None);
                self.place = Place::Call(0);
            }
            _ => self.is_broken = true,
        }
        each_member(block, |key, value| {
            if let (b"text" | b"thinking", Value::Text(text)) = (key, value) {
                self.writer.text(text);
            }
        });
    }

    fn gather(&mut self, text: Text<'_>) {
        if self.arguments.len() + text.raw_len() > MAX_ARGUMENTS {
            self.is_broken = true;
        } else {
            self.arguments.extend_from_slice(&text.decoded());
        }
    }

    fn responses_event(&mut self, name: Option<&[u8]>, data: &[u8]) {
        match name {
            Some(b"response.output_item.added") => {
                if let Some(Value::Node(item)) = get(Raw::unknown(data), b"item") {
                    self.open_item(item);
                }
            }
            Some(b"response.content_part.added") => match self.place {
                Place::Content => self.place = Place::Call(0),
                Place::Call(_) => self.writer.mark(Mark::Part),
                Place::Start | Place::Reasoning | Place::Aside => {}
            },
            Some(
                b"response.output_text.delta" | b"response.refusal.delta" | b"response.function_call_arguments.delta",
            ) if self.place != Place::Aside => {
                if let Some(Value::Text(text)) = member(data, &DELTA) {
                    self.writer.text(text);
                }
            }
            _ => {}
        }
    }

    fn open_item(&mut self, item: Raw<'_>) {
        let kind = get(item, b"type").and_then(Value::text).map(Text::decoded);
        self.place = Place::Content;
        match kind.as_deref() {
            Some(b"message") => {
                self.begin();
                self.writer.mark(Mark::Content);
            }
            Some(b"function_call") => {
                self.begin();
                self.writer.mark(Mark::Content);
                self.writer.call(get(item, b"name"), None);
            }
            Some(b"reasoning") => self.place = Place::Aside,
            _ => self.is_broken = true,
        }
    }

    fn begin(&mut self) {
        self.writer.mark(Mark::Message);
        self.writer.push(b"assistant");
    }
}

/// The value of the first member with this key, at whatever depth.
fn member<'a>(data: &'a [u8], key: &Finder<'_>) -> Option<Value<'a>> {
    let found = key.find_iter(data).find_map(|at| {
        let mut walk = Walk::new(Raw::unknown(data.get(at + key.needle().len()..)?));
        walk.take(b':').then_some(walk)
    });
    found?.value()
}

/// The value of an object's member.
fn get<'a>(raw: Raw<'a>, name: &[u8]) -> Option<Value<'a>> {
    let mut found = None;
    each_member(raw, |key, value| {
        if key == name {
            found = Some(value);
        }
    });
    found
}

/// The only choice of an answer.
fn choice(body: Raw<'_>) -> Option<Raw<'_>> {
    let Some(Value::Node(choices)) = get(body, b"choices") else {
        return None;
    };
    let mut walk = Walk::new(choices);
    walk.take(b'[');
    match walk.item() {
        Some(Value::Node(choice)) => Some(choice),
        _ => None,
    }
}
