//! What is said of routes: where names lead to, and what may answer in place of what was asked for.

use std::time::Duration;

use maitred_route::{Facts, Shape, TargetId};
use maitred_types::{DegradeKind, TenantId};

use super::golden::{errors, warnings};
use super::{brief, loaded, refused};
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

/// A route `a` to the large model with these rules.
fn rules(rules: &[&str]) -> String {
    let rules: String = rules.iter().map(|rule| format!("      - {{ {rule} }}\n")).collect();
    with(&format!(
        "routes:\n  - model: a\n    targets: [{{ pool: big, model: llama-70b }}]\n    rules:\n{rules}"
    ))
}

const BIG: &str = "targets: [{ pool: big, model: llama-70b }]";
const SMALL: &str = "targets: [{ pool: small, model: llama-8b }]";

/// A rule with every condition there is.
const EVERYTHING: &str = "\
version: 1
auth:
  anonymous: { tenant: local }
  issuers:
    - issuer: 'https://login.example.com'
      audiences: [m]
      jwks: { file: keys.json }
      claims: { tenant: { claim: /org }, groups: groups }
pools:
  - name: big
    models: [{ name: llama-70b, quality: 2 }, { name: llama-70b-fp8, family: llama-70b, quantization: fp8, quality: 1 }]
    endpoints: [{ address: 127.0.0.1:8000 }]
prices: [{ model: '*', input: '1', output: '2' }]
degradation: { objective: {} }
tasks: { types: [{ name: code, when: { tools: true, stream: true } }] }
routes:
  - model: assistant
    rules:
      - name: everything
        when:
          version: ['2']
          tenants: [local, acme]
          users: [ann]
          groups: [research]
          classes: [high]
          input_tokens: { at_least: 100, below: 8000 }
          task: [code]
          tools: true
          images: false
          json_schema: false
          stream: true
          headers: [{ name: X-Team, is: [red, light blue] }]
          claims: [{ name: /plan/name, is: [gold] }]
          hours: 22:00-06:00
          days: [sat, sun]
          zone: '-03:30'
        targets: [{ pool: big, model: llama-70b, weight: 9 }, { pool: big, model: llama-70b-fp8, weight: 1 }]
        choose: weight
        sticky: session
    targets: [{ pool: big, model: llama-70b }, { pool: big, model: llama-70b-fp8 }]
    choose: cost
    quality: 1
";

