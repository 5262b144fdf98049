//! The endpoints of a run: what a policy is told of them before, and what only perfect knowledge sees.

use maitred_types::{PromptChain, Time};

use crate::model::EngineModel;
use crate::profile::StepCosts;

/// The place of an endpoint in the fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointIndex(u32);

impl EndpointIndex {
    /// The endpoint at `index`.
    #[must_use]
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// The index into the fleet.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

/// What a policy is told of an endpoint when a run begins. It may be wrong where the scenario says so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EndpointFacts {
    /// The constants of its time formula, its speed taken into account; a prior.
    pub costs: StepCosts,
    /// Tokens per KV block.
    pub block_size: u32,
    /// KV blocks.
    pub blocks: u32,
    /// Most tokens that it computes in one step.
    pub batched_tokens: u32,
    /// Most sequences that it runs at once.
    pub sequences: u32,
}

/// The state of an endpoint at this instant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EndpointTruth {
    /// Requests in its batch.
    pub running: u32,
    /// Requests in its front or its queue.
    pub waiting: u32,
    /// KV blocks that running requests hold.
    pub kv_used: u32,
    /// KV blocks that can be used.
    pub kv_usable: u32,
    /// Prompt tokens that are still to be computed for the requests it has, by what its cache holds now.
    pub prefill_tokens: u64,
    /// The same as work: seconds of prefill by its own constants, `Σ b·u + c·u·(h + u/2)`.
    pub prefill_seconds: f64,
    /// Context tokens of the requests in its batch.
    pub context_tokens: u64,
    /// Output tokens that it has still to generate for all the requests it has.
    pub output_tokens: u64,
}

/// The fleet as it really is. A gateway sees none of it; policies with perfect knowledge do, as a bound for the others.
#[derive(Debug)]
pub struct FleetView<'a> {
    now: Time,
    engines: &'a [EngineModel],
}

impl<'a> FleetView<'a> {
    /// The engines at `now`, to which they have been brought already.
    #[must_use]
    pub const fn new(engines: &'a [EngineModel], now: Time) -> Self {
        Self { now, engines }
    }

    /// This instant.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// How many endpoints there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.engines.len()
    }

    /// Whether there is no endpoint.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.engines.is_empty()
    }

    /// All endpoints.
    pub fn endpoints(&self) -> impl Iterator<Item = EndpointIndex> + use<> {
        (0..u32::try_from(self.engines.len()).unwrap_or(u32::MAX)).map(EndpointIndex)
    }

    /// The state of an endpoint. Costs a walk over its requests.
    #[must_use]
    pub fn truth(&self, endpoint: EndpointIndex) -> EndpointTruth {
        self.engines
            .get(endpoint.get())
            .map(EngineModel::truth)
            .unwrap_or_default()
    }

    /// How many leading blocks of the chain an endpoint's cache holds.
    #[must_use]
    pub fn matched_blocks(&self, endpoint: EndpointIndex, chain: &PromptChain) -> usize {
        let Some(engine) = self.engines.get(endpoint.get()) else {
            return 0;
        };
        engine.cached_blocks(chain.hashes())
    }
}
