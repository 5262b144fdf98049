//! The prefix index in the life of a pool: looked up in a pick, told of by leases, events and snapshots.

use maitred_types::{EndpointId, LeaseEnd, LeaseId, PromptChain, Time, Usage};

use crate::ask::Ask;
use crate::event::PoolEvent;
use crate::lease::Lease;
use crate::pool::Pool;
use crate::prefix::{PrefixSnapshot, Prompt, Seen, SnapshotError, SnapshotWriter, Switch};

/// How an ask's prompt is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// It is looked up, and what is found counts.
    Counted,
    /// It is looked up and nothing is changed by it.
    Aside,
    /// It is not.
    No,
}

impl Pool {
    /// How the prompt of an ask that is to be booked is looked up.
    pub(super) fn look_at(&mut self, ask: &Ask<'_>) -> Look {
        if self.prefixes.wants(ask.chain.is_some()) {
            Look::Counted
        } else {
            Look::No
        }
    }

    /// Fills the column of prompt tokens that endpoints hold. Returns the ask's prompt tokens if some candidate holds a part of them.
    pub(super) fn look_up(&mut self, ask: &Ask<'_>, look: Look) -> Option<f32> {
        let is_wanted = match look {
            Look::Counted => true,
            Look::Aside => self.prefixes.would_want(),
            Look::No => false,
        };
        let prompt = prompt(ask).filter(|_| is_wanted);
        self.prefixes.look_up(prompt, &mut self.columns.matched);
        let prompt = prompt?;
        let candidates = &self.scratch.candidates;
        let (mut best, mut sum) = (0.0_f32, 0.0_f32);
        for slot in candidates {
            let matched = self.columns.matched[*slot as usize];
            best = best.max(matched);
            sum += matched;
        }
        if look == Look::Counted {
            let seen = Seen {
                prompt: prompt.tokens,
                best,
                random: sum / candidates.len().max(1) as f32,
            };
            match self.prefixes.weigh(&seen, self.now) {
                Some(Switch::On) => self.events.push(PoolEvent::PrefixOn),
                Some(Switch::Off) => self.events.push(PoolEvent::PrefixOff),
                None => {}
            }
        }
        (best > 0.0).then_some(prompt.tokens)
    }

    /// Notes what a lease just booked at `at` brings there.
    pub(super) fn claim_prefix(&mut self, lease: LeaseId, at: usize, ask: &Ask<'_>) {
        let counted = prompt(ask).map_or(0.0, |prompt| {
            let predicted = self.columns.matched[at];
            // Others need not be told of what is there already.
            let per_block = prompt.chain.tokens_per_block();
            if predicted + per_block < prompt.chain.blocks() as f32 * per_block {
                self.sharing.note(at, prompt.chain);
            }
            self.prefixes.claim((lease, at), prompt, predicted, self.now)
        });
        let beside = (ask.input_tokens + ask.output_tokens)
            .get()
            .saturating_sub(whole(counted));
        if let Some(booked) = self.leases.get_mut(lease) {
            booked.beside = beside;
            self.prefixes.beside(at, beside, 0);
        }
    }

    /// Draws from the end of a lease what it says about its endpoint's cache.
    pub(super) fn settle_prefix(&mut self, lease: LeaseId, booked: &Lease, end: LeaseEnd, usage: Option<&Usage>) {
        if booked.fenced {
            self.prefixes.drop_claim(lease);
            return;
        }
        let at = booked.endpoint.slot.index();
        self.prefixes.beside(at, 0, booked.beside);
        if booked.first_token_at.is_some() || end == LeaseEnd::Success {
            self.prefixes.settle(lease, at, usage, self.now);
        } else {
            self.prefixes.abandon(lease, at);
        }
    }

