use maitred_types::UnixMillis;

use super::*;
use crate::{KeyHasher, ModelPattern, NEW_KEY_RANDOM_BYTES, NewKey};

fn key(on_behalf: OnBehalf, is_shared: bool) -> Principal {
    Principal::of_key(&Arc::new(KeyGrant {
        hash: NewKey::make(&[1; NEW_KEY_RANDOM_BYTES]).hash(&KeyHasher::new(None)),
        tenant: TenantId::from("acme"),
        user: None,
        on_behalf,
        is_shared,
        models: ModelGrant::Listed(vec![ModelPattern::parse("a-*").unwrap()]),
        class: None,
        not_before: None,
        expires: None,
    }))
}

fn token(tenant: &str, user: Option<&str>) -> Arc<TokenGrant> {
    Arc::new(TokenGrant {
        issuer: Arc::from("issuer"),
        tenant: TenantId::from(tenant),
        user: user.map(UserId::from),
        models: ModelGrant::Listed(vec![ModelPattern::parse("a-1").unwrap()]),
        groups: Vec::new(),
        claims: Vec::new(),
        task: Some(Arc::from("run-7")),
        expires: UnixMillis::new(1),
    })
}

#[test]
fn only_trusted_services_name_users() {
    let named = key(OnBehalf::Named, false).acting_for("ada").unwrap();
    assert_eq!(
        (named.user(), named.issuer(), named.proof()),
        (Some("ada"), None, "key")
    );
    for on_behalf in [OnBehalf::Nobody, OnBehalf::Signed] {
        let refused = key(on_behalf, false).acting_for("ada").err();
        assert_eq!(refused, Some(UserRefusal::NotTrusted));
    }
    let anonymous = Principal::anonymous(TenantId::from("acme"));
    assert_eq!(anonymous.acting_for("ada").err(), Some(UserRefusal::NotTrusted));
    let holder = Principal::of_token(token("acme", Some("ada")));
    assert_eq!(
        holder.clone().acting_for("ada").unwrap().user(),
        Some("ada"),
        "that is no news"
    );
    assert_eq!(holder.acting_for("bob").err(), Some(UserRefusal::NotTrusted));
    assert_eq!(
        key(OnBehalf::Named, false).acting_for(" ").err(),
        Some(UserRefusal::BadName)
    );
}

#[test]
fn a_service_acts_for_holders_of_tokens_of_its_tenant() {
    let signed = key(OnBehalf::Signed, false)
        .acting_for_holder(token("acme", Some("ada")))
        .unwrap();
    assert_eq!(
        (signed.user(), signed.issuer(), signed.task()),
        (Some("ada"), Some("issuer"), Some("run-7"))
    );
    // What both may use.
    assert!(signed.may_use("a-1") && !signed.may_use("a-2") && signed.is_limited());
    assert!(key(OnBehalf::Signed, false).may_use("a-2"));
    let check = |on_behalf, token, refusal| {
        assert_eq!(key(on_behalf, false).acting_for_holder(token).err(), Some(refusal));
    };
    check(OnBehalf::Nobody, token("acme", Some("ada")), UserRefusal::NotService);
    check(OnBehalf::Signed, token("other", Some("ada")), UserRefusal::OtherTenant);
    check(OnBehalf::Named, token("acme", None), UserRefusal::NoUser);
    let named = key(OnBehalf::Named, false).acting_for_holder(token("acme", Some("ada")));
    assert_eq!(named.unwrap().acting_for("bob").err(), Some(UserRefusal::TwoUsers));
}

#[test]
fn a_user_is_known_or_the_key_is_shared_by_decree() {
    let nobody = key(OnBehalf::Named, false);
    assert!(nobody.is_shared(), "whatever it is for, nobody can say who this is");
    assert_eq!(nobody.with_user().err(), Some(UserRefusal::NoUser));
    let shared = key(OnBehalf::Nobody, true).with_user().unwrap();
    assert!(shared.is_shared());
    let named = key(OnBehalf::Named, true).acting_for("ada").unwrap();
    assert!(!named.is_shared() && named.with_user().is_ok());
}
