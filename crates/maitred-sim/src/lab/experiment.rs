//! A scenario, put into practice: fleets, workloads and routers from checked settings, and the search for the knee.

use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use maitred_config::scenario::{
    self, FleetGroup, KindSettings, LengthSettings, LoadShape, PolicySettings, Scenario, SpreadSettings, TraceSettings,
    WorkloadSettings,
};
use maitred_sched::PoolOptions;
use maitred_types::{Time, TokenCount};

use super::report::{Run, Subject};
use super::rivals::{PooledCache, rival};
use super::statistics::{Objective, Tally};
use super::workload::{
    Generator, Kind, LengthPlan, LineSource, Shape, SharedText, Spread, TraceCalls, TraceFault, TraceFormat, TracePlan,
    TraceSummary, Turns, mix,
};
use super::{
    CallRecord, EndpointFacts, EndpointIndex, EndpointPlan, FrozenPage, LabCall, PoolRouter, Recorder, Restart, Router,
    RunFault, RunPlan, ScrapePlan, adapter_name, run,
};
use crate::lora::LoraOptions;
use crate::profile::EngineProfile;

/// Opens the trace of a scenario; each run reads it anew.
pub type OpenTrace<'a> = dyn Fn() -> Result<Box<dyn LineSource>, String> + Sync + 'a;

/// What is wrong with an experiment.
#[derive(Clone, Debug, PartialEq)]
pub enum ExperimentFault {
    /// The trace cannot be read.
    Source(String),
    /// Something in the trace is wrong.
    Trace(TraceFault),
    /// The fleet uses an engine profile that does not exist, or a policy that does not.
    Unknown(String),
    /// Whatever the load, calls pile up, or never do.
    NoKnee {
        /// The last load that was tried, in calls per second.
        tried: f64,
    },
}

impl fmt::Display for ExperimentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(reason) => write!(f, "cannot read the trace: {reason}"),
            Self::Trace(fault) => write!(f, "the trace is not in order: {fault}"),
            Self::Unknown(name) => write!(f, "there is no `{name}`"),
            Self::NoKnee { tried } => {
                write!(f, "no knee was found; the last load tried was {tried} calls per second")
            }
        }
    }
}

impl std::error::Error for ExperimentFault {}

impl From<TraceFault> for ExperimentFault {
    fn from(fault: TraceFault) -> Self {
        Self::Trace(fault)
    }
}

impl From<RunFault<ExperimentFault>> for ExperimentFault {
    fn from(fault: RunFault<Self>) -> Self {
        match fault {
            RunFault::Workload(fault) => fault,
            RunFault::Empty => Self::Unknown("endpoint".to_owned()),
        }
    }
}

type Calls = Box<dyn Iterator<Item = Result<LabCall, ExperimentFault>>>;

/// A scenario that can be run.
pub struct Experiment<'a> {
    scenario: &'a Scenario,
    open: &'a OpenTrace<'a>,
    endpoints: Vec<EndpointPlan>,
    /// The trace as it came, if the workload is one.
    trace: Option<TraceSummary>,
}

impl fmt::Debug for Experiment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Experiment")
            .field("scenario", &self.scenario.name)
            .finish_non_exhaustive()
    }
}

impl<'a> Experiment<'a> {
    /// Prepares `scenario`. A trace is read once, to know its rate.
    ///
    /// # Errors
    /// A trace that cannot be read, and names that do not exist.
    pub fn new(scenario: &'a Scenario, open: &'a OpenTrace<'a>) -> Result<Self, ExperimentFault> {
        let block = NonZeroU32::new(scenario.block_tokens).unwrap_or(NonZeroU32::MIN);
        let mut endpoints = Vec::new();
        for group in &scenario.fleet {
            let profile = EngineProfile::find(&group.profile);
            let profile = profile.ok_or_else(|| ExperimentFault::Unknown(group.profile.clone()))?;
            let endpoint = endpoint(group, EndpointPlan::new(profile, block));
            endpoints.extend((0..group.count).map(|_| endpoint.clone()));
        }
        let trace = match &scenario.workload {
            WorkloadSettings::Trace(trace) => {
                let mut source = open().map_err(ExperimentFault::Source)?;
                Some(TraceSummary::scan(&mut source, format(trace))?)
            }
            WorkloadSettings::Kinds(_) => None,
        };
        Ok(Self {
            scenario,
            open,
            endpoints,
            trace,
        })
    }

