//! Consistent hashing with bounded loads.

use fastrand::Rng;

use super::rule::{Rule, Seen};
use crate::lab::LabCall;

pub(super) const NAME: &str = "chwbl";

/// Places on the ring per endpoint, KubeAI's default.
const PLACES: u64 = 256;
/// Most load over the mean, KubeAI's default of 125 %.
const LOAD_FACTOR: f64 = 1.25;
/// How much of the prompt is the key. KubeAI's default is 100 characters, with the advice to take what tells one's prompts
/// apart; after a common system prompt that is more.
const PREFIX_TOKENS: usize = 1024;

/// Mirrokni, Thorup and Zadimoghaddam 2018, as KubeAI's `PrefixHash` applies it: the hash of the prompt's beginning leads to a
/// place on a ring, and from there to the first endpoint whose calls, with this one, are at most ⌈1.25 · mean⌉.
#[derive(Debug)]
pub(super) struct Chwbl {
    /// Places and their endpoints, by place.
    ring: Vec<(u64, usize)>,
}

impl Chwbl {
    pub(super) fn new(endpoints: usize) -> Self {
        let place = |endpoint: usize, index: u64| (mix(endpoint as u64 * PLACES + index), endpoint);
        let mut ring: Vec<_> = (0..endpoints)
            .flat_map(|endpoint| (0..PLACES).map(move |index| place(endpoint, index)))
            .collect();
        ring.sort_unstable();
        Self { ring }
    }
}

impl Rule for Chwbl {
    fn name(&self) -> &'static str {
        NAME
    }

    fn choose(&mut self, seen: &Seen<'_>, _: &mut Rng) -> usize {
        let total: u64 = seen.own.iter().map(|own| u64::from(own.requests)).sum();
        let most = (LOAD_FACTOR * (total + 1) as f64 / seen.len() as f64).ceil();
        let key = key(seen.call);
        let start = self.ring.partition_point(|(place, _)| *place < key);
        let (before, after) = self.ring.split_at(start);
        after
            .iter()
            .chain(before)
            .map(|(_, endpoint)| *endpoint)
            .find(|endpoint| f64::from(seen.own[*endpoint].requests) + 1.0 <= most)
            .unwrap_or_default()
    }
}

/// The hash of the prompt's beginning. A prompt without a full block shares nothing worth keeping.
fn key(call: &LabCall) -> u64 {
    let hashes = call.chain.hashes();
    let per_block = call.chain.tokens_per_block().max(1.0);
    let in_prefix = |index: &usize| (index + 1) as f64 * f64::from(per_block) <= PREFIX_TOKENS as f64;
    let last = (0..hashes.len()).take_while(in_prefix).last();
    mix(last.map_or(call.number, |last| hashes[last]))
}

/// Spreads the bits of a number (the finalizer of `SplitMix64`).
const fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
