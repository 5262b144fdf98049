use std::time::Duration;

use maitred_types::{Time, TokenCount};

use super::text::{escaped, seconds, short};
use super::*;
use crate::lab::{CallEnd, CallRecord, EndpointIndex, EndpointSummary, Recorder};

const OBJECTIVE: Objective = Objective {
    ttft: Duration::from_secs(1),
    tpot: Duration::from_millis(50),
};

/// A call that comes at `at` and whose first token takes `ttft`, both in milliseconds.
fn record(number: u64, at: u64, ttft: u64) -> CallRecord {
    let first = Time::from_millis(at + ttft);
    CallRecord {
        number,
        arrived: Time::from_millis(at),
        dispatched: Some(Time::from_millis(at)),
        first_token: Some(first),
        finished: first + Duration::from_millis(200),
        input: TokenCount::new(1000),
        cached: TokenCount::new(if number.is_multiple_of(4) { 0 } else { 480 }),
        predicted_cached: Some(TokenCount::new(480)),
        output: TokenCount::new(11),
        endpoint: Some(EndpointIndex::new(u32::try_from(number % 2).unwrap())),
        gateway: 0,
        tenant: 0,
        class: 0,
        end: CallEnd::Answered,
    }
}

/// A run of 40 calls in ten seconds, whose first tokens take about `ttft` milliseconds times `load`.
fn run(policy: &str, seed: u64, load: f64, ttft: u64) -> Run {
    let mut tally = Tally::new(2, OBJECTIVE);
    let slower = if load > 1.0 { 3 } else { 1 };
    for number in 0..40 {
        tally.call(&record(number, number * 250, (ttft + number * 10 + seed * 7) * slower));
    }
    let endpoint = |computed_tokens| EndpointSummary {
        computed_tokens,
        ..EndpointSummary::default()
    };
    Run {
        load,
        summary: RunSummary {
            policy: policy.to_owned(),
            seed,
            endpoints: vec![endpoint(1500), endpoint(2500)],
            ..RunSummary::default()
        },
        tally,
    }
}

fn tiny() -> Report {
    let subject = Subject {
        scenario: "tiny <script>alert('&')</script>".to_owned(),
        description: "Two endpoints & forty calls.".to_owned(),
        endpoints: 2,
        objective: OBJECTIVE,
        load: 1.0,
        baseline: Some("ours".to_owned()),
        pooled_hit_rate: Some(0.42),
    };
    let mut runs = Vec::new();
    for seed in 1..=5 {
        runs.push(run("ours", seed, 1.0, 100));
        runs.push(run("\"theirs\"", seed, 1.0, 300 + seed % 3));
        runs.push(run("ours", seed, 2.0, 100));
        runs.push(run("\"theirs\"", seed, 2.0, 300));
    }
    Report::new(&subject, &runs)
}

#[test]
fn the_table_is_short() {
    insta::assert_snapshot!(tiny().table());
}

#[test]
fn the_page_is_as_it_was() {
    insta::assert_snapshot!(tiny().to_html());
}

#[test]
fn the_json_keeps_its_fields_in_order() {
    let mut report = tiny();
    for policy in &mut report.policies {
        policy.ttft_seconds.cumulative.truncate(2);
        policy.tpot_seconds.cumulative.truncate(2);
        policy.wait_seconds.cumulative.clear();
        policy.by_seed.truncate(1);
    }
    insta::assert_snapshot!(report.to_json().unwrap());
}

#[test]
fn the_same_runs_give_the_same_bytes() {
    let (one, other) = (tiny(), tiny());
    assert_eq!(one.to_html(), other.to_html());
    assert_eq!(one.to_json().unwrap(), other.to_json().unwrap());
}

