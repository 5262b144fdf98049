//! What runs came to, for people and for programs.
//!
//! A [`Report`] is made from runs of several policies over the same seeds and loads. It is data first: [`Report::to_json`] writes
//! all of it, [`Report::to_html`] draws it on one page without scripts and without anything from outside, [`Report::table`] is the
//! short form for a terminal. The same runs give the same bytes.

mod build;
mod page;
mod plots;
mod svg;
mod table;
mod text;

use serde::Serialize;

use super::RunSummary;
use super::statistics::{Interval, Objective, Paired, Tally};

/// One run, as the driver leaves it.
#[derive(Clone, Debug)]
pub struct Run {
    /// The load: a factor on the workload's own arrivals per second.
    pub load: f64,
    /// The run as a whole; it names policy and seed.
    pub summary: RunSummary,
    /// What was counted of its calls.
    pub tally: Tally,
}

/// What a report is about.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The scenario's name.
    pub scenario: String,
    /// What is in it, in a sentence or two.
    pub description: String,
    /// Endpoints of the fleet.
    pub endpoints: usize,
    /// What a call must keep to be good.
    pub objective: Objective,
    /// The load that the figures and most plots are of; the others appear in the curves only.
    pub load: f64,
    /// The policy that all others are compared with.
    pub baseline: Option<String>,
    /// The hit rate of one cache of the summed size.
    pub pooled_hit_rate: Option<f64>,
}

/// A report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The scenario's name.
    pub scenario: String,
    /// What is in it.
    pub description: String,
    /// Endpoints of the fleet.
    pub endpoints: usize,
    /// The load of [`Report::policies`].
    pub load: f64,
    /// The seeds, in order.
    pub seeds: Vec<u64>,
    /// Longest time to the first token of a good call, in seconds.
    pub objective_ttft_seconds: f64,
    /// Longest time per later token of a good call, in seconds.
    pub objective_tpot_seconds: f64,
    /// The policy that the others are compared with.
    pub baseline: Option<String>,
    /// The hit rate of one cache of the summed size.
    pub pooled_hit_rate: Option<f64>,
    /// Each policy at the load above, in the order of the runs.
    pub policies: Vec<PolicyFigures>,
    /// Each policy at every load.
    pub curves: Vec<Curve>,
}

/// A policy at one load, over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyFigures {
    /// Its name.
    pub policy: String,
    /// How its calls ended.
    pub ends: Ends,
    /// Time to the first token.
    pub ttft_seconds: Distribution,
    /// Mean time per later token.
    pub tpot_seconds: Distribution,
    /// Time in the router before the dispatch.
    pub wait_seconds: Distribution,
    /// Prompt tokens from a cache over all prompt tokens.
    pub hit_rate: Interval,
    /// Good calls per second.
    pub goodput_per_second: Interval,
    /// Tokens computed by the busiest endpoint over the mean of all.
    pub imbalance: Interval,
    /// Predicted against real hits, if the policy predicts.
    pub calibration: Option<CalibrationFigures>,
    /// Against the baseline; absent for the baseline itself, and with fewer than two seeds.
    pub against_baseline: Option<Against>,
    /// Calls per endpoint over time, of the first seed.
    pub shares: Shares,
    /// The figures of each seed, in the order of the seeds.
    pub by_seed: Vec<SeedFigures>,
}

/// How calls ended, as counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Ends {
    /// With the whole answer.
    pub answered: u64,
    /// Turned away by the router.
    pub shed: u64,
    /// Refused by their endpoint.
    pub refused: u64,
    /// Lost with an endpoint.
    pub lost: u64,
    /// Still under way at the end.
    pub unfinished: u64,
}

/// A distribution over all calls of all seeds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// How many values.
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 90th percentile.
    pub p90: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The largest value.
    pub max: f64,
    /// Points of the cumulative distribution: a value, and the part of all values up to it.
    pub cumulative: Vec<[f64; 2]>,
}

/// Predicted against real hits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CalibrationFigures {
    /// Predicted cached tokens over prompt tokens.
    pub predicted_rate: f64,
    /// Real ones over prompt tokens.
    pub real_rate: f64,
    /// The mean size of the difference, over prompt tokens.
    pub error_rate: f64,
    /// Calls by the predicted part of their prompt; bins without calls are left out.
    pub bins: Vec<CalibrationPoint>,
}

/// Calls with about the same prediction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CalibrationPoint {
    /// Their mean predicted part of the prompt.
    pub predicted: f64,
    /// The mean of what was cached.
    pub real: f64,
    /// How many.
    pub calls: u64,
}

/// A policy against the baseline, paired by seed. Ratios are the policy's over the baseline's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Against {
    /// Mean time to the first token.
    pub ttft_mean: Paired,
    /// Its 90th percentile.
    pub ttft_p90: Paired,
    /// Its 99th percentile.
    pub ttft_p99: Paired,
    /// Hit rate.
    pub hit_rate: Paired,
    /// Good calls per second.
    pub goodput: Paired,
}

/// Who got which part of the calls, over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Shares {
    /// Width of a window.
    pub window_seconds: f64,
    /// Endpoints, or groups of neighbours in large fleets: how many rows there are.
    pub groups: usize,
    /// Parts of each window's calls, one row per group; zero in windows without calls.
    pub parts: Vec<Vec<f64>>,
}

/// The figures of one run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SeedFigures {
    /// The seed.
    pub seed: u64,
    /// Mean time to the first token.
    pub ttft_mean_seconds: f64,
    /// Its 90th percentile.
    pub ttft_p90_seconds: f64,
    /// Its 99th percentile.
    pub ttft_p99_seconds: f64,
    /// Mean of the mean times per later token.
    pub tpot_mean_seconds: f64,
    /// Hit rate.
    pub hit_rate: f64,
    /// Calls per second that came.
    pub offered_per_second: f64,
    /// Good calls per second.
    pub goodput_per_second: f64,
    /// Tokens computed by the busiest endpoint over the mean of all.
    pub imbalance: f64,
}

/// A policy over all loads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Curve {
    /// Its name.
    pub policy: String,
    /// From the least load to the highest.
    pub points: Vec<CurvePoint>,
}

/// A policy at one load, over all seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CurvePoint {
    /// The load.
    pub load: f64,
    /// Calls per second that came.
    pub offered_per_second: f64,
    /// Good calls per second.
    pub goodput_per_second: Interval,
    /// Mean time to the first token.
    pub ttft_mean_seconds: Interval,
    /// Its 90th percentile.
    pub ttft_p90_seconds: Interval,
    /// Hit rate.
    pub hit_rate: Interval,
}

impl Report {
    /// The report on `runs`.
    #[must_use]
    pub fn new(subject: &Subject, runs: &[Run]) -> Self {
        build::report(subject, runs)
    }

    /// All of it as JSON, with a line break at its end. Fields keep their order.
    ///
    /// # Errors
    /// None that a report can cause; those of the writer are passed on.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    /// One page with figures and plots. Needs nothing but itself.
    #[must_use]
    pub fn to_html(&self) -> String {
        page::page(self)
    }

    /// The comparison as plain text.
    #[must_use]
    pub fn table(&self) -> String {
        table::table(self)
    }
}

#[cfg(test)]
mod tests;
