//! What was changed, by whom and when: for whoever looks at it, and to bring earlier states back.

use std::sync::Arc;

use maitred_config::{Change, ChangeRefusal, Roster, Settings, Timeline};
use maitred_types::KeyId;
use serde::Serialize;
use serde_json::Value;

use super::{Line, NotChanged};
use crate::runtime::Runtime;

/// Most keys that a warning names.
const NAMED_MAX: usize = 20;

/// The lines of the journal, as they were understood.
#[derive(Debug, Default)]
pub(super) struct Past {
    timeline: Timeline,
    made: Vec<Arc<Made>>,
}

/// A change of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Made {
    /// Its number.
    pub version: u64,
    /// When it was made, RFC 3339.
    pub at: String,
    /// By whom.
    pub by: String,
    /// In which role.
    pub role: String,
    /// What was done, in words.
    pub action: &'static str,
    /// To what.
    pub target: String,
    /// What was before and is now.
    pub diff: Value,
}

impl Past {
    /// The state that all changes lead to.
    pub(super) const fn roster(&self) -> &Roster {
        self.timeline.roster()
    }

    /// What `change` changes, if it may be made where `base` is the file.
    pub(super) fn weigh(&self, change: &Change, base: &Settings) -> Result<Value, ChangeRefusal> {
        self.timeline.check(change, base)?;
        Ok(self.timeline.preview(change))
    }

    /// Says which keys were made when nobody had to say whose they are. They stay good.
    pub(super) fn tell_unmarked(&self) {
        let keys: Vec<&str> = self.roster().unmarked().map(KeyId::as_str).collect();
        if !keys.is_empty() {
            tracing::warn!(
                count = keys.len(),
                keys = keys.get(..NAMED_MAX.min(keys.len())).unwrap_or_default().join(" "),
                "keys have no user and are not marked as shared; their calls are marked so in the audit. Make them anew with `maitred keys \
                 create` and `--user` or `--shared`, or rotate them, which marks them"
            );
        }
    }

    /// Takes the next line of the journal.
    pub(super) fn push(&mut self, line: &Line) {
        self.timeline.apply(line.change.clone());
        self.made.push(Arc::new(Made {
            version: self.timeline.version(),
            at: line.at.clone(),
            by: line.by.clone(),
            role: line.role.clone(),
            action: line.change.action(),
            target: line.change.target().into_owned(),
            diff: line.diff.clone(),
        }));
    }
}

impl Runtime {
    /// The changes before the one of that number, newest first, at most so many. `None` if nothing can be changed at run time here.
    #[must_use]
    pub fn changes_before(&self, version: u64, most: usize) -> Option<Vec<Arc<Made>>> {
        let past = self.changes()?.past.lock();
        let before = past.made.iter().rev().filter(|made| made.version < version);
        Some(before.take(most).map(Arc::clone).collect())
    }

    /// What would be changed by restoring what was in force after the change of that number.
    ///
    /// # Errors
    /// It cannot be restored.
    pub fn preview_restoration(&self, version: u64) -> Result<Value, NotChanged> {
        let changes = self.changes().ok_or(NotChanged::Unsupported)?;
        let base = self.base();
        let weighed = changes.past.lock().weigh(&Change::restore(version), &base);
        weighed.map_err(NotChanged::Refused)
    }
}
