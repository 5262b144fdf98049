//! Endpoints as rows, what is known of them as columns.
//!
//! The hard filters read [`Gate`] and nothing else, the scorers [`Load`] and [`Adapters`]; what a pick does not need lies in
//! [`Endpoint`]. So a pick over a thousand endpoints walks a few dozen kilobytes in order.

use std::time::Duration;

use maitred_types::{Address, EndpointId, Incarnation, Slot, Time};

use crate::adapters::Adapters;
use crate::backlog::{Backlog, seconds};
use crate::event::DrainCause;
use crate::filter::Filter;
use crate::heard::Heard;
use crate::lease::LeaseList;
use crate::options::{EndpointOptions, PoolOptions, StalenessOptions, StalenessPolicy};
use crate::outlier::Outlier;
use crate::pace::Pace;
use crate::page::PageWatch;
use crate::readiness::Readiness;
use crate::reckoning::{KvPool, Load, Marks};
use crate::room::busy::Busy;
use crate::shared_time::SharedTime;
use crate::signals::Signals;
use crate::speed::Speed;

/// Where in its life an endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Loading,
    Ready,
    Draining,
    /// The slot is free.
    Gone,
}

/// What stands between a ready endpoint and its calls because of earlier failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trial {
    /// Nothing.
    None,
    /// On probation; its one call may be picked.
    Open,
    /// On probation; its one call is under way.
    Taken,
}

/// What the hard filters read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate {
    pub(crate) phase: Phase,
    pub(crate) trial: Trial,
    pub(crate) frozen: bool,
    pub(crate) incarnation: Incarnation,
    pub(crate) in_flight: u32,
    pub(crate) cap: u32,
    /// When the newest sample was asked for; `None` before the first.
    pub(crate) sampled_at: Option<Time>,
    /// The end of the ejection; `None` when not ejected.
    pub(crate) ejected_until: Option<Time>,
    /// Until when the endpoint is spared if others can serve.
    pub(crate) cool_until: Time,
}

/// Trust in a sample is halved with every so many times the age from which it is stale: 5 s by default.
const TRUST_HALF_LIFE: f64 = 25.0;

/// How old signals may be, and what follows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Freshness {
    pub(crate) now: Time,
    /// The earliest time of a sample that is not stale.
    since: Time,
    /// Seconds beyond that age after which trust in a sample is halved.
    half_life: f64,
    pub(crate) policy: StalenessPolicy,
}

impl Freshness {
    pub(crate) fn new(options: &StalenessOptions, now: Time) -> Self {
        let instant = Duration::from_nanos(1);
        Self {
            now,
            since: (now + instant).saturating_sub(options.stale_after),
            half_life: TRUST_HALF_LIFE * options.stale_after.as_secs_f64(),
            policy: options.policy,
        }
    }
}

impl Gate {
    /// Whether its signals can be believed.
    pub(crate) fn is_fresh(&self, freshness: &Freshness) -> bool {
        !self.frozen && self.sampled_at.is_some_and(|at| at >= freshness.since)
    }

    /// How much of what its signals say of others is to be believed, from 0 to 1.
    #[inline]
    pub(crate) fn trust(&self, freshness: &Freshness) -> f64 {
        if self.is_fresh(freshness) {
            return 1.0;
        }
        match (freshness.policy, self.sampled_at) {
            (StalenessPolicy::Trust, Some(at)) if !self.frozen => {
                (-seconds(at, freshness.since) / freshness.half_life).exp2()
            }
            _ => 0.0,
        }
    }

    /// Whether it is spared by an ejection, or by a probation whose one call is under way. Ejections that are over have been
    /// taken back before anybody asks.
    pub(crate) const fn is_ejected(&self) -> bool {
        self.ejected_until.is_some() || matches!(self.trial, Trial::Taken)
    }

    /// The first of the filters that speak of room and freshness to refuse it.
    pub(crate) fn full(&self, freshness: &Freshness) -> Option<Filter> {
        if self.in_flight >= self.cap {
            Some(Filter::BelowCap)
        } else if freshness.policy == StalenessPolicy::Saturated && !self.is_fresh(freshness) {
            Some(Filter::Fresh)
        } else {
            None
        }
    }
}

/// What a pick does not need to read.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: Address,
    pub(crate) options: EndpointOptions,
    pub(crate) cause: Option<DrainCause>,
    /// Since when it has been leaving for good.
    pub(crate) leaving_since: Option<Time>,
    pub(crate) readiness: Readiness,
    pub(crate) outlier: Outlier,
    pub(crate) watch: PageWatch,
    /// Since when it has had leases without a break, or none.
    pub(crate) present_since: Time,
    pub(crate) marks: Marks,
    pub(crate) leases: LeaseList,
    pub(crate) time: SharedTime,
    pub(crate) reported: Option<Signals>,
    pub(crate) restart_seen: bool,
    /// Leases above the cap that a lowered cap left behind; never grows.
    pub(crate) ceiling: u32,
    pub(crate) tally: Tally,
    pub(crate) recent: Decayed,
    /// How much of its time goes to prompts.
    pub(crate) busy: Busy,
    pub(crate) speed: Speed,
}

