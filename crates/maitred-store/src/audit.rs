//! The audit: who called what and when, which model and endpoint answered and how it ended; and every act of administration with
//! its difference and its actor. A [chain](crate::chain) of entries in append-only files, the segments, of which one process writes.
//!
//! Calls do not wait for the audit: an entry is made when a call is over, put into a bounded buffer, and written by one thread,
//! together with what has gathered meanwhile. Acts of administration wait until theirs is on the disk. When the disk takes nothing, the
//! policy says whether calls may still begin.

mod entry;
mod queue;
mod refusals;
mod retention;
mod verify;
mod writer;

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use maitred_obs::{AuditMeters, rfc3339};
use maitred_types::UnixMillis;
use serde::Serialize;

pub use entry::{Act, CallEnded};
pub use refusals::{Caller, Refusal};
pub use retention::Retention;
pub use verify::{Removal, Report, Segment, Verdict, archived, segments, verify};

use crate::chain::{ChainError, ChainFile, End, Flaw, Found, Head, LINE_MAX, claimed, read};
use entry::{Archived, CHANGES, ChangesInForce};
use queue::Shared;
use verify::is_named;
use writer::{Open, Writer};

/// What happens to calls while the audit cannot be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// None begins. The entries of those that run are kept.
    #[default]
    Refuse,
    /// They go on. Entries that find no room are lost, which is counted and entered.
    Continue,
}

/// Where the audit is, and how it is kept.
#[derive(Clone, Debug)]
pub struct AuditOptions {
    /// The folder of the segments.
    pub folder: PathBuf,
    /// What happens to calls while it cannot be written.
    pub on_failure: OnFailure,
    /// Whether the disk is waited for with the entries of calls too.
    pub sync: bool,
    /// Size from which on a segment is closed and the next one begun, in bytes.
    pub segment: u64,
    /// How long it is kept.
    pub retention: Retention,
    /// The civil clock.
    pub now: fn() -> UnixMillis,
}

/// The audit, as a gateway writes it. One per folder.
#[derive(Debug)]
pub struct Audit {
    shared: Arc<Shared>,
    now: fn() -> UnixMillis,
    folder: PathBuf,
    /// Held as long as this process lives.
    _lock: File,
}

/// An act could not be entered, so it must not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotEntered;

impl std::fmt::Display for NotEntered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the audit cannot be written")
    }
}

impl std::error::Error for NotEntered {}

impl Audit {
    /// Opens the audit, and enters that this gateway starts. An entry that an earlier one has not written to its end is cut off, which
    /// is entered too.
    ///
    /// # Errors
    /// The folder cannot be written, another process writes it, or its newest segment is not as it was written.
    pub fn open(options: &AuditOptions, meters: AuditMeters) -> Result<Self, ChainError> {
        let folder = &options.folder;
        let failed = |error| ChainError::File(folder.clone(), error);
        std::fs::create_dir_all(folder).map_err(failed)?;
        let lock = lock(folder)?;
        let (open, found) = newest(folder, (options.now)())?;
        let shared = Shared::new(options, found.head, meters);
        let audit = Self {
            shared: Arc::clone(&shared),
            now: options.now,
            folder: folder.clone(),
            _lock: lock,
        };
        audit.enter(&entry::Started {
            kind: "start",
            at: rfc3339((options.now)()),
            version: env!("CARGO_PKG_VERSION"),
            torn_bytes: (found.torn > 0).then_some(found.torn),
        });
        let writer = Writer::new(shared, open, options);
        let thread = std::thread::Builder::new().name("audit".into());
        thread.spawn(move || writer.write_until_closed()).map_err(failed)?;
        Ok(audit)
    }

