//! Measures maitred and other proxies side by side on one machine.
//!
//! Everything in one run: the same upstream, the same load, the systems in turn, several rounds. The proxy under test has
//! one core to itself; upstream and load share a thread on the other, which never sleeps. The figure that holds still on a shared machine is the proxy's
//! own CPU time per call and per relayed event, read from the kernel's scheduler statistics.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the report is the output; progress goes to stderr"
)]

mod cases;
mod clock;
mod load;
mod machine;
mod plan;
mod process;
mod report;
mod streams;
mod systems;
mod upstream;
mod wire;

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Parser;
use tokio::task::LocalSet;

use crate::plan::Plan;

/// Measure maitred, nginx and HAProxy side by side.
#[derive(Debug, Parser)]
struct Arguments {
    /// The maitred binary to measure; without it only the others are.
    #[arg(long)]
    maitred: Option<PathBuf>,
    /// A Python environment with the peers: vllm-router, smg and Envoy.
    #[arg(long)]
    peers: Option<PathBuf>,
    /// Only these systems, by name. `direct` is always measured.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only these cases, by a part of their name, such as "1 KB". Streams have a setting of their own.
    #[arg(long, value_delimiter = ',')]
    cases: Vec<String>,
    /// How many times every case is measured for every system.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Seconds per measurement.
    #[arg(long, default_value_t = 2)]
    seconds: u32,
    /// Concurrent streams.
    #[arg(long, default_value_t = 1000)]
    streams: u32,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    machine::raise_open_files()?;
    let priority = machine::Priority::raise();
    if !priority.is_raised() {
        eprintln!("other work on this machine will show in the figures: raising the priority takes root");
    }
    machine::pin_to(machine::LOAD_CORE)?;
    let offers = systems::Offers {
        maitred: arguments.maitred,
        peers: arguments.peers,
        only: arguments.only,
    };
    let plan = Plan {
        cases: arguments.cases,
        rounds: arguments.rounds,
        seconds: arguments.seconds,
        streams: arguments.streams,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("no runtime for the load")?;
    let (systems, results) = LocalSet::new().block_on(&runtime, run(&plan, offers))?;
    println!("{}", report::render(&plan, &systems, &results));
    Ok(())
}

async fn run(plan: &Plan, offers: systems::Offers) -> anyhow::Result<(Vec<systems::System>, plan::Results)> {
    let upstream = upstream::Upstream::start()?;
    upstream::keep_awake();
    let addresses = upstream.addresses.clone();
    // A system is started by waiting for its first answer, and the endpoints live on this thread.
    let systems = tokio::task::spawn_blocking(move || systems::start_all(&offers, &addresses)).await??;
    let results = plan::measure(plan, &systems, &upstream).await?;
    Ok((systems, results))
}
