//! The way from calls to the disk: a bounded buffer and one thread that seals and writes what is in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use maitred_obs::AuditMeters;
use maitred_types::UnixMillis;
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::refusals::{Refusal, Refusals, RefusedCalls};
use super::{AuditOptions, OnFailure, members};
use crate::chain::Head;

/// Bytes that may wait for the disk before no call begins, or, if calls go on, before entries are lost.
const WAITING_MAX: usize = 8 << 20;
/// Bytes that wait at most where no call begins: those of calls that had begun.
const HELD_MAX: usize = 64 << 20;

/// How long counts of refused calls wait at least.
const COUNTED: Duration = Duration::from_millis(500);

/// What calls, acts and the writer share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    told: Condvar,
    on_failure: OnFailure,
    now: fn() -> UnixMillis,
    is_failing: AtomicBool,
    meters: AuditMeters,
}

#[derive(Debug)]
struct State {
    /// Members of entries, each followed by a line's end.
    bytes: Vec<u8>,
    refusals: Refusals,
    waiting: Vec<oneshot::Sender<()>>,
    lost: u64,
    head: Head,
    /// The version up to which changes are in force, as far as it was entered by this start.
    in_force: Option<u64>,
    is_closed: bool,
    is_over: bool,
}

/// What the writer takes at once.
pub(super) struct Taken {
    /// Members of entries, each followed by a line's end.
    pub(super) bytes: Vec<u8>,
    /// Who waits until they are on the disk.
    pub(super) waiting: Vec<oneshot::Sender<()>>,
    /// How many entries found no room before them.
    pub(super) lost: u64,
}

impl Shared {
    pub(super) fn new(options: &AuditOptions, head: Head, meters: AuditMeters) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                bytes: Vec::new(),
                refusals: Refusals::default(),
                waiting: Vec::new(),
                lost: 0,
                head,
                in_force: None,
                is_closed: false,
                is_over: false,
            }),
            told: Condvar::new(),
            on_failure: options.on_failure,
            now: options.now,
            is_failing: AtomicBool::new(false),
            meters,
        })
    }

    pub(super) fn takes_calls(&self) -> bool {
        let is_held_up = || self.is_failing.load(Ordering::Relaxed) || self.state.lock().bytes.len() > WAITING_MAX;
        self.on_failure == OnFailure::Continue || !is_held_up()
    }

    pub(super) fn push(&self, members: &[u8]) {
        self.push_into(&mut self.state.lock(), members);
    }

    fn push_into(&self, state: &mut State, members: &[u8]) {
        let limit = match self.on_failure {
            OnFailure::Continue => WAITING_MAX,
            OnFailure::Refuse => HELD_MAX,
        };
        if state.bytes.len() + members.len() > limit {
            self.count_lost(state);
            return;
        }
        self.append(state, members);
    }

    /// Takes a refused call, and says whether it is to have the entry of its own that it may have.
    pub(super) fn refuse(&self, refusal: Refusal<'_>, has_entry: bool) -> bool {
        let now = (self.now)();
        let mut state = self.state.lock();
        let counts = state.refusals.close_before(now);
        self.push_counts(&mut state, &counts);
        if state.refusals.is_empty() {
            // The writer waits for the end of the second from now on.
            self.told.notify_all();
        }
        state.refusals.note(refusal, has_entry)
    }

    /// Enters what is counted so far.
    pub(super) fn close_counts(&self) {
        let mut state = self.state.lock();
        let counts = state.refusals.close();
        self.push_counts(&mut state, &counts);
    }

    fn push_counts(&self, state: &mut State, counts: &[RefusedCalls]) {
        for count in counts {
            match members(count) {
                Some(members) => self.push_into(state, &members),
                None => self.count_lost(state),
            }
        }
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

    pub(super) fn set_head(&self, head: Head) {
        self.state.lock().head = head;
    }

    pub(super) fn in_force(&self) -> Option<u64> {
        self.state.lock().in_force
    }

    pub(super) fn set_in_force(&self, version: Option<u64>) {
        self.state.lock().in_force = version;
    }

    pub(super) fn set_failing(&self, is_failing: bool) {
        self.is_failing.store(is_failing, Ordering::Relaxed);
    }

    pub(super) const fn meters(&self) -> &AuditMeters {
        &self.meters
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

    /// Waits for entries and takes them all; `None` when there will be none.
    pub(super) fn take(&self) -> Option<Taken> {
        let mut state = self.state.lock();
        loop {
            let counts = match state.is_closed {
                true => state.refusals.close(),
                false => state.refusals.close_before((self.now)()),
            };
            self.push_counts(&mut state, &counts);
            if !state.bytes.is_empty() {
                break;
            }
            if state.is_closed {
                state.is_over = true;
                self.told.notify_all();
                return None;
            }
            if state.refusals.is_empty() {
                self.told.wait(&mut state);
            } else {
                // Woken up or not, the counts are looked at again.
                let _timed_out = self.told.wait_for(&mut state, COUNTED);
            }
        }
        Some(Taken {
            bytes: std::mem::take(&mut state.bytes),
            waiting: std::mem::take(&mut state.waiting),
            lost: std::mem::take(&mut state.lost),
        })
    }

    /// Whether somebody waits, or nothing more will come.
    pub(super) fn is_urgent(&self) -> bool {
        let state = self.state.lock();
        state.is_closed || !state.waiting.is_empty()
    }
}
