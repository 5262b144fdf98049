//! The journal of what is changed at run time: a [chain](crate::chain) of changes in one file, each with a number, its version. So
//! nothing is ever written over, every earlier state can be read back, and an entry that was not written to its end is none.
//!
//! Where several gateways share their changes, the same lines stand in a stream of Redis or Valkey, under their numbers. The server
//! takes a number once, so of two gateways that make a change at the same time one is told that it was late.

use std::path::Path;

use crate::chain::{ChainError, ChainFile, Flaw, Head, check, seal};

mod shared;

pub use shared::{Published, SharedJournal, SharedReader};

/// The file of one gateway.
#[derive(Debug)]
pub struct Journal {
    file: ChainFile,
    head: Head,
    lines: Vec<Vec<u8>>,
}

impl Journal {
    /// Opens the file at `path`, or makes it.
    ///
    /// # Errors
    /// It cannot be read or written, or something in it was changed.
    pub fn open(path: &Path) -> Result<Self, ChainError> {
        let mut lines = Vec::new();
        let (file, found) = ChainFile::open(path, |_| Head::EMPTY, |line, _| lines.push(line.to_vec()))?;
        Ok(Self {
            file,
            head: found.head,
            lines,
        })
    }

    /// The newest entry.
    #[must_use]
    pub const fn head(&self) -> Head {
        self.head
    }

    /// The lines of all entries, oldest first, without their ends.
    #[must_use]
    pub fn lines(&self) -> &[Vec<u8>] {
        &self.lines
    }

    /// The line of the next entry, with these members of a JSON object; it is not written.
    #[must_use]
    pub fn seal(&self, members: &[u8]) -> Vec<u8> {
        let mut line = Vec::new();
        seal(&self.head, members, &mut line);
        line.pop();
        line
    }

    /// Whether `line` is the next entry.
    ///
    /// # Errors
    /// Says why it is not.
    pub fn fits(&self, line: &[u8]) -> Result<Head, Flaw> {
        check(line, &self.head)
    }

    /// Appends `line` and waits until the disk has it.
    ///
    /// # Errors
    /// It is not the next entry, or the disk does not take it; then it is not there.
    pub fn append(&mut self, line: &[u8]) -> Result<Head, std::io::Error> {
        let head = self
            .fits(line)
            .map_err(|flaw| std::io::Error::other(flaw.to_string()))?;
        let before = self.file.length();
        let mut ended = line.to_vec();
        ended.push(b'\n');
        self.file.append(&ended)?;
        if let Err(error) = self.file.sync() {
            self.file.cut(before);
            return Err(error);
        }
        self.head = head;
        self.lines.push(line.to_vec());
        Ok(head)
    }
}

#[cfg(test)]
mod tests;
