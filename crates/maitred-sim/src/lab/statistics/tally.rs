//! What is counted of a run, call by call.

use std::time::Duration;

use maitred_types::Time;

use super::{ShareSeries, Sketch, fraction};
use crate::lab::{CallEnd, CallRecord, Recorder};

/// Most groups of endpoints whose shares are kept apart. Larger fleets are cut into this many runs of neighbours.
pub const SHARE_GROUPS_MAX: usize = 64;
/// Bins of the calibration.
pub const CALIBRATION_BINS: usize = 20;

/// What a call must keep to be counted as good.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// Longest time to the first token.
    pub ttft: Duration,
    /// Longest mean time of the tokens after it.
    pub tpot: Duration,
}

impl Objective {
    /// Whether an answered call has kept both. An answer of one token has no later ones, and keeps the second.
    #[must_use]
    pub fn is_met(&self, record: &CallRecord) -> bool {
        record.end == CallEnd::Answered
            && record.ttft().is_some_and(|ttft| ttft <= self.ttft)
            && record.tpot().is_none_or(|tpot| tpot <= self.tpot)
    }
}

/// Calls whose policy predicted a hit of about the same size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CalibrationBin {
    /// How many.
    pub calls: u64,
    /// Sum of predicted fractions of the prompt.
    pub predicted: f64,
    /// Sum of real ones.
    pub real: f64,
}

/// Predicted against real hits, in tokens and over bins of the predicted fraction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    /// Bins of equal width from 0 to 1.
    pub bins: [CalibrationBin; CALIBRATION_BINS],
    /// Prompt tokens of calls with a prediction.
    pub input_tokens: u64,
    /// Tokens predicted to be cached.
    pub predicted_tokens: u64,
    /// Tokens that were.
    pub real_tokens: u64,
    /// Sum of the differences' sizes.
    pub error_tokens: u64,
}

impl Calibration {
    fn add(&mut self, record: &CallRecord) {
        let (Some(predicted), true) = (record.predicted_cached, record.first_token.is_some()) else {
            return;
        };
        let (input, predicted, real) = (record.input.get().max(1), predicted.get(), record.cached.get());
        self.input_tokens += u64::from(input);
        self.predicted_tokens += u64::from(predicted);
        self.real_tokens += u64::from(real);
        self.error_tokens += u64::from(predicted.abs_diff(real));
        let bin = (u64::from(predicted) * CALIBRATION_BINS as u64 / u64::from(input)).min(CALIBRATION_BINS as u64 - 1);
        let bin = &mut self.bins[usize::try_from(bin).unwrap_or_default()];
        bin.calls += 1;
        bin.predicted += f64::from(predicted) / f64::from(input);
        bin.real += f64::from(real) / f64::from(input);
    }

    /// Adds what another run has counted.
    pub fn merge(&mut self, other: &Self) {
        self.input_tokens += other.input_tokens;
        self.predicted_tokens += other.predicted_tokens;
        self.real_tokens += other.real_tokens;
        self.error_tokens += other.error_tokens;
        for (bin, more) in self.bins.iter_mut().zip(&other.bins) {
            bin.calls += more.calls;
            bin.predicted += more.predicted;
            bin.real += more.real;
        }
    }
}

/// The counts of a run. Its memory depends on the fleet (up to [`SHARE_GROUPS_MAX`]) and on nothing else.
#[derive(Clone, Debug)]
pub struct Tally {
    objective: Objective,
    endpoints: usize,
    /// Seconds to the first token, of calls that have one.
    pub ttft: Sketch,
    /// Seconds per later token, of answered calls that have them.
    pub tpot: Sketch,
    /// Seconds in the router before the dispatch.
    pub wait: Sketch,
    /// How calls ended, in the order of [`CallEnd::ALL`].
    pub ends: [u64; 5],
    /// Calls that kept the objective.
    pub good: u64,
    /// Prompt tokens of calls with a first token.
    pub input_tokens: u64,
    /// Those of them that came from a cache.
    pub cached_tokens: u64,
    /// Predicted against real hits.
    pub calibration: Calibration,
    /// Calls per group of endpoints, by the time of dispatch.
    pub shares: ShareSeries,
    last_arrival: Time,
}

impl Tally {
    /// Of a run over `endpoints` endpoints.
    #[must_use]
    pub fn new(endpoints: usize, objective: Objective) -> Self {
        Self {
            objective,
            endpoints,
            ttft: Sketch::new(),
            tpot: Sketch::new(),
            wait: Sketch::new(),
            ends: [0; 5],
            good: 0,
            input_tokens: 0,
            cached_tokens: 0,
            calibration: Calibration::default(),
            shares: ShareSeries::new(endpoints.min(SHARE_GROUPS_MAX)),
            last_arrival: Time::ZERO,
        }
    }

    /// Calls that ended.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.ends.iter().sum()
    }

    /// The part of the prompt tokens that came from a cache.
    #[must_use]
    pub fn hit_rate(&self) -> f64 {
        fraction(self.cached_tokens as f64, self.input_tokens as f64)
    }

    /// Calls that came per second, from the start to the last arrival.
    #[must_use]
    pub fn offered(&self) -> f64 {
        fraction(self.calls() as f64, self.last_arrival.as_secs_f64())
    }

    /// Good calls per second in which calls came: what was answered late, after the load had ended, adds nothing to it, for
    /// it was not good.
    #[must_use]
    pub fn goodput(&self) -> f64 {
        fraction(self.good as f64, self.last_arrival.as_secs_f64())
    }
}

impl Recorder for Tally {
    fn call(&mut self, record: &CallRecord) {
        self.last_arrival = self.last_arrival.max(record.arrived);
        if let Some(end) = CallEnd::ALL.iter().position(|end| *end == record.end) {
            self.ends[end] += 1;
        }
        self.good += u64::from(self.objective.is_met(record));
        if let Some(ttft) = record.ttft() {
            self.ttft.add(ttft.as_secs_f64());
            self.input_tokens += u64::from(record.input.get());
            self.cached_tokens += u64::from(record.cached.get());
        }
        if let Some(tpot) = record.tpot() {
            self.tpot.add(tpot.as_secs_f64());
        }
        if let (Some(dispatched), Some(endpoint)) = (record.dispatched, record.endpoint) {
            self.wait.add(dispatched.since(record.arrived).as_secs_f64());
            let groups = self.endpoints.min(SHARE_GROUPS_MAX);
            self.shares
                .add(dispatched, endpoint.get() * groups / self.endpoints.max(1), 1.0);
        }
        self.calibration.add(record);
    }
}
