//! What is said of quotas: whom they are for, and whether they ever count.

use super::{HEAD, brief, loaded, refused};

#[test]
fn quotas_that_others_always_come_before() {
    let text = "quotas:\n  - { name: all, tokens_per_day: 100 }\n  - { name: local, tenant: local, tokens_per_day: 100 }\n  \
                - { name: user, per: [user], tokens_per_day: 200, concurrent_calls: 9 }\n  \
                - { name: less, tenant: local, tokens_per_day: 99 }\n  \
                - { name: model, per: [model], tokens_per_day: 200 }\n";
    let told = brief(&loaded(&format!("{HEAD}{text}")).warnings);
    // By model over all tenants is another count than by tenant over all models.
    assert_eq!(told.matches("never limits anything").count(), 2, "{told}");
    for place in ["quotas[1].tokens_per_day", "quotas[2].tokens_per_day"] {
        assert!(told.contains(place), "{told}");
    }
    assert!(
        told.contains("the quota `all` is for the same calls and more"),
        "{told}"
    );
}

#[test]
fn tenants_and_users_of_tokens_are_known_to_exist() {
    let issuer = |more: &str| {
        let issuer = "issuer: 'https://login.example.com', audiences: [m], jwks: { file: keys.json }";
        HEAD.replace(
            "  anonymous: { tenant: local }",
            &format!("  issuers: [{{ {issuer}, claims: {{ tenant: {{ claim: /org }} }}{more} }}]"),
        )
    };
    let more =
        "tenants: [{ name: acme, weight: 2 }]\nquotas: [{ name: q, tenant: acme, user: ann, tokens_per_day: 1 }]\n";
    loaded(&format!("{}{more}", issuer("")));
    loaded(&format!("{}{more}", issuer(", tenants: [acme]")));
    let others = brief(&refused(&format!("{}{more}", issuer(", tenants: [other]"))));
    assert_eq!(others.matches("of the tenant `acme`").count(), 2, "{others}");
}
