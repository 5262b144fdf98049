//! The page.

use super::plots::{Drawn, calibration, cumulative, goodput, hit_rates, shares};
use super::svg::swatch;
use super::text::{add, add_line, change, escaped, interval, percent, seconds, short};
use super::{PolicyFigures, Report};

/// Colours keep a contrast of 3 to 1 to the ground in both themes, and differ for the colour-blind (after Okabe and Ito).
const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#57606a;--ground:#fff;--grid:#d8dee4;--s0:#0072b2;--s1:#d55e00;--s2:#00805a;\
--s3:#b0478a;--s4:#8a6d00;--s5:#2f7fa8;--s6:#5c5c5c;--s7:#7a3fc0}\
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9da7b1;--ground:#0d1117;--grid:#30363d;--s0:#56a8e8;--s1:#f08a3c;\
--s2:#2fbf8f;--s3:#e08cc0;--s4:#e0c040;--s5:#80c8f0;--s6:#a8a8a8;--s7:#b58cf0}}\
body{margin:0 auto;padding:1.5rem;max-width:74rem;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,sans-serif}\
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.5rem}p.note,figcaption{color:var(--soft)}\
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}caption{text-align:left;color:var(--soft)}\
th,td{padding:.3rem .7rem;border-bottom:1px solid var(--grid);text-align:right;white-space:nowrap}th[scope=row],th:first-child{text-align:left}\
tr.base{font-weight:600}figure{margin:1rem 0}.small{display:flex;flex-wrap:wrap;gap:1rem}.small figure{width:330px;margin:0}\
svg.plot{width:100%;max-width:760px;height:auto}svg text{fill:var(--ink);font:12px system-ui,sans-serif}svg .grid{stroke:var(--grid)}\
svg polyline,svg line{fill:none}svg .ref{stroke:var(--soft);stroke-dasharray:6 4}svg .s-ink{stroke:var(--ink);stroke-width:1.5}\
ul.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;padding:0;margin:.3rem 0}svg.swatch{width:28px;height:10px}\
svg .d0{stroke-width:2}svg .d1{stroke-width:2;stroke-dasharray:7 3}svg .d2{stroke-width:2;stroke-dasharray:2 3}";

pub(super) fn page(report: &Report) -> String {
    let mut out = String::with_capacity(1 << 16);
    let name = escaped(&report.scenario);
    add!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>Laboratory: {name}</title>\n\
         <style>{STYLE}{}</style>\n</head>\n<body>\n<main>\n<h1>{name}</h1>\n",
        series_style()
    );
    introduction(report, &mut out);
    figures(report, &mut out);
    comparisons(report, &mut out);
    let ttft = ("ttft", "Time to the first token", "time to the first token");
    figure(&cumulative(report, ttft, |policy| &policy.ttft_seconds), &mut out);
    let tpot = ("tpot", "Time per later token", "time per later token");
    figure(&cumulative(report, tpot, |policy| &policy.tpot_seconds), &mut out);
    figure(&hit_rates(report), &mut out);
    if let Some(drawn) = goodput(report) {
        figure(&drawn, &mut out);
    }
    if let Some(drawn) = calibration(report) {
        figure(&drawn, &mut out);
    }
    small_figures(&shares(report), &mut out);
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

/// Strokes and fills of the series.
fn series_style() -> String {
    let mut out = String::new();
    for series in 0..super::svg::COLOURS {
        add!(
            out,
            "svg .s{series}{{stroke:var(--s{series})}}svg circle.s{series},svg .a{series}{{fill:var(--s{series})}}svg .a{series}{{fill-opacity:.75}}"
        );
    }
    out
}

fn introduction(report: &Report, out: &mut String) {
    if !report.description.is_empty() {
        add_line!(out, "<p>{}</p>", escaped(&report.description));
    }
    add_line!(
        out,
        "<p>{} endpoints, load {}, {} seeds. A call is good if its first token comes within {} and each later one takes at most {} in \
         the mean.</p>",
        report.endpoints,
        short(report.load),
        report.seeds.len(),
        seconds(report.objective_ttft_seconds),
        seconds(report.objective_tpot_seconds)
    );
}

