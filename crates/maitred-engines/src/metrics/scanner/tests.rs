use proptest::prelude::*;

use super::*;
use crate::Engine;
use crate::metrics::{CustomFigure, Figure, LoraSpec};

fn figures(texts: &[&str]) -> Vec<Figure> {
    texts.iter().map(|text| Figure::parse(text).unwrap()).collect()
}

fn mapping() -> MetricMapping {
    MetricMapping {
        queued: figures(&["m:queued", "m:old_queued"]),
        running: figures(&["m:requests{kind=running}"]),
        kv_used: figures(&["m:kv"]),
        block_size: figures(&["m:config@block_size"]),
        blocks: figures(&["m:config@blocks", "m:blocks"]),
        lora: Some(LoraSpec {
            family: "m:lora".to_owned(),
            max_label: "max".to_owned(),
            running_label: "run".to_owned(),
            waiting_label: "wait".to_owned(),
        }),
        progress: figures(&["sum(m:in_total)", "sum(m:out_total)"]),
        started: figures(&["process_start_time_seconds"]),
        custom: vec![CustomFigure {
            name: "heat".to_owned(),
            figure: Figure::parse("heat{gpu=\"0 \\\"a\\\"\"}").unwrap(),
        }],
    }
}

fn scan(page: &str) -> PageSignals {
    Scanner::new(&mapping()).scan(page.as_bytes()).unwrap()
}

#[test]
fn a_figure_is_found_however_it_is_written() {
    let check = |page: &str, wanted: Option<f64>| assert_eq!(scan(page).queued, wanted, "{page:?}");
    check("m:queued 3\n", Some(3.0));
    check("m:queued 3", Some(3.0));
    check("m:queued 3\r\n", Some(3.0));
    check("  m:queued\t3.5e1  \n", Some(35.0));
    check("m:queued{a=\"b\"} 3 1700000000000\n", Some(3.0));
    check("m:queued {a=\"}{\\\"\\\\\"} 3\n", Some(3.0));
    check("m:queued 3 # {trace=\"x\"} 0.5 17.2\n# EOF\n", Some(3.0));
    check(
        "# HELP m:queued m:queued 9\n# TYPE m:queued gauge\nm:queued 3\n",
        Some(3.0),
    );
    check("\u{feff}x 1\n\nm:queued 3\n", Some(3.0));
    check("m:queued 3\nm:queued 4\n", Some(3.0));
    check("m:old_queued 5\n", Some(5.0));
    check("m:old_queued 5\nm:queued 3\n", Some(3.0));
    check("m:queued NaN\nm:old_queued 5\n", Some(5.0));
}

#[test]
fn what_is_no_figure_is_not_taken_for_one() {
    let check = |page: &str| assert_eq!(scan(page).queued, None, "{page:?}");
    check("m:queued_total 3\n");
    check("m:queued5 3\n");
    check("m:queue 3\n");
    check("xm:queued 3\n");
    check("#m:queued 3\n");
    check("m:queued\n");
    check("m:queued{} \n");
    check("m:queued three\n");
    check("m:queued NaN\n");
    check("m:queued +Inf\n");
    check("m:queued -1\n");
    check("m:queued 1 2 3\n");
    check("m:queued 1 x\n");
    check("m:queued{a=\"b} 1\n");
    check("a m:queued 1\n");
}

#[test]
fn the_largest_timestamp_wins_and_without_timestamps_the_first() {
    let check = |page: &str, wanted: f64| assert_eq!(scan(page).queued, Some(wanted), "{page:?}");
    check("m:queued 1 100\nm:queued 2 300\nm:queued 3 200\n", 2.0);
    check("m:queued 1\nm:queued 2 -5\nm:queued 3\n", 2.0);
    check("m:queued{e=\"0\"} 1\nm:queued{e=\"1\"} 2\n", 1.0);
    check("m:queued 1 100\nm:queued 2 100\n", 1.0);
}

#[test]
fn labels_select_series_and_may_hold_the_figure() {
    let page = "m:requests{kind=\"waiting\"} 9\nm:requests{a=\"kind\",kind=\"running\"} 4\n\
        m:config{block_size=\"16\",blocks=\"None\"} 1\nm:blocks 77\n\
        heat{gpu=\"1\"} 5\nheat{gpu=\"0 \\\"a\\\"\"} 6\n";
    let signals = scan(page);
    assert_eq!(signals.running, Some(4.0));
    assert_eq!(signals.block_size, Some(16));
    assert_eq!(
        signals.blocks,
        Some(77),
        "a label that is no number makes way for the next alternative"
    );
    assert_eq!(signals.custom.as_slice(), [Some(6.0)]);
}

#[test]
fn shares_are_clamped_and_counts_must_be_whole() {
    let kv = |text: &str| scan(&format!("m:kv {text}\n")).kv_used;
    assert_eq!(kv("0.25"), Some(0.25));
    assert_eq!(kv("1.0000001"), Some(1.0));
    assert_eq!(kv("37"), Some(1.0), "a percentage is not guessed at; it counts as full");
    assert_eq!(kv("-0.1"), Some(0.0));
    assert_eq!(kv("NaN"), None);
    let blocks = |text: &str| scan(&format!("m:blocks {text}\n")).blocks;
    assert_eq!(blocks("8192.0"), Some(8192));
    for none in ["0", "0.5", "-3", "1e99", "NaN"] {
        assert_eq!(blocks(none), None, "{none}");
    }
}

