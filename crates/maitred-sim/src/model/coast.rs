//! Stretches of steps in which every sequence decodes and nobody comes or goes, computed at once.
//!
//! The result is the same as step by step, bit for bit: the same durations, the same blocks for the same sequences in the same
//! order, the same numbers on the page. What is saved is going over every sequence in every step: while a stretch lasts, the
//! sequences lag behind and only blocks are handed out and named when their time comes. A stretch survives being looked at, so
//! how time is cut costs nothing. It ends before the step that ends an answer, at an arrival, when blocks are short, and when a
//! waiting request finds room.

use std::cmp::Ordering;

use maitred_types::Time;

use super::{EngineModel, Place, Step};
use crate::profile::StepBatch;
use crate::request::SimEvent;

/// Steps below which a stretch costs more than it saves.
const WORTHWHILE: u32 = 4;

/// One sequence of the stretch.
#[derive(Clone, Copy, Debug)]
struct Rider {
    place: Place,
    /// Steps of the stretch whose token it has taken up.
    taken: u32,
}

/// A stretch under way. The step that was under way when it began is its step 0.
#[derive(Clone, Debug)]
pub(super) struct Ride {
    /// The sequences, in the order of the batch.
    riders: Vec<Rider>,
    /// In which step each rider needs a block for the first time, from 1 to the block size, and which rider; sorted.
    turns: Vec<(u32, u32)>,
    block_size: u32,
    /// How many blocks have been handed out in this stretch: riders take their turns round and round.
    grown: usize,
    /// The same for blocks that were filled. A block is filled in the step before the next one is needed, so riders of turn 1
    /// have had their first filling before the stretch.
    filled: usize,
    /// Steps that have ended.
    ended: u32,
    /// How many may.
    most: u32,
    /// When the last of them ended.
    last_end: Time,
}

impl Ride {
    /// In which step the `nth` block of the stretch is needed.
    fn growth(&self, nth: usize) -> u64 {
        let (turn, _) = self.turns[nth % self.turns.len()];
        u64::from(turn) + (nth / self.turns.len()) as u64 * u64::from(self.block_size)
    }

    /// In which step the `nth` block of the stretch is full.
    fn filling(&self, nth: usize) -> u64 {
        self.growth(nth) - 1
    }

    fn rider(&self, nth: usize) -> usize {
        self.turns[nth % self.turns.len()].1 as usize
    }

    /// How many blocks step `ahead` needs.
    fn growing(&self, ahead: u64) -> usize {
        (self.grown..self.grown + self.turns.len())
            .take_while(|nth| self.growth(*nth) == ahead)
            .count()
    }
}

/// How the beginning of a next step went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// It is under way.
    Begun,
    /// There are too few blocks; nothing was done.
    Short,
    /// Its blocks are there, and a waiting request has room to join it.
    Joins,
}

impl EngineModel {
    /// Begins a stretch if the step under way is one of pure decoding, and the next few will be.
    pub(super) fn set_out(&mut self) {
        let Some(step) = self.step.filter(|step| step.batch.prefill_tokens == 0) else {
            return;
        };
        if self.cancelled || self.plan.len() != self.running.len() || !self.pauses(&step) {
            return;
        }
        let left = self.running.iter().map(|place| &self.sequences[*place]);
        let left = left
            .map(|sequence| sequence.output - sequence.generated)
            .min()
            .unwrap_or(0);
        if left <= WORTHWHILE || !self.defers_as_before() || self.finds_room() {
            return;
        }
        let block_size = self.limits.block_size;
        let riders = self.running.iter().map(|place| Rider {
            place: *place,
            taken: 0,
        });
        let mut turns: Vec<(u32, u32)> = (0..)
            .zip(&self.running)
            .map(|(index, place)| (block_size - self.sequences[*place].computed % block_size, index))
            .collect();
        turns.sort_unstable();
        let filled = turns.partition_point(|(turn, _)| *turn == 1);
        self.ride = Some(Ride {
            riders: riders.collect(),
            turns,
            block_size,
            grown: 0,
            filled,
            ended: 0,
            // The step that ends the shortest answer is not part of it.
            most: left - 1,
            last_end: self.now,
        });
    }

