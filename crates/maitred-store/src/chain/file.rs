//! A chain in one file, which is appended to.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use super::{End, Flaw, Head, read};

/// Why a chain cannot be gone on with.
#[derive(Debug)]
pub enum ChainError {
    /// The file cannot be read or written.
    File(PathBuf, io::Error),
    /// It holds something that no writer has written.
    Broken {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        flaw: Flaw,
    },
    /// Another process writes it.
    Taken(PathBuf),
}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file, error) => write!(f, "{}: {error}", file.display()),
            Self::Broken { file, line, flaw } => write!(f, "{}, line {line}: {flaw}", file.display()),
            Self::Taken(file) => write!(f, "{} is written by another process", file.display()),
        }
    }
}

impl std::error::Error for ChainError {}

/// A file with the entries of a chain, open for more.
#[derive(Debug)]
pub(crate) struct ChainFile {
    file: File,
    length: u64,
}

/// What was found in a file when it was opened.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) head: Head,
    /// Bytes of an entry that was not written to its end, and were cut off.
    pub(crate) torn: u64,
}

impl ChainFile {
    /// Opens `path`, or makes it. Hands every line to `take`; cuts off an entry that was not written to its end. `first` gives
    /// the head before the file's first line.
    pub(crate) fn open(
        path: &Path,
        first: impl FnOnce(&[u8]) -> Head,
        take: impl FnMut(&[u8], &Head),
    ) -> Result<(Self, Found), ChainError> {
        let failed = |error| ChainError::File(path.to_owned(), error);
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(failed)?;
        let mut bytes = Vec::new();
        (&file).read_to_end(&mut bytes).map_err(failed)?;
        let mut head = first(&bytes);
        let (length, torn) = match read(&bytes, &mut head, take) {
            End::Whole => (bytes.len() as u64, 0),
            End::Torn { at, bytes } => {
                file.set_len(at).and_then(|()| file.sync_all()).map_err(failed)?;
                (at, bytes)
            }
            End::Broken { line, flaw } => {
                let file = path.to_owned();
                return Err(ChainError::Broken { file, line, flaw });
            }
        };
        // The file's name must be as durable as what will be in it.
        File::open(folder_of(path))
            .and_then(|folder| folder.sync_all())
            .map_err(failed)?;
        Ok((Self { file, length }, Found { head, torn }))
    }

    /// Bytes in it.
    pub(crate) const fn length(&self) -> u64 {
        self.length
    }

    /// Appends lines, whole or, as far as the disk lets it, not at all.
    pub(crate) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        // What an earlier failure may have left.
        if self.file.metadata()?.len() != self.length {
            self.file.set_len(self.length)?;
        }
        if let Err(error) = self.file.write_all(lines) {
            let _again_later = self.file.set_len(self.length);
            return Err(error);
        }
        self.length += lines.len() as u64;
        Ok(())
    }

    /// Takes back what was appended behind `length`: the next append cuts it off.
    pub(crate) fn cut(&mut self, length: u64) {
        self.length = self.length.min(length);
    }

    /// Waits until the disk has everything.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// The folder that `path` is in; the one that the process runs in if it is a bare name.
fn folder_of(path: &Path) -> &Path {
    let named = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    named.unwrap_or(Path::new("."))
}
