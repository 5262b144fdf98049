//! What gateways that share a pool tell each other, so that each sees the whole room: what they have under way on each endpoint, and
//! which prompts they sent there.
//!
//! A message holds the present figures of its sender, not changes: one that is lost, comes twice or comes late does no harm beyond
//! its time. Endpoints are named by the hash of their address, on which gateways agree without talking. Nothing in a message is text.

mod wire;

use maitred_types::PromptChain;

use crate::pace::Work;

pub use wire::ShareError;

/// Most endpoints that one message speaks of.
pub(crate) const SHARED_LOADS_MAX: usize = 8_192;
/// Most prompts in one message.
pub(crate) const SHARED_PROMPTS_MAX: usize = 512;
/// Most blocks in all prompts of one message.
pub(crate) const SHARED_BLOCKS_MAX: usize = 65_536;

/// What one gateway has under way on one endpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedLoad {
    /// The hash of the endpoint's address.
    pub endpoint: u64,
    /// Prefill work of calls without output, as far as it is still to be done.
    pub work: Work,
    /// Calls in flight.
    pub sequences: u32,
}

/// A prompt that was sent to an endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedPrompt {
    /// The hash of the endpoint's address.
    pub endpoint: u64,
    /// The prompt, or the prompt with its answer.
    pub chain: PromptChain,
}

/// One message of one gateway about one pool.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShareMessage {
    /// Every endpoint on which the sender has calls; on all others it has none.
    pub loads: Vec<SharedLoad>,
    /// Prompts sent since the message before.
    pub prompts: Vec<SharedPrompt>,
}

impl ShareMessage {
    /// The message as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        wire::write(self)
    }

    /// Reads a message.
    ///
    /// # Errors
    /// The bytes are no message of this version, are cut short, or say more than one message may.
    pub fn read(bytes: &[u8]) -> Result<Self, ShareError> {
        wire::read(bytes)
    }
}

#[cfg(test)]
mod tests;
