//! The synchronous core of one pool: inputs and `now` go in, decisions and events come out.
//!
//! Time never runs backwards inside: a `now` before the newest one is taken as the newest one, and counted.

mod booking;
mod choose;
mod consider;
mod invariants;
mod learn;
mod least_cost;
mod lifecycle;
mod observe;
mod pick;
mod prefix;
mod removals;
mod report;
pub(crate) mod sabotage;
mod share;
mod waiting;

use fastrand::Rng;
use maitred_types::{Address, EndpointId, Incarnation, Time};
use std::fmt;

use crate::adapters::Adapters;
use crate::backlog::Backlog;
use crate::columns::{Columns, Endpoint, Freshness, Gate, Phase, Trial};
use crate::counters::PoolCounters;
use crate::event::{EventQueue, PoolEvent};
use crate::hash::name_hash;
use crate::heard::Heard;
use crate::lease::{LeaseTable, MAX_LEASES};
use crate::lengths::Lengths;
use crate::options::{EndpointOptions, PoolOptions};
use crate::prefix::PrefixIndex;
use crate::profile::Profile;
use crate::reckoning::Load;
use crate::retry::RetryBudget;
use crate::room::Room;
use crate::speed::Speed;
use crate::starts::Starts;

pub use consider::Shadow;
pub use invariants::Violation;
pub use observe::Observed;

/// One pool: its endpoints, what is known of them, and who has booked what.
#[derive(Debug)]
pub struct Pool {
    options: PoolOptions,
    profile: Profile,
    rng: Rng,
    now: Time,
    columns: Columns,
    leases: LeaseTable,
    retries: RetryBudget,
    lengths: Lengths,
    fleet: learn::Fleet,
    starts: Starts,
    sharing: share::Sharing,
    prefixes: PrefixIndex,
    room: Room,
    events: EventQueue,
    counters: PoolCounters,
    scratch: choose::Scratch,
    /// The slot of the newest pick in turn.
    turn: u32,
    /// Until when any endpoint is spared.
    cool_until: Time,
    /// The earliest end of an ejection, or of the time that an endpoint has to leave.
    next_due: Option<Time>,
    in_panic: bool,
    /// The first hard filter that a booking was seen to violate.
    breach: Option<Violation>,
    #[cfg(test)]
    pub(crate) sabotage: Option<sabotage::Sabotage>,
}

/// The pool holds as many endpoints as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolFull {
    /// How many that is.
    pub max_endpoints: u32,
}

impl fmt::Display for PoolFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the pool holds {} endpoints, which is the most it may",
            self.max_endpoints
        )
    }
}

impl std::error::Error for PoolFull {}

impl Pool {
    /// An empty pool. The same seed and the same inputs give the same decisions.
    #[must_use]
    pub fn new(options: PoolOptions, profile: Profile, seed: u64) -> Self {
        let events = EventQueue::new(options.event_queue);
        let prefixes = PrefixIndex::new(options.prefix, seed);
        let room = Room::new(&options.waiting);
        Self {
            options,
            profile,
            rng: Rng::with_seed(seed),
            now: Time::ZERO,
            columns: Columns::default(),
            leases: LeaseTable::default(),
            retries: RetryBudget::default(),
            lengths: Lengths::default(),
            fleet: learn::Fleet::default(),
            starts: Starts::default(),
            sharing: share::Sharing::default(),
            prefixes,
            room,
            events,
            counters: PoolCounters::default(),
            scratch: choose::Scratch::default(),
            turn: u32::MAX,
            cool_until: Time::ZERO,
            next_due: None,
            in_panic: false,
            breach: None,
            #[cfg(test)]
            sabotage: None,
        }
    }

    /// Takes other settings. Endpoints, leases, waiting calls and all that was learnt survive; a lowered cap cuts off nobody.
    pub fn reconfigure(&mut self, options: PoolOptions, profile: Profile) {
        self.events.set_cap(options.event_queue);
        self.room.reconfigure(&self.options.waiting, &options.waiting, self.now);
        for (gate, endpoint) in self.columns.gates.iter_mut().zip(&mut self.columns.endpoints) {
            gate.cap = endpoint.cap(&options);
            endpoint.ceiling = gate.in_flight;
        }
        self.prefixes.reconfigure(options.prefix);
        self.options = options;
        self.profile = profile;
        self.note_change();
        self.plan_due();
    }

    /// Puts an endpoint into the pool; it starts with nothing proven. An address that is there already, and not leaving,
    /// keeps its life and takes the new options.
    ///
    /// # Errors
    ///
    /// When the pool is full.
    pub fn add(&mut self, address: Address, options: EndpointOptions, now: Time) -> Result<EndpointId, PoolFull> {
        let now = self.tick(now);
        if let Some(at) = self.staying(&address) {
            let cap = options.max_in_flight.unwrap_or(self.options.max_in_flight);
            let (gate, endpoint) = (&mut self.columns.gates[at], &mut self.columns.endpoints[at]);
            gate.cap = cap;
            endpoint.ceiling = gate.in_flight;
            endpoint.options = options;
            self.room.may_go |= !self.room.is_empty();
            let pool = endpoint.kv_pool(endpoint.reported.as_ref());
            self.columns.loads[at].set_pool(pool);
            self.prefixes.size(at, pool.block_size, pool.blocks);
            return Ok(self.columns.id(at));
        }
        let at = self.free_slot()?;
        let incarnation = self
            .columns
            .gates
            .get(at)
            .map_or(Incarnation::FIRST, |gate| gate.incarnation.next());
        self.begin_life(at, incarnation, (address, options), now);
        Ok(self.columns.id(at))
    }

