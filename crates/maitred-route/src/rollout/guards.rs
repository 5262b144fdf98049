//! The guards of a rollout: in which figures the candidate must be no worse than the baseline, and what speaks against it.
//!
//! Each guard gathers [`Evidence`] of its own over the whole rollout. They share one risk: their wealths are added up, each with its
//! part of the whole, and a sum of fair games is a fair game. So the sum reaches 1/α with a probability of at most α if the
//! candidate is no worse in anything, however many guards there are.
//!
//! Latencies are compared by how many calls lie beyond the baseline's quantiles. The quantile of a block is what it was in the calls before
//! (a sketch that forgets), so a bad estimate costs power and never makes a false alarm. The candidate's latencies and costs are first divided by
//! what is tolerated. That quantiles may be compared at any time, while they are being estimated, is from Howard and Ramdas, *Sequential
//! estimation of quantiles* (Bernoulli, 2022); that software is to be rolled out so, from Lindon, Sanden and Shirikian, *Rapid regression
//! detection in software deployments through sequential testing* (KDD, 2022).
//!
//! Memory: per guard six wealths, two tallies, two queues of at most 64 figures and 64 cells; three sketches of 512 counts. Together some
//! 32 KiB, and nothing per call.

use std::time::Duration;

use maitred_types::FaultKind;
use serde::{Deserialize, Serialize};

use super::Side;
use super::evidence::{Evidence, Tally};
use super::numbers::PPM;
use super::sketch::Sketch;
use super::terms::Tolerances;

/// Observations of the baseline between two readings of its quantiles.
const REFRESH: u16 = 256;
/// The quantiles that are guarded.
const QUANTILES: [f64; 3] = [0.5, 0.95, 0.99];
/// Costs are compared up to this quantile of the baseline's; what lies beyond counts as if it were that.
const COST_CAP: [f64; 1] = [0.99];

/// Declares the guards with their words and their parts of the risk.
macro_rules! guards {
    ($($guard:ident: $label:literal, $part:literal, $meaning:literal;)*) => {
        /// A figure in which the candidate must be no worse than the baseline.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Guard {
            $(#[doc = $meaning] #[serde(rename = $label)] $guard,)*
        }

        impl Guard {
            /// Every guard, in order.
            pub const ALL: &'static [Self] = &[$(Self::$guard,)*];

            /// The word in records, metrics and messages.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$guard => $label,)*
                }
            }

            /// What it compares.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$guard => $meaning,)*
                }
            }

            /// Its part of the risk, relative to the others. The far ends of latencies get more, since they need the longest.
            const fn part(self) -> f64 {
                match self {
                    $(Self::$guard => $part,)*
                }
            }
        }
    };
}

guards! {
    Timeout: "timeout", 1.0, "Calls that ended since an endpoint gave no output in time.";
    Overload: "overload", 1.0, "Calls that ended since the endpoints had too much to do.";
    Failure: "failure", 1.0, "Calls that ended with a server error, or without a connection.";
    Broken: "broken", 1.0, "Answers that broke off.";
    Refused: "refused", 1.0, "Calls that the endpoint refused as wrong.";
    TtftP50: "ttft-p50", 1.0, "Time to first token, beyond the baseline's median.";
    TtftP95: "ttft-p95", 1.0, "Time to first token, beyond the baseline's 95 %.";
    TtftP99: "ttft-p99", 5.0, "Time to first token, beyond the baseline's 99 %.";
    TpotP50: "tpot-p50", 1.0, "Time per output token, beyond the baseline's median.";
    TpotP95: "tpot-p95", 1.0, "Time per output token, beyond the baseline's 95 %.";
    TpotP99: "tpot-p99", 5.0, "Time per output token, beyond the baseline's 99 %.";
    Truncated: "truncated", 1.0, "Answers that ended for want of room.";
    ToolCalls: "tool-calls", 1.0, "Tool calls that are not what the tool's schema asks for.";
    Degraded: "degraded", 1.0, "Calls that another target than the side's own answered.";
    Cost: "cost", 1.0, "Cost per call.";
    Takeover: "takeover", 1.0, "Humans who took over, per call.";
}

/// How a call failed, in classes that are guarded one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorClass {
    /// No output in time.
    Timeout,
    /// Too much to do.
    Overload,
    /// A server error, or no connection.
    Failure,
    /// The answer broke off.
    Broken,
    /// The endpoint refused the call as wrong.
    Refused,
}

impl ErrorClass {
    const ALL: [(Self, Guard); 5] = [
        (Self::Timeout, Guard::Timeout),
        (Self::Overload, Guard::Overload),
        (Self::Failure, Guard::Failure),
        (Self::Broken, Guard::Broken),
        (Self::Refused, Guard::Refused),
    ];

