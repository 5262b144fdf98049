//! The figures that make up a usage, under all the names they have.

use maitred_types::{TokenCount, Usage, UsageSource};
use serde::Deserialize;
use serde::de::IgnoredAny;

/// A `usage` object of any dialect. All members are optional: what an endpoint does not say is not known.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct RawUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: Option<u64>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    prompt_tokens_details: Option<InputDetails>,
    input_tokens_details: Option<InputDetails>,
    completion_tokens_details: Option<OutputDetails>,
    output_tokens_details: Option<OutputDetails>,
    /// SGLang has it here rather than in the details.
    reasoning_tokens: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct InputDetails {
    cached_tokens: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct OutputDetails {
    reasoning_tokens: Option<u64>,
}

/// The members of a stream event that matter for usage.
#[derive(Debug, Deserialize)]
pub(super) struct EventFacts {
    /// OpenAI's; holds nothing and allocates nothing, only the number of choices counts.
    choices: Option<Vec<IgnoredAny>>,
    usage: Option<RawUsage>,
    /// Anthropic's `message_start` has its usage in here.
    message: Option<Holder>,
    /// The last event of the Responses API has its usage in here.
    response: Option<Holder>,
}

#[derive(Debug, Deserialize)]
struct Holder {
    usage: Option<RawUsage>,
}

impl EventFacts {
    /// Whether it is the extra chunk that `include_usage` brings about.
    pub(super) fn is_usage_only(&self) -> bool {
        self.usage.is_some() && self.choices.as_ref().is_some_and(Vec::is_empty)
    }
}

/// What has been said so far. Streams give running totals, so for each figure the last word counts and nothing is added up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Prompt tokens; in Anthropic's dialect without those below.
    input: Option<u64>,
    cache_read: Option<u64>,
    cache_creation: Option<u64>,
    /// Cached tokens that are already in `input`.
    cached: Option<u64>,
    output: Option<u64>,
    reasoning: Option<u64>,
}

impl Counts {
    /// Takes in the usage of a whole answer, or of an event that has it at the top.
    pub(crate) fn note_usage(&mut self, raw: &RawUsage) {
        self.note_input(raw);
        let output = raw.completion_tokens.or(raw.output_tokens);
        // Embeddings name the prompt and the total only.
        let rest = raw.total_tokens.zip(raw.prompt_tokens);
        let rest = rest.and_then(|(total, input)| total.checked_sub(input));
        replace(&mut self.output, output.or(rest));
        let details = raw.completion_tokens_details.or(raw.output_tokens_details);
        let reasoning = details.and_then(|details| details.reasoning_tokens);
        replace(&mut self.reasoning, reasoning.or(raw.reasoning_tokens));
    }

    pub(super) fn note(&mut self, facts: &EventFacts) {
        // The output in `message_start` is a placeholder: a stream that breaks right after it has not used zero tokens.
        if let Some(usage) = facts.message.as_ref().and_then(|message| message.usage) {
            self.note_input(&usage);
        }
        let last = facts.response.as_ref().and_then(|response| response.usage);
        if let Some(usage) = last.or(facts.usage) {
            self.note_usage(&usage);
        }
    }

    /// The usage, once both sides are known.
    pub(crate) fn usage(&self) -> Option<Usage> {
        Some(Usage {
            input: self.whole_input()?,
            output: self.output()?,
            cached_input: self.cache_read.or(self.cached).map(TokenCount::saturating_from),
            reasoning: self.reasoning.map(TokenCount::saturating_from),
            source: UsageSource::Reported,
        })
    }

    /// The usage with the given figures where nothing was said; then it counts as an estimate.
    pub(crate) fn usage_or(&self, input: TokenCount, output: TokenCount) -> Usage {
        self.usage().unwrap_or_else(|| Usage {
            input: self.whole_input().unwrap_or(input),
            output: self.output().unwrap_or(output),
            cached_input: self.cache_read.or(self.cached).map(TokenCount::saturating_from),
            reasoning: self.reasoning.map(TokenCount::saturating_from),
            source: UsageSource::Estimated,
        })
    }

    pub(super) fn output(&self) -> Option<TokenCount> {
        self.output.map(TokenCount::saturating_from)
    }

    /// Prompt tokens with all cached ones: Anthropic lists what was read from and written to the cache beside the rest.
    fn whole_input(&self) -> Option<TokenCount> {
        let beside = [self.cache_read, self.cache_creation];
        let beside = beside.into_iter().flatten().fold(0_u64, u64::saturating_add);
        self.input
            .map(|input| TokenCount::saturating_from(input.saturating_add(beside)))
    }

    fn note_input(&mut self, raw: &RawUsage) {
        replace(&mut self.input, raw.prompt_tokens.or(raw.input_tokens));
        replace(&mut self.cache_read, raw.cache_read_input_tokens);
        replace(&mut self.cache_creation, raw.cache_creation_input_tokens);
        let details = raw.prompt_tokens_details.or(raw.input_tokens_details);
        replace(&mut self.cached, details.and_then(|details| details.cached_tokens));
    }
}

/// A figure replaces the one before; silence does not.
fn replace(figure: &mut Option<u64>, said: Option<u64>) {
    *figure = said.or(*figure);
}
