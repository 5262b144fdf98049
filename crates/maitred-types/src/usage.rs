//! What a call used.

use crate::TokenCount;

/// Where a usage figure comes from. An estimate never passes for a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UsageSource {
    /// The endpoint said so.
    Reported,
    /// The endpoint did not say; the gateway estimated.
    Estimated,
}

impl UsageSource {
    /// The word for logs, metrics and records.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Reported => "reported",
            Self::Estimated => "estimated",
        }
    }
}

/// Tokens of one attempt or one call. `cached_input` is a part of `input`, `reasoning` a part of `output`.
///
/// `None` means "not said", which is not the same as zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Prompt tokens, those read from a cache included.
    pub input: TokenCount,
    /// Prompt tokens that were read from the endpoint's prefix cache.
    pub cached_input: Option<TokenCount>,
    /// Generated tokens over all choices, reasoning included.
    pub output: TokenCount,
    /// Generated tokens that were reasoning.
    pub reasoning: Option<TokenCount>,
    /// Who says so.
    pub source: UsageSource,
}
