//! `pools[].prefix`.

use std::sync::Arc;
use std::time::Duration;

use super::golden::{errors, with};
use super::*;

#[test]
fn what_is_remembered_has_a_bound_and_may_have_a_file() {
    let of = |line: &str| {
        let pool = Arc::clone(&loaded(&with(line)).settings.pools[0]);
        (pool.options.prefix.max_bytes, pool.prefix_file.clone())
    };
    assert_eq!(of("    prefix: { block: 64 }"), (256 << 20, None));
    let (bytes, file) = of("    prefix: { max_bytes: 64MiB, snapshot: { path: /var/lib/maitred/main.prefixes } }");
    assert_eq!(bytes, 64 << 20);
    let file = file.unwrap();
    assert_eq!(file.path, "/var/lib/maitred/main.prefixes");
    assert_eq!(file.every, Duration::from_secs(60));
}

#[test]
fn too_little_memory_and_too_much_writing() {
    insta::assert_snapshot!(errors(&with("    prefix: { max_bytes: 64KiB, snapshot: { path: p, every: 100ms } }")), @r"
    error: 64KiB is too small to be useful
     --> maitred.yaml:8:26 (pools[0].prefix.max_bytes)
      |
    8 |     prefix: { max_bytes: 64KiB, snapshot: { path: p, every: 100ms } }
      |                          ^^^^^
      = help: write at least 1MiB

    error: 100ms is too short: each time all that is remembered is written
     --> maitred.yaml:8:61 (pools[0].prefix.snapshot.every)
      |
    8 |     prefix: { max_bytes: 64KiB, snapshot: { path: p, every: 100ms } }
      |                                                             ^^^^^
      = help: write at least `1s`
    ");
}

#[test]
fn two_pools_do_not_write_one_file() {
    let line = "    prefix: { snapshot: { path: p } }";
    let second = "  - name: other\n    models: [{ name: other }]\n    endpoints: [{ address: 127.0.0.1:8001 }]";
    let shown = errors(&with(&format!("{line}\n{second}\n{line}")));
    assert!(shown.contains("the snapshot file `p` is already in line 8"), "{shown}");
    assert!(shown.contains("(pools[1].prefix.snapshot.path)"), "{shown}");
}
