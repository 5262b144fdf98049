//! From runs to figures.

use super::{
    Against, CalibrationFigures, CalibrationPoint, Curve, CurvePoint, Distribution, Ends, PolicyFigures, Report, Run,
    SeedFigures, Shares, Subject,
};
use crate::lab::statistics::{Calibration, Interval, Sketch, Tally, fraction, imbalance, paired};

/// Significant digits of what is written; more would be noise.
const DIGITS: i32 = 6;

pub(super) fn report(subject: &Subject, runs: &[Run]) -> Report {
    let mut seeds: Vec<u64> = runs.iter().map(|run| run.summary.seed).collect();
    seeds.sort_unstable();
    seeds.dedup();
    let names = names(runs);
    let mut policies: Vec<PolicyFigures> = names
        .iter()
        .filter_map(|name| policy(name, &of(runs, name, subject.load)))
        .collect();
    compare(subject.baseline.as_deref(), &mut policies);
    Report {
        scenario: subject.scenario.clone(),
        description: subject.description.clone(),
        endpoints: subject.endpoints,
        load: subject.load,
        seeds,
        objective_ttft_seconds: subject.objective.ttft.as_secs_f64(),
        objective_tpot_seconds: subject.objective.tpot.as_secs_f64(),
        baseline: subject.baseline.clone(),
        pooled_hit_rate: subject.pooled_hit_rate.map(rounded),
        policies,
        curves: names.iter().map(|name| curve(name, runs)).collect(),
    }
}

/// The policies in the order in which they first appear.
fn names(runs: &[Run]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for run in runs {
        if !names.contains(&run.summary.policy) {
            names.push(run.summary.policy.clone());
        }
    }
    names
}

/// A policy's runs at one load, by seed.
fn of<'a>(runs: &'a [Run], name: &str, load: f64) -> Vec<&'a Run> {
    let mut own: Vec<&Run> = runs
        .iter()
        .filter(|run| run.summary.policy == name && run.load.total_cmp(&load).is_eq())
        .collect();
    own.sort_by_key(|run| run.summary.seed);
    own
}

fn policy(name: &str, runs: &[&Run]) -> Option<PolicyFigures> {
    let first = runs.first()?;
    let by_seed: Vec<SeedFigures> = runs.iter().map(|run| seed_figures(run)).collect();
    let merged = |sketch: fn(&Tally) -> &Sketch| {
        let mut all = Sketch::new();
        runs.iter().for_each(|run| all.merge(sketch(&run.tally)));
        distribution(&all)
    };
    let mut calibration = Calibration::default();
    runs.iter().for_each(|run| calibration.merge(&run.tally.calibration));
    let over_seeds = |figure: fn(&SeedFigures) -> f64| interval(&by_seed.iter().map(figure).collect::<Vec<_>>());
    Some(PolicyFigures {
        policy: name.to_owned(),
        ends: ends(runs),
        ttft_seconds: merged(|tally| &tally.ttft),
        tpot_seconds: merged(|tally| &tally.tpot),
        wait_seconds: merged(|tally| &tally.wait),
        hit_rate: over_seeds(|seed| seed.hit_rate),
        goodput_per_second: over_seeds(|seed| seed.goodput_per_second),
        imbalance: over_seeds(|seed| seed.imbalance),
        calibration: calibration_figures(&calibration),
        against_baseline: None,
        shares: shares(&first.tally),
        by_seed,
    })
}

fn seed_figures(run: &Run) -> SeedFigures {
    let tally = &run.tally;
    let work: Vec<f64> = run
        .summary
        .endpoints
        .iter()
        .map(|endpoint| endpoint.computed_tokens as f64)
        .collect();
    SeedFigures {
        seed: run.summary.seed,
        ttft_mean_seconds: rounded(tally.ttft.mean()),
        ttft_p90_seconds: rounded(tally.ttft.quantile(0.9)),
        ttft_p99_seconds: rounded(tally.ttft.quantile(0.99)),
        tpot_mean_seconds: rounded(tally.tpot.mean()),
        hit_rate: rounded(tally.hit_rate()),
        offered_per_second: rounded(tally.offered()),
        goodput_per_second: rounded(tally.goodput()),
        imbalance: rounded(imbalance(&work)),
    }
}

fn ends(runs: &[&Run]) -> Ends {
    let sum = |end: usize| runs.iter().map(|run| run.tally.ends[end]).sum();
    // The order is that of `CallEnd::ALL`.
    Ends {
        answered: sum(0),
        shed: sum(1),
        refused: sum(2),
        lost: sum(3),
        unfinished: sum(4),
    }
}

fn distribution(sketch: &Sketch) -> Distribution {
    let hundredths = (0..100).map(|hundredth| f64::from(hundredth) / 100.0);
    let cumulative = hundredths.chain([0.995, 0.999, 1.0]);
    let has_values = sketch.count() > 0;
    Distribution {
        count: sketch.count(),
        mean: rounded(sketch.mean()),
        p50: rounded(sketch.quantile(0.5)),
        p90: rounded(sketch.quantile(0.9)),
        p99: rounded(sketch.quantile(0.99)),
        max: rounded(sketch.max()),
        cumulative: cumulative
            .filter(|_| has_values)
            .map(|part| [rounded(sketch.quantile(part)), part])
            .collect(),
    }
}

