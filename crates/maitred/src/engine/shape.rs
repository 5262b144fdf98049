//! The forms of answers: each engine's JSON, field for field and in its order.
//!
//! The strings here are what vLLM 0.32.0 and SGLang 0.5.23 sent to an ordinary HTTP client. The other flavours speak vLLM's.

mod anthropic;
mod sglang;
mod vllm;

use std::fmt;

use maitred_engines::Engine;
use maitred_sim::FinishReason;

use super::ask::Api;
use super::script::Choice;

/// Text as a JSON string.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;

        f.write_char('"')?;
        for letter in self.0.chars() {
            match letter {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                control if control < ' ' => write!(f, "\\u{:04x}", u32::from(control))?,
                other => f.write_char(other)?,
            }
        }
        f.write_char('"')
    }
}

/// A value as JSON, or `null`.
struct OrNull<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for OrNull<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("null"),
        }
    }
}

/// What a call used, over all of its choices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Prompt tokens.
    pub(super) prompt: u32,
    /// Those of them that the prefix cache held; `None` when usage does not tell.
    pub(super) cached: Option<u32>,
    /// Generated tokens.
    pub(super) output: u32,
}

impl Totals {
    const fn total(&self) -> u32 {
        self.prompt.saturating_add(self.output)
    }

    /// `{"cached_tokens":N}` or `null`.
    fn details(&self) -> OrNull<String> {
        OrNull(self.cached.map(|cached| format!(r#"{{"cached_tokens":{cached}}}"#)))
    }
}

/// How a choice ended, as far as answers tell.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending<'a> {
    /// Why.
    pub(super) reason: FinishReason,
    /// What was planned for it.
    pub(super) choice: &'a Choice,
}

impl Ending<'_> {
    /// The `finish_reason` of OpenAI's answers.
    fn openai(&self) -> &'static str {
        match self.reason {
            FinishReason::Stop if self.choice.tool.is_some() => "tool_calls",
            reason => reason.label(),
        }
    }

    /// The `stop_reason` of Anthropic's; "abort" has no counterpart.
    fn anthropic(&self) -> OrNull<&'static str> {
        OrNull(match self.reason {
            FinishReason::Stop if self.choice.stop.is_some() => Some(r#""stop_sequence""#),
            FinishReason::Stop => Some(r#""end_turn""#),
            FinishReason::Length => Some(r#""max_tokens""#),
            FinishReason::Abort => None,
        })
    }

    fn stop(&self) -> OrNull<Quoted<'_>> {
        OrNull(self.choice.stop.as_deref().map(Quoted))
    }
}

/// One piece of a choice that is streamed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece<'a> {
    /// Which choice.
    pub(super) index: usize,
    /// Its text.
    pub(super) text: &'a str,
    /// What was planned for the choice.
    pub(super) choice: &'a Choice,
    /// Whether it is the choice's first piece.
    pub(super) is_first: bool,
    /// Why the choice ends with it, if it does.
    pub(super) end: Option<FinishReason>,
    /// What has been used so far, for streams whose every event tells.
    pub(super) so_far: Option<Totals>,
}

/// What all events of an answer have in common.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// Whose form.
    pub(super) engine: Engine,
    /// Which API's.
    pub(super) api: Api,
    /// The answer's id.
    pub(super) id: String,
    /// When it was asked for, in Unix seconds.
    pub(super) created: u64,
    /// The model's name.
    pub(super) model: String,
    /// The build that answers.
    pub(super) fingerprint: String,
    /// Whether the stream ends with usage.
    pub(super) include_usage: bool,
    /// What every event of a stream begins with.
    pub(super) event_head: String,
}

impl Shape {
    /// The shape with what every event of its stream begins with, made once.
    pub(super) fn with_event_head(mut self) -> Self {
        let object = if self.api == Api::Chat {
            "chat.completion.chunk"
        } else {
            "text_completion"
        };
        let (id, created, model) = (&self.id, self.created, Quoted(&self.model));
        self.event_head =
            format!(r#"data: {{"id":"{id}","object":"{object}","created":{created},"model":{model},"choices":["#);
        self
    }

    /// The event before the first piece of a choice.
    pub(super) fn opening(&self, out: &mut String, index: usize, so_far: Option<Totals>, prompt: u32) {
        match (self.api, self.engine) {
            (Api::Messages, _) => anthropic::opening(self, out, prompt),
            (Api::Chat, Engine::Sglang) => sglang::role(self, out, index),
            (Api::Chat, _) => vllm::role(self, out, index, so_far),
            (Api::Completion | Api::Embedding, _) => {}
        }
    }

    /// The events of one piece.
    pub(super) fn piece(&self, out: &mut String, piece: &Piece<'_>) {
        match (self.api, self.engine) {
            (Api::Messages, _) => anthropic::delta(self, out, piece),
            (_, Engine::Sglang) => sglang::piece(self, out, piece),
            _ => vllm::piece(self, out, piece),
        }
    }

    /// The events after the last piece.
    pub(super) fn closing(&self, out: &mut String, totals: Totals, ending: &Ending<'_>) {
        match (self.api, self.engine) {
            (Api::Messages, _) => return anthropic::closing(self, out, totals, ending),
            (_, Engine::Sglang) if self.include_usage => sglang::usage(self, out, totals),
            (_, _) if self.include_usage => vllm::usage(self, out, totals),
            _ => {}
        }
        out.push_str("data: [DONE]\n\n");
    }

    /// The events of a stream under which the engine died, or that broke.
    pub(super) fn failure(&self, out: &mut String) {
        let message = super::problem::ENGINE_DEAD;
        if self.api == Api::Messages {
            out.push_str(&format!(
                "event: error\ndata: {{\"type\":\"error\",\"error\":{{\"type\":\"InternalServerError\",\"message\":\"{message}\"}}}}\n\n"
            ));
            return;
        }
        // With blanks after colons and commas, unlike every other event.
        out.push_str(&format!(
            "data: {{\"error\": {{\"message\": \"{message}\", \"type\": \"InternalServerError\", \"param\": null, \
             \"code\": 500}}}}\n\ndata: [DONE]\n\n"
        ));
    }

    /// A whole answer. `texts` are the choices' texts.
    pub(super) fn whole(&self, texts: &[(String, Ending<'_>)], totals: Totals) -> String {
        match (self.api, self.engine) {
            (Api::Messages, _) => anthropic::whole(self, texts, totals),
            (_, Engine::Sglang) => sglang::whole(self, texts, totals),
            _ => vllm::whole(self, texts, totals),
        }
    }
}
