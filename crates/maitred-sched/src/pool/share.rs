//! What a pool tells the other gateways, and what it takes from them.

use maitred_types::{PromptChain, Time};

use crate::columns::{Phase, slot_number};
use crate::heard::Peers;
use crate::pool::Pool;
use crate::share::{SHARED_BLOCKS_MAX, SHARED_LOADS_MAX, SHARED_PROMPTS_MAX, ShareMessage, SharedLoad, SharedPrompt};

/// A pool's side of the talk among gateways.
#[derive(Debug, Default)]
pub(super) struct Sharing {
    /// Whether anybody asks for messages; without it nothing is kept for them.
    is_on: bool,
    /// Prompts to be told, each with its endpoint's slot.
    prompts: Vec<(u32, PromptChain)>,
    blocks: usize,
    /// Bookings since the last message.
    booked: u32,
    unshared: u64,
    pub(super) peers: Peers,
}

impl Sharing {
    /// Notes a prompt that is at an endpoint from now on.
    pub(super) fn note(&mut self, at: usize, chain: &PromptChain) {
        if !self.is_on {
            return;
        }
        let is_room = self.prompts.len() < SHARED_PROMPTS_MAX && self.blocks + chain.blocks() <= SHARED_BLOCKS_MAX;
        if is_room {
            self.blocks += chain.blocks();
            self.prompts.push((slot_number(at), chain.clone()));
        } else {
            self.unshared += 1;
        }
    }

    pub(super) fn booked(&mut self) {
        self.booked = self.booked.saturating_add(1);
    }
}

impl Pool {
    /// What the other gateways should know now. To be asked for several times a second; from the first time on the pool keeps what
    /// the next message will say.
    pub fn share(&mut self, now: Time) -> ShareMessage {
        let now = self.tick(now);
        self.forget_silent(now);
        self.sharing.is_on = true;
        self.sharing.booked = 0;
        self.sharing.blocks = 0;
        let columns = &self.columns;
        let busy = columns.gates.iter().enumerate().filter(|(_, gate)| gate.in_flight > 0);
        let loads = busy.take(SHARED_LOADS_MAX).map(|(at, gate)| SharedLoad {
            endpoint: columns.keys[at],
            work: columns.backlogs[at].ahead(&columns.paces[at], now),
            sequences: gate.in_flight,
        });
        let prompts = self.sharing.prompts.drain(..).map(|(slot, chain)| SharedPrompt {
            endpoint: columns.keys[slot as usize],
            chain,
        });
        ShareMessage {
            loads: loads.collect(),
            prompts: prompts.collect(),
        }
    }

    /// Bookings since the last message: a reason to send the next one early.
    #[must_use]
    pub const fn booked_unshared(&self) -> u32 {
        self.sharing.booked
    }

    /// Prompts that were not told, because there were too many for one message.
    #[must_use]
    pub const fn unshared_prompts(&self) -> u64 {
        self.sharing.unshared
    }

    /// Takes a message of another gateway. What it has under way there counts from now on until its next message, or until it has said
    /// nothing for three seconds.
    pub fn hear(&mut self, from: u64, message: &ShareMessage, now: Time) {
        let now = self.tick(now);
        self.hear_prompts(message, now);
        self.forget_silent(now);
        let columns = &self.columns;
        let slot = |key| slot_of(&columns.keys, &columns.gates, key);
        self.sharing.peers.hear(from, &message.loads, slot, now);
        self.sum_heard(now);
    }

    /// Takes a message of the past: the prompts were sent, and what was under way then is over.
    pub fn hear_past(&mut self, message: &ShareMessage, now: Time) {
        let now = self.tick(now);
        self.hear_prompts(message, now);
    }

    /// How many other gateways are heard of.
    #[must_use]
    pub fn peers(&self) -> usize {
        self.sharing.peers.len()
    }

    fn hear_prompts(&mut self, message: &ShareMessage, now: Time) {
        for prompt in &message.prompts {
            if let Some(at) = slot_of(&self.columns.keys, &self.columns.gates, prompt.endpoint) {
                self.prefixes.hear(at, &prompt.chain, now);
            }
        }
    }

    fn forget_silent(&mut self, now: Time) {
        if self.sharing.peers.expire(now) {
            self.sum_heard(now);
        }
    }

    /// Up to now endpoints' time was shared with what others had there before.
    fn sum_heard(&mut self, now: Time) {
        for at in 0..self.columns.len() {
            self.pass_time(at, now);
        }
        self.sharing.peers.sum(&mut self.columns.heard);
    }
}

/// Where the endpoint of this key is.
fn slot_of(keys: &[u64], gates: &[crate::columns::Gate], key: u64) -> Option<usize> {
    let all = keys.iter().zip(gates).enumerate();
    all.filter(|(_, (_, gate))| gate.phase != Phase::Gone)
        .find(|(_, (other, _))| **other == key)
        .map(|(at, _)| at)
}
