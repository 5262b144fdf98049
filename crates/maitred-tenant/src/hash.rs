//! Keyed hashes of keys: what is stored instead of them.

use std::fmt;
use std::fmt::Write as _;

use hmac::{Hmac, KeyInit as _, Mac as _};
use maitred_types::KeyId;
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

use crate::key::{self, KeyParts};

const SCHEME: &str = "hmac-sha256";
const DIGEST_LEN: usize = 32;

/// Makes the hashes of keys under one pepper.
///
/// The hash is HMAC-SHA-256 (RFC 2104) over the key's id followed by its secret, `mtr-` and the hyphen left out. These 55
/// bytes are the most that SHA-256 takes in one block with its padding, so a check costs two compressions: the two that
/// absorb the pepper are done once, here.
///
/// The secret has 256 random bits, so a slow password hash would add cost and no safety.
#[derive(Clone)]
pub struct KeyHasher {
    keyed: Hmac<Sha256>,
}

impl KeyHasher {
    /// A hasher under `pepper`: a secret of the gateway that is not stored beside the hashes. Without one the hash is
    /// keyed with the empty string, and the key's id in the message serves as the salt.
    #[must_use]
    pub fn new(pepper: Option<&[u8]>) -> Self {
        let pepper = pepper.unwrap_or_default();
        #[expect(
            clippy::expect_used,
            reason = "HMAC takes a key of any length; the error type is there for other MACs"
        )]
        let keyed = Hmac::new_from_slice(pepper).expect("HMAC takes a key of any length");
        Self { keyed }
    }

    pub(crate) fn hash(&self, key: KeyParts<'_>) -> KeyHash {
        KeyHash {
            id: KeyId::from(key.id),
            digest: self.digest(key),
        }
    }

    pub(crate) fn digest(&self, key: KeyParts<'_>) -> [u8; DIGEST_LEN] {
        let mut mac = self.keyed.clone();
        mac.update(key.id.as_bytes());
        mac.update(key.secret.as_bytes());
        mac.finalize().into_bytes().into()
    }
}

impl PartialEq for KeyHasher {
    /// Whether both have the same pepper, in constant time.
    fn eq(&self, other: &Self) -> bool {
        let of = |hasher: &Self| -> [u8; DIGEST_LEN] { hasher.keyed.clone().finalize().into_bytes().into() };
        of(self).ct_eq(&of(other)).into()
    }
}

impl Eq for KeyHasher {}

impl fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHasher(..)")
    }
}

/// The keyed hash of one key, with the key's public id. Its text is `hmac-sha256:ID:HEX`.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyHash {
    id: KeyId,
    digest: [u8; DIGEST_LEN],
}

impl KeyHash {
    /// Reads the text that [`fmt::Display`] writes.
    ///
    /// # Errors
    /// Says what is wrong with the text and at which byte.
    pub fn parse(text: &str) -> Result<Self, KeyHashError> {
        if text.starts_with(key::KEY_PREFIX) {
            return Err(KeyHashError::IsKey);
        }
        let rest = text.strip_prefix(SCHEME).and_then(|rest| rest.strip_prefix(':'));
        let (id, hex) = rest.and_then(|rest| rest.split_once(':')).ok_or(KeyHashError::Form)?;
        let id_at = SCHEME.len() + 1;
        if !key::is_id(id) {
            return Err(KeyHashError::Id { at: id_at });
        }
        let digest = read_hex(hex, id_at + id.len() + 1)?;
        Ok(Self {
            id: KeyId::from(id),
            digest,
        })
    }

    /// The public part of the key.
    #[must_use]
    pub fn id(&self) -> &KeyId {
        &self.id
    }

    /// Compares in constant time.
    pub(crate) fn is_digest(&self, digest: &[u8; DIGEST_LEN]) -> bool {
        self.digest.ct_eq(digest).into()
    }
}

fn read_hex(hex: &str, at: usize) -> Result<[u8; DIGEST_LEN], KeyHashError> {
    if hex.len() != 2 * DIGEST_LEN {
        return Err(KeyHashError::HexLength { at, found: hex.len() });
    }
    let mut digest = [0; DIGEST_LEN];
    for (index, byte) in hex.bytes().enumerate() {
        let nibble = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => return Err(KeyHashError::Hex { at: at + index }),
        };
        digest[index / 2] = digest[index / 2] << 4 | nibble;
    }
    Ok(digest)
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}:{}:", self.id)?;
        self.digest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash(")?;
        f.write_str(self.id.as_str())?;
        f.write_char(')')
    }
}

/// Why a text is not the hash of a key. Positions are bytes from the start of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyHashError {
    /// It is a key, and keys are not to be stored.
    IsKey,
    /// It has not the three parts.
    Form,
    /// The id is not 12 characters of `a-z` and `2-7`.
    Id {
        /// Where the id starts.
        at: usize,
    },
    /// The digest has not 64 digits.
    HexLength {
        /// Where the digest starts.
        at: usize,
        /// How many characters there are.
        found: usize,
    },
    /// A character of the digest is not a lower-case hexadecimal digit.
    Hex {
        /// Where the character is.
        at: usize,
    },
}

impl KeyHashError {
    /// The byte that the message is about.
    #[must_use]
    pub const fn at(self) -> usize {
        match self {
            Self::IsKey | Self::Form => 0,
            Self::Id { at } | Self::HexLength { at, .. } | Self::Hex { at } => at,
        }
    }
}

impl fmt::Display for KeyHashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IsKey => f.write_str(
                "this is a key, not its hash; replace the key, since it has now been written down, and store what `maitred keys new` prints as the hash",
            ),
            Self::Form => write!(f, "a hash has the form `{SCHEME}:ID:HEX`, as `maitred keys new` prints it"),
            Self::Id { .. } => f.write_str("the id of a key is 12 characters of `a` to `z` and `2` to `7`"),
            Self::HexLength { found, .. } => {
                write!(f, "the digest is 64 lower-case hexadecimal digits, not {found} characters")
            }
            Self::Hex { at } => write!(f, "character {} is not a lower-case hexadecimal digit", at + 1),
        }
    }
}

impl std::error::Error for KeyHashError {}
