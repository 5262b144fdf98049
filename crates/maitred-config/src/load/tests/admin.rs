//! What is said of mistakes about administration and keys.

use super::golden::{errors, keys};
use super::{HASH, HEAD, brief, loaded, refused};

#[test]
fn ways_in() {
    let admin = format!(
        "admin:\n  access:\n    - {{ name: ann, role: root, hash: '{HASH}' }}\n    - {{ name: ben, role: admin }}\n    \
         - {{ name: cat, role: viewer, certificate: {{ dns: ops }} }}\n    - {{ name: dan, role: viewer, hash: '{HASH}' }}\n    \
         - {{ name: eve, role: viewer, hash: '{HASH}' }}"
    );
    insta::assert_snapshot!(brief(&refused(&format!("{HEAD}{admin}"))), @"
    10:26 admin.access[0].role: `role` cannot be `root`
    11:9 admin.access[1]: `ben` must show either a token or a certificate
    12:34 admin.access[2].certificate: the administrative listener asks for no certificates
    14:40 admin.access[4].hash: the token `abcdefghijkl` is already in line 13
    ");
}

#[test]
fn tokens_beyond_loopback_are_better_encrypted() {
    let text = format!(
        "{HEAD}admin: {{ address: '0.0.0.0:9091', access: [{{ name: ann, role: viewer, hash: '{HASH}' }}] }}\n"
    );
    let loaded = loaded(&text);
    assert_eq!(loaded.warnings.len(), 1, "{:?}", loaded.warnings);
    assert!(loaded.warnings[0].message.contains("in clear text"));
    assert!(!loaded.settings.admin.access.is_empty());
}

#[test]
fn what_has_expired_is_warned_of_from_then_on() {
    let other = HASH.replace("abcdefghijkl", "bcdefghijklm");
    let keys = format!("  keys: [{{ hash: '{HASH}', tenant: t, user: u, expires: 2026-01-02 }}]");
    let text = HEAD.replace("  anonymous: { tenant: local }", &keys);
    let text =
        format!("{text}admin: {{ access: [{{ name: ann, role: viewer, hash: '{other}', expires: 2026-01-03 }}] }}\n");
    let of = |date: &str| {
        let mut loaded = loaded(&text);
        loaded.warn_as_of(crate::moment(date).unwrap());
        brief(&loaded.warnings)
    };
    assert_eq!(of("2026-01-01"), "");
    assert_eq!(of("2026-01-02").lines().count(), 1);
    insta::assert_snapshot!(of("2026-01-03"), @"
    3:140 auth.keys[0].expires: the key has expired at 2026-01-02T00:00:00Z, so whoever shows it is refused
    8:154 admin.access[0].expires: `ann` has expired at 2026-01-03T00:00:00Z and administers nothing any more
    ");
}

#[test]
fn a_key_of_nobody() {
    insta::assert_snapshot!(errors(&keys(&format!("{{ tenant: a, hash: '{HASH}' }}"))), @r"
    error: nobody can say who makes calls with this key: it has no user
     --> maitred.yaml:3:12 (auth.keys[0])
      |
    3 |   keys: [{ tenant: a, hash: 'hmac-sha256:abcdefghijkl:0000000000000000000000000000000000000000000000000000000000000000'
      |            ^^^^^^
      = help: add `user: NAME`, or `on_behalf` for a service that acts for users; or write `shared: true`, and the audit marks its calls
    ");
    // One of a service is for users, and one that is shared says so.
    for more in ["on_behalf: signed", "shared: true"] {
        loaded(&keys(&format!("{{ tenant: a, {more}, hash: '{HASH}' }}")));
    }
}