    /// Whether nobody arrives in the next few steps, and a full batch keeps nobody from joining for want of tokens.
    fn pauses(&self, step: &Step) -> bool {
        let a_while = step.ends.since(self.now) * WORTHWHILE;
        let arrives_soon = self
            .arriving
            .front()
            .is_some_and(|(ready, _)| *ready <= step.ends + a_while);
        !arrives_soon && self.running.len() < self.limits.batched_tokens as usize
    }

    /// Goes on with the stretch under way up to `to`, and ends it where it must end.
    pub(super) fn coast(&mut self, to: Time, sink: &mut impl FnMut(SimEvent)) {
        let Some(mut ride) = self.ride.take() else {
            return;
        };
        let before = ride.ended;
        let over = self.ride_on(&mut ride, to);
        if ride.ended > before {
            self.note_page(ride.last_end);
        }
        match over {
            None => self.ride = Some(ride),
            Some(next) => {
                self.catch_up(&ride);
                if next == Next::Joins {
                    self.begin(sink);
                }
            }
        }
    }

    /// Ends the stretch, wherever it is, because something comes between.
    pub(super) fn interrupt(&mut self) {
        if let Some(ride) = self.ride.take() {
            self.catch_up(&ride);
        }
    }

    /// Ends steps and begins their successors up to `to`. Says why, if the stretch cannot go on.
    fn ride_on(&mut self, ride: &mut Ride, to: Time) -> Option<Next> {
        let mut step = self.step?;
        let arrival = self.arriving.front().map_or(Time::MAX, |(ready, _)| *ready);
        while step.ends <= to {
            if ride.ended >= ride.most || arrival <= step.ends {
                return Some(Next::Short);
            }
            let used = self.pool.used();
            self.now = self.now.max(step.ends);
            let next = self.begin_next(ride);
            if next == Next::Short {
                return Some(next);
            }
            self.note_step(&step.batch, ride);
            self.stats.gauges.kv_used = used;
            ride.ended += 1;
            ride.last_end = self.now;
            if next == Next::Joins {
                self.step = None;
                return Some(next);
            }
            step.batch.context_tokens += step.batch.decodes;
            step.ends = self.now + self.step_time(&step.batch);
            self.busy += step.ends.since(self.now);
            self.step = Some(step);
        }
        None
    }

    /// Renews what the page shows besides the blocks in use.
    fn note_page(&mut self, now: Time) {
        let kv_used = self.stats.gauges.kv_used;
        self.stats.gauges = self.present_gauges();
        self.stats.gauges.kv_used = kv_used;
        if self.adapters.any() {
            self.stats.note_adapters(self.adapters.in_use(), now);
        }
    }

    /// Counts a step that has ended.
    fn note_step(&mut self, batch: &StepBatch, ride: &Ride) {
        let counters = &mut self.stats.counters;
        counters.steps += 1;
        counters.computed_tokens += batch.decodes;
        counters.generation_tokens += batch.decodes;
        let histograms = &mut self.stats.histograms;
        histograms.step_tokens.observe_count(batch.decodes);
        if ride.ended > 0 {
            let gap = self.now.since(ride.last_end);
            histograms.between_tokens.observe_time(gap, batch.decodes);
            return;
        }
        // Before the stretch the sequences may have had their tokens at different times.
        for place in &self.running {
            let gap = self.now.since(self.sequences[*place].last_token);
            histograms.between_tokens.observe_time(gap, 1);
        }
    }

