//! What the answer to a call will be: decided before it is computed, so that its length is known.

use std::borrow::Cow;
use std::sync::Arc;

use maitred_sim::{FinishReason, LengthLimits, OutputLength, Prompt, SimRequest};

use super::ask::{Api, Ask, Form, Served};
use super::text::{mix, word};

/// The text of one choice, token by token.
#[derive(Clone, Debug)]
pub(super) enum Script {
    /// Words drawn from a seed; nothing after so many bytes, where a stop string begins.
    Words {
        /// The seed.
        seed: u64,
        /// Bytes before the stop string.
        cut: Option<usize>,
    },
    /// Given pieces.
    Pieces(Arc<[String]>),
}

impl Script {
    /// The text of token `index`, from 0.
    pub(super) fn piece(&self, index: u32) -> Cow<'_, str> {
        match self {
            Self::Words { seed, cut } => {
                let bytes = word(*seed, index);
                let begin = (index as usize).saturating_mul(bytes.len());
                let left = cut.map_or(bytes.len(), |cut| cut.saturating_sub(begin).min(bytes.len()));
                Cow::Owned(String::from_utf8_lossy(&bytes[..left]).into_owned())
            }
            Self::Pieces(pieces) => Cow::Borrowed(pieces.get(index as usize).map_or("", String::as_str)),
        }
    }

    /// The text of tokens `from` to `to`.
    pub(super) fn text(&self, from: u32, to: u32) -> String {
        (from..to).map(|index| self.piece(index)).collect()
    }
}

/// One choice: what it will say, and how it will end.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// What it says.
    pub(super) script: Script,
    /// The tool it calls: id and name. The script is then the arguments.
    pub(super) tool: Option<(String, String)>,
    /// The stop string that ends it.
    pub(super) stop: Option<String>,
}

/// Plans the choices of a call and the requests that compute them.
#[derive(Debug)]
pub(super) struct Planner<'a> {
    /// What is served.
    pub(super) served: &'a Served,
    /// How long answers are.
    pub(super) length: OutputLength,
    /// Tokens per KV block.
    pub(super) block_size: u32,
    /// The engine's seed.
    pub(super) seed: u64,
}

impl Planner<'_> {
    /// One choice and one request for each prompt and each of its `n` answers.
    pub(super) fn plan(&self, ask: &Ask) -> (Vec<Choice>, Vec<SimRequest>) {
        let adapter_name = ask.adapter.and_then(|adapter| self.served.adapters.get(adapter.get()));
        let mut plans = (Vec::new(), Vec::new());
        for tokens in &ask.prompts {
            let prompt = Prompt::new(
                tokens.iter().copied(),
                self.block_size,
                adapter_name.map(String::as_str),
            );
            for answer in 0..ask.n {
                let seed = mix(mix(self.seed, prompt.hash().get()), mix(ask.seed, u64::from(answer)));
                let (choice, request) = self.choice(ask, prompt.clone(), seed);
                plans.0.push(choice);
                plans.1.push(request);
            }
        }
        plans
    }

    fn choice(&self, ask: &Ask, prompt: Prompt, seed: u64) -> (Choice, SimRequest) {
        let left = self.served.context.saturating_sub(prompt.tokens());
        let max_tokens = ask.max_tokens.unwrap_or(left).min(left);
        let limits = LengthLimits {
            max_tokens,
            min_tokens: ask.min_tokens,
            ignore_eos: ask.ignore_eos,
        };
        let (tool, given) = match &ask.form {
            Form::Words => (None, None),
            Form::Json(text) => (None, Some(pieces(text))),
            Form::Tool { name, arguments } => (
                Some((format!("chatcmpl-tool-{seed:016x}"), name.clone())),
                Some(pieces(arguments)),
            ),
        };
        let (script, mut output_tokens, mut reason) = match given {
            Some(pieces) => {
                let length = u32::try_from(pieces.len()).unwrap_or(u32::MAX);
                let fits = length <= max_tokens;
                let reason = if fits { FinishReason::Stop } else { FinishReason::Length };
                (Script::Pieces(pieces), length.min(max_tokens), reason)
            }
            None => {
                let (length, reason) = self.length.draw(limits, seed);
                (Script::Words { seed, cut: None }, length, reason)
            }
        };
        let mut stop = None;
        let mut script = script;
        if let (Script::Words { seed, .. }, Some((at, found))) =
            (&script, first_stop(&script, output_tokens, &ask.stop))
        {
            let token_bytes = word(0, 0).len();
            output_tokens = u32::try_from((at + found.len()).div_ceil(token_bytes)).unwrap_or(output_tokens);
            reason = FinishReason::Stop;
            script = Script::Words {
                seed: *seed,
                cut: Some(at),
            };
            stop = Some(found);
        }
        let request = SimRequest {
            id: maitred_sim::RequestNumber(0),
            prompt,
            adapter: ask.adapter,
            output_tokens: if ask.api == Api::Embedding { 0 } else { output_tokens },
            reason,
            output_seed: seed,
            max_tokens: ask.max_tokens,
        };
        (Choice { script, tool, stop }, request)
    }
}

/// Where the first stop string begins within the first `tokens` tokens, and which it is.
fn first_stop(script: &Script, tokens: u32, stops: &[String]) -> Option<(usize, String)> {
    if stops.is_empty() {
        return None;
    }
    let text = script.text(0, tokens);
    let found = stops
        .iter()
        .filter_map(|stop| text.find(stop.as_str()).map(|at| (at, stop)));
    // The one that is complete first ends the answer.
    found
        .min_by_key(|(at, stop)| at + stop.len())
        .map(|(at, stop)| (at, stop.clone()))
}

/// Cuts a text into tokens.
fn pieces(text: &str) -> Arc<[String]> {
    let mut pieces = vec![String::new()];
    for letter in text.chars() {
        if let Some(piece) = pieces.last_mut().filter(|piece| piece.len() < word(0, 0).len()) {
            piece.push(letter);
        } else {
            pieces.push(letter.to_string());
        }
    }
    pieces.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_to_the_text() {
        for text in ["", "a", "abcd", "{\"city\":\"Zürich, 東京\"}"] {
            assert_eq!(pieces(text).concat(), text);
        }
    }

    #[test]
    fn a_stop_string_cuts_the_text_before_itself() {
        let script = Script::Words { seed: 5, cut: None };
        let text = script.text(0, 20);
        let stop = text.get(13..16).unwrap().to_owned();
        let (at, found) = first_stop(&script, 20, &["no such thing".to_owned(), stop.clone()]).unwrap();
        assert_eq!((text.find(&stop), found), (Some(at), stop));
        let cut = Script::Words { seed: 5, cut: Some(at) };
        assert_eq!(Some(cut.text(0, 20).as_str()), text.get(..at));
        assert_eq!(first_stop(&script, 20, &["no such thing".to_owned()]), None);
    }
}
