//! How each mistake is shown.

use super::*;

pub(super) fn with(line: &str) -> String {
    format!("{HEAD}{line}\n")
}

fn top(line: &str) -> String {
    format!("{line}\n{HEAD}")
}

/// The usual file with these keys instead of anonymous callers.
pub(super) fn keys(keys: &str) -> String {
    HEAD.replace("anonymous: { tenant: local }", &format!("keys: [{keys}]"))
}

/// The usual file with a profile of which `rest` follows the name.
fn profile(rest: &str) -> String {
    format!("{HEAD}    profile: mine\nprofiles:\n  - name: mine\n{rest}\n")
}

pub(super) fn errors(text: &str) -> String {
    render(&refused(text), text)
}

pub(super) fn warnings(text: &str) -> String {
    render(&loaded(text).warnings, text)
}

#[test]
fn an_empty_file() {
    insta::assert_snapshot!(errors(""), @r"
    error: the file is empty
     --> maitred.yaml:1:1
      |
    1 |
      | ^
      = help: the least that works, with an endpoint on this machine and for callers on this machine:
              version: 1
              auth:
                anonymous:
                  tenant: local
              pools:
                - name: main
                  models:
                    - name: MODEL
                  endpoints:
                    - address: 127.0.0.1:8000
    ");
}

#[test]
fn only_comments() {
    insta::assert_snapshot!(errors("# nothing\n"), @r"
    error: the file is empty
     --> maitred.yaml:1:1
      |
    1 | # nothing
      | ^
      = help: the least that works, with an endpoint on this machine and for callers on this machine:
              version: 1
              auth:
                anonymous:
                  tenant: local
              pools:
                - name: main
                  models:
                    - name: MODEL
                  endpoints:
                    - address: 127.0.0.1:8000
    ");
}

#[test]
fn no_yaml() {
    insta::assert_snapshot!(errors("version: 1\npools: [\n"), @r"
    error: this is not YAML: while parsing a node, did not find expected node content
     --> maitred.yaml:3:1
      |
    3 |
      | ^
    ");
}

#[test]
fn a_tab_as_indent() {
    insta::assert_snapshot!(errors("version: 1\nauth:\n\tkeys: []\n"), @r"
    error: this is not YAML: tabs disallowed within this context (block indentation)
     --> maitred.yaml:3:1
      |
    3 |  keys: []
      | ^
      = help: indent with spaces; YAML takes no tabs there
    ");
}

#[test]
fn two_documents() {
    insta::assert_snapshot!(errors("version: 1\n---\nversion: 1\n"), @r"
    error: the file holds more than one document; only one is read
     --> maitred.yaml:2:1
      |
    2 | ---
      | ^^^
    ");
}

#[test]
fn a_tag() {
    insta::assert_snapshot!(errors("version: !!int 1\n"), @r"
    error: tags (`!...`) are not used here
     --> maitred.yaml:1:10
      |
    1 | version: !!int 1
      |          ^^^^^^^
      = help: remove the tag; put text that looks like a number into quotes
    ");
}

#[test]
fn a_list_at_the_top() {
    insta::assert_snapshot!(errors("- version: 1\n"), @r"
    error: expected a group of options (`version`, `listeners`, `admin`, `auth`, `pools`, `providers`, `routes`, `degradation`, `answers`, `profiles`, `classes`, `default_class`, `tenants`, `quotas`, `tasks`, `sharing`, `ledger`, `audit`, `prices`, `timeouts`, `limits`, `decisions`, `log` and `recording`), found a list
     --> maitred.yaml:1:3
      |
    1 | - version: 1
      |   ^^^^^^^
    ");
}

#[test]
fn another_version() {
    insta::assert_snapshot!(errors("version: 2\nwhatever: true\n"), @r"
    error: expected the number 1, found the number 2
     --> maitred.yaml:1:10 (version)
      |
    1 | version: 2
      |          ^
      = help: this maitred reads version 1
    ");
}

#[test]
fn no_version() {
    insta::assert_snapshot!(errors(&HEAD.replace("version: 1\n", "")), @r"
    error: `version` is missing
     --> maitred.yaml:1:1 (version)
      |
    1 | auth:
      | ^^^^
      = help: expected the number 1
              Version of this format
              this maitred reads version 1
    ");
}

#[test]
fn an_unknown_option() {
    insta::assert_snapshot!(errors(&with("    endpiont: 5")), @r"
    error: unknown option `endpiont` in `pools[0]`
     --> maitred.yaml:8:5 (pools[0].endpiont)
      |
    8 |     endpiont: *
      |     ^^^^^^^^
      = help: did you mean `endpoints`?
              allowed here: `name`, `engine`, `models`, `release`, `endpoints`, `dns`, `profile`, `shadow`, `session_header`, `balance`, `scrape`, `staleness`, `metrics`, `cache`, `prefix`, `kv_events`, `startup`, `readiness`, `ejection`, `waiting`, `retry`, `reckoning`, `speed_prior`, `api_key`, `max_in_flight`, `max_calls` and `max_endpoints`
    ");
}

#[test]
fn an_option_given_twice() {
    insta::assert_snapshot!(errors(&with("    name: other")), @r"
    error: `name` is given twice; first in line 5
     --> maitred.yaml:8:5 (pools[0].name)
      |
    8 |     name: other
      |     ^^^^
      = help: each option may be given once
    ");
}

#[test]
fn an_option_without_value() {
    insta::assert_snapshot!(errors(&with("    scrape:")), @r"
    error: `scrape` has no value
     --> maitred.yaml:8:5 (pools[0].scrape)
      |
    8 |     scrape:
      |     ^^^^^^
      = help: expected a group of options (`interval`, `timeout`, `path` and `port`); without this line the default holds
    ");
}

#[test]
fn a_missing_option() {
    insta::assert_snapshot!(errors(&HEAD.replace("name: qwen3-8b", "served_as: x")), @r"
    error: `name` is missing in `pools[0].models[0]`
     --> maitred.yaml:6:16 (pools[0].models[0].name)
      |
    6 |     models: [{ served_as: x }]
      |                ^^^^^^^^^
      = help: expected a name such as `qwen3-8b`
              What clients ask for
    ");
}

#[test]
fn a_wrong_type() {
    insta::assert_snapshot!(errors(&with("    max_in_flight: many")), @r"
    error: expected a whole number from 1 to 1048576, found `many`
     --> maitred.yaml:8:20 (pools[0].max_in_flight)
      |
    8 |     max_in_flight: many
      |                    ^^^^
    ");
}

#[test]
fn a_number_out_of_range() {
    insta::assert_snapshot!(errors(&with("    max_in_flight: 0")), @r"
    error: expected a whole number from 1 to 1048576, found the number 0
     --> maitred.yaml:8:20 (pools[0].max_in_flight)
      |
    8 |     max_in_flight: 0
      |                    ^
    ");
}

#[test]
fn a_number_for_text() {
    insta::assert_snapshot!(errors(&HEAD.replace("qwen3-8b", "8")), @r"
    error: expected a name such as `qwen3-8b`, found the number 8
     --> maitred.yaml:6:22 (pools[0].models[0].name)
      |
    6 |     models: [{ name: 8 }]
      |                      ^
      = help: put it into quotes if it is meant as text
    ");
}

#[test]
fn text_for_a_list() {
    insta::assert_snapshot!(errors(&HEAD.replace("[{ name: qwen3-8b }]", "qwen3-8b")), @r"
    error: expected a list, found `qwen3-8b`
     --> maitred.yaml:6:13 (pools[0].models)
      |
    6 |     models: qwen3-8b
      |             ^^^^^^^^
      = help: put `- ` before each element, each on a line of its own
    ");
}

#[test]
fn an_empty_list() {
    insta::assert_snapshot!(errors(&HEAD.replace("[{ name: qwen3-8b }]", "[]")), @r"
    error: this list is empty; it needs at least 1 element
     --> maitred.yaml:6:5 (pools[0].models)
      |
    6 |     models: []
      |     ^^^^^^
    ");
}

#[test]
fn an_unknown_word() {
    insta::assert_snapshot!(errors(&with("    engine: vlm")), @r"
    error: `engine` cannot be `vlm`
     --> maitred.yaml:8:13 (pools[0].engine)
      |
    8 |     engine: vlm
      |             ^^^
      = help: did you mean `vllm`?
              allowed: `vllm`, `sglang`, `trtllm-serve`, `triton-tensorrt-llm` and `triton`
    ");
}

#[test]
fn a_bad_duration() {
    insta::assert_snapshot!(errors(&with("    scrape: { interval: 50 ms }")), @r"
    error: `50 ms` is not a duration
     --> maitred.yaml:8:25 (pools[0].scrape.interval)
      |
    8 |     scrape: { interval: 50 ms }
      |                         ^^^^^
      = help: `50` has no unit; write `50s` or `50ms`
    ");
}

#[test]
fn a_duration_without_unit() {
    insta::assert_snapshot!(errors(&with("    scrape: { interval: 50 }")), @r"
    error: expected a duration such as `1m30s`, found the number 50
     --> maitred.yaml:8:25 (pools[0].scrape.interval)
      |
    8 |     scrape: { interval: 50 }
      |                         ^^
      = help: `50` has no unit; write `50s` or `50ms`
    ");
}

#[test]
fn a_bad_size() {
    insta::assert_snapshot!(errors(&top("limits: { body: 32MB }")), @r"
    error: `32MB` is not a size
     --> maitred.yaml:1:17 (limits.body)
      |
    1 | limits: { body: 32MB }
      |                 ^^^^
      = help: units are binary; write `32MiB`
    ");
}

#[test]
fn a_bad_share() {
    insta::assert_snapshot!(errors(&with("    retry: { budget: 0.2 }")), @r"
    error: expected a share such as `20%`, found the number 0.2
     --> maitred.yaml:8:22 (pools[0].retry.budget)
      |
    8 |     retry: { budget: 0.2 }
      |                      ^^^
      = help: a share is a number from 0 to 100 followed by `%`, such as `20%`
    ");
}

#[test]
fn a_bad_listening_address() {
    insta::assert_snapshot!(errors(&top("listeners: [{ address: localhost:8080 }]")), @r"
    error: `localhost:8080` is not an IP address and port
     --> maitred.yaml:1:24 (listeners[0].address)
      |
    1 | listeners: [{ address: localhost:8080 }]
      |                        ^^^^^^^^^^^^^^
      = help: to listen needs an IP address, not a name; write `127.0.0.1:8080`
    ");
}

#[test]
fn a_bad_endpoint_address() {
    insta::assert_snapshot!(errors(&HEAD.replace("127.0.0.1:8000", "http://127.0.0.1:8000/v1")), @r"
    error: `http://127.0.0.1:8000/v1` is not a host and port
     --> maitred.yaml:7:28 (pools[0].endpoints[0].address)
      |
    7 |     endpoints: [{ address: http://127.0.0.1:8000/v1 }]
      |                            ^^^^^^^^^^^^^^^^^^^^^^^^
      = help: an address has neither scheme nor path; write `127.0.0.1:8000`
    ");
}

#[test]
fn a_bad_date() {
    insta::assert_snapshot!(errors(&keys(&format!("{{ hash: '{HASH}', tenant: a, user: u, expires: 31.1.2027 }}"))), @r"
    error: `31.1.2027` is not a date or time
     --> maitred.yaml:3:140 (auth.keys[0].expires)
      |
    3 | ... tenant: a, user: u, expires: 31.1.2027 }]
      |                                  ^^^^^^^^^
      = help: a point of time is a date such as `2027-01-31` or a time with an offset such as `2027-01-31T12:00:00Z`
    ");
}

#[test]
fn a_bad_hash() {
    insta::assert_snapshot!(errors(&keys("{ hash: 'hmac-sha256:abcdefghijkl:12', tenant: a }")), @r"
    error: this is not a key hash
     --> maitred.yaml:3:18 (auth.keys[0].hash)
      |
    3 |   keys: [{ hash: ****************************** ******* * **
      |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      = help: the digest is 64 lower-case hexadecimal digits, not 2 characters
    ");
}

#[test]
fn a_bad_metric() {
    insta::assert_snapshot!(errors(&with("    metrics: { queued: ['a{b}'] }")), @r"
    error: `a{b}` is not a metric
     --> maitred.yaml:8:25 (pools[0].metrics.queued[0])
      |
    8 |     metrics: { queued: ['a{b}'] }
      |                         ^^^^^^
      = help: column 4: expected `=` after the label name
    ");
}

#[test]
fn a_bad_model_pattern() {
    insta::assert_snapshot!(errors(&keys(&format!("{{ hash: '{HASH}', tenant: a, user: u, models: ['a*b'] }}"))), @r"
    error: `a*b` is not a model pattern
     --> maitred.yaml:3:140 (auth.keys[0].models[0])
      |
    3 | ... tenant: a, user: u, models: ['a*b'] }]
      |                                  ^^^^^
      = help: `*` may only be the last character of a model pattern
    ");
}

#[test]
fn a_plain_secret() {
    insta::assert_snapshot!(errors(&with("    api_key: sk-123")), @r"
    error: expected `env: NAME` or `file: PATH`, found something else, not shown here since it may be a secret
     --> maitred.yaml:8:14 (pools[0].api_key)
      |
    8 |     api_key: ******
      |              ^^^^^^
      = help: a secret never stands in this file, only where to find it
    ");
}

#[test]
fn nobody_may_call() {
    insta::assert_snapshot!(errors(&HEAD.replace("auth:\n  anonymous: { tenant: local }\n", "")), @r"
    error: nobody may call: there are neither keys nor anonymous callers
     --> maitred.yaml:1:1 (auth)
      |
    1 | version: 1
      | ^^^^^^^
      = help: `maitred keys new` prints a key and its hash; add the hash:
              auth:
                keys:
                  - hash: hmac-sha256:...
                    tenant: NAME
                    user: NAME
              or, for listeners on loopback only, let anyone in:
              auth:
                anonymous:
                  tenant: local
    ");
}

#[test]
fn anonymous_beyond_loopback() {
    insta::assert_snapshot!(errors(&top("listeners: [{ address: 0.0.0.0:80 }]")), @r"
    error: 0.0.0.0:80 can be reached from other machines, and `auth.anonymous` would let anyone in without a key
     --> maitred.yaml:1:24 (listeners[0].address)
      |
    1 | listeners: [{ address: 0.0.0.0:80 }]
      |                        ^^^^^^^^^^
      = help: remove `auth.anonymous` and list keys in `auth.keys` (`maitred keys new` makes one), or listen on `127.0.0.1`
    ");
}

#[test]
fn admin_beyond_loopback() {
    insta::assert_snapshot!(errors(&top("admin: { address: '[::]:9091' }")), @r"
    error: the administrative listener cannot listen on [::]:9091: nobody is in `admin.access`, so whoever reaches it could drain endpoints
     --> maitred.yaml:1:19 (admin.address)
      |
    1 | admin: { address: '[::]:9091' }
      |                   ^^^^^^^^^^^
      = help: use a loopback address such as `127.0.0.1:9091`, or list in `admin.access` who may administer
    ");
}

#[test]
fn admin_on_a_listener() {
    insta::assert_snapshot!(errors(&top("admin: { address: 127.0.0.1:8080 }")), @r"
    error: 127.0.0.1:8080 is already one of `listeners`
     --> maitred.yaml:1:19 (admin.address)
      |
    1 | admin: { address: 127.0.0.1:8080 }
      |                   ^^^^^^^^^^^^^^
      = help: the administrative listener needs an address of its own
    ");
}

#[test]
fn an_address_twice() {
    insta::assert_snapshot!(errors(&top("listeners:\n  - address: 127.0.0.1:80\n  - address: 127.0.0.1:80")), @r"
    error: the listening address `127.0.0.1:80` is already in line 2
     --> maitred.yaml:3:14 (listeners[1].address)
      |
    3 |   - address: 127.0.0.1:80
      |              ^^^^^^^^^^^^
      = help: each listening address may occur once
    ");
}

#[test]
fn tls_without_key() {
    insta::assert_snapshot!(errors(&top("listeners: [{ address: 127.0.0.1:1, tls: { cert: a.pem } }]")), @r"
    error: `key` is missing in `listeners[0].tls`
     --> maitred.yaml:1:37 (listeners[0].tls.key)
      |
    1 | listeners: [{ address: 127.0.0.1:1, tls: { cert: a.pem } }]
      |                                     ^^^
      = help: expected a file path such as `/etc/maitred/tls.crt`
              File with the private key in PEM
    ");
}

#[test]
fn a_key_twice() {
    insta::assert_snapshot!(errors(&keys(&format!("{{ hash: '{HASH}', tenant: a, user: u }}, {{ hash: '{HASH}', tenant: b, user: u }}"))), @r"
    error: the key `abcdefghijkl` is already in line 3
     --> maitred.yaml:3:141 (auth.keys[1].hash)
      |
    3 | ...tenant: a, user: u }, { hash: 'hmac-sha256:abcdefghijkl:0000000000000000000000000000000000000000000000000000000000000000
      |                                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      = help: each key may occur once
    ");
}

#[test]
fn a_key_never_valid() {
    insta::assert_snapshot!(errors(&keys(&format!("{{ hash: '{HASH}', tenant: a, user: u, not_before: 2027-02-01, expires: 2027-01-01 }}"))), @r"
    error: the key is never valid: it expires at 2027-01-01T00:00:00Z and begins at 2027-02-01T00:00:00Z
     --> maitred.yaml:3:164 (auth.keys[0].expires)
      |
    3 | ..._before: 2027-02-01, expires: 2027-01-01 }]
      |                                  ^^^^^^^^^^
      = help: `expires` is later than `not_before`
    ");
}

#[test]
fn a_key_for_no_model() {
    insta::assert_snapshot!(errors(&keys(&format!("{{ hash: '{HASH}', tenant: a, user: u, models: [qwen3-8] }}"))), @r"
    error: there is no model that fits `qwen3-8`
     --> maitred.yaml:3:140 (auth.keys[0].models[0])
      |
    3 | ... tenant: a, user: u, models: [qwen3-8] }]
      |                                  ^^^^^^^
      = help: did you mean `qwen3-8b`?
    ");
}

#[test]
fn a_pool_name_twice() {
    insta::assert_snapshot!(errors(&with("  - { name: main, models: [{ name: b }], endpoints: [{ address: a:1 }] }")), @r"
    error: the pool name `main` is already in line 5
     --> maitred.yaml:8:13 (pools[1].name)
      |
    8 |   - { name: main, models: [{ name: b }], endpoints: [{ address: a:1 }] }
      |             ^^^^
      = help: each pool name may occur once
    ");
}

#[test]
fn a_model_twice() {
    insta::assert_snapshot!(errors(&with("  - { name: b, models: [{ name: qwen3-8b }], endpoints: [{ address: a:1 }] }")), @r"
    error: the model name `qwen3-8b` is already in line 6
     --> maitred.yaml:8:33 (pools[1].models[0].name)
      |
    8 |   - { name: b, models: [{ name: qwen3-8b }], endpoints: [{ address: a:1 }] }
      |                                 ^^^^^^^^
      = help: each model name may occur once
    ");
}

#[test]
fn an_endpoint_twice() {
    insta::assert_snapshot!(errors(&HEAD.replace("}]\n    endpoints: [", "}]\n    endpoints: [{ address: 127.0.0.1:8000 }, ")), @r"
    error: the endpoint `127.0.0.1:8000` is already in line 7
     --> maitred.yaml:7:57 (pools[0].endpoints[1].address)
      |
    7 |     endpoints: [{ address: 127.0.0.1:8000 }, { address: 127.0.0.1:8000 }]
      |                                                         ^^^^^^^^^^^^^^
      = help: each endpoint may occur once
    ");
}

#[test]
fn a_pool_without_endpoints() {
    insta::assert_snapshot!(errors(&HEAD.replace("    endpoints: [{ address: 127.0.0.1:8000 }]\n", "")), @r"
    error: the pool `main` has no endpoints
     --> maitred.yaml:5:5 (pools[0])
      |
    5 |   - name: main
      |     ^^^^
      = help: add `endpoints` with an `address` each, or `dns` with a `name` and a `port`
    ");
}

#[test]
fn an_adapter_of_nothing() {
    insta::assert_snapshot!(errors(&HEAD.replace("}]\n    endpoints", "}, { name: b, adapter_of: qwen-8b }]\n    endpoints")), @r"
    error: this pool has no model `qwen-8b`
     --> maitred.yaml:6:57 (pools[0].models[1].adapter_of)
      |
    6 |     models: [{ name: qwen3-8b }, { name: b, adapter_of: qwen-8b }]
      |                                                         ^^^^^^^
      = help: did you mean `qwen3-8b`?
              models here: `qwen3-8b`
    ");
}

#[test]
fn an_unknown_profile() {
    insta::assert_snapshot!(errors(&with("    profile: defalt")), @r"
    error: there is no profile `defalt`
     --> maitred.yaml:8:14 (pools[0].profile)
      |
    8 |     profile: defalt
      |              ^^^^^^
      = help: did you mean `default`?
              profiles: `default`, `least-request`, `round-robin` and `scored`
    ");
}

#[test]
fn no_picker() {
    insta::assert_snapshot!(errors(&profile("")), @r"
    error: `picker` is missing in `profiles[0]`
      --> maitred.yaml:10:5 (profiles[0].picker)
       |
    10 |   - name: mine
       |     ^^^^
       = help: expected `power-of-two`, `max-score`, `random`, `weighted-random`, `round-robin` or `least-cost`
               How one of the candidates is taken
               a profile has exactly one picker
    ");
}

#[test]
fn two_pickers() {
    insta::assert_snapshot!(errors(&profile("    picker: random\n    picker: max-score")), @r"
    error: `picker` is given twice; first in line 11
      --> maitred.yaml:12:5 (profiles[0].picker)
       |
    12 |     picker: max-score
       |     ^^^^^^
       = help: each option may be given once
               a profile has exactly one picker
    ");
}

#[test]
fn a_list_of_pickers() {
    insta::assert_snapshot!(errors(&profile("    picker: [random, max-score]")), @r"
    error: expected `power-of-two`, `max-score`, `random`, `weighted-random`, `round-robin` or `least-cost`, found a list
      --> maitred.yaml:11:5 (profiles[0].picker)
       |
    11 |     picker: [random, max-score]
       |     ^^^^^^
       = help: a profile has exactly one picker
    ");
}

#[test]
fn a_profile_twice() {
    insta::assert_snapshot!(errors(&profile("    picker: random\n  - { name: mine, picker: random }")), @r"
    error: the profile name `mine` is already in line 10
      --> maitred.yaml:12:13 (profiles[1].name)
       |
    12 |   - { name: mine, picker: random }
       |             ^^^^
       = help: each profile name may occur once
    ");
}

#[test]
fn a_scorer_twice() {
    insta::assert_snapshot!(errors(&profile("    picker: max-score\n    scorers: [{ name: kv }, { name: kv }]")), @r"
    error: the scorer `kv` is already in line 12
      --> maitred.yaml:12:37 (profiles[0].scorers[1].name)
       |
    12 |     scorers: [{ name: kv }, { name: kv }]
       |                                     ^^
       = help: each scorer may occur once
    ");
}

#[test]
fn a_picker_without_scores() {
    insta::assert_snapshot!(errors(&profile("    picker: max-score")), @r"
    error: the picker `max-score` goes by scores, and no scorer has a weight above 0
      --> maitred.yaml:11:13 (profiles[0].picker)
       |
    11 |     picker: max-score
       |             ^^^^^^^^^
       = help: add to `scorers` one or more of least-request, queue, running, prefill, kv, lora-affinity, session-affinity, prefix-affinity, predicted-latency
    ");
}

#[test]
fn a_limit_that_does_not_suit() {
    insta::assert_snapshot!(errors(&profile("    picker: random\n    filters: [{ name: low-queue, max: 1.5 }, { name: lora-capacity, max: 1 }]")), @r"
    error: this limit does not suit the filter `low-queue`
      --> maitred.yaml:12:39 (profiles[0].filters[0].max)
       |
    12 |     filters: [{ name: low-queue, max: 1.5 }, { name: lora-capacity, max: 1 }]
       |                                       ^^^
       = help: it is a whole number of waiting requests, at least 1

    error: this limit does not suit the filter `lora-capacity`
      --> maitred.yaml:12:74 (profiles[0].filters[1].max)
       |
    12 |     filters: [{ name: low-queue, max: 1.5 }, { name: lora-capacity, max: 1 }]
       |                                                                          ^
       = help: this filter has no limit; remove `max`
    ");
}

#[test]
fn stale_before_it_is_fetched() {
    insta::assert_snapshot!(errors(&with("    scrape: { interval: 300ms }\n    staleness: { policy: saturated }")), @r"
    error: metrics are fetched every 300ms and count as stale after 200ms, so every endpoint counts as full most of the time
     --> maitred.yaml:8:25 (pools[0].scrape.interval)
      |
    8 |     scrape: { interval: 300ms }
      |                         ^^^^^
      = help: make `scrape.interval` a quarter of `staleness.after` or less
    ");
}

#[test]
fn too_frequent_scrapes() {
    insta::assert_snapshot!(errors(&with("    scrape: { interval: 1ms }")), @r"
    error: 1ms is too short
     --> maitred.yaml:8:25 (pools[0].scrape.interval)
      |
    8 |     scrape: { interval: 1ms }
      |                         ^^^
      = help: write at least `10ms`
    ");
}

#[test]
fn a_timeout_that_never_runs_out() {
    insta::assert_snapshot!(errors(&top("timeouts: { first_token: 11m, connect: 12m }")), @r"
    error: `first_token` (11m) is longer than `total` (10m), so it can never run out
     --> maitred.yaml:1:26 (timeouts.first_token)
      |
    1 | timeouts: { first_token: 11m, connect: 12m }
      |                          ^^^
      = help: shorten `first_token` or lengthen `total`

    error: `connect` (12m) is longer than `first_token` (11m)
     --> maitred.yaml:1:40 (timeouts.connect)
      |
    1 | timeouts: { first_token: 11m, connect: 12m }
      |                                        ^^^
      = help: shorten `connect` or lengthen `first_token`
    ");
}

#[test]
fn no_time_at_all() {
    insta::assert_snapshot!(errors(&top("timeouts: { idle: 0s }")), @r"
    error: this duration cannot be zero
     --> maitred.yaml:1:19 (timeouts.idle)
      |
    1 | timeouts: { idle: 0s }
      |                   ^^
      = help: write a duration such as `5s`
    ");
}

#[test]
fn a_body_of_nothing() {
    insta::assert_snapshot!(errors(&top("limits: { body: 5B }")), @r"
    error: 5B is too small to be useful
     --> maitred.yaml:1:17 (limits.body)
      |
    1 | limits: { body: 5B }
      |                 ^^
      = help: write at least 1KiB
    ");
}

#[test]
fn an_ejection_longer_than_its_longest() {
    insta::assert_snapshot!(errors(&with("    ejection: { base: 10m }")), @r"
    error: `base` (10m) is longer than `max` (5m)
     --> maitred.yaml:8:23 (pools[0].ejection.base)
      |
    8 |     ejection: { base: 10m }
      |                       ^^^
      = help: shorten `base` or lengthen `max`
    ");
}

#[test]
fn two_custom_metrics_of_one_name() {
    insta::assert_snapshot!(errors(&with("    metrics: { custom: [{ name: a, metric: b }, { name: a, metric: c }] }")), @r"
    error: the custom metric `a` is already in line 8
     --> maitred.yaml:8:57 (pools[0].metrics.custom[1].name)
      |
    8 |     metrics: { custom: [{ name: a, metric: b }, { name: a, metric: c }] }
      |                                                         ^
      = help: each custom metric may occur once
    ");
}

#[test]
fn an_alias_inside_itself() {
    insta::assert_snapshot!(errors("version: 1\npools: &a [*a]\n"), @r"
    error: this alias stands inside what it refers to
     --> maitred.yaml:2:12
      |
    2 | pools: &a [*a]
      |            ^^
    ");
}

#[test]
fn startup_only_asks_for_health() {
    insta::assert_snapshot!(warnings(&with("    startup: { check: health }")), @r"
    warning: the startup and the readiness probe both ask `/health`, so the one says nothing that the other does not
     --> maitred.yaml:8:23 (pools[0].startup.check)
      |
    8 |     startup: { check: health }
      |                       ^^^^^^
      = help: use `full`, which also sees the model listed and makes it run once
    ");
}

#[test]
fn startup_only_looks_at_the_port() {
    insta::assert_snapshot!(warnings(&with("    startup: { check: port }")), @r"
    warning: an endpoint listens long before it can serve, so its first calls will fail
     --> maitred.yaml:8:23 (pools[0].startup.check)
      |
    8 |     startup: { check: port }
      |                       ^^^^
      = help: use `full`; `port` is there to compare with
    ");
}

#[test]
fn signals_that_an_engine_lacks() {
    insta::assert_snapshot!(warnings(&profile("    picker: max-score\n    scorers: [{ name: kv }]").replace("    profile", "    engine: triton\n    profile")), @r"
    warning: the profile `mine` reads signals that triton does not report: kv_used, blocks
     --> maitred.yaml:9:14 (pools[0].profile)
      |
    9 |     profile: mine
      |              ^^^^
      = help: its plugins treat the endpoints of this engine as average; use other plugins, or say under `metrics` or `cache` where the figures come from
    ");
}

#[test]
fn scorers_that_do_nothing() {
    insta::assert_snapshot!(warnings(&profile("    picker: random\n    scorers: [{ name: kv }]")), @r"
    warning: the picker `random` does not look at scores, so the scorers do nothing
      --> maitred.yaml:11:13 (profiles[0].picker)
       |
    11 |     picker: random
       |             ^^^^^^
       = help: remove the scorers, or use the picker `max-score`
    ");
}

#[test]
fn stale_metrics_ignored() {
    insta::assert_snapshot!(warnings(&with("    scrape: { interval: 1s }\n    staleness: { policy: ignore }")), @r"
    warning: metrics are fetched every 1s and count as stale after 200ms, so they are left out most of the time
     --> maitred.yaml:8:25 (pools[0].scrape.interval)
      |
    8 |     scrape: { interval: 1s }
      |                         ^^
      = help: make `scrape.interval` a quarter of `staleness.after` or less
    ");
}

#[test]
fn quotas_on_nobody_and_nothing() {
    insta::assert_snapshot!(
        errors(&with(
            "quotas:\n  - name: a\n    tenant: locale\n    tokens_per_day: 10\n  - name: b\n    model: tiny-9\n    per: [tenant, tenant]\n    burst: 3\n  - name: a\n    tokens_per_day: 1\n"
        )),
        @r"
    error: no key is of the tenant `locale`, so this limits nothing
      --> maitred.yaml:10:13 (quotas[0].tenant)
       |
    10 |     tenant: locale
       |             ^^^^^^
       = help: did you mean `local`?

    error: the quota `b` limits nothing
      --> maitred.yaml:12:5 (quotas[1])
       |
    12 |   - name: b
       |     ^^^^
       = help: add one or more of `calls_per_second`, `concurrent_calls`, `tokens_per_minute`, `tokens_per_day`, `tokens_per_task` and `money_per_month`

    error: no pool serves a model that fits `tiny-9`, so this limits nothing
      --> maitred.yaml:13:12 (quotas[1].model)
       |
    13 |     model: tiny-9
       |            ^^^^^^
       = help: name a model of one of `pools` or `providers`, as clients name it

    error: this stands here twice
      --> maitred.yaml:14:19 (quotas[1].per[1])
       |
    14 |     per: [tenant, tenant]
       |                   ^^^^^^
       = help: leave one of them out

    error: a burst needs a rate
      --> maitred.yaml:15:12 (quotas[1].burst)
       |
    15 |     burst: 3
       |            ^
       = help: add `calls_per_second`, or leave `burst` out

    error: the quota name `a` is already in line 9
      --> maitred.yaml:16:11 (quotas[2].name)
       |
    16 |   - name: a
       |           ^
       = help: each quota name may occur once
    "
    );
}

#[test]
fn quotas_that_never_say_anything() {
    insta::assert_snapshot!(
        warnings(&with(
            "quotas:\n  - { name: a, tokens_per_day: 10, tokens_per_minute: 11 }\n  - { name: b, tokens_per_day: 20 }\n  - { name: c, tokens_per_day: 9, per: [user] }\n"
        )),
        @r"
    warning: a minute may use more than a whole day, so this never limits anything
     --> maitred.yaml:9:55 (quotas[0].tokens_per_minute)
      |
    9 |   - { name: a, tokens_per_day: 10, tokens_per_minute: 11 }
      |                                                       ^^
      = help: `tokens_per_day` is larger than `tokens_per_minute`

    warning: the quota `a` limits the same, so only the smaller amount counts
      --> maitred.yaml:10:32 (quotas[1].tokens_per_day)
       |
    10 |   - { name: b, tokens_per_day: 20 }
       |                                ^^
       = help: leave one of them out, or tell them apart by `tenant`, `model` or `per`
    "
    );
}

#[test]
fn classes_that_do_not_fit() {
    let text = format!(
        "{HEAD}{}",
        "default_class: standard\nclasses:\n  - { name: gold, priority: 5 }\n  - { name: plain, priority: 5 }\n\
         tenants:\n  - { name: locla, weight: 2 }\n"
    );
    insta::assert_snapshot!(errors(&text), @r"
    error: there is no class `standard`
     --> maitred.yaml:8:16 (default_class)
      |
    8 | default_class: standard
      |                ^^^^^^^^
      = help: classes: `gold` and `plain`

    error: the priority `5` is already in line 10
      --> maitred.yaml:11:30 (classes[1].priority)
       |
    11 |   - { name: plain, priority: 5 }
       |                              ^
       = help: each priority may occur once

    error: no key is of the tenant `locla`
      --> maitred.yaml:13:13 (tenants[0].name)
       |
    13 |   - { name: locla, weight: 2 }
       |             ^^^^^
       = help: did you mean `local`?
    ");
}

#[test]
fn a_room_that_lets_nobody_go() {
    insta::assert_snapshot!(errors(&with("    waiting: { kv_cache: 0%, max_wait: 0s, prefill_tokens: 0 }")), @r"
    error: no endpoint would ever have room
     --> maitred.yaml:8:26 (pools[0].waiting.kv_cache)
      |
    8 |     waiting: { kv_cache: 0%, max_wait: 0s, prefill_tokens: 0 }
      |                          ^^
      = help: write a share such as `80%`

    error: this duration cannot be zero
     --> maitred.yaml:8:40 (pools[0].waiting.max_wait)
      |
    8 |     waiting: { kv_cache: 0%, max_wait: 0s, prefill_tokens: 0 }
      |                                        ^^
      = help: write a duration such as `5s`

    error: expected a whole number of at least 1, found the number 0
     --> maitred.yaml:8:60 (pools[0].waiting.prefill_tokens)
      |
    8 |     waiting: { kv_cache: 0%, max_wait: 0s, prefill_tokens: 0 }
      |                                                            ^
    ");
}