impl Endpoint {
    pub(crate) fn new(address: Address, options: EndpointOptions, speed: Speed, now: Time) -> Self {
        Self {
            address,
            options,
            cause: None,
            leaving_since: None,
            readiness: Readiness::default(),
            outlier: Outlier::default(),
            watch: PageWatch::default(),
            present_since: now,
            marks: Marks::default(),
            leases: LeaseList::EMPTY,
            time: SharedTime::default(),
            reported: None,
            restart_seen: false,
            ceiling: 0,
            tally: Tally::default(),
            recent: Decayed::default(),
            busy: Busy::default(),
            speed,
        }
    }

    /// The sizes of its KV pool: what the page says, else what it was added with.
    pub(crate) fn kv_pool(&self, signals: Option<&Signals>) -> KvPool {
        KvPool {
            block_size: signals.and_then(|told| told.block_size).or(self.options.block_size),
            blocks: signals.and_then(|told| told.blocks).or(self.options.blocks),
        }
    }

    pub(crate) fn cap(&self, options: &PoolOptions) -> u32 {
        self.options.max_in_flight.unwrap_or(options.max_in_flight)
    }
}

/// How the leases of an endpoint's life ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Times it was picked.
    pub picks: u64,
    /// It did its work.
    pub successes: u64,
    /// It failed.
    pub failures: u64,
    /// It had too much to do.
    pub overloads: u64,
    /// It was leaving.
    pub drainings: u64,
    /// The client went away.
    pub cancelled: u64,
    /// Nobody said how they ended.
    pub abandoned: u64,
    /// Times it was ejected.
    pub ejections: u64,
    /// Scrapes that gave no figures.
    pub failed_scrapes: u64,
}

/// A count that fades with a half-life of thirty seconds; for shares of recent traffic.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Decayed {
    count: f64,
    at: Time,
}

impl Decayed {
    const HALF_LIFE_SECS: f64 = 30.0;

    pub(crate) fn add_one(&mut self, now: Time) {
        self.count = self.value(now) + 1.0;
        self.at = now;
    }

    pub(crate) fn value(&self, now: Time) -> f64 {
        self.count * (-now.since(self.at).as_secs_f64() / Self::HALF_LIFE_SECS).exp2()
    }
}

/// All endpoints of a pool, by slot.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    pub(crate) gates: Vec<Gate>,
    pub(crate) loads: Vec<Load>,
    pub(crate) adapters: Vec<Adapters>,
    /// What each endpoint has to prefill.
    pub(crate) backlogs: Vec<Backlog>,
    /// What other gateways have under way on each endpoint.
    pub(crate) heard: Vec<Heard>,
    /// How fast each endpoint is.
    pub(crate) paces: Vec<Pace>,
    /// The hash of each endpoint's address, for rendezvous.
    pub(crate) keys: Vec<u64>,
    /// Prompt tokens given to each endpoint and not read from its cache, plus one per call; breaks ties.
    pub(crate) work: Vec<u64>,
    /// Prompt tokens of the ask at hand that each endpoint is taken to hold in its prefix cache; zero without a chain.
    pub(crate) matched: Vec<f32>,
    pub(crate) endpoints: Vec<Endpoint>,
}

impl Columns {
    pub(crate) const fn len(&self) -> usize {
        self.gates.len()
    }

    /// The row of `id`, unless that life is over.
    pub(crate) fn find(&self, id: EndpointId) -> Option<usize> {
        let at = id.slot.index();
        let gate = self.gates.get(at)?;
        (gate.incarnation == id.incarnation && gate.phase != Phase::Gone).then_some(at)
    }

    pub(crate) fn id(&self, at: usize) -> EndpointId {
        EndpointId {
            slot: Slot::new(slot_number(at)),
            incarnation: self.gates[at].incarnation,
        }
    }

    /// The least work of a ready endpoint other than `at`: where a newcomer starts, so that it does not win every tie until
    /// it has caught up.
    pub(crate) fn least_work(&self, at: usize) -> Option<u64> {
        let ready = self.gates.iter().zip(&self.work).enumerate();
        ready
            .filter(|(other, (gate, _))| *other != at && gate.phase == Phase::Ready && gate.ejected_until.is_none())
            .map(|(_, (_, work))| *work)
            .min()
    }
}

/// A slot's number; pools are far smaller than its range.
pub(crate) fn slot_number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