#[test]
fn sums_take_every_series_and_every_family_there_is() {
    assert_eq!(
        scan("m:in_total{s=\"a\"} 1\nm:in_total{s=\"b\"} 2\nm:out_total 4\n").progress,
        Some(7.0)
    );
    assert_eq!(scan("m:out_total 4\nm:out_total NaN\n").progress, Some(4.0));
    assert_eq!(scan("m:kv 0\n").progress, None);
}

#[test]
fn mandatory_figures_that_are_wanted_and_absent_are_named() {
    assert_eq!(
        scan("x 1\n").missing(),
        [Mandatory::Queued, Mandatory::Running, Mandatory::KvUsed]
    );
    assert_eq!(
        scan("m:kv NaN\nm:queued 1\nm:requests{kind=\"running\"} 0\n").missing(),
        [Mandatory::KvUsed]
    );
    let triton = Scanner::new(&Engine::Triton.mapping())
        .scan(b"nv_inference_pending_request_count{model=\"a\"} 1\nnv_inference_pending_request_count{model=\"b\"} 2\n")
        .unwrap();
    assert_eq!(triton.queued, Some(3.0));
    assert!(
        triton.missing().is_empty(),
        "what an engine does not report is not missed"
    );
}

#[test]
fn a_page_that_is_no_page_is_refused() {
    let check = |page: &str, wanted: PageError| {
        assert_eq!(Scanner::new(&mapping()).scan(page.as_bytes()), Err(wanted), "{page}");
    };
    check("", PageError::Empty);
    check(" \r\n", PageError::Empty);
    check("<!doctype html>", PageError::Html);
    check("[{\"iter\":1}]", PageError::Json);
    check("{\"detail\":\"Not Found\"}", PageError::Json);
}

#[test]
fn adapters_come_from_the_newest_series_and_are_kept_while_nothing_changes() {
    let page = |newest: &str| {
        format!(
            "m:lora{{max=\"2\",run=\"\",wait=\"\"}} 10\n\
             m:lora{{max=\"2\",run=\"b,a\",wait=\"c\"}} {newest}\n\
             m:lora{{max=\"4\",run=\"z\",wait=\"\"}} 11\n"
        )
    };
    let mut scanner = Scanner::new(&mapping());
    let mut read = |newest: &str| scanner.scan(page(newest).as_bytes()).unwrap().lora.unwrap();
    let first = read("12.5");
    assert_eq!(first.max, Some(2));
    assert_eq!(first.running, ["a".into(), "b".into()]);
    assert_eq!(first.waiting, ["c".into()]);
    let second = read("1.5e3");
    assert!(Arc::ptr_eq(&first, &second), "the same lists are not read again");
    let third = read("9");
    assert_eq!(third.running, ["z".into()]);
    assert_eq!(third.max, Some(4));
    assert_eq!(scanner.scan(b"m:queued 1\n").unwrap().lora, None);
}

#[test]
fn alternatives_do_not_leak_from_page_to_page() {
    let mut scanner = Scanner::new(&mapping());
    assert_eq!(scanner.scan(b"m:queued 1\n").unwrap().queued, Some(1.0));
    assert_eq!(scanner.scan(b"m:kv 1\n").unwrap().queued, None);
}

/// A line of a generated page, as structure.
#[derive(Clone, Debug)]
enum Line {
    Series(Series),
    Other(String),
}

#[derive(Clone, Debug)]
struct Series {
    family: &'static str,
    labels: Vec<(String, String)>,
    value: f64,
    timestamp: Option<i32>,
}

fn series() -> impl Strategy<Value = Series> {
    let family = prop::sample::select(vec![
        "m:queued",
        "m:old_queued",
        "m:requests",
        "m:kv",
        "m:config",
        "m:blocks",
        "m:in_total",
        "m:out_total",
        "m:queued_total",
        "process_start_time_seconds",
    ]);
    let name = prop::sample::select(vec!["kind", "block_size", "blocks", "engine"]);
    let value = prop_oneof![
        Just("running".to_owned()),
        Just("waiting".to_owned()),
        Just("16".to_owned()),
        "[ -~\n\"\\\\]{0,6}"
    ];
    let labels = prop::collection::vec((name.prop_map(str::to_owned), value), 0..3);
    let number = prop_oneof![
        5 => (-3.0..100.0_f64).prop_map(|number| (number * 4.0).round() / 4.0),
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
    ];
    (family, labels, number, prop::option::of(-5..5_i32)).prop_map(|(family, mut labels, value, timestamp)| {
        labels.sort();
        labels.dedup_by(|a, b| a.0 == b.0);
        Series {
            family,
            labels,
            value,
            timestamp,
        }
    })
}

