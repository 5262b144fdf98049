use proptest::prelude::*;

use super::*;
use crate::{PoolChange, render};

mod admin;
mod answers;
mod decisions;
mod golden;
mod prefix;
mod providers;
mod quotas;
mod routes;

/// What every file of these tests begins with: enough to be in order, in lines 1 to 8.
const HEAD: &str = "\
version: 1
auth:
  anonymous: { tenant: local }
pools:
  - name: main
    models: [{ name: qwen3-8b }]
    endpoints: [{ address: 127.0.0.1:8000 }]
";

const HASH: &str = "hmac-sha256:abcdefghijkl:0000000000000000000000000000000000000000000000000000000000000000";

/// Every secret there is, whatever it is called.
fn known_secrets(_: &raw::SecretRef) -> Result<String, String> {
    Ok("0123456789abcdef".to_owned())
}

fn loaded(text: &str) -> Loaded {
    load("maitred.yaml", text, &known_secrets).unwrap_or_else(|errors| panic!("{}", render(&errors, text)))
}

fn refused(text: &str) -> Vec<Diagnostic> {
    load("maitred.yaml", text, &known_secrets).expect_err("the file should be refused")
}

/// Diagnostics as `line:column path: message`, one a line.
fn brief(diagnostics: &[Diagnostic]) -> String {
    let line = |found: &Diagnostic| format!("{}:{} {}: {}\n", found.line, found.column, found.path, found.message);
    diagnostics.iter().map(line).collect()
}

fn examples() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|ending| ending == "yaml"))
        .collect();
    paths.sort();
    assert!(paths.len() >= 7, "the examples are there");
    let read = |path: std::path::PathBuf| (path.display().to_string(), std::fs::read_to_string(&path).unwrap());
    paths.into_iter().map(read).collect()
}

#[test]
fn every_example_loads_without_a_word() {
    for (name, text) in examples() {
        match load(&name, &text, &known_secrets) {
            Ok(loaded) => assert!(loaded.warnings.is_empty(), "{}", render(&loaded.warnings, &text)),
            Err(errors) => panic!("{}", render(&errors, &text)),
        }
    }
}

#[test]
fn the_effective_configuration_reads_back_to_the_same() {
    for (name, text) in examples() {
        let first = loaded(&text);
        let effective = first.effective();
        let second = loaded(&effective);
        assert_eq!(second.settings, first.settings, "{name}");
        assert_eq!(second.effective(), effective, "{name}: it is complete");
        assert!(second.warnings.is_empty(), "{}", render(&second.warnings, &effective));
    }
}

