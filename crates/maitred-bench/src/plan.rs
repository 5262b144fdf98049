//! The order of the measurements: rounds, and within a round every case for every system in turn.

use std::time::Duration;

use crate::cases::{CASES, Case, chat_body};
use crate::load::{self, percentile_us};
use crate::process::cost_of;
use crate::streams::{self, Streams};
use crate::systems::System;
use crate::upstream::Upstream;

/// Load before each measurement, so that connections and caches are there.
const WARMING: Duration = Duration::from_millis(300);

/// How much is measured.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Parts of the names of the cases that are wanted; all when empty.
    pub(crate) cases: Vec<String>,
    /// How many times everything is measured.
    pub(crate) rounds: u32,
    /// Seconds of each measurement.
    pub(crate) seconds: u32,
    /// Concurrent streams; none to leave them out.
    pub(crate) streams: u32,
}

impl Plan {
    /// Whether a case is to be measured.
    pub(crate) fn wants(&self, case: &Case) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|part| case.name.contains(part.as_str()))
    }
}

/// One measurement of one case.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) calls_per_second: f64,
    pub(crate) cpu_us_per_call: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) refused: u64,
}

/// All measurements.
#[derive(Debug)]
pub(crate) struct Results {
    /// By case, then by system, then by round.
    pub(crate) calls: Vec<Vec<Vec<Figures>>>,
    /// By system, then by round.
    pub(crate) streams: Vec<Vec<Streams>>,
    /// Resident memory of each system before any load.
    pub(crate) idle_kib: Vec<u64>,
}

/// Measures everything.
pub(crate) async fn measure(plan: &Plan, systems: &[System], upstream: &Upstream) -> anyhow::Result<Results> {
    let idle = |system: &System| system.process_id().map_or(0, |id| cost_of(id).rss_kib);
    let mut results = Results {
        calls: vec![vec![Vec::new(); systems.len()]; CASES.len()],
        streams: vec![Vec::new(); systems.len()],
        idle_kib: systems.iter().map(idle).collect(),
    };
    for round in 1..=plan.rounds {
        for (case, by_system) in CASES.iter().zip(&mut results.calls) {
            for (system, figures) in systems.iter().zip(by_system).filter(|_| plan.wants(case)) {
                eprintln!(
                    "round {round}: {}, {} connections, {}",
                    case.name, case.connections, system.name
                );
                figures.push(measure_case(plan, case, system).await?);
            }
        }
        for (system, measured) in systems.iter().zip(&mut results.streams) {
            if plan.streams > 0 {
                eprintln!("round {round}: {} streams, {}", plan.streams, system.name);
                let duration = Duration::from_secs(plan.seconds.into());
                measured.push(streams::run(system, upstream, plan.streams, duration).await?);
            }
        }
    }
    Ok(results)
}

async fn measure_case(plan: &Plan, case: &Case, system: &System) -> anyhow::Result<Figures> {
    let request = system.request(&chat_body(case.body_bytes, false));
    let cpu = || system.process_id().map_or(0, |id| cost_of(id).cpu_ns);
    load::run(system.address, &request, case.connections, WARMING).await?;
    let before = cpu();
    let duration = Duration::from_secs(plan.seconds.into());
    let calls = load::run(system.address, &request, case.connections, duration).await?;
    if let Some(example) = &calls.example {
        eprintln!(
            "{} refused {} calls, one of them with:\n{example}",
            system.name, calls.refused
        );
    }
    let spent_us = (cpu() - before) as f64 / 1_000.0;
    let count = calls.times_ns.len() as f64;
    Ok(Figures {
        calls_per_second: count / duration.as_secs_f64(),
        cpu_us_per_call: spent_us / count,
        p50_us: percentile_us(&calls.times_ns, 0.50),
        p99_us: percentile_us(&calls.times_ns, 0.99),
        refused: calls.refused,
    })
}
