use std::time::Duration;

use base64::Engine as _;
use maitred_tenant::{Algorithm, ClaimPath, IssuerRules, ModelGrant, TenantSource};
use maitred_test::{TokenSigner, key_set, unsigned};
use serde_json::{Value, json};

use super::*;

/// Second 1,000,000.
const NOW: UnixMillis = UnixMillis::new(1_000_000_000);

fn settings(issuer: &str) -> IssuerSettings {
    IssuerSettings {
        rules: IssuerRules {
            issuer: Arc::from(issuer),
            audiences: vec!["maitred".to_owned()],
            algorithms: vec![Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa],
            tenant: TenantSource::Claim(ClaimPath::parse("tenant").unwrap()),
            tenants: Vec::new(),
            user: ClaimPath::subject(),
            models: None,
            groups: None,
            kept: Vec::new(),
            task: None,
            leeway: Duration::from_secs(30),
        },
        jwks: JwksLocation::File("/nowhere/jwks.json".to_owned()),
        reach: maitred_config::Reach::Public,
        ca: None,
        refresh: Duration::from_secs(60),
        cooldown: Duration::from_secs(1),
        max_age: Duration::from_secs(600),
        cache_tokens: 100,
        cache_life: Duration::from_secs(300),
    }
}

fn host(settings: IssuerSettings, signers: &[&TokenSigner]) -> Arc<IssuerHost> {
    let meters = Arc::new(Meters::new("test"));
    let host = IssuerHost::new(&Arc::new(settings), Clock::start(), &meters, None);
    give(&host, signers);
    host
}

fn give(host: &IssuerHost, signers: &[&TokenSigner]) {
    host.take(KeySet::parse(key_set(signers.iter().copied()).as_bytes()).unwrap(), NOW);
}

fn desk(hosts: &[&Arc<IssuerHost>]) -> TokenDesk {
    TokenDesk {
        hosts: hosts.iter().map(|host| Arc::clone(host)).collect(),
    }
}

fn claims(issuer: &str, user: &str) -> Value {
    json!({ "iss": issuer, "aud": "maitred", "exp": 1_001_000, "sub": user, "tenant": "acme" })
}

fn user(checked: Result<Arc<TokenGrant>, TokenRefusal>) -> Result<String, TokenRefusal> {
    checked.map(|grant| grant.user.as_ref().map_or("-", |user| user.as_str()).to_owned())
}

#[tokio::test]
async fn every_kind_of_key_signs_tokens_that_are_good() {
    for signer in [TokenSigner::ed25519("a"), TokenSigner::p256("a"), TokenSigner::rsa("a")] {
        let host = host(settings("A"), &[&signer]);
        let desk = desk(&[&host]);
        let token = signer.token(&claims("A", "ada"));
        for _ in 0..2 {
            let grant = desk.check(&token, NOW).unwrap();
            assert_eq!((grant.tenant.as_str(), &grant.models), ("acme", &ModelGrant::All));
            assert_eq!(user(Ok(grant)), Ok("ada".to_owned()), "{}", signer.algorithm());
        }
        assert_eq!(host.cache.lock().len(), 1);
    }
}

#[tokio::test]
async fn tokens_that_begin_alike_are_told_apart() {
    let signer = TokenSigner::ed25519("a");
    let host = host(settings("A"), &[&signer]);
    let desk = desk(&[&host]);
    let (ada, bob) = (signer.token(&claims("A", "ada")), signer.token(&claims("A", "bob")));
    let alike = ada.bytes().zip(bob.bytes()).take_while(|(one, two)| one == two).count();
    assert!(alike > 100, "{alike}");
    assert_eq!(user(desk.check(&ada, NOW)), Ok("ada".to_owned()));
    assert_eq!(user(desk.check(&bob, NOW)), Ok("bob".to_owned()));
    // The claims of one under the signature of the other, and a good token with more or less at its end.
    let signature = |token: &str| token.rsplit_once('.').unwrap().1.to_owned();
    let mixed = ada.replace(&signature(&ada), &signature(&bob));
    assert_eq!(user(desk.check(&mixed, NOW)), Err(TokenRefusal::Signature));
    assert!(desk.check(ada.get(..ada.len() - 4).unwrap(), NOW).is_err());
    assert!(desk.check(&format!("{ada}AAAA"), NOW).is_err());
    assert_eq!(host.cache.lock().len(), 2, "what is refused is not remembered");
}

