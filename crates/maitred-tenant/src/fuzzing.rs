//! Bodies of the fuzz targets. Plain functions, so that a fuzzer and the tests run the same code.

use std::sync::Arc;
use std::time::Duration;

use maitred_types::UnixMillis;

use crate::{Algorithm, ClaimPath, IssuerRules, KeySet, TOKEN_LEN_MAX, TenantSource, Token};

/// Any bytes as a token and as a key set: no panic; what is read is bounded and can be read from its own parts again; and
/// what a token grants is only what its rules allow.
pub fn fuzz_token(data: &[u8]) {
    if let Ok(set) = KeySet::parse(data) {
        for key in &set.keys {
            assert!(Algorithm::ALL.iter().any(|algorithm| key.fits(*algorithm)), "{key:?}");
        }
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(token) = Token::parse(text) else { return };
    assert!(text.len() <= TOKEN_LEN_MAX && Token::is_like(text) || text.starts_with(crate::KEY_PREFIX));
    assert!(text.as_bytes().starts_with(token.signed));
    let rules = IssuerRules {
        issuer: Arc::from("i"),
        audiences: vec!["a".to_owned()],
        algorithms: Algorithm::ALL.to_vec(),
        tenant: TenantSource::Claim(ClaimPath::subject()),
        tenants: Vec::new(),
        user: ClaimPath::subject(),
        models: Some(ClaimPath::subject()),
        groups: None,
        kept: Vec::new(),
        task: None,
        leeway: Duration::ZERO,
    };
    let now = UnixMillis::new(1_000);
    if let Ok(grant) = rules.admit(&token, now) {
        assert!(token.issuer() == Some("i") && grant.expires > now);
        assert!(!grant.tenant.as_str().contains(char::is_whitespace));
    }
}
