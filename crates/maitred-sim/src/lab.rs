//! The laboratory: a fleet of engine models, workloads, and policies that send calls to them, in virtual time.
//!
//! A [`Router`] is a policy: it is told what a gateway would see, and says where a call goes. The scheduler that serves
//! ([`PoolRouter`]) and its rivals stand behind this one trait, so they meet the same fleet and the same traffic. [`run()`] lets
//! them meet it. Every call that ends leaves one [`CallRecord`]; reports are made from those.

mod agenda;
mod call;
mod driver;
mod experiment;
mod fleet;
mod live;
mod pages;
mod plan;
mod pool_router;
mod record;
pub mod report;
pub mod rivals;
mod router;
pub mod statistics;
pub mod workload;

pub use call::LabCall;
pub use driver::{RunFault, run};
pub use experiment::{Experiment, ExperimentFault, OpenTrace};
pub use fleet::{EndpointFacts, EndpointIndex, EndpointTruth, FleetView};
pub use plan::{EndpointPlan, FrozenPage, Restart, RunEnd, RunPlan, ScrapePlan};
pub use pool_router::{PoolRouter, adapter_name};
pub use record::{CallEnd, CallRecord, EndpointSummary, Recorder, RunSummary};
pub use router::{AdapterBits, CallReport, PageReading, Placement, Released, Router};
