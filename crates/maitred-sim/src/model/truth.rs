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
        for (index, place) in self.running.iter().enumerate() {
            let sequence = &self.sequences[*place];
            let generated = sequence.generated + self.lag(index);
            truth.context_tokens += u64::from(sequence.prompt + generated);
            truth.output_tokens += u64::from(sequence.output.saturating_sub(generated));
            if self.ride.is_none() && !sequence.decodes() {
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

    /// How many adapters are on the GPU at once, and those that running and waiting requests use, as bits by their index;
    /// `None` for an engine without adapters.
    #[must_use]
    pub fn adapters_in_use(&self) -> Option<(u32, u64, u64)> {
        let slots = u32::try_from(self.adapters.slots()).unwrap_or(u32::MAX);
        let (running, waiting) = self.adapters.in_use();
        self.adapters.any().then_some((slots, running, waiting & !running))
    }

    /// Time in which a step was under way, the whole of the present one included.
    #[must_use]
    pub const fn busy(&self) -> std::time::Duration {
        self.busy
    }

    fn add_prefill(&self, known: u32, before: u32, truth: &mut EndpointTruth) {
        let tokens = known.saturating_sub(before);
        let (new, old) = (f64::from(tokens), f64::from(before));
        let costs = &self.profile.costs;
        truth.prefill_tokens += u64::from(tokens);
        truth.prefill_seconds += costs.token_us * new / 1e6 + costs.attention_ns * new * (old + new / 2.0) / 1e9;
    }
}
