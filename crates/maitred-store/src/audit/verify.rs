//! Reading the audit back: whether it is as it was written.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::entry::CHANGES;
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

/// What a verification has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The segments, up to a broken one.
    pub segments: Vec<Segment>,
    /// The number of the first entry; more than 1 where older segments were taken away.
    pub first: u64,
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

/// The version up to which the newest entry that tells says that changes are in force. Reads from the end of what is in `folder`, so
/// not much where a gateway has started lately.
pub(super) fn changes_in_force(folder: &Path) -> io::Result<Option<u64>> {
    let wanted = format!("\"kind\":\"{CHANGES}\"");
    for file in segments(folder)?.iter().rev() {
        let bytes = std::fs::read(file)?;
        let lines = bytes
            .rsplit(|byte| *byte == b'\n')
            .filter_map(|line| std::str::from_utf8(line).ok());
        let told = lines.filter(|line| line.contains(&wanted)).find_map(|line| {
            let entry: Value = serde_json::from_str(line).ok()?;
            let is_told = entry["kind"] == CHANGES;
            is_told.then(|| entry["in_force"].as_u64()).flatten()
        });
        if told.is_some() {
            return Ok(told);
        }
    }
    Ok(None)
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
        head: Head::EMPTY,
        anchor: None,
        verdict: Verdict::Intact,
    };
    for (index, file) in files.iter().enumerate() {
        let bytes = std::fs::read(file)?;
        if index == 0 {
            // What came before cannot be checked, only that this is what the file's name says.
            report.head = claimed(&bytes)
                .filter(|head| is_named(file, head))
                .unwrap_or(Head::EMPTY);
            report.first = report.head.number + 1;
        }
        let before = report.head.number;
        let mut found = report.anchor;
        let end = read(&bytes, &mut report.head, |line, head| {
            if anchor == Some(head.hash) {
                found = Some(head.number);
            }
            take(line);
        });
        report.anchor = found;
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

/// Whether the file's name is that of a segment that begins after `head`.
fn is_named(file: &Path, head: &Head) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name == format!("audit-{:016}.jsonl", head.number + 1))
}
