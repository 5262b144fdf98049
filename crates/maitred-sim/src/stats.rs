//! What an engine counts about itself, as its metrics page shows it. Times are in the model's seconds.

use std::time::Duration;

use maitred_types::Time;

use crate::request::FinishReason;

/// Numbers that go up and down.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Requests in the batch.
    pub running: u32,
    /// Requests not in the batch.
    pub waiting: u32,
    /// Those of the waiting ones that wait for an adapter slot.
    pub deferred: u32,
    /// KV blocks that running requests hold.
    pub kv_used: u32,
    /// KV blocks that can be used. One less than the pool has, as in vLLM.
    pub kv_usable: u32,
}

impl Gauges {
    /// The used part of the KV pool, from 0 to 1.
    #[must_use]
    pub fn kv_usage(&self) -> f64 {
        f64::from(self.kv_used) / f64::from(self.kv_usable.max(1))
    }
}

/// Numbers that only go up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that lost their blocks.
    pub preemptions: u64,
    /// Prompt tokens of requests whose prefill is complete, cached ones included.
    pub prompt_tokens: u64,
    /// Those of them that came from the prefix cache.
    pub cached_tokens: u64,
    /// Tokens generated.
    pub generation_tokens: u64,
    /// Tokens that the prefix cache was asked for.
    pub prefix_queries: u64,
    /// Tokens that it held.
    pub prefix_hits: u64,
    /// Answers that the model ended.
    pub stopped: u64,
    /// Answers that a limit ended.
    pub cut: u64,
    /// Requests that were cancelled.
    pub aborted: u64,
    /// Steps computed.
    pub steps: u64,
    /// Tokens computed in all steps, cached ones left out.
    pub computed_tokens: u64,
}

impl Counters {
    /// How many requests ended for `reason`.
    #[must_use]
    pub const fn finished(&self, reason: FinishReason) -> u64 {
        match reason {
            FinishReason::Stop => self.stopped,
            FinishReason::Length => self.cut,
            FinishReason::Abort => self.aborted,
        }
    }

    pub(crate) const fn count(&mut self, reason: FinishReason) {
        match reason {
            FinishReason::Stop => self.stopped += 1,
            FinishReason::Length => self.cut += 1,
            FinishReason::Abort => self.aborted += 1,
        }
    }
}

/// A Prometheus histogram of times or of counts. Its sum is exact, whatever the order of what is observed.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One more than there are bounds; not cumulative.
    counts: Vec<u64>,
    /// In billionths: nanoseconds of times.
    sum_billionths: u128,
}

/// Billionths in a whole.
const BILLION: u32 = 1_000_000_000;

impl Histogram {
    /// An empty histogram with these upper bounds, in ascending order; the last, infinite one is implied.
    #[must_use]
    pub fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: vec![0; bounds.len() + 1],
            sum_billionths: 0,
        }
    }

    /// Counts a number of something.
    pub fn observe_count(&mut self, count: u64) {
        let bucket = self.bucket(count as f64);
        self.counts[bucket] += 1;
        self.sum_billionths += u128::from(count) * u128::from(BILLION);
    }

    /// Counts a time, `times` times.
    pub fn observe_time(&mut self, time: Duration, times: u64) {
        let bucket = self.bucket(time.as_secs_f64());
        self.counts[bucket] += times;
        self.sum_billionths += time.as_nanos() * u128::from(times);
    }

    fn bucket(&self, value: f64) -> usize {
        self.bounds
            .iter()
            .position(|bound| value <= *bound)
            .unwrap_or(self.bounds.len())
    }

    /// Upper bound and cumulative count of each bucket but the infinite one.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        self.bounds.iter().zip(&self.counts).scan(0, |total, (bound, count)| {
            *total += count;
            Some((*bound, *total))
        })
    }

    /// How many values have been counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all values: seconds of times.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sum_billionths as f64 / f64::from(BILLION)
    }
}

/// Bucket bounds as vLLM 0.32.0 has them.
mod bounds {
    pub(super) const FIRST_TOKEN: &[f64] = &[
        0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
        160.0, 640.0, 2560.0,
    ];
    pub(super) const BETWEEN_TOKENS: &[f64] = &[
        0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
    ];
    pub(super) const REQUEST: &[f64] = &[
        0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
        1920.0, 7680.0,
    ];
    /// vLLM scales these with the context; here they reach as far as its largest usual contexts do.
    pub(super) const TOKENS: &[f64] = &[
        1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0, 20_000.0, 50_000.0,
        100_000.0,
    ];
    pub(super) const STEP_TOKENS: &[f64] = &[
        1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16_384.0,
    ];
    pub(super) const PREEMPTIONS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0];
}