#[test]
fn a_file_of_nine_mistakes_shows_all_nine() {
    let text = "\
version: 1
listeners:
  - address: 0.0.0.0:8080
auth:
  anonymous: { tenant: local }
  pepper: { env: PEPPER }
pools:
  - name: main
    enigne: vllm
    models:
      - name: qwen3-8b
      - name: legal
        adapter_of: qwen3-8
    endpoints:
      - address: 127.0.0.1
    profile: fastest
    scrape: { interval: 1s }
    staleness: { policy: saturated }
timeouts: { idle: 5, first_token: 20m }
log: { format: xml }
";
    insta::assert_snapshot!(brief(&refused(text)), @r"
    3:14 listeners[0].address: 0.0.0.0:8080 can be reached from other machines, and `auth.anonymous` would let anyone in without a key
    9:5 pools[0].enigne: unknown option `enigne` in `pools[0]`
    13:21 pools[0].models[1].adapter_of: this pool has no model `qwen3-8`
    15:18 pools[0].endpoints[0].address: `127.0.0.1` is not a host and port
    16:14 pools[0].profile: there is no profile `fastest`
    17:25 pools[0].scrape.interval: metrics are fetched every 1s and count as stale after 200ms, so every endpoint counts as full most of the time
    19:19 timeouts.idle: expected a duration such as `1m30s`, found the number 5
    19:35 timeouts.first_token: `first_token` (20m) is longer than `total` (10m), so it can never run out
    20:16 log.format: `format` cannot be `xml`
    ");
}

#[test]
fn what_follows_from_a_mistake_is_not_another_one() {
    // The pool has no endpoints because the option is mistyped, the profile exists although it is broken, and the
    // broken key leaves nobody who may call.
    let text = "\
version: 1
auth:
  keys: [{ hash: none, tenant: acme }]
profiles: [{ name: mine, picker: best }]
pools:
  - name: main
    models: [{ name: qwen3-8b }]
    endpoint: [{ address: 127.0.0.1:8000 }]
    profile: mine
";
    insta::assert_snapshot!(brief(&refused(text)), @r"
    3:18 auth.keys[0].hash: this is not a key hash
    4:34 profiles[0].picker: `picker` cannot be `best`
    8:5 pools[0].endpoint: unknown option `endpoint` in `pools[0]`
    ");
}

#[test]
fn places_stay_right_behind_a_broken_element() {
    let text = "\
version: 1
auth: { anonymous: { tenant: local } }
pools:
  - name: main
    models: [{ name: a }, { nam: b }, { name: c, adapter_of: x }, { name: d, adapter_of: e }, { name: e, x: 1 }]
    endpoints: [{ address: nowhere }, { address: a:1 }, { address: a:1 }]
";
    let errors = refused(text);
    insta::assert_snapshot!(brief(&errors), @r"
    5:29 pools[0].models[1].nam: unknown option `nam` in `pools[0].models[1]`
    5:62 pools[0].models[2].adapter_of: this pool has no model `x`
    5:106 pools[0].models[4].x: unknown option `x` in `pools[0].models[4]`
    6:28 pools[0].endpoints[0].address: `nowhere` is not a host and port
    6:68 pools[0].endpoints[2].address: the endpoint `a:1` is already in line 6
    ");
}

#[test]
fn secrets_are_read_where_the_file_says_and_shown_nowhere() {
    let text = HEAD.replace("    endpoints", "    api_key: { file: /run/key }\n    endpoints");
    let secret = "canary-0123456789";
    let asked = std::cell::RefCell::new(Vec::new());
    let read = |at: &raw::SecretRef| {
        asked.borrow_mut().push(at.to_string());
        Ok(secret.to_owned())
    };
    let loaded = load("maitred.yaml", &text, &read).unwrap();
    assert_eq!(asked.into_inner(), ["the file `/run/key`"]);
    assert_eq!(loaded.settings.pools[0].api_key.as_ref().unwrap().expose(), secret);
    assert!(!format!("{loaded:?}").contains(secret));
    assert!(!loaded.effective().contains(secret));
    assert!(loaded.effective().contains("file: /run/key"));
}

#[test]
fn a_secret_written_by_mistake_is_not_repeated() {
    let check = |line: &str| {
        let text = format!("{HEAD}    {line}\n");
        let shown = render(&refused(&text), &text);
        assert!(!shown.contains("canary"), "{shown}");
    };
    check("api_key: sk-canary");
    check("api_key: { env: [sk-canary] }");
    check("api_key: { enw: sk-canary }");
    check("api_key: { env: 'my canary' }");
    check("api_kye: sk-canary");
    check("retry: { mim: 1, api_key: sk-canary }");
    check("token: sk-canary");
    let text = HEAD.replace(
        "anonymous: { tenant: local }",
        "keys: [{ hash: mtr-canary, tenant: x }]",
    );
    let shown = render(&refused(&text), &text);
    assert!(!shown.contains("canary") && shown.contains("this is a key"), "{shown}");
}

#[test]
fn no_more_is_shown_than_anybody_reads() {
    let many: String = (0..300).fold(HEAD.to_owned(), |text, number| {
        text + &format!("    unknown{number}: 1\n")
    });
    let errors = refused(&many);
    assert_eq!(errors.len(), 101);
    assert_eq!(errors[100].message, "200 more mistakes are not shown");
    let text = format!(
        "version: 1\npools:\n{}",
        "  - { name: a, models: [{ name: a }] }\n".repeat(200)
    );
    assert_eq!(refused(&text).len(), 101);
}

#[test]
fn foreign_line_ends_and_marks_do_no_harm() {
    assert_eq!(loaded(&HEAD.replace('\n', "\r\n")).settings, loaded(HEAD).settings);
    assert_eq!(loaded(&format!("\u{feff}{HEAD}")).settings, loaded(HEAD).settings);
    let errors = refused(&format!("{HEAD}    engine: x\n").replace('\n', "\r\n"));
    assert_eq!((errors[0].line, errors[0].column), (8, 13));
}

#[test]
fn thousands_of_keys_load_quickly() {
    let key = |number: usize| {
        let id: String = number
            .to_string()
            .chars()
            .map(|digit| char::from(b'a' + digit as u8 - b'0'))
            .collect();
        format!(
            "    - {{ hash: 'hmac-sha256:{id:a>12}:{}', tenant: t, shared: true, models: [qwen3-8b] }}\n",
            "0".repeat(64)
        )
    };
    let keys: String = (0..6_500).map(key).collect();
    let text = HEAD.replace("  anonymous: { tenant: local }\n", &format!("  keys:\n{keys}"));
    assert_eq!(loaded(&text).settings.auth.keys.len(), 6_500);
}

#[test]
fn defaults_are_the_documented_ones() {
    let settings = loaded(HEAD).settings;
    let pool = &settings.pools[0];
    assert_eq!(settings.listeners[0].address.to_string(), "127.0.0.1:8080");
    assert_eq!(settings.listeners[0].max_concurrent_streams, 32);
    assert_eq!(settings.admin.address.to_string(), "127.0.0.1:9091");
    assert_eq!(settings.limits.body.to_string(), "32MiB");
    assert_eq!(pool.scrape.interval.as_millis(), 50);
    assert_eq!(pool.options.staleness.stale_after.as_millis(), 200);
    assert_eq!(
        pool.probes.startup.interval.as_secs() * u64::from(pool.probes.startup.failures),
        300
    );
    assert_eq!(
        pool.probes.readiness.interval.as_secs() * u64::from(pool.options.readiness.failed_probes),
        15
    );
    assert_eq!(pool.profile, maitred_sched::Profile::default());
    assert_eq!(
        pool.options,
        maitred_sched::PoolOptions::default(),
        "the scheduler's own defaults are the file's"
    );
    assert_eq!(pool.endpoints[0].engine.metrics_path, "/metrics");
}

#[test]
fn what_is_written_arrives() {
    let text = format!(
        "{HEAD}    profile: mine
    balance: connection
    max_in_flight: 7
    cache: {{ block_size: 32, blocks: 100 }}
    retry: {{ budget: 2.5%, attempts: 2 }}
    metrics: {{ queued: [mine_queued], lora: {{ family: adapters }}, custom: [{{ name: heat, metric: gpu_heat }}] }}
    session_header: X-Conversation
profiles:
  - name: mine
    filters: [{{ name: low-queue, max: 9 }}]
    scorers: [{{ name: kv, weight: 0.1 }}]
    picker: power-of-two
"
    );
    let loaded = loaded(&text);
    let pool = &loaded.settings.pools[0];
    let engine = &pool.endpoints[0].engine;
    assert_eq!(pool.balance, crate::Balance::Connection);
    assert_eq!(pool.options.max_in_flight, 7);
    assert_eq!(
        (engine.options.block_size, engine.options.blocks),
        (Some(32), Some(100))
    );
    assert!((pool.options.retry.share - 0.025).abs() < 1e-12);
    assert_eq!(pool.attempts, 2);
    assert_eq!(engine.mapping.queued[0].to_string(), "mine_queued");
    assert_eq!(engine.mapping.custom[0].name, "heat");
    let lora = engine.mapping.lora.as_ref().unwrap();
    assert_eq!(
        (lora.family.as_str(), lora.max_label.as_str()),
        ("adapters", "max_lora")
    );
    assert_eq!(pool.session_header, "x-conversation");
    assert_eq!(pool.profile.filters(), [maitred_sched::Filter::LowQueue { max: 9 }]);
    assert_eq!(pool.profile.picker(), maitred_sched::Picker::PowerOfTwo);
}

#[test]
fn figures_of_the_pools_engine_do_not_reach_other_engines() {
    let text = HEAD.replace(
        "    endpoints: [{ address: 127.0.0.1:8000 }]",
        "    metrics: { queued: [mine] }\n    endpoints: [{ address: a:1 }, { address: b:1, engine: sglang }]",
    );
    let settings = loaded(&text).settings;
    let queued = |index: usize| settings.pools[0].endpoints[index].engine.mapping.queued[0].to_string();
    assert_eq!(queued(0), "mine");
    assert_eq!(queued(1), "sglang:num_queue_reqs");
}

#[test]
fn keys_grant_what_the_file_says() {
    let key = maitred_tenant::NewKey::make(&[7; maitred_tenant::NEW_KEY_RANDOM_BYTES]);
    let hash = key.hash(&maitred_tenant::KeyHasher::new(Some(b"0123456789abcdef")));
    let auth = format!(
        "pepper: {{ env: PEPPER }}\n  keys:\n    - {{ hash: '{hash}', tenant: acme, user: ada, models: ['qwen3-*'], expires: 2027-01-31 }}"
    );
    let text = HEAD.replace("anonymous: { tenant: local }", &auth);
    let ring = loaded(&text).settings.auth.keys;
    let last = UnixMillis::new(1_801_353_599_999);
    let grant = ring.check(key.expose(), last).unwrap();
    assert_eq!(
        (grant.tenant.as_str(), grant.user.as_ref().unwrap().as_str()),
        ("acme", "ada")
    );
    assert!(grant.may_use("qwen3-8b") && !grant.may_use("llama"));
    let end = UnixMillis::new(1_801_353_600_000);
    assert_eq!(ring.check(key.expose(), end), Err(maitred_tenant::KeyRefusal::Expired));
}

#[test]
fn a_reload_tells_which_pools_changed() {
    let before = loaded(HEAD).settings;
    assert_eq!(loaded(HEAD).settings, before);
    let pool = |name: &str| {
        format!("  - {{ name: {name}, models: [{{ name: {name} }}], endpoints: [{{ address: '{name}:1' }}] }}\n")
    };
    let old = loaded(&format!("{HEAD}{}{}", pool("gone"), pool("same"))).settings;
    let new = loaded(&format!(
        "{}{}{}",
        HEAD.replace(":8000", ":8001"),
        pool("same"),
        pool("new")
    ))
    .settings;
    let changes = new.changed_pools(&old);
    let changes: Vec<_> = changes.iter().map(|(name, change)| (name.as_str(), *change)).collect();
    assert_eq!(
        changes,
        [
            ("main", PoolChange::Changed),
            ("new", PoolChange::Added),
            ("gone", PoolChange::Removed)
        ]
    );
    assert!(new.needs_restart(&old).is_empty());
    let moved = loaded(&format!(
        "{HEAD}listeners: [{{ address: 127.0.0.1:1 }}]\nlog: {{ level: debug }}\n"
    ))
    .settings;
    assert_eq!(moved.needs_restart(&old), ["listeners", "log"]);
}

#[test]
fn an_unknown_option_whose_name_spans_lines_is_shown() {
    let text = "version: 1\nadmin: { block\n  14336: 1 }\n";
    let found = load("maitred.yaml", text, &|_| Err("no secrets".into())).unwrap_err();
    assert!(found.iter().any(|diagnostic| diagnostic.line == 2), "{found:?}");
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        if let Err(errors) = load("x", &text, &known_secrets) {
            prop_assert!(!errors.is_empty());
            prop_assert!(!render(&errors, &text).is_empty());
        }
    }

    #[test]
    fn no_yaml_like_text_panics(text in "([ \n]{1,5}|version|pools|name|- |: |\\[|\\]|\\{|\\}|&a |\\*a|'|\"|#|!!x |---\n|[0-9]{1,3}|é|\t){0,60}") {
        if let Err(errors) = load("x", &text, &known_secrets) {
            prop_assert!(!render(&errors, &text).is_empty());
        }
    }

    #[test]
    fn no_damaged_example_panics(which in 0_usize..7, at in 0_usize..3000, cut in 0_usize..40, put in "[ -~\n]{0,5}") {
        let (_, text) = examples().swap_remove(which);
        let chars: Vec<char> = text.chars().collect();
        let at = at.min(chars.len());
        let end = (at + cut).min(chars.len());
        let damaged: String = chars[..at].iter().copied().chain(put.chars()).chain(chars[end..].iter().copied()).collect();
        match load("x", &damaged, &known_secrets) {
            Ok(loaded) => {
                let effective = loaded.effective();
                let again = load("x", &effective, &known_secrets);
                prop_assert!(again.is_ok_and(|again| again.settings == loaded.settings), "{effective}");
            }
            Err(errors) => {
                let lines = damaged.lines().count() + 1;
                prop_assert!(errors.iter().all(|error| (1..=lines).contains(&error.line)), "{errors:?}");
                prop_assert!(!render(&errors, &damaged).is_empty());
            }
        }
    }
}
