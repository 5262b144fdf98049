//! `maitred lab`: scenarios, traces and policies in virtual time.

mod lines;
mod progress;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use maitred_config::scenario::{LoadSettings, PolicySettings, Scenario, TraceFormat, WorkloadSettings};
use maitred_config::{ScenarioNames, load_scenario, render};
use maitred_sim::EngineProfile;
use maitred_sim::lab::report::{Report, Run};
use maitred_sim::lab::rivals::RIVALS;
use maitred_sim::lab::workload::LineSource;
use maitred_sim::lab::{Experiment, ExperimentFault};
use parking_lot::Mutex;

use crate::config_file::beside;
use lines::FileLines;
use progress::Progress;

/// Options of `maitred lab`.
#[derive(Args, Clone, Debug)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Subcommand, Clone, Debug)]
enum LabCommand {
    /// Run a scenario.
    Run(RunArgs),
    /// Run a recording of real traffic, or another trace, against policies.
    Replay(ReplayArgs),
}

/// What both commands have in common.
#[derive(Args, Clone, Debug)]
struct CommonArgs {
    /// Policies to run, separated by commas; in place of the scenario's.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    policies: Vec<String>,
    /// Seeds to run, separated by commas; in place of the scenario's.
    #[arg(long, value_delimiter = ',', value_name = "SEED")]
    seeds: Vec<u64>,
    /// Calls of each run; in place of the scenario's.
    #[arg(long, value_name = "CALLS")]
    calls: Option<u64>,
    /// Print one table that compares the policies, and nothing else.
    #[arg(long)]
    compare: bool,
    /// Write `report.html` and `report.json` into this folder.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Runs at one time; as many as there are cores if it is left out. Results do not depend on it.
    #[arg(long, value_name = "RUNS")]
    jobs: Option<usize>,
}

/// Options of `maitred lab run`.
#[derive(Args, Clone, Debug)]
struct RunArgs {
    /// The scenario.
    #[arg(value_name = "SCENARIO.yaml")]
    scenario: PathBuf,
    /// The folder with the scenario's traces, if they are not beside it.
    #[arg(long, value_name = "FOLDER")]
    traces: Option<PathBuf>,
    /// Loads to run, separated by commas; in place of the scenario's, and of its kind.
    #[arg(long, value_delimiter = ',', value_name = "LOAD")]
    loads: Vec<f64>,
    #[command(flatten)]
    common: CommonArgs,
}

/// Options of `maitred lab replay`.
#[derive(Args, Clone, Debug)]
struct ReplayArgs {
    /// The trace: JSON lines, or an Azure trace if its name ends in `.csv`.
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Engine profile of the endpoints.
    #[arg(long, default_value = "h100-8b")]
    profile: String,
    /// How many endpoints there are.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    endpoints: u32,
    /// Tokens per KV block.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    block_tokens: u32,
    /// How many times as fast as it came.
    #[arg(long, default_value_t = 1.0)]
    speed: f64,
    /// To how many milliseconds the trace's times are rounded down; calls are moved within it.
    #[arg(long, default_value_t = 0)]
    jitter_ms: u64,
    #[command(flatten)]
    common: CommonArgs,
}

/// Runs and reports.
pub(crate) fn run(args: &LabArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        LabCommand::Run(args) => {
            let mut scenario = read(&args.scenario)?;
            if !args.loads.is_empty() {
                check_loads(&args.loads)?;
                match &mut scenario.load {
                    LoadSettings::PerSecond(loads) | LoadSettings::OfKnee(loads) => loads.clone_from(&args.loads),
                }
            }
            let trace = trace_path(&scenario, &args.scenario, args.traces.as_deref());
            carry_out(scenario, &trace, &args.common)
        }
        LabCommand::Replay(args) => {
            let scenario = replay(args)?;
            carry_out(scenario, &args.trace, &args.common)
        }
    }
}

fn check_loads(loads: &[f64]) -> anyhow::Result<()> {
    match loads.iter().find(|load| !(**load > 0.0 && **load <= 1e9)) {
        Some(load) => bail!("{load} is no load; write a number above 0"),
        None => Ok(()),
    }
}

