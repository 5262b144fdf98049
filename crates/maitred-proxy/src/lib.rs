//! The data path: listeners, the call's pipeline, links to endpoints, attempts and relay.
//!
//! [`DataPlane`] runs one event loop per thread, each with its own listeners and its own links. A call is served by one task
//! from its first byte to its last; that task also drives the connection to the endpoint, so no byte waits for another task.
//! This crate decides nothing about endpoints: it asks `maitred-runtime` for a booked place and reports how it went.

mod account;
mod alarm;
mod answer;
mod attempt;
mod billing;
mod blank;
mod body;
mod call;
mod cutoff;
mod edited;
mod events;
mod fault;
mod framing;
#[doc(hidden)]
pub mod fuzzing;
mod gate;
mod headers;
mod hop;
mod intake;
mod joined;
mod kept;
mod link;
mod listener;
mod named;
mod outside;
mod patience;
mod plane;
mod prompt;
mod query;
mod quota;
mod refusal;
mod refused;
mod relay;
mod seldom;
mod shard;
mod socket;
mod stall;
mod text;
mod through;
mod trail;
mod way;
mod wire;

pub use plane::{DataPlane, PlaneOptions};
