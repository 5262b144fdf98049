//! The engine model in virtual time: batching, KV blocks, prefix cache, preemption, adapters.
//!
//! The model does what the scheduler of vLLM V1 does, step by step, and takes the time of a step from a formula fitted to
//! measured kernels instead of from a GPU. It is pure: time is an argument, nothing is drawn at random inside, and the same
//! submissions at the same times give the same events, bit for bit. The laboratory runs thousands of these in virtual time;
//! `maitred engine` puts an HTTP face in front of one and lets wall-clock time drive it.

#[doc(hidden)]
pub mod fuzzing;
mod kv;
pub mod lab;
mod lengths;
mod lora;
mod model;
mod prefix;
mod profile;
mod request;
mod stats;

pub use kv::CacheChange;
pub use lengths::{LengthLimits, OutputLength};
pub use lora::{AdapterIndex, LoraOptions, MAX_ADAPTERS};
pub use model::{EngineModel, EngineOptions, GaugeUpdates, PrefixCaching, TokenEvents, Violation, WarmUp};
pub use prefix::{BlockHash, PrefixHasher, Prompt, output_token};
pub use profile::{EngineProfile, StepBatch, StepCosts};
pub use request::{FinishReason, Refused, RequestNumber, SimEvent, SimRequest, SimUsage};
pub use stats::{Counters, EngineStats, Gauges, Histogram, Histograms, LoraSeries, MAX_LORA_SERIES};
