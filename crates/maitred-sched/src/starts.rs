//! When calls whose output is seen at its end only are taken to begin to decode.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use maitred_types::{LeaseId, Time};

use crate::lease::LeaseTable;

/// Entries that are tolerated beyond twice the most leases that there have been at one time.
const SLACK: usize = 64;

/// Leases whose beginning is assumed, by when. One that ends before stays until its time or until the next sweep.
#[derive(Debug, Default)]
pub(crate) struct Starts(BinaryHeap<Reverse<(Time, LeaseId)>>);

impl Starts {
    pub(crate) fn plan(&mut self, lease: LeaseId, at: Time, leases: &LeaseTable) {
        if self.0.len() >= Self::most(leases) {
            self.0.retain(|Reverse((_, lease))| leases.get(*lease).is_some());
        }
        self.0.push(Reverse((at, lease)));
    }

    /// The next lease whose time has come by `now`.
    pub(crate) fn due(&mut self, now: Time) -> Option<LeaseId> {
        self.0.peek().filter(|Reverse((at, _))| *at <= now)?;
        self.0.pop().map(|Reverse((_, lease))| lease)
    }

    /// When the next one's time comes.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The most entries there may be. Sweeps happen only when there are so many, so they cost little for each of them.
    pub(crate) const fn most(leases: &LeaseTable) -> usize {
        2 * leases.places() + SLACK
    }
}
