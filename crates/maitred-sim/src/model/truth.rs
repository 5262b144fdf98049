//! What perfect knowledge sees of an engine.

use super::EngineModel;
use crate::lab::EndpointTruth;
use crate::prefix::BlockHash;

impl EngineModel {
    /// How many leading blocks of this chain are cached.
    #[must_use]
    pub fn cached_blocks(&self, chain: &[u64]) -> usize {
        let holds = |hash: &&u64| self.limits.caching && self.pool.find(BlockHash::new(**hash)).is_some();
        chain.iter().take_while(holds).count()
    }

    /// The state at this instant: what the requests it has will still cost.
    #[must_use]
    pub fn truth(&self) -> EndpointTruth {
        let gauges = self.present_gauges();
        let mut truth = EndpointTruth {
            running: gauges.running,
            kv_used: gauges.kv_used,
            kv_usable: gauges.kv_usable,
            ..EndpointTruth::default()
        };
        for place in &self.running {
            let sequence = &self.sequences[*place];
            truth.context_tokens += u64::from(sequence.known());
            truth.output_tokens += u64::from(sequence.output - sequence.generated);
            if !sequence.decodes() {
                self.add_prefill(sequence.known(), sequence.computed, &mut truth);
            }
        }
        let arriving = self.arriving.iter().map(|(_, place)| *place);
        for place in self.waiting.iter().copied().chain(arriving) {
            let sequence = &self.sequences[place];
            let cached = self.matched_blocks(place).0 * self.limits.block_size;
            truth.waiting += 1;
            truth.output_tokens += u64::from(sequence.output - sequence.generated);
            self.add_prefill(sequence.known(), cached, &mut truth);
        }
        truth
    }

    fn add_prefill(&self, known: u32, before: u32, truth: &mut EndpointTruth) {
        let tokens = known.saturating_sub(before);
        let (new, old) = (f64::from(tokens), f64::from(before));
        let costs = &self.profile.costs;
        truth.prefill_tokens += u64::from(tokens);
        truth.prefill_seconds += costs.token_us * new / 1e6 + costs.attention_ns * new * (old + new / 2.0) / 1e9;
    }
}
