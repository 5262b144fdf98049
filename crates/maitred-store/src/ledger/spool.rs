//! The spool: a folder of append-only files, the segments, in which entries are durable before any database has them.
//!
//! Every start of a gateway writes segments of its own, and holds a lock on a file for as long as it lives. The kernel releases it
//! whatever way the gateway ends, so whoever finds segments without a lock knows that their writer is dead.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::frame::{self, Front, PAYLOAD_MAX};
use super::starts;

/// Size from which on a segment is closed and the next one begun, in bytes.
pub(super) const SEGMENT: u64 = 8 << 20;
/// Bytes that are read at once.
const READ: usize = 256 << 10;

/// The spool's folder, as one start of a gateway uses it.
#[derive(Debug)]
pub(super) struct Spool {
    folder: PathBuf,
    start: u64,
    /// The starts that were before this one.
    earlier: Vec<u64>,
    /// Held as long as this start lives.
    _lock: File,
}

impl Spool {
    /// Makes the folder if need be, and this start's place in it.
    pub(super) fn open(folder: &Path, start: u64) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let path = lock_path(folder, start);
        let lock = OpenOptions::new().write(true).create_new(true).open(path)?;
        lock.try_lock()?;
        Ok(Self {
            folder: folder.to_owned(),
            start,
            earlier: starts::note(folder, start)?,
            _lock: lock,
        })
    }

    pub(super) const fn start(&self) -> u64 {
        self.start
    }

    /// The starts that have used this folder before.
    pub(super) fn earlier(&self) -> &[u64] {
        &self.earlier
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Opens a new segment for writing.
    pub(super) fn create(&self, number: u64) -> io::Result<Segment> {
        let path = segment_path(&self.folder, self.start, number);
        let file = OpenOptions::new().append(true).create_new(true).open(&path)?;
        // The file's name must be as durable as what will be in it.
        if let Err(error) = File::open(&self.folder).and_then(|folder| folder.sync_all()) {
            // Its number is free for the next try.
            std::fs::remove_file(path)?;
            return Err(error);
        }
        Ok(Segment {
            file,
            number,
            length: 0,
            is_torn: false,
        })
    }

    /// Removes a segment whose rows are all in the database. Says how long it was.
    pub(super) fn remove(&self, number: u64) -> io::Result<u64> {
        let path = segment_path(&self.folder, self.start, number);
        let length = std::fs::metadata(&path)?.len();
        std::fs::remove_file(path)?;
        Ok(length)
    }

    /// Gives up this start's place, when no segment is left.
    pub(super) fn leave(&self) -> io::Result<()> {
        std::fs::remove_file(lock_path(&self.folder, self.start))
    }
}

/// A segment that is written.
#[derive(Debug)]
pub(super) struct Segment {
    file: File,
    pub(super) number: u64,
    /// Bytes that were written whole.
    pub(super) length: u64,
    /// There is something behind that, which no reader passes.
    is_torn: bool,
}

