//! What outlives a gateway, or is shared by several of them.
//!
//! Gateways tell each other what they sent where through a [`SharedLog`] in Redis or Valkey. What the entries mean is for the cores to
//! say: here they are bytes. They share quota through a [`QuotaStore`] there. What calls used goes to the [`ledger`], why they went where
//! they went to the [`archive`], who did what to the [`audit`], and what was said, of tenants that want it, to the [`texts`]. Everything in this crate may be slow or gone, so no call waits for it
//! longer than it is told to: its users keep working with what they hold, and say that they do.

pub mod archive;
pub mod audit;
pub mod chain;
mod frame;
pub mod journal;
pub mod ledger;
mod quota_store;
mod shared_log;
pub mod texts;

pub use quota_store::{News, QuotaConnection, QuotaStore, QuotaStoreError};
pub use shared_log::{Entry, LogError, Reader, SharedLog, SharedLogOptions, Writer};
