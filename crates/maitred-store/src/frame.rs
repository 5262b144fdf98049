//! Frames: how what is written lies in append-only files, so that a torn or damaged piece is known as such.
//!
//! A frame is the length of its payload (four bytes, little endian), a hash of it (eight bytes, XXH3), and the payload.

use twox_hash::XxHash3_64;

/// Bytes before a payload.
pub(crate) const HEAD: usize = 12;
/// Largest payload that is believed.
pub(crate) const PAYLOAD_MAX: usize = 256 << 10;

/// Appends a frame with the payload that `fill` appends.
pub(crate) fn wrap(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD]);
    fill(out);
    let payload = out.get(start + HEAD..).unwrap_or_default();
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_le_bytes();
    let hash = XxHash3_64::oneshot(payload).to_le_bytes();
    if let Some(head) = out.get_mut(start..start + HEAD) {
        let (first, second) = head.split_at_mut(4);
        first.copy_from_slice(&length);
        second.copy_from_slice(&hash);
    }
}

/// What lies at the front of some bytes of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Front<'a> {
    /// A frame: its payload, and its whole length.
    Frame(&'a [u8], usize),
    /// The beginning of a frame, or nothing.
    Partial,
    /// No frame.
    Damaged,
}

/// Looks at the front of `bytes`.
pub(crate) fn front(bytes: &[u8]) -> Front<'_> {
    let Some((head, rest)) = bytes.split_at_checked(HEAD) else {
        return Front::Partial;
    };
    let Some((length, hash)) = head.split_first_chunk::<4>() else {
        return Front::Partial;
    };
    let length = u32::from_le_bytes(*length) as usize;
    if length == 0 || length > PAYLOAD_MAX {
        return Front::Damaged;
    }
    let Some(payload) = rest.get(..length) else {
        return Front::Partial;
    };
    if hash == XxHash3_64::oneshot(payload).to_le_bytes() {
        Front::Frame(payload, HEAD + length)
    } else {
        Front::Damaged
    }
}
