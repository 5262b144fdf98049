//! Reading the audit back: whether it is as it was written.

use std::io;
use std::path::{Path, PathBuf};

use maitred_types::UnixMillis;
use serde_json::Value;

use super::entry::{Archived, CHANGES, Removed};
use super::segment_path;
use crate::chain::{ChainHash, End, Flaw, Head, claimed, read};

/// A segment that has been read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its file.
    pub file: PathBuf,
    /// How many entries it has.
    pub entries: u64,
}

/// What was found of the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All entries are as they were written.
    Intact,
    /// So they are, and behind the last one stands the beginning of another: it is being written, or its writer died.
    Torn {
        /// Where.
        file: PathBuf,
        /// How many bytes.
        bytes: u64,
    },
    /// One is not, and nothing behind it proves anything.
    Broken {
        /// Where.
        file: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        flaw: Flaw,
    },
    /// All are, but the one that was to be there is not: entries were cut off, or the chain was made anew.
    Missing,
}

/// An entry that says that older entries were removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Removal {
    /// Its number.
    pub entry: u64,
    /// The number of the last entry that was removed.
    pub last: u64,
}

impl Report {
    /// The entry that says why there are none before the first; `None` if there are all, or no entry says it.
    #[must_use]
    pub fn explained(&self) -> Option<Removal> {
        self.removal
            .filter(|removal| self.first > 1 && removal.last + 1 >= self.first)
    }
}

/// What a verification has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The segments, up to a broken one.
    pub segments: Vec<Segment>,
    /// The number of the first entry; more than 1 where older segments were taken away.
    pub first: u64,
    /// What the newest entry about a removal says, and how far it reaches.
    pub removal: Option<Removal>,
    /// The last entry that is as it was written.
    pub head: Head,
    /// The number of the entry that was to be there.
    pub anchor: Option<u64>,
    /// What was found of the whole.
    pub verdict: Verdict,
}

/// The files of the segments in `folder`, oldest first.
///
/// # Errors
/// The folder cannot be read.
pub fn segments(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for item in std::fs::read_dir(folder)? {
        let path = item?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("audit-") && name.ends_with(".jsonl") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The version up to which the newest entry that tells says that changes are in force. Reads `files` from their end, so not many
/// where a gateway has started lately.
pub(super) fn changes_in_force(files: &[PathBuf]) -> io::Result<Option<u64>> {
    for file in files.iter().rev() {
        let bytes = std::fs::read(file)?;
        let mut lines = bytes.rsplit(|byte| *byte == b'\n');
        let told = lines.find_map(|line| of_kind(line, CHANGES)?["in_force"].as_u64());
        if told.is_some() {
            return Ok(told);
        }
    }
    Ok(None)
}

/// The name and last record of the file of decision records that the entry of this line tells of, if it does.
#[must_use]
pub fn archived(line: &[u8]) -> Option<(String, Head)> {
    let entry = of_kind(line, Archived::KIND)?;
    let head = Head {
        number: entry["last"].as_u64()?,
        hash: ChainHash::parse(entry["head"].as_str()?)?,
    };
    Some((entry["file"].as_str()?.to_owned(), head))
}

/// The entry of a line, if it is of this kind. Most lines are not parsed.
fn of_kind(line: &[u8], kind: &str) -> Option<Value> {
    let text = std::str::from_utf8(line).ok().filter(|text| text.contains(kind))?;
    let entry: Value = serde_json::from_str(text).ok()?;
    (entry["kind"] == kind).then_some(entry)
}

/// Reads all segments in `folder` and hands every entry that is as it was written to `take`, without its line's end. With an `anchor`,
/// an entry with that hash must be among them.
///
/// # Errors
/// A file cannot be read, or there is none.
pub fn verify(folder: &Path, anchor: Option<ChainHash>, mut take: impl FnMut(&[u8])) -> io::Result<Report> {
    let files = segments(folder)?;
    if files.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "there is no segment of an audit",
        ));
    }
    let mut report = Report {
        segments: Vec::new(),
        first: 1,
        removal: None,
        head: Head::EMPTY,
        anchor: None,
        verdict: Verdict::Intact,
    };
    for (index, file) in files.iter().enumerate() {
        let bytes = match std::fs::read(file) {
            // The gateway that writes has let the oldest go just now.
            Err(error) if error.kind() == io::ErrorKind::NotFound && report.segments.is_empty() => continue,
            read => read?,
        };
        if report.segments.is_empty() {
            // What came before cannot be checked, only that this is what the file's name says.
            report.head = claimed(&bytes)
                .filter(|head| is_named(file, head))
                .unwrap_or(Head::EMPTY);
            report.first = report.head.number + 1;
        }
        let before = report.head.number;
        let (mut found, mut removal) = (report.anchor, report.removal);
        let end = read(&bytes, &mut report.head, |line, head| {
            if anchor == Some(head.hash) {
                found = Some(head.number);
            }
            let last = of_kind(line, Removed::KIND).and_then(|entry| entry["last"].as_u64());
            removal = last
                .map(|last| Removal {
                    entry: head.number,
                    last,
                })
                .or(removal);
            take(line);
        });
        (report.anchor, report.removal) = (found, removal);
        report.segments.push(Segment {
            file: file.clone(),
            entries: report.head.number - before,
        });
        let is_last = index + 1 == files.len();
        report.verdict = verdict(end, file, is_last, report.head.number - before);
        if report.verdict != Verdict::Intact {
            break;
        }
    }
    if anchor.is_some() && report.anchor.is_none() && !matches!(report.verdict, Verdict::Broken { .. }) {
        report.verdict = Verdict::Missing;
    }
    Ok(report)
}

fn verdict(end: End, file: &Path, is_last: bool, entries: u64) -> Verdict {
    let file = file.to_owned();
    match end {
        End::Whole => Verdict::Intact,
        End::Torn { bytes, .. } if is_last => Verdict::Torn { file, bytes },
        // A segment is only left behind when it is whole.
        End::Torn { .. } => Verdict::Broken {
            file,
            line: entries + 1,
            flaw: Flaw::Form,
        },
        End::Broken { line, flaw } => Verdict::Broken { file, line, flaw },
    }
}

/// When the entry of a line was made.
pub(super) fn moment_of(line: &[u8]) -> Option<UnixMillis> {
    let entry: Value = serde_json::from_slice(line).ok()?;
    let at: jiff::Timestamp = entry["at"].as_str()?.parse().ok()?;
    u64::try_from(at.as_millisecond()).ok().map(UnixMillis::new)
}

/// Whether the file's name is that of a segment that begins after `head`.
pub(super) fn is_named(file: &Path, head: &Head) -> bool {
    file.file_name() == segment_path(Path::new(""), head.number + 1).file_name()
}

/// The number of the first entry of a segment, by its name.
pub(super) fn first_of(file: &Path) -> Option<u64> {
    let name = file.file_name()?.to_str()?;
    name.strip_prefix("audit-")?.strip_suffix(".jsonl")?.parse().ok()
}