#[test]
fn the_figures_are_those_of_the_calls() {
    let report = tiny();
    let ours = &report.policies[0];
    assert_eq!((ours.policy.as_str(), ours.ends.answered), ("ours", 200));
    // 100 + 10·19.5 + 7·3 milliseconds in the mean of calls and seeds.
    assert!(
        (ours.ttft_seconds.mean - 0.316).abs() < 1e-9,
        "{}",
        ours.ttft_seconds.mean
    );
    assert!((ours.tpot_seconds.p50 - 0.02).abs() < 1e-4);
    assert!((ours.hit_rate.mean - 0.36).abs() < 1e-9);
    // All forty within the 9.75 s to the last arrival.
    assert!((ours.goodput_per_second.mean - 40.0 / 9.75).abs() < 1e-4);
    assert!((ours.imbalance.mean - 1.25).abs() < 1e-9);
    let calibration = ours.calibration.as_ref().unwrap();
    assert!((calibration.error_rate - 0.12).abs() < 1e-9);
    let against = report.policies[1].against_baseline.as_ref().unwrap();
    assert!(against.ttft_mean.difference.low > 0.19 && against.ttft_mean.difference.high < 0.21);
    assert!(against.ttft_mean.is_significant() && !against.hit_rate.is_significant());
    let curve = &report.curves[1];
    assert_eq!(curve.points.len(), 2);
    assert!(curve.points[1].goodput_per_second.mean < curve.points[0].goodput_per_second.mean);
}

/// Reads tags off `page` and sees that each is closed by the right one.
fn check_nesting(page: &str) -> Result<(), String> {
    const EMPTY: [&str; 3] = ["meta", "!doctype", "br"];
    let mut open: Vec<&str> = Vec::new();
    for tag in page.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').ok_or("a tag does not end")?;
        let name = tag.split([' ', '/', '\n']).find(|part| !part.is_empty()).unwrap_or("");
        if let Some(closing) = tag.strip_prefix('/') {
            if open.pop() != Some(closing) {
                return Err(format!("</{closing}> closes something else"));
            }
        } else if !tag.ends_with('/') && !EMPTY.contains(&name) {
            open.push(name);
        }
    }
    if open.is_empty() {
        Ok(())
    } else {
        Err(format!("left open: {open:?}"))
    }
}

#[test]
fn the_page_stands_alone_and_says_what_it_shows() {
    let page = tiny().to_html();
    check_nesting(&page).unwrap();
    for outside in [
        "<script", "http:", "https:", "@import", "url(", " src=", "<link", "onload",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(
        page.matches("<svg class=\"plot\"").count(),
        page.matches("<desc id=").count()
    );
    assert!(
        page.contains("&lt;script&gt;alert(&#39;&amp;&#39;)&lt;/script&gt;") && page.contains("&quot;theirs&quot;")
    );
    assert!(!page.contains("NaN") && !page.contains("inf"));
    assert!(check_nesting("<a><b></a></b>").is_err(), "the negative control");
}

#[test]
fn nothing_to_report_is_a_report() {
    let subject = Subject {
        scenario: "none".to_owned(),
        description: String::new(),
        endpoints: 0,
        objective: OBJECTIVE,
        load: 1.0,
        baseline: None,
        pooled_hit_rate: None,
    };
    let empty = Report::new(&subject, &[]);
    check_nesting(&empty.to_html()).unwrap();
    let lonely = Run {
        load: 1.0,
        summary: RunSummary {
            policy: "p".to_owned(),
            ..RunSummary::default()
        },
        tally: Tally::new(0, OBJECTIVE),
    };
    let page = Report::new(&subject, &[lonely]).to_html();
    check_nesting(&page).unwrap();
    assert!(!page.contains("NaN") && !page.contains("inf"));
}

#[test]
fn numbers_have_three_digits_and_a_unit() {
    let times: Vec<String> = [0.0, 0.000_012_3, 0.001, 0.0456, 0.9996, 1.0, 12.34, 123.4]
        .map(seconds)
        .to_vec();
    assert_eq!(
        times,
        ["0 s", "12.3 µs", "1 ms", "45.6 ms", "1 s", "1 s", "12.3 s", "123 s"]
    );
    assert_eq!([0.25, 1234.5, 0.0].map(short), ["0.25", "1234", "0"]);
    assert_eq!(escaped("a<b>&\"'\u{7}"), "a&lt;b&gt;&amp;&quot;&#39;\u{fffd}");
}
