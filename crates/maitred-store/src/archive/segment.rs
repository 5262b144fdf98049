//! Segments: files of frames in the order in which their records ended, and beside each finished one an index.
//!
//! The payload of a frame is the length of the id (two bytes, little endian), the id, and what is kept, as an entry of the chain of its
//! start. A file's name is when it was begun, by which start, and the number of its first entry. An index is a row of entries
//! of sixteen bytes, the hash of an id and where its frame lies, in rising order, so that a look-up reads some sixteen of them. A
//! segment without an index is read from its beginning; its writer lives, or was killed.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use maitred_types::UnixMillis;
use twox_hash::XxHash3_64;

use super::Record;
use crate::chain::{Head, seal};
use crate::frame::{Front, HEAD, PAYLOAD_MAX, front, wrap};

/// What a segment's name says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    /// By which start it was written.
    pub(super) start: String,
    /// The number of its first entry.
    pub(super) first: u64,
}

/// Bytes of an index entry.
const ENTRY: usize = 16;
/// Bytes that are read at once.
const READ: usize = 1 << 20;

/// A segment that is written.
#[derive(Debug)]
pub(super) struct Open {
    /// Locked as long as its writer lives.
    file: File,
    pub(super) path: PathBuf,
    pub(super) began: UnixMillis,
    /// Bytes that were written whole.
    pub(super) length: u64,
    /// What the index will say, in the order of writing.
    index: Vec<(u64, u64)>,
    /// What is kept of one record.
    scratch: Vec<u8>,
}

impl Open {
    /// Begins the segment of which the first entry has the number `first`.
    pub(super) fn create(folder: &Path, start: u64, now: UnixMillis, first: u64) -> io::Result<Self> {
        let path = folder.join(format!("{:014}-{start:016x}-{first:010}.records", now.get()));
        let file = OpenOptions::new().append(true).create_new(true).open(&path)?;
        file.try_lock()?;
        Ok(Self {
            file,
            path,
            began: now,
            length: 0,
            index: Vec::new(),
            scratch: Vec::new(),
        })
    }

    /// Appends a record to what [`Self::append`] takes next, which holds nothing else, as the entry after `head`. `false` if it is
    /// larger than a frame, or no object.
    pub(super) fn frame(&mut self, record: &dyn Record, head: &mut Head, batch: &mut Vec<u8>) -> bool {
        let (start, id) = (batch.len(), record.id());
        self.scratch.clear();
        record.write(&mut self.scratch);
        let members = self.scratch.strip_prefix(b"{").and_then(|rest| rest.strip_suffix(b"}"));
        let Some(members) = members.filter(|members| !members.is_empty()) else {
            return false;
        };
        let mut next = *head;
        wrap(batch, |out| {
            out.extend_from_slice(&u16::try_from(id.len()).unwrap_or(u16::MAX).to_le_bytes());
            out.extend_from_slice(id.as_bytes());
            next = seal(head, members, out);
            // Frames need no line's end.
            out.pop();
        });
        if batch.len() - start > HEAD + PAYLOAD_MAX || id.len() > usize::from(u16::MAX) {
            batch.truncate(start);
            return false;
        }
        self.index.push((hash(id), self.length + start as u64));
        *head = next;
        true
    }

    /// After an error the segment is done for.
    pub(super) fn append(&mut self, batch: &[u8]) -> io::Result<()> {
        if let Err(error) = self.file.write_all(batch) {
            self.index.retain(|(_, at)| *at < self.length);
            self.file.set_len(self.length)?;
            return Err(error);
        }
        self.length += batch.len() as u64;
        Ok(())
    }

    /// The file's name.
    pub(super) fn name(&self) -> String {
        file_name(&self.path)
    }

    /// Gives the segment its index; one that holds nothing is removed.
    pub(super) fn finish(self) -> io::Result<()> {
        if self.length == 0 {
            return std::fs::remove_file(&self.path);
        }
        self.file.sync_data()?;
        write_index(&self.path, self.index)
    }
}

/// A segment that is there, whoever wrote it.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) path: PathBuf,
}

/// All segments of a folder, oldest first.
pub(super) fn list(folder: &Path) -> io::Result<Vec<Stored>> {
    let mut stored = Vec::new();
    for item in std::fs::read_dir(folder)? {
        let path = item?.path();
        if path.extension().is_some_and(|extension| extension == "records") {
            stored.push(Stored { path });
        }
    }
    stored.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(stored)
}

impl Stored {
    /// The file's name.
    pub(super) fn file_name(&self) -> String {
        file_name(&self.path)
    }

    /// Whether it has an index, so nobody writes it any more.
    pub(super) fn is_finished(&self) -> bool {
        std::fs::metadata(index_path(&self.path)).is_ok()
    }

    /// What its name says; `None` if somebody else has named it.
    pub(super) fn name(&self) -> Option<Name> {
        let mut parts = self.path.file_stem()?.to_str()?.splitn(3, '-').skip(1);
        Some(Name {
            start: parts.next()?.to_owned(),
            first: parts.next()?.parse().ok()?,
        })
    }

