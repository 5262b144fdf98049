//! What is known of a call's prompt, and what becomes of it once it is answered.

use maitred_llm::{BodyView, CallKind, PromptSize, PromptText, Reply, prompt_size};
use maitred_runtime::Target;
use maitred_types::{PromptChain, TokenCount, Usage};

/// A call's prompt, as far as it matters after its body has been sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prompt {
    /// Its tokens, as estimated.
    pub(crate) tokens: TokenCount,
    /// Its blocks, if anybody reads them.
    pub(crate) chain: Option<PromptChain>,
    size: PromptSize,
}

/// Who reads a prompt's chain besides the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChainUse {
    /// The recording of the traffic.
    Recorded,
    /// Nobody.
    Scheduled,
}

impl Prompt {
    /// Reads the prompt of a body. Also says where its answer goes on, if that will be worth knowing.
    pub(crate) fn read(kind: CallKind, target: &Target, view: &BodyView, use_of: ChainUse) -> (Self, Option<Reply>) {
        let ratio = target.ratio.get();
        let is_recorded = use_of == ChainUse::Recorded;
        // Where calls share too little, most prompts' chains would be made for nobody to read.
        let is_scheduled = target.reads_chain && (is_recorded || target.pool.wants_chain());
        let text = if is_scheduled || is_recorded {
            PromptText::read(view, kind, target.chain_rule)
        } else {
            None
        };
        let Some(mut text) = text else {
            let size = prompt_size(view);
            let prompt = Self {
                tokens: size.tokens(ratio),
                chain: None,
                size,
            };
            return (prompt, None);
        };
        let prompt = Self {
            tokens: text.size().tokens(ratio),
            chain: Some(text.chain(ratio)),
            size: text.size(),
        };
        (prompt, text.take_reply().filter(|_| is_scheduled))
    }

    /// Learns from what the endpoint counted.
    pub(crate) fn counted(&self, target: &Target, usage: &Usage) {
        target.ratio.learn(self.size, usage);
    }

    /// The chain with which the next turn will begin.
    pub(crate) fn with(&self, reply: Reply) -> Option<PromptChain> {
        reply.finish(self.chain.as_ref()?.tokens_per_block())
    }
}