fn names() -> Vec<&'static str> {
    EngineProfile::ALL.iter().map(|profile| profile.name).collect()
}

fn parse(name: &str, text: &str) -> anyhow::Result<Scenario> {
    let engines = names();
    let names = ScenarioNames {
        engines: &engines,
        rivals: &RIVALS,
    };
    match load_scenario(name, text, names) {
        Ok((scenario, warnings)) => {
            if !warnings.is_empty() {
                eprintln!("{}", render(&warnings, text));
            }
            Ok(scenario)
        }
        Err(diagnostics) => bail!("the scenario is not valid\n\n{}", render(&diagnostics, text)),
    }
}

fn read(path: &Path) -> anyhow::Result<Scenario> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&path.display().to_string(), &text)
}

/// Where the scenario's trace is; nothing for one without.
fn trace_path(scenario: &Scenario, file: &Path, folder: Option<&Path>) -> PathBuf {
    match (&scenario.workload, folder) {
        (WorkloadSettings::Trace(trace), Some(folder)) => folder.join(&trace.file),
        (WorkloadSettings::Trace(trace), None) => beside(file, &trace.file),
        (WorkloadSettings::Kinds(_), _) => PathBuf::new(),
    }
}

/// The policies that a replay compares unless others are asked for.
const REPLAYED: &str = "[default, least_request, round_robin, oracle]";

/// A scenario for a trace that has none.
fn replay(args: &ReplayArgs) -> anyhow::Result<Scenario> {
    check_loads(&[args.speed])?;
    let text = format!(
        "version: 1\nname: replay\nfleet: [{{profile: {}, count: {}}}]\nblock_tokens: {}\n\
         workload: {{trace: {{file: trace}}}}\nload: {{per_second: [1]}}\npolicies: {REPLAYED}\ncalls: 1\n\
         staleness: {{after: 1s, policy: ignore}}\n",
        args.profile, args.endpoints, args.block_tokens
    );
    let mut scenario = parse("replay", &text)?;
    scenario.description = format!("The trace {}.", args.trace.display());
    scenario.calls = u64::MAX;
    if let WorkloadSettings::Trace(trace) = &mut scenario.workload {
        trace.jitter = Duration::from_millis(args.jitter_ms);
        if args.trace.extension().is_some_and(|extension| extension == "csv") {
            trace.format = TraceFormat::AzureCsv;
        } else {
            trace.lateness = REPLAY_LATENESS;
        }
    }
    let open = opener(&args.trace);
    let experiment = Experiment::new(&scenario, &open)?;
    let trace = experiment.trace().unwrap_or_default();
    if trace.span.is_zero() {
        bail!("{} has no calls at different times", args.trace.display());
    }
    scenario.load = LoadSettings::PerSecond(vec![trace.rate() * args.speed]);
    scenario.calls = trace.calls;
    Ok(scenario)
}

/// A call of a recording is written when it ends, at most this long after it came.
const REPLAY_LATENESS: Duration = Duration::from_mins(10);

fn opener(path: &Path) -> impl Fn() -> Result<Box<dyn LineSource>, String> + Sync + use<> {
    let path = path.to_owned();
    move || {
        let lines = FileLines::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Box::new(lines) as Box<dyn LineSource>)
    }
}

/// Puts other policies, seeds or numbers of calls in place of the scenario's.
fn overrule(scenario: &mut Scenario, args: &CommonArgs) -> anyhow::Result<()> {
    if !args.policies.is_empty() {
        let known = scenario.policies.clone();
        let policies = args.policies.iter().map(|name| policy(name, &known));
        scenario.policies = policies.collect::<anyhow::Result<_>>()?;
        let has_baseline = args.policies.contains(&scenario.baseline);
        if let (false, Some(first)) = (has_baseline, args.policies.first()) {
            scenario.baseline.clone_from(first);
        }
    }
    if !args.seeds.is_empty() {
        scenario.seeds.clone_from(&args.seeds);
    }
    if let Some(calls) = args.calls {
        scenario.calls = calls.max(1);
    }
    Ok(())
}