fn calibration_figures(calibration: &Calibration) -> Option<CalibrationFigures> {
    let input = calibration.input_tokens as f64;
    let rate = |tokens: u64| rounded(fraction(tokens as f64, input));
    (calibration.input_tokens > 0).then(|| CalibrationFigures {
        predicted_rate: rate(calibration.predicted_tokens),
        real_rate: rate(calibration.real_tokens),
        error_rate: rate(calibration.error_tokens),
        bins: calibration
            .bins
            .iter()
            .filter(|bin| bin.calls > 0)
            .map(|bin| CalibrationPoint {
                predicted: rounded(bin.predicted / bin.calls as f64),
                real: rounded(bin.real / bin.calls as f64),
                calls: bin.calls,
            })
            .collect(),
    })
}

fn shares(tally: &Tally) -> Shares {
    let windows = tally.shares.windows();
    let groups = windows.first().map_or(0, Vec::len);
    let totals: Vec<f64> = windows.iter().map(|window| window.iter().sum()).collect();
    let row = |group: usize| {
        let parts = windows.iter().zip(&totals);
        parts
            .map(|(window, total)| rounded(fraction(window[group], *total)))
            .collect()
    };
    Shares {
        window_seconds: tally.shares.width().as_secs_f64(),
        groups,
        parts: (0..groups).map(row).collect(),
    }
}

/// Sets what each policy is against the baseline, over the seeds that both have.
fn compare(baseline: Option<&str>, policies: &mut [PolicyFigures]) {
    let Some(base) = policies
        .iter()
        .find(|policy| Some(policy.policy.as_str()) == baseline)
        .map(|policy| policy.by_seed.clone())
    else {
        return;
    };
    for policy in policies
        .iter_mut()
        .filter(|policy| Some(policy.policy.as_str()) != baseline)
    {
        policy.against_baseline = against(&policy.by_seed, &base);
    }
}

fn against(own: &[SeedFigures], base: &[SeedFigures]) -> Option<Against> {
    let pairs: Vec<(&SeedFigures, &SeedFigures)> = own
        .iter()
        .filter_map(|own| Some((own, base.iter().find(|base| base.seed == own.seed)?)))
        .collect();
    let compared = |figure: fn(&SeedFigures) -> f64| {
        let (own, base): (Vec<f64>, Vec<f64>) = pairs.iter().map(|(own, base)| (figure(own), figure(base))).unzip();
        let mut result = paired(&own, &base)?;
        result.difference = rounded_interval(result.difference);
        result.ratio = result.ratio.map(rounded_interval);
        Some(result)
    };
    Some(Against {
        ttft_mean: compared(|seed| seed.ttft_mean_seconds)?,
        ttft_p90: compared(|seed| seed.ttft_p90_seconds)?,
        ttft_p99: compared(|seed| seed.ttft_p99_seconds)?,
        hit_rate: compared(|seed| seed.hit_rate)?,
        goodput: compared(|seed| seed.goodput_per_second)?,
    })
}

fn curve(name: &str, runs: &[Run]) -> Curve {
    let mut loads: Vec<f64> = runs
        .iter()
        .filter(|run| run.summary.policy == name)
        .map(|run| run.load)
        .collect();
    loads.sort_by(f64::total_cmp);
    loads.dedup_by(|left, right| left.total_cmp(right).is_eq());
    Curve {
        policy: name.to_owned(),
        points: loads.iter().map(|load| point(*load, &of(runs, name, *load))).collect(),
    }
}

fn point(load: f64, runs: &[&Run]) -> CurvePoint {
    let over = |figure: fn(&Tally) -> f64| interval(&runs.iter().map(|run| figure(&run.tally)).collect::<Vec<_>>());
    CurvePoint {
        load,
        offered_per_second: over(Tally::offered).mean,
        goodput_per_second: over(Tally::goodput),
        ttft_mean_seconds: over(|tally| tally.ttft.mean()),
        ttft_p90_seconds: over(|tally| tally.ttft.quantile(0.9)),
        hit_rate: over(Tally::hit_rate),
    }
}

fn interval(samples: &[f64]) -> Interval {
    rounded_interval(Interval::of(samples))
}

fn rounded_interval(interval: Interval) -> Interval {
    Interval {
        mean: rounded(interval.mean),
        low: rounded(interval.low),
        high: rounded(interval.high),
    }
}

/// The value with [`DIGITS`] significant digits, so that a report does not depend on the last bits of a logarithm.
fn rounded(value: f64) -> f64 {
    if value.abs() < f64::MIN_POSITIVE || !value.is_finite() {
        return 0.0;
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the exponent of a finite number is small"
    )]
    let exponent = DIGITS - 1 - value.abs().log10().floor() as i32;
    let scale = 10_f64.powi(exponent.abs());
    if exponent >= 0 {
        (value * scale).round() / scale
    } else {
        (value / scale).round() * scale
    }
}
