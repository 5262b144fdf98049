//! What is said of mistakes about administration.

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
