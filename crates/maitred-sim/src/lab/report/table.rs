//! The comparison for a terminal.

use super::text::{add, add_line, change, interval, percent, seconds, short};
use super::{PolicyFigures, Report};

/// Most characters of a name that are shown.
const NAME_MAX: usize = 40;

pub(super) fn table(report: &Report) -> String {
    let mut rows = vec![header(report)];
    rows.extend(report.policies.iter().map(|policy| row(report, policy)));
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    add_line!(
        out,
        "{}: {} endpoints, load {}, {} seeds; good is TTFT up to {} and TPOT up to {}",
        line(&report.scenario),
        report.endpoints,
        short(report.load),
        report.seeds.len(),
        seconds(report.objective_ttft_seconds),
        seconds(report.objective_tpot_seconds)
    );
    for row in &rows {
        let mut text = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let padding = " ".repeat(width - cell.chars().count());
            if column == 0 {
                add!(text, "{cell}{padding}");
            } else {
                add!(text, "  {padding}{cell}");
            }
        }
        out.push_str(text.trim_end());
        out.push('\n');
    }
    if let Some(rate) = report.pooled_hit_rate {
        add_line!(out, "One cache of the summed size would hit {}.", percent(rate));
    }
    if report.baseline.is_some() {
        out.push_str("Changes are with 95 % confidence over paired seeds; ≈ marks those that may be none.\n");
    }
    out
}

fn header(report: &Report) -> Vec<String> {
    let mut cells: Vec<String> = [
        "policy",
        "TTFT mean",
        "p50",
        "p90",
        "p99",
        "TPOT mean",
        "p99",
        "hits",
        "good/s",
        "max/mean",
        "not answered",
    ]
    .map(str::to_owned)
    .to_vec();
    if let Some(baseline) = &report.baseline {
        cells.push(format!("TTFT mean against {}", line(baseline)));
    }
    cells
}

fn row(report: &Report, policy: &PolicyFigures) -> Vec<String> {
    let (ttft, tpot, ends) = (&policy.ttft_seconds, &policy.tpot_seconds, &policy.ends);
    let mut cells = vec![
        line(&policy.policy),
        seconds(ttft.mean),
        seconds(ttft.p50),
        seconds(ttft.p90),
        seconds(ttft.p99),
        seconds(tpot.mean),
        seconds(tpot.p99),
        percent(policy.hit_rate.mean),
        interval(&policy.goodput_per_second, short),
        format!("{:.2}", policy.imbalance.mean),
        (ends.shed + ends.refused + ends.lost + ends.unfinished).to_string(),
    ];
    if report.baseline.is_some() {
        cells.push(
            policy
                .against_baseline
                .as_ref()
                .map_or_else(|| "–".to_owned(), |against| change(&against.ttft_mean)),
        );
    }
    cells
}

/// A name on one line, without what a terminal might obey.
fn line(name: &str) -> String {
    name.chars()
        .take(NAME_MAX)
        .map(|character| if character.is_control() { '\u{fffd}' } else { character })
        .collect()
}
