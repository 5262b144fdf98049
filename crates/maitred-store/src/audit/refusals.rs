//! What is entered of refused calls, however many there are: the first of a caller with a fault has an entry of its own, and those that
//! follow within the second are counted together. Nothing that was served comes here.

use std::collections::HashMap;

use maitred_obs::rfc3339;
use maitred_types::UnixMillis;
use serde::Serialize;

use super::entry::cut;

/// Counts that are open at one time. Further callers are counted as one.
const OPEN_MAX: usize = 256;
/// How far the civil clock may go back, in seconds, before a count is closed for it.
const BACK_MAX: u64 = 2;

/// Who was refused, as far as it is known; nothing of somebody who was not let in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct Caller {
    /// Whose call it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<Box<str>>,
    /// On whose behalf.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<Box<str>>,
    /// With which key, by its public part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<Box<str>>,
    /// Whose token it showed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<Box<str>>,
    /// Who wanted to administer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Box<str>>,
}

/// A refused call.
#[derive(Clone, Debug)]
pub struct Refusal<'a> {
    /// Whose it was.
    pub caller: Caller,
    /// Why it was refused.
    pub fault: &'static str,
    /// Its id, if it has one.
    pub request_id: &'a str,
}

/// Refused calls of one second that have no entries of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct RefusedCalls {
    kind: &'static str,
    /// The second.
    at: String,
    #[serde(flatten)]
    caller: Caller,
    /// They are of several callers; there were too many to count each.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    others: bool,
    fault: &'static str,
    pub(super) calls: u64,
    /// The ids of the first and the last.
    #[serde(skip_serializing_if = "String::is_empty")]
    first: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    last: String,
}

/// Whose calls are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Who {
    One(Caller),
    Others,
}

#[derive(Clone, Debug, Default)]
struct Count {
    calls: u64,
    first: String,
    last: String,
}

impl Count {
    fn add(&mut self, id: &str) {
        self.calls += 1;
        if self.first.is_empty() {
            self.first = cut(id).to_owned();
        }
        self.last = cut(id).to_owned();
    }
}

/// The counts of one second.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    second: u64,
    open: HashMap<(Who, &'static str), Count>,
}

impl Refusals {
    /// Takes a refused call. Says whether it is the first of its caller and fault within the second, which is not counted if it
    /// `has_entry`. What was counted before must have been taken by [`Self::close_before`].
    pub(super) fn note(&mut self, refusal: Refusal<'_>, has_entry: bool) -> bool {
        let mut who = (Who::One(refusal.caller), refusal.fault);
        let is_first = !self.open.contains_key(&who);
        let is_other = is_first && self.open.len() >= OPEN_MAX;
        if is_other {
            who.0 = Who::Others;
        }
        let count = self.open.entry(who).or_default();
        let is_entered = has_entry && is_first && !is_other;
        if !is_entered {
            count.add(refusal.request_id);
        }
        is_entered
    }

    /// Closes the counts if their second is over at `now`, and gives those that have counted something.
    pub(super) fn close_before(&mut self, now: UnixMillis) -> Vec<RefusedCalls> {
        let second = now.get() / 1000;
        if second <= self.second && self.second <= second.saturating_add(BACK_MAX) {
            return Vec::new();
        }
        let closed = self.close();
        self.second = second;
        closed
    }

    /// Closes the counts, and gives those that have counted something.
    pub(super) fn close(&mut self) -> Vec<RefusedCalls> {
        let at = rfc3339(UnixMillis::new(self.second.saturating_mul(1000)));
        let open = self.open.drain().filter(|(_, count)| count.calls > 0);
        open.map(|((who, fault), count)| {
            let others = who == Who::Others;
            RefusedCalls {
                kind: "refused",
                at: at.clone(),
                caller: match who {
                    Who::One(caller) => caller,
                    Who::Others => Caller::default(),
                },
                others,
                fault,
                calls: count.calls,
                first: count.first,
                last: count.last,
            }
        })
        .collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

#[cfg(test)]
mod tests;