    /// The class of a fault that says something about what serves. What the caller or the gateway itself is to blame for says nothing.
    ///
    /// An endpoint's own refusal of a call is no fault of this kind, since its answer is relayed; the caller of the rollout says
    /// [`ErrorClass::Refused`] by the answer's status.
    #[must_use]
    pub const fn of(fault: FaultKind) -> Option<Self> {
        match fault {
            FaultKind::FirstTokenTimeout | FaultKind::IdleTimeout | FaultKind::CallTimeout => Some(Self::Timeout),
            FaultKind::UpstreamOverloaded | FaultKind::UpstreamQuota | FaultKind::Saturated => Some(Self::Overload),
            FaultKind::ConnectFailed
            | FaultKind::UpstreamError
            | FaultKind::UpstreamRefusedKey
            | FaultKind::NoEndpoint
            | FaultKind::RetryBudget => Some(Self::Failure),
            FaultKind::UpstreamBroken | FaultKind::UpstreamAborted | FaultKind::UpstreamMalformed => Some(Self::Broken),
            _ => None,
        }
    }
}

/// What is observed of a call when it is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// How it failed, if it did.
    pub error: Option<ErrorClass>,
    /// Time to first token. Of a client that left before it, the time it waited; else what is slow would not be seen.
    pub ttft: Option<Duration>,
    /// Time per output token after the first.
    pub tpot: Option<Duration>,
    /// Whether the answer ended for want of room (`length`) rather than by itself.
    pub truncated: bool,
    /// Whether its tool calls are what their schemas ask for; nothing if it has none.
    pub tool_calls_valid: Option<bool>,
    /// Whether another target than that of its side answered.
    pub degraded: bool,
    /// What it cost, in billionths of the currency's unit; nothing if it is not known.
    pub cost: Option<u64>,
}

/// Whether caches are warm enough for latencies to be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    Yes,
    /// The share has just changed, and prompts are not yet cached where their calls go now.
    NotYet,
}

/// All guards of a rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Guards {
    evidence: Vec<Evidence>,
    ttft: Quantiles<3>,
    tpot: Quantiles<3>,
    cost: Quantiles<1>,
    /// Humans who took over and are not yet counted with a call.
    takeovers: Takeovers,
}

/// Humans who took over, by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Takeovers {
    baseline: u32,
    candidate: u32,
}

impl Takeovers {
    const fn of(&mut self, side: Side) -> &mut u32 {
        match side {
            Side::Baseline => &mut self.baseline,
            Side::Candidate => &mut self.candidate,
        }
    }
}

impl Guards {
    pub(super) fn new() -> Self {
        Self {
            evidence: Guard::ALL.iter().map(|_| Evidence::new()).collect(),
            ttft: Quantiles::new(),
            tpot: Quantiles::new(),
            cost: Quantiles::new(),
            takeovers: Takeovers::default(),
        }
    }

    /// Whether it has the shape that [`Guards::new`] makes; what was written down may come from another version.
    pub(super) fn is_whole(&self) -> bool {
        self.evidence.len() == Guard::ALL.len()
    }

    /// Takes in a call. `cell` is where its session falls.
    pub(super) fn observe(&mut self, call: &Seen<'_>, tolerances: &Tolerances) {
        let Seen {
            side, cell, observed, ..
        } = *call;
        let rate = tolerances.rate;
        for (class, guard) in ErrorClass::ALL {
            self.rate(guard, call, observed.error == Some(class), rate);
        }
        self.rate(Guard::Degraded, call, observed.degraded, rate);
        let waiting = self.takeovers.of(side);
        let took_over = *waiting > 0;
        *waiting = waiting.saturating_sub(1);
        self.rate(Guard::Takeover, call, took_over, rate);
        if observed.error.is_none() {
            self.rate(Guard::Truncated, call, observed.truncated, rate);
        }
        if let Some(valid) = observed.tool_calls_valid {
            self.rate(Guard::ToolCalls, call, !valid, rate);
        }
        const TTFT: [Guard; 3] = [Guard::TtftP50, Guard::TtftP95, Guard::TtftP99];
        const TPOT: [Guard; 3] = [Guard::TpotP50, Guard::TpotP95, Guard::TpotP99];
        if let Some(ttft) = observed.ttft {
            let limits = self.ttft.limits;
            self.beyond(TTFT, call, nanos(ttft), (limits, tolerances.latency));
            self.ttft.see(side, nanos(ttft), QUANTILES);
        }
        if let Some(tpot) = observed.tpot {
            let limits = self.tpot.limits;
            self.beyond(TPOT, call, nanos(tpot), (limits, tolerances.latency));
            self.tpot.see(side, nanos(tpot), QUANTILES);
        }
        if let Some(cost) = observed.cost {
            if let [Some(cap)] = self.cost.limits {
                let figure = allowed(side, cost, tolerances.cost).min(cap).saturating_mul(PPM) / cap.max(1);
                self.of(Guard::Cost).observe(side, figure, cell, 0);
            }
            self.cost.see(side, cost, COST_CAP);
        }
    }

