//! Signed tokens (JWT, RFC 7519): taking one apart, and what its signature is to be checked over.
//!
//! Nothing here is proof of anything. A token is taken apart to learn which issuer it names; only when that issuer's key
//! has been found to have signed it do its claims count. See RFC 8725 for the mistakes that this has to avoid.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use maitred_types::FaultKind;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::key::KEY_PREFIX;

/// Longest token that is looked at, in bytes.
pub const TOKEN_LEN_MAX: usize = 8192;

/// Types that a token may say it has. Others are made for other purposes (RFC 8725, section 3.11).
const TYPES: [&str; 3] = ["jwt", "at+jwt", "application/at+jwt"];

/// How a token may be signed. There is no way to write "not at all", or "with a shared secret".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// RSA, PKCS #1 v1.5, with SHA-256.
    Rs256,
    /// RSA, PKCS #1 v1.5, with SHA-384.
    Rs384,
    /// RSA, PKCS #1 v1.5, with SHA-512.
    Rs512,
    /// RSA, PSS, with SHA-256.
    Ps256,
    /// RSA, PSS, with SHA-384.
    Ps384,
    /// RSA, PSS, with SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// EdDSA on Ed25519.
    EdDsa,
}

impl Algorithm {
    /// Every algorithm, in the order of the reference.
    pub const ALL: &'static [Self] = &[
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
    ];

    /// Its name in tokens and keys (RFC 7518, section 3.1; RFC 8037, section 3.1).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        }
    }

    /// What it is, in a few words.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Rs256 => "RSA (PKCS #1 v1.5) with SHA-256.",
            Self::Rs384 => "RSA (PKCS #1 v1.5) with SHA-384.",
            Self::Rs512 => "RSA (PKCS #1 v1.5) with SHA-512.",
            Self::Ps256 => "RSA (PSS) with SHA-256.",
            Self::Ps384 => "RSA (PSS) with SHA-384.",
            Self::Ps512 => "RSA (PSS) with SHA-512.",
            Self::Es256 => "ECDSA on P-256 with SHA-256.",
            Self::Es384 => "ECDSA on P-384 with SHA-384.",
            Self::EdDsa => "EdDSA on Ed25519.",
        }
    }

    /// The algorithm of that name, if it is one that tokens may be signed with.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|algorithm| algorithm.name() == name)
    }
}

/// A token that has been taken apart. Its claims are whatever its maker liked until its signature has been checked.
#[derive(Clone)]
pub struct Token<'a> {
    /// What it says it is signed with.
    pub algorithm: Algorithm,
    /// Which of the issuer's keys it says it is signed with.
    pub key_id: Option<String>,
    /// What the signature is over.
    pub signed: &'a [u8],
    /// The signature.
    pub signature: Vec<u8>,
    pub(crate) claims: Map<String, Value>,
}

/// The part of a token that says how it is signed.
#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    kid: Option<String>,
    #[serde(default)]
    typ: Option<String>,
    #[serde(default)]
    crit: Option<Value>,
}

/// An object whose names are all different: two readers of one token must not see two truths.
struct Distinct(Map<String, Value>);

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(DistinctNames)
    }
}

struct DistinctNames;

impl<'de> Visitor<'de> for DistinctNames {
    type Value = Distinct;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("claims with different names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Distinct, A::Error> {
        let mut claims = Map::new();
        while let Some((name, value)) = access.next_entry::<String, Value>()? {
            if claims.insert(name, value).is_some() {
                return Err(A::Error::custom("a claim occurs twice"));
            }
        }
        Ok(Distinct(claims))
    }
}

impl<'a> Token<'a> {
    /// Whether `text` has the look of a token rather than of a key: three parts with full stops between them.
    #[must_use]
    pub fn is_like(text: &str) -> bool {
        !text.starts_with(KEY_PREFIX) && text.bytes().filter(|byte| *byte == b'.').count() == 2
    }

