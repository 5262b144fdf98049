//! The plots of a report.

use super::svg::{Axis, Frame, Plot, Unit, bars};
use super::text::{percent, seconds, short};
use super::{CalibrationFigures, Curve, Distribution, PolicyFigures, Report, Shares};
use crate::lab::statistics::Interval;

/// A plot, and the series that its legend names.
#[derive(Debug)]
pub(super) struct Drawn {
    pub title: String,
    pub svg: String,
    /// Names with their series; none where the plot names them itself.
    pub legend: Vec<(String, usize)>,
    /// What a reader should know to read it.
    pub note: &'static str,
}

fn frame(id: &str, title: &str, description: String) -> Frame {
    Frame {
        id: id.to_owned(),
        title: title.to_owned(),
        description,
        width: 680.0,
        height: 360.0,
    }
}

/// The cumulative distribution of a time, one line per policy.
pub(super) fn cumulative(
    report: &Report,
    (id, title, label): (&str, &str, &'static str),
    distribution: fn(&PolicyFigures) -> &Distribution,
) -> Drawn {
    let all = || report.policies.iter().map(distribution);
    let at = |distribution: &Distribution, part: f64| {
        let found = distribution.cumulative.iter().find(|point| point[1] >= part);
        found.map(|point| point[0]).filter(|value| *value > 0.0)
    };
    let least = all().filter_map(|one| at(one, 0.01)).fold(f64::INFINITY, f64::min);
    let most = all().filter_map(|one| at(one, 0.999)).fold(0.0, f64::max);
    let least = if least.is_finite() { least } else { 1e-3 };
    let words: Vec<String> = report
        .policies
        .iter()
        .map(|policy| {
            let one = distribution(policy);
            format!(
                "{}: median {}, 99 % within {}",
                policy.policy,
                seconds(one.p50),
                seconds(one.p99)
            )
        })
        .collect();
    let mut plot = Plot::new(
        frame(id, title, words.join("; ")),
        Axis::logarithmic(label, Unit::Seconds, least, most),
        Axis::exact("part of calls within it", Unit::Percent, 1.0),
    );
    for (series, policy) in report.policies.iter().enumerate() {
        let points: Vec<(f64, f64)> = distribution(policy)
            .cumulative
            .iter()
            .map(|point| (point[0], point[1]))
            .collect();
        plot.line(&points, series);
    }
    Drawn {
        title: title.to_owned(),
        svg: plot.finish(),
        legend: legend(report),
        note: "Further to the left is better.",
    }
}

/// Hit rates as bars.
pub(super) fn hit_rates(report: &Report) -> Drawn {
    let title = "Prompt tokens found in a cache";
    let rows: Vec<(&str, Interval)> = report
        .policies
        .iter()
        .map(|policy| (policy.policy.as_str(), policy.hit_rate))
        .collect();
    let words: Vec<String> = rows
        .iter()
        .map(|(name, rate)| format!("{name} {}", percent(rate.mean)))
        .collect();
    Drawn {
        title: title.to_owned(),
        svg: bars(frame("hits", title, words.join("; ")), &rows, report.pooled_hit_rate),
        legend: Vec::new(),
        note: if report.pooled_hit_rate.is_some() {
            "The dashed line is one cache of the summed size; thin lines are 95 % confidence over the seeds."
        } else {
            "Thin lines are 95 % confidence over the seeds."
        },
    }
}

/// Good calls against calls that came, through all loads.
pub(super) fn goodput(report: &Report) -> Option<Drawn> {
    let points = || report.curves.iter().flat_map(|curve| &curve.points);
    if report.curves.iter().all(|curve| curve.points.len() < 2) {
        return None;
    }
    let title = "Good calls against calls that come";
    let offered = points().map(|point| point.offered_per_second).fold(0.0, f64::max);
    let good = points().map(|point| point.goodput_per_second.high).fold(0.0, f64::max);
    let best = |curve: &Curve| {
        let most = curve
            .points
            .iter()
            .map(|point| point.goodput_per_second.mean)
            .fold(0.0, f64::max);
        let last = curve.points.last().map_or(0.0, |point| point.goodput_per_second.mean);
        format!(
            "{}: at most {} per second, {} at the highest load",
            curve.policy,
            short(most),
            short(last)
        )
    };
    let words: Vec<String> = report.curves.iter().map(best).collect();
    let mut plot = Plot::new(
        frame("goodput", title, words.join("; ")),
        Axis::linear("calls per second that come", Unit::Plain, offered),
        Axis::linear("good calls per second", Unit::Plain, good),
    );
    let all_good = offered.min(good);
    plot.reference((0.0, 0.0), (all_good, all_good));
    for (series, curve) in report.curves.iter().enumerate() {
        let line: Vec<(f64, f64)> = curve
            .points
            .iter()
            .map(|point| (point.offered_per_second, point.goodput_per_second.mean))
            .collect();
        plot.line(&line, series);
        for point in &curve.points {
            plot.whisker(point.offered_per_second, &point.goodput_per_second, series);
        }
    }
    Some(Drawn {
        title: title.to_owned(),
        svg: plot.finish(),
        legend: legend_of(report.curves.iter().map(|curve| &curve.policy)),
        note: "On the dashed line every call is good. The knee is where a policy leaves it; what counts is to stay level after it.",
    })
}

/// Predicted against real hits, one line per policy that predicts.
pub(super) fn calibration(report: &Report) -> Option<Drawn> {
    let title = "Predicted and real hits";
    let predicting: Vec<(usize, &PolicyFigures)> = report
        .policies
        .iter()
        .enumerate()
        .filter(|(_, policy)| policy.calibration.is_some())
        .collect();
    if predicting.is_empty() {
        return None;
    }
    let words: Vec<String> = predicting
        .iter()
        .filter_map(|(_, policy)| {
            let figures = policy.calibration.as_ref()?;
            let (predicted, real) = (percent(figures.predicted_rate), percent(figures.real_rate));
            Some(format!("{}: predicted {predicted}, real {real}", policy.policy))
        })
        .collect();
    let mut plot = Plot::new(
        frame("calibration", title, words.join("; ")),
        Axis::exact("predicted part of the prompt", Unit::Percent, 1.0),
        Axis::exact("part that was cached", Unit::Percent, 1.0),
    );
    plot.reference((0.0, 0.0), (1.0, 1.0));
    for (series, policy) in &predicting {
        let points = policy.calibration.as_ref().map(calibrated).unwrap_or_default();
        plot.line(&points, *series);
    }
    Some(Drawn {
        title: title.to_owned(),
        svg: plot.finish(),
        legend: predicting
            .iter()
            .map(|(series, policy)| (policy.policy.clone(), *series))
            .collect(),
        note: "On the dashed line a prediction is right in the mean; below it the policy believes in what is gone. \
               Bins with less than one call in 200 are left out.",
    })
}

/// The bins that hold at least one call in 200; the others show chance only.
fn calibrated(figures: &CalibrationFigures) -> Vec<(f64, f64)> {
    /// One call in so many is few.
    const FEW: u64 = 200;
    let calls: u64 = figures.bins.iter().map(|bin| bin.calls).sum();
    let bins = figures.bins.iter().filter(|bin| bin.calls * FEW >= calls);
    bins.map(|bin| (bin.predicted, bin.real)).collect()
}

/// The parts of the endpoints over time, one small plot per policy.
pub(super) fn shares(report: &Report) -> Vec<Drawn> {
    let drawn = |(index, policy): (usize, &PolicyFigures)| {
        let shares = &policy.shares;
        let title = format!("Calls per endpoint: {}", policy.policy);
        let windows = shares.parts.first().map_or(0, Vec::len);
        let mut frame = frame(&format!("shares-{index}"), &title, spread(shares));
        (frame.width, frame.height) = (330.0, 220.0);
        let end = shares.window_seconds * windows as f64;
        let mut plot = Plot::new(
            frame,
            Axis::exact("time", Unit::Seconds, end),
            Axis::exact("part of the calls", Unit::Percent, 1.0),
        );
        let mut lower = vec![0.0; windows];
        for (group, parts) in shares.parts.iter().enumerate() {
            let upper: Vec<f64> = lower.iter().zip(parts).map(|(lower, part)| lower + part).collect();
            plot.area(
                &steps(&lower, shares.window_seconds),
                &steps(&upper, shares.window_seconds),
                group,
            );
            lower = upper;
        }
        Drawn {
            title,
            svg: plot.finish(),
            legend: Vec::new(),
            note: "",
        }
    };
    report.policies.iter().enumerate().map(drawn).collect()
}

/// The least and the most that any endpoint had over the whole time.
fn spread(shares: &Shares) -> String {
    let totals: Vec<f64> = shares.parts.iter().map(|parts| parts.iter().sum()).collect();
    let all: f64 = totals.iter().sum();
    let part = |total: f64| percent(crate::lab::statistics::fraction(total, all));
    let least = totals.iter().copied().fold(f64::INFINITY, f64::min).min(all);
    let most = totals.iter().copied().fold(0.0, f64::max);
    format!(
        "{} endpoints or groups of them, with parts from {} to {}",
        shares.groups,
        part(least),
        part(most)
    )
}

/// A value per window as a line of steps.
fn steps(values: &[f64], width: f64) -> Vec<(f64, f64)> {
    let sides =
        |(window, value): (usize, &f64)| [(window as f64 * width, *value), ((window + 1) as f64 * width, *value)];
    values.iter().enumerate().flat_map(sides).collect()
}

fn legend(report: &Report) -> Vec<(String, usize)> {
    legend_of(report.policies.iter().map(|policy| &policy.policy))
}

fn legend_of<'a>(names: impl Iterator<Item = &'a String>) -> Vec<(String, usize)> {
    names.cloned().zip(0..).collect()
}
