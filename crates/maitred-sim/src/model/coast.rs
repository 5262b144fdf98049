//! Stretches of steps in which every sequence decodes and nobody comes or goes, computed at once.
//!
//! The result is the same as step by step, bit for bit: the same durations, the same blocks for the same sequences in the same
//! order, the same numbers on the page. What is saved is going over every sequence in every step.

use std::cmp::Ordering;
use std::time::Duration;

use maitred_types::Time;

use super::{EngineModel, Place, Step};
use crate::profile::StepBatch;

/// Steps below which a stretch costs more than it saves.
const WORTHWHILE: u32 = 4;

const NANOSECOND: Duration = Duration::from_nanos(1);

/// One sequence of the stretch.
#[derive(Clone, Copy, Debug)]
struct Rider {
    place: Place,
    /// Its tokens so far, modulo the block size, when the stretch began: decides in which steps it needs a block and fills one.
    phase: u32,
    /// Steps of the stretch whose token it has taken up.
    taken: u32,
}

/// The sequences of the stretch, by phase; within a phase in the order of the batch.
#[derive(Debug)]
struct Riders {
    riders: Vec<Rider>,
    /// Indices into `riders`, sorted by phase.
    by_phase: Vec<usize>,
    /// Where each phase begins in `by_phase`, and where the last ends.
    starts: Vec<usize>,
}

impl Riders {
    fn new(riders: Vec<Rider>, block_size: u32) -> Self {
        let mut by_phase: Vec<usize> = (0..riders.len()).collect();
        by_phase.sort_by_key(|index| riders[*index].phase);
        let start = |phase: u32| by_phase.partition_point(|index| riders[*index].phase < phase);
        let starts = (0..=block_size).map(start).collect();
        Self {
            riders,
            by_phase,
            starts,
        }
    }

    /// The sequences of `phase`, as a range of `by_phase`.
    fn of(&self, phase: u32) -> std::ops::Range<usize> {
        self.starts[phase as usize]..self.starts[phase as usize + 1]
    }
}

impl EngineModel {
    /// Ends steps and begins their successors as long as nothing but decoding happens up to `to`. Leaves the last step begun
    /// under way.
    pub(super) fn coast(&mut self, to: Time) {
        let Some(step) = self.step.filter(|step| step.batch.prefill_tokens == 0) else {
            return;
        };
        let is_steady = self.waiting.is_empty() && !self.cancelled && self.plan.len() == self.running.len();
        // Not beyond the step before the one that ends the shortest answer, nor up to an arrival.
        let left = self.running.iter().map(|place| &self.sequences[*place]);
        let left = left
            .map(|sequence| sequence.output - sequence.generated)
            .min()
            .unwrap_or(0);
        let until = self
            .arriving
            .front()
            .map_or(to, |(ready, _)| to.min(ready.saturating_sub(NANOSECOND)));
        let is_long = until.since(step.ends) > step.ends.since(self.now) * WORTHWHILE && left > WORTHWHILE;
        if !is_steady || !is_long {
            return;
        }
        let block_size = self.limits.block_size;
        let rider = |place: &Place| {
            let phase = self.sequences[*place].computed % block_size;
            Rider {
                place: *place,
                phase,
                taken: 0,
            }
        };
        let mut riders = Riders::new(self.running.iter().map(rider).collect(), block_size);
        let steps = self.ride(step, until, left - 1, &mut riders);
        for rider in &mut riders.riders {
            self.take_up(rider, steps);
            let sequence = &mut self.sequences[rider.place];
            sequence.computed += steps;
            if steps > 0 {
                sequence.last_token = self.now;
            }
        }
    }

