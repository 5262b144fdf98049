//! Which events of a stream the client gets to see.

use crate::{EventKind, UsageAsk};

/// What becomes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pass {
    /// The client gets it, byte for byte.
    Relay,
    /// The client must not see it.
    Drop,
}

/// Takes the usage chunk out of a stream when only the gateway had asked for it (S19 in the translation rules).
///
/// Nothing else is touched, and nothing is held back. Measured on vLLM 0.32: asking for usage changes no other chunk but for one
/// optional member: `system_fingerprint` moves from the chunk with the finish reason into the usage chunk, so a client that did not
/// ask does not see it. OpenAI's schema makes it optional and SDKs read it so; to carry it back would mean to hold the last chunk
/// until the next arrives and to rebuild it. SGLang 0.5.23 has no such member. Figures that an engine puts into chunks with output,
/// null or not, stay where they are.
#[derive(Clone, Copy, Debug)]
pub struct StreamFilter {
    ask: UsageAsk,
}

impl StreamFilter {
    /// A filter for a stream whose usage was asked for by `ask`.
    #[must_use]
    pub const fn new(ask: UsageAsk) -> Self {
        Self { ask }
    }

    /// What becomes of an event of this kind.
    #[must_use]
    pub fn pass(self, kind: EventKind) -> Pass {
        if self.ask == UsageAsk::ByGateway && kind == EventKind::UsageOnly {
            Pass::Drop
        } else {
            Pass::Relay
        }
    }
}

#[cfg(test)]
mod tests;
