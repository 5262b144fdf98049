//! What one endpoint holds, as bytes: written when the gateway stops and now and then before, read when it starts.
//!
//! A snapshot is of one endpoint, so that writing one holds the pool up for a moment only. It names the endpoint by its address and by a
//! *mark* of its incarnation, such as the time its engine says it was started; a snapshot of another life is worthless and is refused.
//!
//! ```text
//! "MTPX" version:u8 checksum:u64 | address | mark:u64 | entries | entry*
//! entry = back unit blocks hash:u64*      the most recently used first
//! ```
//!
//! Numbers without a width are varints of seven bits each, others little endian. `back` says how many entries before it the one is that
//! it goes on from, 0 for none; `unit` is the size of a block in 256ths of a token. A run comes after the one it goes on
//! from, so a snapshot that is cut short by its budget loses what was not used for longest, and nothing hangs in the air.
//!
//! The bytes come from a disk and are taken for anybody's: lengths are checked before anything is allocated, and what cannot be is
//! refused as a whole.

use std::fmt;
use std::num::NonZeroU32;

use crate::hash::mix;
use crate::prefix::MAX_BLOCKS;

const MAGIC: &[u8; 4] = b"MTPX";
const VERSION: u8 = 1;
/// Bytes before the checksummed part.
const HEAD: usize = MAGIC.len() + 1 + size_of::<u64>();
/// The longest address.
const MAX_ADDRESS: usize = 1_024;
/// Bytes that an entry takes beside its hashes, at most.
const ENTRY: usize = 16;

/// Why bytes are no snapshot that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// They do not begin as a snapshot does.
    NotOne,
    /// They are of another version.
    Version {
        /// Which.
        version: u8,
    },
    /// They are damaged: the checksum is another one.
    Damaged,
    /// They say something that cannot be.
    Malformed,
    /// They are of another endpoint, or of another life of it.
    OtherLife,
    /// They are of prompts cut into blocks of another size.
    OtherBlocks,
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotOne => f.write_str("this is no snapshot of prefixes"),
            Self::Version { version } => write!(f, "the snapshot is of version {version}, and {VERSION} is understood"),
            Self::Damaged => f.write_str("the snapshot is damaged: its checksum does not fit"),
            Self::Malformed => f.write_str("the snapshot is malformed"),
            Self::OtherLife => f.write_str("the snapshot is of another endpoint or of an earlier life of it"),
            Self::OtherBlocks => f.write_str("the snapshot is of prompts cut into blocks of another size"),
        }
    }
}

impl std::error::Error for SnapshotError {}

/// One run of blocks in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The entry that it goes on from.
    pub(crate) parent: Option<usize>,
    pub(crate) unit: NonZeroU32,
    pub(crate) run: Vec<u64>,
    /// Blocks before it and its own.
    pub(crate) end: usize,
}

/// A snapshot that has been read and makes sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixSnapshot {
    pub(crate) address: String,
    pub(crate) mark: u64,
    pub(crate) entries: Vec<Entry>,
}

impl PrefixSnapshot {
    /// Whose it is.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Of which life.
    #[must_use]
    pub const fn mark(&self) -> u64 {
        self.mark
    }

    /// How many blocks are in it.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.entries.iter().map(|entry| entry.run.len()).sum()
    }

    /// Reads a snapshot. Takes no more memory than a few times the bytes.
    ///
    /// # Errors
    ///
    /// Why the bytes cannot be used.
    pub fn parse(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(SnapshotError::NotOne)?;
        let (version, rest) = rest.split_first().ok_or(SnapshotError::NotOne)?;
        if *version != VERSION {
            return Err(SnapshotError::Version { version: *version });
        }
        let mut reader = Reader { bytes: rest };
        let checksum = reader.word()?;
        if checksum != sum(reader.bytes) {
            return Err(SnapshotError::Damaged);
        }
        let length = reader.size()?;
        let address = reader.take(length.min(MAX_ADDRESS + 1))?;
        if length > MAX_ADDRESS {
            return Err(SnapshotError::Malformed);
        }
        let address = std::str::from_utf8(address).map_err(|_| SnapshotError::Malformed)?;
        let mark = reader.word()?;
        let count = reader.size()?;
        let mut entries = Vec::with_capacity(count.min(reader.bytes.len() / size_of::<u64>()));
        for _ in 0..count {
            let entry = reader.entry(&entries)?;
            entries.push(entry);
        }
        if !reader.bytes.is_empty() {
            return Err(SnapshotError::Malformed);
        }
        Ok(Self {
            address: address.to_owned(),
            mark,
            entries,
        })
    }
}

/// Writes a snapshot entry by entry, until its budget is used up.
#[derive(Debug)]
pub(crate) struct Writer {
    head: Vec<u8>,
    entries: Vec<u8>,
    count: usize,
    budget: usize,
}

impl Writer {
    pub(crate) fn new(address: &str, mark: u64, budget: usize) -> Self {
        let mut head = Vec::with_capacity(address.len() + 16);
        put(&mut head, address.len() as u64);
        head.extend_from_slice(address.as_bytes());
        head.extend_from_slice(&mark.to_le_bytes());
        Self {
            budget: budget.saturating_sub(HEAD + head.len() + 10),
            head,
            entries: Vec::new(),
            count: 0,
        }
    }

