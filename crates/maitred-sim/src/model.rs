//! One engine: requests go in, steps pass, tokens come out.
//!
//! The rules are those of vLLM V1's scheduler with first come, first served. A step computes one token for each running
//! sequence, in order, or the next chunk of its prompt; then waiting requests join, oldest first, as long as token budget,
//! KV blocks, sequence places and adapter slots remain. When no block is left for a running sequence, the one that joined
//! last loses all of its blocks, goes to the head of the queue, and is computed again; its blocks stay cached until they are
//! used for something else. A request joins only if its whole prompt fits, and leaves 1 % of the pool free unless it is alone.
//!
//! Left out, since it changes no choice: the API front's 46 µs per token and 0.8 ms at the end of an answer.

mod coast;
mod schedule;
mod sequence;
mod truth;

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;

use maitred_types::{Time, TokenCount};

use crate::kv::{BlockPool, CacheChange, KeyMap};
use crate::lora::{Adapters, LoraOptions};
use crate::profile::{EngineProfile, StepBatch};
use crate::request::{FinishReason, Refused, RequestNumber, SimEvent, SimRequest};
use crate::stats::{EngineStats, Gauges};
use sequence::{Phase, Sequence};

/// Whether full blocks are kept and found again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixCaching {
    /// They are.
    On,
    /// Every prompt is computed from its first token.
    Off,
}

/// When the gauges change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GaugeUpdates {
    /// At the end of each step only, as in real engines: what arrives during a long step is not seen before it ends.
    PerStep,
    /// Whenever they are read.
    Live,
}

/// Which tokens are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenEvents {
    /// Each.
    Each,
    /// The first one of each answer. Long stretches of decoding are then computed at once, several times as fast, with the
    /// same results.
    First,
}

/// A cold engine: its first requests are slower.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmUp {
    /// How many requests must have ended before it is warm.
    pub requests: u64,
    /// How many times longer a step takes until then.
    pub factor: f64,
}

/// How an engine is set up.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineOptions {
    /// Tokens per KV block.
    pub block_size: NonZeroU32,
    /// Blocks of the pool; `None` takes what the profile's memory holds. Below two counts as two.
    pub blocks: Option<u32>,
    /// Most sequences running at once; `None` takes the profile's.
    pub sequences: Option<NonZeroU32>,
    /// Most tokens computed in one step; `None` takes the profile's.
    pub batched_tokens: Option<NonZeroU32>,
    /// The model's context: most tokens of prompt and answer together.
    pub context: TokenCount,
    /// The prefix cache.
    pub prefix_caching: PrefixCaching,
    /// Adapters, if the engine has any.
    pub lora: Option<LoraOptions>,
    /// When the gauges change.
    pub gauges: GaugeUpdates,
    /// Which tokens are told.
    pub token_events: TokenEvents,
    /// A slow start, if any.
    pub warm_up: Option<WarmUp>,
    /// Most requests held at once, running ones included.
    pub requests: usize,
}

impl Default for EngineOptions {
    /// vLLM's: blocks of 16, prefix cache on; and a context of 32,768 tokens.
    fn default() -> Self {
        Self {
            block_size: const { NonZeroU32::new(16).expect("not zero") },
            blocks: None,
            sequences: None,
            batched_tokens: None,
            context: TokenCount::new(32_768),
            prefix_caching: PrefixCaching::On,
            lora: None,
            gauges: GaugeUpdates::PerStep,
            token_events: TokenEvents::Each,
            warm_up: None,
            requests: 65_536,
        }
    }
}

/// A broken promise of the model's bookkeeping: which one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation(pub &'static str);

/// Limits that do not change while an engine lives.
#[derive(Clone, Copy, Debug)]
struct Limits {
    block_size: u32,
    watermark: u32,
    sequences: usize,
    batched_tokens: u32,
    context: u32,
    requests: usize,
    caching: bool,
}

/// Where a sequence is kept.
type Place = usize;

/// A step under way.
#[derive(Clone, Copy, Debug)]
struct Step {
    ends: Time,
    batch: StepBatch,
}

