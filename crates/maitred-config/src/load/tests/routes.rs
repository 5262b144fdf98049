//! What is said of routes: where names lead to, and what may answer in place of what was asked for.

use std::time::Duration;

use maitred_route::{Facts, TargetId};
use maitred_types::{DegradeKind, TenantId};

use super::golden::errors;
use super::loaded;
use crate::raw::OnBreach;

/// Two pools, in lines 1 to 10.
const POOLS: &str = "\
version: 1
auth:
  anonymous: { tenant: local }
pools:
  - name: big
    models: [{ name: llama-70b, context: 131072 }]
    endpoints: [{ address: 127.0.0.1:8000 }]
  - name: small
    models: [{ name: llama-8b, images: false }]
    endpoints: [{ address: 127.0.0.1:8001 }]
";

const OBJECTIVE: &str = "degradation: { objective: {} }\n";

fn with(lines: &str) -> String {
    format!("{POOLS}{lines}")
}

#[test]
fn a_route_of_a_pools_name_needs_no_targets() {
    let text = with(
        "degradation:\n  objective: { ratio: 2%, window: 1m, on_breach: stop }\n  tenants: [{ tenant: local, policy: refuse }]\n\
         routes:\n  - model: llama-70b\n    fallback:\n      - { pool: small, model: llama-8b, within: 20s }\n",
    );
    let settings = loaded(&text).settings;
    let objective = settings.degradation.objective.unwrap();
    assert!((objective.ratio - 0.02).abs() < 1e-9);
    assert_eq!(objective.window, Duration::from_secs(60));
    assert_eq!(objective.on_breach, OnBreach::Stop);
    assert!(settings.degradation.refusing.contains(&TenantId::from("local")));
    let planned = settings.routing.plan("llama-70b", &Facts::default()).unwrap();
    let hops: Vec<_> = planned
        .plan
        .hops
        .iter()
        .map(|hop| (hop.target, hop.within, hop.degrades))
        .collect();
    assert_eq!(
        hops,
        [
            (TargetId(0), None, None),
            (TargetId(1), Some(Duration::from_secs(20)), Some(DegradeKind::Model)),
        ]
    );
}

#[test]
fn a_fallback_without_an_objective() {
    let text = with(
        "routes:\n  - model: assistant\n    targets: [{ pool: big, model: llama-70b }]\n    fallback:\n      \
         - { on: [quota], pool: small, model: llama-8b }\n",
    );
    insta::assert_snapshot!(errors(&text), @r"
    error: calls for `assistant` may be answered by another model here, and nothing says how many may be
      --> maitred.yaml:15:11 (routes[0].fallback[0])
       |
    15 |       - { on: [quota], pool: small, model: llama-8b }
       |           ^^
       = help: say how many such answers are too many; add at the top of the file:
               degradation:
                 objective: { ratio: 5%, window: 3m, on_breach: alert }
    ");
}

#[test]
fn targets_that_are_not_there() {
    let text = with(
        "routes:\n  - model: a\n    targets:\n      - { pool: bigg, model: llama-70b }\n      - { pool: small, model: llama-70b }\n      \
         - { pool: small, model: lama-8b }\n  - model: b\n",
    );
    insta::assert_snapshot!(errors(&format!("{text}{OBJECTIVE}")), @r"
    error: there is no pool `bigg`
      --> maitred.yaml:14:17 (routes[0].targets[0].pool)
       |
    14 |       - { pool: bigg, model: llama-70b }
       |                 ^^^^
       = help: did you mean `big`?
               pools: `big` and `small`

    error: the pool `small` has no model `llama-70b`
      --> maitred.yaml:15:31 (routes[0].targets[1].model)
       |
    15 |       - { pool: small, model: llama-70b }
       |                               ^^^^^^^^^
       = help: it is a model of the pool `big`

    error: the pool `small` has no model `lama-8b`
      --> maitred.yaml:16:31 (routes[0].targets[2].model)
       |
    16 |       - { pool: small, model: lama-8b }
       |                               ^^^^^^^
       = help: did you mean `llama-8b`?
               models there: `llama-8b`

    error: the route `b` leads nowhere
      --> maitred.yaml:17:5 (routes[1])
       |
    17 |   - model: b
       |     ^^^^^
       = help: add `targets` with a `pool` and a `model` each; only a route with the name of a pool's model can do without
    ");
}

#[test]
fn weights_that_choose_nothing() {
    let text = with(
        "routes:\n  - model: a\n    targets: [{ pool: big, model: llama-70b, weight: 0 }]\n  - model: b\n    choose: order\n    targets:\n      \
         - { pool: big, model: llama-70b, weight: 3 }\n      - { pool: big, model: llama-70b }\n",
    );
    insta::assert_snapshot!(errors(&format!("{text}{OBJECTIVE}")), @r"
    error: all weights are 0, so no call goes anywhere
      --> maitred.yaml:13:5 (routes[0].targets)
       |
    13 |     targets: [{ pool: big, model: llama-70b, weight: 0 }]
       |     ^^^^^^^
       = help: give a weight above 0 to at least one target

    error: with `choose: order` weights say nothing
      --> maitred.yaml:17:48 (routes[1].targets[0].weight)
       |
    17 |       - { pool: big, model: llama-70b, weight: 3 }
       |                                                ^
       = help: leave it out, or write `choose: weight`

    error: this target is named twice
      --> maitred.yaml:18:11 (routes[1].targets[1])
       |
    18 |       - { pool: big, model: llama-70b }
       |           ^^^^
       = help: leave one of them out
    ");
}

#[test]
fn policies_of_nobody() {
    let text = with("degradation:\n  objective: { window: 1s }\n  tenants: [{ tenant: locl, policy: refuse }]\n");
    insta::assert_snapshot!(errors(&text), @r"
    error: a share of answers cannot be taken over 1s
      --> maitred.yaml:12:24 (degradation.objective.window)
       |
    12 |   objective: { window: 1s }
       |                        ^^
       = help: say from `10s` to `1h`

    error: nobody is of the tenant `locl`, so this holds for nobody
      --> maitred.yaml:13:23 (degradation.tenants[0].tenant)
       |
    13 |   tenants: [{ tenant: locl, policy: refuse }]
       |                       ^^^^
       = help: did you mean `local`?
    ");
}