/// Every histogram of the page.
#[derive(Clone, Debug, PartialEq)]
pub struct Histograms {
    /// Seconds from submission to the first token.
    pub first_token: Histogram,
    /// Seconds between tokens of one answer.
    pub between_tokens: Histogram,
    /// Seconds per token after the first, per request.
    pub per_output_token: Histogram,
    /// Seconds from submission to the end.
    pub end_to_end: Histogram,
    /// Seconds from submission to admission.
    pub queued: Histogram,
    /// Seconds from admission to the end.
    pub inference: Histogram,
    /// Seconds from admission to the first token.
    pub prefill: Histogram,
    /// Seconds from the first token to the end.
    pub decode: Histogram,
    /// Tokens of prompts.
    pub prompt_tokens: Histogram,
    /// Tokens of answers.
    pub generation_tokens: Histogram,
    /// The `max_tokens` of requests.
    pub max_tokens: Histogram,
    /// Prompt tokens that had to be computed.
    pub computed_tokens: Histogram,
    /// Tokens per step.
    pub step_tokens: Histogram,
    /// Preemptions per request.
    pub preemptions: Histogram,
}

impl Histograms {
    fn new() -> Self {
        Self {
            first_token: Histogram::new(bounds::FIRST_TOKEN),
            between_tokens: Histogram::new(bounds::BETWEEN_TOKENS),
            per_output_token: Histogram::new(bounds::BETWEEN_TOKENS),
            end_to_end: Histogram::new(bounds::REQUEST),
            queued: Histogram::new(bounds::REQUEST),
            inference: Histogram::new(bounds::REQUEST),
            prefill: Histogram::new(bounds::REQUEST),
            decode: Histogram::new(bounds::REQUEST),
            prompt_tokens: Histogram::new(bounds::TOKENS),
            generation_tokens: Histogram::new(bounds::TOKENS),
            max_tokens: Histogram::new(bounds::TOKENS),
            computed_tokens: Histogram::new(bounds::TOKENS),
            step_tokens: Histogram::new(bounds::STEP_TOKENS),
            preemptions: Histogram::new(bounds::PREEMPTIONS),
        }
    }
}

/// Most label sets kept of the adapters' gauge; the least recently current one goes first.
pub const MAX_LORA_SERIES: usize = 32;

/// One label set of vLLM's adapter gauge. Old ones stay on the page; the newest is the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoraSeries {
    /// Adapters of running requests, as a bit set over their indices.
    pub running: u64,
    /// Adapters of waiting requests, likewise.
    pub waiting: u64,
    /// When it was last current.
    pub updated: Time,
}

/// All of the above.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineStats {
    /// As of the last step that ended.
    pub gauges: Gauges,
    /// Since the start.
    pub counters: Counters,
    /// Since the start.
    pub histograms: Histograms,
    /// Label sets of the adapters' gauge seen so far; empty without adapters.
    pub lora: Vec<LoraSeries>,
}

impl EngineStats {
    pub(crate) fn new() -> Self {
        Self {
            gauges: Gauges::default(),
            counters: Counters::default(),
            histograms: Histograms::new(),
            lora: Vec::new(),
        }
    }

    pub(crate) fn note_adapters(&mut self, (running, waiting): (u64, u64), now: Time) {
        let known = self
            .lora
            .iter_mut()
            .find(|series| (series.running, series.waiting) == (running, waiting));
        if let Some(series) = known {
            series.updated = now;
            return;
        }
        if self.lora.len() == MAX_LORA_SERIES
            && let Some(oldest) = (0..self.lora.len()).min_by_key(|index| self.lora[*index].updated)
        {
            self.lora.remove(oldest);
        }
        self.lora.push(LoraSeries {
            running,
            waiting,
            updated: now,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_count_up_to_and_including_a_bound() {
        let mut histogram = Histogram::new(&[1.0, 2.0]);
        for count in [0, 1, 9] {
            histogram.observe_count(count);
        }
        histogram.observe_time(Duration::from_millis(2000), 3);
        assert_eq!(histogram.buckets().collect::<Vec<_>>(), [(1.0, 2), (2.0, 5)]);
        assert_eq!((histogram.count(), histogram.sum()), (6, 16.0));
    }

    #[test]
    fn adapter_series_linger_and_are_capped() {
        let mut stats = EngineStats::new();
        stats.note_adapters((0, 0), Time::from_millis(1));
        for running in 1..=40 {
            stats.note_adapters((running, 0), Time::from_millis(10 + running));
        }
        stats.note_adapters((20, 0), Time::from_millis(99));
        assert_eq!(stats.lora.len(), MAX_LORA_SERIES);
        let newest = stats.lora.iter().max_by_key(|series| series.updated).unwrap();
        assert_eq!((newest.running, newest.updated), (20, Time::from_millis(99)));
        assert!(stats.lora.iter().all(|series| series.running > 8));
    }
}
