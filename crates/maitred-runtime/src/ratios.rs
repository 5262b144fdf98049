//! Bytes of prompt per token, learned per model by all calls together.

use std::collections::BTreeMap;
use std::sync::Arc;

use maitred_config::ModelSettings;
use maitred_llm::{PromptSize, TokenRatio};
use maitred_types::{ModelName, Usage};
use parking_lot::Mutex;

/// What is known of one model's tokens.
#[derive(Debug, Default)]
pub struct Ratio(Mutex<TokenRatio>);

impl Ratio {
    /// What has been learned so far.
    #[must_use]
    pub fn get(&self) -> TokenRatio {
        *self.0.lock()
    }

    /// Learns from a prompt whose tokens an endpoint has counted.
    pub fn learn(&self, size: PromptSize, usage: &Usage) {
        self.0.lock().learn(size, usage);
    }
}

/// The ratios of a pool's models, by the names that endpoints give them. They outlive a reload of the settings.
#[derive(Debug, Default)]
pub(crate) struct Ratios(Mutex<BTreeMap<ModelName, Arc<Ratio>>>);

impl Ratios {
    /// What is known of `model`.
    pub(crate) fn of(&self, model: &ModelName) -> Arc<Ratio> {
        Arc::clone(self.0.lock().entry(model.clone()).or_default())
    }

    /// Forgets what is not one of `models`.
    pub(crate) fn keep(&self, models: &[ModelSettings]) {
        self.0
            .lock()
            .retain(|name, _| models.iter().any(|model| model.served_as == *name));
    }
}
