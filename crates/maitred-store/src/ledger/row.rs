//! Rows: what the database holds, put together from a gateway's entries.

use std::collections::BTreeMap;

use maitred_types::{Usage, UsageSource};

use super::entry::{AttemptHead, CallHead, Ending, Entry};

/// The outcome of what a gateway's death cut short.
pub const INTERRUPTED: &str = "interrupted";

/// One row: a call, or one attempt of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The start of a gateway that it belongs to.
    pub gateway: u64,
    /// The number of the call there.
    pub call: u64,
    /// The number of the attempt; 0 for the call itself.
    pub attempt: u32,
    /// What was known when the call began.
    pub head: CallHead<String>,
    /// The endpoint of the attempt; of a call, that of its last one.
    pub endpoint: Option<String>,
    /// How long after the call's arrival the attempt began, in microseconds; of a call, its first one.
    pub began_us: Option<u64>,
    /// How it ended.
    pub ending: Ending<String>,
}

#[derive(Debug)]
struct Open {
    head: CallHead<String>,
    attempts: BTreeMap<u32, Tried>,
    segment: u64,
}

#[derive(Debug)]
struct Tried {
    head: AttemptHead<String>,
    ending: Option<Ending<String>>,
}

/// Puts the entries of one start of a gateway together, in the order in which they were written.
///
/// It holds no more calls than were under way at once.
#[derive(Debug)]
pub(super) struct Assembler {
    gateway: u64,
    open: BTreeMap<u64, Open>,
}

impl Assembler {
    pub(super) const fn new(gateway: u64) -> Self {
        Self {
            gateway,
            open: BTreeMap::new(),
        }
    }

    /// Takes the next entry, from that segment; a call that ends with it leaves its rows. An end without a beginning is of a call
    /// whose rows are in the database already: a segment goes only after that.
    pub(super) fn take(&mut self, entry: Entry<String>, segment: u64, rows: &mut Vec<Row>) {
        match entry {
            Entry::Call { call, head } => {
                let attempts = BTreeMap::new();
                self.open.insert(
                    call,
                    Open {
                        head,
                        attempts,
                        segment,
                    },
                );
            }
            Entry::Attempt { call, number, head } => {
                if let Some(open) = self.open.get_mut(&call) {
                    open.attempts.insert(number, Tried { head, ending: None });
                }
            }
            Entry::AttemptEnd { call, number, ending } => {
                if let Some(tried) = self.open.get_mut(&call).and_then(|open| open.attempts.get_mut(&number)) {
                    tried.ending = Some(ending);
                }
            }
            Entry::CallEnd { call, ending } => {
                if let Some(open) = self.open.remove(&call) {
                    self.settle(call, open, ending, rows);
                }
            }
            // It belongs to no call.
            Entry::Ready(_) => {}
        }
    }

    /// The gateway has died: every call without an end is settled as interrupted, at what was expected of it.
    pub(super) fn interrupt(&mut self, rows: &mut Vec<Row>) {
        for (call, open) in std::mem::take(&mut self.open) {
            let ending = if open.attempts.values().any(|tried| tried.ending.is_none()) {
                interrupted(&open.head)
            } else {
                // Between two attempts, or before the first: no model worked on it when the gateway died.
                Ending {
                    usage: None,
                    money: 0,
                    ..interrupted(&open.head)
                }
            };
            self.settle(call, open, ending, rows);
        }
    }

    /// Calls that have begun and not ended.
    pub(super) fn open_calls(&self) -> usize {
        self.open.len()
    }

    /// The oldest segment that a call without an end lies in.
    pub(super) fn oldest_segment(&self) -> Option<u64> {
        self.open.values().map(|open| open.segment).min()
    }

    fn settle(&self, call: u64, open: Open, ending: Ending<String>, rows: &mut Vec<Row>) {
        let row = |attempt, endpoint, began_us, ending| Row {
            gateway: self.gateway,
            call,
            attempt,
            head: open.head.clone(),
            endpoint,
            began_us,
            ending,
        };
        let endpoint = open
            .attempts
            .values()
            .next_back()
            .map(|tried| tried.head.endpoint.clone());
        let began_us = open.attempts.values().next().map(|tried| tried.head.began_us);
        rows.push(row(0, endpoint, began_us, ending));
        for (number, tried) in open.attempts {
            let ending = tried.ending.unwrap_or_else(|| interrupted(&open.head));
            rows.push(row(
                number,
                Some(tried.head.endpoint),
                Some(tried.head.began_us),
                ending,
            ));
        }
    }
}

fn interrupted(head: &CallHead<String>) -> Ending<String> {
    let expected = head.expected;
    Ending {
        usage: Some(Usage {
            input: expected.input,
            cached_input: None,
            output: expected.output,
            reasoning: None,
            source: UsageSource::Estimated,
        }),
        first_token_us: None,
        total_us: 0,
        outcome: INTERRUPTED.to_owned(),
        fault: None,
        money: expected.money,
    }
}

#[cfg(test)]
mod tests;