    /// The version up to which changes at run time were last entered as in force; `None` if never. Reads files.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn changes_in_force(&self) -> Result<Option<u64>, ChainError> {
        let read = segments(&self.folder).and_then(|files| verify::changes_in_force(&files));
        read.map_err(|error| ChainError::File(self.folder.clone(), error))
    }

    /// Enters that changes at run time are in force up to this version, 0 if nothing was changed. Nobody waits for it.
    pub fn enter_changes_in_force(&self, version: u64) {
        self.enter(&ChangesInForce {
            kind: CHANGES,
            at: rfc3339((self.now)()),
            in_force: version,
        });
        self.shared.set_in_force(Some(version));
    }

    /// Enters that a file of the archive of decision records is finished, and its last record. Nobody waits for it.
    pub fn enter_archived(&self, file: &str, head: Head) {
        self.enter(&Archived {
            kind: Archived::KIND,
            at: rfc3339((self.now)()),
            file,
            last: head.number,
            head: head.hash.to_string(),
        });
    }

    /// Whether calls may begin.
    #[must_use]
    pub fn takes_calls(&self) -> bool {
        self.shared.takes_calls()
    }

    /// Enters something. Nobody waits for it. What is too large is lost, which is counted and entered.
    pub fn enter(&self, entry: &impl Serialize) {
        match members(entry) {
            Some(members) => self.shared.push(&members),
            None => self.shared.lose(),
        }
    }

    /// Enters that a call was refused. The first of its caller and fault within a second has `entry`, if there is one; the others are
    /// counted, and entered together. So whoever is refused over and over cannot fill the disk. Nobody waits for it.
    pub fn enter_refusal(&self, refusal: Refusal<'_>, entry: Option<&impl Serialize>) {
        if self.shared.refuse(refusal, entry.is_some())
            && let Some(entry) = entry
        {
            self.enter(entry);
        }
    }

    /// Enters something and waits until the disk has it.
    ///
    /// # Errors
    /// It is not known to be there, and may or may not be entered later.
    pub async fn enter_durably(&self, entry: &impl Serialize, patience: Duration) -> Result<(), NotEntered> {
        let members = members(entry).ok_or(NotEntered)?;
        let told = self.shared.push_and_tell(&members).ok_or(NotEntered)?;
        match tokio::time::timeout(patience, told).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(NotEntered),
        }
    }

    /// The newest entry on the disk.
    #[must_use]
    pub fn head(&self) -> Head {
        self.shared.head()
    }

    /// Enters that the gateway ends, and writes out what there is, if the disk takes it within `limit`. Blocks for as long. Says
    /// whether all was written.
    pub fn close(&self, limit: Duration) -> bool {
        self.shared.close_counts();
        self.enter(&entry::Ended {
            kind: "end",
            at: rfc3339((self.now)()),
        });
        self.shared.close(limit)
    }
}

/// The members of what `entry` is in JSON; `None` if it is no object, or too large.
fn members(entry: &impl Serialize) -> Option<Vec<u8>> {
    let json = serde_json::to_vec(entry).ok()?;
    let members = json.strip_prefix(b"{")?.strip_suffix(b"}")?;
    // The frame of a line takes some two hundred bytes.
    let fits = !members.is_empty() && members.len() + 256 < LINE_MAX;
    fits.then(|| members.to_vec())
}

/// Opens the newest segment, or the first.
fn newest(folder: &Path, now: UnixMillis) -> Result<(Open, Found), ChainError> {
    let mut files = segments(folder).map_err(|error| ChainError::File(folder.to_owned(), error))?;
    let path = files.pop().unwrap_or_else(|| segment_path(folder, 1));
    let (mut before, mut began) = (Ok(Head::EMPTY), None);
    let first = |bytes: &[u8]| {
        let claimed = claimed(bytes).filter(|head| is_named(&path, head));
        claimed.unwrap_or_else(|| {
            // One that was begun just before its writer died does not say what comes before it.
            before = files.last().map_or(Ok(Head::EMPTY), |before| last_of(before));
            *before.as_ref().unwrap_or(&Head::EMPTY)
        })
    };
    let opened = ChainFile::open(&path, first, |line, _| {
        began = began.or_else(|| verify::moment_of(line));
    });
    before?;
    let (file, found) = opened?;
    let began = began.unwrap_or(now);
    Ok((Open { file, path, began }, found))
}

/// The last entry of a segment that is closed.
fn last_of(file: &Path) -> Result<Head, ChainError> {
    let bytes = std::fs::read(file).map_err(|error| ChainError::File(file.to_owned(), error))?;
    let mut head = claimed(&bytes).unwrap_or(Head::EMPTY);
    let mut lines = 0;
    let (line, flaw) = match read(&bytes, &mut head, |_, _| lines += 1) {
        End::Whole => return Ok(head),
        End::Torn { .. } => (lines + 1, Flaw::Form),
        End::Broken { line, flaw } => (line, flaw),
    };
    let file = file.to_owned();
    Err(ChainError::Broken { file, line, flaw })
}

fn lock(folder: &Path) -> Result<File, ChainError> {
    let path = folder.join("lock");
    let mut options = OpenOptions::new();
    let opened = options.write(true).create(true).truncate(false).open(&path);
    let lock = opened.map_err(|error| ChainError::File(path.clone(), error))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(ChainError::Taken(folder.to_owned())),
        Err(TryLockError::Error(error)) => Err(ChainError::File(path, error)),
    }
}

/// The file of the segment that begins with the entry of this number. Names sort as numbers do.
fn segment_path(folder: &Path, first: u64) -> PathBuf {
    folder.join(format!("audit-{first:016}.jsonl"))
}

#[cfg(test)]
mod tests;