impl Segment {
    /// Appends bytes, whole or not at all as far as the disk lets it. After an error the segment is done for, unless nothing stands in it.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.is_torn {
            return Err(io::Error::other("the segment is torn"));
        }
        if let Err(error) = self.file.write_all(bytes) {
            self.is_torn = self.file.set_len(self.length).is_err();
            return Err(error);
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Whether it can be written to after an error as if it were new.
    pub(super) const fn is_reusable(&self) -> bool {
        self.length == 0 && !self.is_torn
    }

    /// Waits until the disk has everything.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Reads the frames of one segment, from its beginning.
#[derive(Debug)]
pub(super) struct SegmentReader {
    file: File,
    buffer: Vec<u8>,
    /// Where the buffer's first byte lies in the file.
    position: u64,
    is_damaged: bool,
}

impl SegmentReader {
    pub(super) fn open(folder: &Path, start: u64, number: u64) -> io::Result<Self> {
        Ok(Self {
            file: File::open(segment_path(folder, start, number))?,
            buffer: Vec::new(),
            position: 0,
            is_damaged: false,
        })
    }

    /// Waits until the disk has everything that was written to the segment.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Where the next frame begins.
    pub(super) const fn position(&self) -> u64 {
        self.position
    }

    /// Whether something was found that no gateway writes. Nothing behind it is read.
    pub(super) const fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// Hands the payloads of the frames before `end` to `take`, as many as one read brings. Says whether there were any.
    pub(super) fn read(&mut self, end: u64, mut take: impl FnMut(&[u8])) -> io::Result<bool> {
        if self.is_damaged {
            return Ok(false);
        }
        let held = self.position + self.buffer.len() as u64;
        if held < end {
            let room = usize::try_from(end - held)
                .unwrap_or(READ)
                .min(READ.max(PAYLOAD_MAX * 2));
            self.file.seek(SeekFrom::Start(held))?;
            (&self.file).take(room as u64).read_to_end(&mut self.buffer)?;
        }
        let mut at = 0;
        loop {
            match frame::front(self.buffer.get(at..).unwrap_or_default()) {
                Front::Frame(payload, length) => {
                    take(payload);
                    at += length;
                }
                Front::Partial => break,
                Front::Damaged => {
                    self.is_damaged = true;
                    break;
                }
            }
        }
        self.buffer.drain(..at);
        self.position += at as u64;
        Ok(at > 0)
    }
}

/// The starts that have left something in `folder` and are dead, each with its lock, so that nobody else settles them.
pub(super) fn orphans(folder: &Path, own: u64) -> io::Result<Vec<Orphan>> {
    let mut starts: Vec<u64> = Vec::new();
    for item in std::fs::read_dir(folder)? {
        let name = item?.file_name();
        let Some(start) = name.to_str().and_then(start_of) else {
            continue;
        };
        if start != own && !starts.contains(&start) {
            starts.push(start);
        }
    }
    starts.sort_unstable();
    let mut orphans = Vec::new();
    for start in starts {
        let path = lock_path(folder, start);
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)?;
        match lock.try_lock() {
            Ok(()) => orphans.push(Orphan {
                folder: folder.to_owned(),
                start,
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(orphans)
}

/// What a dead start has left.
#[derive(Debug)]
pub(super) struct Orphan {
    folder: PathBuf,
    pub(super) start: u64,
    _lock: File,
}

impl Orphan {
    /// Its segments, in the order in which they were written.
    pub(super) fn segments(&self) -> io::Result<Vec<u64>> {
        let prefix = format!("{:016x}-", self.start);
        let mut numbers = Vec::new();
        for item in std::fs::read_dir(&self.folder)? {
            let name = item?.file_name();
            let number = name
                .to_str()
                .and_then(|name| name.strip_prefix(&prefix))
                .and_then(|rest| rest.strip_suffix(".spool"));
            numbers.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    pub(super) fn read(&self, number: u64) -> io::Result<SegmentReader> {
        SegmentReader::open(&self.folder, self.start, number)
    }

    /// Removes a segment whose rows are in the database; one that is damaged is put aside for a person to look at.
    pub(super) fn remove(&self, number: u64, is_damaged: bool) -> io::Result<()> {
        let path = segment_path(&self.folder, self.start, number);
        if is_damaged {
            std::fs::rename(&path, path.with_extension("damaged"))
        } else {
            std::fs::remove_file(path)
        }
    }

    /// Nothing is left of it.
    pub(super) fn forget(self) -> io::Result<()> {
        std::fs::remove_file(lock_path(&self.folder, self.start))
    }
}

fn start_of(name: &str) -> Option<u64> {
    let (stem, kind) = name.rsplit_once('.')?;
    let start = match kind {
        "lock" => stem,
        "spool" => stem.split_once('-')?.0,
        _ => return None,
    };
    (start.len() == 16).then(|| u64::from_str_radix(start, 16).ok())?
}

fn lock_path(folder: &Path, start: u64) -> PathBuf {
    folder.join(format!("{start:016x}.lock"))
}

fn segment_path(folder: &Path, start: u64, number: u64) -> PathBuf {
    folder.join(format!("{start:016x}-{number:08}.spool"))
}

#[cfg(test)]
mod tests;
