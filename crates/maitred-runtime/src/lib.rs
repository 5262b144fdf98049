//! Owns the cores: clock, locks, settings snapshot, scraping, probes and discovery.

mod clock;
mod tasks;

pub use clock::Clock;
pub use tasks::Tasks;
