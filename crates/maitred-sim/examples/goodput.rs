//! Goodput at the knee and beyond it, with the waiting room and without.
//!
//! ```text
//! cargo run --release -p maitred-sim --example goodput -- scenarios/shared-prompts.yaml
//! ```
//!
//! For the scenario's `default` profile and its first seeds, prints calls that kept the objective, those that were shed, the
//! hit rate and the times, at 0.6, 0.9, 1.1, 1.5 and 2 times the knee. The knee is that of the profile without the room.
#![expect(clippy::print_stdout, reason = "the figures are the point")]

use std::error::Error;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use maitred_config::scenario::{Scenario, WorkloadSettings};
use maitred_config::{ScenarioNames, load_scenario};
use maitred_sim::EngineProfile;
use maitred_sim::lab::Experiment;
use maitred_sim::lab::rivals::RIVALS;
use maitred_sim::lab::workload::LineSource;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().ok_or("which scenario?")?);
    let seeds: usize = arguments.next().map_or(Ok(2), |text| text.parse())?;
    let scenario = scenario(&path)?;
    let (open, loads) = (opener(&scenario, &path), loads()?);
    let without = Scenario {
        waiting: maitred_sched::WaitingOptions {
            calls: 0,
            ..scenario.waiting.clone()
        },
        ..scenario.clone()
    };
    let within = |wait: Duration, tokens: Option<Duration>| Scenario {
        waiting: maitred_sched::WaitingOptions {
            max_wait: wait,
            token_time: tokens,
            ..scenario.waiting.clone()
        },
        ..scenario.clone()
    };
    let knee = Experiment::new(&without, &open)?.knee(&mut || {})?;
    println!("{}: knee {knee:.2} calls a second", scenario.name);
    println!("room        load  good/s  shed%  hit%   mean    p50    p90    p99 TTFT   wait p90   tpot p90");
    let variants = [
        ("none", without),
        ("first token", within(scenario.good_ttft, None)),
        ("both", within(scenario.good_ttft, Some(scenario.good_per_token))),
        ("as it is", scenario.clone()),
    ];
    for (name, scenario) in &variants {
        let experiment = Experiment::new(scenario, &open)?;
        let policy = scenario.policies.iter().find(|policy| policy.name == "default");
        let policy = policy.ok_or("the scenario has no policy `default`")?;
        for load in loads.iter().copied() {
            row(&experiment, policy, (name, load, load * knee), &scenario.seeds[..seeds])?;
        }
    }
    Ok(())
}

/// Parts of the knee.
fn loads() -> Outcome<Vec<f64>> {
    let text = std::env::args()
        .nth(4)
        .unwrap_or_else(|| "0.6,0.9,1.0,1.5,2.0".to_owned());
    Ok(text.split(',').map(str::parse).collect::<Result<_, _>>()?)
}

fn row(
    experiment: &Experiment<'_>,
    policy: &maitred_config::scenario::PolicySettings,
    (name, load, rate): (&str, f64, f64),
    seeds: &[u64],
) -> Outcome<()> {
    let mut sums = [0.0; 10];
    for seed in seeds {
        let run = experiment.run(policy, (load, rate), *seed, &mut || {})?;
        let tally = &run.tally;
        let calls: u64 = tally.ends.iter().sum();
        let seconds = run.summary.calls as f64 / rate;
        let figures = [
            tally.good as f64 / seconds,
            100.0 * tally.ends[1] as f64 / calls as f64,
            100.0 * tally.cached_tokens as f64 / tally.input_tokens.max(1) as f64,
            tally.ttft.mean(),
            tally.ttft.quantile(0.5),
            tally.ttft.quantile(0.9),
            tally.ttft.quantile(0.99),
            tally.wait.quantile(0.9),
            1e3 * tally.tpot.quantile(0.9),
            0.0,
        ];
        for (sum, figure) in sums.iter_mut().zip(figures) {
            *sum += figure / seeds.len() as f64;
        }
    }
    let [good, shed, hit, mean, p50, p90, p99, wait, tpot, _] = sums;
    println!(
        "{name:<11} {load:>4} {good:>7.2} {shed:>6.1} {hit:>5.1} {mean:>6.3} {p50:>6.3} {p90:>6.3} {p99:>6.3} {wait:>15.3} {tpot:>7.1} ms"
    );
    Ok(())
}

fn scenario(path: &PathBuf) -> Outcome<Scenario> {
    let text = std::fs::read_to_string(path)?;
    let engines: Vec<&str> = EngineProfile::ALL.iter().map(|profile| profile.name).collect();
    let names = ScenarioNames {
        engines: &engines,
        rivals: &RIVALS,
    };
    let loaded = load_scenario("scenario", &text, names);
    loaded
        .map(|(scenario, _)| scenario)
        .map_err(|wrong| format!("{wrong:?}").into())
}

/// A trace file, line by line.
#[derive(Debug)]
struct Lines(BufReader<File>);

impl LineSource for Lines {
    fn next_line(&mut self, line: &mut Vec<u8>) -> Result<bool, String> {
        line.clear();
        let read = self.0.read_until(b'\n', line).map_err(|error| error.to_string())?;
        line.pop_if(|last| *last == b'\n');
        Ok(read > 0)
    }

    fn rewind(&mut self) -> Result<(), String> {
        self.0.rewind().map_err(|error| error.to_string())
    }
}

fn opener<'a>(scenario: &Scenario, path: &'a Path) -> impl Fn() -> Result<Box<dyn LineSource>, String> + Sync + 'a {
    let file = match &scenario.workload {
        WorkloadSettings::Trace(trace) => trace.file.clone(),
        WorkloadSettings::Kinds(_) => String::new(),
    };
    move || {
        let folder = std::env::args()
            .nth(3)
            .map_or_else(|| path.to_owned(), |folder| PathBuf::from(folder).join("x"));
        let opened = File::open(folder.with_file_name(&file)).map_err(|error| error.to_string())?;
        Ok(Box::new(Lines(BufReader::new(opened))))
    }
}
