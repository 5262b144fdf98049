//! Every scenario that is shipped can be read and run.

use std::path::Path;

use maitred_config::scenario::LoadSettings;
use maitred_config::{ScenarioNames, load_scenario};

use super::*;
use crate::lab::rivals::RIVALS;
use crate::lab::workload::TextLines;

/// A trace of a few calls, in place of those that are not part of the project.
const TRACE: &str = r#"{"timestamp": 0, "input_length": 900, "output_length": 20, "hash_ids": [0, 1]}
{"timestamp": 3000, "input_length": 1300, "output_length": 30, "hash_ids": [0, 1, 2]}
{"timestamp": 3000, "input_length": 700, "output_length": 9, "hash_ids": [0, 7]}
"#;
const AZURE: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n";

fn load(name: &str, text: &str) -> Scenario {
    let engines: Vec<&str> = EngineProfile::ALL.iter().map(|profile| profile.name).collect();
    let names = ScenarioNames {
        engines: &engines,
        rivals: &RIVALS,
    };
    match load_scenario(name, text, names) {
        Ok((scenario, warnings)) => {
            assert!(warnings.is_empty(), "{}", maitred_config::render(&warnings, text));
            scenario
        }
        Err(diagnostics) => panic!("{}", maitred_config::render(&diagnostics, text)),
    }
}

fn open(scenario: &Scenario) -> impl Fn() -> Result<Box<dyn LineSource>, String> + Sync + use<> {
    let is_azure = matches!(
        &scenario.workload,
        WorkloadSettings::Trace(trace) if trace.format == scenario::TraceFormat::AzureCsv
    );
    move || {
        Ok(Box::new(TextLines::new(
            if is_azure { AZURE } else { TRACE }.as_bytes(),
        )))
    }
}

#[test]
fn every_scenario_of_the_project_runs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut found = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        found += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        let mut scenario = load(&path.display().to_string(), &text);
        scenario.calls = 60;
        assert!(scenario.seeds.len() >= 5, "{}", path.display());
        let open = open(&scenario);
        let experiment = Experiment::new(&scenario, &open).unwrap();
        for policy in &scenario.policies {
            let run = experiment.run(policy, (1.0, 20.0), 1, &mut || {}).unwrap();
            assert_eq!(run.tally.calls(), 60, "{} under {}", path.display(), policy.name);
            assert_eq!(run.summary.policy, policy.name);
        }
        let pooled = experiment.pooled_hit_rate(20.0).unwrap();
        assert!((0.0..=1.0).contains(&pooled));
    }
    assert!(found >= 12, "{found} scenarios");
}

const SHORT: &str = "\
version: 1
name: short
fleet:
  - profile: l40s-8b
    count: 2
workload:
  kinds:
    - prompt: {mean: 600, variation: 0.5}
      answer: {mean: 60, variation: 0.5}
load:
  of_knee: [0.5, 1.5]
policies: [default, round-robin]
calls: 500
knee: {ttft: 1s, calls: 400}
";

#[test]
fn below_the_knee_calls_flow_and_above_it_they_pile_up() {
    let scenario = load("short.yaml", SHORT);
    let open = open(&scenario);
    let experiment = Experiment::new(&scenario, &open).unwrap();
    let knee = experiment.knee(&mut || {}).unwrap();
    assert_eq!(
        knee.to_bits(),
        experiment.knee(&mut || {}).unwrap().to_bits(),
        "it is found again"
    );
    let LoadSettings::OfKnee(parts) = &scenario.load else {
        panic!("{:?}", scenario.load)
    };
    let ttft = |part: f64| {
        let run = experiment.run(&scenario.policies[0], (part, part * knee), 1, &mut || {});
        run.unwrap().tally.ttft.quantile(0.9)
    };
    assert!(ttft(parts[0]) < 0.5, "{}", ttft(parts[0]));
    assert!(ttft(parts[1]) > 1.0, "{}", ttft(parts[1]));
}

#[test]
fn faults_point_into_the_scenario() {
    let told = |from: &str, to: &str| {
        let engines = ["l40s-8b"];
        let names = ScenarioNames {
            engines: &engines,
            rivals: &RIVALS,
        };
        let text = SHORT.replace(from, to);
        let diagnostics = load_scenario("short.yaml", &text, names).unwrap_err();
        let first = diagnostics.first().unwrap();
        format!("{}:{} {}: {}", first.line, first.column, first.path, first.message)
    };
    let all = [
        told("l40s-8b", "l40s-8c"),
        told("default, round", "defalt, round"),
        told("[0.5, 1.5]", "[0.5, -1]"),
        told("calls: 500", "calls: 0"),
        told("mean: 600", "men: 600"),
        told("calls: 500", "calls: 500\nbaseline: preble"),
        told("calls: 500", "calls: 500\nrestarts: [{endpoint: 2, at: 5s}]"),
        told("of_knee", "of_need"),
    ];
    let expected = [
        "4:14 fleet[0].profile: there is no engine profile `l40s-8c`",
        "12:12 policies[0]: there is no policy `defalt`",
        "11:18 load.of_knee[1]: -1 is no load",
        "13:8 calls: expected a whole number from 1 to 1000000000, found the number 0",
        "8:16 workload.kinds[0].prompt.men: unknown option `men` in `workload.kinds[0].prompt`",
        "14:11 baseline: `preble` is not among the policies",
        "14:23 restarts[0].endpoint: there is no endpoint 2",
        "10:1 load: unknown option `of_need` in `load`",
    ];
    assert_eq!(all, expected);
}
