//! What is said of the answer cache.

use std::time::Duration;

use maitred_types::{ByteSize, TenantId};

use super::golden::errors;
use super::loaded;
use crate::raw::KeptCalls;

/// A pool, in lines 1 to 7.
const POOL: &str = "\
version: 1
auth:
  anonymous: { tenant: local }
pools:
  - name: big
    models: [{ name: llama-70b }]
    endpoints: [{ address: 127.0.0.1:8000 }]
";

#[test]
fn defaults_are_small_short_and_safe() {
    let text = format!("{POOL}answers: {{ models: [{{ model: llama-70b }}], tenants: [local] }}\n");
    let answers = loaded(&text).settings.answers.unwrap();
    assert_eq!(
        (answers.size, answers.largest),
        (ByteSize::new(64 << 20), ByteSize::new(1 << 20))
    );
    assert!(answers.tenants.contains(&TenantId::from("local")));
    let kept = answers.models["llama-70b"];
    assert_eq!(
        (kept.keep, kept.calls),
        (Duration::from_secs(300), KeptCalls::Deterministic)
    );
    assert_eq!(loaded(POOL).settings.answers, None);
}

#[test]
fn what_keeps_nothing() {
    let text = format!(
        "{POOL}answers:\n  models: [{{ model: lama-70b, keep: 0s }}, {{ model: llama-70b }}, {{ model: llama-70b }}]\n  \
         tenants: [locl]\n  size: 1KiB\n"
    );
    insta::assert_snapshot!(errors(&text), @r"
    error: an answer of 1MiB has no room in 1KiB
     --> maitred.yaml:8:1 (answers.largest)
      |
    8 | answers:
      | ^^^^^^^
      = help: raise `size`, or keep smaller answers only

    error: there is no model `lama-70b` to ask for
     --> maitred.yaml:9:21 (answers.models[0].model)
      |
    9 |   models: [{ model: lama-70b, keep: 0s }, { model: llama-70b }, { model: llama-70b }]
      |                     ^^^^^^^^
      = help: did you mean `llama-70b`?

    error: this duration cannot be zero
     --> maitred.yaml:9:37 (answers.models[0].keep)
      |
    9 |   models: [{ model: lama-70b, keep: 0s }, { model: llama-70b }, { model: llama-70b }]
      |                                     ^^
      = help: write a duration such as `5s`

    error: the model `llama-70b` is already in line 9
     --> maitred.yaml:9:74 (answers.models[2].model)
      |
    9 |   models: [{ model: lama-70b, keep: 0s }, { model: llama-70b }, { model: llama-70b }]
      |                                                                          ^^^^^^^^^
      = help: each model may occur once

    error: nobody is of the tenant `locl`, so nothing is kept for it
      --> maitred.yaml:10:13 (answers.tenants[0])
       |
    10 |   tenants: [locl]
       |             ^^^^
       = help: did you mean `local`?
    ");
    let text = format!("{POOL}answers: {{ models: [{{ model: llama-70b }}], tenants: [] }}\n");
    insta::assert_snapshot!(errors(&text), @r"
    error: this list is empty; it needs at least 1 element
     --> maitred.yaml:8:44 (answers.tenants)
      |
    8 | answers: { models: [{ model: llama-70b }], tenants: [] }
      |                                            ^^^^^^^
    ");
}
