//! `maitred drill`: makes things go wrong on purpose and looks whether the gateway does what it promises.
//!
//! A drill uses what everybody can use: calls, the administrative listener, the commands of simulated endpoints. It sees nothing of
//! the gateway's inside, so it can be held against any gateway, and a broken one fails it.

mod all_down;
mod calls;
mod findings;
mod fleet;
mod killed;
mod load;
mod lookup;
mod metering;
mod not_loaded;
mod rate_limit;
mod ready;
mod replaced;
mod rolling;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use http::Uri;
use maitred_runtime::Clock;
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use self::findings::{Findings, Ran, Report};
use self::fleet::Fleet;
use crate::admin::Credentials;

/// What the exit code says when the drills could not be run.
const COULD_NOT_RUN: u8 = 2;

/// Options of `maitred drill`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DrillArgs {
    /// The configuration of a running gateway to drill, whose endpoints are simulated ones. Without it a gateway and endpoints are
    /// started for the drills and ended after them.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where that gateway takes calls, if not at its first listener.
    #[arg(long, value_name = "URL", requires = "config")]
    gateway: Option<Uri>,
    /// Its administrative listener, if not where the configuration says.
    #[arg(long, value_name = "URL", requires = "config")]
    admin: Option<Uri>,
    #[command(flatten)]
    credentials: Credentials,
    /// The environment variable with the key to call with.
    #[arg(long, value_name = "VARIABLE", default_value = "MAITRED_KEY", requires = "config")]
    key_env: String,
    /// The model to ask for, if not the first one of the configuration.
    #[arg(long, value_name = "NAME", requires = "config")]
    model: Option<String>,
    /// The drills to run, with commas between; all of them if not given.
    #[arg(long, value_name = "DRILLS", value_delimiter = ',')]
    only: Vec<Drill>,
    /// Run the harmless drills only, which may be done to a gateway that serves: a few calls, and looking them up.
    #[arg(long, requires = "config")]
    live: bool,
    /// Print what was done and seen as one JSON object.
    #[arg(long)]
    json: bool,
}

/// The drills, in the order in which they are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Drill {
    /// An endpoint that is not loaded gets no traffic.
    NotLoaded,
    /// The calls of a killed endpoint move.
    Killed,
    /// A main model that times out is replaced, and the answer is marked.
    Replaced,
    /// Every call can be looked up.
    Lookup,
    /// A rolling release shows no 5xx.
    Rolling,
    /// All endpoints are down.
    AllDown,
    /// The gateway's rate limit.
    RateLimit,
    /// The ledger cannot be written.
    Metering,
    /// What is ready (with `--live`).
    Ready,
}

impl Drill {
    /// What it proves.
    const fn claim(self) -> &'static str {
        match self {
            Self::NotLoaded => "an endpoint that is not loaded gets no traffic",
            Self::Killed => "calls of a killed endpoint move, and those in mid-stream end with an honest error",
            Self::Replaced => "a main model that times out is replaced by another, and every surface says so",
            Self::Lookup => "tokens and version of every call can be looked up",
            Self::Rolling => "a rolling release shows no 5xx",
            Self::AllDown => {
                "with all endpoints down callers get a clear error and a time to come again, and service returns"
            }
            Self::RateLimit => {
                "a rate limit refuses with a code of its own and a true time, before any endpoint is asked"
            }
            Self::Metering => {
                "a ledger that cannot be written refuses calls or keeps them, as configured, and loses none"
            }
            Self::Ready => "what the gateway calls ready is there",
        }
    }

    /// Whether it breaks nothing.
    const fn is_harmless(self) -> bool {
        matches!(self, Self::Lookup | Self::Ready)
    }

    async fn run(self, fleet: &Fleet, found: &mut Findings) -> anyhow::Result<Ran> {
        match self {
            Self::NotLoaded => not_loaded::run(fleet, found).await,
            Self::Killed => killed::run(fleet, found).await,
            Self::Replaced => replaced::run(fleet, found).await,
            Self::Lookup => lookup::run(fleet, found).await,
            Self::Rolling => rolling::run(fleet, found).await,
            Self::AllDown => all_down::run(fleet, found).await,
            Self::RateLimit => rate_limit::run(fleet, found).await,
            Self::Metering => metering::run(fleet, found).await,
            Self::Ready => ready::run(fleet, found).await,
        }
    }
}

/// Runs the drills and says how they ended: 0 if all passed, 1 if one failed, 2 if they could not be run.
pub(crate) fn run(args: &DrillArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(Box::pin(until_interrupted(args)));
    // Whatever still waits for an answer waits in vain.
    runtime.shutdown_background();
    Ok(code.unwrap_or_else(|error| {
        eprintln!("maitred: {error:#}");
        ExitCode::from(COULD_NOT_RUN)
    }))
}

async fn until_interrupted(args: &DrillArgs) -> anyhow::Result<ExitCode> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupted = std::pin::pin!(async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    });
    let fleet = tokio::select! {
        fleet = Fleet::of(args) => fleet?,
        () = &mut interrupted => return Ok(ExitCode::from(COULD_NOT_RUN)),
    };
    tokio::select! {
        passed = drill(args, &fleet) => Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }),
        () = &mut interrupted => {
            eprintln!("maitred: interrupted; putting right what was broken");
            fleet.put_right().await;
            Ok(ExitCode::from(COULD_NOT_RUN))
        }
    }
}

/// Runs what is asked for, one drill after the other, and says whether all of it passed.
async fn drill(args: &DrillArgs, fleet: &Fleet) -> bool {
    let clock = Clock::start();
    let mut reports = Vec::new();
    for drill in wanted(args) {
        let report = if args.live && !drill.is_harmless() {
            let why = "it breaks what it is run on, and --live runs only what is harmless";
            Report::left_out(drill, why.to_owned())
        } else {
            one(drill, fleet, clock).await
        };
        if !args.json {
            print!("{report}");
        }
        reports.push(report);
    }
    let failed = reports.iter().filter(|report| report.has_failed()).count();
    let passed = reports.iter().filter(|report| report.has_passed()).count();
    let seconds = clock.now().as_secs_f64();
    if args.json {
        let all = json!({ "passed": failed == 0, "seconds": seconds, "drills": reports });
        println!("{all:#}");
    } else {
        let left_out = reports.len() - passed - failed;
        println!("{passed} passed, {failed} failed, {left_out} left out, in {seconds:.0} s");
    }
    failed == 0
}

fn wanted(args: &DrillArgs) -> Vec<Drill> {
    let all = Drill::value_variants().iter().copied();
    all.filter(|drill| {
        if args.only.is_empty() {
            *drill != Drill::Ready || args.live
        } else {
            args.only.contains(drill)
        }
    })
    .collect()
}

/// Runs one drill, and leaves the fleet as it was.
async fn one(drill: Drill, fleet: &Fleet, clock: Clock) -> Report {
    let (begun, mut found) = (clock.now(), Findings::default());
    let ran = Box::pin(drill.run(fleet, &mut found)).await;
    fleet.put_right().await;
    let ran = match (ran, fleet.until_ready().await) {
        (Ok(_), Err(error)) => Err(error.context("after the drill")),
        (ran, _) => ran,
    };
    Report::of(drill, found, ran, clock.now().since(begun))
}
