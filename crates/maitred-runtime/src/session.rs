//! What binds calls together: those of one conversation, and those whose answers are of like length.

use twox_hash::XxHash3_64;

/// The session that a client names, as the scheduler wants it. The same name gives the same number on every gateway, so that
/// all send a conversation to the same endpoint.
#[must_use]
pub fn session_hash(name: &[u8]) -> u64 {
    XxHash3_64::oneshot(name)
}

/// What calls of one model, tenant and kind have in common: how long answers are is learnt for each such three.
#[must_use]
pub fn length_key(model: &str, tenant: &str, kind: u64) -> u64 {
    let tenant = XxHash3_64::oneshot_with_seed(kind, tenant.as_bytes());
    XxHash3_64::oneshot_with_seed(tenant, model.as_bytes())
}
