//! The lines of a file, for the laboratory.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek};
use std::path::Path;

use maitred_sim::lab::workload::{LineSource, MAX_LINE};

/// A file, read line by line.
#[derive(Debug)]
pub(super) struct FileLines(BufReader<File>);

impl FileLines {
    pub(super) fn open(path: &Path) -> std::io::Result<Self> {
        File::open(path).map(|file| Self(BufReader::with_capacity(1 << 16, file)))
    }
}

impl LineSource for FileLines {
    fn next_line(&mut self, line: &mut Vec<u8>) -> Result<bool, String> {
        line.clear();
        // What is longer is refused by whoever reads the line.
        let mut bounded = (&mut self.0).take(MAX_LINE as u64 + 1);
        let read = bounded.read_until(b'\n', line).map_err(|error| error.to_string())?;
        Ok(read > 0)
    }

    fn rewind(&mut self) -> Result<(), String> {
        self.0.rewind().map_err(|error| error.to_string())
    }
}