#[tokio::test]
async fn the_token_does_not_choose_how_it_is_checked() {
    let signer = TokenSigner::rsa("a");
    let desk = desk(&[&host(settings("A"), &[&signer])]);
    let claims = claims("A", "root");
    let check = |token: String, refusal| assert_eq!(user(desk.check(&token, NOW)), Err(refusal), "{token}");
    for name in ["none", "None", "HS256", "HS512"] {
        let header = json!({ "alg": name, "kid": "a" });
        check(format!("{}.", unsigned(&header, &claims)), TokenRefusal::Algorithm);
        check(signer.token_with(&header, &claims), TokenRefusal::Algorithm);
    }
    // The public key is no secret, so what is keyed with it proves nothing.
    let mac = |secret: &[u8], text: &str| {
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, secret);
        aws_lc_rs::hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
    };
    let encode = |bytes: &[u8]| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes);
    for (name, refusal) in [("HS256", TokenRefusal::Algorithm), ("RS256", TokenRefusal::Signature)] {
        let text = unsigned(&json!({ "alg": name, "kid": "a" }), &claims);
        check(format!("{text}.{}", encode(&mac(signer.public(), &text))), refusal);
    }
    // An RSA key is no key of another kind, and PSS is not pinned.
    for (name, refusal) in [
        ("ES256", TokenRefusal::Key),
        ("EdDSA", TokenRefusal::Key),
        ("PS256", TokenRefusal::Algorithm),
    ] {
        check(signer.token_with(&json!({ "alg": name, "kid": "a" }), &claims), refusal);
    }
    // No key comes with the token.
    let own = TokenSigner::rsa("a");
    let header = json!({ "alg": "RS256", "kid": "a", "jwk": own.jwk(), "jku": "http://127.0.0.1:1/", "x5u": "http://127.0.0.1:1/" });
    check(own.token_with(&header, &claims), TokenRefusal::Signature);
}

#[tokio::test]
async fn a_key_id_is_a_name_among_the_issuers_own_keys() {
    let (one, two, other) = (
        TokenSigner::ed25519("one"),
        TokenSigner::ed25519("two"),
        TokenSigner::ed25519("other"),
    );
    let (first, second) = (host(settings("A"), &[&one, &two]), host(settings("B"), &[&other]));
    let desk = desk(&[&first, &second]);
    let token = |kid: Value| one.token_with(&json!({ "alg": "EdDSA", "kid": kid }), &claims("A", "ada"));
    let check = |kid: &str, refusal| assert_eq!(user(desk.check(&token(kid.into()), NOW)), Err(refusal), "{kid}");
    assert!(desk.check(&token("one".into()), NOW).is_ok());
    check("two", TokenRefusal::Signature);
    // Another issuer's key is not there.
    check("other", TokenRefusal::Key);
    for odd in [
        "../../dev/null",
        "/dev/null",
        "one\0",
        "ONE",
        "",
        "' OR 1=1 --",
        "http://127.0.0.1/",
    ] {
        check(odd, TokenRefusal::Key);
    }
    // Without a name there must be no choice.
    let unnamed = |signer: &TokenSigner, issuer| signer.token_with(&json!({ "alg": "EdDSA" }), &claims(issuer, "ada"));
    assert_eq!(user(desk.check(&unnamed(&one, "A"), NOW)), Err(TokenRefusal::Key));
    assert!(desk.check(&unnamed(&other, "B"), NOW).is_ok());
}

#[tokio::test]
async fn issuers_are_not_mixed_up() {
    let (a, b) = (TokenSigner::p256("k"), TokenSigner::p256("k"));
    let (first, second) = (host(settings("A"), &[&a]), host(settings("B"), &[&b]));
    let desk = desk(&[&first, &second]);
    assert!(desk.check(&a.token(&claims("A", "ada")), NOW).is_ok());
    assert!(desk.check(&b.token(&claims("B", "ada")), NOW).is_ok());
    let check = |token: String, refusal| assert_eq!(user(desk.check(&token, NOW)), Err(refusal));
    check(b.token(&claims("A", "ada")), TokenRefusal::Signature);
    check(a.token(&claims("B", "ada")), TokenRefusal::Signature);
    check(a.token(&claims("C", "ada")), TokenRefusal::Issuer);
    check(
        a.token(&json!({ "aud": "maitred", "exp": 1_001_000 })),
        TokenRefusal::Issuer,
    );
    // The twin of a remembered token, under the other issuer's settings, is not remembered there.
    let token = a.token(&claims("A", "ada"));
    assert!(first.remembered(&sha256(&token), NOW).is_none());
    assert!(desk.check(&token, NOW).is_ok());
    assert!(first.remembered(&sha256(&token), NOW).is_some());
    assert!(second.remembered(&sha256(&token), NOW).is_none());
}

