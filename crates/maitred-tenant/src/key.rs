//! The text of a key: `mtr-ID-SECRET`.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use maitred_types::KeyId;

use crate::{KeyHash, KeyHasher};

/// What every key starts with, so that secret scanners and people recognise one.
pub const KEY_PREFIX: &str = "mtr-";

/// Characters of a key's public id: 60 bits, so that ids made apart do not meet by chance.
pub(crate) const ID_LEN: usize = 12;

/// Characters of a key's secret: 32 bytes in base64url without padding.
pub(crate) const SECRET_LEN: usize = 43;

const KEY_LEN: usize = KEY_PREFIX.len() + ID_LEN + 1 + SECRET_LEN;

const SECRET_BYTES: usize = 32;

/// Random bytes that [`NewKey::make`] needs: 12 for the id, 32 for the secret.
pub const NEW_KEY_RANDOM_BYTES: usize = ID_LEN + SECRET_BYTES;

/// The alphabet of ids: lower-case base32 without the digits that look like letters (RFC 4648, section 6).
const ID_ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The two parts of a well-formed key. Neither is checked against anything yet.
#[derive(Clone, Copy)]
pub(crate) struct KeyParts<'a> {
    /// The public part.
    pub(crate) id: &'a str,
    /// The secret part.
    pub(crate) secret: &'a str,
}

impl<'a> KeyParts<'a> {
    /// Splits `text` when it has the form of a key and nothing more.
    pub(crate) fn parse(text: &'a str) -> Option<Self> {
        if text.len() != KEY_LEN {
            return None;
        }
        let rest = text.strip_prefix(KEY_PREFIX)?;
        let (id, rest) = rest.split_at_checked(ID_LEN)?;
        let secret = rest.strip_prefix('-')?;
        (is_id(id) && secret.bytes().all(is_secret_byte)).then_some(Self { id, secret })
    }
}

/// Whether `text` has the form of a key's id.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == ID_LEN && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7'))
}

fn is_secret_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

/// A key that has just been made. It is the only thing that ever holds a key's text beside the caller's own copy.
#[derive(Clone, PartialEq, Eq)]
pub struct NewKey {
    text: String,
}

impl NewKey {
    /// Makes a key of `random` bytes, which must come from the operating system's generator.
    #[must_use]
    pub fn make(random: &[u8; NEW_KEY_RANDOM_BYTES]) -> Self {
        let (id, secret) = random.split_at(ID_LEN);
        let mut text = String::with_capacity(KEY_LEN);
        text.push_str(KEY_PREFIX);
        text.extend(id.iter().map(|byte| char::from(ID_ALPHABET[usize::from(byte % 32)])));
        text.push('-');
        URL_SAFE_NO_PAD.encode_string(secret, &mut text);
        Self { text }
    }

    /// The key's text, to be shown to its owner once and kept nowhere.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// The public part.
    #[must_use]
    pub fn id(&self) -> KeyId {
        KeyId::from(self.parts().id)
    }

    /// What to store instead of the key.
    #[must_use]
    pub fn hash(&self, hasher: &KeyHasher) -> KeyHash {
        hasher.hash(self.parts())
    }

    fn parts(&self) -> KeyParts<'_> {
        let (head, secret) = self.text.split_at(KEY_LEN - SECRET_LEN);
        let id = head.trim_start_matches(KEY_PREFIX).trim_end_matches('-');
        KeyParts { id, secret }
    }
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewKey").field("id", &self.id()).finish_non_exhaustive()
    }
}
