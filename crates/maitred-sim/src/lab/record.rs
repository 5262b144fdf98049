//! What a run leaves behind: one record per call, and a summary.

use std::time::Duration;

use maitred_types::{Time, TokenCount};

use super::fleet::EndpointIndex;

/// How a call ended in the laboratory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallEnd {
    /// With its whole answer.
    Answered,
    /// Turned away by the router.
    Shed,
    /// Refused by its endpoint: too long for it, or its queue was full.
    Refused,
    /// Lost with an endpoint that restarted.
    Lost,
    /// Still under way when the run was stopped.
    Unfinished,
}

impl CallEnd {
    /// Every end.
    pub const ALL: [Self; 5] = [Self::Answered, Self::Shed, Self::Refused, Self::Lost, Self::Unfinished];

    /// The word in reports.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Shed => "shed",
            Self::Refused => "refused",
            Self::Lost => "lost",
            Self::Unfinished => "unfinished",
        }
    }
}

/// One call that has ended. Each call leaves exactly one, in the order of their ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// The call's number.
    pub number: u64,
    /// When it came to its gateway.
    pub arrived: Time,
    /// When it was sent to its endpoint.
    pub dispatched: Option<Time>,
    /// When its answer's first token came.
    pub first_token: Option<Time>,
    /// When it ended.
    pub finished: Time,
    /// Tokens of the prompt.
    pub input: TokenCount,
    /// Those of them that the endpoint's cache held.
    pub cached: TokenCount,
    /// How many the policy believed it to hold, if it had a belief.
    pub predicted_cached: Option<TokenCount>,
    /// Tokens of the answer that came.
    pub output: TokenCount,
    /// The endpoint it was sent to.
    pub endpoint: Option<EndpointIndex>,
    /// The gateway it came to, from 0.
    pub gateway: u32,
    /// Who pays for it.
    pub tenant: u32,
    /// Its class.
    pub class: u8,
    /// How it ended.
    pub end: CallEnd,
}

impl CallRecord {
    /// From arrival to the first token.
    #[must_use]
    pub fn ttft(&self) -> Option<Duration> {
        self.first_token.map(|first| first.since(self.arrived))
    }

    /// Mean time of the tokens after the first one; `None` for answers of less than two.
    #[must_use]
    pub fn tpot(&self) -> Option<Duration> {
        let later = self.output.get().checked_sub(1).filter(|later| *later > 0)?;
        self.first_token
            .filter(|_| self.end == CallEnd::Answered)
            .map(|first| self.finished.since(first) / later)
    }
}

/// Takes what a run produces, one by one. Its memory must not grow with the number of calls.
pub trait Recorder {
    /// A call has ended.
    fn call(&mut self, record: &CallRecord);
}

impl<F: FnMut(&CallRecord)> Recorder for F {
    fn call(&mut self, record: &CallRecord) {
        self(record);
    }
}

/// What an endpoint did in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointSummary {
    /// Calls that were sent to it.
    pub calls: u64,
    /// Prompt tokens of those it answered at least in part.
    pub prompt_tokens: u64,
    /// Those of them that its cache held.
    pub cached_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Tokens computed in all steps, those of preempted requests again.
    pub computed_tokens: u64,
    /// Requests that lost their blocks.
    pub preemptions: u64,
    /// Time in which a step was under way.
    pub busy: Duration,
    /// How often it restarted.
    pub restarts: u32,
}

/// A run as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunSummary {
    /// The policy's name.
    pub policy: String,
    /// The seed.
    pub seed: u64,
    /// Calls that came.
    pub calls: u64,
    /// How they ended, in the order of [`CallEnd::ALL`].
    pub ends: [u64; 5],
    /// Virtual time from the start to the last end.
    pub duration: Duration,
    /// Virtual time of the last arrival.
    pub last_arrival: Duration,
    /// Most calls that were under way or waited at one time.
    pub peak_live: usize,
    /// Pages read.
    pub pages: u64,
    /// Happenings that the driver handled.
    pub happenings: u64,
    /// Each endpoint.
    pub endpoints: Vec<EndpointSummary>,
}
