//! What a call can be sent to.

use std::sync::Arc;

use maitred_config::ModelSettings;
use maitred_llm::ChainRule;
use maitred_obs::{Meters, ModelMeters};
use maitred_types::ModelName;

use crate::breakers::TargetBreaker;
use crate::host::PoolHost;
use crate::ratios::Ratio;

/// A pool and the name of a model there: where a call can be sent.
#[derive(Debug)]
pub struct Target {
    /// The pool that serves it.
    pub pool: Arc<PoolHost>,
    /// The name clients use.
    pub model: ModelName,
    /// The name endpoints use.
    pub served_as: ModelName,
    /// Whether it is a LoRA adapter.
    pub is_adapter: bool,
    /// Its metrics.
    pub meters: Arc<ModelMeters>,
    /// How its prompts are cut into blocks.
    pub chain_rule: ChainRule,
    /// Whether the pool's profile reads prompts' chains; no other is worth the work of making them.
    pub reads_chain: bool,
    /// Leaves it alone while it does not answer.
    pub breaker: Arc<TargetBreaker>,
    /// Whether it is a provider's.
    pub is_hosted: bool,
    /// What is known of its tokens.
    pub ratio: Arc<Ratio>,
}

impl Target {
    pub(crate) fn new(pool: &Arc<PoolHost>, model: &ModelSettings, meters: &Meters) -> Self {
        let settings = pool.settings();
        let adapter = model.adapter_of.as_ref().map(|_| model.served_as.as_str());
        Self {
            chain_rule: ChainRule::new(model.served_as.as_str(), adapter, settings.prefix_block),
            reads_chain: settings.profile.reads_chain(),
            ratio: pool.ratios.of(&model.served_as),
            breaker: pool.breakers.of(&model.name, pool.meters()),
            is_hosted: settings.provider.is_some(),
            pool: Arc::clone(pool),
            model: model.name.clone(),
            served_as: model.served_as.clone(),
            is_adapter: model.adapter_of.is_some(),
            meters: meters.model(pool.name(), model.name.as_str()),
        }
    }

    /// The adapter as endpoints call it.
    #[must_use]
    pub fn adapter(&self) -> Option<&str> {
        self.is_adapter.then_some(self.served_as.as_str())
    }
}
