//! How far a call has come along its plan, and what is said of its answer on every surface.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use maitred_config::Settings;
use maitred_obs::Service;
use maitred_runtime::{Degrade, Evidence, Hop, HopEnd, LeftHop, Principal, RouteObjective, Served, Snapshot, Target};
use maitred_types::{Degradation, DegradeKind, DegradeReason, FaultKind, HopSkip, ModelName, Time};

use crate::fault::Fault;
use crate::intake;

/// Asks not to get a degraded answer.
const DEGRADE: HeaderName = HeaderName::from_static("x-maitred-degrade");
/// In what the answer is less than what was asked for.
const DEGRADED: HeaderName = HeaderName::from_static("x-degraded");
/// Who gave it instead.
const SERVED_BY: HeaderName = HeaderName::from_static("x-served-by");
/// Why.
const REASON: HeaderName = HeaderName::from_static("x-degrade-reason");

/// How far a call has come along its plan.
#[derive(Debug, Default)]
pub(crate) struct Way {
    /// The name that the client has asked for.
    pub(crate) asked: Option<ModelName>,
    /// Which rule its plan follows from.
    pub(crate) evidence: Evidence,
    /// The objective of the route, if it can degrade answers.
    objective: Option<Arc<RouteObjective>>,
    /// The place of the present target in the plan.
    pub(crate) hop: usize,
    /// What an answer from here is called, if it is not what was asked for.
    pub(crate) degrades: Option<Degradation>,
    /// Whether the client gets an answer from here.
    pub(crate) is_answered: bool,
    /// The targets that were left or passed over.
    pub(crate) left: Vec<LeftHop>,
    /// Attempts before the present target.
    attempts: u32,
}

impl Way {
    /// The call is planned.
    pub(crate) fn plan(&mut self, asked: ModelName, evidence: Evidence, snapshot: &Snapshot) {
        self.objective = snapshot.objective(&asked).map(Arc::clone);
        self.asked = Some(asked);
        for (target, unfit) in &evidence.skipped {
            if let Some(target) = snapshot.target(*target) {
                self.leave(target, HopEnd::Unfit(*unfit), 0);
            }
        }
        self.evidence = evidence;
    }

    /// The call comes to a hop, having left the target that it asked for by `why`.
    pub(crate) fn begin(&mut self, place: usize, hop: &Hop, why: Option<DegradeReason>) {
        self.hop = place;
        self.degrades = hop.degrades.zip(why).map(|(kind, reason)| Degradation { kind, reason });
    }

    /// The answer is one that was kept.
    pub(crate) const fn reuse(&mut self) {
        self.degrades = Some(Degradation {
            kind: DegradeKind::Cache,
            reason: DegradeReason::Cache,
        });
    }

    /// The target of the hop does not give the answer. So many attempts have been made in all.
    pub(crate) fn leave(&mut self, target: &Target, end: HopEnd, attempts: u32) {
        let here = attempts.saturating_sub(self.attempts);
        self.attempts = attempts;
        self.left.push(LeftHop {
            target: target.into(),
            attempts: here,
            end,
        });
    }

    /// Whether the objective lets an answer be degraded now.
    pub(crate) fn may_degrade(&self) -> bool {
        self.objective.as_ref().is_none_or(|objective| objective.allows())
    }

    /// An attempt has ended, with this fault or well. Only what was asked for tells how things will be.
    pub(crate) fn attempted(&self, fault: Option<FaultKind>, now: Time) {
        if let Some(objective) = self.objective.as_ref().filter(|_| self.degrades.is_none()) {
            let is_refused = matches!(fault, Some(FaultKind::UpstreamQuota | FaultKind::UpstreamOverloaded));
            objective.attempted(is_refused, now);
        }
    }

    /// The call has ended.
    pub(crate) fn ended(&self, service: Service, now: Time) {
        let Some(objective) = &self.objective else { return };
        let is_withheld = |hop: &LeftHop| hop.end == HopEnd::Skipped(HopSkip::Stopped);
        let served = match service {
            // It says nothing of how the targets are.
            _ if self
                .degradation()
                .is_some_and(|degradation| degradation.kind == DegradeKind::Cache) =>
            {
                return;
            }
            _ if self.degradation().is_some() => Served::Degraded,
            Service::Full => Served::Full,
            _ if self.left.iter().any(is_withheld) => Served::Withheld,
            _ => return,
        };
        objective.served(served, now);
    }

    /// What the client's answer is called, if it is not what was asked for.
    pub(crate) fn degradation(&self) -> Option<Degradation> {
        self.degrades.filter(|_| self.is_answered)
    }

    /// Says of an answer what it is.
    pub(crate) fn stamp(&self, headers: &mut HeaderMap, target: Option<&Target>) {
        let (Some(Degradation { kind, reason }), Some(target)) = (self.degradation(), target) else {
            return;
        };
        headers.insert(DEGRADED, HeaderValue::from_static(kind.label()));
        headers.insert(REASON, HeaderValue::from_static(reason.label()));
        let served_by = match kind {
            DegradeKind::Cache => "cache".to_owned(),
            _ => format!("{}/{}", target.pool.name(), target.model),
        };
        let served_by = HeaderValue::from_str(&served_by).unwrap_or(HeaderValue::from_static("unnamed"));
        headers.insert(SERVED_BY, served_by);
    }
}

/// Whether a call may get a degraded answer: by its own word and its tenant's policy.
pub(crate) fn degrade(headers: &HeaderMap, settings: &Settings, principal: &Principal) -> Result<Degrade, Fault> {
    let is_refused = match intake::only(headers, DEGRADE.as_str())? {
        None | Some("allow") => false,
        Some("refuse") => true,
        Some(_) => {
            let message = "the header `x-maitred-degrade` must be `refuse` or `allow`";
            return Err(Fault::new(FaultKind::InvalidField, message));
        }
    };
    if is_refused || settings.degradation.refusing.contains(&principal.tenant) {
        Ok(Degrade::Refused)
    } else {
        Ok(Degrade::Allowed)
    }
}
