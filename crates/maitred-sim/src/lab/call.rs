//! One call of a workload, as it comes to a gateway.

use maitred_types::{PromptChain, Time, TokenCount};

use crate::lora::AdapterIndex;
use crate::prefix::{PrefixHasher, Prompt};
use crate::request::{FinishReason, RequestNumber, SimRequest};

/// A call.
#[derive(Clone, Debug)]
pub struct LabCall {
    /// Its number, from 0 in the order of arrival.
    pub number: u64,
    /// When it comes to the gateway.
    pub arrived: Time,
    /// The full blocks of its prompt, cut as the engines of the fleet cut theirs.
    pub chain: PromptChain,
    /// Tokens of its prompt.
    pub input: TokenCount,
    /// Tokens that its answer will have. No gateway knows it; only a policy with perfect knowledge may read it.
    pub output: TokenCount,
    /// Most tokens that its answer may have, if the client said so.
    pub max_output: Option<TokenCount>,
    /// The conversation it belongs to, if its client says so.
    pub session: Option<u64>,
    /// Who pays for it, from 0.
    pub tenant: u32,
    /// Its class: 0 is high, 1 normal, 2 low.
    pub class: u8,
    /// The adapter it asks for.
    pub adapter: Option<AdapterIndex>,
    /// The seed of its answer's passage. A next turn repeats the answer by it.
    pub answer_seed: u64,
    /// The hasher after the prompt's last token, so that the answer can be appended.
    pub(crate) end: PrefixHasher,
}

impl LabCall {
    /// A call with this prompt and a length of its answer; nobody's, of the normal class, without adapter, at time zero.
    #[must_use]
    pub fn new(prompt: &Prompt, block_size: u32, output: TokenCount) -> Self {
        let hashes: Vec<u64> = prompt.hashes().iter().map(|hash| hash.get()).collect();
        Self {
            number: 0,
            arrived: Time::ZERO,
            chain: PromptChain::new(hashes, block_size as f32),
            input: TokenCount::new(prompt.tokens()),
            output,
            max_output: None,
            session: None,
            tenant: 0,
            class: 1,
            adapter: None,
            answer_seed: prompt.hash().get(),
            end: prompt.end(),
        }
    }

    /// A call whose prompt's blocks are known by their hashes only.
    #[must_use]
    pub fn of_chain(chain: PromptChain, input: TokenCount, output: TokenCount) -> Self {
        let mut end = PrefixHasher::new(None);
        end.begin(chain.hashes().last().copied().unwrap_or_default());
        Self {
            number: 0,
            arrived: Time::ZERO,
            chain,
            input,
            output,
            max_output: None,
            session: None,
            tenant: 0,
            class: 1,
            adapter: None,
            answer_seed: end.hash().get(),
            end,
        }
    }

    /// The chain of the prompt with `output` tokens of its answer behind it: what the endpoint's cache holds when it has
    /// generated them, and what a next turn begins with. Costs a copy of the chain.
    #[must_use]
    pub fn answered(&self, output: TokenCount) -> PromptChain {
        let tokens_per_block = self.chain.tokens_per_block();
        let mut prompt = Prompt::from_parts(self.input.get(), self.chain.hashes(), self.end);
        prompt.append(self.answer_seed, output.get(), block_size(&self.chain));
        let hashes: Vec<u64> = prompt.hashes().iter().map(|hash| hash.get()).collect();
        PromptChain::new(hashes, tokens_per_block)
    }

    /// The call as an engine takes it.
    pub(super) fn request(&self, id: u64) -> SimRequest {
        SimRequest {
            id: RequestNumber(id),
            prompt: Prompt::from_parts(self.input.get(), self.chain.hashes(), self.end),
            adapter: self.adapter,
            output_tokens: self.output.get(),
            reason: FinishReason::Stop,
            output_seed: self.answer_seed,
            max_tokens: None,
        }
    }
}

/// Tokens per block of a chain that a workload has cut, which is a whole number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "made from a u32 of less than 2^24, and a cast saturates"
)]
fn block_size(chain: &PromptChain) -> u32 {
    chain.tokens_per_block() as u32
}