    /// How many entries there are.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Adds a run that goes on from entry `parent`. False, and nothing added, when there is no room for it.
    pub(crate) fn add(&mut self, parent: Option<usize>, unit: NonZeroU32, run: &[u64]) -> bool {
        if self.entries.len() + ENTRY + size_of_val(run) > self.budget {
            return false;
        }
        let back = parent.map_or(0, |parent| self.count - parent);
        for number in [back as u64, u64::from(unit.get()), run.len() as u64] {
            put(&mut self.entries, number);
        }
        for hash in run {
            self.entries.extend_from_slice(&hash.to_le_bytes());
        }
        self.count += 1;
        true
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        put(&mut self.head, self.count as u64);
        self.head.append(&mut self.entries);
        seal(&self.head)
    }
}

/// A snapshot of this content: with its head and its checksum.
pub(crate) fn seal(content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD + content.len());
    bytes.extend_from_slice(MAGIC);
    bytes.push(VERSION);
    bytes.extend_from_slice(&sum(content).to_le_bytes());
    bytes.extend_from_slice(content);
    bytes
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], SnapshotError> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(SnapshotError::Malformed)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn word(&mut self) -> Result<u64, SnapshotError> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(SnapshotError::Malformed)?;
        self.bytes = rest;
        Ok(u64::from_le_bytes(*taken))
    }

    fn number(&mut self) -> Result<u64, SnapshotError> {
        let mut number = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.take(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(SnapshotError::Malformed)
    }

    fn size(&mut self) -> Result<usize, SnapshotError> {
        usize::try_from(self.number()?).map_err(|_| SnapshotError::Malformed)
    }

    fn small(&mut self) -> Result<u32, SnapshotError> {
        u32::try_from(self.number()?).map_err(|_| SnapshotError::Malformed)
    }

    fn entry(&mut self, before: &[Entry]) -> Result<Entry, SnapshotError> {
        let (back, unit, blocks) = (self.size()?, self.small()?, self.size()?);
        let unit = NonZeroU32::new(unit).ok_or(SnapshotError::Malformed)?;
        let parent = match back {
            0 => None,
            back => Some(before.len().checked_sub(back).ok_or(SnapshotError::Malformed)?),
        };
        let start = parent.map_or(0, |parent| before[parent].end);
        let end = start.saturating_add(blocks);
        let length = blocks.checked_mul(size_of::<u64>()).ok_or(SnapshotError::Malformed)?;
        if blocks == 0 || end > MAX_BLOCKS {
            return Err(SnapshotError::Malformed);
        }
        let (hashes, _) = self.take(length)?.as_chunks();
        Ok(Entry {
            parent,
            unit,
            run: hashes.iter().map(|hash| u64::from_le_bytes(*hash)).collect(),
            end,
        })
    }
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    bytes.push(number.to_le_bytes()[0]);
}

/// A checksum against accidents, by words.
fn sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain(std::iter::once(&last));
    words.fold(bytes.len() as u64, |sum, word| mix(sum ^ u64::from_le_bytes(*word)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UNIT: NonZeroU32 = NonZeroU32::new(4_096).unwrap();

    fn written() -> Vec<u8> {
        let mut writer = Writer::new("10.0.0.1:8000", 42, 10_000);
        assert!(writer.add(None, UNIT, &[1, 2, 3]));
        assert!(writer.add(Some(0), UNIT, &[4]));
        assert!(writer.add(None, UNIT, &[9; 50]));
        assert!(writer.add(Some(1), UNIT, &[5, 6]));
        writer.finish()
    }

    #[test]
    fn what_is_written_is_read() {
        let snapshot = PrefixSnapshot::parse(&written()).unwrap();
        assert_eq!(
            (snapshot.address(), snapshot.mark(), snapshot.blocks()),
            ("10.0.0.1:8000", 42, 56)
        );
        let shape: Vec<_> = snapshot.entries.iter().map(|entry| (entry.parent, entry.end)).collect();
        assert_eq!(shape, [(None, 3), (Some(0), 4), (None, 50), (Some(1), 6)]);
    }

    #[test]
    fn every_damage_is_seen() {
        let bytes = written();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert!(PrefixSnapshot::parse(&damaged).is_err(), "bit {bit} of byte {at}");
            }
            assert!(PrefixSnapshot::parse(&bytes[..at]).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn a_budget_is_kept() {
        for budget in 0..2_000 {
            let mut writer = Writer::new("a:1", 1, budget);
            let mut last = None;
            while writer.add(last, UNIT, &[7; 9]) {
                last = Some(writer.count() - 1);
            }
            let bytes = writer.finish();
            assert!(bytes.len() <= budget.max(40), "{} of {budget}", bytes.len());
            assert!(PrefixSnapshot::parse(&bytes).is_ok());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_end_well(content in proptest::collection::vec(any::<u8>(), 0..400)) {
            drop(PrefixSnapshot::parse(&content));
            // With the right head the rest is looked at too.
            crate::fuzzing::fuzz_snapshot(&content);
        }

        #[test]
        fn any_number_comes_back(number in any::<u64>()) {
            let mut bytes = Vec::new();
            put(&mut bytes, number);
            let read = Reader { bytes: &bytes }.number();
            // Numbers of more than 63 bits are never written.
            prop_assert_eq!(read.ok(), (number < 1 << 63).then_some(number));
        }
    }
}
