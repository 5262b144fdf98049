//! Where calls go: from the name of a model and the facts of a call to an ordered plan of targets, each with its reason.
//!
//! This crate is pure: it reads no clock, draws no random number and knows no socket. What it needs of them comes in as
//! arguments, so that a plan can be explained, replayed and tested without sending anything.

pub mod breaker;
mod choice;
mod condition;
mod cover;
mod explain;
mod facts;
mod hours;
pub mod objective;
mod plan;
pub mod release;
pub mod rollout;
mod routing;
mod rule;
mod target;

pub use choice::{Choice, Choose, Share, Sticky};
pub use condition::Condition;
pub use cover::OutOfReach;
pub use explain::{Explanation, LeftOut, Missed, SeenHop, SeenRule};
pub use facts::{Degrade, Facts, Says, Shape};
pub use hours::{Days, Hours, Offset, Schedule};
pub use plan::{Evidence, Hop, Plan, Planned, TargetId};
pub use routing::{Fallback, NoRoute, Place, Routing, TaskType, TaskTypes};
pub use rule::{Route, Rule};
pub use target::{Carries, Offer, Unfit};