fn figures(report: &Report, out: &mut String) {
    out.push_str(
        "<h2>Figures</h2>\n<div class=\"scroll\"><table>\n<caption>Times over all calls of all seeds; the others as means over the \
         seeds with 95 % confidence</caption>\n<thead><tr><th scope=\"col\">Policy</th>",
    );
    let columns = [
        "TTFT mean",
        "p50",
        "p90",
        "p99",
        "TPOT mean",
        "p99",
        "Hits",
        "Good per second",
        "Max/mean work",
        "Answered",
        "Shed",
        "Refused or lost",
    ];
    for column in columns {
        add!(out, "<th scope=\"col\">{column}</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for policy in &report.policies {
        let is_base = report.baseline.as_ref() == Some(&policy.policy);
        add!(
            out,
            "<tr{}><th scope=\"row\">{}</th>",
            if is_base { " class=\"base\"" } else { "" },
            escaped(&policy.policy)
        );
        for cell in cells(policy) {
            add!(out, "<td>{cell}</td>");
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    if let Some(rate) = report.pooled_hit_rate {
        add_line!(
            out,
            "<p class=\"note\">One cache of the summed size would hit {}.</p>",
            percent(rate)
        );
    }
}

fn cells(policy: &PolicyFigures) -> [String; 12] {
    let (ttft, tpot, ends) = (&policy.ttft_seconds, &policy.tpot_seconds, &policy.ends);
    [
        seconds(ttft.mean),
        seconds(ttft.p50),
        seconds(ttft.p90),
        seconds(ttft.p99),
        seconds(tpot.mean),
        seconds(tpot.p99),
        interval(&policy.hit_rate, percent),
        interval(&policy.goodput_per_second, short),
        interval(&policy.imbalance, short),
        ends.answered.to_string(),
        ends.shed.to_string(),
        (ends.refused + ends.lost + ends.unfinished).to_string(),
    ]
}

fn comparisons(report: &Report, out: &mut String) {
    let Some(baseline) = &report.baseline else {
        return;
    };
    if report.policies.iter().all(|policy| policy.against_baseline.is_none()) {
        return;
    }
    add!(
        out,
        "<h2>Against {0}</h2>\n<div class=\"scroll\"><table>\n<caption>Each policy less {0}, paired by seed, with 95 % confidence; ≈ \
         marks what may be no difference</caption>\n<thead><tr><th scope=\"col\">Policy</th>",
        escaped(baseline)
    );
    for column in ["TTFT mean", "TTFT p90", "TTFT p99", "Hit rate", "Good per second"] {
        add!(out, "<th scope=\"col\">{column}</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for policy in &report.policies {
        let Some(against) = &policy.against_baseline else {
            continue;
        };
        add!(out, "<tr><th scope=\"row\">{}</th>", escaped(&policy.policy));
        for paired in [
            &against.ttft_mean,
            &against.ttft_p90,
            &against.ttft_p99,
            &against.hit_rate,
            &against.goodput,
        ] {
            add!(out, "<td>{}</td>", change(paired));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
}

fn figure(drawn: &Drawn, out: &mut String) {
    add!(out, "<h2>{}</h2>\n<figure>\n{}", escaped(&drawn.title), drawn.svg);
    if !drawn.legend.is_empty() {
        out.push_str("<ul class=\"legend\">");
        for (name, series) in &drawn.legend {
            add!(out, "<li>{} {}</li>", swatch(*series), escaped(name));
        }
        out.push_str("</ul>\n");
    }
    add_line!(out, "<figcaption>{}</figcaption>\n</figure>", drawn.note);
}

fn small_figures(drawn: &[Drawn], out: &mut String) {
    out.push_str(
        "<h2>Calls per endpoint over time</h2>\n<p class=\"note\">One band per endpoint, or per group of neighbours in large \
         fleets; the first seed.</p>\n<div class=\"small\">\n",
    );
    for one in drawn {
        add_line!(
            out,
            "<figure>\n{}<figcaption>{}</figcaption>\n</figure>",
            one.svg,
            escaped(&one.title)
        );
    }
    out.push_str("</div>\n");
}
