//! What maitred knows of model servers: metric names and pages, readiness, and how each engine fails.
//!
//! This crate is pure: bytes and numbers go in, verdicts come out. Everything that differs between engines stands in one
//! table file per engine under `engine/`; the code beside the tables is shared and asks them. It must not know how bytes
//! are fetched, when, or what is done about a verdict.

mod body;
mod engine;
mod fault;
#[doc(hidden)]
pub mod fuzzing;
mod identity;
mod json;
pub mod kv_events;
mod metrics;
mod readiness;
mod stream;
mod verdict;

pub use body::{BodyVerdict, judge_body};
pub use engine::{Engine, WrongModel};
pub use fault::{ErrorForm, HeadVerdict, MAX_EXCERPT, ResponseHead, UpstreamErrorBody, judge_head, judge_refusal};
pub use identity::Identity;
pub use metrics::{
    Continuity, CustomFigure, Figure, FigureError, Fold, LoraPage, LoraSpec, MAX_ADAPTER_NAMES, MAX_ALTERNATIVES,
    MAX_CUSTOM_FIGURES, Mandatory, MappingError, MetricMapping, MetricSpec, PageError, PageSignals, Read, Scanner,
};
pub use readiness::{
    Advance, Answer, HealthVerdict, InferencePath, Listed, Method, Probe, Readiness, ReadinessStep, WhyNot,
    judge_health, judge_inference, judge_kv_pool, judge_models,
};
pub use stream::{BodyEnd, EndVerdict, EventVerdict, FinishReason, StreamJudge};