    /// Gives the sequences the blocks that the next step of the stretch needs, and names those that it fills, in the order of
    /// the batch.
    fn begin_next(&mut self, ride: &mut Ride) -> Next {
        let ahead = u64::from(ride.ended) + 1;
        let mut growing = ride.growing(ahead);
        if growing > self.pool.free() as usize {
            return Next::Short;
        }
        let is_full = |ride: &Ride| self.limits.caching && ride.filling(ride.filled) == ahead;
        let mut fills = is_full(ride);
        let any_filled = fills;
        while growing > 0 || fills {
            let (grows, filled) = (ride.rider(ride.grown), ride.rider(ride.filled));
            let order = if fills { grows.cmp(&filled) } else { Ordering::Less };
            // Both, with blocks of one token: first the block, then its name.
            if growing > 0 && order != Ordering::Greater {
                ride.grown += 1;
                growing -= 1;
                let sequence = &mut self.sequences[ride.riders[grows].place];
                sequence.blocks.extend(self.pool.allocate());
            } else {
                ride.filled += 1;
                self.name_block(&mut ride.riders[filled], ride.ended + 1);
                fills = ride.filling(ride.filled) == ahead;
            }
        }
        if any_filled && self.finds_room() {
            return Next::Joins;
        }
        Next::Begun
    }

    fn name_block(&mut self, rider: &mut Rider, ahead: u32) {
        self.take_up(rider, ahead);
        let sequence = &mut self.sequences[rider.place];
        let filled = sequence.published;
        self.pool.publish(sequence.blocks[filled], sequence.hashes[filled]);
        sequence.published += 1;
    }

    /// Lets a sequence take up the tokens generated in the first `steps` steps of the stretch.
    fn take_up(&mut self, rider: &mut Rider, steps: u32) {
        let lag = steps.saturating_sub(rider.taken);
        let sequence = &mut self.sequences[rider.place];
        sequence.generate_many(lag, self.limits.block_size, self.limits.caching);
        rider.taken += lag;
    }

    /// Brings the sequences up to the last step that has ended.
    fn catch_up(&mut self, ride: &Ride) {
        for rider in &ride.riders {
            self.take_up(&mut rider.clone(), ride.ended);
            let sequence = &mut self.sequences[rider.place];
            sequence.computed += ride.ended;
            if ride.ended > 0 {
                sequence.last_token = ride.last_end;
            }
        }
    }

    /// How many tokens the running sequences have generated of which they do not know yet: the `index`th of the batch.
    pub(super) fn lag(&self, index: usize) -> u32 {
        self.ride
            .as_ref()
            .and_then(|ride| Some(ride.ended - ride.riders.get(index)?.taken))
            .unwrap_or(0)
    }

    /// A time up to which [`EngineModel::advance`] tells nothing but preemptions, if nothing is submitted or cancelled. Not
    /// before the end of the step under way, so that going there gets on. `None` when nothing happens any more.
    #[must_use]
    pub fn quiet_until(&self) -> Option<Time> {
        let Some(step) = self.step else {
            return self.next_event();
        };
        let Some(ride) = &self.ride else {
            return Some(step.ends);
        };
        let quiet = step.ends + self.shortest(&step, self.certain_steps(ride));
        let arrival = self.arriving.front().map_or(Time::MAX, |(ready, _)| *ready);
        Some(quiet.min(arrival).max(step.ends))
    }

    /// How many steps after the one under way are certain to be of this stretch, or to end it without ending an answer.
    fn certain_steps(&self, ride: &Ride) -> u32 {
        let mut steps = u64::from(ride.most - ride.ended);
        let ahead = u64::from(ride.ended);
        // After a preemption steps are shorter than expected.
        let short = ride.growth(ride.grown + self.pool.free() as usize);
        steps = steps.min((short - ahead).saturating_sub(1));
        if !self.waiting.is_empty() && self.limits.caching {
            steps = steps.min(ride.filling(ride.filled) - ahead);
        }
        u32::try_from(steps).unwrap_or(u32::MAX)
    }

    /// Never more than what `steps` steps after this one take, and hardly less.
    fn shortest(&self, step: &Step, steps: u32) -> std::time::Duration {
        let after = |steps: u32| {
            let batch = StepBatch {
                context_tokens: step.batch.context_tokens + step.batch.decodes * u64::from(steps),
                ..step.batch
            };
            self.step_time(&batch).as_nanos()
        };
        // A step's time grows evenly with the context. What is taken off is what rounding may have added.
        let sum = (after(1) + after(steps)) * u128::from(steps) / 2;
        let sum = sum.saturating_sub(u128::from(steps) * 3 + sum / 1_000_000_000);
        std::time::Duration::from_nanos(u64::try_from(sum).unwrap_or(u64::MAX))
    }
}
