//! Reading the archive back: whether it is as it was written.
//!
//! Each start of a gateway writes a [chain](crate::chain) of its own over all its segments. That such a chain was cut off, made anew or
//! taken away as a whole is known only by what was told elsewhere of its segments: see [`Finished`](super::Finished).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::segment::{Stored, hash, list, parts};
use crate::chain::{End, Flaw, Head, check, claimed, has_entry};
use crate::frame::{Front, HEAD, front};

/// What was found of all records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// By starts.
    pub starts: Vec<StartReport>,
    /// Segments that were finished and are not there, although an older one is: nothing has let them go.
    pub missing: Vec<String>,
}

impl Report {
    /// Whether nothing was changed.
    #[must_use]
    pub fn is_right(&self) -> bool {
        self.missing.is_empty() && self.starts.iter().all(|start| start.verdict.is_right())
    }
}

/// What was found of one start's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartReport {
    /// Which start, as its files name it.
    pub start: String,
    /// How many segments it has.
    pub segments: usize,
    /// The number of the first record; more than 1 where older segments were let go.
    pub first: u64,
    /// The last record that is as it was written.
    pub head: Head,
    /// What was found of the whole.
    pub verdict: Verdict,
}

/// What was found of the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All records are as they were written.
    Intact,
    /// So they are, and behind the last one stands the beginning of another: it is being written, or its writer died.
    Torn {
        /// Where.
        file: PathBuf,
        /// How many bytes.
        bytes: u64,
    },
    /// One is not, and nothing of this start behind it proves anything.
    Broken {
        /// Where.
        file: PathBuf,
        /// The record in the file, from 1.
        record: u64,
        /// What is wrong.
        flaw: Flaw,
    },
    /// All are right in themselves, but those of a segment are not those that were told of elsewhere: they were cut off or made anew.
    Differs {
        /// The segment.
        file: PathBuf,
    },
    /// All are, but the index of a segment is not one of what is in it, so records are not found.
    Index {
        /// The segment.
        file: PathBuf,
    },
}

impl Verdict {
    /// Whether nothing was changed.
    #[must_use]
    pub const fn is_right(&self) -> bool {
        matches!(self, Self::Intact | Self::Torn { .. })
    }
}

/// Reads all segments in `folder`. `finished` is what was told of some of them, by the names of their files.
///
/// # Errors
/// A file cannot be read.
pub fn verify(folder: &Path, finished: &BTreeMap<String, Head>) -> io::Result<Report> {
    let stored = list(folder)?;
    let oldest = stored.iter().find(|stored| stored.is_finished());
    let oldest = oldest.map(Stored::file_name).unwrap_or_default();
    let names: BTreeSet<String> = stored.iter().map(Stored::file_name).collect();
    // Those that are let go are the oldest.
    let is_missing = |name: &&String| !oldest.is_empty() && **name > oldest && !names.contains(*name);
    let missing = finished.keys().filter(is_missing).cloned().collect();
    let mut starts: BTreeMap<String, Vec<Stored>> = BTreeMap::new();
    for stored in stored {
        let start = stored.name().map_or_else(String::new, |name| name.start);
        starts.entry(start).or_default().push(stored);
    }
    let starts = starts.into_iter();
    let starts = starts.map(|(start, stored)| one_start(start, &stored, finished));
    Ok(Report {
        starts: starts.collect::<Result<_, _>>()?,
        missing,
    })
}

fn one_start(start: String, stored: &[Stored], finished: &BTreeMap<String, Head>) -> io::Result<StartReport> {
    let mut report = StartReport {
        start,
        segments: 0,
        first: 1,
        head: Head::EMPTY,
        verdict: Verdict::Intact,
    };
    for (index, segment) in stored.iter().enumerate() {
        let bytes = match std::fs::read(&segment.path) {
            // A gateway has let the oldest go just now.
            Err(error) if error.kind() == io::ErrorKind::NotFound && report.segments == 0 => continue,
            read => read?,
        };
        if report.segments == 0 {
            // What came before cannot be checked, only that this is what the file's name says.
            let first = segment.name().map(|name| name.first);
            let head = first_line(&bytes).and_then(claimed);
            report.head = head
                .filter(|head| Some(head.number + 1) == first)
                .unwrap_or(Head::EMPTY);
            report.first = report.head.number + 1;
        }
        report.segments += 1;
        let (end, entries) = read(&bytes, &mut report.head);
        report.verdict = verdict(end, segment, index + 1 == stored.len());
        let file = || segment.path.clone();
        let is_as_told = finished
            .get(&segment.file_name())
            .is_none_or(|told| *told == report.head);
        if report.verdict.is_right() && !is_as_told {
            report.verdict = Verdict::Differs { file: file() };
        } else if report.verdict == Verdict::Intact && !segment.is_indexed_as(&entries)? {
            report.verdict = Verdict::Index { file: file() };
        }
        if report.verdict != Verdict::Intact {
            break;
        }
    }
    Ok(report)
}