    /// The trace as it came, if the workload is one.
    #[must_use]
    pub const fn trace(&self) -> Option<TraceSummary> {
        self.trace
    }

    /// The plan of a run of `calls` calls.
    #[must_use]
    pub fn plan(&self, calls: u64, seed: u64) -> RunPlan {
        let scenario = self.scenario;
        let mut plan = RunPlan::new(self.endpoints.clone(), seed);
        (plan.gateways, plan.sharing) = (scenario.gateways, scenario.sharing);
        let at = |after| Time::ZERO + after;
        let frozen = scenario.scrape.frozen.iter().map(|(endpoint, from, until)| FrozenPage {
            endpoint: EndpointIndex::new(*endpoint),
            from: at(*from),
            until: at(*until),
        });
        plan.scrape = ScrapePlan {
            period: scenario.scrape.period,
            age: scenario.scrape.age,
            noise: scenario.scrape.noise,
            frozen: frozen.collect(),
        };
        let restarts = scenario.restarts.iter().map(|(endpoint, after)| Restart {
            endpoint: EndpointIndex::new(*endpoint),
            at: at(*after),
        });
        plan.restarts = restarts.collect();
        plan.prior_factor = scenario.prior_factor;
        plan.end.calls = calls;
        plan
    }

    /// The calls at `rate` a second, without end unless the trace is empty.
    ///
    /// # Errors
    /// A trace that cannot be opened.
    pub fn calls(&self, rate: f64, seed: u64) -> Result<Calls, ExperimentFault> {
        let block = self.scenario.block_tokens;
        match &self.scenario.workload {
            WorkloadSettings::Trace(trace) => {
                let source = (self.open)().map_err(ExperimentFault::Source)?;
                let plan = TracePlan {
                    format: format(trace),
                    speed: rate / self.trace.map_or(1.0, |trace| trace.rate()),
                    jitter: trace.jitter,
                    lateness: trace.lateness,
                    rounds: u64::MAX,
                    block_size: block,
                    seed,
                };
                let longest = TokenCount::new(trace.longest_answer.unwrap_or(u32::MAX));
                let calls = TraceCalls::new(source, plan).map(move |call| {
                    let mut call = call?;
                    call.output = call.output.min(longest);
                    Ok(call)
                });
                Ok(Box::new(calls))
            }
            WorkloadSettings::Kinds(kinds) => {
                let kinds = kinds.iter().map(kind).collect();
                let sizes = (block, self.context());
                let calls = Generator::new(kinds, (rate, shape(self.scenario.shape)), sizes, mix(seed, 17));
                Ok(Box::new(calls.map(|call| call.map_err(|never| match never {}))))
            }
        }
    }

    /// The shortest context of the fleet's endpoints: what each of them can compute.
    fn context(&self) -> u32 {
        let limit = |endpoint: &EndpointPlan| {
            let blocks = endpoint.options.blocks.unwrap_or(u32::MAX);
            let room = blocks.saturating_sub(2).saturating_mul(self.scenario.block_tokens);
            endpoint.options.context.get().min(room)
        };
        self.endpoints.iter().map(limit).min().unwrap_or(u32::MAX)
    }

    /// The routers of one run, one for each gateway.
    ///
    /// # Errors
    /// A policy that does not exist.
    pub fn routers(&self, policy: &PolicySettings, plan: &RunPlan) -> Result<Vec<Box<dyn Router>>, ExperimentFault> {
        let facts = plan.facts();
        let gateways = 0..u64::from(plan.gateways);
        gateways
            .map(|gateway| self.router(policy, &facts, mix(plan.seed, 29 + gateway)))
            .collect()
    }

