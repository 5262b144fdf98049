//! A lease's life after its booking, as the data path tells it.

use std::time::Duration;

use maitred_types::{LeaseEnd, LeaseId, PromptChain, Time, TokenCount, Usage};

use super::PoolHost;

impl PoolHost {
    pub(crate) fn first_token(&self, lease: LeaseId, now: Time) {
        self.with_core(now, |core| core.pool.first_token(lease, now));
    }

    pub(crate) fn progress(&self, lease: LeaseId, output: TokenCount, now: Time) {
        self.core.lock().pool.progress(lease, output, now);
    }

    /// Tells the core what the endpoint holds once it has answered.
    pub(crate) fn extend(&self, lease: LeaseId, chain: &PromptChain, now: Time) {
        self.core.lock().pool.extend(lease, chain, now);
    }

    /// Ends a lease; its share of the endpoint's time is told.
    pub(crate) fn finish(&self, lease: LeaseId, end: LeaseEnd, usage: Option<&Usage>, now: Time) -> Duration {
        let share = self.with_core(now, |core| {
            let share = core.pool.time_share(lease, now);
            core.pool.finish(lease, end, usage, now);
            share
        });
        if end == LeaseEnd::Abandoned {
            self.meters.lease_abandoned();
        }
        share.unwrap_or_default()
    }
}
