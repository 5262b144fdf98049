//! Exploit what is there, or explore where there is room.

use std::collections::VecDeque;
use std::time::Duration;

use fastrand::Rng;
use maitred_types::Time;

use super::believed::{Belief, Capacity, Matching};
use super::rule::{Rule, Seen, cheapest};
use crate::lab::{CallReport, LabCall};
use crate::profile::StepCosts;

pub(super) const NAME: &str = "preble";

/// Its global tree: what an endpoint's cache holds, in its size.
pub(super) const BELIEF: Belief = Belief {
    entry_tokens: 16,
    capacity: Capacity::KvTokens,
    matching: Matching::Contiguous,
};

/// The history that loads are summed over.
const WINDOW: Duration = Duration::from_mins(3);
/// Most calls remembered of it.
const WINDOW_CALLS_MAX: usize = 1 << 18;
/// How many times the lightest load the heaviest may be before exploitation leaves it.
const BALANCE: f64 = 1.5;

/// E2 of Preble (Srivatsa et al., ICLR 2025). If more of the prompt is cached than is missing, the call goes to the endpoint
/// with the longest match, the one with the lower load if there are several, and to the lightest endpoint instead if that load
/// is the heaviest and more than 1.5 times the lightest. Else it goes where load, eviction and prefill cost least together. Load
/// is the prefill and decode time of the calls of the last three minutes; eviction is the prefill time of what would be lost,
/// weighted by how often it was used.
///
/// Left out: prefixes are not replicated ahead of need; they are when their endpoint is the heaviest. Decode time is a call's
/// own part of its batch's steps, at the mean answer length so far.
#[derive(Debug)]
pub(super) struct Preble {
    window: VecDeque<(Time, usize, f64)>,
    loads: Vec<f64>,
    answers: u64,
    output_tokens: u64,
}

impl Preble {
    pub(super) fn new(endpoints: usize) -> Self {
        Self {
            window: VecDeque::new(),
            loads: vec![0.0; endpoints],
            answers: 0,
            output_tokens: 0,
        }
    }

    /// Forgets what is older than the window.
    fn expire(&mut self, now: Time) {
        let since = now.saturating_sub(WINDOW);
        while let Some((at, endpoint, seconds)) = self.window.front().copied()
            && (at < since || self.window.len() >= WINDOW_CALLS_MAX)
        {
            self.window.pop_front();
            self.loads[endpoint] = (self.loads[endpoint] - seconds).max(0.0);
        }
    }

    /// Seconds lost if `tokens` more are cached there.
    fn eviction(&self, seen: &Seen<'_>, endpoint: usize, tokens: u32) -> f64 {
        let (Some(caches), calls) = (seen.believed, self.window.len().max(1)) else {
            return 0.0;
        };
        let block_size = seen.facts[endpoint].block_size.max(1);
        let block = prefill(&seen.facts[endpoint].costs, block_size, 0);
        let uses: f64 = caches.evicted(endpoint, tokens / block_size).map(f64::from).sum();
        block * uses / calls as f64
    }

    /// The prefill and decode time that the call would cost there.
    fn work(&self, seen: &Seen<'_>, endpoint: usize) -> f64 {
        let costs = &seen.facts[endpoint].costs;
        let output = super::super::statistics::fraction(self.output_tokens as f64, self.answers as f64);
        let context = f64::from(seen.call.input.get()) + output / 2.0;
        let decode = output * (costs.sequence_ms / 1e3 + costs.context_ns * context / 1e9);
        prefill(costs, seen.uncached(endpoint), seen.matched[endpoint]) + decode
    }
}

/// Seconds to compute `tokens` prompt tokens after `before` cached ones.
fn prefill(costs: &StepCosts, tokens: u32, before: u32) -> f64 {
    let (tokens, before) = (f64::from(tokens), f64::from(before));
    costs.token_us * tokens / 1e6 + costs.attention_ns * tokens * (before + tokens / 2.0) / 1e9
}

impl Rule for Preble {
    fn name(&self) -> &'static str {
        NAME
    }

    fn choose(&mut self, seen: &Seen<'_>, random: &mut Rng) -> usize {
        self.expire(seen.now);
        let longest = seen.matched.iter().copied().max().unwrap_or_default();
        if longest > seen.call.input.get() - longest.min(seen.call.input.get()) {
            let holders = (0..seen.len()).filter(|endpoint| seen.matched[*endpoint] == longest);
            let holder = cheapest(holders, random, |endpoint| self.loads[endpoint]);
            let lightest = cheapest(0..seen.len(), random, |endpoint| self.loads[endpoint]);
            let heaviest = self.loads.iter().copied().fold(0.0, f64::max);
            let is_heaviest = self.loads[holder] >= heaviest;
            return if is_heaviest && heaviest > BALANCE * self.loads[lightest] {
                lightest
            } else {
                holder
            };
        }
        cheapest(0..seen.len(), random, |endpoint| {
            let uncached = seen.uncached(endpoint);
            let own = prefill(&seen.facts[endpoint].costs, uncached, seen.matched[endpoint]);
            self.loads[endpoint] + self.eviction(seen, endpoint, uncached) + own
        })
    }

    fn dispatched(&mut self, seen: &Seen<'_>, endpoint: usize) {
        let work = self.work(seen, endpoint);
        self.loads[endpoint] += work;
        self.window.push_back((seen.now, endpoint, work));
    }

    fn finished(&mut self, _: &LabCall, _: usize, report: &CallReport) {
        self.answers += 1;
        self.output_tokens += u64::from(report.output.get());
    }
}