/// One engine in virtual time.
#[derive(Clone, Debug)]
pub struct EngineModel {
    profile: EngineProfile,
    limits: Limits,
    lora_load: Duration,
    warm_up: Option<WarmUp>,
    gauge_updates: GaugeUpdates,
    token_events: TokenEvents,
    pace: f64,
    now: Time,
    step: Option<Step>,
    pool: BlockPool,
    adapters: Adapters,
    sequences: Vec<Sequence>,
    vacant: Vec<Place>,
    places: KeyMap<u64, Place>,
    arriving: VecDeque<(Time, Place)>,
    waiting: VecDeque<Place>,
    running: Vec<Place>,
    /// What the step under way computes: whose tokens, and how many.
    plan: Vec<(Place, u32)>,
    /// A stretch of decoding that is computed at once, if the step under way is part of one.
    ride: Option<coast::Ride>,
    busy: Duration,
    /// Whether a running request has been cancelled during the step under way.
    cancelled: bool,
    /// How many waiting requests the last step passed over for want of an adapter slot.
    deferred: usize,
    stats: EngineStats,
}

impl EngineModel {
    /// An idle engine of this profile that starts at `start`.
    #[must_use]
    pub fn new(profile: &EngineProfile, options: &EngineOptions, start: Time) -> Self {
        let block_size = options.block_size.get();
        let pool = BlockPool::new(options.blocks.unwrap_or(profile.kv_tokens / block_size));
        let at_most = |own: Option<NonZeroU32>, default: u32| own.map_or(default, NonZeroU32::get);
        let limits = Limits {
            block_size,
            watermark: pool.usable() / 100,
            sequences: at_most(options.sequences, profile.sequences) as usize,
            batched_tokens: at_most(options.batched_tokens, profile.batched_tokens),
            context: options.context.get(),
            requests: options.requests,
            caching: options.prefix_caching == PrefixCaching::On,
        };
        let mut model = Self {
            profile: *profile,
            limits,
            lora_load: options.lora.as_ref().map_or(Duration::ZERO, |lora| lora.load_time),
            warm_up: options.warm_up,
            gauge_updates: options.gauges,
            token_events: options.token_events,
            pace: 1.0,
            now: start,
            step: None,
            pool,
            adapters: Adapters::new(options.lora.as_ref()),
            sequences: Vec::new(),
            vacant: Vec::new(),
            places: KeyMap::default(),
            arriving: VecDeque::new(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            plan: Vec::new(),
            ride: None,
            busy: Duration::ZERO,
            cancelled: false,
            deferred: 0,
            stats: EngineStats::new(),
        };
        model.stats.gauges = model.present_gauges();
        model
    }

    /// Takes a request that reaches the API front at `now`.
    ///
    /// # Errors
    /// Refuses what can never be computed, and what is too much to hold.
    pub fn submit(&mut self, request: SimRequest, now: Time) -> Result<(), Refused> {
        self.check(&request)?;
        let now = now.max(self.now);
        if let Some(max_tokens) = request.max_tokens {
            self.stats.histograms.max_tokens.observe_count(max_tokens.into());
        }
        let number = request.id.0;
        let sequence = Sequence::new(request, now);
        let place = if let Some(place) = self.vacant.pop() {
            self.sequences[place] = sequence;
            place
        } else {
            self.sequences.push(sequence);
            self.sequences.len() - 1
        };
        self.places.insert(number, place);
        self.arriving.push_back((now + self.profile.front_delay, place));
        Ok(())
    }

    fn check(&self, request: &SimRequest) -> Result<(), Refused> {
        if self.places.len() >= self.limits.requests {
            return Err(Refused::QueueFull);
        }
        if self.places.contains_key(&request.id.0) {
            return Err(Refused::DuplicateNumber);
        }
        if request.adapter.is_some_and(|adapter| !self.adapters.knows(adapter)) {
            return Err(Refused::UnknownAdapter);
        }
        let tokens = u64::from(request.prompt.tokens().max(1)) + u64::from(request.output_tokens);
        if tokens > u64::from(self.limits.context) {
            return Err(Refused::TooLong {
                limit: TokenCount::new(self.limits.context),
            });
        }
        let room = u64::from(self.pool.usable()) * u64::from(self.limits.block_size);
        if tokens > room {
            return Err(Refused::NeverFits {
                limit: TokenCount::saturating_from(room),
            });
        }
        Ok(())
    }

    /// Drops a request, wherever it is. Its blocks are free at once, or at the end of the step that computes it. Whether it
    /// was there is told.
    pub fn cancel(&mut self, id: RequestNumber, now: Time) -> bool {
        let Some(place) = self.places.remove(&id.0) else {
            return false;
        };
        let now = now.max(self.now);
        self.interrupt();
        match self.sequences[place].phase {
            Phase::Arriving => {
                self.arriving.retain(|(_, other)| *other != place);
                self.vacate(place);
            }
            Phase::Waiting => {
                self.waiting.retain(|other| *other != place);
                self.adapters.dequeue(self.sequences[place].adapter);
                self.vacate(place);
            }
            Phase::Running | Phase::Leaving | Phase::Vacant => {
                self.sequences[place].phase = Phase::Leaving;
                self.cancelled = true;
            }
        }
        self.stats.counters.count(FinishReason::Abort);
        if self.step.is_none() {
            // An idle engine makes an empty step to let the request go, and reports after it.
            self.publish(now);
        }
        true
    }

    /// When something happens next, if nothing new is submitted.
    #[must_use]
    pub fn next_event(&self) -> Option<Time> {
        match self.step {
            Some(step) => Some(step.ends),
            None => self.arriving.front().map(|(ready, _)| *ready),
        }
    }

    /// From here on changes of the prefix cache are noted, to be asked for.
    pub fn note_cache_changes(&mut self) {
        self.pool.note_changes();
    }

    /// What happened to the prefix cache since this was last called, in order. Bounded: who does not ask misses the later ones.
    pub fn take_cache_changes(&mut self) -> Vec<CacheChange> {
        self.pool.take_changes()
    }

    /// Lets time pass up to and including `to`, and tells `sink` what can be seen of it, in order of time.
    pub fn advance(&mut self, to: Time, sink: &mut impl FnMut(SimEvent)) {
        self.coast(to, sink);
        while let Some(next) = self.next_event().filter(|next| *next <= to) {
            self.now = self.now.max(next);
            if self.step.take().is_some() {
                self.complete(sink);
            }
            self.begin(sink);
            if self.token_events == TokenEvents::First {
                self.set_out();
                self.coast(to, sink);
            }
        }
        self.now = self.now.max(to);
    }

    /// Makes steps take `factor` times as long from the next one on.
    pub fn set_pace(&mut self, factor: f64) {
        self.pace = if factor.is_finite() {
            factor.clamp(0.01, 1000.0)
        } else {
            1.0
        };
    }

    /// What the engine says about itself. See [`EngineModel::gauges`] for those of this instant.
    #[must_use]
    pub const fn stats(&self) -> &EngineStats {
        &self.stats
    }

    /// The gauges as a reader of the page sees them.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        match self.gauge_updates {
            GaugeUpdates::PerStep => self.stats.gauges,
            GaugeUpdates::Live => self.present_gauges(),
        }
    }

    /// How many requests have not ended.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.places.len()
    }

    /// Tokens per KV block.
    #[must_use]
    pub const fn block_size(&self) -> u32 {
        self.limits.block_size
    }

    /// Blocks of the KV pool, the one that is never used included.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.pool.usable() + 1
    }

    /// Checks the bookkeeping: reference counts, free list, cached names, and who is where.
    ///
    /// # Errors
    /// Says which promise is broken.
    pub fn check_invariants(&self) -> Result<(), Violation> {
        let living = self.sequences.iter().filter(|sequence| sequence.phase != Phase::Vacant);
        self.pool
            .check(living.clone().flat_map(|sequence| &sequence.blocks))
            .map_err(Violation)?;
        let queued = self.arriving.len() + self.waiting.len() + self.running.len();
        if living.count() != queued {
            return Err(Violation("a sequence is in no queue, or in two"));
        }
        let leaving = self
            .running
            .iter()
            .filter(|place| self.sequences[**place].phase == Phase::Leaving)
            .count();
        if self.places.len() + leaving != queued {
            return Err(Violation("a number leads to no sequence"));
        }
        if self.running.len() > self.limits.sequences {
            return Err(Violation("more sequences run than may"));
        }
        let computed: u64 = self.plan.iter().map(|(_, tokens)| u64::from(*tokens)).sum();
        if computed > u64::from(self.limits.batched_tokens) {
            return Err(Violation("a step computes more tokens than its budget"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
