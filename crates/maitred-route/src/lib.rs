//! Where calls go: from the name of a model and the facts of a call to an ordered plan of targets, each with its reason.
//!
//! This crate is pure: it reads no clock, draws no random number and knows no socket. What it needs of them comes in as
//! arguments, so that a plan can be explained, replayed and tested without sending anything.

mod facts;
mod plan;
pub mod release;
pub mod rollout;
mod routing;
mod target;

pub use facts::Facts;
pub use plan::{Hop, Plan, TargetId};
pub use routing::{Choice, Choose, Fallback, NoRoute, Planned, Route, Routing, Share};
pub use target::{Carries, Offer};