#[test]
fn every_condition_reads_back() {
    let first = loaded(EVERYTHING);
    let settings = &first.settings;
    let (route, _) = settings.routing.route("assistant@2").unwrap();
    let conditions: Vec<String> = route.rules[0].when.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(conditions.join("\n"), @r"
    tenants: `local` or `acme`
    users: `ann`
    groups: `research`
    classes: `high`
    task: `code`
    input_tokens from 100 to below 8000
    tools: true
    images: false
    json_schema: false
    stream: true
    headers x-team: `red` or `light blue`
    claims /plan/name: `gold`
    hours: 22:00-06:00 on sat, sun at -03:30
    ");
    assert_eq!(loaded(&first.effective()).settings, *settings);
    assert_eq!(settings.auth.issuers[0].rules.kept[0].as_str(), "/plan/name");
    let task = settings.routing.task(&Facts {
        shape: Shape {
            tools: true,
            stream: true,
            ..Shape::default()
        },
        ..Facts::default()
    });
    assert_eq!(task, Some("code"));
}

#[test]
fn rules_that_no_call_gets_to() {
    let text = rules(&[
        &format!("name: tools, when: {{ tools: true }}, {BIG}"),
        &format!("name: small-tools, when: {{ tools: true, input_tokens: {{ below: 100 }} }}, {SMALL}"),
        &format!("name: short, when: {{ tools: false, input_tokens: {{ below: 100 }} }}, {SMALL}"),
        &format!("name: long, when: {{ input_tokens: {{ at_least: 100 }} }}, {SMALL}"),
        &format!("name: images, when: {{ images: true }}, {BIG}"),
    ]);
    insta::assert_snapshot!(warnings(&text), @r"
    warning: no call gets here: the rules `tools`, `short` and `long` together take every call
      --> maitred.yaml:13:5 (routes[0].targets)
       |
    13 |     targets: [{ pool: big, model: llama-70b }]
       |     ^^^^^^^
       = help: ask more of the rules, or leave `targets` out of them

    warning: no call gets here: the rule `tools` takes all of its calls
      --> maitred.yaml:16:11 (routes[0].rules[1])
       |
    16 |       - { name: small-tools, when: { tools: true, input_tokens: { below: 100 } }, targets: [{ pool: small, model: llama-
       |           ^^^^
       = help: put it before, ask more of what is before it, or leave it out

    warning: no call gets here: the rules `tools`, `short` and `long` together take all of its calls
      --> maitred.yaml:19:11 (routes[0].rules[4])
       |
    19 |       - { name: images, when: { images: true }, targets: [{ pool: big, model: llama-70b }] }
       |           ^^^^
       = help: put it before, ask more of what is before it, or leave it out
    ");
}

#[test]
fn rules_that_contradict_themselves() {
    let text = rules(&[
        &format!("name: none, when: {{ input_tokens: {{ at_least: 100, below: 100 }} }}, {BIG}"),
        &format!("name: nothing, when: {{ input_tokens: {{}}, stream: true }}, {BIG}"),
        &format!("name: none, when: {{ zone: '+01:00', tools: true }}, {BIG}"),
    ]);
    insta::assert_snapshot!(errors(&text), @r"
    error: no number is at least 100 and below 100
      --> maitred.yaml:15:31 (routes[0].rules[0].when.input_tokens)
       |
    15 |       - { name: none, when: { input_tokens: { at_least: 100, below: 100 } }, targets: [{ pool: big, model: llama-70b }]
       |                               ^^^^^^^^^^^^
       = help: the second must be larger than the first

    error: this asks nothing
      --> maitred.yaml:16:34 (routes[0].rules[1].when.input_tokens)
       |
    16 |       - { name: nothing, when: { input_tokens: {}, stream: true }, targets: [{ pool: big, model: llama-70b }] }
       |                                  ^^^^^^^^^^^^
       = help: add `at_least` or `below`, or leave it out

    error: the rule `none` is already in line 15
      --> maitred.yaml:17:17 (routes[0].rules[2].name)
       |
    17 |       - { name: none, when: { zone: '+01:00', tools: true }, targets: [{ pool: big, model: llama-70b }] }
       |                 ^^^^
       = help: each rule may occur once

    error: there are neither hours nor days that this clock could be for
      --> maitred.yaml:17:37 (routes[0].rules[2].when.zone)
       |
    17 |       - { name: none, when: { zone: '+01:00', tools: true }, targets: [{ pool: big, model: llama-70b }] }
       |                                     ^^^^^^^^
       = help: add `hours` or `days`, or leave it out
    ");
}

#[test]
fn conditions_that_contradict_each_other() {
    let headers = "headers: [{ name: x-team, is: [red] }, { name: X-Team, is: [blue] }]";
    insta::assert_snapshot!(errors(&rules(&[&format!("name: both, when: {{ {headers} }}, {BIG}")])), @r"
    error: no call can meet all of this
      --> maitred.yaml:15:23 (routes[0].rules[0].when)
       |
    15 |       - { name: both, when: { headers: [{ name: x-team, is: [red] }, { name: X-Team, is: [blue] }] }, targets: [{ pool:
       |                       ^^^^
       = help: take out the conditions that contradict each other
    ");
}

#[test]
fn rules_for_nobody() {
    let text = rules(&[
        &format!("name: callers, when: {{ tenants: [lokal], users: [ann], classes: [hi], groups: [g] }}, {BIG}"),
        &format!("name: claims, when: {{ claims: [{{ name: plan, is: [gold] }}], tools: true }}, {BIG}"),
    ]);
    insta::assert_snapshot!(errors(&text), @r"
    error: there is no tenant `lokal`, so no call is one of its
      --> maitred.yaml:15:44 (routes[0].rules[0].when.tenants[0])
       |
    15 |       - { name: callers, when: { tenants: [lokal], users: [ann], classes: [hi], groups: [g] }, targets: [{ pool: big, mo
       |                                            ^^^^^
       = help: did you mean `local`?

    error: there is no user `ann`, so no call is one of its
      --> maitred.yaml:15:60 (routes[0].rules[0].when.users[0])
       |
    15 |       - { name: callers, when: { tenants: [lokal], users: [ann], classes: [hi], groups: [g] }, targets: [{ pool: big, mo
       |                                                            ^^^
       = help: no key has a user

    error: there is no class `hi`, so no call is one of its
      --> maitred.yaml:15:76 (routes[0].rules[0].when.classes[0])
       |
    15 |       - { name: callers, when: { tenants: [lokal], users: [ann], classes: [hi], groups: [g] }, targets: [{ pool: big, mo
       |                                                                            ^^
       = help: known here: `high`, `low` and `normal`

    error: nobody is in a group, so this rule is for no call
      --> maitred.yaml:15:81 (routes[0].rules[0].when.groups)
       |
    15 |       - { name: callers, when: { tenants: [lokal], users: [ann], classes: [hi], groups: [g] }, targets: [{ pool: big, mo
       |                                                                                 ^^^^^^
       = help: name in `auth.issuers[].claims.groups` the claim that lists the groups of a user

    error: nobody shows a token, so this rule is for no call
      --> maitred.yaml:16:33 (routes[0].rules[1].when.claims)
       |
    16 |       - { name: claims, when: { claims: [{ name: plan, is: [gold] }], tools: true }, targets: [{ pool: big, model: llama
       |                                 ^^^^^^
       = help: add `auth.issuers`, or tell calls apart by `tenants`, `users` or `headers`
    ");
}

#[test]
fn a_rule_for_longer_calls_than_its_model_can_take() {
    let text = rules(&[
        &format!("name: long, when: {{ input_tokens: {{ at_least: 8000, below: 200000 }} }}, {BIG}"),
        &format!("name: longer, when: {{ input_tokens: {{ at_least: 200000 }} }}, {BIG}"),
    ]);
    insta::assert_snapshot!(warnings(&text), @r"
    warning: the rule lets calls of 199999 tokens through, and this model can take 131072
      --> maitred.yaml:15:94 (routes[0].rules[0].targets[0])
       |
    15 |       - { name: long, when: { input_tokens: { at_least: 8000, below: 200000 } }, targets: [{ pool: big, model: llama-70b
       |                                                                                              ^^^^
       = help: lower `input_tokens.below`, or add a rule before it that sends longer calls elsewhere

    warning: the rule lets calls of 200000 tokens through, and this model can take 131072
      --> maitred.yaml:16:83 (routes[0].rules[1].targets[0])
       |
    16 |       - { name: longer, when: { input_tokens: { at_least: 200000 } }, targets: [{ pool: big, model: llama-70b }] }
       |                                                                                   ^^^^
       = help: lower `input_tokens.below`, or add a rule before it that sends longer calls elsewhere
    ");
}

#[test]
fn ways_to_choose_that_choose_nothing() {
    let text = with(
        "routes:\n  - model: a\n    targets: [{ pool: big, model: llama-70b }]\n    choose: cost\n    quality: 3\n  - model: b\n    \
         targets: [{ pool: big, model: llama-70b }]\n    sticky: user\n    quality: 1\n",
    );
    insta::assert_snapshot!(errors(&text), @r"
    error: there are no prices, so nothing says what is cheap
      --> maitred.yaml:14:13 (routes[0].choose)
       |
    14 |     choose: cost
       |             ^^^^
       = help: add `prices` for the models of `targets`

    error: no target is of quality 3
      --> maitred.yaml:15:14 (routes[0].quality)
       |
    15 |     quality: 3
       |              ^
       = help: say with `quality` at the models of `pools` how good they are, or ask for less

    error: with `choose: order` all calls go the same way
      --> maitred.yaml:18:13 (routes[1].sticky)
       |
    18 |     sticky: user
       |             ^^^^
       = help: leave it out, or give the targets a `weight` each

    error: a least quality is for targets that are chosen by cost
      --> maitred.yaml:19:14 (routes[1].quality)
       |
    19 |     quality: 1
       |              ^
       = help: leave it out, or write `choose: cost`
    ");
}

#[test]
fn fallbacks_that_come_too_late() {
    let text = with(
        "routes:\n  - model: a\n    targets: [{ pool: big, model: llama-70b }]\n    fallback:\n      - { pool: big, model: llama-70b }\n      \
         - { on: [quota], pool: small, model: llama-8b }\n      - { on: [error], pool: small, model: llama-8b }\n",
    );
    insta::assert_snapshot!(errors(&format!("{text}{OBJECTIVE}")), @r"
    error: every call has been tried here already when it falls back
      --> maitred.yaml:15:11 (routes[0].fallback[0])
       |
    15 |       - { pool: big, model: llama-70b }
       |           ^^^^
       = help: name another model; the targets of a route stand in for each other without a fallback

    error: this target is named twice
      --> maitred.yaml:17:11 (routes[0].fallback[2])
       |
    17 |       - { on: [error], pool: small, model: llama-8b }
       |           ^^
       = help: a call tries no target twice: leave one of them out, and write all reasons into one `on`
    ");
}

#[test]
fn types_of_task_that_are_no_type() {
    let text = with("tasks: { types: [{ name: code, when: {} }, { name: code, when: { tools: true } }] }\n");
    insta::assert_snapshot!(errors(&text), @r"
    error: every call is of this type
      --> maitred.yaml:11:32 (tasks.types[0].when)
       |
    11 | tasks: { types: [{ name: code, when: {} }, { name: code, when: { tools: true } }] }
       |                                ^^^^
       = help: say what a call of this type has to have

    error: the type of task `code` is already in line 11
      --> maitred.yaml:11:52 (tasks.types[1].name)
       |
    11 | tasks: { types: [{ name: code, when: {} }, { name: code, when: { tools: true } }] }
       |                                                    ^^^^
       = help: each type of task may occur once
    ");
}

#[test]
fn a_key_may_be_for_a_route() {
    let keys = format!(
        "keys: [{{ hash: '{}', tenant: t, user: u, models: [assistant] }}]",
        super::HASH
    );
    let file = |route: &str| {
        POOLS.replace("anonymous: { tenant: local }", &keys)
            + &format!("routes: [{{ model: {route}, targets: [{{ pool: big, model: llama-70b }}] }}]\n")
    };
    loaded(&file("assistant"));
    let told = brief(&refused(&file("other")));
    assert!(told.contains("there is no model that fits `assistant`"), "{told}");
}

#[test]
fn a_share_that_degrades_in_a_rule_needs_an_objective() {
    let both = "targets: [{ pool: big, model: llama-70b }, { pool: small, model: llama-8b }]";
    let told = brief(&refused(&rules(&[&format!("name: r, {both}")])));
    assert!(told.contains("routes[0].rules[0].targets[1]"), "{told}");
    let weighted = both.replace(" }", ", weight: 1 }");
    loaded(&rules(&[&format!("name: r, when: {{ tools: true }}, {weighted}")]));
}