fn verdict(end: End, segment: &Stored, is_last: bool) -> Verdict {
    let file = segment.path.clone();
    match end {
        End::Whole => Verdict::Intact,
        End::Torn { bytes, .. } if is_last => Verdict::Torn { file, bytes },
        // A segment is only left behind when it is whole.
        End::Torn { at, .. } => Verdict::Broken {
            file,
            record: at,
            flaw: Flaw::Form,
        },
        End::Broken { line, flaw } => Verdict::Broken {
            file,
            record: line,
            flaw,
        },
    }
}

/// The line of the first record.
fn first_line(bytes: &[u8]) -> Option<&[u8]> {
    match front(bytes) {
        Front::Frame(payload, _) => parts(payload).map(|(_, line)| line),
        Front::Partial | Front::Damaged => None,
    }
}

/// Reads `bytes` as the records after `head`, and gives what an index of them says. Of a torn end, `at` is the number of the record.
fn read(bytes: &[u8], head: &mut Head) -> (End, Vec<(u64, u64)>) {
    let (mut at, mut record, mut index) = (0, 1, Vec::new());
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        if rest.is_empty() {
            return (End::Whole, index);
        }
        let Front::Frame(payload, length) = front(rest) else {
            let end = match is_torn(rest, head) {
                true => End::Torn {
                    at: record,
                    bytes: rest.len() as u64,
                },
                false => End::Broken {
                    line: record,
                    flaw: Flaw::Form,
                },
            };
            return (end, index);
        };
        match entry(payload, head) {
            Ok((id, next)) => {
                index.push((hash(id), at as u64));
                *head = next;
            }
            Err(flaw) => return (End::Broken { line: record, flaw }, index),
        }
        at += length;
        record += 1;
    }
}

/// The id by which a record is found, which must be the one that it names itself, and the head that it makes.
fn entry<'a>(payload: &'a [u8], head: &Head) -> Result<(&'a str, Head), Flaw> {
    let (id, line) = parts(payload).ok_or(Flaw::Form)?;
    let next = check(line, head)?;
    let record: Value = serde_json::from_slice(line).map_err(|_| Flaw::Form)?;
    if record[super::ID] == id {
        Ok((id, next))
    } else {
        Err(Flaw::Altered)
    }
}

/// Whether what stands at the end of a file may be the beginning of a record after `head`. A machine that dies may leave zeros in place
/// of bytes, a process that dies may not.
fn is_torn(tail: &[u8], head: &Head) -> bool {
    let zeros = tail.iter().rev().take_while(|byte| **byte == 0).count();
    let written = tail.get(..tail.len() - zeros).unwrap_or_default();
    let Some((announced, id_and_line)) = written.split_at_checked(HEAD) else {
        return true;
    };
    if front(tail) == Front::Damaged && id_and_line.len() >= announced_length(announced) {
        return false;
    }
    let line = match id_and_line.split_first_chunk::<2>() {
        Some((length, rest)) => rest.get(usize::from(u16::from_le_bytes(*length))..).unwrap_or_default(),
        None => return true,
    };
    let begins = head.next_begins();
    let common = begins.len().min(line.len());
    // One that is whole has a frame that was changed.
    line.get(..common) == begins.as_bytes().get(..common) && !has_entry(line, head)
}

/// How long the payload is to be.
fn announced_length(frame: &[u8]) -> usize {
    let length = frame.first_chunk::<4>().copied().unwrap_or_default();
    u32::from_le_bytes(length) as usize
}
