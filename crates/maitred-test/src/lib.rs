//! A harness for tests that run real programs: children, ports, fixtures, streams.
//!
//! Everything waits for something that happens (a line, a byte, an exit, a closed socket) and gives up loudly after
//! [`DEADLINE`]; nothing sleeps and hopes. Ports are always chosen by the kernel. A failure of the harness is a failed test,
//! so its functions panic with what was seen rather than return errors.
#![expect(
    clippy::panic,
    clippy::expect_used,
    reason = "a harness fails the test that uses it, with what it saw"
)]

mod background;
mod child;
mod endpoint;
mod fixtures;
mod folder;
mod http;
mod http2;
pub mod load;
mod output;
mod postgres;
mod program;
mod redis;
pub mod sdk;
mod sse;
mod tokens;
pub mod vllm;
mod wait;
mod wire;

pub use background::{Background, background};
pub use child::{Child, Signal, Start};
pub use endpoint::{End, Gate, Play, Received, ScriptedEndpoint};
pub use fixtures::captures;
pub use folder::Folder;
pub use http::{Answer, Connection, Request};
pub use http2::Http2;
pub use postgres::Postgres;
pub use program::{Finished, Program};
pub use redis::Redis;
pub use sse::{Event, SseReader};
pub use tokens::{TokenSigner, key_set, unsigned};
pub use wait::{DEADLINE, RefusingPort, eventually, within};
pub use wire::{BodyEnd, Head};
