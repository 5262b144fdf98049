//! What is to be done with a call, before any of it is done.

use std::sync::Arc;
use std::time::Duration;

use maitred_types::{DegradeKind, DegradeReason, DegradeReasons, ModelName};
use smallvec::SmallVec;

use crate::target::Unfit;

/// The place of a target in the table of all targets, which the settings of a gateway have in one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetId(pub u16);

/// One target that a call may be sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Where.
    pub target: TargetId,
    /// What must have happened at the hop before for the call to go on here. The first hop needs nothing.
    pub on: DegradeReasons,
    /// Most time that the call may spend here; without one, all that is left of the call's own.
    pub within: Option<Duration>,
    /// What an answer from here is called, if it is not what was asked for.
    pub degrades: Option<DegradeKind>,
}

/// The targets of a call, in the order in which they are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// At least one.
    pub hops: SmallVec<[Hop; 2]>,
}

impl Plan {
    /// A plan that knows one target only.
    #[must_use]
    pub fn single(target: TargetId) -> Self {
        Self {
            hops: SmallVec::from_iter([Hop {
                target,
                on: DegradeReasons::NONE,
                within: None,
                degrades: None,
            }]),
        }
    }

    /// The place of the next hop after the one at `from` that is there for `reason`.
    #[must_use]
    pub fn next(&self, from: usize, reason: DegradeReason) -> Option<usize> {
        let rest = self.hops.iter().enumerate().skip(from + 1);
        rest.filter(|(_, hop)| hop.on.contains(reason))
            .map(|(place, _)| place)
            .next()
    }
}

/// Where a call is to be tried, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The name of the route or of the pool's model that was asked for.
    pub asked: ModelName,
    /// The targets.
    pub plan: Plan,
    /// What they follow from.
    pub evidence: Evidence,
}

/// Why a plan is as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The rule that the call meets; none if its route has none that it meets.
    pub rule: Option<Arc<str>>,
    /// The rules before that one, each with the first of its conditions that the call does not meet, as the configuration calls it.
    pub missed: SmallVec<[(Arc<str>, &'static str); 2]>,
    /// Targets of the route that are not in the plan although they would be otherwise.
    pub skipped: SmallVec<[(TargetId, Unfit); 2]>,
    /// Why the plan begins with a fallback, if it does: what is said of an answer from there.
    pub entry: Option<DegradeReason>,
}

#[cfg(test)]
mod tests {
    use maitred_types::DegradeReason;

    use super::*;

    #[test]
    fn the_next_hop_is_the_first_that_is_there_for_the_reason() {
        let mut plan = Plan::single(TargetId(0));
        for (target, on) in [
            (1, DegradeReasons::of(&[DegradeReason::Quota])),
            (2, DegradeReasons::of(&[DegradeReason::Timeout, DegradeReason::Error])),
            (3, DegradeReasons::ALL),
        ] {
            plan.hops.push(Hop {
                target: TargetId(target),
                on,
                within: None,
                degrades: Some(DegradeKind::Model),
            });
        }
        assert_eq!(plan.next(0, DegradeReason::Error), Some(2));
        assert_eq!(plan.next(0, DegradeReason::Quota), Some(1));
        assert_eq!(plan.next(1, DegradeReason::Quota), Some(3));
        assert_eq!(plan.next(3, DegradeReason::Quota), None);
        assert_eq!(plan.next(0, DegradeReason::Unavailable), Some(3));
    }
}