/// One of the scenario's policies or profiles, a built-in profile or a rival.
fn policy(name: &str, known: &[PolicySettings]) -> anyhow::Result<PolicySettings> {
    if let Some(policy) = known.iter().find(|policy| policy.name == name) {
        return Ok(policy.clone());
    }
    let profile = maitred_config::built_in_profile(name);
    if profile.is_none() && !RIVALS.contains(&name) {
        bail!("there is no policy `{name}`; rivals are {}", RIVALS.join(", "));
    }
    Ok(PolicySettings {
        name: name.to_owned(),
        profile,
    })
}

/// One run that is to be made.
struct Task<'a> {
    policy: &'a PolicySettings,
    load: f64,
    rate: f64,
    seed: u64,
}

fn carry_out(mut scenario: Scenario, trace: &Path, args: &CommonArgs) -> anyhow::Result<ExitCode> {
    overrule(&mut scenario, args)?;
    let open = opener(trace);
    let experiment = Experiment::new(&scenario, &open)?;
    let (knee, loads) = match &scenario.load {
        LoadSettings::PerSecond(rates) => (1.0, rates),
        LoadSettings::OfKnee(parts) => {
            let progress = Progress::new("looking for the knee", None);
            let knee = experiment.knee(&mut || progress.count())?;
            progress.end();
            if !args.compare {
                println!("the knee is at {knee:.2} calls per second");
            }
            (knee, parts)
        }
    };
    let mut tasks = Vec::new();
    for load in loads {
        for policy in &scenario.policies {
            let runs = scenario.seeds.iter().map(|seed| Task {
                policy,
                load: *load,
                rate: load * knee,
                seed: *seed,
            });
            tasks.extend(runs);
        }
    }
    let progress = Progress::new("running", Some(scenario.calls.saturating_mul(tasks.len() as u64)));
    let runs = all(&experiment, &tasks, args.jobs, &progress)?;
    let calls: u64 = runs.iter().map(|run| run.summary.calls).sum();
    let took = progress.end();
    for load in loads {
        let pooled = experiment.pooled_hit_rate(load * knee)?;
        let report = Report::new(&experiment.subject(*load, Some(pooled)), &runs);
        println!("{}", report.table());
    }
    // The last load is the one that is reported in full.
    if let (Some(folder), Some(load)) = (&args.out, loads.last()) {
        let pooled = experiment.pooled_hit_rate(load * knee)?;
        write(folder, &Report::new(&experiment.subject(*load, Some(pooled)), &runs))?;
    }
    if !args.compare {
        let speed = calls as f64 / took.as_secs_f64().max(1e-9);
        println!("{calls} calls in {took:.1?}: {speed:.0} calls per second");
    }
    Ok(ExitCode::SUCCESS)
}

/// Makes all runs, several at one time, and gives them in the order of the tasks.
fn all(
    experiment: &Experiment<'_>,
    tasks: &[Task<'_>],
    jobs: Option<usize>,
    progress: &Progress,
) -> anyhow::Result<Vec<Run>> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let jobs = jobs.unwrap_or(cores).clamp(1, tasks.len().max(1));
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<Run, ExperimentFault>)>> = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some((at, task)) = take(tasks, &next) {
                    let loads = (task.load, task.rate);
                    let run = experiment.run(task.policy, loads, task.seed, &mut || progress.count());
                    done.lock().push((at, run));
                }
            });
        }
    });
    let mut done = done.into_inner();
    done.sort_by_key(|(at, _)| *at);
    let runs = done.into_iter().map(|(_, run)| run);
    runs.collect::<Result<_, _>>().map_err(|fault| anyhow!(fault))
}

fn take<'a, 'b>(tasks: &'a [Task<'b>], next: &AtomicUsize) -> Option<(usize, &'a Task<'b>)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    Some((at, tasks.get(at)?))
}

fn write(folder: &Path, report: &Report) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (name, text) in [("report.json", report.to_json()?), ("report.html", report.to_html())] {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
