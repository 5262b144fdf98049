//! Dead reckoning: what an endpoint's figures are now, given a sample that is some time old.
//!
//! For requests, with this gateway's own leases:
//!
//! ```text
//! L̂(t) = own(t) + told(t) + F(t),    F from the history of L_S − own(t_S) − told(t_S)
//! ```
//!
//! L_S is what a sample of t_S counts, own(t) the leases that are live, told(t) what other gateways say. What is known is never taken from
//! a page; a page says what there is beyond it, and is believed in that as far as its past has earned ([`crate::others`]).
//! For the KV cache, of which own leases do not say how much they share, the sample is carried forward instead:
//!
//! ```text
//! K̂(t) = max(0, K_S + Σ x_r booked after t_S − lag − Σ x_r in the sample and ended after t_S)
//! ```
//!
//! The log of own bookings is never reset at a scrape. A new sample only moves the line between the leases that it provably
//! includes (booked before t_S − lag) and those it does not; ends that happened between sending the request for the page and
//! reading it are kept in a short log, since the page may have been written before them. The lag is half the engine's update interval.
//! Leases booked within it may be in the sample or not, so they are neither missing from it nor others' when they are.
//!
//! The same with three sizes:
//!
//! * **requests**: x = 1, released at the end. Waiting and running are told apart by two rules. A new request waits only
//!   where the sample shows others waiting, since engines admit at once when nobody is before it. Each first token of a lease
//!   that the sample includes means that one request has left the queue.
//! * **prefill tokens**: own leases that do not decode yet; no sample needed.
//! * **KV tokens**: prompt tokens in whole blocks at booking; each lease that decodes grows by one token per decode
//!   step, `Σ rate · dt`; prompt and output are released at the end. The rate is learnt from the endpoint's own answers.
//!
//! A lease decodes from its first token on. The output of a call that is not streamed is seen at its end only, so its beginning is
//! assumed: after the time that the prompt tokens before it on its endpoint take, its own included, at 8,192 tokens a second. That is
//! early where other gateways' requests wait before it, which costs a few tokens between two samples; never beginning would hide all
//! of its growth.
//!
//! Nobody waits in an engine but own leases without output and others: a queue that a page shows beyond that is over.

use std::time::Duration;

use maitred_types::{Time, TokenCount};

use crate::ReckoningOptions;
use crate::backlog::seconds;
use crate::lease::{Lease, LeaseList, LeaseTable};
use crate::others::Others;

/// Block size taken where nobody says one.
const DEFAULT_BLOCK: u32 = 16;
/// Ends and first tokens kept for the next sample, per endpoint. Beyond it the oldest are forgotten, which overstates the
/// endpoint's load until the sample after.
pub(crate) const MAX_MARKS: usize = 512;
/// Bounds of a learnt rate in tokens per second.
const RATE_BOUNDS: (f64, f64) = (0.1, 10_000.0);
/// Prompt tokens that an engine computes in a second, for guessing when an answer begins that is seen at its end only. One large
/// chunk; the order of magnitude of current accelerators.
const PREFILL_RATE: f64 = 8_192.0;
/// An answer shorter than this teaches no rate.
const SHORTEST_LESSON: (u32, Duration) = (8, Duration::from_millis(50));

/// The sizes of an endpoint's KV pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KvPool {
    pub(crate) block_size: Option<u32>,
    pub(crate) blocks: Option<u32>,
}

impl KvPool {
    fn block_size(self) -> u32 {
        self.block_size.filter(|size| *size > 0).unwrap_or(DEFAULT_BLOCK)
    }

    /// One over the tokens it holds; zero when that is not known.
    fn share(self) -> f64 {
        let blocks = self.blocks.filter(|blocks| *blocks > 0);
        blocks.map_or(0.0, |blocks| 1.0 / (f64::from(blocks) * f64::from(self.block_size())))
    }
}

/// The figures of one sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    pub(crate) queued: u32,
    pub(crate) running: u32,
    pub(crate) kv_used: Option<f64>,
}