    /// Takes a token apart. Says nothing about its signature.
    ///
    /// # Errors
    /// [`TokenRefusal::Malformed`] or [`TokenRefusal::Algorithm`].
    pub fn parse(text: &'a str) -> Result<Self, TokenRefusal> {
        if text.len() > TOKEN_LEN_MAX {
            return Err(TokenRefusal::Malformed);
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(TokenRefusal::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(TokenRefusal::Malformed)?;
        if claims.contains('.') {
            return Err(TokenRefusal::Malformed);
        }
        let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| TokenRefusal::Malformed)?;
        let is_known = header
            .typ
            .is_none_or(|typ| TYPES.iter().any(|known| typ.eq_ignore_ascii_case(known)));
        // What is critical and not understood must be refused (RFC 7515, section 4.1.11), and nothing is understood.
        if !is_known || header.crit.is_some() {
            return Err(TokenRefusal::Malformed);
        }
        let algorithm = Algorithm::named(&header.alg).ok_or(TokenRefusal::Algorithm)?;
        let Distinct(claims) = serde_json::from_slice(&decode(claims)?).map_err(|_| TokenRefusal::Malformed)?;
        Ok(Self {
            algorithm,
            key_id: header.kid,
            signed: signed.as_bytes(),
            signature: decode(signature)?,
            claims,
        })
    }

    /// Who the token says has issued it.
    #[must_use]
    pub fn issuer(&self) -> Option<&str> {
        self.claims.get("iss")?.as_str()
    }
}

impl fmt::Debug for Token<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token")
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

/// Base64url as tokens have it: without padding, and with one text only for each run of bytes (RFC 7515, section 2).
fn decode(part: &str) -> Result<Vec<u8>, TokenRefusal> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenRefusal::Malformed)
}

/// Why a token is refused. The client is told little of it: a forger must not learn what was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRefusal {
    /// It has not the form of a token, is too large, or says something of itself that is not understood.
    Malformed,
    /// It is not signed with an algorithm that its issuer may use.
    Algorithm,
    /// Nobody is trusted who has the name that it gives as its issuer.
    Issuer,
    /// Its issuer has no such key.
    Key,
    /// The issuer's key has not made the signature.
    Signature,
    /// It is meant for somebody else.
    Audience,
    /// Its time is over.
    Expired,
    /// Its time has not come.
    NotYetValid,
    /// A claim that is needed is missing, or is not what it must be.
    Claim,
    /// The issuer's keys are not known, or not any more.
    NoKeys,
}

impl TokenRefusal {
    /// What the client is told. Only who holds a genuine token learns that its time is over.
    #[must_use]
    pub const fn fault(self) -> FaultKind {
        match self {
            Self::Expired => FaultKind::ExpiredKey,
            Self::NoKeys => FaultKind::IssuerUnavailable,
            _ => FaultKind::InvalidKey,
        }
    }

    /// What the operator is told.
    #[must_use]
    pub const fn detail(self) -> &'static str {
        match self {
            Self::Malformed => "the token is not well-formed",
            Self::Algorithm => "the token is signed in a way that its issuer may not use",
            Self::Issuer => "nobody is trusted whom the token gives as its issuer",
            Self::Key => "the token's issuer has no such key",
            Self::Signature => "the token's signature is wrong",
            Self::Audience => "the token is meant for somebody else",
            Self::Expired => "the token's time is over",
            Self::NotYetValid => "the token's time has not come",
            Self::Claim => "a claim of the token is missing or is not what it must be",
            Self::NoKeys => "the keys of the token's issuer are not known, or not any more",
        }
    }

    /// The word for metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Algorithm => "algorithm",
            Self::Issuer => "issuer",
            Self::Key => "key",
            Self::Signature => "signature",
            Self::Audience => "audience",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Claim => "claim",
            Self::NoKeys => "no_keys",
        }
    }
}

#[cfg(test)]
mod tests;
