//! Makers of signed tokens, as an identity provider makes them, and their public keys.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

/// A private key that signs tokens.
#[derive(Debug)]
pub struct TokenSigner {
    id: String,
    key: Key,
}

#[derive(Debug)]
enum Key {
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl TokenSigner {
    /// A new key of Ed25519.
    #[must_use]
    pub fn ed25519(id: &str) -> Self {
        Self::new(id, Key::Ed25519(Ed25519KeyPair::generate().expect("random numbers")))
    }

    /// A new key on P-256.
    #[must_use]
    pub fn p256(id: &str) -> Self {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING);
        Self::new(id, Key::P256(key.expect("random numbers")))
    }

    /// A new RSA key of 2048 bits.
    #[must_use]
    pub fn rsa(id: &str) -> Self {
        Self::new(
            id,
            Key::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).expect("random numbers")),
        )
    }

    fn new(id: &str, key: Key) -> Self {
        Self { id: id.to_owned(), key }
    }

    /// The algorithm's name in tokens.
    #[must_use]
    pub const fn algorithm(&self) -> &'static str {
        match self.key {
            Key::Ed25519(_) => "EdDSA",
            Key::P256(_) => "ES256",
            Key::Rsa(_) => "RS256",
        }
    }

    /// The bytes of the public key, as the library gives them.
    #[must_use]
    pub fn public(&self) -> &[u8] {
        match &self.key {
            Key::Ed25519(key) => key.public_key().as_ref(),
            Key::P256(key) => key.public_key().as_ref(),
            Key::Rsa(key) => key.public_key().as_ref(),
        }
    }

    /// The public key as JSON.
    #[must_use]
    pub fn jwk(&self) -> Value {
        let public = self.public();
        let part = |range| encode(public.get(range).expect("a key of this kind is so long"));
        match self.key {
            Key::Ed25519(_) => json!({ "kty": "OKP", "crv": "Ed25519", "kid": self.id, "x": part(0..32) }),
            Key::P256(_) => {
                json!({ "kty": "EC", "crv": "P-256", "kid": self.id, "x": part(1..33), "y": part(33..65) })
            }
            // SEQUENCE, INTEGER of 257 bytes the first of which is zero, INTEGER 65537.
            Key::Rsa(_) => json!({ "kty": "RSA", "kid": self.id, "use": "sig", "n": part(9..265), "e": "AQAB" }),
        }
    }

    /// Signs.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        match &self.key {
            Key::Ed25519(key) => key.sign(message).as_ref().to_vec(),
            Key::P256(key) => {
                let signature = key.sign(&SystemRandom::new(), message);
                signature.expect("a sound key signs").as_ref().to_vec()
            }
            Key::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature)
                    .expect("a sound key signs");
                signature
            }
        }
    }

    /// A token with these claims.
    #[must_use]
    pub fn token(&self, claims: &Value) -> String {
        self.token_with(
            &json!({ "alg": self.algorithm(), "typ": "JWT", "kid": self.id }),
            claims,
        )
    }

    /// A token with this header, whatever it says.
    #[must_use]
    pub fn token_with(&self, header: &Value, claims: &Value) -> String {
        let signed = unsigned(header, claims);
        let signature = self.sign(signed.as_bytes());
        format!("{signed}.{}", encode(&signature))
    }
}

/// The first two parts of a token.
#[must_use]
pub fn unsigned(header: &Value, claims: &Value) -> String {
    let encoded = |part: &Value| encode(part.to_string().as_bytes());
    format!("{}.{}", encoded(header), encoded(claims))
}

/// A key set of these public keys.
#[must_use]
pub fn key_set<'a>(signers: impl IntoIterator<Item = &'a TokenSigner>) -> String {
    let keys: Vec<Value> = signers.into_iter().map(TokenSigner::jwk).collect();
    json!({ "keys": keys }).to_string()
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
