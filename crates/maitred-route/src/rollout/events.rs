//! What a rollout says: events, reasons, refusals and its status.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::guards::{Guard, Odds, Standing};
use super::terms::{Portion, TermsFault};
use super::{Calls, ShadowUse, Stage};
use crate::release::Verification;

/// What happened. To be on disk, with the state, before anybody acts upon it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A stage began.
    Entered {
        /// Which.
        stage: Stage,
        /// The portion of sessions that is the candidate's from now on.
        portion: Portion,
    },
    /// The step is not widened, for this reason.
    Held(Hold),
    /// The promotion was decided.
    PromotionBegan(By),
    /// The rollback was decided.
    RollbackBegan(Why),
    /// A promotion or rollback is not done, since endpoints do not run what they should.
    NotDone(Verification),
    /// A gateway took the rollout up again in this stage.
    Resumed(Stage),
}

/// Who decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The guards: nothing speaks against the candidate.
    Guards,
    /// An operator, by name.
    Operator(String),
}

/// Why a rollback began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// The candidate is worse.
    Guard {
        /// In what before all.
        guard: Guard,
        /// The odds, to one.
        odds: u64,
    },
    /// No endpoint runs the candidate.
    Drift,
    /// An operator, by name.
    Operator(String),
    /// The configuration has other terms than the rollout began with, or none.
    TermsChanged,
    /// What was written down is not of a form that this version knows.
    Unreadable,
}

/// Why a step is not widened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hold {
    /// The candidate has not had enough calls.
    Sample,
    /// The baseline has had too few calls to compare with.
    Control,
    /// The step has not lasted long enough.
    Time,
    /// Endpoints of either side do not run what they should.
    Drift,
    /// Something speaks against the candidate, and not yet enough.
    Suspicion(Guard),
    /// The budget of the shadow was spent before it had enough calls. An operator must decide.
    Budget,
}

/// Why a rollout did not begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartRefusal {
    /// The terms make no sense.
    Terms(TermsFault),
    /// Endpoints do not run what the release says, or do not tell.
    NotVerified(Verification),
}

impl fmt::Display for StartRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Terms(fault) => fault.fmt(f),
            Self::NotVerified(found) => {
                let Verification {
                    release,
                    endpoints,
                    drifted,
                    drift,
                } = found;
                write!(
                    f,
                    "release {release}: {drifted} of {endpoints} endpoints do not prove that they run it"
                )?;
                match drift.first() {
                    Some(drift) => write!(
                        f,
                        "; {drift}. Deploy it, or name in the release only what endpoints tell"
                    ),
                    None => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for StartRefusal {}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guard { guard, odds } => {
                write!(f, "the candidate is worse in {}, {odds} to 1", guard.label())
            }
            Self::Drift => f.write_str("no endpoint runs the candidate"),
            Self::Operator(actor) => write!(f, "{actor} commanded it"),
            Self::TermsChanged => f.write_str("the configuration has changed or lost the terms of the rollout"),
            Self::Unreadable => {
                f.write_str("the state of the rollout was written by a version that this one cannot follow")
            }
        }
    }
}

/// Everything an operator may want to know of a rollout.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status<'a> {
    /// Its name.
    pub name: &'a str,
    /// Where it stands.
    pub stage: Stage,
    /// Since when, in milliseconds since 1970.
    pub since: u64,
    /// The portion of sessions that is the candidate's.
    pub portion: Portion,
    /// Whose sessions; empty for everybody's.
    pub tenants: &'a [String],
    /// What was compared in this stage.
    pub calls: Calls,
    /// Calls of the candidate that the stage needs.
    pub sample: u64,
    /// What the shadow has used.
    pub shadow: ShadowUse,
    /// What keeps the step from being widened, as of the last decision.
    pub hold: Option<Hold>,
    /// Why it is or was rolled back.
    pub why: Option<&'a Why>,
    /// The odds against the candidate.
    pub odds: Odds,
    /// How each guard stands.
    pub standings: Vec<Standing>,
    /// What was last found of the baseline's endpoints.
    pub baseline: Option<&'a Verification>,
    /// What was last found of the candidate's endpoints.
    pub candidate: Option<&'a Verification>,
}
