//! Three scores with weights.

use fastrand::Rng;

use super::believed::{Belief, Capacity, Matching};
use super::rule::{Rule, Seen, cheapest};

pub(super) const NAME: &str = "llmd_default";

/// Tokens per entry of the approximate prefix index: its floor.
const ENTRY_TOKENS: u32 = 64;

/// The approximate prefix index with its automatic tuning: entries of 64 tokens, as many as the endpoint has KV blocks, and a
/// match that goes on as long as any endpoint has the next entry.
pub(super) const BELIEF: Belief = Belief {
    entry_tokens: ENTRY_TOKENS,
    capacity: Capacity::KvBlocks,
    matching: Matching::UntilNobodyHolds,
};

/// What the endpoint picker of llm-d does without a configuration (also that of the Gateway API Inference Extension): weight 2
/// on the queue's length, scaled between the least and the most of all, weight 2 on the free part of the KV cache, weight 3 on
/// the matched part of the prompt; the highest sum wins, ties by chance. Queue and KV cache are those of the page read last.
#[derive(Debug)]
pub(super) struct LlmdDefault;

impl Rule for LlmdDefault {
    fn name(&self) -> &'static str {
        NAME
    }

    fn choose(&mut self, seen: &Seen<'_>, random: &mut Rng) -> usize {
        let (least, most) = seen.pages.iter().fold((u32::MAX, 0), |(least, most), page| {
            (least.min(page.queued), most.max(page.queued))
        });
        cheapest(0..seen.len(), random, |endpoint| {
            let page = &seen.pages[endpoint];
            let queue = if most > least {
                f64::from(most - page.queued) / f64::from(most - least)
            } else {
                1.0
            };
            let room = 1.0 - page.kv_used.clamp(0.0, 1.0);
            -(2.0 * queue + 2.0 * room + 3.0 * match_ratio(seen, endpoint))
        })
    }
}

/// Matched entries over all entries of the prompt, a partial one at its end included.
pub(super) fn match_ratio(seen: &Seen<'_>, endpoint: usize) -> f64 {
    let entries = seen.call.input.get().div_ceil(ENTRY_TOKENS).max(1);
    f64::from(seen.matched[endpoint] / ENTRY_TOKENS) / f64::from(entries)
}
