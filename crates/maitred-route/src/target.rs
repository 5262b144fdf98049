//! What a target is, as far as plans are concerned.

use std::sync::Arc;

use maitred_types::{DegradeKind, ModelName, PoolName, TokenCount};

/// What a target offers: which model it is, and which calls it can carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The pool.
    pub pool: PoolName,
    /// The model's name there, as clients may ask for it.
    pub model: ModelName,
    /// Which model it is, whatever it is called here: two targets of one family answer alike.
    pub family: Arc<str>,
    /// How its weights are quantised, if that is said.
    pub quantization: Option<Arc<str>>,
    /// Who runs it, if it is a hosted API.
    pub provider: Option<Arc<str>>,
    /// How good its answers are, if that is said; higher is better.
    pub quality: Option<u32>,
    /// The calls that it can take.
    pub carries: Carries,
}

impl Offer {
    /// In what an answer from here is less than one of `asked`.
    #[must_use]
    pub fn degrades(&self, asked: &Self) -> Option<DegradeKind> {
        if self.family != asked.family {
            Some(DegradeKind::Model)
        } else if self.quantization != asked.quantization {
            Some(DegradeKind::Quantization)
        } else if self.provider != asked.provider {
            Some(DegradeKind::Provider)
        } else {
            None
        }
    }
}

/// The calls that a target can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carries {
    /// Its context window, if that is said: input and output together.
    pub context: Option<TokenCount>,
    /// Calls with tools.
    pub tools: bool,
    /// Calls with images.
    pub images: bool,
    /// Calls that ask for an answer of a JSON schema.
    pub json_schema: bool,
}

impl Default for Carries {
    /// Everything: whatever is not said to be too much is tried.
    fn default() -> Self {
        Self {
            context: None,
            tools: true,
            images: true,
            json_schema: true,
        }
    }
}
