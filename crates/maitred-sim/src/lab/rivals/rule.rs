//! What all rivals have in common: keeping the books, so that a rule is only its rule.

use std::fmt::Debug;

use fastrand::Rng;
use maitred_types::{Time, TokenCount};

use super::believed::BelievedCaches;
use super::bookings::{Bookings, OwnLoad};
use crate::lab::{CallReport, EndpointFacts, EndpointIndex, FleetView, LabCall, PageReading, Placement, Router};

/// What a rule knows of the endpoints' caches.
#[derive(Debug)]
pub(super) enum Knowledge {
    /// Nothing.
    None,
    /// What it sent where, as far as it remembers.
    Believed(BelievedCaches),
    /// What the engines' cache events say, without delay.
    Events,
}

/// What a rule sees when a call comes. All slices have one entry per endpoint.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    /// The call.
    pub call: &'a LabCall,
    /// This instant.
    pub now: Time,
    /// What was told of the endpoints.
    pub facts: &'a [EndpointFacts],
    /// What this gateway has under way at them.
    pub own: &'a [OwnLoad],
    /// Their pages as read last.
    pub pages: &'a [PageReading],
    /// Prompt tokens of this call that they are thought to have cached; all zero for a rule without knowledge.
    pub matched: &'a [u32],
    /// The memory behind `matched`, where it is the rule's own.
    pub believed: Option<&'a BelievedCaches>,
    /// The truth, for the oracle alone.
    pub fleet: &'a FleetView<'a>,
}

impl Seen<'_> {
    /// How many endpoints there are. Never zero.
    pub(super) const fn len(&self) -> usize {
        self.facts.len()
    }

    /// Prompt tokens that an endpoint would have to compute. At least one: the last token is always computed.
    pub(super) fn uncached(&self, endpoint: usize) -> u32 {
        self.call.input.get().saturating_sub(self.matched[endpoint]).max(1)
    }
}

/// A rule for choosing. Hooks that a rule does not need do nothing.
pub(super) trait Rule: Debug {
    /// Its known name.
    fn name(&self) -> &'static str;

    /// Chooses.
    fn choose(&mut self, seen: &Seen<'_>, random: &mut Rng) -> usize;

    /// The call has gone to `endpoint`.
    fn dispatched(&mut self, seen: &Seen<'_>, endpoint: usize) {
        let (_, _) = (seen, endpoint);
    }

    /// A call's first token has come, or it has ended without one. Once for every call.
    fn prefilled(&mut self, call: &LabCall, endpoint: usize) {
        let (_, _) = (call, endpoint);
    }

    /// A call has ended.
    fn finished(&mut self, call: &LabCall, endpoint: usize, report: &CallReport) {
        let (_, _, _) = (call, endpoint, report);
    }
}

/// The endpoint of least cost; one of them by chance when several have it.
pub(super) fn cheapest(
    endpoints: impl Iterator<Item = usize>,
    random: &mut Rng,
    mut cost: impl FnMut(usize) -> f64,
) -> usize {
    let mut best = (f64::INFINITY, 0);
    let mut ties = 0;
    for endpoint in endpoints {
        let cost = cost(endpoint);
        match cost.total_cmp(&best.0) {
            std::cmp::Ordering::Less => {
                best = (cost, endpoint);
                ties = 1;
            }
            std::cmp::Ordering::Equal => {
                ties += 1;
                if random.usize(..ties) == 0 {
                    best.1 = endpoint;
                }
            }
            std::cmp::Ordering::Greater => {}
        }
    }
    best.1
}

/// A rule with its books: a router.
#[derive(Debug)]
pub(super) struct Rival {
    rule: Box<dyn Rule>,
    knowledge: Knowledge,
    facts: Vec<EndpointFacts>,
    bookings: Bookings,
    pages: Vec<PageReading>,
    random: Rng,
    matched: Vec<u32>,
}

impl Rival {
    pub(super) fn new(rule: Box<dyn Rule>, knowledge: Knowledge, facts: &[EndpointFacts], random: Rng) -> Self {
        Self {
            rule,
            knowledge,
            facts: facts.to_vec(),
            bookings: Bookings::new(facts.len()),
            pages: vec![PageReading::default(); facts.len()],
            random,
            matched: vec![0; facts.len()],
        }
    }

    /// Prompt tokens cached per endpoint, for all that is known. Only full blocks count, and never the last token.
    fn look_up(&mut self, call: &LabCall, fleet: &FleetView<'_>) {
        match &self.knowledge {
            Knowledge::None => {}
            Knowledge::Believed(caches) => caches.matched(&call.chain, &mut self.matched),
            Knowledge::Events => {
                for (endpoint, matched) in fleet.endpoints().zip(&mut self.matched) {
                    let blocks = u32::try_from(fleet.matched_blocks(endpoint, &call.chain)).unwrap_or(u32::MAX);
                    *matched = blocks.saturating_mul(self.facts[endpoint.get()].block_size);
                }
            }
        }
        let most = call.input.get().saturating_sub(1);
        for (matched, facts) in self.matched.iter_mut().zip(&self.facts) {
            *matched = (*matched).min(most / facts.block_size.max(1) * facts.block_size);
        }
    }
}

impl Router for Rival {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn arrive(&mut self, call: &LabCall, now: Time, fleet: &FleetView<'_>) -> Placement {
        if self.facts.is_empty() {
            return Placement::Shed;
        }
        self.look_up(call, fleet);
        let seen = Seen {
            call,
            now,
            facts: &self.facts,
            own: self.bookings.loads(),
            pages: &self.pages,
            matched: &self.matched,
            believed: match &self.knowledge {
                Knowledge::Believed(caches) => Some(caches),
                Knowledge::None | Knowledge::Events => None,
            },
            fleet,
        };
        let chosen = self.rule.choose(&seen, &mut self.random);
        self.rule.dispatched(&seen, chosen);
        let uncached = seen.uncached(chosen);
        self.bookings.dispatched(call.number, chosen, uncached);
        if let Knowledge::Believed(caches) = &mut self.knowledge {
            caches.insert(chosen, &call.chain);
        }
        let has_belief = !matches!(self.knowledge, Knowledge::None);
        Placement::Go {
            endpoint: EndpointIndex::new(u32::try_from(chosen).unwrap_or(u32::MAX)),
            predicted_cached: has_belief.then(|| TokenCount::new(self.matched[chosen])),
        }
    }

    fn first_token(&mut self, call: &LabCall, endpoint: EndpointIndex, _: Time) {
        if self.bookings.prefilled(call.number) {
            self.rule.prefilled(call, endpoint.get());
        }
    }

    fn finished(&mut self, call: &LabCall, endpoint: EndpointIndex, report: &CallReport, _: Time) {
        if self.bookings.prefilled(call.number) {
            self.rule.prefilled(call, endpoint.get());
        }
        self.bookings.finished(call.number);
        self.rule.finished(call, endpoint.get(), report);
    }

    fn page(&mut self, endpoint: EndpointIndex, page: &PageReading, _: Time) {
        if let Some(known) = self.pages.get_mut(endpoint.get()) {
            known.clone_from(page);
        }
    }

    fn restarted(&mut self, endpoint: EndpointIndex, _: Time) {
        if let Knowledge::Believed(caches) = &mut self.knowledge {
            caches.clear(endpoint.get());
        }
    }

    fn sees_truth(&self) -> bool {
        matches!(self.knowledge, Knowledge::Events)
    }
}
