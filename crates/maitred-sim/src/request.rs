//! What is asked of an engine, and what it says.

use maitred_types::{Time, TokenCount};

use crate::lora::AdapterIndex;
use crate::prefix::Prompt;

/// A request's number, chosen by whoever submits it and unique among those that have not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestNumber(pub u64);

/// One sequence to compute.
#[derive(Clone, Debug)]
pub struct SimRequest {
    /// Its number.
    pub id: RequestNumber,
    /// Its prompt. An empty one counts as one token.
    pub prompt: Prompt,
    /// The adapter to apply, if any.
    pub adapter: Option<AdapterIndex>,
    /// How many tokens the answer will have. Zero is a request that only prefills, such as an embedding.
    pub output_tokens: u32,
    /// Why the answer will end after them.
    pub reason: FinishReason,
    /// The seed of the answer's text, see [`crate::output_token`].
    pub output_seed: u64,
    /// The `max_tokens` that the client set, for the histogram only.
    pub max_tokens: Option<u32>,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// The model said all it had to say, or a stop string appeared.
    Stop,
    /// The limit on output tokens, or on context, was reached.
    Length,
    /// It was cancelled.
    Abort,
}

impl FinishReason {
    /// The word in vLLM's metrics and answers.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Abort => "abort",
        }
    }
}

/// What a request used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimUsage {
    /// Tokens of the prompt.
    pub prompt: TokenCount,
    /// Those of them that the prefix cache held when the request was first admitted.
    pub cached: TokenCount,
    /// Tokens of the answer.
    pub output: TokenCount,
}

/// Something that a client of the engine can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimEvent {
    /// The answer has `n` tokens now; `n` is 1 for the first one.
    Token {
        /// Whose answer.
        id: RequestNumber,
        /// Tokens so far.
        n: u32,
        /// When the step that computed it ended.
        at: Time,
    },
    /// The answer is complete. Not sent for cancelled requests.
    Finished {
        /// Whose answer.
        id: RequestNumber,
        /// Why.
        reason: FinishReason,
        /// What it used.
        usage: SimUsage,
        /// When.
        at: Time,
    },
    /// The request lost its blocks and waits to be computed again.
    Preempted {
        /// Which request.
        id: RequestNumber,
        /// When.
        at: Time,
    },
}

/// Why an engine does not take a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Prompt and answer are longer than the model's context.
    TooLong {
        /// The model's context, in tokens.
        limit: TokenCount,
    },
    /// Prompt and answer need more KV blocks than the engine has, so it could never end.
    NeverFits {
        /// Tokens that the whole pool holds.
        limit: TokenCount,
    },
    /// The engine has no such adapter.
    UnknownAdapter,
    /// A request of this number has not ended yet.
    DuplicateNumber,
    /// The engine holds as many requests as it can keep.
    QueueFull,
}
