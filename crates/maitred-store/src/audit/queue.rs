//! The way from calls to the disk: a bounded buffer and one thread that seals and writes what is in it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use maitred_obs::{AuditMeters, rfc3339};
use maitred_types::UnixMillis;
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::entry::Lost;
use super::{AuditOptions, OnFailure, members, segment_path};
use crate::chain::{ChainError, ChainFile, Head, seal};

/// Bytes that may wait for the disk before no call begins, or, if calls go on, before entries are lost.
const WAITING_MAX: usize = 8 << 20;
/// Bytes that wait at most where no call begins: those of calls that had begun.
const HELD_MAX: usize = 64 << 20;
/// How long the writer waits after the disk has refused.
const AGAIN: Duration = Duration::from_millis(100);
/// How long entries of calls gather, so that a disk that is waited for is not asked for each.
const GATHER: Duration = Duration::from_millis(5);

/// What calls, acts and the writer share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    told: Condvar,
    on_failure: OnFailure,
    is_failing: AtomicBool,
    meters: AuditMeters,
}

#[derive(Debug)]
struct State {
    /// Members of entries, each followed by a line's end.
    bytes: Vec<u8>,
    waiting: Vec<oneshot::Sender<()>>,
    lost: u64,
    head: Head,
    is_closed: bool,
    is_over: bool,
}

impl Shared {
    pub(super) fn new(on_failure: OnFailure, head: Head, meters: AuditMeters) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                bytes: Vec::new(),
                waiting: Vec::new(),
                lost: 0,
                head,
                is_closed: false,
                is_over: false,
            }),
            told: Condvar::new(),
            on_failure,
            is_failing: AtomicBool::new(false),
            meters,
        })
    }

    pub(super) fn takes_calls(&self) -> bool {
        let is_held_up = || self.is_failing.load(Ordering::Relaxed) || self.state.lock().bytes.len() > WAITING_MAX;
        self.on_failure == OnFailure::Continue || !is_held_up()
    }

    pub(super) fn push(&self, members: &[u8]) {
        let limit = match self.on_failure {
            OnFailure::Continue => WAITING_MAX,
            OnFailure::Refuse => HELD_MAX,
        };
        let mut state = self.state.lock();
        if state.bytes.len() + members.len() > limit {
            self.count_lost(&mut state);
            return;
        }
        self.append(&mut state, members);
    }

    /// An entry is lost. The next one that is written tells of it.
    pub(super) fn lose(&self) {
        self.count_lost(&mut self.state.lock());
    }

    fn count_lost(&self, state: &mut State) {
        state.lost += 1;
        self.meters.lost.inc();
    }

    pub(super) fn push_and_tell(&self, members: &[u8]) -> Option<oneshot::Receiver<()>> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        if state.bytes.len() + members.len() > HELD_MAX || state.is_closed {
            return None;
        }
        state.waiting.push(sender);
        self.append(&mut state, members);
        Some(receiver)
    }

    fn append(&self, state: &mut State, members: &[u8]) {
        state.bytes.extend_from_slice(members);
        state.bytes.push(b'\n');
        self.told.notify_all();
    }

    pub(super) fn head(&self) -> Head {
        self.state.lock().head
    }

    pub(super) fn close(&self, limit: Duration) -> bool {
        let mut state = self.state.lock();
        state.is_closed = true;
        self.told.notify_all();
        while !state.is_over {
            if self.told.wait_for(&mut state, limit).timed_out() {
                break;
            }
        }
        state.is_over
    }

    /// Waits for entries and takes them all, with who waits and how many were lost; `None` when there will be none.
    fn take(&self) -> Option<(Vec<u8>, Vec<oneshot::Sender<()>>, u64)> {
        let mut state = self.state.lock();
        while state.bytes.is_empty() {
            if state.is_closed {
                state.is_over = true;
                self.told.notify_all();
                return None;
            }
            self.told.wait(&mut state);
        }
        let taken = std::mem::take(&mut state.bytes);
        Some((
            taken,
            std::mem::take(&mut state.waiting),
            std::mem::take(&mut state.lost),
        ))
    }

    /// Whether somebody waits, or nothing more will come.
    fn is_urgent(&self) -> bool {
        let state = self.state.lock();
        state.is_closed || !state.waiting.is_empty()
    }
}

/// Seals and writes.
pub(super) struct Writer {
    shared: Arc<Shared>,
    segment: ChainFile,
    folder: PathBuf,
    segment_max: u64,
    sync: bool,
    now: fn() -> UnixMillis,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>, segment: ChainFile, options: &AuditOptions) -> Self {
        Self {
            shared,
            segment,
            folder: options.folder.clone(),
            segment_max: options.segment,
            sync: options.sync,
            now: options.now,
        }
    }

    pub(super) fn write_until_closed(mut self) {
        let mut head = self.shared.head();
        while let Some((bodies, waiting, lost)) = self.shared.take() {
            let mut lines = Vec::with_capacity(bodies.len() * 2);
            let mut entries = 0;
            for body in bodies.split(|byte| *byte == b'\n').filter(|body| !body.is_empty()) {
                head = seal(&head, body, &mut lines);
                entries += 1;
            }
            if lost > 0 {
                let lost = Lost {
                    kind: "lost",
                    at: rfc3339((self.now)()),
                    entries: lost,
                };
                head = seal(&head, &members(&lost).unwrap_or_default(), &mut lines);
                entries += 1;
            }
            let must_sync = self.sync || !waiting.is_empty();
            while let Err(error) = self.write(&lines, must_sync) {
                self.shared.is_failing.store(true, Ordering::Relaxed);
                self.shared.meters.failed();
                tracing::error!(%error, "the audit cannot be written; trying again");
                std::thread::sleep(AGAIN);
            }
            self.shared.is_failing.store(false, Ordering::Relaxed);
            self.shared.state.lock().head = head;
            self.shared.meters.written(entries, head.number);
            for waiting in waiting {
                // Who has waited long enough is not there any more.
                let _gone = waiting.send(());
            }
            self.next_if_full(&head);
            if !self.shared.is_urgent() {
                std::thread::sleep(GATHER);
            }
        }
    }

    fn write(&mut self, lines: &[u8], must_sync: bool) -> std::io::Result<()> {
        let before = self.segment.length();
        self.segment.append(lines)?;
        if must_sync && let Err(error) = self.segment.sync() {
            // Whether the disk has it is not known, so it is written again from the same place.
            self.segment.cut(before);
            return Err(error);
        }
        Ok(())
    }

    /// Begins the next segment. If that fails, this one goes on.
    fn next_if_full(&mut self, head: &Head) {
        if self.segment.length() < self.segment_max {
            return;
        }
        let path = segment_path(&self.folder, head.number + 1);
        match ChainFile::open(&path, |_| *head, |_, _| {}) {
            Ok((segment, _)) => {
                if let Err(error) = std::mem::replace(&mut self.segment, segment).sync() {
                    tracing::error!(%error, "the disk does not confirm a segment of the audit");
                }
            }
            Err(ChainError::File(file, error)) => {
                tracing::error!(file = %file.display(), %error, "no new segment of the audit");
            }
            Err(error) => tracing::error!(%error, "no new segment of the audit"),
        }
    }
}
