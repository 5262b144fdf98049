//! Messages, their parts and tools in the order in which chat templates print them, whatever order their members have.
//!
//! Left out is what templates do not print: the ids of calls and messages, and marks for a provider's cache.

use super::text::Text;
use super::walk::{Raw, Value, Walk};
use super::writer::{Mark, Writer};

/// Parts in parts that are read as such (a tool's answer has parts of its own); deeper ones are taken as they are written.
const PART_DEPTH: u32 = 2;

/// The members of a message, or of an item of the Responses API, that its template prints.
#[derive(Debug, Default)]
struct Message<'a> {
    role: Option<Value<'a>>,
    name: Option<Value<'a>>,
    reasoning: Option<Value<'a>>,
    content: Option<Value<'a>>,
    calls: Option<Value<'a>>,
    kind: Option<Value<'a>>,
    arguments: Option<Value<'a>>,
    output: Option<Value<'a>>,
}

/// The members of a part.
#[derive(Debug, Default)]
struct Part<'a> {
    kind: Option<Value<'a>>,
    text: Option<Value<'a>>,
    name: Option<Value<'a>>,
    input: Option<Value<'a>>,
    content: Option<Value<'a>>,
}

/// What a list of messages ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastRole {
    /// The model speaks next.
    Other,
    /// The model is asked to go on with what it is said to have said.
    Assistant,
}

impl Writer {
    /// The list of tools. An empty one is none.
    pub(super) fn tools(&mut self, raw: Raw<'_>) {
        let mut walk = Walk::new(raw);
        if !walk.take(b'[') {
            return;
        }
        let mut is_first = true;
        while let Some(tool) = walk.item() {
            if std::mem::take(&mut is_first) {
                self.mark(Mark::Tools);
            }
            self.exact(tool);
        }
    }

    /// A list of messages or items, or a text that is the user's only message.
    pub(super) fn messages(&mut self, raw: Raw<'_>) -> LastRole {
        let mut walk = Walk::new(raw);
        let mut last = LastRole::Other;
        if walk.peek() == Some(b'"') {
            if let Some(text) = walk.value() {
                self.speech(b"user", text);
            }
        } else if walk.take(b'[') {
            while let Some(message) = walk.item() {
                if let Value::Node(raw) = message {
                    last = self.message(raw);
                }
            }
        }
        last
    }

    /// A message of `role`.
    pub(super) fn speech(&mut self, role: &[u8], content: Value<'_>) {
        self.mark(Mark::Message);
        self.push(role);
        self.mark(Mark::Content);
        self.content(content, PART_DEPTH);
    }

    /// One message or item.
    pub(super) fn message(&mut self, raw: Raw<'_>) -> LastRole {
        let message = Message::read(raw);
        let kind = message.kind.and_then(Value::text).map(Text::decoded);
        match kind.as_deref() {
            Some(b"reasoning") => LastRole::Other,
            Some(b"function_call") => {
                self.speech(b"assistant", Value::Plain(b"null"));
                self.call(message.name, message.arguments);
                LastRole::Other
            }
            Some(b"function_call_output") => {
                self.speech(b"tool", message.output.unwrap_or(Value::Plain(b"null")));
                LastRole::Other
            }
            Some(b"message") | None => self.usual_message(&message),
            Some(kind) => {
                self.mark(Mark::Message);
                self.push(kind);
                self.mark(Mark::Content);
                self.node(raw);
                LastRole::Other
            }
        }
    }

    fn usual_message(&mut self, message: &Message<'_>) -> LastRole {
        self.mark(Mark::Message);
        let role = message.role.and_then(Value::text);
        if let Some(role) = role {
            self.text(role);
        }
        if let Some(name) = message.name.and_then(Value::text) {
            self.mark(Mark::Name);
            self.text(name);
        }
        if let Some(reasoning) = message.reasoning.filter(|value| !value.is_nothing()) {
            self.mark(Mark::Reasoning);
            self.loose(reasoning);
        }
        self.mark(Mark::Content);
        if let Some(content) = message.content {
            self.content(content, PART_DEPTH);
        }
        if let Some(Value::Node(raw)) = message.calls {
            self.calls(raw);
        }
        if role.is_some_and(|role| role.is(b"assistant")) {
            LastRole::Assistant
        } else {
            LastRole::Other
        }
    }

    /// A text, or a list of parts. A single part of text is the same as the text.
    pub(super) fn content(&mut self, content: Value<'_>, depth: u32) {
        let Value::Node(raw) = content else {
            return self.loose(content);
        };
        let mut walk = Walk::new(raw);
        if depth == 0 || !walk.take(b'[') {
            return self.node(raw);
        }
        let mut is_first = true;
        while let Some(part) = walk.item() {
            if !std::mem::take(&mut is_first) {
                self.mark(Mark::Part);
            }
            match part {
                Value::Node(raw) if raw.begins_with(b'{') => self.part(raw, depth - 1),
                _ => self.loose(part),
            }
        }
    }