/// What happened on an endpoint since its sample, and the sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Live leases that decode, as far as is seen or assumed.
    pub(crate) decoding: u32,
    /// Prompt tokens of live leases that do not decode yet.
    pub(crate) prefill_tokens: u64,
    /// KV blocks that the live leases will hold at their expected ends.
    pub(crate) expected_blocks: u64,
    /// Tokens of context of the live leases that decode.
    context: f64,
    sample: Sample,
    block_size: u32,
    /// One over the tokens that the KV pool holds; zero when that is not known.
    kv_share: f64,
    /// Live leases that the sample cannot include and that do not decode yet.
    unseen_waiting: u32,
    /// Leases that the sample includes before they decoded and that began to, or ended, since.
    started: u32,
    /// KV tokens booked less KV tokens released since the sample.
    kv_moved: f64,
    /// KV tokens that decode added since the sample, up to `grown_at`.
    kv_grown: f64,
    grown_at: Time,
    /// Output tokens per second of one lease.
    rate: f64,
    /// What the samples count beyond what is known of.
    pub(crate) others: Others,
}

/// An endpoint's figures, carried forward to a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Requests in the endpoint: at least the own leases.
    pub active: u32,
    /// Requests that wait in the engine.
    pub queued: u32,
    /// Requests that the engine runs.
    pub running: u32,
    /// Fraction of the KV cache in use, 0 to 1. `None` where it is not known.
    pub kv_used: Option<f64>,
}

impl Load {
    pub(crate) fn new(pool: KvPool, options: &ReckoningOptions, now: Time) -> Self {
        Self {
            decoding: 0,
            prefill_tokens: 0,
            expected_blocks: 0,
            context: 0.0,
            sample: Sample::default(),
            block_size: pool.block_size(),
            kv_share: pool.share(),
            unseen_waiting: 0,
            started: 0,
            kv_moved: 0.0,
            kv_grown: 0.0,
            grown_at: now,
            rate: options.decode_rate.clamp(RATE_BOUNDS.0, RATE_BOUNDS.1),
            others: Others::default(),
        }
    }

    /// The share of the endpoint's requests that are not own ones, where `in_flight` are.
    pub(crate) fn foreign_share(&self, in_flight: u32, now: Time) -> f64 {
        let others = self.others.now(now);
        others / (others + f64::from(in_flight)).max(1.0)
    }

    /// One over the tokens that the KV pool holds; zero when that is not known.
    pub(crate) const fn kv_share(&self) -> f64 {
        self.kv_share
    }

    /// What running and waiting requests want of the KV cache, as a share of it; above 1 where some must wait for others to end.
    /// A waiting request that was not booked after the sample wants `waiting` tokens.
    pub(crate) fn kv_demand(&self, waiting: f64, now: Time) -> Option<f64> {
        let moved = self.kv_moved + self.kv_grown + self.growth(now);
        let queued = self.sample.queued.saturating_sub(self.started);
        Some(self.sample.kv_used? + (moved + f64::from(queued) * waiting) * self.kv_share)
    }

    /// Tokens of context of `running` sequences, if those of others are like the own ones.
    pub(crate) fn batch_context(&self, running: f64) -> f64 {
        if self.decoding == 0 {
            0.0
        } else {
            self.context * (running / f64::from(self.decoding))
        }
    }

    /// Output tokens per second of one lease, as learnt.
    pub(crate) const fn rate(&self) -> f64 {
        self.rate
    }

    /// Counts a lease in, of which `output` tokens are expected, and gives it its sizes in the KV cache.
    pub(crate) fn booked(&mut self, lease: &mut Lease, output: TokenCount) {
        let block = self.block_size;
        lease.context = f64::from(lease.input.get()) + 0.5 * f64::from(output.get());
        lease.expected_blocks = (lease.input + output).get().div_ceil(block);
        self.expected_blocks += u64::from(lease.expected_blocks);
        lease.kv_tokens = f64::from(lease.input.get().div_ceil(block)) * f64::from(block);
        self.prefill_tokens += u64::from(lease.input.get());
        self.unseen_waiting += 1;
        self.kv_moved += lease.kv_tokens;
    }

    /// When the output of a lease just counted in is assumed to begin, if nobody sees it.
    pub(crate) fn assumed_start(&self, now: Time) -> Time {
        now + Duration::from_secs_f64(self.prefill_tokens as f64 / PREFILL_RATE)
    }

    /// Counts that `lease` begins to decode, which it must not have done before.
    pub(crate) fn begins(&mut self, lease: &Lease, now: Time) {
        self.grow(now);
        self.decoding += 1;
        self.context += lease.context;
        self.leave_prefill(lease);
    }

    /// Counts a lease out.
    pub(crate) fn ended(&mut self, lease: &Lease, now: Time) {
        self.grow(now);
        if lease.decoding_since.is_some() {
            self.decoding = self.decoding.saturating_sub(1);
            self.context = if self.decoding == 0 {
                0.0
            } else {
                (self.context - lease.context).max(0.0)
            };
        } else {
            self.leave_prefill(lease);
        }
        self.expected_blocks = self.expected_blocks.saturating_sub(u64::from(lease.expected_blocks));
        self.kv_moved -= self.kv_held(lease, now);
    }