    /// Whether its index, if it has one, says just this.
    pub(super) fn is_indexed_as(&self, entries: &[(u64, u64)]) -> io::Result<bool> {
        match std::fs::read(index_path(&self.path)) {
            Ok(index) => Ok(index == index_of(entries.to_vec())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// With its index, in bytes.
    pub(super) fn length(&self) -> u64 {
        let length = |path: &Path| std::fs::metadata(path).map_or(0, |found| found.len());
        length(&self.path) + length(&index_path(&self.path))
    }

    /// When its last record was written.
    pub(super) fn changed(&self) -> Option<UnixMillis> {
        let changed = std::fs::metadata(&self.path).and_then(|found| found.modified()).ok()?;
        let since = changed.duration_since(UNIX_EPOCH).ok()?;
        Some(UnixMillis::new(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
    }

    pub(super) fn remove(&self) {
        for path in [&self.path, &index_path(&self.path), &new_index_path(&self.path)] {
            match std::fs::remove_file(path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::warn!(%error, file = %path.display(), "what the archive let go cannot be removed");
                }
            }
        }
    }

    /// Makes the index that a killed writer has not made.
    pub(super) fn finish_if_left(&self) {
        if self.is_finished() {
            return;
        }
        let made = File::open(&self.path).and_then(|file| {
            if file.try_lock().is_err() {
                return Ok(());
            }
            let mut index = Vec::new();
            scan(&file, |at, payload| {
                if let Some((id, _)) = parts(payload) {
                    index.push((hash(id), at));
                }
            })?;
            write_index(&self.path, index)
        });
        if let Err(error) = made {
            tracing::warn!(%error, file = %self.path.display(), "a segment of the archive gets no index");
        }
    }

    /// What is kept of its newest record with this id.
    pub(super) fn find(&self, id: &str) -> io::Result<Option<Vec<u8>>> {
        let file = File::open(&self.path)?;
        let index = match File::open(index_path(&self.path)) {
            Ok(index) => index,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return find_without(&file, id),
            Err(error) => return Err(error),
        };
        let entries = index.metadata()?.len() / ENTRY as u64;
        let wanted = hash(id);
        // The last entry that is not greater than the wanted hash, wherever its frame lies.
        let (mut low, mut high) = (0, entries);
        while low < high {
            let middle = low + (high - low) / 2;
            if entry(&index, middle)?.0 <= wanted {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        while low > 0 {
            low -= 1;
            let (found, at) = entry(&index, low)?;
            if found != wanted {
                break;
            }
            let frame = frame_at(&file, at)?;
            if let Front::Frame(payload, _) = front(&frame)
                && let Some((_, body)) = parts(payload).filter(|(same, _)| *same == id)
            {
                return Ok(Some(body.to_vec()));
            }
        }
        Ok(None)
    }
}

fn entry(mut index: &File, number: u64) -> io::Result<(u64, u64)> {
    let mut bytes = [0; ENTRY];
    index.seek(SeekFrom::Start(number * ENTRY as u64))?;
    index.read_exact(&mut bytes)?;
    let whole = u128::from_be_bytes(bytes);
    // Two halves of it.
    #[expect(clippy::cast_possible_truncation, reason = "each half on its own")]
    Ok(((whole >> 64) as u64, whole as u64))
}

fn frame_at(mut file: &File, at: u64) -> io::Result<Vec<u8>> {
    let mut frame = Vec::new();
    file.seek(SeekFrom::Start(at))?;
    file.take((HEAD + PAYLOAD_MAX) as u64).read_to_end(&mut frame)?;
    Ok(frame)
}

fn find_without(file: &File, id: &str) -> io::Result<Option<Vec<u8>>> {
    let mut found = None;
    scan(file, |_, payload| {
        if let Some((_, body)) = parts(payload).filter(|(same, _)| *same == id) {
            found = Some(body.to_vec());
        }
    })?;
    Ok(found)
}

/// Hands every frame to `take`, with its place, up to the first that is torn or damaged.
fn scan(file: &File, mut take: impl FnMut(u64, &[u8])) -> io::Result<()> {
    let (mut buffer, mut position) = (Vec::new(), 0);
    loop {
        let read = file.take(READ as u64).read_to_end(&mut buffer)?;
        let mut at = 0;
        while let Front::Frame(payload, length) = front(buffer.get(at..).unwrap_or_default()) {
            take(position + at as u64, payload);
            at += length;
        }
        let is_damaged = front(buffer.get(at..).unwrap_or_default()) == Front::Damaged;
        buffer.drain(..at);
        position += at as u64;
        if read == 0 || is_damaged {
            return Ok(());
        }
    }
}

/// The id and what is kept.
pub(super) fn parts(payload: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = payload.split_first_chunk::<2>()?;
    let (id, body) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    Some((std::str::from_utf8(id).ok()?, body))
}

/// In place of whatever is there, all or nothing.
fn write_index(path: &Path, index: Vec<(u64, u64)>) -> io::Result<()> {
    let beside = new_index_path(path);
    std::fs::write(&beside, index_of(index))?;
    std::fs::rename(beside, index_path(path))
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

fn index_of(mut index: Vec<(u64, u64)>) -> Vec<u8> {
    index.sort_unstable();
    let entries = index.iter();
    entries
        .flat_map(|(hash, at)| (u128::from(*hash) << 64 | u128::from(*at)).to_be_bytes())
        .collect()
}

fn index_path(path: &Path) -> PathBuf {
    path.with_extension("index")
}

/// Where an index is while it is written.
fn new_index_path(path: &Path) -> PathBuf {
    path.with_extension("new")
}

pub(super) fn hash(id: &str) -> u64 {
    XxHash3_64::oneshot(id.as_bytes())
}