    /// Says what a lease's prompt is with the answer's text appended, so that the call that goes on with it is recognised. To be called
    /// before the lease is finished; changes nothing for a lease that has ended, whose endpoint has gone, or whose prompt was not
    /// looked up.
    pub fn extend(&mut self, lease: LeaseId, chain: &PromptChain, now: Time) {
        let now = self.tick(now);
        if let Some(booked) = self.leases.get(lease).filter(|booked| !booked.fenced) {
            let at = booked.endpoint.slot.index();
            self.sharing.note(at, chain);
            self.prefixes.extend(lease, at, chain, now);
        }
    }

    /// The endpoint's KV events say that it has stored so many blocks. From here on, until [`Pool::cache_unknown`], its events say when
    /// blocks go, in place of a guessed capacity.
    pub fn cache_stored(&mut self, id: EndpointId, blocks: u32, now: Time) {
        if let Some(at) = self.at_event(id, now) {
            self.prefixes.stored(at, blocks);
        }
    }

    /// The endpoint's KV events say that it has let go of so many blocks. The least recently used ones are taken to be meant: the
    /// engine's names of blocks are made of token ids and say nothing here.
    pub fn cache_removed(&mut self, id: EndpointId, blocks: u32, now: Time) {
        if let Some(at) = self.at_event(id, now) {
            self.prefixes.removed(at, blocks);
        }
    }

    /// The endpoint's cache is empty: its KV events say so, or somebody has flushed it.
    pub fn cache_cleared(&mut self, id: EndpointId, now: Time) {
        if let Some(at) = self.at_event(id, now) {
            self.prefixes.cleared(at);
        }
    }

    /// The endpoint's KV events have ended, or have a gap that cannot be filled: its capacity is guessed again.
    pub fn cache_unknown(&mut self, id: EndpointId, now: Time) {
        if let Some(at) = self.at_event(id, now) {
            self.prefixes.lost_track(at);
        }
    }

    /// What an endpoint holds, as bytes, at most `budget` of them and the least recently used left out. `mark` proves its incarnation, such
    /// as the time its engine says it was started: another life has another one. `None` when there is no such endpoint.
    #[must_use]
    pub fn export_prefixes(&self, id: EndpointId, mark: u64, budget: usize) -> Option<Vec<u8>> {
        let at = self.columns.find(id)?;
        let address = self.columns.endpoints[at].address.as_str();
        let writer = SnapshotWriter::new(address, mark, budget);
        Some(self.prefixes.write(at, writer))
    }

    /// Takes what an endpoint held when a snapshot of it was written. To be called before it is sent calls: what is taken counts as
    /// used now. Returns how many blocks it is taken to hold.
    ///
    /// # Errors
    ///
    /// When the snapshot is of another address or another mark, or the endpoint is no more.
    pub fn import_prefixes(
        &mut self,
        id: EndpointId,
        mark: u64,
        snapshot: &PrefixSnapshot,
        now: Time,
    ) -> Result<u64, SnapshotError> {
        let now = self.tick(now);
        let at = self.columns.find(id).ok_or(SnapshotError::OtherLife)?;
        let is_it = self.columns.endpoints[at].address.as_str() == snapshot.address() && mark == snapshot.mark();
        if !is_it {
            return Err(SnapshotError::OtherLife);
        }
        Ok(self.prefixes.read(at, snapshot, now))
    }

    fn at_event(&mut self, id: EndpointId, now: Time) -> Option<usize> {
        self.tick(now);
        let at = self.columns.find(id);
        self.counters.late_reports += u64::from(at.is_none());
        at
    }
}

/// The ask's prompt, if its blocks are known. One that fills no block counts too: with its answer it may fill many.
fn prompt<'a>(ask: &Ask<'a>) -> Option<Prompt<'a>> {
    let chain = ask.chain?;
    let blocks = chain.blocks() as f32 * chain.tokens_per_block();
    Some(Prompt {
        chain,
        tokens: (ask.input_tokens.get() as f32).max(blocks).max(1.0),
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a conversion that saturates is what is wanted"
)]
const fn whole(tokens: f32) -> u32 {
    tokens as u32
}
