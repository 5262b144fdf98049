//! A trace as a workload: jittered, faster or slower, again and again.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use fastrand::Rng;
use maitred_types::{Time, TokenCount};

use super::{LineSource, TraceFault, TraceFormat, TraceRow};
use crate::lab::LabCall;
use crate::lab::workload::mix;
use crate::prefix::Prompt;

/// Most rows that are held to be put in order of their time.
pub const MAX_REORDERED: usize = 1 << 16;

/// How a trace is played.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TracePlan {
    /// How it is written.
    pub format: TraceFormat,
    /// How many times as fast as it came.
    pub speed: f64,
    /// Times are rounded down to multiples of this; each is moved later by a random part of it. Otherwise a replay measures
    /// bursts that never were.
    pub jitter: Duration,
    /// How late in the file a row may stand. Recordings are written as calls end.
    pub lateness: Duration,
    /// How often it is played, one time after the other. Later rounds share no text with earlier ones.
    pub rounds: u64,
    /// Tokens of the fleet's KV blocks.
    pub block_size: u32,
    /// Decides the jitter.
    pub seed: u64,
}

impl TracePlan {
    /// Once, as it came.
    #[must_use]
    pub const fn new(format: TraceFormat, block_size: u32, seed: u64) -> Self {
        Self {
            format,
            speed: 1.0,
            jitter: Duration::ZERO,
            lateness: Duration::ZERO,
            rounds: 1,
            block_size,
            seed,
        }
    }
}

/// A row with the time it was given.
#[derive(Debug, PartialEq, Eq)]
struct Timed {
    nanos: u64,
    number: u64,
    round: u64,
    row: TraceRow,
}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.nanos, self.number).cmp(&(other.nanos, other.number))
    }
}

/// The calls of a trace.
#[derive(Debug)]
pub struct TraceCalls<S> {
    source: S,
    plan: TracePlan,
    rng: Rng,
    line: Vec<u8>,
    /// Lines read in this round.
    lines: u64,
    /// Rows read in all rounds.
    rows: u64,
    round: u64,
    /// The time of this round's first row, as the trace has it.
    first: Option<u64>,
    /// The latest time read in this round, since its first row.
    newest: u64,
    /// Rows of this round.
    of_round: u64,
    /// When this round began, in the trace's time.
    began: u64,
    waiting: BinaryHeap<Reverse<Timed>>,
    is_over: bool,
    last: u64,
}

impl<S: LineSource> TraceCalls<S> {
    /// The calls of the lines of `source`.
    pub fn new(source: S, plan: TracePlan) -> Self {
        Self {
            source,
            rng: Rng::with_seed(mix(plan.seed, 5)),
            plan,
            line: Vec::new(),
            lines: 0,
            rows: 0,
            round: 0,
            first: None,
            newest: 0,
            of_round: 0,
            began: 0,
            waiting: BinaryHeap::new(),
            is_over: false,
            last: 0,
        }
    }

    /// Reads one more row, if there is one.
    fn read(&mut self) -> Result<(), TraceFault> {
        let told = |fault: String, line| TraceFault::new(line, None, fault);
        let found = self.source.next_line(&mut self.line);
        if !found.map_err(|fault| told(fault, self.lines + 1))? {
            return self.end_round();
        }
        self.lines += 1;
        if let Some(row) = self.plan.format.row(&self.line, self.lines)? {
            self.take(row);
        }
        Ok(())
    }

    fn take(&mut self, row: TraceRow) {
        // The first row of a recording may not be the earliest one; recordings count from their beginning.
        let begins = if self.plan.lateness.is_zero() { row.nanos } else { 0 };
        let first = *self.first.get_or_insert(begins);
        let since = row.nanos.saturating_sub(first);
        self.newest = self.newest.max(since);
        let jitter = u64::try_from(self.plan.jitter.as_nanos()).unwrap_or(u64::MAX);
        let moved = if jitter > 0 { self.rng.u64(0..jitter) } else { 0 };
        self.rows += 1;
        self.of_round += 1;
        self.waiting.push(Reverse(Timed {
            nanos: self.began.saturating_add(since).saturating_add(moved),
            number: self.rows,
            round: self.round,
            row,
        }));
    }