    fn part(&mut self, raw: Raw<'_>, depth: u32) {
        let part = Part::read(raw);
        let kind = part.kind.and_then(Value::text).map(Text::decoded);
        match (kind.as_deref(), part.text) {
            (Some(b"text" | b"input_text" | b"output_text" | b"refusal") | None, Some(text)) => self.loose(text),
            (Some(b"thinking"), Some(text)) => {
                self.mark(Mark::Reasoning);
                self.loose(text);
            }
            (Some(b"tool_use"), _) => self.call(part.name, part.input),
            (Some(b"tool_result"), _) => {
                self.mark(Mark::Answer);
                if let Some(content) = part.content {
                    self.content(content, depth);
                }
            }
            (Some(kind), _) if is_media(kind) => self.media(raw),
            _ => self.node(raw),
        }
    }

    /// The calls of tools in an OpenAI message.
    fn calls(&mut self, raw: Raw<'_>) {
        let mut walk = Walk::new(raw);
        if !walk.take(b'[') {
            return;
        }
        while let Some(call) = walk.item() {
            let Value::Node(raw) = call else { continue };
            match function(raw) {
                Some(function) => {
                    let Message { name, arguments, .. } = Message::read(function);
                    self.call(name, arguments);
                }
                None => {
                    self.mark(Mark::Call);
                    self.node(raw);
                }
            }
        }
    }

    /// One call of a tool.
    pub(super) fn call(&mut self, name: Option<Value<'_>>, arguments: Option<Value<'_>>) {
        self.mark(Mark::Call);
        if let Some(name) = name {
            self.loose(name);
        }
        self.mark(Mark::Arguments);
        if let Some(arguments) = arguments {
            self.loose(arguments);
        }
    }
}

impl<'a> Message<'a> {
    fn read(raw: Raw<'a>) -> Self {
        let mut message = Self::default();
        each_member(raw, |key, value| {
            let place = match key {
                b"role" => &mut message.role,
                b"name" => &mut message.name,
                b"reasoning" | b"reasoning_content" => &mut message.reasoning,
                b"content" => &mut message.content,
                b"tool_calls" => &mut message.calls,
                b"type" => &mut message.kind,
                b"arguments" => &mut message.arguments,
                b"output" => &mut message.output,
                _ => return,
            };
            *place = Some(value);
        });
        message
    }
}

impl<'a> Part<'a> {
    fn read(raw: Raw<'a>) -> Self {
        let mut part = Self::default();
        each_member(raw, |key, value| {
            let place = match key {
                b"type" => &mut part.kind,
                b"text" | b"thinking" | b"refusal" => &mut part.text,
                b"name" => &mut part.name,
                b"input" => &mut part.input,
                b"content" => &mut part.content,
                _ => return,
            };
            *place = Some(value);
        });
        part
    }
}

impl<'a> Value<'a> {
    pub(super) const fn text(self) -> Option<Text<'a>> {
        match self {
            Value::Text(text) => Some(text),
            Value::Node(_) | Value::Plain(_) => None,
        }
    }

    /// How long it is as it is written, quotes aside.
    pub(super) const fn raw_len(self) -> usize {
        match self {
            Value::Text(text) => text.raw_len(),
            Value::Node(raw) => raw.len(),
            Value::Plain(raw) => raw.len(),
        }
    }

    /// Whether it is `null` or an empty string.
    pub(super) const fn is_nothing(self) -> bool {
        match self {
            Value::Text(text) => text.raw_len() == 0,
            Value::Plain(raw) => matches!(raw, b"null"),
            Value::Node(_) => false,
        }
    }
}

/// Hands over each member of an object; of a key that occurs twice the last one comes last.
pub(super) fn each_member<'a>(raw: Raw<'a>, mut member: impl FnMut(&[u8], Value<'a>)) {
    let mut walk = Walk::new(raw);
    if !walk.take(b'{') {
        return;
    }
    while let Some(key) = walk.member() {
        let Some(value) = walk.value() else { return };
        member(&key.decoded(), value);
    }
}

/// The object under `function`.
fn function(raw: Raw<'_>) -> Option<Raw<'_>> {
    let mut function = None;
    each_member(raw, |key, value| {
        if let (b"function", Value::Node(raw)) = (key, value) {
            function = Some(raw);
        }
    });
    function
}

fn is_media(kind: &[u8]) -> bool {
    let words: [&[u8]; 5] = [b"image", b"audio", b"video", b"file", b"document"];
    words
        .iter()
        .any(|word| kind.windows(word.len()).any(|window| window == *word))
}
