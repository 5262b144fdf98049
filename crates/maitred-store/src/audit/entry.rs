//! What is entered. There is no field for what a prompt or an answer says.

use serde::Serialize;
use serde_json::Value;

/// Longest text of a call's entry in bytes, so that an entry fits whatever a client sends. Longer ones are cut.
const TEXT_MAX: usize = 1024;

/// A call that is over.
#[derive(Clone, Debug, Serialize)]
pub struct CallEnded<'a> {
    /// `call`.
    pub kind: &'static str,
    /// When it arrived, in UTC.
    pub at: String,
    /// Its id.
    pub request_id: &'a str,
    /// Whose it was.
    pub tenant: &'a str,
    /// On whose behalf.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<&'a str>,
    /// With which key, by its public part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<&'a str>,
    /// Whose token it showed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<&'a str>,
    /// A key was shown that is no one user's, and no user is known: nobody can say who it was.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub shared_key: bool,
    /// The client's address.
    pub client: &'a str,
    /// What was asked for.
    pub path: &'a str,
    /// The model, as the client named it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<&'a str>,
    /// The model, as the endpoint calls it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served: Option<&'a str>,
    /// In what the answer was less than what was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<&'static str>,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degrade_reason: Option<&'static str>,
    /// The model that the call went to, by its name in the pool, where that is another than the one asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<&'a str>,
    /// The pool that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<&'a str>,
    /// The endpoint of the last attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<&'a str>,
    /// How many endpoints were tried.
    pub attempts: u32,
    /// How it ended.
    pub outcome: &'static str,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<&'static str>,
    /// The answer's status.
    pub status: u16,
    /// A text was longer than an entry takes, and is there with its beginning only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

impl CallEnded<'_> {
    /// Cuts texts that are too long for an entry.
    #[must_use]
    pub fn fitted(mut self) -> Self {
        let mut is_cut = false;
        let whole = [&mut self.request_id, &mut self.tenant, &mut self.client, &mut self.path];
        let parts = [
            &mut self.user,
            &mut self.key,
            &mut self.issuer,
            &mut self.target,
            &mut self.model,
            &mut self.served,
            &mut self.pool,
            &mut self.endpoint,
        ];
        for text in whole.into_iter().chain(parts.into_iter().flatten()) {
            is_cut |= text.len() > TEXT_MAX;
            *text = cut(text);
        }
        Self {
            cut: self.cut || is_cut,
            ..self
        }
    }
}

/// As much of `text` as an entry takes.
pub(super) fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(TEXT_MAX)).unwrap_or_default()
}

/// An act of administration.
#[derive(Clone, Debug, Serialize)]
pub struct Act<'a> {
    /// `change` for what was done, `denied` for what was not allowed.
    pub kind: &'static str,
    /// When, in UTC.
    pub at: String,
    /// Who did it.
    pub by: &'a str,
    /// In which role.
    pub role: &'a str,
    /// What was done.
    pub action: &'a str,
    /// To what.
    pub target: &'a str,
    /// What was before and is now; only what differs.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub diff: Value,
    /// The version of the run-time changes that this is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

/// What is changed at run time is in force up to a version.
#[derive(Debug, Serialize)]
pub(super) struct ChangesInForce {
    /// [`CHANGES`].
    pub(super) kind: &'static str,
    pub(super) at: String,
    /// Up to which version; 0 if nothing was changed.
    pub(super) in_force: u64,
}

/// The kind of [`ChangesInForce`].
pub(super) const CHANGES: &str = "changes";

/// A file of the archive of decision records is finished.
#[derive(Debug, Serialize)]
pub(super) struct Archived<'a> {
    /// [`Self::KIND`].
    pub(super) kind: &'static str,
    pub(super) at: String,
    pub(super) file: &'a str,
    /// The number of its last record.
    pub(super) last: u64,
    /// The hash of its last record.
    pub(super) head: String,
}

impl Archived<'_> {
    pub(super) const KIND: &'static str = "archived";
}

/// Segments were removed because they were too old or too much.
#[derive(Debug, Serialize)]
pub(super) struct Removed {
    /// [`Self::KIND`].
    pub(super) kind: &'static str,
    pub(super) at: String,
    /// The number of the first entry that is removed, and of the last.
    pub(super) first: u64,
    pub(super) last: u64,
    /// How many files were too old.
    pub(super) aged_files: usize,
    /// How many were too much.
    pub(super) surplus_files: usize,
}

impl Removed {
    pub(super) const KIND: &str = "removed";
}

/// A gateway starts.
#[derive(Debug, Serialize)]
pub(super) struct Started {
    pub(super) kind: &'static str,
    pub(super) at: String,
    pub(super) version: &'static str,
    /// Bytes of the entry that an earlier one was writing when it died; they were cut off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) torn_bytes: Option<u64>,
}

/// A gateway ends.
#[derive(Debug, Serialize)]
pub(super) struct Ended {
    pub(super) kind: &'static str,
    pub(super) at: String,
}

/// Entries were lost.
#[derive(Debug, Serialize)]
pub(super) struct Lost {
    pub(super) kind: &'static str,
    pub(super) at: String,
    pub(super) entries: u64,
}
