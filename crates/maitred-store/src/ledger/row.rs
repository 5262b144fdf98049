//! Rows: what the database holds, put together from a gateway's entries.

use std::collections::BTreeMap;

use maitred_types::{Usage, UsageSource};

use super::entry::{AttemptHead, CallHead, Degrades, Ending, Entry, TargetHead};

/// The outcome of what a gateway's death cut short.
pub const INTERRUPTED: &str = "interrupted";

/// Most targets of one call that are read.
const TARGETS_MAX: usize = 1000;

/// One row: a call, or one attempt of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The start of a gateway that it belongs to.
    pub gateway: u64,
    /// The number of the call there.
    pub call: u64,
    /// The number of the attempt; 0 for the call itself.
    pub attempt: u32,
    /// What was known when the call began, with the target of the attempt; of a call, its last one.
    pub head: CallHead<String>,
    /// The name that was asked for, where that is another than the model's.
    pub asked: Option<String>,
    /// What the answer is called, if it is not what was asked for. Of an attempt nothing is said.
    pub degraded: Option<Degrades<String>>,
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
    /// Where it went on to, in order.
    targets: Vec<TargetHead<String>>,
    attempts: BTreeMap<u32, Tried>,
    segment: u64,
}

#[derive(Debug)]
struct Tried {
    head: AttemptHead<String>,
    /// How many of the call's targets there were by then.
    targets: usize,
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
                        targets: Vec::new(),
                        attempts,
                        segment,
                    },
                );
            }
            Entry::Attempt { call, number, head } => {
                if let Some(open) = self.open.get_mut(&call) {
                    let tried = Tried {
                        head,
                        targets: open.targets.len(),
                        ending: None,
                    };
                    open.attempts.insert(number, tried);
                }
            }
            Entry::Target { call, head } => {
                let open = self.open.get_mut(&call);
                if let Some(open) = open.filter(|open| open.targets.len() < TARGETS_MAX) {
                    open.targets.push(head);
                }
            }
            Entry::AttemptEnd { call, number, ending } => {
                if let Some(tried) = self.open.get_mut(&call).and_then(|open| open.attempts.get_mut(&number)) {
                    tried.ending = Some(ending);
                }
            }
            Entry::CallEnd {
                call,
                ending,
                is_degraded,
            } => {
                if let Some(open) = self.open.remove(&call) {
                    self.settle((call, open), ending, is_degraded, rows);
                }
            }
            // It belongs to no call.
            Entry::Ready(_) => {}
        }
    }

    /// The gateway has died: every call without an end is settled as interrupted, at what was expected of it.
    pub(super) fn interrupt(&mut self, rows: &mut Vec<Row>) {
        for (call, open) in std::mem::take(&mut self.open) {
            let head = open.head_after(open.targets.len());
            let is_at_work = open.attempts.values().any(|tried| tried.ending.is_none());
            let ending = if is_at_work {
                interrupted(&head)
            } else {
                // Between two attempts, or before the first: no model worked on it when the gateway died.
                Ending {
                    usage: None,
                    money: 0,
                    ..interrupted(&head)
                }
            };
            // Whether its client saw the beginning of an answer nobody knows; if so, it was said to be degraded.
            self.settle((call, open), ending, is_at_work, rows);
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

    fn settle(&self, (call, open): (u64, Open), ending: Ending<String>, is_degraded: bool, rows: &mut Vec<Row>) {
        let row = |attempt, targets: usize, tried: Option<&AttemptHead<String>>, ending| Row {
            gateway: self.gateway,
            call,
            attempt,
            head: open.head_after(targets),
            asked: open.asked().cloned(),
            degraded: None,
            endpoint: tried.map(|tried| tried.endpoint.clone()),
            began_us: tried.map(|tried| tried.began_us),
            ending,
        };
        let mut whole = row(0, open.targets.len(), None, ending);
        let last = open.attempts.values().next_back();
        whole.endpoint = last.map(|tried| tried.head.endpoint.clone());
        whole.began_us = open.attempts.values().next().map(|tried| tried.head.began_us);
        let target = open.targets.last().filter(|_| is_degraded);
        whole.degraded = target.and_then(|target| target.degrades.clone());
        rows.push(whole);
        for (number, tried) in &open.attempts {
            let head = open.head_after(tried.targets);
            let ending = tried.ending.clone().unwrap_or_else(|| interrupted(&head));
            rows.push(row(*number, tried.targets, Some(&tried.head), ending));
        }
    }
}

impl Open {
    /// What was known of the call once it had come to so many targets.
    fn head_after(&self, targets: usize) -> CallHead<String> {
        let mut head = self.head.clone();
        if let Some(target) = targets.checked_sub(1).and_then(|place| self.targets.get(place)) {
            head.model.clone_from(&target.model);
            head.served.clone_from(&target.served);
            head.pool.clone_from(&target.pool);
            head.price.clone_from(&target.price);
            head.expected = target.expected;
        }
        head
    }

    fn asked(&self) -> Option<&String> {
        self.targets.first().map(|target| &target.asked)
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
