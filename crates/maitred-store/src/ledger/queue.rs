//! The way from calls to the spool: a bounded buffer that calls append to, and one thread that writes it out.
//!
//! What gathers while the disk is at work is written with one write, and made durable together.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use maitred_obs::LedgerMeters;
use parking_lot::{Condvar, Mutex};
use tokio::sync::{Notify, oneshot, watch};

use super::entry::Entry;
use super::frame;
use super::spool::{SEGMENT, Segment, Spool};

/// Bytes that may wait for the disk. With more no call begins; ends are taken all the same, for each belongs to a beginning.
const WAITING_MAX: usize = 8 << 20;
/// How long the writer waits after the disk has refused.
const AGAIN: Duration = Duration::from_millis(100);

/// What survives what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// What is written survives the gateway's death. A dead machine may lose the last second.
    #[default]
    Process,
    /// What is written survives the machine's death: the disk is waited for.
    Machine,
}

/// What the calls, the writer and the feeder share.
pub(super) struct Shared {
    state: Mutex<State>,
    filled: Condvar,
    /// How far the segments are written.
    written: Mutex<Written>,
    /// Tells the feeder that there is more.
    pub(super) more: Notify,
    /// Bytes of all segments that are there.
    pub(super) held: AtomicU64,
    /// The writer is behind by more than calls wait.
    pub(super) is_late: AtomicBool,
    /// The database takes no rows.
    pub(super) is_refused: AtomicBool,
    /// Nothing of earlier starts is left in the spool.
    pub(super) settled: watch::Sender<bool>,
    /// How much of what was ever pushed the database has, in bytes.
    pub(super) fed: watch::Sender<u64>,
    pub(super) meters: LedgerMeters,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

#[derive(Default)]
struct State {
    bytes: Vec<u8>,
    waiting: Vec<oneshot::Sender<()>>,
    is_closed: bool,
    /// Bytes that were ever pushed.
    pushed: u64,
}

impl State {
    fn write<S: AsRef<str>>(&mut self, entries: &[Entry<S>]) {
        let before = self.bytes.len();
        frame::write(&mut self.bytes, entries);
        self.pushed += (self.bytes.len() - before) as u64;
    }
}

/// How far the segments are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    /// The segment that is being written; those before it are complete.
    pub(super) segment: u64,
    /// How long it is.
    pub(super) length: u64,
    /// Nothing will be added.
    pub(super) is_complete: bool,
    /// How much of what was ever pushed is in segments, in bytes.
    pub(super) through: u64,
}

impl Shared {
    pub(super) fn new(meters: LedgerMeters) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            filled: Condvar::new(),
            written: Mutex::default(),
            more: Notify::new(),
            held: AtomicU64::new(0),
            is_late: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
            settled: watch::Sender::new(false),
            fed: watch::Sender::new(0),
            meters,
        })
    }

    /// Appends entries that belong together.
    pub(super) fn push<S: AsRef<str>>(&self, entries: &[Entry<S>]) {
        let mut state = self.state.lock();
        let was_empty = state.bytes.is_empty();
        state.write(entries);
        drop(state);
        if was_empty {
            self.filled.notify_one();
        }
    }

    /// The same, if there is room; the receiver hears when they are durable.
    pub(super) fn push_and_tell<S: AsRef<str>>(&self, entries: &[Entry<S>]) -> Option<oneshot::Receiver<()>> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.state.lock();
        if state.bytes.len() > WAITING_MAX || state.is_closed {
            return None;
        }
        let was_empty = state.bytes.is_empty();
        state.write(entries);
        state.waiting.push(sender);
        drop(state);
        if was_empty {
            self.filled.notify_one();
        }
        Some(receiver)
    }

    /// Whether a beginning would be taken.
    pub(super) fn has_room(&self) -> bool {
        let state = self.state.lock();
        state.bytes.len() <= WAITING_MAX && !state.is_closed
    }

    pub(super) fn written(&self) -> Written {
        *self.written.lock()
    }

    /// The writer is to write what there is, and end.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.filled.notify_all();
    }

    /// Bytes that were ever pushed.
    pub(super) fn pushed(&self) -> u64 {
        self.state.lock().pushed
    }

    /// Waits for entries and takes them all; says how much was ever pushed until then. `None` when there will be none.
    fn take(&self, batch: &mut Vec<u8>, waiting: &mut Vec<oneshot::Sender<()>>) -> Option<u64> {
        let mut state = self.state.lock();
        while state.bytes.is_empty() {
            if state.is_closed {
                return None;
            }
            self.filled.wait(&mut state);
        }
        std::mem::swap(&mut state.bytes, batch);
        std::mem::swap(&mut state.waiting, waiting);
        Some(state.pushed)
    }

    fn note(&self, segment: &Segment, is_complete: bool) {
        let mut written = self.written.lock();
        *written = Written {
            segment: segment.number,
            length: segment.length,
            is_complete,
            ..*written
        };
        drop(written);
        self.more.notify_one();
    }

    /// The segments that are noted have all of what was pushed until it was so much.
    fn note_through(&self, pushed: u64) {
        self.written.lock().through = pushed;
        self.more.notify_one();
    }
}

/// Writes the buffer to segments, until it is closed.
pub(super) fn write_until_closed(shared: &Shared, spool: &Spool, first: Segment, durability: Durability) {
    let (mut batch, mut waiting) = (Vec::new(), Vec::new());
    let mut segment = first;
    while let Some(pushed) = shared.take(&mut batch, &mut waiting) {
        while let Err(error) = append(shared, spool, &mut segment, &batch) {
            shared.meters.error("spool");
            tracing::error!(%error, "the ledger's spool cannot be written; trying again");
            std::thread::sleep(AGAIN);
        }
        if durability == Durability::Machine
            && let Err(error) = segment.sync()
        {
            shared.meters.error("spool");
            tracing::error!(%error, "the disk does not confirm the ledger's spool");
        }
        shared.held.fetch_add(batch.len() as u64, Ordering::Relaxed);
        shared.note(&segment, false);
        shared.note_through(pushed);
        shared.is_late.store(false, Ordering::Relaxed);
        for waiting in waiting.drain(..) {
            // Who has waited long enough is not there any more.
            let _gone = waiting.send(());
        }
        batch.clear();
        batch.shrink_to(1 << 20);
    }
    shared.note(&segment, true);
}

/// Appends to the segment, or to the next one if it is full or done for.
pub(super) fn append(shared: &Shared, spool: &Spool, segment: &mut Segment, batch: &[u8]) -> io::Result<()> {
    if segment.length >= SEGMENT {
        next(shared, spool, segment)?;
    }
    let appended = segment.append(batch);
    // One in which nothing stands is as good as a new one; a disk that refuses for long must not be filled with names.
    if appended.is_err() && !segment.is_reusable() {
        next(shared, spool, segment)?;
    }
    appended
}

fn next(shared: &Shared, spool: &Spool, segment: &mut Segment) -> io::Result<()> {
    *segment = spool.create(segment.number + 1)?;
    shared.note(segment, false);
    Ok(())
}
