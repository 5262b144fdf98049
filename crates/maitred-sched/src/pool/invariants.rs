//! What must hold after every step, by number. Cheap enough for tests after each step and for production now and then.
//!
//! * **S1** every ask ends exactly once: asks = refused + finished + live leases + waiting + left, and who waits has one place.
//! * **S2** an endpoint's in-flight count equals its live leases, and so do its columns' sums over them.
//! * **S3** no pick violates a hard filter as of its decision time: looked at again at every booking.
//! * **S4** no cap is exceeded. Only a cap that was lowered below what was there may be, and then nothing is added.
//! * **S5** the prefix index: endpoints hold contiguous prefixes, its sums are those of what it holds, and its bytes are bounded.

use std::fmt;

use maitred_types::EndpointId;

use crate::columns::Phase;
use crate::filter::Filter;
use crate::pool::Pool;
use crate::reckoning::MAX_MARKS;
use crate::starts::Starts;

/// An invariant that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Its number.
    pub invariant: &'static str,
    /// What was found.
    pub found: String,
}

impl Violation {
    fn new(invariant: &'static str, found: String) -> Self {
        Self { invariant, found }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant, self.found)
    }
}

/// What the live leases of one endpoint add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    in_flight: u32,
    decoding: u32,
    prefill_tokens: u64,
    expected_blocks: u64,
    beside: u64,
}

impl Pool {
    /// Looks at everything. Costs a walk over all leases.
    ///
    /// # Errors
    ///
    /// The first invariant that does not hold.
    pub fn check_invariants(&self) -> Result<(), Violation> {
        self.check_asks()?;
        self.check_counts()?;
        self.check_caps()?;
        let prefixes = self.prefixes.check(self.columns.len());
        prefixes.map_err(|found| Violation::new("S5", found))?;
        if let Some((invariant, found)) = self.room.fault(&self.options.waiting) {
            return Err(Violation::new(invariant, found));
        }
        self.breach.clone().map_or(Ok(()), Err)
    }

    pub(super) fn note_breach(&mut self, filter: Filter, endpoint: EndpointId) {
        let found = format!("{endpoint:?} was booked against `{}`", filter.name());
        self.breach.get_or_insert(Violation::new(number(filter), found));
    }

    fn check_asks(&self) -> Result<(), Violation> {
        let counters = &self.counters;
        let live = self.leases.len() as u64;
        let ended = counters.refused + counters.finished + counters.left + self.room.len() as u64 + self.room.shed();
        let retries = self.leases.iter().filter(|lease| lease.retry).count();
        if counters.asks != ended + live || counters.booked != counters.finished + live {
            let asks = counters.asks;
            let found = format!("{asks} asks, but {ended} ended and {live} live");
            return Err(Violation::new("S1", found));
        }
        if self.retries.held() as usize != retries {
            let found = format!("{} retries held, but {retries} leases hold one", self.retries.held());
            return Err(Violation::new("S1", found));
        }
        Ok(())
    }

    fn check_counts(&self) -> Result<(), Violation> {
        let mut sums = vec![Sums::default(); self.columns.len()];
        let mut pending = vec![0.0; self.columns.len()];
        let mut fenced = 0;
        for lease in self.leases.iter() {
            if lease.fenced {
                fenced += 1;
                continue;
            }
            let Some(at) = self.columns.find(lease.endpoint) else {
                let found = format!("a live lease on {:?}, which is gone", lease.endpoint);
                return Err(Violation::new("S2", found));
            };
            let decodes = lease.decoding_since.is_some();
            let sum = &mut sums[at];
            pending[at] += if decodes { 0.0 } else { lease.work.tokens };
            sum.in_flight += 1;
            sum.decoding += u32::from(decodes);
            sum.prefill_tokens += if decodes { 0 } else { u64::from(lease.input.get()) };
            sum.expected_blocks += u64::from(lease.expected_blocks);
            sum.beside += u64::from(lease.beside);
        }
        if fenced != self.leases.fenced() {
            let found = format!("{fenced} fenced leases, {} counted", self.leases.fenced());
            return Err(Violation::new("S2", found));
        }
        self.compare(&sums, &pending)
    }

    fn compare(&self, sums: &[Sums], pending: &[f64]) -> Result<(), Violation> {
        for (at, expected) in sums.iter().enumerate() {
            let (gate, load) = (&self.columns.gates[at], &self.columns.loads[at]);
            if gate.phase == Phase::Gone {
                continue;
            }
            let counted = Sums {
                in_flight: gate.in_flight,
                decoding: load.decoding,
                prefill_tokens: load.prefill_tokens,
                expected_blocks: load.expected_blocks,
                beside: self.prefixes.is_beside(at),
            };
            if (self.columns.backlogs[at].pending().tokens - pending[at]).abs() > 1e-3 {
                let id = self.columns.id(at);
                let found = format!(
                    "{id:?} has {:?}, its leases give {}",
                    self.columns.backlogs[at], pending[at]
                );
                return Err(Violation::new("S2", found));
            }
            if counted != *expected {
                let id = self.columns.id(at);
                let found = format!("{id:?} counts {counted:?}, its leases give {expected:?}");
                return Err(Violation::new("S2", found));
            }
        }
        Ok(())
    }

    fn check_caps(&self) -> Result<(), Violation> {
        let rows = self.columns.gates.iter().zip(&self.columns.endpoints);
        for (at, (gate, endpoint)) in rows.enumerate() {
            let most = gate.cap.max(endpoint.ceiling);
            if gate.in_flight > most || endpoint.marks.len() > MAX_MARKS {
                let found = format!("{:?} has {} leases of {most}", self.columns.id(at), gate.in_flight);
                return Err(Violation::new("S4", found));
            }
        }
        if self.starts.len() > Starts::most(&self.leases) {
            let found = format!("{} beginnings are assumed", self.starts.len());
            return Err(Violation::new("S4", found));
        }
        if self.events.len() > self.options.event_queue {
            let found = format!("{} events wait", self.events.len());
            return Err(Violation::new("S4", found));
        }
        Ok(())
    }
}

const fn number(filter: Filter) -> &'static str {
    match filter {
        Filter::BelowCap => "S4",
        Filter::Ready
        | Filter::NotExcluded
        | Filter::NotEjected
        | Filter::Fresh
        | Filter::NotCooling
        | Filter::HasRoom
        | Filter::LowQueue { .. }
        | Filter::KvHeadroom { .. }
        | Filter::LoraCapacity => "S3",
    }
}
