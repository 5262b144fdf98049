//! The scheduling core of one pool: endpoints, signals, health, leases, filters, scorers and pickers.
//!
//! This crate is pure. It reads no clock, draws no ambient chance, opens no socket and writes no log: inputs and `now` go into
//! [`Pool`], decisions and [`PoolEvent`]s come out. The same seed and the same inputs give the same decisions, bit for bit, so
//! a gateway, a laboratory and a test run the very same code.
//!
//! # What a pool knows
//!
//! An **endpoint** is a row, named by slot and incarnation; a life that is over is never mixed up with the next one at the
//! same place, which inherits neither counts nor learnt figures. Its states:
//!
//! | State | Gets calls | Left by |
//! |---|---|---|
//! | loading | no | three proofs: model listed, KV pool there, one token inferred ([`Proofs`]) |
//! | ready | yes | failed probes (loading), failed calls (ejected), a 503 of the health page or a drain (draining) |
//! | ejected | no, but see the panic rule | its time, then one call on probation; or output that proves it |
//! | draining | no | its last lease, or [`PoolOptions::drain_limit`] if it leaves for good: gone; loading again if its address is still wanted ([`DrainCause::is_final`]) |
//! | gone | no | its slot is used again, by another incarnation |
//!
//! **Signals** are what its page says ([`Signals`]). They are stale from an age of 200 ms on, or when the page stands still under
//! load. What a stale page says of others is believed less and less; or the endpoint counts as full, or is scored on own leases
//! alone ([`StalenessPolicy`]). Between scrapes the figures are
//! carried forward by dead reckoning:
//!
//! ```text
//! estimate = max(0, sample + booked after it − ended after it), and never less than the own live leases
//! ```
//!
//! The **prefix index** says how many of a prompt's tokens each endpoint holds in its KV cache, from what was sent there and from what
//! answers say ([`PrefixOptions`], [`PrefixFigures`], and the module `prefix`).
//!
//! A **lease** is a booked place. It is finished exactly once; a second finish is ignored and counted; when its endpoint goes it
//! is fenced, counts nowhere, and still waits to be finished. The retry budget is held by leases too, so it cannot leak.
//!
//! # How a pick goes
//!
//! 1. The hard filters, always on: ready, not excluded by the ask, not ejected, below the cap, fresh.
//! 2. **Panic rule**: if every ready endpoint that the call may use is ejected, ejection is ignored. A guess beats a certain
//!    refusal. Endpoints that load or drain are never candidates.
//! 3. An endpoint that the connection is bound to is taken if it got this far (`balance: connection`).
//! 4. The soft filter for endpoints that just said that they have too much to do, then the profile's own filters.
//! 5. The profile's scorers, each from 0 to 1 times its weight, filling a column for all candidates at once.
//! 6. The picker. Ties go to the endpoint that was given the least work, then to chance, never to an index.
//! 7. The booking, after a second look at the hard filters, and the record of the choice ([`Why`]).
//!
//! # Why the default profile is what it is
//!
//! [`Profile::default`] takes the lowest cost in seconds ([`Picker::LeastCost`]); the terms and what they are for stand in `cost`. The
//! laboratory runs it beside other rules on traces and generated traffic; `docs/scheduling.md` has the table. `tests/shares.rs`
//! plays forty clients with ninety calls a second on six endpoints: the tail of the time to first token is the shortest of the
//! profiles at hand, with one gateway and with four that do not see each other, because what a call waits for is work before it, and
//! counts of requests do not see that. The work of endpoints is even there, their numbers of calls are not: endpoints that have long
//! prompts get fewer. [`Profile::scored`] keeps numbers even.
//!
//! # Sources
//!
//! * Two choices: M. Mitzenmacher, *The Power of Two Choices in Randomized Load Balancing*, IEEE TPDS 12(10), 2001. With a
//!   preferred first choice: Mitzenmacher, Prabhakar, Shah, *Load Balancing with Memory*, FOCS 2002.
//! * Old information and herding: M. Mitzenmacher, *How Useful Is Old Information?*, IEEE TPDS 11(1), 2000.
//! * Homes of sessions: D. Thaler, C. Ravishankar, *Using Name-Based Mappings to Increase Hit Rates*, IEEE/ACM ToN 6(1), 1998.
//! * Ejection, panic and the retry budget follow the practice of service meshes (Envoy's outlier detection and circuit breaking).
//!
//! The reasons for each part stand in its module: `reckoning`, `page`, `readiness`, `outlier`, `retry`, `scorer`, `picker`.

mod adapters;
mod ask;
mod backlog;
mod columns;
mod cost;
mod counters;
mod event;
mod filter;
#[doc(hidden)]
pub mod fuzzing;
mod hash;
mod heard;
mod lease;
mod lengths;
mod options;
mod others;
mod outlier;
mod pace;
mod page;
mod picker;
mod pool;
mod prefix;
mod profile;
mod readiness;
mod reckoning;
mod retry;
mod room;
mod row;
mod scorer;
mod share;
mod shared_time;
mod signals;
mod speed;
mod starts;
mod waiting;
mod why;

#[cfg(test)]
mod tests;

pub use ask::{Ask, AttemptKind, Delivery, FinishReport, Picked, Refusal};
pub use columns::Tally;
pub use cost::{CostOptions, CostTerms};
pub use counters::PoolCounters;
pub use event::{DrainCause, PoolEvent, ReturnCause};
pub use filter::{Filter, Removed};
pub use options::{
    EndpointOptions, OutlierOptions, PoolOptions, PrefixOptions, ReadinessOptions, ReckoningOptions, RetryOptions,
    StalenessOptions, StalenessPolicy,
};
pub use pace::{Pace, SpeedPrior, Work};
pub use picker::Picker;
pub use pool::{Observed, Pool, PoolFull, Shadow, Violation};
pub use prefix::{CacheRow, Calibration, PrefixFigures, PrefixSnapshot, SnapshotError, SnapshotFile};
pub use profile::{Profile, ProfileError, Weighted};
pub use readiness::{Proofs, ReadinessChange, ReadinessReport};
pub use reckoning::Estimate;
pub use row::{EndpointRow, EndpointState};
pub use scorer::Scorer;
pub use share::{ShareError, ShareMessage, SharedLoad, SharedPrompt};
pub use signals::{LoraSignal, SignalSet, Signals};
pub use waiting::{
    Answer, ClassOptions, ClassReport, MAX_CLASSES, Released, RoomReport, ShedCause, TicketId, WaitingOptions,
};
pub use why::{Explain, MAX_RANKED, MAX_REMOVALS, PickReason, Ranked, Removal, Removals, Why};
