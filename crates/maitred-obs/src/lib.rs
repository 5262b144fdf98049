//! What is seen from outside: metrics, access records and the log.
//!
//! Cores return events and figures; the shell hands them to the types of this crate, which count and write. Nothing here
//! decides anything. Names, units and labels of metrics are declared once, in [`metric`], and the reference page is made
//! from there.

mod access;
mod decision;
mod log;
mod meters;
pub mod metric;
mod prefix_sample;
mod recording;
mod sample;
mod sink;

pub use access::{AccessRecord, LogFormat, rfc3339};
pub use decision::{
    AttemptRecord, ComparedRecord, DecisionList, DecisionRecord, DegradedRecord, EndRecord, LeftRecord, LimitRecord,
    QuotaRecord, RemovedEndpoint, RemovedRecord, RuleMissed, ScoreRecord, ShadowRecord, TermRecord,
};
pub use log::{Level, start_log};
pub use meters::{
    AnswerMeters, ArchiveMeters, AuditMeters, CallEnd, LedgerMeters, Meters, ModelMeters, ObjectiveSample, PoolMeters,
    Service, ServiceMeters, ShadowMeters, TextMeters, WaitMeters,
};
pub use prefix_sample::{PrefixSample, PrefixSource};
pub use recording::{RecordedCall, Recording, RecordingOptions};
pub use sample::{CacheSample, EndpointSample, EndpointState, SampleSource};
pub use sink::RecordSink;