fn line() -> impl Strategy<Value = Line> {
    let other = prop_oneof![
        Just(String::new()),
        Just("# HELP m:queued m:queued 7".to_owned()),
        Just("# EOF".to_owned()),
        Just("m:queued{ 7".to_owned()),
        Just("other{a=\"}\"} 7".to_owned()),
        "#[ -~]{0,20}",
    ];
    prop_oneof![4 => series().prop_map(Line::Series), 1 => other.prop_map(Line::Other)]
}

fn render(line: &Line, end: &str) -> String {
    let series = match line {
        Line::Series(series) => series,
        Line::Other(text) => return format!("{text}{end}"),
    };
    let mut text = series.family.to_owned();
    if !series.labels.is_empty() {
        let escape = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<_> = series
            .labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escape(value)))
            .collect();
        text += &format!("{{{}}}", labels.join(","));
    }
    let value = if series.value.is_infinite() {
        "+Inf".to_owned()
    } else {
        series.value.to_string()
    };
    let timestamp = series.timestamp.map(|stamp| format!(" {stamp}")).unwrap_or_default();
    format!("{text} {value}{timestamp}{end}")
}

/// The reference: reads the structure and not the text.
struct Reference<'a>(Vec<&'a Series>);

impl Reference<'_> {
    fn of(&self, family: &str, label: Option<(&str, &str)>) -> Vec<&Series> {
        let has = |series: &Series| {
            label.is_none_or(|(name, value)| series.labels.iter().any(|(n, v)| n == name && v == value))
        };
        self.0
            .iter()
            .copied()
            .filter(|series| series.family == family && has(series))
            .collect()
    }

    fn newest<'b>(all: &[&'b Series]) -> Option<&'b Series> {
        let best = all.iter().map(|series| series.timestamp).max()?;
        all.iter().copied().find(|series| series.timestamp == best)
    }

    fn one(&self, family: &str, label: Option<(&str, &str)>) -> Option<f64> {
        Self::newest(&self.of(family, label))
            .map(|series| series.value)
            .filter(|value| value.is_finite())
    }

    fn label(&self, family: &str, label: &str) -> Option<f64> {
        let series = Self::newest(&self.of(family, None)).cloned()?;
        let (_, text) = series.labels.iter().find(|(name, _)| name == label)?;
        text.trim_matches(' ')
            .parse()
            .ok()
            .filter(|value: &f64| value.is_finite())
    }

    fn sum(&self, family: &str) -> Option<f64> {
        let all = self.of(family, None);
        all.iter()
            .map(|series| series.value)
            .filter(|value| value.is_finite())
            .reduce(|a, b| a + b)
    }
}

fn whole(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.fract() == 0.0 && *value > 0.0 && *value <= f64::from(u32::MAX))
}

proptest! {
    #[test]
    fn any_page_is_read_as_the_reference_reads_it(
        lines in prop::collection::vec(line(), 0..20),
        end in prop::sample::select(vec!["\n", "\r\n", " \n"]),
        cut_last_newline: bool,
    ) {
        // A page of nothing is an error of its own, so there is always one line.
        let mut page = format!("x 1{end}");
        page.extend(lines.iter().map(|line| render(line, end)));
        if cut_last_newline {
            page.truncate(page.trim_end().len());
        }
        let series = lines.iter().filter_map(|line| match line {
            Line::Series(series) => Some(series),
            Line::Other(_) => None,
        });
        let reference = Reference(series.collect());
        let signals = Scanner::new(&mapping()).scan(page.as_bytes()).unwrap();
        let count = |value: Option<f64>| value.filter(|count| *count >= 0.0);

        let queued = reference.one("m:queued", None).or_else(|| reference.one("m:old_queued", None));
        prop_assert_eq!(signals.queued, count(queued));
        prop_assert_eq!(signals.running, count(reference.one("m:requests", Some(("kind", "running")))));
        prop_assert_eq!(signals.kv_used, reference.one("m:kv", None).map(|used| used.clamp(0.0, 1.0)));
        prop_assert_eq!(signals.block_size.map(f64::from), whole(reference.label("m:config", "block_size")));
        let blocks = reference.label("m:config", "blocks").or_else(|| reference.one("m:blocks", None));
        prop_assert_eq!(signals.blocks.map(f64::from), whole(blocks));
        let sums = [reference.sum("m:in_total"), reference.sum("m:out_total")];
        prop_assert_eq!(signals.progress, sums.into_iter().flatten().reduce(|a, b| a + b));
        prop_assert_eq!(signals.started, reference.one("process_start_time_seconds", None));
    }

    #[test]
    fn any_bytes_are_survived(page in prop::collection::vec(any::<u8>(), 0..400)) {
        crate::fuzzing::fuzz_page(&page);
    }

    #[test]
    fn broken_lines_around_a_good_one_do_no_harm(before in "[^\n]{0,60}", after in "[^\n]{0,60}") {
        prop_assume!(!before.contains("m:queued") && !after.contains("m:queued"));
        let page = format!("x 1\n{before}\nm:queued 3\n{after}\n");
        prop_assert_eq!(scan(&page).queued, Some(3.0));
    }
}
