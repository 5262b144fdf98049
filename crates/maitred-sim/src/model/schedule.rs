//! What a step computes, and what is left when it ends.

use std::time::Duration;

use super::{EngineModel, Phase, Place, Step, TokenEvents};
use crate::profile::StepBatch;
use crate::request::SimEvent;
use crate::stats::Gauges;

/// The step that is being put together.
#[derive(Debug)]
struct Draft {
    budget: u32,
    batch: StepBatch,
    loads: u32,
    preempted: bool,
}

impl EngineModel {
    /// Starts the next step, if there is anything to compute.
    pub(super) fn begin(&mut self, sink: &mut impl FnMut(SimEvent)) {
        self.admit_arrivals();
        let mut draft = self.draft(sink);
        if self.plan.is_empty() && draft.preempted {
            // A lone sequence gave up its own blocks; nothing else runs, so it can join again at once.
            draft = self.draft(sink);
        }
        if self.plan.is_empty() {
            return;
        }
        let loading = self.lora_load.saturating_mul(draft.loads);
        let ends = self.now + self.step_time(&draft.batch) + loading;
        self.busy += ends.since(self.now);
        self.step = Some(Step {
            ends,
            batch: draft.batch,
        });
    }

    /// How long a step takes, loading adapters apart.
    pub(super) fn step_time(&self, batch: &StepBatch) -> Duration {
        let cold = self.warm_up.filter(|warm_up| self.ended() < warm_up.requests);
        let pace = self.pace * cold.map_or(1.0, |warm_up| warm_up.factor);
        let kernels = self.profile.costs.step(batch);
        let kernels = Duration::try_from_secs_f64(kernels.as_secs_f64() * pace).unwrap_or(kernels);
        kernels + self.profile.step_overhead
    }

    fn ended(&self) -> u64 {
        let counters = &self.stats.counters;
        counters.stopped + counters.cut + counters.aborted
    }

    fn admit_arrivals(&mut self) {
        while let Some((ready, place)) = self.arriving.front().copied()
            && ready <= self.now
        {
            self.arriving.pop_front();
            self.sequences[place].phase = Phase::Waiting;
            self.adapters.enqueue(self.sequences[place].adapter);
            self.waiting.push_back(place);
        }
    }

    fn draft(&mut self, sink: &mut impl FnMut(SimEvent)) -> Draft {
        self.plan.clear();
        let mut draft = Draft {
            budget: self.limits.batched_tokens,
            batch: StepBatch::default(),
            loads: 0,
            preempted: false,
        };
        self.draft_running(&mut draft, sink);
        if !draft.preempted {
            self.draft_waiting(&mut draft);
        }
        draft
    }

    fn draft_running(&mut self, draft: &mut Draft, sink: &mut impl FnMut(SimEvent)) {
        let mut index = 0;
        while index < self.running.len() && draft.budget > 0 {
            let place = self.running[index];
            let sequence = &self.sequences[place];
            let tokens = (sequence.known() - sequence.computed).min(draft.budget);
            while !self.grow(place, tokens) {
                // The victim joined last, so it lies behind `index` or is the sequence itself, and is not in the plan.
                draft.preempted = true;
                self.preempt_last(sink);
                if index >= self.running.len() {
                    return;
                }
            }
            self.add(place, tokens, draft);
            index += 1;
        }
    }

    fn draft_waiting(&mut self, draft: &mut Draft) {
        let mut index = 0;
        while draft.budget > 0 && self.running.len() < self.limits.sequences {
            let Some(place) = self.waiting.get(index).copied() else {
                break;
            };
            let adapter = self.sequences[place].adapter;
            if adapter.is_some_and(|adapter| !self.adapters.has_slot(adapter)) {
                // Others may overtake a request whose adapter finds no slot.
                index += 1;
                continue;
            }
            let Some(tokens) = self.join(place, draft.budget) else {
                break;
            };
            draft.loads += u32::from(adapter.is_some_and(|adapter| self.adapters.place(adapter, self.now)));
            self.adapters.dequeue(adapter);
            self.adapters.start(adapter);
            self.waiting.remove(index);
            self.running.push(place);
            self.add(place, tokens, draft);
        }
        self.deferred = index;
    }

    /// Whether a waiting request could join a batch in which all others decode.
    pub(super) fn finds_room(&self) -> bool {
        let first = self.waiting.get(self.first_with_slot());
        self.running.len() < self.limits.sequences && first.is_some_and(|place| self.fits(*place).is_some())
    }

    /// Whether the next step, if nobody joins it, would pass over as many waiting requests as the last.
    pub(super) fn defers_as_before(&self) -> bool {
        let is_full = self.running.len() >= self.limits.sequences;
        self.deferred == if is_full { 0 } else { self.first_with_slot() }
    }

