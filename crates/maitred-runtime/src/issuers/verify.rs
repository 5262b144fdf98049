//! Checking signatures.

use aws_lc_rs::signature::{
    self, EcdsaVerificationAlgorithm, ParsedPublicKey, RsaParameters, RsaPublicKeyComponents, VerificationAlgorithm,
};
use maitred_tenant::{Algorithm, KeyMaterial, KeySet, PublicKey, Token, TokenRefusal};

/// The keys of a set, each made ready for the algorithms that it fits and that the issuer may use. A key is bound to its
/// algorithm here, once, so that a token cannot have it used in another way.
#[derive(Debug)]
pub(super) struct VerifyingKeys(Vec<VerifyingKey>);

#[derive(Debug)]
struct VerifyingKey {
    id: Option<String>,
    algorithm: Algorithm,
    key: ParsedPublicKey,
}

impl VerifyingKeys {
    pub(super) fn new(set: &KeySet, algorithms: &[Algorithm]) -> Self {
        let pairs = set
            .keys
            .iter()
            .flat_map(|key| algorithms.iter().map(move |algorithm| (key, *algorithm)));
        let ready = pairs.filter(|(key, algorithm)| key.fits(*algorithm));
        let keys = ready.filter_map(|(key, algorithm)| {
            Some(VerifyingKey {
                id: key.id.clone(),
                algorithm,
                key: parse(key, algorithm)?,
            })
        });
        Self(keys.collect())
    }

    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    /// Checks the token's signature with the one key that it can be: the one that it names or, if it names none, the only
    /// one that there is for its algorithm.
    pub(super) fn verify(&self, token: &Token<'_>) -> Result<(), TokenRefusal> {
        let fits = |key: &&VerifyingKey| {
            let is_named = token.key_id.is_none() || key.id == token.key_id;
            is_named && key.algorithm == token.algorithm
        };
        let mut fitting = self.0.iter().filter(fits);
        let (Some(key), None) = (fitting.next(), fitting.next()) else {
            return Err(TokenRefusal::Key);
        };
        let verified = key.key.verify_sig(token.signed, &token.signature);
        verified.map_err(|_| TokenRefusal::Signature)
    }
}

fn parse(key: &PublicKey, algorithm: Algorithm) -> Option<ParsedPublicKey> {
    let other = |by: &'static dyn VerificationAlgorithm, bytes: &[u8]| ParsedPublicKey::new(by, bytes).ok();
    match (&key.material, algorithm) {
        (KeyMaterial::Rsa { modulus, exponent }, _) => {
            let components = RsaPublicKeyComponents {
                n: modulus,
                e: exponent,
            };
            components.to_parsed_public_key(rsa(algorithm)?).ok()
        }
        (KeyMaterial::P256(point), Algorithm::Es256) => other(&P256, point),
        (KeyMaterial::P384(point), Algorithm::Es384) => other(&P384, point),
        (KeyMaterial::Ed25519(key), Algorithm::EdDsa) => other(&signature::ED25519, key),
        _ => None,
    }
}

/// Signatures of fixed size, as tokens have them (RFC 7518, section 3.4).
static P256: EcdsaVerificationAlgorithm = signature::ECDSA_P256_SHA256_FIXED;
static P384: EcdsaVerificationAlgorithm = signature::ECDSA_P384_SHA384_FIXED;

fn rsa(algorithm: Algorithm) -> Option<&'static RsaParameters> {
    Some(match algorithm {
        Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
        Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
        Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
        Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa => return None,
    })
}
