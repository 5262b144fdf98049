//! Who may call: keys and their hashes, tokens and their issuers, certificates, and what each grants.
//!
//! A key is shown once, when it is made; from then on only its keyed hash exists. A [`KeyRing`] finds the grant of a
//! presented key. Several keys of one tenant live side by side, so a key is rotated by adding the new one, moving the
//! callers over and removing the old one. A [`Token`] is taken apart here, and what it grants is said by the [`IssuerRules`];
//! whether its signature is right is found out elsewhere. Whatever was shown, a [`Principal`] comes of it.
//!
//! This crate is pure: random bytes and the time are arguments. It knows no header, file or listener.

mod actor;
mod certificate;
pub mod fuzzing;
mod grant;
mod hash;
mod issuer;
mod jwk;
mod key;
mod prices;
mod principal;
mod quota;
mod ring;
mod token;

pub use actor::{Actor, ActorGrant, ActorProof, ActorRing, Role};
pub use certificate::{CertificateGrant, CertificateName, CertificateNames, common_name};
pub use grant::{KeyGrant, ModelGrant, ModelPattern, ModelPatternError, UserId};
pub use hash::{KeyHash, KeyHashError, KeyHasher};
pub use issuer::{ClaimPath, ClaimPathError, IssuerRules, TenantSource, TokenGrant};
pub use jwk::{KEY_SET_LEN_MAX, KeyMaterial, KeySet, KeySetError, PublicKey};
pub use key::{KEY_PREFIX, NEW_KEY_RANDOM_BYTES, NewKey};
pub use prices::{BILLIONTHS, Charge, Money, Price, Prices, Rates};
pub use principal::{OnBehalf, Principal, UserRefusal};
pub use quota::{
    Amount, Ask, Bank, Dimensions, Edition, FORGET_MILLIS, Known, LEASE_MILLIS, Limit, LimitMatch, Lookback, Measure,
    Moment, Past, Question, Quota, QuotaRefusal, QuotaViolation, Reservation, SharedOptions, SharedQuota, Standing,
    Subject, Terms, WithoutStore, Word,
};
pub use ring::{DuplicateKey, KeyRefusal, KeyRing};
pub use token::{Algorithm, TOKEN_LEN_MAX, Token, TokenRefusal};
