//! The words every part of maitred shares: ids, time, tokens, usage, faults and outcomes.
//!
//! This crate is pure: it reads no clock, draws no random number and knows no socket. It depends on nothing, so that every
//! other crate may depend on it. What a word means is written in `docs/lexicon.md`; each has one name only.

mod chain;
mod degrade;
mod fault;
mod ids;
mod outcome;
mod sizes;
mod time;
mod usage;

pub use chain::PromptChain;
pub use degrade::{Degradation, DegradeKind, DegradeReason, DegradeReasons, HopSkip};
pub use fault::{Dialect, FaultKind, FaultRow, Origin};
pub use ids::{Address, EndpointId, Incarnation, KeyId, LeaseId, ModelName, PoolName, RequestId, Slot, TenantId};
pub use outcome::{LeaseEnd, OutcomeStatus};
pub use sizes::{ByteSize, TokenCount};
pub use time::{Time, UnixMillis};
pub use usage::{Usage, UsageSource};