    fn leave_prefill(&mut self, lease: &Lease) {
        self.prefill_tokens = self.prefill_tokens.saturating_sub(u64::from(lease.input.get()));
        if lease.in_sample {
            self.started += 1;
        } else {
            self.unseen_waiting = self.unseen_waiting.saturating_sub(1);
        }
    }

    /// KV tokens that a lease holds: its prompt, and its output as far as it is known or at the learnt rate.
    pub(crate) fn kv_held(&self, lease: &Lease, now: Time) -> f64 {
        let output = match (lease.output.get(), lease.decoding_since) {
            (0, Some(first)) => self.rate * seconds(first, now),
            (counted, _) => f64::from(counted),
        };
        lease.kv_tokens + output
    }

    fn grow(&mut self, now: Time) {
        self.kv_grown += self.growth(now);
        self.grown_at = now;
    }

    fn growth(&self, now: Time) -> f64 {
        f64::from(self.decoding) * self.rate * seconds(self.grown_at, now)
    }

    /// Learns the decode rate from an answer of `output` tokens that took `decode` after its first.
    pub(crate) fn learn_rate(&mut self, output: u32, decode: Duration, options: &ReckoningOptions) {
        if output < SHORTEST_LESSON.0 || decode < SHORTEST_LESSON.1 {
            return;
        }
        let seen = f64::from(output - 1) / decode.as_secs_f64();
        let weight = options.smoothing.clamp(0.0, 1.0);
        self.rate = (self.rate + weight * (seen - self.rate)).clamp(RATE_BOUNDS.0, RATE_BOUNDS.1);
    }

    /// Sets the sizes of the KV pool.
    pub(crate) fn set_pool(&mut self, pool: KvPool) {
        self.block_size = pool.block_size();
        self.kv_share = pool.share();
    }

    /// Takes a new sample and what it provably does not include.
    pub(crate) fn take(&mut self, sample: Sample, outside: &Outside, sampled_at: Time, now: Time) {
        self.sample = sample;
        self.unseen_waiting = outside.unseen_waiting;
        self.started = outside.started;
        self.kv_moved = outside.kv_moved;
        self.grown_at = sampled_at;
        self.kv_grown = 0.0;
        self.grow(now);
    }

    /// The figures at `now`, sample included, for an endpoint with `in_flight` own leases.
    #[inline]
    pub(crate) fn estimate(&self, in_flight: u32, now: Time) -> Estimate {
        self.believed(in_flight, 1.0, now)
    }

    fn believed(&self, in_flight: u32, trust: f64, now: Time) -> Estimate {
        let others = part(1.0, self.others.at_most(trust, now));
        let active = in_flight.saturating_add(others);
        // Nobody waits but own leases without output, and others.
        let waiting = in_flight.saturating_sub(self.decoding);
        let queued = self.queued().min(waiting.saturating_add(part(1.0, self.others.most())));
        Estimate {
            active: active.max(queued),
            queued,
            running: active.saturating_sub(queued),
            kv_used: self.kv_used(now),
        }
    }

    /// The figures where what the sample says of others is believed to this degree, from 0 to 1.
    #[inline]
    pub(crate) fn trusted(&self, in_flight: u32, trust: f64, now: Time) -> Estimate {
        if trust >= 1.0 {
            return self.estimate(in_flight, now);
        }
        let own = self.own(in_flight);
        if trust <= 0.0 {
            return own;
        }
        // What a page said of others falls off with its age by itself, so trust is but the most that is left of it.
        let all = self.believed(in_flight, trust, now);
        let queued = own.queued + part(f64::from(all.queued.saturating_sub(own.queued)), trust);
        Estimate {
            active: all.active.max(queued),
            queued,
            running: all.active.saturating_sub(queued),
            kv_used: all.kv_used,
        }
    }

    /// The figures that `in_flight` own leases alone give.
    pub(crate) const fn own(&self, in_flight: u32) -> Estimate {
        let queued = in_flight.saturating_sub(self.decoding);
        Estimate {
            active: in_flight,
            queued,
            running: in_flight - queued,
            kv_used: None,
        }
    }

    fn queued(&self) -> u32 {
        let arrived = if self.sample.queued > 0 { self.unseen_waiting } else { 0 };
        self.sample.queued.saturating_add(arrived).saturating_sub(self.started)
    }

