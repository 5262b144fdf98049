//! What a target is, as far as plans are concerned.

use std::sync::Arc;

use maitred_types::{DegradeKind, DegradeReason, ModelName, PoolName, TokenCount};

use crate::facts::Facts;

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

impl Carries {
    /// Why it cannot carry a call, if it cannot. An estimate is no count: where one is to be `trusted` the call must fit as it is
    /// estimated, otherwise it passes unless it would be too long with a third less.
    pub(crate) fn lacks(&self, facts: &Facts<'_>, estimate: Estimate) -> Option<Unfit> {
        let shape = facts.shape;
        let too_long = || {
            let input = u64::from(facts.input.get());
            let least = match estimate {
                Estimate::Trusted => input,
                Estimate::Doubted => input * 2 / 3,
            };
            let needs = least + u64::from(facts.output.unwrap_or_default().get());
            self.context.is_some_and(|context| needs > u64::from(context.get()))
        };
        match () {
            () if shape.tools && !self.tools => Some(Unfit::Tools),
            () if shape.images && !self.images => Some(Unfit::Images),
            () if shape.json_schema && !self.json_schema => Some(Unfit::JsonSchema),
            () if too_long() => Some(Unfit::Context),
            () => None,
        }
    }
}

/// How far an estimate of a prompt's tokens is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Estimate {
    /// As if it were a count: a target that is a second choice anyway is not tried on the chance that it is wrong.
    Trusted,
    /// It may be half too much: what was asked for is not passed over lightly.
    Doubted,
}

/// Why a call is not tried on a target that its route names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The call is longer than its context window.
    Context,
    /// It takes no calls with tools.
    Tools,
    /// It takes no calls with images.
    Images,
    /// It cannot answer by a JSON schema.
    JsonSchema,
    /// Its quality is not enough.
    Quality,
    /// The caller may not use its model.
    NotGranted,
    /// It would degrade the answer, and the caller wants the error instead.
    Refused,
    /// It is there for other reasons than the one for which the call could not begin with what it asks for.
    OtherReason,
}

impl Unfit {
    /// The word in records.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Context => "context",
            Self::Tools => "tools",
            Self::Images => "images",
            Self::JsonSchema => "json-schema",
            Self::Quality => "quality",
            Self::NotGranted => "not-granted",
            Self::Refused => "refused",
            Self::OtherReason => "other-reason",
        }
    }

    /// The same in a sentence that begins with the target.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Context => "has too small a context window for the call",
            Self::Tools => "takes no calls with tools",
            Self::Images => "takes no calls with images",
            Self::JsonSchema => "cannot answer by a JSON schema",
            Self::Quality => "is not of the quality that the rule wants",
            Self::NotGranted => "is a model that the caller may not use",
            Self::Refused => "would degrade the answer, which the caller or its tenant refuses",
            Self::OtherReason => "is there for other reasons",
        }
    }

    /// What is said of an answer from elsewhere for this reason.
    #[must_use]
    pub const fn reason(self) -> DegradeReason {
        match self {
            Self::Context => DegradeReason::ContextLength,
            _ => DegradeReason::Unavailable,
        }
    }
}
