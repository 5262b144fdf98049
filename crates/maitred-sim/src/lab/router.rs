//! What a policy is told and what it says: the one interface between the driver and any way of choosing.
//!
//! A driver runs one router for each gateway. A router learns what a gateway would: its own calls, their first tokens and ends,
//! and the pages that it reads. It holds no clock and draws chance from a seed of its own.

use maitred_types::{Time, TokenCount};

use super::call::LabCall;
use super::fleet::{EndpointIndex, FleetView};
use super::record::CallEnd;

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// It goes to an endpoint at once.
    Go {
        /// Which.
        endpoint: EndpointIndex,
        /// How many prompt tokens the policy believes to be cached there, if it has a belief; for calibration.
        predicted_cached: Option<TokenCount>,
    },
    /// The router keeps it, and will say where it goes in [`Router::released`].
    Wait,
    /// It is turned away.
    Shed,
}

/// What became of a call that waited in the router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// The call's number.
    pub number: u64,
    /// Where it goes; [`Placement::Wait`] changes nothing.
    pub placement: Placement,
}

/// How a dispatched call ended, as its gateway sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallReport {
    /// Prompt tokens that came from the endpoint's cache, as its answer says. `None` when there was no answer, or the
    /// endpoint does not report it.
    pub cached: Option<TokenCount>,
    /// Tokens of the answer.
    pub output: TokenCount,
    /// How it ended.
    pub end: CallEnd,
}

/// One reading of an endpoint's metrics page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PageReading {
    /// When the page was asked for, as the gateway knows it. What it shows may be older.
    pub asked_at: Time,
    /// Requests that wait in the engine.
    pub queued: u32,
    /// Requests in its batch.
    pub running: u32,
    /// The used part of the KV pool, from 0 to 1.
    pub kv_used: f64,
    /// Tokens per KV block.
    pub block_size: u32,
    /// KV blocks.
    pub blocks: u32,
    /// Prompt and output tokens since the engine's start; grows as long as it works.
    pub progress: u64,
    /// Adapters that run, and adapters that requests wait for, as bits by their index; `None` where the engine has none.
    pub adapters: Option<AdapterBits>,
}

/// Adapters by their index, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdapterBits {
    /// Adapters on the GPU at once, at most.
    pub max: u32,
    /// Those that run.
    pub running: u64,
    /// Those that requests wait for and that do not run.
    pub waiting: u64,
}

/// A way of choosing: one gateway's view and decisions.
///
/// The driver calls it in order of time. For each call: [`Router::arrive`] once; if it goes, then [`Router::first_token`] at
/// most once and [`Router::finished`] exactly once. A call that is lost with its endpoint before its first token comes again, as
/// a gateway tries another endpoint. After each of these and after a page the driver asks [`Router::released`], for room may
/// have come up.
pub trait Router {
    /// The policy's name, as reports show it.
    fn name(&self) -> &str;

    /// Decides on a call that has just come. What was booked for it is released by [`Router::finished`].
    fn arrive(&mut self, call: &LabCall, now: Time, fleet: &FleetView<'_>) -> Placement;

    /// The first token of a call's answer has come.
    fn first_token(&mut self, call: &LabCall, endpoint: EndpointIndex, now: Time) {
        let (_, _, _) = (call, endpoint, now);
    }

    /// A dispatched call has ended: answered, refused by its endpoint, or lost with it.
    fn finished(&mut self, call: &LabCall, endpoint: EndpointIndex, report: &CallReport, now: Time);

    /// A page has been read.
    fn page(&mut self, endpoint: EndpointIndex, page: &PageReading, now: Time) {
        let (_, _, _) = (endpoint, page, now);
    }

    /// An endpoint was seen to have restarted: its cache is empty, and its calls have been reported as lost.
    fn restarted(&mut self, endpoint: EndpointIndex, now: Time) {
        let (_, _) = (endpoint, now);
    }

    /// Appends the calls that waited and wait no longer. Asked after everything that may make room, and at
    /// [`Router::next_wakeup`].
    fn released(&mut self, now: Time, fleet: &FleetView<'_>, out: &mut Vec<Released>) {
        let (_, _, _) = (now, fleet, out);
    }

    /// What the other gateways should know now, as a message; `None` where a policy has nothing of the kind.
    fn share(&mut self, now: Time) -> Option<Vec<u8>> {
        let _ = now;
        None
    }

    /// A message of the gateway at `from`.
    fn hear(&mut self, from: u32, message: &[u8], now: Time) {
        let (_, _, _) = (from, message, now);
    }

    /// When [`Router::released`] wants to be asked although nothing happens.
    fn next_wakeup(&self) -> Option<Time> {
        None
    }

    /// Whether [`FleetView`] is to show this instant when a call comes. It costs time in large fleets; without it the view
    /// is older, and not to be read.
    fn sees_truth(&self) -> bool {
        false
    }
}
