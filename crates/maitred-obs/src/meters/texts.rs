//! What is told of texts that are kept.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use super::{Meters, register};
use crate::metric;

impl Meters {
    /// The handle for what concerns texts that are kept.
    #[must_use]
    pub fn texts(&self) -> TextMeters {
        self.families.texts.clone()
    }
}

/// The meters of texts. Clones are the same meters.
#[derive(Clone, Debug, Default)]
pub struct TextMeters {
    /// Texts that were written.
    pub kept: Counter,
    /// Texts that were not.
    pub lost: Counter,
}

impl TextMeters {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            kept: register(registry, &metric::TEXTS_KEPT, Counter::default()),
            lost: register(registry, &metric::TEXTS_LOST, Counter::default()),
        }
    }
}
