use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::*;

const NOW: UnixMillis = UnixMillis::new(1_000_000_000);

fn rules() -> IssuerRules {
    IssuerRules {
        issuer: Arc::from("https://issuer"),
        audiences: vec!["maitred".to_owned(), "other".to_owned()],
        algorithms: vec![Algorithm::Rs256],
        tenant: TenantSource::Claim(ClaimPath::parse("/org/id").unwrap()),
        tenants: Vec::new(),
        user: ClaimPath::subject(),
        models: None,
        groups: None,
        kept: Vec::new(),
        task: Some(ClaimPath::parse("task").unwrap()),
        leeway: Duration::from_secs(30),
    }
}

fn admit(rules: &IssuerRules, claims: &Value) -> Result<TokenGrant, TokenRefusal> {
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let text = format!("{}.{}.AA", encode(r#"{"alg":"RS256"}"#), encode(&claims.to_string()));
    rules.admit(&Token::parse(&text)?, NOW)
}

fn claims() -> Value {
    serde_json::json!({
        "iss": "https://issuer", "aud": "maitred", "exp": 1_000_100, "sub": "ada", "org": { "id": "acme" }
    })
}

fn with(name: &str, value: impl Into<Value>) -> Value {
    let mut claims = claims();
    claims[name] = value.into();
    claims
}

#[test]
fn claims_become_a_grant() {
    let grant = admit(&rules(), &with("task", "run-7")).unwrap();
    assert_eq!((grant.tenant.as_str(), &*grant.issuer), ("acme", "https://issuer"));
    assert_eq!(grant.user.as_ref().map(UserId::as_str), Some("ada"));
    assert_eq!((grant.task.as_deref(), grant.models), (Some("run-7"), ModelGrant::All));
    assert_eq!(grant.expires, UnixMillis::new(1_000_130_000));
}

#[test]
fn issuer_and_audience_are_exact() {
    let check =
        |claims: Value, refusal: Option<TokenRefusal>| assert_eq!(admit(&rules(), &claims).err(), refusal, "{claims}");
    check(with("iss", "https://issuer/"), Some(TokenRefusal::Issuer));
    check(with("iss", "HTTPS://issuer"), Some(TokenRefusal::Issuer));
    check(with("iss", Value::Null), Some(TokenRefusal::Issuer));
    check(with("aud", "maitre"), Some(TokenRefusal::Audience));
    check(with("aud", Value::Null), Some(TokenRefusal::Audience));
    check(
        with("aud", serde_json::json!({ "maitred": 1 })),
        Some(TokenRefusal::Audience),
    );
    check(with("aud", serde_json::json!([])), Some(TokenRefusal::Audience));
    check(with("aud", serde_json::json!(["x", "other"])), None);
}

#[test]
fn clocks_may_differ_by_the_leeway_and_no_more() {
    let check = |name: &str, value: Value, refusal: Option<TokenRefusal>| {
        assert_eq!(
            admit(&rules(), &with(name, value.clone())).err(),
            refusal,
            "{name} {value}"
        );
    };
    // It is second 1,000,000.
    check("exp", 999_971.into(), None);
    check("exp", 999_970.into(), Some(TokenRefusal::Expired));
    check("exp", 999_970.5.into(), None);
    check("nbf", 1_000_030.into(), None);
    check("nbf", 1_000_031.into(), Some(TokenRefusal::NotYetValid));
    check("iat", 1_000_031.into(), Some(TokenRefusal::NotYetValid));
    check("iat", 0.into(), None);
    for odd in [Value::Null, "1000100".into(), (-1).into(), 1e300.into(), true.into()] {
        check("exp", odd.clone(), Some(TokenRefusal::Claim));
        check("nbf", odd, Some(TokenRefusal::Claim));
    }
    let mut without = claims();
    without.as_object_mut().unwrap().remove("exp");
    assert_eq!(admit(&rules(), &without).err(), Some(TokenRefusal::Claim));
}

#[test]
fn names_are_data_whatever_is_in_them() {
    let nasty = "x'); DROP TABLE calls; --";
    let grant = admit(&rules(), &with("sub", nasty)).unwrap();
    assert_eq!(grant.user.as_ref().map(UserId::as_str), Some(nasty));
    for odd in ["", " ada", "ada\n", "a\u{0}b", &"x".repeat(257)] {
        assert_eq!(
            admit(&rules(), &with("sub", odd)).err(),
            Some(TokenRefusal::Claim),
            "{odd:?}"
        );
    }
    assert_eq!(admit(&rules(), &with("sub", 7)).err(), Some(TokenRefusal::Claim));
    assert_eq!(admit(&rules(), &with("sub", Value::Null)).unwrap().user, None);
    for odd in [
        serde_json::json!({ "id": nasty }),
        serde_json::json!({}),
        Value::Null,
        "acme".into(),
    ] {
        assert_eq!(admit(&rules(), &with("org", odd)).err(), Some(TokenRefusal::Claim));
    }
}

#[test]
fn an_issuer_names_only_its_own_tenants() {
    let mut rules = rules();
    rules.tenants = vec![TenantId::from("other")];
    assert_eq!(admit(&rules, &claims()).err(), Some(TokenRefusal::Claim));
    rules.tenants.push(TenantId::from("acme"));
    assert!(admit(&rules, &claims()).is_ok());
    rules.tenant = TenantSource::Is(TenantId::from("fixed"));
    assert_eq!(admit(&rules, &claims()).unwrap().tenant.as_str(), "fixed");
}

#[test]
fn models_are_listed_or_there_are_none() {
    let mut rules = rules();
    rules.models = Some(ClaimPath::parse("models").unwrap());
    let check = |value: Value, model: &str, allowed: Result<bool, TokenRefusal>| {
        let found = admit(&rules, &with("models", value.clone())).map(|grant| grant.models.allows(model));
        assert_eq!(found, allowed, "{value} {model}");
    };
    check(serde_json::json!(["a", "b-*"]), "b-1", Ok(true));
    check(serde_json::json!(["a", "b-*"]), "c", Ok(false));
    check("a b-*".into(), "a", Ok(true));
    check("*".into(), "c", Ok(true));
    check(Value::Null, "a", Ok(false));
    check("a*b".into(), "a", Err(TokenRefusal::Claim));
    check(serde_json::json!([7]), "a", Err(TokenRefusal::Claim));
    check(7.into(), "a", Err(TokenRefusal::Claim));
    check(
        serde_json::json!(vec!["a"; MODELS_MAX + 1]),
        "a",
        Err(TokenRefusal::Claim),
    );
}

#[test]
fn claims_are_found_by_name_or_by_path() {
    let claims = serde_json::json!({ "https://x/t": "a", "g": { "t/u": "b" } });
    let find = |path: &str| {
        let path = ClaimPath::parse(path).unwrap();
        path.name(claims.as_object().unwrap()).unwrap().map(str::to_owned)
    };
    assert_eq!(find("https://x/t").as_deref(), Some("a"));
    assert_eq!(find("/g/t~1u").as_deref(), Some("b"));
    assert_eq!(find("/g/x"), None);
    for odd in ["", "/", "a\nb"] {
        assert_eq!(ClaimPath::parse(odd), Err(ClaimPathError));
    }
}

#[test]
fn groups_and_claims_that_are_looked_at_are_kept() {
    let rules = IssuerRules {
        groups: Some(ClaimPath::parse("groups").unwrap()),
        kept: vec![
            ClaimPath::parse("/org/plan").unwrap(),
            ClaimPath::parse("roles").unwrap(),
        ],
        ..rules()
    };
    let check = |claims: Value, groups: &[&str], kept: [&[&str]; 2]| {
        let grant = admit(&rules, &claims).unwrap();
        let texts = |values: &[Arc<str>]| values.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(texts(&grant.groups), groups, "{claims}");
        let found: Vec<_> = grant.claims.iter().map(|(_, values)| texts(values)).collect();
        assert_eq!(found, kept, "{claims}");
        let principal = crate::Principal::of_token(Arc::new(grant));
        assert_eq!(texts(principal.groups()), groups);
        assert_eq!(texts(principal.claim("roles")), kept[1]);
        assert!(principal.claim("sub").is_empty(), "nobody looks at it");
    };
    check(claims(), &[], [&[], &[]]);
    check(with("groups", "red blue"), &["red", "blue"], [&[], &[]]);
    check(
        with("groups", vec!["light red", "blue"]),
        &["light red", "blue"],
        [&[], &[]],
    );
    check(with("roles", 7), &[], [&[], &["7"]]);
    check(
        with("roles", serde_json::json!([true, null, {}, "a"])),
        &[],
        [&[], &["true", "a"]],
    );
    check(
        with("org", serde_json::json!({ "id": "acme", "plan": "gold" })),
        &[],
        [&["gold"], &[]],
    );
    let many = vec!["g"; VALUES_MAX + 10];
    assert_eq!(admit(&rules, &with("groups", many)).unwrap().groups.len(), VALUES_MAX);
    assert!(
        admit(&rules, &with("roles", "x".repeat(NAME_LEN_MAX + 1)))
            .unwrap()
            .claims[1]
            .1
            .is_empty()
    );
}