    fn end_round(&mut self) -> Result<(), TraceFault> {
        self.round += 1;
        // A trace without calls has no second round either.
        self.is_over = self.round >= self.plan.rounds || self.of_round == 0;
        if !self.is_over {
            let lines = self.lines;
            self.source
                .rewind()
                .map_err(|fault| TraceFault::new(lines, None, fault))?;
            // The mean gap, so that the last row and the next first one do not coincide.
            self.began += self.newest + self.newest / self.of_round.max(1) + 1;
            (self.lines, self.first, self.newest, self.of_round) = (0, None, 0, 0);
        }
        Ok(())
    }

    /// Whether no row that comes later in the file can be earlier in time than the earliest one held.
    fn is_certain(&self) -> bool {
        let Some(Reverse(earliest)) = self.waiting.peek() else {
            return false;
        };
        let lateness = u64::try_from(self.plan.lateness.as_nanos()).unwrap_or(u64::MAX);
        let newest = self.began.saturating_add(self.newest);
        earliest.nanos.saturating_add(lateness) < newest || self.waiting.len() >= MAX_REORDERED
    }

    fn call(&mut self, timed: &Timed) -> LabCall {
        let row = &timed.row;
        let block_size = self.plan.block_size;
        let mut prompt = Prompt::of_passages(None);
        let mut left = row.input;
        for id in &row.ids {
            let tokens = left.min(row.block_tokens);
            if tokens == 0 {
                break;
            }
            prompt.append(mix(*id, timed.round), tokens, block_size);
            left -= tokens;
        }
        let own = mix(mix(self.plan.seed, u64::MAX), timed.number);
        if left > 0 {
            prompt.append(own, left, block_size);
        }
        let mut call = LabCall::new(&prompt, block_size, TokenCount::new(row.output));
        self.last = self.last.max(timed.nanos);
        call.arrived = Time::from_nanos(scaled(self.last, 1.0 / self.plan.speed));
        (call.tenant, call.class, call.session) = (row.tenant, row.class, row.session);
        call.answer_seed = mix(own, 7);
        call
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast saturates, which is wanted here"
)]
fn scaled(nanos: u64, factor: f64) -> u64 {
    (nanos as f64 * factor) as u64
}

impl<S: LineSource> Iterator for TraceCalls<S> {
    type Item = Result<LabCall, TraceFault>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.is_over && !self.is_certain() {
            if let Err(fault) = self.read() {
                self.is_over = true;
                self.waiting.clear();
                return Some(Err(fault));
            }
        }
        let Reverse(timed) = self.waiting.pop()?;
        Some(Ok(self.call(&timed)))
    }
}

/// What a trace holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceSummary {
    /// Calls.
    pub calls: u64,
    /// Time from the first to the last.
    pub span: Duration,
    /// Prompt tokens of all.
    pub input: u64,
    /// Answer tokens of all.
    pub output: u64,
}

impl TraceSummary {
    /// Reads a whole trace and goes back to its start.
    ///
    /// # Errors
    /// The first fault in it.
    pub fn scan(source: &mut impl LineSource, format: TraceFormat) -> Result<Self, TraceFault> {
        let (mut summary, mut line, mut number) = (Self::default(), Vec::new(), 0);
        let (mut first, mut last) = (u64::MAX, 0);
        let told = |number: u64| move |fault: String| TraceFault::new(number, None, fault);
        while source.next_line(&mut line).map_err(told(number + 1))? {
            number += 1;
            let Some(row) = format.row(&line, number)? else {
                continue;
            };
            summary.calls += 1;
            summary.input += u64::from(row.input);
            summary.output += u64::from(row.output);
            (first, last) = (first.min(row.nanos), last.max(row.nanos));
        }
        source.rewind().map_err(told(number))?;
        summary.span = Duration::from_nanos(last.saturating_sub(first));
        Ok(summary)
    }

    /// Calls per second; zero for a trace of no time.
    #[must_use]
    pub fn rate(&self) -> f64 {
        if self.span.is_zero() {
            return 0.0;
        }
        self.calls as f64 / self.span.as_secs_f64()
    }
}
