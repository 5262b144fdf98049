//! Entries that belong together, as the payload of one frame.

use super::entry::Entry;
use crate::frame::wrap;

pub(super) use crate::frame::{Front, PAYLOAD_MAX, front};

/// Appends a frame with `entries`.
pub(super) fn write<S: AsRef<str>>(out: &mut Vec<u8>, entries: &[Entry<S>]) {
    wrap(out, |out| {
        for entry in entries {
            entry.write(out);
        }
    });
}

/// The entries of a payload; `None` if it holds anything else.
pub(super) fn entries(mut payload: &[u8]) -> Option<Vec<Entry<String>>> {
    let mut entries = Vec::with_capacity(2);
    while !payload.is_empty() {
        entries.push(Entry::read(&mut payload)?);
    }
    Some(entries)
}
