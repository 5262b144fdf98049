//! What binds the calls of one conversation together.

use twox_hash::XxHash3_64;

/// The session that a client names, as the scheduler wants it. The same name gives the same number on every gateway, so that
/// all send a conversation to the same endpoint.
#[must_use]
pub fn session_hash(name: &[u8]) -> u64 {
    XxHash3_64::oneshot(name)
}