#[tokio::test]
async fn a_remembered_token_ends_with_its_time_and_with_the_keys() {
    let (old, new) = (TokenSigner::ed25519("old"), TokenSigner::ed25519("new"));
    let host = host(settings("A"), &[&old]);
    let desk = desk(&[&host]);
    let token = old.token(&claims("A", "ada"));
    let at = |second: u64| UnixMillis::new(second * 1000);
    assert!(desk.check(&token, NOW).is_ok());
    // Both keys are good for a while.
    give(&host, &[&old, &new]);
    assert!(
        host.remembered(&sha256(&token), NOW).is_none(),
        "other keys, so it is checked anew"
    );
    assert!(desk.check(&token, NOW).is_ok());
    give(&host, &[&new]);
    assert_eq!(user(desk.check(&token, NOW)), Err(TokenRefusal::Key));
    assert!(desk.check(&new.token(&claims("A", "ada")), NOW).is_ok());
    // A token is never remembered beyond its end: second 1,000,010 and the leeway.
    let mut short = claims("A", "ada");
    short["exp"] = 1_000_010.into();
    let short = new.token(&short);
    assert!(desk.check(&short, NOW).is_ok());
    assert!(desk.check(&short, at(1_000_039)).is_ok());
    assert_eq!(user(desk.check(&short, at(1_000_040))), Err(TokenRefusal::Expired));
}

#[tokio::test]
async fn keys_count_until_they_are_too_old() {
    let signer = TokenSigner::ed25519("a");
    let host = host(settings("A"), &[&signer]);
    let desk = desk(&[&host]);
    let token = signer.token(&claims("A", "ada"));
    let at = |second: u64| UnixMillis::new(second * 1000);
    assert!(desk.check(&token, at(1_000_600)).is_ok());
    assert_eq!(
        user(desk.check(&token, at(1_000_601))),
        Err(TokenRefusal::NoKeys),
        "though it is remembered"
    );
    host.took(Err("away".to_owned()));
    assert!(desk.check(&token, at(1_000_600)).is_ok(), "the last good keys stay");
    host.took(Ok(b"nonsense".to_vec()));
    assert!(desk.check(&token, at(1_000_600)).is_ok());
    let page = host.meters.page();
    assert!(
        page.contains("maitred_issuer_reads_total{issuer=\"A\",result=\"failed\"} 3"),
        "{page}"
    );
}

#[tokio::test]
async fn the_memory_of_tokens_is_bounded() {
    let signer = TokenSigner::ed25519("a");
    let mut few = settings("A");
    few.cache_tokens = 10;
    let host = host(few, &[&signer]);
    let desk = desk(&[&host]);
    for number in 0..50 {
        assert!(
            desk.check(&signer.token(&claims("A", &format!("u{number}"))), NOW)
                .is_ok()
        );
        assert!(host.cache.lock().len() <= 10);
    }
    assert!(host.cache.lock().len() >= 5);
    let long = format!("{}{}", signer.token(&claims("A", "ada")), "A".repeat(TOKEN_LEN_MAX));
    assert_eq!(user(desk.check(&long, NOW)), Err(TokenRefusal::Malformed));
}

#[tokio::test(start_paused = true)]
async fn settings_that_change_forget_tokens_and_keep_keys() {
    let signer = TokenSigner::ed25519("a");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jwks.json");
    std::fs::write(&path, key_set([&signer])).unwrap();
    let mut wanted = settings("A");
    wanted.jwks = JwksLocation::File(path.to_string_lossy().into_owned());
    let (issuers, clock, tasks, meters) = (
        Issuers::default(),
        Clock::start(),
        Tasks::new(),
        Arc::new(Meters::new("test")),
    );
    let apply = |wanted: &IssuerSettings| issuers.apply(&[Arc::new(wanted.clone())], clock, &tasks, &meters);
    let now = clock.unix_now();
    let mut claims = claims("A", "ada");
    claims["exp"] = (now.get() / 1000 + 100).into();
    let token = signer.token(&claims);
    let first = apply(&wanted);
    assert!(first.check(&token, now).is_ok());
    let same = apply(&wanted);
    assert!(same.hosts[0].remembered(&sha256(&token), now).is_some());
    // The file is gone, and the keys are still known.
    std::fs::remove_file(&path).unwrap();
    wanted.rules.audiences = vec!["another".to_owned()];
    let other = apply(&wanted);
    assert_eq!(user(other.check(&token, now)), Err(TokenRefusal::Audience));
    wanted.jwks = JwksLocation::File("/nowhere".to_owned());
    assert_eq!(user(apply(&wanted).check(&token, now)), Err(TokenRefusal::NoKeys));
    assert!(issuers.apply(&[], clock, &tasks, &meters).hosts.is_empty());
    tasks.stop();
    tasks.wait().await;
}
