//! Chains of lines: each entry is one line of JSON that names the hash of the one before, so that none can be changed, removed
//! or put in between without all that follow being made anew.
//!
//! A line is `{"n":NUMBER,"prev":"HASH",...,"hash":"HASH"}`. Its hash is SHA-256 over its own bytes up to `,"hash":`, and the
//! next line's `prev` is that hash. The first line has the number 1 and a `prev` of zeros.
//!
//! Whoever can write the file can also make a whole new chain. What shows that is a hash that was kept elsewhere: an entry with
//! that hash must still be there.

use std::fmt;
use std::io::Write as _;

use sha2::{Digest as _, Sha256};

mod file;

pub use file::ChainError;
pub(crate) use file::{ChainFile, Found};

/// Before a line's own hash.
const HASH: &[u8] = b",\"hash\":\"";
/// After it.
const END: &[u8] = b"\"}";
/// Digits of a hash.
const DIGITS: usize = 64;
/// Longest line that is written or believed, in bytes.
pub const LINE_MAX: usize = 128 << 10;

/// The hash of an entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChainHash([u8; 32]);

impl ChainHash {
    /// What stands before the first entry.
    pub const NONE: Self = Self([0; 32]);

    /// The hash of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Reads 64 hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != DIGITS || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut hash = [0; 32];
        for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Self(hash))
    }
}

impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let mut text = [0; DIGITS];
        for (place, digit) in text.iter_mut().zip(digits) {
            *place = HEX.get(usize::from(digit)).copied().unwrap_or_default();
        }
        f.write_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl fmt::Debug for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The newest entry of a chain: its number and hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Its number; 0 if there is none yet.
    pub number: u64,
    /// Its hash.
    pub hash: ChainHash,
}

impl Head {
    /// That of a chain without entries.
    pub const EMPTY: Self = Self {
        number: 0,
        hash: ChainHash::NONE,
    };

    /// How the line of the next entry begins.
    pub(crate) fn next_begins(&self) -> String {
        format!("{{\"n\":{},\"prev\":\"{}\",", self.number + 1, self.hash)
    }
}

/// Appends the line of the entry after `head` to `out`, and gives the new head. `members` are the members of a JSON object,
/// without its braces and without a line's end.
pub fn seal(head: &Head, members: &[u8], out: &mut Vec<u8>) -> Head {
    let start = out.len();
    out.extend_from_slice(head.next_begins().as_bytes());
    out.extend_from_slice(members);
    let hash = ChainHash::of(out.get(start..).unwrap_or_default());
    out.extend_from_slice(HASH);
    // A vector takes everything.
    let _never = write!(out, "{hash}");
    out.extend_from_slice(END);
    out.push(b'\n');
    Head {
        number: head.number + 1,
        hash,
    }
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It has not the form of an entry.
    Form,
    /// Its own hash is not that of its bytes.
    Altered,
    /// It does not follow the line before: its number or the hash that it names is another.
    Misplaced,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "it has not the form of an entry",
            Self::Altered => "its content is not what its hash was made of",
            Self::Misplaced => "it does not follow the entry before it: one was changed, removed or put in between",
        })
    }
}

/// Checks a line, without its end, as the entry after `head`, and gives the new head.
///
/// # Errors
/// Says what is wrong with it.
pub fn check(line: &[u8], head: &Head) -> Result<Head, Flaw> {
    let (body, hash) = split(line).ok_or(Flaw::Form)?;
    if ChainHash::of(body) != hash {
        return Err(Flaw::Altered);
    }
    if !body.starts_with(head.next_begins().as_bytes()) {
        return Err(Flaw::Misplaced);
    }
    Ok(Head {
        number: head.number + 1,
        hash,
    })
}

/// Whether `bytes` begin with a whole line, without its end, that is the entry after `head`.
pub(crate) fn has_entry(bytes: &[u8], head: &Head) -> bool {
    let ends = bytes
        .windows(HASH.len())
        .enumerate()
        .filter(|(_, window)| *window == HASH);
    let mut ends = ends.map(|(at, _)| at + HASH.len() + DIGITS + END.len());
    ends.any(|end| bytes.get(..end).is_some_and(|line| check(line, head).is_ok()))
}

/// The head before a line, as the line itself has it. It says nothing of whether that is right.
#[must_use]
pub fn claimed(line: &[u8]) -> Option<Head> {
    let rest = line.strip_prefix(b"{\"n\":")?;
    let end = rest.iter().position(|byte| *byte == b',')?;
    let number: u64 = std::str::from_utf8(rest.get(..end)?).ok()?.parse().ok()?;
    let rest = rest.get(end..)?.strip_prefix(b",\"prev\":\"")?;
    let hash = std::str::from_utf8(rest.get(..DIGITS)?).ok()?;
    Some(Head {
        number: number.checked_sub(1)?,
        hash: ChainHash::parse(hash)?,
    })
}

fn split(line: &[u8]) -> Option<(&[u8], ChainHash)> {
    let rest = line.strip_suffix(END)?;
    let (rest, digits) = rest.split_at_checked(rest.len().checked_sub(DIGITS)?)?;
    let digits = std::str::from_utf8(digits).ok()?;
    // Capital digits would be another text for the same hash.
    let is_small = !digits.bytes().any(|byte| byte.is_ascii_uppercase());
    let hash = ChainHash::parse(digits).filter(|_| is_small)?;
    Some((rest.strip_suffix(HASH)?, hash))
}

/// How a reading of lines ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With the last line.
    Whole,
    /// With the beginning of an entry that was not written to its end.
    Torn {
        /// Where it begins.
        at: u64,
        /// How long it is.
        bytes: u64,
    },
    /// With a line that no writer has written there.
    Broken {
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        flaw: Flaw,
    },
}

/// Reads `bytes` as the entries after `head`. Hands each line that is right to `take`, with the head that it makes.
pub fn read(bytes: &[u8], head: &mut Head, mut take: impl FnMut(&[u8], &Head)) -> End {
    let (mut rest, mut line) = (bytes, 0);
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let (text, behind) = rest.split_at(end);
        line += 1;
        match check(text, head) {
            Ok(next) => *head = next,
            Err(flaw) => return End::Broken { line, flaw },
        }
        take(text, head);
        rest = behind.get(1..).unwrap_or_default();
    }
    if rest.is_empty() {
        return End::Whole;
    }
    if is_torn(rest, head) {
        End::Torn {
            at: (bytes.len() - rest.len()) as u64,
            bytes: rest.len() as u64,
        }
    } else {
        End::Broken {
            line: line + 1,
            flaw: Flaw::Form,
        }
    }
}

/// Whether what stands at the end of a file may be the beginning of an entry. A machine that dies may leave zeros in place of
/// bytes, a process that dies may not.
fn is_torn(tail: &[u8], head: &Head) -> bool {
    let whole_but_its_end = tail.split_last().is_some_and(|(_, line)| check(line, head).is_ok());
    if whole_but_its_end {
        return false;
    }
    let zeros = tail.iter().rev().take_while(|byte| **byte == 0).count();
    let written = tail.get(..tail.len() - zeros).unwrap_or_default();
    let begins = head.next_begins();
    let common = begins.len().min(written.len());
    written.get(..common) == begins.as_bytes().get(..common)
}

#[cfg(test)]
mod tests;