    /// The first waiting request that lacks no adapter slot.
    fn first_with_slot(&self) -> usize {
        let has_slot = |place: &Place| {
            let adapter = self.sequences[*place].adapter;
            adapter.is_none_or(|adapter| self.adapters.has_slot(adapter))
        };
        self.waiting.iter().position(has_slot).unwrap_or(self.waiting.len())
    }

    /// How many leading blocks of a waiting request are cached, if the rest fits too.
    fn fits(&self, place: Place) -> Option<u32> {
        let (matched, matched_free) = self.matched_blocks(place);
        let needed = self.sequences[place].known().div_ceil(self.limits.block_size) - matched;
        let reserve = if self.running.is_empty() {
            0
        } else {
            self.limits.watermark
        };
        (self.pool.free() >= needed + matched_free + reserve).then_some(matched)
    }

    /// Lets a waiting request into the batch if its whole prompt fits; how many tokens it computes first.
    fn join(&mut self, place: Place, budget: u32) -> Option<u32> {
        let block_size = self.limits.block_size;
        let matched = self.fits(place)?;
        let sequence = &self.sequences[place];
        let (known, cached) = (sequence.known(), matched * block_size);
        let expected = (sequence.prompt + sequence.output).div_ceil(block_size) as usize;
        let mut blocks = Vec::with_capacity(expected);
        for hash in &sequence.hashes[..matched as usize] {
            if let Some((block, _)) = self.pool.find(*hash) {
                self.pool.share(block);
                blocks.push(block);
            }
        }
        let now = self.now;
        let sequence = &mut self.sequences[place];
        sequence.published = blocks.len();
        sequence.blocks = blocks;
        sequence.computed = cached;
        sequence.phase = Phase::Running;
        if sequence.cached.is_none() {
            sequence.cached = Some(cached);
            sequence.admitted = now;
            if self.limits.caching {
                self.stats.counters.prefix_queries += u64::from(sequence.prompt);
                self.stats.counters.prefix_hits += u64::from(cached);
            }
        }
        let tokens = (known - cached).min(budget);
        let grown = self.grow(place, tokens);
        debug_assert!(grown, "blocks for the whole prompt were counted");
        Some(tokens)
    }

    /// How many of a request's leading blocks are cached, and how many of those nobody holds. The last known token is always
    /// computed, so its block is never taken from the cache.
    pub(super) fn matched_blocks(&self, place: Place) -> (u32, u32) {
        let sequence = &self.sequences[place];
        if !self.limits.caching {
            return (0, 0);
        }
        let most = (sequence.known() - 1) / self.limits.block_size;
        let (mut matched, mut free) = (0, 0);
        for hash in sequence.hashes.iter().take(most as usize) {
            let Some((_, is_free)) = self.pool.find(*hash) else {
                break;
            };
            matched += 1;
            free += u32::from(is_free);
        }
        (matched, free)
    }

    /// Takes the blocks that `tokens` more tokens of a sequence need; false, with nothing lost, when the pool is too empty.
    fn grow(&mut self, place: Place, tokens: u32) -> bool {
        let sequence = &mut self.sequences[place];
        let needed = u64::from(sequence.computed + tokens);
        let block_size = u64::from(self.limits.block_size);
        // Most decode steps stay within the last block; a product is cheaper than a quotient.
        let room = sequence.blocks.len() as u64 * block_size;
        if needed <= room {
            return true;
        }
        let missing = (needed - room).div_ceil(block_size);
        if missing > u64::from(self.pool.free()) {
            return false;
        }
        for _ in 0..missing {
            sequence.blocks.extend(self.pool.allocate());
        }
        true
    }

    fn preempt_last(&mut self, sink: &mut impl FnMut(SimEvent)) {
        let Some(place) = self.running.pop() else { return };
        let sequence = &mut self.sequences[place];
        self.pool.release(&mut sequence.blocks);
        self.adapters.stop(sequence.adapter);
        self.adapters.enqueue(sequence.adapter);
        sequence.computed = 0;
        sequence.published = 0;
        sequence.preemptions += 1;
        sequence.phase = Phase::Waiting;
        self.waiting.push_front(place);
        self.stats.counters.preemptions += 1;
        sink(SimEvent::Preempted {
            id: sequence.id,
            at: self.now,
        });
    }

    /// Puts a sequence's next tokens into the plan. The blocks they fill can be found from here on: whoever hits one in the
    /// same step computes after it.
    fn add(&mut self, place: Place, tokens: u32, draft: &mut Draft) {
        let sequence = &mut self.sequences[place];
        if sequence.decodes() {
            draft.batch.add_decode(sequence.known());
        } else {
            draft.batch.add_prefill(tokens, sequence.computed);
        }
        if self.limits.caching {
            let (known, block_size) = (sequence.computed + tokens, self.limits.block_size as usize);
            while (sequence.published + 1) * block_size <= known as usize {
                let index = sequence.published;
                self.pool.publish(sequence.blocks[index], sequence.hashes[index]);
                sequence.published += 1;
            }
        }
        draft.budget -= tokens;
        self.plan.push((place, tokens));
    }

