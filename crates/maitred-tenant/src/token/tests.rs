use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use proptest::prelude::*;

use super::*;

fn token(header: &str, claims: &str) -> String {
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    format!("{}.{}.{}", encode(header), encode(claims), encode("signature"))
}

#[test]
fn a_token_is_taken_apart() {
    let text = token(
        r#"{"alg":"ES256","typ":"JWT","kid":"k1"}"#,
        r#"{"iss":"https://issuer","sub":"ada"}"#,
    );
    let token = Token::parse(&text).unwrap();
    assert_eq!(
        (token.algorithm, token.key_id.as_deref()),
        (Algorithm::Es256, Some("k1"))
    );
    assert_eq!(token.issuer(), Some("https://issuer"));
    assert_eq!(token.signature, b"signature");
    assert_eq!(token.signed.len(), text.rfind('.').unwrap());
    assert_eq!(format!("{token:?}"), "Token { algorithm: Es256, .. }");
}

#[test]
fn algorithms_are_a_closed_set() {
    let bad = [
        "none", "None", "nOnE", "", "HS256", "HS384", "HS512", "rs256", "RS1", "dir", "RSA-OAEP",
    ];
    for name in bad {
        let text = token(&format!(r#"{{"alg":"{name}"}}"#), "{}");
        assert_eq!(Token::parse(&text).err(), Some(TokenRefusal::Algorithm), "{name}");
    }
    for algorithm in Algorithm::ALL {
        assert_eq!(Algorithm::named(algorithm.name()), Some(*algorithm));
    }
}

#[test]
fn what_is_not_quite_a_token_is_malformed() {
    let good = token(r#"{"alg":"RS256"}"#, "{}");
    assert!(Token::parse(&good).is_ok());
    let check = |text: &str| assert_eq!(Token::parse(text).err(), Some(TokenRefusal::Malformed), "{text}");
    check("");
    check("..");
    check("a.b");
    check(&format!("{good}.x"));
    check(&format!("{good}="));
    check(&format!("{good} "));
    check(&good.replace('.', ".="));
    check(&token(r#"{"alg":"RS256","alg":"ES256"}"#, "{}"));
    check(&token(r#"{"alg":"RS256","crit":["exp"]}"#, "{}"));
    check(&token(r#"{"alg":"RS256","typ":"logout+jwt"}"#, "{}"));
    check(&token(r#"{"alg":"RS256","kid":7}"#, "{}"));
    check(&token(r#"{"alg":["RS256"]}"#, "{}"));
    check(&token(r#"{"alg":"RS256"}"#, "[]"));
    check(&token(r#"{"alg":"RS256"}"#, r#"{"iss":"a","iss":"b"}"#));
    check(&token(
        r#"{"alg":"RS256"}"#,
        &format!(r#"{{"deep":{}1{}}}"#, "[".repeat(1000), "]".repeat(1000)),
    ));
    // The largest, and one byte more.
    let padding = |length: usize| token(r#"{"alg":"RS256"}"#, &format!(r#"{{"p":"{}"}}"#, "x".repeat(length)));
    let most = (0..TOKEN_LEN_MAX)
        .rev()
        .find(|length| padding(*length).len() <= TOKEN_LEN_MAX)
        .unwrap();
    assert!(Token::parse(&padding(most)).is_ok());
    check(&padding(most + 2));
}

#[test]
fn one_run_of_bytes_has_one_text() {
    // The last character of "signature" carries bits that nobody reads; a lax reader would take 16 texts for one token.
    let good = token(r#"{"alg":"RS256"}"#, r#"{"a":12}"#);
    let (head, signature) = good.rsplit_once('.').unwrap();
    assert_eq!(signature.len() % 4, 0);
    let odd = format!("{head}.QQ");
    assert!(Token::parse(&odd).is_ok());
    assert_eq!(Token::parse(&format!("{head}.QR")).err(), Some(TokenRefusal::Malformed));
}

#[test]
fn keys_do_not_look_like_tokens() {
    assert!(Token::is_like("a.b.c") && Token::is_like(".."));
    assert!(!Token::is_like("a.b") && !Token::is_like("a.b.c.d") && !Token::is_like("mtr-a.b.c"));
}

#[test]
fn the_seeds_of_the_fuzzer_are_read() {
    let token = include_str!("../../corpus/token/token");
    let keys = include_bytes!("../../corpus/token/keys");
    assert_eq!(Token::parse(token).unwrap().issuer(), Some("i"));
    let set = crate::KeySet::parse(keys).unwrap();
    assert_eq!((set.keys.len(), set.passed_over), (3, 1));
    for seed in [token.as_bytes(), keys] {
        crate::fuzzing::fuzz_token(seed);
    }
}

proptest! {
    #[test]
    fn any_text_is_a_token_or_none(text: String) {
        crate::fuzzing::fuzz_token(text.as_bytes());
    }

    #[test]
    fn any_parts_are_a_token_or_none(header in r#"\{"alg":"(RS256|none|ES256)"(,"kid":"[a-z]{0,3}")?\}"#, claims: Vec<u8>) {
        let text = format!("{}.{}.AA", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
        crate::fuzzing::fuzz_token(text.as_bytes());
    }

    /// A token with any one byte changed is another token or none: no change goes unseen.
    #[test]
    fn every_byte_counts(at in 0_usize..60, byte in b'!'..b'~') {
        let good = token(r#"{"alg":"RS256"}"#, r#"{"iss":"a"}"#);
        let mut changed = good.clone().into_bytes();
        let at = at % changed.len();
        prop_assume!(changed[at] != byte);
        changed[at] = byte;
        let changed = String::from_utf8(changed).unwrap();
        let parts = |text: &str| Token::parse(text).ok().map(|token| (token.signed.to_vec(), token.signature));
        prop_assert_ne!(parts(&good), parts(&changed));
    }
}
