use maitred_tenant::WithoutStore;

use crate::{Diagnostic, Loaded, load};

const HEAD: &str = "version: 1\nauth: { anonymous: { tenant: local } }\npools:\n  - name: main\n    models: [{ name: qwen3-8b }]\n    endpoints: [{ address: 127.0.0.1:8000 }]\n";

fn read(rest: &str) -> Result<Loaded, Vec<Diagnostic>> {
    load("maitred.yaml", &format!("{HEAD}{rest}"), &|_| Ok("redis://x".into()))
}

#[test]
fn quotas_are_shared_as_the_file_says() {
    let sharing = |rest: &str| read(rest).unwrap().settings.sharing.unwrap();
    let plain = sharing("sharing: { redis: { env: X } }\n");
    assert_eq!((plain.gateways, plain.without_store), (2, WithoutStore::LocalShare));
    let said = sharing("sharing: { redis: { env: X }, quotas: { gateways: 5, without_store: refuse } }\n");
    assert_eq!((said.gateways, said.without_store), (5, WithoutStore::Refuse));
    assert!(read("sharing: { redis: { env: X }, quotas: { gateways: 0 } }\n").is_err());
}

#[test]
fn money_that_cannot_be_counted_exactly_is_refused() {
    let prices = "prices: [{ model: \"*\", input: \"1\", output: \"2\", per: 1000 }]\n";
    let quota = |amount: &str| format!("{prices}quotas: [{{ name: a, money_per_month: \"{amount}\" }}]\n");
    let shared = "sharing: { redis: { env: X } }\n";
    assert!(read(&quota("9000001")).is_ok());
    assert!(read(&format!("{}{shared}", quota("9000000"))).is_ok());
    let found = read(&format!("{}{shared}", quota("9000001"))).unwrap_err();
    assert_eq!(
        found[0].message,
        "with `sharing` this is more money than can be counted exactly"
    );
}
