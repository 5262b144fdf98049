//! The snapshots of a pool's endpoints in one file.
//!
//! ```text
//! "MTPF" version:u8 block:u32 | part* | 0:u64
//! part = length:u64 snapshot      see PrefixSnapshot
//! ```
//!
//! Numbers are little endian. `block` is the number of tokens in a block: with another one no hash can ever match. The zero at the end tells
//! a whole file from one that was cut between two parts. Each snapshot has its own checksum, so the file needs none.

use crate::prefix::SnapshotError;

const MAGIC: &[u8; 4] = b"MTPF";
const VERSION: u8 = 1;

/// The snapshots of a pool's endpoints in one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFile<'a> {
    /// Each for [`crate::PrefixSnapshot::parse`].
    pub parts: Vec<&'a [u8]>,
}

impl<'a> SnapshotFile<'a> {
    /// What a file of prompts cut into blocks of `block` tokens begins with.
    #[must_use]
    pub fn head(block: u32) -> Vec<u8> {
        let mut head = MAGIC.to_vec();
        head.push(VERSION);
        head.extend_from_slice(&block.to_le_bytes());
        head
    }

    /// What stands before a snapshot of so many bytes. That of 0 bytes ends the file.
    #[must_use]
    pub const fn before(bytes: usize) -> [u8; 8] {
        (bytes as u64).to_le_bytes()
    }

    /// Takes a file of blocks of `block` tokens apart.
    ///
    /// # Errors
    ///
    /// Why it cannot be used.
    pub fn parse(bytes: &'a [u8], block: u32) -> Result<Self, SnapshotError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(SnapshotError::NotOne)?;
        let (version, rest) = rest.split_first().ok_or(SnapshotError::NotOne)?;
        if *version != VERSION {
            return Err(SnapshotError::Version { version: *version });
        }
        let (found, mut rest) = rest.split_first_chunk().ok_or(SnapshotError::Malformed)?;
        if u32::from_le_bytes(*found) != block {
            return Err(SnapshotError::OtherBlocks);
        }
        let mut parts = Vec::new();
        loop {
            let (length, after) = rest.split_first_chunk().ok_or(SnapshotError::Malformed)?;
            let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| SnapshotError::Malformed)?;
            let (part, after) = after.split_at_checked(length).ok_or(SnapshotError::Malformed)?;
            match (length, after.is_empty()) {
                (0, true) => return Ok(Self { parts }),
                (0, false) => return Err(SnapshotError::Malformed),
                (1.., _) => parts.push(part),
            }
            rest = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(parts: &[&[u8]]) -> Vec<u8> {
        let mut file = SnapshotFile::head(64);
        for part in parts {
            file.extend_from_slice(&SnapshotFile::before(part.len()));
            file.extend_from_slice(part);
        }
        file.extend_from_slice(&SnapshotFile::before(0));
        file
    }

    #[test]
    fn what_is_written_is_read_and_a_part_of_it_is_not() {
        for parts in [vec![], vec![&b"one"[..]], vec![b"one", b"and another"]] {
            let file = written(&parts);
            assert_eq!(SnapshotFile::parse(&file, 64), Ok(SnapshotFile { parts }));
            for cut in 0..file.len() {
                assert!(SnapshotFile::parse(&file[..cut], 64).is_err(), "{cut} bytes");
            }
            assert!(SnapshotFile::parse(&[&file[..], b"x"].concat(), 64).is_err());
        }
    }

    #[test]
    fn other_blocks_and_versions_are_told() {
        let mut file = written(&[]);
        assert_eq!(SnapshotFile::parse(&file, 32), Err(SnapshotError::OtherBlocks));
        file[4] = 9;
        assert_eq!(
            SnapshotFile::parse(&file, 64),
            Err(SnapshotError::Version { version: 9 })
        );
    }
}