    /// Fraction of the KV cache in use. A cache of unknown size is taken as sampled.
    fn kv_used(&self, now: Time) -> Option<f64> {
        let moved = self.kv_moved + self.kv_grown + self.growth(now);
        let used = self.sample.kv_used? + moved * self.kv_share;
        Some(used.clamp(0.0, 1.0))
    }
}

/// This share, from 0 to 1, of a count.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "no share of a count is above it or below zero"
)]
fn part(count: f64, share: f64) -> u32 {
    (count * share).round() as u32
}

/// What a sample provably does not include.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outside {
    unseen: u32,
    unseen_waiting: u32,
    ended: u32,
    started: u32,
    kv_moved: f64,
    /// Leases that wait now and were booked after the sample was asked for.
    later: u32,
    /// Leases that the sample may include or not, having been booked within the lag before it.
    unclear: u32,
}

impl Outside {
    /// What a sample of `requests` counts beyond `told` and the own leases that it includes, where `in_flight` are live now; negative
    /// where it counts less. Of leases that it may or may not include it is not off.
    pub(crate) fn excess(&self, requests: u32, told: u32, in_flight: u32) -> f64 {
        let own = in_flight.saturating_sub(self.unseen).saturating_add(self.ended);
        let least = own.saturating_add(told);
        let most = least.saturating_add(self.unclear);
        f64::from(requests) - f64::from(requests.clamp(least, most))
    }

    /// The most own leases that can have waited for their first token when the sample was taken, given those that wait now.
    pub(crate) const fn own_waiting(&self, waiting: u32) -> u32 {
        waiting.saturating_sub(self.later) + self.started
    }

    /// Draws the line for a sample taken at `sampled_at`: every lease of `list` booked by `cut` is marked as included.
    pub(crate) fn of(leases: &mut LeaseTable, list: LeaseList, marks: &mut Marks, sampled_at: Time, cut: Time) -> Self {
        let mut outside = Self::default();
        leases.visit_newest_first(list, |lease| {
            if lease.in_sample {
                return false;
            }
            lease.in_sample = lease.booked_at <= cut;
            if !lease.in_sample {
                outside.unseen += 1;
                outside.unseen_waiting += u32::from(lease.decoding_since.is_none());
                outside.kv_moved += lease.kv_tokens;
                let is_later = lease.booked_at > sampled_at;
                outside.later += u32::from(is_later && lease.decoding_since.is_none());
                outside.unclear += u32::from(!is_later);
            }
            true
        });
        marks.forget_until(sampled_at);
        for mark in marks.iter().filter(|mark| mark.booked_at <= sampled_at) {
            match mark.kind {
                MarkKind::Ended { .. } if mark.booked_at > cut => outside.unclear += 1,
                MarkKind::Started => outside.started += u32::from(mark.booked_at <= cut),
                MarkKind::Ended { kv_tokens } => {
                    outside.ended += 1;
                    outside.kv_moved -= kv_tokens;
                }
            }
        }
        outside
    }
}

/// Something that happened to a lease and that a sample on its way may not include yet.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Time,
    booked_at: Time,
    kind: MarkKind,
}

#[derive(Clone, Copy, Debug)]
enum MarkKind {
    /// It left the queue: it began to decode, or ended before.
    Started,
    /// It ended and released its KV tokens.
    Ended { kv_tokens: f64 },
}

/// A bounded log of what happened since the newest sample was asked for.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    marks: std::collections::VecDeque<Mark>,
    dropped: u64,
}

impl Marks {
    pub(crate) fn started(&mut self, lease: &Lease, at: Time) {
        self.push(lease, at, MarkKind::Started);
    }

    pub(crate) fn ended(&mut self, lease: &Lease, kv_tokens: f64, at: Time) {
        if lease.decoding_since.is_none() {
            self.started(lease, at);
        }
        self.push(lease, at, MarkKind::Ended { kv_tokens });
    }

    fn push(&mut self, lease: &Lease, at: Time, kind: MarkKind) {
        if self.marks.len() == MAX_MARKS {
            self.marks.pop_front();
            self.dropped += 1;
        }
        self.marks.push_back(Mark {
            at,
            booked_at: lease.booked_at,
            kind,
        });
    }

    fn forget_until(&mut self, sampled_at: Time) {
        while self.marks.front().is_some_and(|mark| mark.at <= sampled_at) {
            self.marks.pop_front();
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Mark> {
        self.marks.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.marks.len()
    }

    /// Entries forgotten because the log was full.
    pub(crate) const fn dropped(&self) -> u64 {
        self.dropped
    }
}
