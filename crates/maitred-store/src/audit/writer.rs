//! The thread that seals entries and writes them to segments, begins segments, and lets old ones go.

use std::fs::Metadata;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use maitred_obs::rfc3339;
use maitred_types::UnixMillis;

use super::entry::{CHANGES, ChangesInForce, Lost, Removed};
use super::queue::{Shared, Taken};
use super::retention::Closed;
use super::verify::{changes_in_force, first_of};
use super::{AuditOptions, members, segment_path, segments};
use crate::chain::{ChainError, ChainFile, Head, seal};

/// How long the writer waits after the disk has refused.
const AGAIN: Duration = Duration::from_millis(100);
/// How long entries of calls gather, so that a disk that is waited for is not asked for each.
const GATHER: Duration = Duration::from_millis(5);

/// The segment that is written.
pub(super) struct Open {
    pub(super) file: ChainFile,
    pub(super) path: PathBuf,
    /// When its first entry was made.
    pub(super) began: UnixMillis,
}

/// Seals and writes.
pub(super) struct Writer {
    shared: Arc<Shared>,
    options: AuditOptions,
    open: Open,
    head: Head,
    /// Bytes of the segments that are closed.
    closed: u64,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, open: Open, options: &AuditOptions) -> Self {
        Self {
            head: shared.head(),
            shared,
            options: options.clone(),
            open,
            closed: 0,
        }
    }

    pub(super) fn write_until_closed(mut self) {
        let mut is_first = true;
        while let Some(taken) = self.shared.take() {
            self.write_all(&taken);
            for waiting in taken.waiting {
                // Who has waited long enough is not there any more.
                let _gone = waiting.send(());
            }
            if self.next_if_full() || is_first {
                self.let_go();
            }
            is_first = false;
            self.shared.meters().holds(self.closed + self.open.file.length());
            if !self.shared.is_urgent() {
                std::thread::sleep(GATHER);
            }
        }
    }

    /// Does not give up: a disk that refuses is asked again.
    fn write_all(&mut self, taken: &Taken) {
        let bodies = taken.bytes.split(|byte| *byte == b'\n').filter(|body| !body.is_empty());
        let lost = (taken.lost > 0).then(|| Lost {
            kind: "lost",
            at: rfc3339(self.now()),
            entries: taken.lost,
        });
        let lost = lost.and_then(|lost| members(&lost));
        let must_sync = self.options.sync || !taken.waiting.is_empty();
        let mut lines = Vec::with_capacity(taken.bytes.len() * 2);
        let head = seal_all(self.head, bodies.chain(lost.as_deref()), &mut lines);
        while let Err(error) = self.write(&lines, head, must_sync) {
            self.shared.set_failing(true);
            self.shared.meters().failed();
            tracing::error!(%error, "the audit cannot be written; trying again");
            std::thread::sleep(AGAIN);
        }
        self.shared.set_failing(false);
    }

    /// Writes the lines up to the one of `head`, or none of them.
    fn write(&mut self, lines: &[u8], head: Head, must_sync: bool) -> std::io::Result<()> {
        let before = self.open.file.length();
        self.open.file.append(lines)?;
        if must_sync && let Err(error) = self.open.file.sync() {
            // Whether the disk has it is not known, so it is written again from the same place.
            self.open.file.cut(before);
            return Err(error);
        }
        let entries = head.number - self.head.number;
        self.head = head;
        self.shared.set_head(head);
        self.shared.meters().written(entries, head.number);
        Ok(())
    }

    fn now(&self) -> UnixMillis {
        (self.options.now)()
    }

    /// Begins the next segment, and says whether it did. If that fails, this one goes on.
    fn next_if_full(&mut self) -> bool {
        let is_long = self.options.retention.is_long(self.open.began, self.now());
        if self.open.file.length() < self.options.segment && !is_long {
            return false;
        }
        let path = segment_path(&self.options.folder, self.head.number + 1);
        match ChainFile::open(&path, |_| self.head, |_, _| {}) {
            Ok((file, _)) => {
                let began = self.now();
                let closed = std::mem::replace(&mut self.open, Open { file, path, began });
                if let Err(error) = closed.file.sync() {
                    tracing::error!(%error, "the disk does not confirm a segment of the audit");
                }
                return true;
            }
            Err(ChainError::File(file, error)) => {
                tracing::error!(file = %file.display(), %error, "no new segment of the audit");
            }
            Err(error) => tracing::error!(%error, "no new segment of the audit"),
        }
        false
    }

    /// Removes the closed segments that are too old or too much, after an entry that says so is on the disk.
    fn let_go(&mut self) {
        if let Err(error) = self.try_to_let_go() {
            tracing::error!(%error, "older segments of the audit cannot be removed; trying again with the next one");
        }
    }

    fn try_to_let_go(&mut self) -> std::io::Result<()> {
        let mut files = segments(&self.options.folder)?;
        files.retain(|file| *file != self.open.path);
        let found = files
            .iter()
            .map(|file| std::fs::metadata(file).map(|found| closed(&found)));
        let found: Vec<Closed> = found.collect::<Result<_, _>>()?;
        self.closed = found.iter().map(|closed| closed.bytes).sum();
        let leaving = self
            .options
            .retention
            .leaving(&found, self.open.file.length(), self.now());
        let count = leaving.count();
        let next = files.get(count).unwrap_or(&self.open.path);
        let numbers = (files.first().and_then(|file| first_of(file)), first_of(next));
        let (1.., (Some(first), Some(next))) = (count, numbers) else {
            return Ok(());
        };
        let removed = Removed {
            kind: Removed::KIND,
            at: rfc3339(self.now()),
            first,
            last: next - 1,
            aged_files: leaving.aged,
            surplus_files: leaving.surplus,
        };
        files.truncate(count);
        self.enter_removal(&removed, &files)?;
        // Oldest first, and none where an older one stays.
        for (file, closed) in files.iter().zip(&found) {
            std::fs::remove_file(file)?;
            self.closed -= closed.bytes;
        }
        Ok(())
    }

    /// Enters that `files` are removed, and anew what maybe only they say.
    fn enter_removal(&mut self, removed: &Removed, files: &[PathBuf]) -> std::io::Result<()> {
        if self.shared.in_force().is_none() && changes_in_force(files)?.is_some() {
            let all = segments(&self.options.folder)?;
            self.shared.set_in_force(changes_in_force(&all)?);
        }
        let in_force = self.shared.in_force().map(|in_force| ChangesInForce {
            kind: CHANGES,
            at: removed.at.clone(),
            in_force,
        });
        let bodies = [in_force.and_then(|entry| members(&entry)), members(removed)];
        let mut lines = Vec::new();
        let head = seal_all(self.head, bodies.iter().flatten().map(Vec::as_slice), &mut lines);
        self.write(&lines, head, true)
    }
}

fn seal_all<'a>(head: Head, bodies: impl Iterator<Item = &'a [u8]>, lines: &mut Vec<u8>) -> Head {
    bodies.fold(head, |head, body| seal(&head, body, lines))
}

fn closed(found: &Metadata) -> Closed {
    let since = found
        .modified()
        .ok()
        .and_then(|ended| ended.duration_since(UNIX_EPOCH).ok());
    let millis = since.map(|since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
    Closed {
        bytes: found.len(),
        ended: millis.map(UnixMillis::new),
    }
}
