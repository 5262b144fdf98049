//! The terms of a rollout: what replaces what, in which steps, and what counts as worse.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::evidence::TOLERANCE_MAX;
use super::numbers::PPM;
use crate::release::Release;

/// Most steps of a rollout.
pub const STEPS_MAX: usize = 16;
/// Most tenants that a step names.
pub const STEP_TENANTS_MAX: usize = 256;
/// The greatest portion of a step. Without a baseline beside it the candidate would be compared with nothing.
pub const STEP_PORTION_MAX: Portion = Portion::from_percent(90);

/// What is rolled out, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terms {
    /// The name of the rollout. Which sessions are first depends on it, so that it is not always the same ones.
    pub name: String,
    /// What serves, and what is returned to.
    pub baseline: Release,
    /// What is to serve.
    pub candidate: Release,
    /// Copies of calls before any answer of the candidate is used.
    pub shadow: Option<Shadow>,
    /// The steps, each wider than the one before. At least one.
    pub steps: Vec<Step>,
    /// Calls of the candidate that are compared before it is promoted, over all steps. They fall to the steps by their portions, so that
    /// with even traffic each takes the same time.
    pub sample: u64,
    /// Fewest calls of either side, in a step, before anything is decided.
    pub sample_min: u64,
    /// Least time of a step.
    pub step_min: Duration,
    /// How long after a change of portions latencies are not compared, since caches are cold where calls are new.
    pub settle: Duration,
    /// How long after the promotion sessions of the baseline may stay there.
    pub linger: Duration,
    /// The greatest probability with which a candidate that is no worse is rolled back, in millionths.
    pub risk: u64,
    /// How much worse is not worse.
    pub tolerances: Tolerances,
}

/// Copies of calls whose answers nobody sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shadow {
    /// The portion of sessions whose calls are copied.
    pub portion: Portion,
    /// How many copies are made at most. When all of them are over the first step begins.
    pub calls: u64,
    /// What the copies may cost in all, in billionths of the currency's unit. They are never counted as a tenant's use.
    pub cost: u64,
}

/// One step of a rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// The portion of sessions that the candidate gets.
    pub portion: Portion,
    /// Whose sessions; empty for everybody's. Only theirs are compared.
    pub tenants: Vec<String>,
}

/// How much worse the candidate may be without being called worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tolerances {
    /// Of latencies, as a part of the baseline's, in millionths.
    pub latency: u64,
    /// Of the cost per call, as a part of the baseline's, in millionths.
    pub cost: u64,
    /// Of rates, added to the baseline's, in millionths of the calls.
    pub rate: u64,
}

/// A part of sessions, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Portion(u32);

impl Portion {
    /// No session.
    pub const NONE: Self = Self(0);
    /// Every session.
    pub const ALL: Self = Self(1_000_000);

    /// So many of a hundred, 100 at most.
    #[must_use]
    pub const fn from_percent(percent: u32) -> Self {
        Self::from_millionths(percent.saturating_mul(10_000))
    }

    /// So many of a million, all of them at most.
    #[must_use]
    pub const fn from_millionths(millionths: u32) -> Self {
        if millionths > Self::ALL.0 {
            Self::ALL
        } else {
            Self(millionths)
        }
    }

    /// In millionths.
    #[must_use]
    pub const fn millionths(self) -> u32 {
        self.0
    }
}

impl std::fmt::Display for Portion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} %", f64::from(self.0) / 10_000.0)
    }
}

/// What is wrong with terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TermsFault {
    /// There is no step, or more than [`STEPS_MAX`].
    Steps,
    /// A step's portion is nothing, or leaves no baseline to compare with. The step, from 0.
    StepPortion(usize),
    /// A step takes sessions away from the candidate that an earlier one gave it. The step, from 0.
    StepNarrows(usize),
    /// A step names more than [`STEP_TENANTS_MAX`] tenants. The step, from 0.
    StepTenants(usize),
    /// Baseline and candidate are one release, or have one name.
    SameRelease,
    /// The risk is nothing, or more than a tenth.
    Risk,
    /// The tolerated difference of rates is more than a tenth, or another tolerance more than the whole.
    Tolerance,
    /// The sample is smaller than the least sample of all steps together.
    Sample,
    /// The shadow copies nothing, or fewer calls than the least sample.
    Shadow,
}