    fn router(
        &self,
        policy: &PolicySettings,
        facts: &[EndpointFacts],
        seed: u64,
    ) -> Result<Box<dyn Router>, ExperimentFault> {
        let Some(profile) = &policy.profile else {
            let found = rival(&policy.name, facts, seed);
            return found.ok_or_else(|| ExperimentFault::Unknown(policy.name.clone()));
        };
        let options = PoolOptions {
            staleness: self.scenario.staleness,
            waiting: self.scenario.waiting.clone(),
            ..PoolOptions::default()
        };
        Ok(Box::new(PoolRouter::new(
            &policy.name,
            facts,
            (options, profile.clone()),
            seed,
        )))
    }

    /// One run: `load` is what reports call it, `rate` the calls per second.
    ///
    /// # Errors
    /// As [`Experiment::calls`] and [`Experiment::routers`].
    pub fn run(
        &self,
        policy: &PolicySettings,
        (load, rate): (f64, f64),
        seed: u64,
        progress: &mut dyn FnMut(),
    ) -> Result<Run, ExperimentFault> {
        self.run_of(self.scenario.calls, policy, (load, rate), (seed, progress))
    }

    fn run_of(
        &self,
        calls: u64,
        policy: &PolicySettings,
        (load, rate): (f64, f64),
        (seed, progress): (u64, &mut dyn FnMut()),
    ) -> Result<Run, ExperimentFault> {
        let plan = self.plan(calls, seed);
        let mut tally = Tally::new(plan.endpoints.len(), self.objective());
        let mut recorder = |record: &CallRecord| {
            tally.call(record);
            progress();
        };
        let routers = self.routers(policy, &plan)?;
        let mut summary = run(&plan, routers, self.calls(rate, seed)?, &mut recorder)?;
        summary.policy.clone_from(&policy.name);
        Ok(Run { load, summary, tally })
    }

    fn objective(&self) -> Objective {
        Objective {
            ttft: self.scenario.good_ttft,
            tpot: self.scenario.good_per_token,
        }
    }

    /// The highest load, in calls per second and to within 2 %, at which the 90th percentile of the time to the first token
    /// stays below the scenario's bound. Found by doubling and halving on runs of one policy with the first seed.
    ///
    /// # Errors
    /// As [`Experiment::run`], and when no load is bad or none is good.
    pub fn knee(&self, progress: &mut dyn FnMut()) -> Result<f64, ExperimentFault> {
        let mut is_good = |rate: f64| {
            let seed = self.scenario.seeds.first().copied().unwrap_or_default();
            let knee = &self.scenario.knee;
            let calls = knee.calls.max(calls_in(rate, KNEE_SPAN));
            let run = self.run_of(calls, &knee.policy, (rate, rate), (seed, progress))?;
            // What is lost with an endpoint that restarts says nothing about the load.
            let [answered, _, _, lost, _] = run.tally.ends;
            let all = answered + lost == run.summary.calls;
            Ok::<_, ExperimentFault>(all && run.tally.ttft.quantile(0.9) <= knee.ttft.as_secs_f64())
        };
        let mut rate = self.guess()?;
        let (mut good, mut bad) = (None, None);
        for _ in 0..MAX_KNEE_RUNS {
            if is_good(rate)? {
                good = Some(rate);
            } else {
                bad = Some(rate);
            }
            rate = match (good, bad) {
                (Some(good), Some(bad)) if bad / good <= KNEE_WIDTH => return Ok(good),
                (Some(good), Some(bad)) => f64::sqrt(good * bad),
                (Some(good), None) => good * 2.0,
                (None, Some(bad)) => bad / 2.0,
                (None, None) => rate,
            };
        }
        Err(ExperimentFault::NoKnee { tried: rate })
    }

    /// A load of the right order: the prefill of the calls takes half of the fleet's time.
    fn guess(&self) -> Result<f64, ExperimentFault> {
        let facts = self.plan(1, 0).facts();
        let (mut seconds, mut calls) = (0.0, 0.0);
        for call in self.calls(1.0, 1)?.take(500) {
            let tokens = f64::from(call?.input.get());
            for facts in &facts {
                let costs = &facts.costs;
                seconds += costs.token_us * tokens / 1e6 + costs.attention_ns * tokens * tokens / 2e9;
            }
            calls += 1.0;
        }
        let endpoints = facts.len() as f64;
        let rate = 0.5 * endpoints * endpoints * calls / seconds;
        Ok(if rate.is_finite() && rate > 0.0 { rate } else { 1.0 })
    }

