//! Blocks to prefill plus blocks to decode.

use fastrand::Rng;

use super::believed::LiveChains;
use super::rule::{Rule, Seen, cheapest};
use crate::lab::{CallReport, LabCall};

pub(super) const NAME: &str = "dynamo_linear";

/// How many times a block to prefill counts: Dynamo's `router-prefill-load-scale`, 1 by default. Of 1, 2, 4, 8 and 16 this one
/// gave the best times to first token over the Mooncake traces below the knee.
const PREFILL_SCALE: f64 = 4.0;

/// The KV router of NVIDIA Dynamo with its default linear score, temperature 0 and full overlap credit: the least of
/// `scale · prefill blocks + decode blocks`, where the prefill blocks are the uncached tokens under way and this call's own over the
/// block size, and the decode blocks are the prompts' blocks of all calls under way with this one, shared ones counted once.
/// What is cached it learns from the engines' events. Prefill counts until the first token. Ties by chance.
#[derive(Debug)]
pub(super) struct DynamoLinear {
    active: Vec<LiveChains>,
}

impl DynamoLinear {
    pub(super) fn new(endpoints: usize) -> Self {
        Self {
            active: std::iter::repeat_with(LiveChains::default).take(endpoints).collect(),
        }
    }
}

impl Rule for DynamoLinear {
    fn name(&self) -> &'static str {
        NAME
    }

    fn choose(&mut self, seen: &Seen<'_>, random: &mut Rng) -> usize {
        cheapest(0..seen.len(), random, |endpoint| {
            let block_size = f64::from(seen.facts[endpoint].block_size.max(1));
            let prefill = seen.own[endpoint].prefill_tokens as f64 + f64::from(seen.uncached(endpoint));
            let active = &self.active[endpoint];
            let added = seen.call.chain.blocks() - active.matched(&seen.call.chain);
            PREFILL_SCALE * prefill / block_size + (active.blocks() + added) as f64
        })
    }

    fn dispatched(&mut self, seen: &Seen<'_>, endpoint: usize) {
        self.active[endpoint].add(&seen.call.chain);
    }

    fn finished(&mut self, call: &LabCall, endpoint: usize, _: &CallReport) {
        self.active[endpoint].remove(&call.chain);
    }
}