impl std::fmt::Display for TermsFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Steps => write!(f, "a rollout has 1 to {STEPS_MAX} steps"),
            Self::StepPortion(step) => write!(
                f,
                "step {}: its portion must be more than 0 % and at most {STEP_PORTION_MAX}, so that there is a baseline to compare with",
                step + 1
            ),
            Self::StepNarrows(step) => write!(
                f,
                "step {}: it must keep every session of the step before; raise its portion and keep its tenants",
                step + 1
            ),
            Self::StepTenants(step) => write!(f, "step {}: it names more than {STEP_TENANTS_MAX} tenants", step + 1),
            Self::SameRelease => f.write_str("baseline and candidate must be two releases with two names"),
            Self::Risk => f.write_str("the risk must be more than 0 % and at most 10 %"),
            Self::Tolerance => f.write_str("at most 10 % of calls, and 100 % of latency and cost, can be tolerated"),
            Self::Sample => f.write_str("the sample must be large enough to give every step its least sample"),
            Self::Shadow => f.write_str("the shadow must copy at least as many calls as the least sample"),
        }
    }
}

impl Terms {
    /// Whether the terms make sense.
    ///
    /// # Errors
    ///
    /// The first thing that does not.
    pub fn check(&self) -> Result<(), TermsFault> {
        if self.steps.is_empty() || self.steps.len() > STEPS_MAX {
            return Err(TermsFault::Steps);
        }
        self.check_steps()?;
        let same_name = self.baseline.name == self.candidate.name;
        if same_name || self.baseline.pool == self.candidate.pool && self.baseline.parts().eq(self.candidate.parts()) {
            return Err(TermsFault::SameRelease);
        }
        if self.risk == 0 || self.risk > PPM / 10 {
            return Err(TermsFault::Risk);
        }
        let Tolerances { latency, cost, rate } = self.tolerances;
        if rate > TOLERANCE_MAX || latency > PPM || cost > PPM {
            return Err(TermsFault::Tolerance);
        }
        if self.sample_min == 0 || (0..self.steps.len()).any(|step| self.sample_of(step) < self.sample_min) {
            return Err(TermsFault::Sample);
        }
        match self.shadow {
            Some(shadow) if shadow.portion == Portion::NONE || shadow.calls < self.sample_min => {
                Err(TermsFault::Shadow)
            }
            _ => Ok(()),
        }
    }

    fn check_steps(&self) -> Result<(), TermsFault> {
        let mut before: Option<&Step> = None;
        for (index, step) in self.steps.iter().enumerate() {
            if step.portion == Portion::NONE || step.portion > STEP_PORTION_MAX {
                return Err(TermsFault::StepPortion(index));
            }
            if step.tenants.len() > STEP_TENANTS_MAX {
                return Err(TermsFault::StepTenants(index));
            }
            if before.is_some_and(|before| !step.keeps(before)) {
                return Err(TermsFault::StepNarrows(index));
            }
            before = Some(step);
        }
        Ok(())
    }

    /// The calls of the candidate that a step needs.
    #[must_use]
    pub fn sample_of(&self, step: usize) -> u64 {
        let portion = |step: &Step| u64::from(step.portion.millionths());
        let all: u64 = self.steps.iter().map(portion).sum();
        let this = self.steps.get(step).map_or(0, portion);
        self.sample.saturating_mul(this) / all.max(1)
    }
}

impl Step {
    /// Whether the step is for a tenant's sessions.
    #[must_use]
    pub fn is_for(&self, tenant: &str) -> bool {
        self.tenants.is_empty() || self.tenants.iter().any(|named| named == tenant)
    }

    fn keeps(&self, before: &Self) -> bool {
        let keeps_tenants = if before.tenants.is_empty() {
            self.tenants.is_empty()
        } else {
            before.tenants.iter().all(|tenant| self.is_for(tenant))
        };
        keeps_tenants && self.portion >= before.portion
    }
}

#[cfg(test)]
mod tests;
