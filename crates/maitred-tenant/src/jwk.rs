//! Sets of public keys as issuers publish them (JWK sets, RFC 7517; RFC 7518, section 6; RFC 8037).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::Algorithm;

/// Largest key set that is read, in bytes.
pub const KEY_SET_LEN_MAX: usize = 256 << 10;
/// Most keys of one set.
const KEYS_MAX: usize = 100;
/// Bytes of an RSA modulus: at least 2048 bits, at most 8192.
const MODULUS_LEN: std::ops::RangeInclusive<usize> = 256..=1024;

/// One public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    /// What tokens call it.
    pub id: Option<String>,
    /// The one algorithm that it is for, if it says so.
    algorithm: Option<Algorithm>,
    /// The key itself.
    pub material: KeyMaterial,
}

/// The numbers of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyMaterial {
    /// An RSA key.
    Rsa {
        /// The modulus, big-endian, without leading zeros.
        modulus: Vec<u8>,
        /// The exponent, likewise.
        exponent: Vec<u8>,
    },
    /// A point on P-256, uncompressed: 4, x, y.
    P256([u8; 65]),
    /// A point on P-384, likewise.
    P384([u8; 97]),
    /// A key of Ed25519.
    Ed25519([u8; 32]),
}

impl PublicKey {
    /// Whether signatures by `algorithm` are to be checked with this key: it is of that kind, and does not say that it is
    /// for another use. The token's own word never makes a key something that it is not.
    #[must_use]
    pub fn fits(&self, algorithm: Algorithm) -> bool {
        let is_kind = match algorithm {
            Algorithm::Rs256
            | Algorithm::Rs384
            | Algorithm::Rs512
            | Algorithm::Ps256
            | Algorithm::Ps384
            | Algorithm::Ps512 => matches!(self.material, KeyMaterial::Rsa { .. }),
            Algorithm::Es256 => matches!(self.material, KeyMaterial::P256(_)),
            Algorithm::Es384 => matches!(self.material, KeyMaterial::P384(_)),
            Algorithm::EdDsa => matches!(self.material, KeyMaterial::Ed25519(_)),
        };
        is_kind && self.algorithm.is_none_or(|only| only == algorithm)
    }
}

/// The keys of a set that signatures can be checked with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySet {
    /// In the order of the set.
    pub keys: Vec<PublicKey>,
    /// How many others there are: for other uses, of other kinds, or broken. Sets may hold keys that a reader does not know
    /// (RFC 7517, section 5).
    pub passed_over: usize,
}

impl KeySet {
    /// Reads a set.
    ///
    /// # Errors
    /// The bytes are no set of keys, or too many.
    pub fn parse(bytes: &[u8]) -> Result<Self, KeySetError> {
        #[derive(Deserialize)]
        struct Raw<'a> {
            #[serde(borrow)]
            keys: Vec<&'a RawValue>,
        }

        if bytes.len() > KEY_SET_LEN_MAX {
            return Err(KeySetError::TooLarge);
        }
        let raw: Raw<'_> = serde_json::from_slice(bytes).map_err(|_| KeySetError::Form)?;
        if raw.keys.len() > KEYS_MAX {
            return Err(KeySetError::TooLarge);
        }
        let keys: Vec<_> = raw.keys.iter().filter_map(|key| read_key(key.get())).collect();
        Ok(Self {
            passed_over: raw.keys.len() - keys.len(),
            keys,
        })
    }
}

#[derive(Deserialize)]
struct RawKey {
    kty: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    alg: Option<String>,
    #[serde(default, rename = "use")]
    used_for: Option<String>,
    #[serde(default)]
    key_ops: Option<Vec<String>>,
    #[serde(default)]
    crv: Option<String>,
    #[serde(default)]
    n: Option<String>,
    #[serde(default)]
    e: Option<String>,
    #[serde(default)]
    x: Option<String>,
    #[serde(default)]
    y: Option<String>,
    /// There only if somebody has published the private key, which is then worth nothing.
    #[serde(default)]
    d: Option<serde::de::IgnoredAny>,
}

fn read_key(text: &str) -> Option<PublicKey> {
    let raw: RawKey = serde_json::from_str(text).ok()?;
    let checks = raw.used_for.as_deref().is_none_or(|used| used == "sig")
        && raw
            .key_ops
            .as_ref()
            .is_none_or(|uses| uses.iter().any(|op| op == "verify"));
    if !checks || raw.d.is_some() {
        return None;
    }
    let algorithm = match raw.alg.as_deref() {
        None => None,
        Some(name) => Some(Algorithm::named(name)?),
    };
    let material = match (raw.kty.as_str(), raw.crv.as_deref()) {
        ("RSA", _) => {
            let (modulus, exponent) = (number(raw.n.as_deref())?, number(raw.e.as_deref())?);
            let is_sound = MODULUS_LEN.contains(&modulus.len()) && exponent.len() <= 8;
            is_sound.then_some(KeyMaterial::Rsa { modulus, exponent })?
        }
        ("EC", Some("P-256")) => KeyMaterial::P256(point::<65>(raw.x.as_deref(), raw.y.as_deref())?),
        ("EC", Some("P-384")) => KeyMaterial::P384(point::<97>(raw.x.as_deref(), raw.y.as_deref())?),
        ("OKP", Some("Ed25519")) => KeyMaterial::Ed25519(bytes(raw.x.as_deref())?.try_into().ok()?),
        _ => return None,
    };
    let key = PublicKey {
        id: raw.kid,
        algorithm,
        material,
    };
    // A key of one kind that claims to be for another is broken.
    algorithm.is_none_or(|only| key.fits(only)).then_some(key)
}

fn bytes(text: Option<&str>) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text?).ok()
}

/// A number, of which some write leading zeros although they must not.
fn number(text: Option<&str>) -> Option<Vec<u8>> {
    let all = bytes(text)?;
    let first = all.iter().position(|byte| *byte != 0)?;
    all.get(first..).map(<[u8]>::to_vec)
}

fn point<const N: usize>(x: Option<&str>, y: Option<&str>) -> Option<[u8; N]> {
    let (x, y) = (bytes(x)?, bytes(y)?);
    let half = N / 2;
    if x.len() != half || y.len() != half {
        return None;
    }
    let mut point = [4; N];
    point.get_mut(1..=half)?.copy_from_slice(&x);
    point.get_mut(half + 1..)?.copy_from_slice(&y);
    Some(point)
}

/// Why bytes are no set of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySetError {
    /// They are not JSON of the form `{"keys": [...]}`.
    Form,
    /// They are more than is read.
    TooLarge,
}

impl fmt::Display for KeySetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "it is not a JSON Web Key Set",
            Self::TooLarge => "it is larger than a key set may be",
        })
    }
}

impl std::error::Error for KeySetError {}

#[cfg(test)]
mod tests;
