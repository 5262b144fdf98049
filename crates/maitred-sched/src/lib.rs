//! The scheduling core.

mod adapters;
mod ask;
mod columns;
mod counters;
mod event;
mod filter;
mod hash;
mod lease;
mod options;
mod outlier;
mod page;
mod picker;
mod pool;
mod profile;
mod readiness;
mod reckoning;
mod retry;
mod row;
mod scorer;
mod signals;
mod why;

#[cfg(test)]
mod tests;

pub use ask::{Ask, AttemptKind, FinishReport, Picked, Refusal};
pub use columns::Tally;
pub use counters::PoolCounters;
pub use event::{DrainCause, PoolEvent, ReturnCause};
pub use filter::{Filter, Removed};
pub use options::{
    EndpointOptions, OutlierOptions, PoolOptions, ReadinessOptions, ReckoningOptions, RetryOptions, StalenessOptions,
    StalenessPolicy,
};
pub use picker::Picker;
pub use pool::{Observed, Pool, PoolFull, Violation};
pub use profile::{Profile, ProfileError, Weighted};
pub use readiness::{Proofs, ReadinessChange, ReadinessReport};
pub use reckoning::Estimate;
pub use row::{EndpointRow, EndpointState};
pub use scorer::Scorer;
pub use signals::{LoraSignal, SignalSet, Signals};
pub use why::{Explain, MAX_RANKED, PickReason, Ranked, Why};
