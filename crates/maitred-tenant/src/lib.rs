//! Who may call: keys, their hashes, and what they grant.
//!
//! A key is shown once, when it is made; from then on only its keyed hash exists. A [`KeyRing`] finds the grant of a
//! presented key. Several keys of one tenant live side by side, so a key is rotated by adding the new one, moving the
//! callers over and removing the old one.
//!
//! This crate is pure: random bytes and the time are arguments. It knows no header, file or listener.

mod grant;
mod hash;
mod key;
mod prices;
mod quota;
mod ring;

pub use grant::{KeyGrant, ModelGrant, ModelPattern, ModelPatternError, UserId};
pub use hash::{KeyHash, KeyHashError, KeyHasher};
pub use key::{KEY_PREFIX, NEW_KEY_RANDOM_BYTES, NewKey};
pub use prices::{BILLIONTHS, Money, Price, Prices, Rates};
pub use quota::{
    Amount, Dimensions, Limit, LimitMatch, Measure, Moment, Quota, QuotaRefusal, QuotaViolation, Reservation, Standing,
    Subject,
};
pub use ring::{DuplicateKey, KeyRefusal, KeyRing};