    /// The hit rate of one cache of the fleet's summed size, for calls as they come with the first seed.
    ///
    /// # Errors
    /// As [`Experiment::calls`].
    pub fn pooled_hit_rate(&self, rate: f64) -> Result<f64, ExperimentFault> {
        let mut pooled = PooledCache::new(&self.plan(1, 0).facts());
        let calls = usize::try_from(self.scenario.calls).unwrap_or(usize::MAX);
        let seed = self.scenario.seeds.first().copied().unwrap_or_default();
        for call in self.calls(rate, seed)?.take(calls) {
            pooled.arrive(&call?);
        }
        Ok(pooled.hits().hit_rate())
    }

    /// What a report on this experiment is about. `load` is the one that is reported in full.
    #[must_use]
    pub fn subject(&self, load: f64, pooled_hit_rate: Option<f64>) -> Subject {
        Subject {
            scenario: self.scenario.name.clone(),
            description: self.scenario.description.clone(),
            endpoints: self.endpoints.len(),
            objective: self.objective(),
            load,
            baseline: Some(self.scenario.baseline.clone()),
            pooled_hit_rate,
        }
    }
}

/// The least time that calls come in a run that looks for the knee. In a shorter one engines take all calls into their batches at
/// once, whatever the load, and conversations have not yet grown.
const KNEE_SPAN: Duration = Duration::from_mins(2);
/// How close the good and the bad load around the knee are, as a ratio.
const KNEE_WIDTH: f64 = 1.02;
/// Most runs of the search: doublings over twenty orders of magnitude, then halvings.
const MAX_KNEE_RUNS: u32 = 80;

/// How many calls come within `span` at so many a second.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "never negative, and a float cast saturates"
)]
fn calls_in(rate: f64, span: Duration) -> u64 {
    (rate * span.as_secs_f64()).ceil() as u64
}

fn endpoint(group: &FleetGroup, mut plan: EndpointPlan) -> EndpointPlan {
    plan.speed = group.speed;
    plan.options.blocks = group.blocks;
    plan.options.lora = group.adapters.map(|(known, resident, load_time)| LoraOptions {
        adapters: (0..known as usize).map(adapter_name).collect(),
        resident: resident as usize,
        load_time,
    });
    plan
}

const fn format(trace: &TraceSettings) -> TraceFormat {
    match trace.format {
        scenario::TraceFormat::JsonLines => TraceFormat::JsonLines,
        scenario::TraceFormat::AzureCsv => TraceFormat::AzureCsv,
    }
}

const fn shape(shape: LoadShape) -> Shape {
    match shape {
        LoadShape::Steady => Shape::Steady,
        LoadShape::Bursts { every, length, factor } => Shape::Bursts { every, length, factor },
        LoadShape::Waves { period, depth } => Shape::Waves { period, depth },
    }
}

fn kind(kind: &KindSettings) -> Kind {
    let shared = kind.shared.map(|shared| SharedText {
        texts: spread(shared.texts),
        tokens: length(shared.tokens),
        share: shared.share,
    });
    let turns = kind.turns.map_or_else(Turns::single, |turns| Turns {
        mean: turns.mean,
        max: turns.max,
        added: length(turns.added),
        pause: turns.pause,
        per_token: turns.per_token,
    });
    Kind {
        weight: kind.weight,
        shared,
        own: length(kind.prompt),
        output: length(kind.answer),
        turns,
        sessions: kind.sessions,
        adapters: kind.adapters.map(spread),
        tenants: spread(kind.tenants),
        first_tenant: kind.first_tenant,
        class: kind.class,
        max_output: kind.answer_limit,
    }
}

fn length(length: LengthSettings) -> LengthPlan {
    LengthPlan {
        mean: f64::from(length.mean),
        variation: length.variation,
        min: 1,
        max: length.max,
    }
}

const fn spread(spread: SpreadSettings) -> Spread {
    Spread {
        count: spread.count,
        skew: spread.skew,
    }
}

#[cfg(test)]
mod tests;