    /// Ends the step under way: tokens appear, finished sequences leave, the gauges are renewed.
    pub(super) fn complete(&mut self, sink: &mut impl FnMut(SimEvent)) {
        let plan = std::mem::take(&mut self.plan);
        let mut leaving = false;
        let mut computed = 0;
        for (place, tokens) in &plan {
            computed += u64::from(*tokens);
            leaving |= self.settle(*place, *tokens, sink);
        }
        self.plan = plan;
        self.plan.clear();
        self.stats.counters.steps += 1;
        self.stats.counters.computed_tokens += computed;
        self.stats.histograms.step_tokens.observe_count(computed);
        if leaving || std::mem::take(&mut self.cancelled) {
            self.dismiss();
        }
        self.publish(self.now);
    }

    /// Books one sequence's part of the step; whether it leaves the batch.
    fn settle(&mut self, place: Place, tokens: u32, sink: &mut impl FnMut(SimEvent)) -> bool {
        let sequence = &mut self.sequences[place];
        if sequence.phase == Phase::Leaving {
            return true;
        }
        sequence.computed += tokens;
        if sequence.computed < sequence.known() {
            return false;
        }
        let (now, first) = (self.now, sequence.generated == 0);
        if sequence.output > 0 {
            sequence.generate(self.limits.block_size, self.limits.caching);
            if first || self.token_events == TokenEvents::Each {
                let (id, n) = (sequence.id, sequence.generated);
                sink(SimEvent::Token { id, n, at: now });
            }
            self.stats.counters.generation_tokens += 1;
        }
        if first {
            sequence.first_token = now;
            self.stats.counters.prompt_tokens += u64::from(sequence.prompt);
            self.stats.counters.cached_tokens += u64::from(sequence.cached.unwrap_or_default());
            self.stats
                .histograms
                .first_token
                .observe_time(now.since(sequence.submitted), 1);
        } else {
            self.stats
                .histograms
                .between_tokens
                .observe_time(now.since(sequence.last_token), 1);
        }
        sequence.last_token = now;
        if !sequence.is_done() {
            return false;
        }
        sequence.phase = Phase::Leaving;
        let (id, reason, usage) = (sequence.id, sequence.reason(), sequence.usage());
        self.stats.counters.count(reason);
        self.places.remove(&id.0);
        self.note_end(place);
        sink(SimEvent::Finished {
            id,
            reason,
            usage,
            at: now,
        });
        true
    }

    fn note_end(&mut self, place: Place) {
        let sequence = &self.sequences[place];
        let histograms = &mut self.stats.histograms;
        let decode = self.now.since(sequence.first_token);
        histograms
            .end_to_end
            .observe_time(self.now.since(sequence.submitted), 1);
        histograms
            .queued
            .observe_time(sequence.admitted.since(sequence.submitted), 1);
        histograms.inference.observe_time(self.now.since(sequence.admitted), 1);
        histograms
            .prefill
            .observe_time(sequence.first_token.since(sequence.admitted), 1);
        histograms.decode.observe_time(decode, 1);
        if sequence.generated > 1 {
            histograms
                .per_output_token
                .observe_time(decode / (sequence.generated - 1), 1);
        }
        histograms.prompt_tokens.observe_count(sequence.prompt.into());
        histograms.generation_tokens.observe_count(sequence.generated.into());
        let computed = sequence.prompt - sequence.cached.unwrap_or_default();
        histograms.computed_tokens.observe_count(computed.into());
        histograms.preemptions.observe_count(sequence.preemptions.into());
    }

    /// Takes sequences that have ended out of the batch, in order.
    fn dismiss(&mut self) {
        let mut running = std::mem::take(&mut self.running);
        running.retain(|place| {
            let leaves = self.sequences[*place].phase == Phase::Leaving;
            if leaves {
                self.adapters.stop(self.sequences[*place].adapter);
                self.vacate(*place);
            }
            !leaves
        });
        self.running = running;
    }

    pub(super) fn vacate(&mut self, place: Place) {
        let sequence = &mut self.sequences[place];
        self.pool.release(&mut sequence.blocks);
        sequence.phase = Phase::Vacant;
        sequence.hashes = Vec::new();
        self.vacant.push(place);
    }

    /// Renews what the metrics page shows.
    pub(super) fn publish(&mut self, now: maitred_types::Time) {
        self.stats.gauges = self.present_gauges();
        if self.adapters.any() {
            self.stats.note_adapters(self.adapters.in_use(), now);
        }
    }

    pub(super) fn present_gauges(&self) -> Gauges {
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX);
        Gauges {
            running: count(self.running.len()),
            waiting: count(self.waiting.len()),
            deferred: count(self.deferred.min(self.waiting.len())),
            kv_used: self.pool.used(),
            kv_usable: self.pool.usable(),
        }
    }
}
