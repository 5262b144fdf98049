//! The tables.

use crate::cases::{CASES, Case};
use crate::load::percentile_us;
use crate::machine::processor;
use crate::plan::{Figures, Plan, Results};
use crate::streams::Streams;
use crate::systems::System;
use crate::upstream::{ENDPOINTS, EVENTS_PER_SECOND};

/// All tables as Markdown.
pub(crate) fn render(plan: &Plan, systems: &[System], results: &Results) -> String {
    let Plan {
        rounds,
        seconds,
        streams,
        ..
    } = plan;
    let mut text = format!(
        "Processor: {}. Each figure is best / median of {rounds} interleaved rounds of {seconds} s. The proxy has one core; \
         the load and {ENDPOINTS} endpoints share a thread on another, which never sleeps. CPU is the proxy's own time on its core. \
         \"Added\" is against `direct` in the same round.\n\n",
        processor()
    );
    for system in systems {
        text.push_str(&format!("- `{}`: {}\n", system.name, system.about));
    }
    for (case, by_system) in CASES.iter().zip(&results.calls).filter(|(case, _)| plan.wants(case)) {
        text.push_str(&case_table(case, systems, by_system));
    }
    if *streams > 0 {
        text.push_str(&stream_table(plan, systems, &results.streams));
    }
    text.push_str(&memory_table(systems, results));
    text
}

fn case_table(case: &Case, systems: &[System], by_system: &[Vec<Figures>]) -> String {
    let plural = if case.connections == 1 {
        "connection"
    } else {
        "connections"
    };
    let mut text = format!(
        "\n### {}, {} {plural}\n\n| through | CPU µs/call | calls/s | CPU and calls/s, × nginx | p50 µs | added p50 µs | p99 µs | added p99 µs | refused |\n\
         |---|---|---|---|---|---|---|---|---|\n",
        case.name, case.connections
    );
    let direct = by_system.first().map_or(&[][..], Vec::as_slice);
    let nginx = systems
        .iter()
        .zip(by_system)
        .find(|(system, _)| system.name == "nginx")
        .map(|(_, figures)| figures);
    for (system, figures) in systems.iter().zip(by_system) {
        let low = |value: fn(&Figures) -> f64| spread(figures.iter().map(value), Best::Lowest);
        let added = |value: fn(&Figures) -> f64| {
            let differences = figures
                .iter()
                .zip(direct)
                .map(|(through, direct)| value(through) - value(direct));
            if system.is_direct() {
                "–".to_owned()
            } else {
                spread(differences, Best::Lowest)
            }
        };
        let cpu = if system.is_direct() {
            "–".to_owned()
        } else {
            low(|f| f.cpu_us_per_call)
        };
        let rate = spread(figures.iter().map(|f| f.calls_per_second), Best::Highest);
        let refused: u64 = figures.iter().map(|f| f.refused).sum();
        text.push_str(&format!(
            "| {} | {cpu} | {rate} | {} | {} | {} | {} | {} | {refused} |\n",
            system.name,
            nginx
                .filter(|_| !system.is_direct())
                .map_or_else(|| "–".to_owned(), |nginx| ratios(figures, nginx)),
            low(|f| f.p50_us),
            added(|f| f.p50_us),
            low(|f| f.p99_us),
            added(|f| f.p99_us),
        ));
    }
    text
}

/// Best against best: CPU per call, then calls per second.
fn ratios(figures: &[Figures], nginx: &[Figures]) -> String {
    let cpu = |figures: &[Figures]| figures.iter().map(|f| f.cpu_us_per_call).fold(f64::INFINITY, f64::min);
    let rate = |figures: &[Figures]| figures.iter().map(|f| f.calls_per_second).fold(0.0, f64::max);
    format!("{:.2}, {:.2}", cpu(figures) / cpu(nginx), rate(figures) / rate(nginx))
}

fn stream_table(plan: &Plan, systems: &[System], by_system: &[Vec<Streams>]) -> String {
    let mut text = format!(
        "\n### {} streams, {EVENTS_PER_SECOND} events/s each\n\n\
         | through | CPU µs/event | events/s | KiB/stream | delay p50 µs | delay p99 µs | dropped | broken |\n\
         |---|---|---|---|---|---|---|---|\n",
        plan.streams
    );
    for (system, rounds) in systems.iter().zip(by_system) {
        let low = |value: &dyn Fn(&Streams) -> f64| spread(rounds.iter().map(value), Best::Lowest);
        let unless_direct = |figure: String| if system.is_direct() { "–".to_owned() } else { figure };
        let seconds = f64::from(plan.seconds);
        let rate = spread(rounds.iter().map(|s| s.events as f64 / seconds), Best::Highest);
        let per_stream = |s: &Streams| (s.rss_kib.1.saturating_sub(s.rss_kib.0)) as f64 / f64::from(plan.streams);
        // Memory that a first round took may be used again by the next, so the first round tells what a stream needs.
        let memory = rounds.first().map_or(0.0, per_stream);
        text.push_str(&format!(
            "| {} | {} | {rate} | {} | {} | {} | {} | {} |\n",
            system.name,
            unless_direct(low(&|s| s.cpu_ns as f64 / 1_000.0 / s.events as f64)),
            unless_direct(format!("{memory:.1}")),
            low(&|s| percentile_us(&s.delays_ns, 0.50)),
            low(&|s| percentile_us(&s.delays_ns, 0.99)),
            rounds.iter().map(|s| s.dropped).sum::<u64>(),
            rounds.iter().map(|s| s.broken).sum::<u64>(),
        ));
    }
    text
}

fn memory_table(systems: &[System], results: &Results) -> String {
    let mut text = "\n### Resident memory\n\n| through | idle MiB | with all streams MiB |\n|---|---|---|\n".to_owned();
    let rows = systems.iter().zip(&results.idle_kib).zip(&results.streams);
    for ((system, idle), streams) in rows.filter(|((system, _), _)| !system.is_direct()) {
        let most = streams.iter().map(|s| s.rss_kib.1).max().unwrap_or(0);
        let mib = |kib: u64| kib as f64 / 1_024.0;
        text.push_str(&format!("| {} | {:.1} | {:.1} |\n", system.name, mib(*idle), mib(most)));
    }
    text
}

/// Which end of the scale is the good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Best {
    Lowest,
    Highest,
}

/// "best / median".
fn spread(values: impl Iterator<Item = f64>, best: Best) -> String {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    if best == Best::Highest {
        sorted.reverse();
    }
    match (sorted.first(), sorted.get(sorted.len() / 2)) {
        (Some(best), Some(median)) => format!("{} / {}", short(*best), short(*median)),
        _ => "–".to_owned(),
    }
}

/// Three figures or so: what the measurement is good for.
fn short(value: f64) -> String {
    if value.abs() < 100.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn best_and_median_are_told_apart() {
        let check = |values: &[f64], best, printed: &str| assert_eq!(spread(values.iter().copied(), best), printed);
        check(&[30.0, 28.04, 250.0], Best::Lowest, "28.0 / 30.0");
        check(&[30.0, 28.04, 250.0], Best::Highest, "250 / 30.0");
        check(&[], Best::Lowest, "–");
    }
}
