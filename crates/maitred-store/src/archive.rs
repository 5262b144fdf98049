//! The archive: records that are looked up by an id long after, also by the next start of a gateway.
//!
//! Whoever has a record offers it and goes on. A thread writes what was offered to a segment, an append-only file of frames, and gives
//! every finished segment an index. Each start of a gateway writes a [chain](crate::chain) of records over all its segments, so that
//! [`verify()`] finds any that was changed. What the queue or the disk does not take is lost and counted: a record is worth less than a call.
//! Segments leave whole, by age and by the size of all of them together.
//!
//! Several processes may share a folder. Each writes its own segments, and everybody reads all of them.

mod segment;
mod verify;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use maitred_obs::ArchiveMeters;
use maitred_types::UnixMillis;
use parking_lot::{Condvar, Mutex};

use crate::chain::Head;
use segment::{Open, Stored, list};

pub use verify::{Report, StartReport, Verdict, verify};

/// Is told the name and the last entry of every segment that is finished.
pub type Finished = Box<dyn Fn(&str, Head) + Send>;

/// Records that may wait for the thread.
const QUEUE: usize = 4096;
/// How long records gather before they are written together. Who offers one meanwhile wakes nobody.
const GATHER: Duration = Duration::from_millis(20);
/// Every how often the thread looks at the calendar when nothing comes.
const ROUND: Duration = Duration::from_secs(1);
/// Every how often segments are tidied and losses are told, in milliseconds.
const TIDY_MS: u64 = 30_000;
/// Size from which on a segment is finished and the next one begun, in bytes.
const SEGMENT: u64 = 64 << 20;
/// Of the time that records are kept, a segment takes this part at most, so that they leave in small steps.
const PARTS: u32 = 24;

/// The member of a record that is its id.
pub const ID: &str = "request_id";

/// Something to be kept.
pub trait Record: Send + Sync + std::fmt::Debug {
    /// By what it is looked up.
    fn id(&self) -> &str;
    /// Appends what is kept of it: a JSON object, of which [`ID`] is the id.
    fn write(&self, out: &mut Vec<u8>);
}

/// Where the archive is, and how long records stay.
#[derive(Clone, Debug)]
pub struct ArchiveOptions {
    /// The folder.
    pub folder: PathBuf,
    /// How long a record is kept.
    pub keep: Duration,
    /// Most bytes of all segments.
    pub max_bytes: u64,
    /// A number that no other start of a gateway has.
    pub start: u64,
    /// The civil clock.
    pub now: fn() -> UnixMillis,
}

/// The archive, as a gateway writes and reads it.
#[derive(Debug)]
pub struct Archive {
    queue: SyncSender<Arc<dyn Record>>,
    folder: PathBuf,
    meters: ArchiveMeters,
    is_closing: Arc<AtomicBool>,
    ended: Arc<Ended>,
}

#[derive(Debug, Default)]
struct Ended {
    is_over: Mutex<bool>,
    told: Condvar,
}

impl Archive {
    /// Opens the folder and starts the thread that writes, and that tells `finished`.
    ///
    /// # Errors
    /// The folder cannot be made or written, or the operating system refuses the thread.
    pub fn open(options: ArchiveOptions, meters: ArchiveMeters, finished: Finished) -> io::Result<Self> {
        std::fs::create_dir_all(&options.folder)?;
        let (queue, offered) = sync_channel(QUEUE);
        let folder = options.folder.clone();
        let ended = Arc::new(Ended::default());
        let is_closing = Arc::new(AtomicBool::new(false));
        let mut keeper = Keeper {
            meters: meters.clone(),
            open: Some(Open::create(&options.folder, options.start, (options.now)(), 1)?),
            head: Head::EMPTY,
            options,
            finished,
            told: 0,
            tidied: UnixMillis::new(0),
            batch: Vec::new(),
        };
        let (told, closing) = (Arc::clone(&ended), Arc::clone(&is_closing));
        let thread = std::thread::Builder::new().name("archive".into());
        drop(thread.spawn(move || {
            keeper.keep(&offered, &closing);
            *told.is_over.lock() = true;
            told.told.notify_all();
        })?);
        Ok(Self {
            queue,
            folder,
            meters,
            is_closing,
            ended,
        })
    }

    /// Takes a record, unless too many wait: then it is lost, and counted. Never waits.
    pub fn offer(&self, record: Arc<dyn Record>) {
        match self.queue.try_send(record) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => self.meters.dropped("queue"),
            Err(TrySendError::Disconnected(_)) => self.meters.dropped("closed"),
        }
    }

    /// What was kept of the newest record with this id. Reads files, so not for threads that serve calls.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn find(&self, id: &str) -> io::Result<Option<Vec<u8>>> {
        find(&self.folder, id)
    }

    /// Writes what was offered so far and finishes the segment, within `limit`. Blocks for as long. Says whether it was done.
    #[must_use]
    pub fn close(&self, limit: Duration) -> bool {
        self.is_closing.store(true, Ordering::Release);
        let mut is_over = self.ended.is_over.lock();
        if !*is_over {
            let _timed_out = self.ended.told.wait_for(&mut is_over, limit);
        }
        *is_over
    }
}