    /// Takes in that a human took over. Who hears of it later than of the call counts it with the side's next call: what is compared is how
    /// many take over while so many calls end.
    pub(super) fn takeover(&mut self, side: Side) {
        let waiting = self.takeovers.of(side);
        *waiting = waiting.saturating_add(1);
    }

    fn rate(&mut self, guard: Guard, call: &Seen<'_>, bad: bool, tolerance: u64) {
        let figure = if bad { PPM } else { 0 };
        self.of(guard).observe(call.side, figure, call.cell, tolerance);
    }

    fn beyond(&mut self, guards: [Guard; 3], call: &Seen<'_>, value: u64, (limits, tolerance): (Limits<3>, u64)) {
        if call.settled == Settled::NotYet {
            return;
        }
        let value = allowed(call.side, value, tolerance);
        for (guard, limit) in guards.into_iter().zip(limits) {
            if let Some(limit) = limit {
                self.rate(guard, call, value > limit, 0);
            }
        }
    }

    #[expect(clippy::indexing_slicing, reason = "one for every guard, by `new` and `is_whole`")]
    fn of(&mut self, guard: Guard) -> &mut Evidence {
        &mut self.evidence[guard as usize]
    }

    /// Whether the odds against the candidate may be as high as this; if not, they need not be computed. The whole is never more than the
    /// greatest of its parts.
    pub(super) fn may_reach(&self, log: f64) -> bool {
        self.evidence.iter().any(|evidence| evidence.may_reach(log))
    }

    /// What speaks against the candidate: the logarithm of the odds, and the guard that speaks loudest.
    pub(super) fn odds(&self) -> Odds {
        let whole: f64 = Guard::ALL.iter().map(|guard| guard.part()).sum();
        let logs = self.evidence.iter().zip(Guard::ALL);
        let logs = logs.map(|(evidence, guard)| (*guard, evidence.log_wealth() + (guard.part() / whole).ln()));
        let first = (Guard::Timeout, f64::MIN);
        let (guard, most) = logs
            .clone()
            .fold(first, |most, next| if next.1 > most.1 { next } else { most });
        let sum: f64 = logs.map(|(_, log)| (log - most).exp()).sum();
        Odds {
            log: most + sum.ln(),
            guard,
        }
    }

    /// How each guard stands.
    pub(super) fn standings(&self) -> impl Iterator<Item = Standing> {
        self.evidence.iter().zip(Guard::ALL).map(|(evidence, guard)| Standing {
            guard: *guard,
            baseline: evidence.tally(Side::Baseline),
            candidate: evidence.tally(Side::Candidate),
            log_odds: evidence.log_wealth(),
            effect: evidence.effect(),
        })
    }
}

/// A call as the guards see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<'a> {
    pub(super) side: Side,
    pub(super) cell: u8,
    pub(super) settled: Settled,
    pub(super) observed: &'a Observation,
}

/// The odds against the candidate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Odds {
    /// Their natural logarithm.
    pub log: f64,
    /// Which guard weighs most.
    pub guard: Guard,
}

/// How one guard stands.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Standing {
    /// Which.
    pub guard: Guard,
    /// What was seen of the baseline. The figure of a latency is whether it lay beyond the quantile, that of a cost its part of the cap.
    pub baseline: Tally,
    /// What was seen of the candidate.
    pub candidate: Tally,
    /// Natural logarithm of the odds against the candidate in this figure.
    pub log_odds: f64,
    /// How many calls weigh as much as one, since calls of a session are alike.
    pub effect: f64,
}

/// Quantiles of the baseline, as they were at the last reading.
type Limits<const N: usize> = [Option<u64>; N];

/// A figure of the baseline with those of its quantiles that are needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Quantiles<const N: usize>
where
    Limits<N>: Serialize + for<'a> Deserialize<'a>,
{
    sketch: Sketch,
    limits: Limits<N>,
    since_refresh: u16,
}

impl<const N: usize> Quantiles<N>
where
    Limits<N>: Serialize + for<'a> Deserialize<'a>,
{
    fn new() -> Self {
        Self {
            sketch: Sketch::new(),
            limits: [None; N],
            since_refresh: 0,
        }
    }

    fn see(&mut self, side: Side, value: u64, quantiles: [f64; N]) {
        if side == Side::Candidate {
            return;
        }
        self.sketch.add(value);
        self.since_refresh += 1;
        if self.since_refresh >= REFRESH {
            self.since_refresh = 0;
            self.limits = quantiles.map(|quantile| self.sketch.quantile(quantile));
        }
    }
}

/// The value less what the candidate is allowed more; `tolerance` in millionths.
fn allowed(side: Side, value: u64, tolerance: u64) -> u64 {
    if side == Side::Baseline || tolerance == 0 {
        return value;
    }
    let allowed = u128::from(value) * u128::from(PPM) / u128::from(PPM + tolerance);
    u64::try_from(allowed).unwrap_or(u64::MAX)
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
