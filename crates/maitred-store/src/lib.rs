//! What outlives a gateway, or is shared by several of them.
//!
//! Gateways tell each other what they sent where through a [`SharedLog`] in Redis or Valkey. What the entries mean is for the cores to
//! say: here they are bytes. Everything in this crate may be slow or gone, so nothing of it is on a call's way: its users keep
//! working with what they hold, and say that they do.

mod shared_log;

pub use shared_log::{Entry, LogError, Reader, SharedLog, SharedLogOptions, Writer};