/// What is kept of the newest record with this id in `folder`, whoever wrote it.
///
/// # Errors
/// The folder cannot be read.
pub fn find(folder: &Path, id: &str) -> io::Result<Option<Vec<u8>>> {
    for stored in list(folder)?.iter().rev() {
        match stored.find(id) {
            Ok(None) => {}
            Ok(found) => return Ok(found),
            // It left just now.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(%error, file = %stored.path.display(), "a segment of the archive cannot be read");
            }
        }
    }
    Ok(None)
}

/// The thread's side.
struct Keeper {
    options: ArchiveOptions,
    meters: ArchiveMeters,
    finished: Finished,
    /// The segment that is written; none after a disk that failed.
    open: Option<Open>,
    /// The newest record that is on the disk.
    head: Head,
    /// How many losses have been told.
    told: u64,
    tidied: UnixMillis,
    batch: Vec<u8>,
}

impl Keeper {
    fn keep(&mut self, offered: &Receiver<Arc<dyn Record>>, is_closing: &AtomicBool) {
        self.tidy();
        loop {
            // Read before the queue is, so that what was offered before the close is written.
            let is_last = is_closing.load(Ordering::Acquire);
            let wait = if is_last { Duration::ZERO } else { ROUND };
            match offered.recv_timeout(wait) {
                Ok(first) => {
                    if !is_last {
                        std::thread::sleep(GATHER);
                    }
                    self.write(std::iter::once(first).chain(offered.try_iter().take(QUEUE)));
                }
                Err(RecvTimeoutError::Timeout) if is_last => break,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if self.now().get().saturating_sub(self.tidied.get()) >= TIDY_MS {
                self.tidy();
            }
        }
        if let Some(open) = self.open.take() {
            self.finish(open);
        }
    }

    fn now(&self) -> UnixMillis {
        (self.options.now)()
    }

    fn write(&mut self, records: impl Iterator<Item = Arc<dyn Record>>) {
        if self.open.as_ref().is_none_or(|open| self.is_full(open)) {
            self.turn();
        }
        let Some(open) = &mut self.open else {
            (0..records.count()).for_each(|_| self.meters.dropped("disk"));
            return;
        };
        self.batch.clear();
        let (mut written, mut head) = (0, self.head);
        for record in records {
            match open.frame(record.as_ref(), &mut head, &mut self.batch) {
                true => written += 1,
                false => self.meters.dropped("too_large"),
            }
        }
        match open.append(&self.batch) {
            Ok(()) => {
                self.head = head;
                self.meters.kept.inc_by(written);
                self.meters.grown(self.batch.len() as u64);
            }
            Err(error) => {
                tracing::error!(%error, "the archive of decision records cannot be written");
                (0..written).for_each(|_| self.meters.dropped("disk"));
                // What is behind the error is of no use to readers.
                if let Some(open) = self.open.take() {
                    self.finish(open);
                }
            }
        }
        self.batch.shrink_to(1 << 20);
    }

    fn is_full(&self, open: &Open) -> bool {
        let part = u64::try_from((self.options.keep / PARTS).as_millis()).unwrap_or(u64::MAX);
        let size = SEGMENT.min(self.options.max_bytes / u64::from(PARTS));
        open.length >= size || self.now().get().saturating_sub(open.began.get()) >= part
    }

    /// Begins the next segment.
    fn turn(&mut self) {
        if let Some(open) = self.open.take() {
            self.finish(open);
        }
        match Open::create(
            &self.options.folder,
            self.options.start,
            self.now(),
            self.head.number + 1,
        ) {
            Ok(open) => self.open = Some(open),
            Err(error) => tracing::error!(%error, "the archive of decision records cannot be written"),
        }
    }

    fn finish(&self, open: Open) {
        if open.length > 0 {
            (self.finished)(&open.name(), self.head);
        }
        if let Err(error) = open.finish() {
            tracing::warn!(%error, "a segment of the archive has no index; finding records in it takes longer");
        }
    }

    /// Lets go what is too old or too much, finishes what dead gateways have left, and says what was lost.
    fn tidy(&mut self) {
        self.tidied = self.now();
        let lost = self.meters.lost();
        if lost > self.told {
            tracing::warn!(lost = lost - self.told, "decision records were not archived");
            self.told = lost;
        }
        let oldest = self
            .tidied
            .get()
            .saturating_sub(u64::try_from(self.options.keep.as_millis()).unwrap_or(u64::MAX));
        let own = self.open.as_ref().map(|open| open.path.clone());
        match list(&self.options.folder) {
            Ok(mut stored) => {
                stored.retain(|stored| Some(&stored.path) != own.as_ref());
                let held = own
                    .and_then(|own| std::fs::metadata(own).ok())
                    .map_or(0, |own| own.len());
                self.meters.holds(held + self.let_go(&stored, oldest));
            }
            Err(error) => tracing::warn!(%error, "the folder of the archive cannot be read"),
        }
    }

    /// Says how many bytes stay.
    fn let_go(&self, stored: &[Stored], oldest: u64) -> u64 {
        let mut held = 0;
        for (index, stored_one) in stored.iter().enumerate().rev() {
            // A segment's last record is older than the beginning of the same start's next one, but it is the file that knows.
            let length = stored_one.length();
            let is_old = stored_one.changed().is_some_and(|changed| changed.get() < oldest);
            if is_old || held + length > self.options.max_bytes {
                for gone in stored.iter().take(index + 1) {
                    gone.remove();
                }
                break;
            }
            held += length;
            stored_one.finish_if_left();
        }
        held
    }
}

#[cfg(test)]
mod tests;
