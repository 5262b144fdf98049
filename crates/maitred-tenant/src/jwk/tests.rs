use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;

use super::*;

fn b64(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn rsa(more: &str) -> String {
    format!(r#"{{"kty":"RSA","n":"{}","e":"AQAB"{more}}}"#, b64(&[0x80; 256]))
}

fn ec(curve: &str, size: usize, more: &str) -> String {
    let half = b64(&vec![1; size]);
    format!(r#"{{"kty":"EC","crv":"{curve}","x":"{half}","y":"{half}"{more}}}"#)
}

fn set(keys: &[String]) -> KeySet {
    KeySet::parse(format!(r#"{{"keys":[{}]}}"#, keys.join(",")).as_bytes()).unwrap()
}

#[test]
fn keys_of_each_kind_fit_their_own_algorithms_only() {
    let check = |key: String, fits: &[Algorithm]| {
        let set = set(std::slice::from_ref(&key));
        let found: Vec<_> = Algorithm::ALL
            .iter()
            .copied()
            .filter(|algorithm| set.keys[0].fits(*algorithm))
            .collect();
        assert_eq!(found, fits, "{key}");
    };
    check(rsa(""), &Algorithm::ALL[..6]);
    check(rsa(r#","alg":"RS256""#), &[Algorithm::Rs256]);
    check(ec("P-256", 32, ""), &[Algorithm::Es256]);
    check(ec("P-384", 48, r#","use":"sig""#), &[Algorithm::Es384]);
    let ed = format!(
        r#"{{"kty":"OKP","crv":"Ed25519","x":"{}","key_ops":["verify"]}}"#,
        b64(&[9; 32])
    );
    check(ed, &[Algorithm::EdDsa]);
}

#[test]
fn keys_that_are_not_for_this_are_passed_over() {
    let bad = [
        rsa(r#","use":"enc""#),
        rsa(r#","key_ops":["encrypt"]"#),
        rsa(r#","alg":"RSA-OAEP""#),
        rsa(r#","alg":"HS256""#),
        rsa(r#","alg":"none""#),
        rsa(r#","alg":"ES256""#),
        // Somebody has published the private key.
        rsa(r#","d":"AQAB""#),
        // A secret is no public key.
        r#"{"kty":"oct","k":"c2VjcmV0"}"#.to_owned(),
        r#"{"kty":"RSA","n":"AQAB","e":"AQAB"}"#.to_owned(),
        r#"{"kty":"RSA"}"#.to_owned(),
        ec("P-256", 31, ""),
        ec("P-521", 66, ""),
        r#"{"kty":"OKP","crv":"X25519","x":"AAAA"}"#.to_owned(),
        "7".to_owned(),
        "{}".to_owned(),
    ];
    for key in &bad {
        let set = set(&[key.clone(), rsa(r#","kid":"good""#)]);
        assert_eq!((set.keys.len(), set.passed_over), (1, 1), "{key}");
        assert_eq!(set.keys[0].id.as_deref(), Some("good"));
    }
}

#[test]
fn a_modulus_may_have_leading_zeros() {
    let mut modulus = vec![0, 0];
    modulus.extend([0x80; 256]);
    let key = format!(r#"{{"kty":"RSA","n":"{}","e":"AQAB"}}"#, b64(&modulus));
    assert!(matches!(&set(&[key]).keys[0].material, KeyMaterial::Rsa { modulus, .. } if modulus.len() == 256));
}

#[test]
fn what_is_no_set_is_refused() {
    for text in ["", "{}", "[]", "null", r#"{"keys":{}}"#, r#"{"keys":[]"#] {
        assert_eq!(KeySet::parse(text.as_bytes()), Err(KeySetError::Form), "{text}");
    }
    let many = vec!["{}"; KEYS_MAX + 1].join(",");
    assert_eq!(
        KeySet::parse(format!(r#"{{"keys":[{many}]}}"#).as_bytes()),
        Err(KeySetError::TooLarge)
    );
    assert_eq!(
        KeySet::parse(&vec![b' '; KEY_SET_LEN_MAX + 1]),
        Err(KeySetError::TooLarge)
    );
}

proptest! {
    #[test]
    fn any_bytes_are_a_set_or_none(bytes: Vec<u8>) {
        std::hint::black_box(KeySet::parse(&bytes).is_ok());
    }
}