    /// Ends at most `most` steps up to `until`, and says how many.
    fn ride(&mut self, mut step: Step, until: Time, most: u32, riders: &mut Riders) -> u32 {
        let (mut ended, mut began) = (0, self.now);
        let sequences = step.batch.decodes;
        while ended < most && step.ends <= until {
            let used = self.pool.used();
            if !self.begin_next(ended + 1, riders) {
                break;
            }
            self.now = step.ends;
            self.note_step(&step.batch, ended, began);
            self.stats.gauges.kv_used = used;
            ended += 1;
            began = self.now;
            step.batch.context_tokens += sequences;
            step.ends = self.now + self.step_time(&step.batch);
        }
        if ended > 0 {
            self.step = Some(step);
            let gauges = &mut self.stats.gauges;
            gauges.running = u32::try_from(self.running.len()).unwrap_or(u32::MAX);
            (gauges.waiting, gauges.deferred) = (0, 0);
            if self.adapters.any() {
                self.stats.note_adapters(self.adapters.in_use(), self.now);
            }
        }
        ended
    }

    /// Counts a step that has ended; `ended` before it in this stretch, the last of them at `began`.
    fn note_step(&mut self, batch: &StepBatch, ended: u32, began: Time) {
        let counters = &mut self.stats.counters;
        counters.steps += 1;
        counters.computed_tokens += batch.decodes;
        counters.generation_tokens += batch.decodes;
        let histograms = &mut self.stats.histograms;
        histograms.step_tokens.observe_count(batch.decodes);
        if ended > 0 {
            histograms
                .between_tokens
                .observe_time(self.now.since(began), batch.decodes);
            return;
        }
        // Before the stretch the sequences may have had their tokens at different times.
        for place in &self.running {
            let gap = self.now.since(self.sequences[*place].last_token);
            histograms.between_tokens.observe_time(gap, 1);
        }
    }

    /// Gives the sequences the blocks that step `ahead` of the stretch needs, and names those that it fills, in the order of
    /// the batch; false, with nothing done, when there are too few blocks.
    fn begin_next(&mut self, ahead: u32, riders: &mut Riders) -> bool {
        let block_size = self.limits.block_size;
        let turn = ahead % block_size;
        // A sequence with `phase + ahead` tokens computed needs a block when that is a multiple of the block size, and fills
        // one when it is one less.
        let mut growing = riders.of((block_size - turn) % block_size);
        let mut filling = riders.of((block_size - turn + block_size - 1) % block_size);
        if growing.len() > self.pool.free() as usize {
            return false;
        }
        if !self.limits.caching {
            filling = 0..0;
        }
        while !growing.is_empty() || !filling.is_empty() {
            let at = |range: &std::ops::Range<usize>| {
                riders.by_phase.get(range.start).copied().filter(|_| !range.is_empty())
            };
            let (grows, fills) = (at(&growing), at(&filling));
            let order = grows
                .map_or(usize::MAX, |index| index)
                .cmp(&fills.map_or(usize::MAX, |index| index));
            match (order, grows, fills) {
                // Both, with blocks of one token: first the block, then its name.
                (Ordering::Less | Ordering::Equal, Some(index), _) => {
                    growing.start += 1;
                    let sequence = &mut self.sequences[riders.riders[index].place];
                    sequence.blocks.extend(self.pool.allocate());
                }
                (_, _, Some(index)) => {
                    filling.start += 1;
                    self.take_up(&mut riders.riders[index], ahead);
                    let sequence = &mut self.sequences[riders.riders[index].place];
                    let filled = sequence.published;
                    self.pool.publish(sequence.blocks[filled], sequence.hashes[filled]);
                    sequence.published += 1;
                }
                (_, _, None) => return true,
            }
        }
        true
    }

    /// Lets a sequence take up the tokens generated in the first `steps` steps of the stretch.
    fn take_up(&mut self, rider: &mut Rider, steps: u32) {
        let sequence = &mut self.sequences[rider.place];
        for _ in rider.taken..steps {
            sequence.generate(self.limits.block_size, self.limits.caching);
        }
        rider.taken = rider.taken.max(steps);
    }
}