    /// Where an endpoint is, or was if its place has not been taken since. `None` for any other life.
    #[must_use]
    pub fn address(&self, id: EndpointId) -> Option<&Address> {
        let at = id.slot.index();
        let gate = self.columns.gates.get(at)?;
        (gate.incarnation == id.incarnation).then(|| &self.columns.endpoints[at].address)
    }

    /// Who is at this address now, unless nobody is or who is there leaves for good.
    #[must_use]
    pub fn endpoint_at(&self, address: &Address) -> Option<EndpointId> {
        self.staying(address).map(|at| self.columns.id(at))
    }

    /// The row of an address that is in the pool and not leaving for good.
    fn staying(&self, address: &Address) -> Option<usize> {
        let endpoints = self.columns.endpoints.iter().zip(&self.columns.gates);
        endpoints
            .enumerate()
            .find(|(_, (endpoint, gate))| {
                let leaves = endpoint.cause.is_some_and(|cause| cause.is_final());
                endpoint.address == *address && gate.phase != Phase::Gone && !leaves
            })
            .map(|(at, _)| at)
    }

    fn free_slot(&self) -> Result<usize, PoolFull> {
        let max_endpoints = self.options.max_endpoints;
        let used = self.columns.gates.iter().filter(|gate| gate.phase != Phase::Gone);
        if used.count() >= max_endpoints as usize {
            return Err(PoolFull { max_endpoints });
        }
        let free = self.columns.gates.iter().position(|gate| gate.phase == Phase::Gone);
        Ok(free.unwrap_or(self.columns.len()))
    }

    /// Writes a row with nothing proven, nothing booked and nothing learnt.
    fn begin_life(&mut self, at: usize, incarnation: Incarnation, who: (Address, EndpointOptions), now: Time) {
        let (address, options) = who;
        let key = name_hash(address.as_str());
        let mut speed = Speed::new(self.options.speed_prior.pace());
        speed.set_fleet(self.fleet.factors);
        let pace = speed.pace();
        let endpoint = Endpoint::new(address, options, speed, now);
        let gate = Gate {
            phase: Phase::Loading,
            trial: Trial::None,
            frozen: false,
            incarnation,
            in_flight: 0,
            cap: endpoint.cap(&self.options),
            sampled_at: None,
            ejected_until: None,
            cool_until: Time::ZERO,
        };
        let pool = endpoint.kv_pool(None);
        let load = Load::new(pool, &self.options.reckoning, now);
        put(&mut self.columns.heard, at, Heard::default());
        self.sharing.peers.begin_life(at);
        self.sharing.peers.sum(&mut self.columns.heard);
        self.prefixes.begin_life(at);
        self.prefixes.size(at, pool.block_size, pool.blocks);
        put(&mut self.columns.gates, at, gate);
        put(&mut self.columns.loads, at, load);
        put(&mut self.columns.adapters, at, Adapters::default());
        put(&mut self.columns.backlogs, at, Backlog::default());
        put(&mut self.columns.paces, at, pace);
        put(&mut self.columns.keys, at, key);
        put(&mut self.columns.work, at, 0);
        put(&mut self.columns.matched, at, 0.0);
        put(&mut self.columns.endpoints, at, endpoint);
        self.scratch.reserve(self.columns.len());
    }

    /// Does what has become due by `now`: ejections end, and so does the time that endpoints have to leave.
    pub fn advance(&mut self, now: Time) {
        self.tick(now);
    }

    /// When [`Pool::advance`] has something to do next, after which [`Pool::released`] may have something to say; `None` for never.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Time> {
        self.next_due.into_iter().chain(self.next_in_room()).min()
    }

    /// The oldest event that nobody has fetched.
    pub fn poll_event(&mut self) -> Option<PoolEvent> {
        self.events.pop()
    }

    /// Whether every ready endpoint is ejected.
    #[must_use]
    pub const fn is_in_panic(&self) -> bool {
        self.in_panic
    }

    /// Whether [`Pool::poll_event`] has something to say.
    #[must_use]
    pub fn has_events(&self) -> bool {
        self.events.len() > 0
    }

    /// The profile in use.
    #[must_use]
    pub const fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The settings in use.
    #[must_use]
    pub const fn options(&self) -> &PoolOptions {
        &self.options
    }

    /// Moves the pool's time on and does what has become due.
    fn tick(&mut self, now: Time) -> Time {
        if now < self.now {
            self.counters.clock_jumps += 1;
        }
        self.note_cooled(now);
        self.now = self.now.max(now);
        if self.next_due.is_some_and(|due| due <= self.now) {
            self.return_due();
            self.leave_due();
            self.plan_due();
            self.note_change();
        }
        self.begin_due();
        self.room.end_due(self.now);
        self.now
    }

    fn max_leases(&self) -> usize {
        self.options.max_leases.min(MAX_LEASES) as usize
    }

    fn freshness(&self) -> Freshness {
        Freshness::new(&self.options.staleness, self.now)
    }
}

/// Writes `value` at `at`, which is at most one past the end.
fn put<T>(column: &mut Vec<T>, at: usize, value: T) {
    match column.get_mut(at) {
        Some(place) => *place = value,
        None => column.push(value),
    }
}
