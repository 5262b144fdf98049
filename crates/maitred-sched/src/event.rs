//! What a pool tells the shell, in a bounded queue.

use std::collections::VecDeque;

use maitred_types::{Address, EndpointId, LeaseId, Time};

/// Why an endpoint gets no new calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrainCause {
    /// Its health page answers 503. It may come back after a full proof of readiness.
    HealthUnavailable,
    /// It aborted an answer as engines do when they are stopped. It may come back after a full proof of readiness.
    Aborting,
    /// It does not run what its pool's release says. It may come back, once it does, after a full proof of readiness.
    OffRelease,
    /// The configuration or the DNS answer names it no more. It goes when its last lease ends.
    Unlisted,
    /// An operator said so. It goes when its last lease ends.
    Operator,
}

impl DrainCause {
    /// The word for logs, metrics and pages.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::HealthUnavailable => "health_unavailable",
            Self::Aborting => "aborting",
            Self::OffRelease => "off_release",
            Self::Unlisted => "unlisted",
            Self::Operator => "operator",
        }
    }

    /// Whether the endpoint leaves the pool for good when its last lease ends. Otherwise its address is still wanted, and it
    /// starts again from nothing proven.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Unlisted | Self::Operator)
    }
}

/// Why an ejected endpoint gets calls again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnCause {
    /// Its time is over; it is on probation with one call at a time.
    TimeOver,
    /// A call that was booked after the ejection got output from it.
    Proven,
}

/// Something that happened in a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolEvent {
    /// All proofs of readiness are there; the endpoint takes calls.
    Ready {
        /// Who.
        endpoint: EndpointId,
    },
    /// Too many probes failed in a row; nothing is proven any more.
    NotReady {
        /// Who.
        endpoint: EndpointId,
    },
    /// Calls failed in a row; no calls until the given time.
    Ejected {
        /// Who.
        endpoint: EndpointId,
        /// The end of the ejection.
        until: Time,
    },
    /// An ejection ended.
    Returned {
        /// Who.
        endpoint: EndpointId,
        /// Why.
        cause: ReturnCause,
    },
    /// No new calls; leases run out.
    Draining {
        /// Who.
        endpoint: EndpointId,
        /// Why.
        cause: DrainCause,
    },
    /// The last lease of a draining endpoint that may come back has ended; it is loading again.
    Drained {
        /// Who.
        endpoint: EndpointId,
    },
    /// The endpoint was leaving for good, and its last leases did not end in time; it goes without waiting for them.
    DrainCutShort {
        /// Who.
        endpoint: EndpointId,
    },
    /// The endpoint is no longer in the pool.
    Gone {
        /// Who.
        endpoint: EndpointId,
        /// Where it was.
        address: Address,
        /// Leases cut off from it: their calls must move or fail, and must still be finished.
        fenced: Vec<LeaseId>,
    },
    /// The endpoint lives its next life at the same place.
    Restarted {
        /// The life that ended.
        endpoint: EndpointId,
        /// The life that begins.
        next: EndpointId,
        /// Leases cut off from the old life.
        fenced: Vec<LeaseId>,
    },
    /// A figure that only grows went backwards: the endpoint has restarted. Call [`crate::Pool::restart`].
    RestartSeen {
        /// Who.
        endpoint: EndpointId,
    },
    /// The endpoint's page stands still under load; it counts as stale.
    Frozen {
        /// Who.
        endpoint: EndpointId,
    },
    /// The page moves again, or has had its time to.
    Thawed {
        /// Who.
        endpoint: EndpointId,
    },
    /// Every ready endpoint is ejected; ejections are ignored from here on.
    PanicEntered,
    /// At least one ready endpoint is not ejected, or none is ready.
    PanicLeft,
    /// Calls share too little of their prompts for the prefix index to be worth its work; it looks at a sample of calls from here on.
    PrefixOff,
    /// Calls share enough of their prompts again; the prefix index looks at all calls.
    PrefixOn,
}

impl PoolEvent {
    /// The word for logs and metrics.
    #[must_use]
    pub const fn label(&self) -> &'static str {
        match self {
            Self::Ready { .. } => "ready",
            Self::NotReady { .. } => "not_ready",
            Self::Ejected { .. } => "ejected",
            Self::Returned { .. } => "returned",
            Self::Draining { .. } => "draining",
            Self::Drained { .. } => "drained",
            Self::DrainCutShort { .. } => "drain_cut_short",
            Self::Gone { .. } => "gone",
            Self::Restarted { .. } => "restarted",
            Self::RestartSeen { .. } => "restart_seen",
            Self::Frozen { .. } => "frozen",
            Self::Thawed { .. } => "thawed",
            Self::PanicEntered => "panic_entered",
            Self::PanicLeft => "panic_left",
            Self::PrefixOff => "prefix_off",
            Self::PrefixOn => "prefix_on",
        }
    }
}

/// A queue that drops its oldest event when full, and counts what it dropped.
#[derive(Debug)]
pub(crate) struct EventQueue {
    events: VecDeque<PoolEvent>,
    cap: usize,
    dropped: u64,
}

impl EventQueue {
    pub(crate) const fn new(cap: usize) -> Self {
        Self {
            events: VecDeque::new(),
            cap,
            dropped: 0,
        }
    }

    pub(crate) fn set_cap(&mut self, cap: usize) {
        self.cap = cap;
        self.trim();
    }

    pub(crate) fn push(&mut self, event: PoolEvent) {
        self.events.push_back(event);
        self.trim();
    }

    pub(crate) fn pop(&mut self) -> Option<PoolEvent> {
        self.events.pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    pub(crate) const fn dropped(&self) -> u64 {
        self.dropped
    }

    fn trim(&mut self) {
        while self.events.len() > self.cap {
            self.events.pop_front();
            self.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_event_is_dropped_and_counted() {
        let mut queue = EventQueue::new(2);
        queue.push(PoolEvent::PanicEntered);
        queue.push(PoolEvent::PanicLeft);
        queue.push(PoolEvent::PanicEntered);
        assert_eq!((queue.len(), queue.dropped()), (2, 1));
        assert_eq!(queue.pop(), Some(PoolEvent::PanicLeft));
        queue.push(PoolEvent::PanicLeft);
        queue.set_cap(0);
        assert_eq!((queue.pop(), queue.dropped()), (None, 3));
    }
}
