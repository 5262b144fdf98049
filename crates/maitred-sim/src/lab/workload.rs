//! Where calls come from: traces that are at hand, and generators with parameters.
//!
//! A workload is an iterator of calls in order of their arrival, drawn from a seed, and holds no more than the calls that are
//! about to come. Reading files is the caller's business: it hands in lines ([`LineSource`]).

mod arrivals;
mod generator;
mod sizes;
mod trace;

pub use arrivals::{Arrivals, Shape};
pub use generator::{Generator, Kind, MAX_SESSIONS, SharedText, Spread, Turns};
pub use sizes::LengthPlan;
pub use trace::{
    LineSource, MAX_LINE, MAX_REORDERED, MAX_TRACE_TOKENS, TextLines, TraceCalls, TraceFault, TraceFormat, TracePlan,
    TraceRow, TraceSummary,
};

/// Mixes two numbers into a seed that depends on every bit of both.
pub(crate) const fn mix(left: u64, right: u64) -> u64 {
    // The finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
    let mut bits = left.rotate_left(32) ^ right.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(left);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
