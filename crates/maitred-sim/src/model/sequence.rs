//! One request inside the engine.

use maitred_types::{Time, TokenCount};

use crate::kv::BlockId;
use crate::lora::AdapterIndex;
use crate::prefix::{BlockHash, Content, PrefixHasher, output_token};
use crate::request::{FinishReason, RequestNumber, SimRequest, SimUsage};

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// In the API front.
    Arriving,
    /// In the queue.
    Waiting,
    /// In the batch.
    Running,
    /// In the batch until the step under way ends: cancelled, or done.
    Leaving,
    /// Gone; the place may be used again.
    Vacant,
}

/// One sequence of tokens: the prompt, and what has been generated.
#[derive(Clone, Debug)]
pub(super) struct Sequence {
    pub(super) id: RequestNumber,
    pub(super) phase: Phase,
    pub(super) adapter: Option<AdapterIndex>,
    pub(super) blocks: Vec<BlockId>,
    /// Hashes of the full blocks of all known tokens.
    pub(super) hashes: Vec<BlockHash>,
    hasher: PrefixHasher,
    content: Content,
    pub(super) prompt: u32,
    pub(super) generated: u32,
    pub(super) output: u32,
    output_seed: u64,
    reason: FinishReason,
    /// Tokens whose KV entries exist.
    pub(super) computed: u32,
    /// How many of the blocks have been given their name.
    pub(super) published: usize,
    /// Cached tokens at the first admission.
    pub(super) cached: Option<u32>,
    pub(super) preemptions: u32,
    pub(super) submitted: Time,
    pub(super) admitted: Time,
    pub(super) first_token: Time,
    pub(super) last_token: Time,
}

impl Sequence {
    pub(super) fn new(request: SimRequest, now: Time) -> Self {
        let (prompt, hashes, mut hasher, content) = request.prompt.into_parts();
        if content == Content::Passages {
            hasher.begin(request.output_seed);
        }
        Self {
            id: request.id,
            phase: Phase::Arriving,
            adapter: request.adapter,
            blocks: Vec::new(),
            hashes,
            hasher,
            content,
            prompt: prompt.max(1),
            generated: 0,
            output: request.output_tokens,
            output_seed: request.output_seed,
            reason: request.reason,
            computed: 0,
            published: 0,
            cached: None,
            preemptions: 0,
            submitted: now,
            admitted: now,
            first_token: now,
            last_token: now,
        }
    }

    /// Tokens whose values are known: the prompt and what has been generated.
    pub(super) const fn known(&self) -> u32 {
        self.prompt + self.generated
    }

    /// Whether its next step is a decode: one token after the last generated one.
    pub(super) const fn decodes(&self) -> bool {
        self.generated > 0 && self.computed + 1 == self.known()
    }

    /// Whether its answer is complete.
    pub(super) const fn is_done(&self) -> bool {
        self.generated >= self.output
    }

    /// Takes up one generated token. A block's hash is known as soon as its last token is.
    pub(super) fn generate(&mut self, block_size: u32, caching: bool) {
        if caching {
            match self.content {
                Content::Tokens => self.hasher.push(output_token(self.output_seed, self.generated)),
                Content::Passages => self.hasher.pass(1),
            }
            if (self.hashes.len() + 1) * block_size as usize == self.known() as usize + 1 {
                self.hashes.push(self.hasher.hash());
            }
        }
        self.generated += 1;
    }

    /// Takes up `tokens` generated tokens; the same as one after the other.
    pub(super) fn generate_many(&mut self, tokens: u32, block_size: u32, caching: bool) {
        if caching && self.content == Content::Tokens {
            for _ in 0..tokens {
                self.generate(block_size, true);
            }
            return;
        }
        let mut left = tokens;
        while caching && left > 0 {
            let full = (self.hashes.len() as u64 + 1) * u64::from(block_size);
            let room = u32::try_from(full - u64::from(self.known())).unwrap_or(u32::MAX);
            let taken = room.min(left);
            self.hasher.pass(taken);
            self.generated += taken;
            left -= taken;
            if taken == room {
                self.hashes.push(self.hasher.hash());
            }
        }
        self.generated += left;
    }

    pub(super) const fn reason(&self) -> FinishReason {
        self.reason
    }

    pub(super) fn usage(&self) -> SimUsage {
        SimUsage {
            prompt: TokenCount::new(self.prompt),
            cached: TokenCount::new(self.cached.unwrap_or_default()),
            output: TokenCount::new(self.generated),
        }
    }
}
