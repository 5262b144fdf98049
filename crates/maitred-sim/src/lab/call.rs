//! One call of a workload, as it comes to a gateway.

use maitred_types::{PromptChain, Time, TokenCount};

use crate::lora::AdapterIndex;

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
    /// Its class: 0 is the most urgent.
    pub class: u8,
    /// The adapter it asks for.
    pub adapter: Option<AdapterIndex>,
}
