//! Tenants, keys and limits that are changed while the gateway runs, by the commands that people use.

use std::net::SocketAddr;
use std::time::Duration;

use maitred_tenant::Role;
use maitred_test::{Folder, Play, Redis, Request, ScriptedEndpoint, Signal, Start, eventually, vllm};
use serde_json::{Value, json};

use crate::roles::{access, token_of};
use crate::table::{CHAT, Config, Gateway, MAITRED, MODEL, key, maitred};

/// A configuration in which keys can be changed.
fn config(endpoint: &ScriptedEndpoint, more: &str) -> String {
    let yaml = Config::of([endpoint.address()])
        .file("audit: { folder: audit }")
        .file(more)
        .to_yaml();
    let open = "admin: { address: \"127.0.0.1:0\" }";
    yaml.replace(
        open,
        &format!(
            "admin: {{ address: \"127.0.0.1:0\", changes: changes.jsonl, {} }}",
            access()
        ),
    )
}

async fn endpoint() -> ScriptedEndpoint {
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    endpoint.on(CHAT, Play::json(200, &vllm::chat(MODEL, "one")));
    endpoint
}

async fn gateway(yaml: &str, folder: Folder) -> Gateway {
    let gateway = Gateway::start_in(folder, yaml, &[]).await;
    until_serving(&gateway).await;
    gateway
}

async fn until_serving(gateway: &Gateway) {
    eventually("a ready gateway", async || {
        (call(gateway.address, &key(1).0).await == 200).then_some(())
    })
    .await;
}

async fn call(address: SocketAddr, credential: &str) -> u16 {
    let body = format!(r#"{{"model":"{MODEL}","messages":[]}}"#);
    Request::post(CHAT, body)
        .bearer(credential)
        .send(address)
        .await
        .status()
}

/// Runs a command against a gateway as somebody of this role; its exit code, and what it has printed.
async fn run(gateway: &Gateway, role: Role, arguments: &[&str]) -> (bool, String) {
    let run = maitred(arguments).args(["--admin", &format!("http://{}", gateway.admin)]);
    let run = run.env("MAITRED_ADMIN_TOKEN", token_of(role)).run().await;
    (run.code == Some(0), format!("{}{}", run.stdout, run.stderr))
}

async fn done(gateway: &Gateway, arguments: &[&str]) -> String {
    let (is_done, printed) = run(gateway, Role::KeyAdmin, arguments).await;
    assert!(is_done, "{arguments:?}: {printed}");
    printed
}

/// The word after a label in what a command has printed.
fn word(printed: &str, label: &str) -> String {
    let line = printed.lines().find_map(|line| line.strip_prefix(label));
    line.unwrap_or_else(|| panic!("no {label} in {printed}"))
        .trim()
        .to_owned()
}

async fn ask(gateway: &Gateway, method: &str, path: &str, body: Value) -> Value {
    let request = Request::new(method, path)
        .header("content-type", "application/json")
        .body(body.to_string());
    let answer = request.bearer(&token_of(Role::KeyAdmin)).send(gateway.admin).await;
    assert!(answer.status() < 300, "{method} {path}: {}", answer.text());
    answer.json()
}

#[tokio::test]
async fn a_key_from_its_making_to_its_revocation() {
    let endpoint = endpoint().await;
    let yaml = config(&endpoint, "");
    let gateway = gateway(&yaml, Folder::new()).await;
    let (is_done, printed) = run(
        &gateway,
        Role::KeyAdmin,
        &["keys", "create", "--tenant", "acme", "--shared"],
    )
    .await;
    assert!(!is_done && printed.contains("no tenant `acme`"), "{printed}");
    let (is_done, printed) = run(&gateway, Role::Viewer, &["tenants", "create", "acme"]).await;
    assert!(!is_done && printed.contains("needs the role `key-admin`"), "{printed}");
    done(&gateway, &["tenants", "create", "acme", "--weight", "3"]).await;
    let made = done(
        &gateway,
        &[
            "keys",
            "create",
            "--tenant",
            "acme",
            "--user",
            "ada",
            "--models",
            MODEL,
            "--expires",
            "30d",
        ],
    )
    .await;
    let (first, id) = (word(&made, "key:"), word(&made, "id:"));
    assert_eq!(call(gateway.address, &first).await, 200);
    let record = &gateway.records_with(|record| record["tenant"] == "acme").await[0];
    assert_eq!((&record["user"], &record["key"]), (&"ada".into(), &id.as_str().into()));

    // Another takes its place, and both are good for a while.
    let made = done(&gateway, &["keys", "rotate", &id, "--overlap", "1h"]).await;
    let (second, second_id) = (word(&made, "key:"), word(&made, "id:"));
    assert_eq!(
        (
            call(gateway.address, &first).await,
            call(gateway.address, &second).await
        ),
        (200, 200)
    );
    done(&gateway, &["keys", "revoke", &id]).await;
    assert_eq!(
        (
            call(gateway.address, &first).await,
            call(gateway.address, &second).await
        ),
        (401, 200)
    );
    // One of the file is revoked too, although it stands there.
    let of_file = key(2).1.split(':').nth(1).unwrap().to_owned();
    assert_eq!(call(gateway.address, &key(2).0).await, 200);
    done(&gateway, &["keys", "revoke", &of_file]).await;
    assert_eq!(call(gateway.address, &key(2).0).await, 401);
    let made = done(&gateway, &["keys", "rotate", &second_id, "--overlap", "0m"]).await;
    assert_eq!(
        (
            call(gateway.address, &second).await,
            call(gateway.address, &word(&made, "key:")).await
        ),
        (401, 200)
    );
    let third = word(&made, "key:");
    let gateway = reloaded_and_killed(gateway, &yaml, &[&first, &key(2).0]).await;
    assert_eq!(call(gateway.address, &third).await, 200);
    let listed = done(&gateway, &["keys", "list"]).await;
    let revoked = listed.lines().filter(|line| line.contains(" yes "));
    assert_eq!(revoked.count(), 2, "{listed}");
    audit_says_who(&gateway, &[&first, &second]).await;
}

/// Neither a reload nor a death changes what is refused.
async fn reloaded_and_killed(mut gateway: Gateway, yaml: &str, refused: &[&str]) -> Gateway {
    gateway
        .folder
        .write("maitred.yaml", &format!("{yaml}tasks: {{ tokens: 5000 }}\n"));
    eventually("the reload", async || {
        let labels = [("result", "applied")];
        let page = Request::get("/metrics")
            .bearer(&token_of(Role::Viewer))
            .send(gateway.admin)
            .await
            .text();
        (crate::table::sum(&page, "maitred_config_reloads_total", &labels) > 0.0).then_some(())
    })
    .await;
    for key in refused {
        assert_eq!(call(gateway.address, key).await, 401);
    }
    gateway.child.signal(Signal::Kill);
    gateway.child.exit().await;
    let gateway = self::gateway(yaml, gateway.folder).await;
    for key in refused {
        assert_eq!(call(gateway.address, key).await, 401);
    }
    gateway
}

/// Every change is in the audit with its actor, its version and its difference, and no key is anywhere.
async fn audit_says_who(gateway: &Gateway, keys: &[&str]) {
    let folder = gateway.folder.path().join("audit");
    let printed = maitred(["audit", "export", "--folder"])
        .args([&folder])
        .run()
        .await
        .success();
    let entries: Vec<Value> = printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let changes: Vec<_> = entries.iter().filter(|entry| entry["version"].is_u64()).collect();
    let said: Vec<_> = changes
        .iter()
        .map(|entry| {
            (
                entry["version"].as_u64().unwrap(),
                entry["action"].as_str().unwrap(),
                entry["by"].as_str().unwrap(),
            )
        })
        .collect();
    let by = "the-key-admin";
    let expected = [
        (1, "put tenant", by),
        (2, "create key", by),
        (3, "rotate key", by),
        (4, "revoke key", by),
        (5, "revoke key", by),
        (6, "rotate key", by),
    ];
    assert_eq!(said, expected);
    assert_eq!(changes[0]["diff"]["after"]["weight"], 3);
    let journal = gateway.folder.read("changes.jsonl");
    assert_eq!(journal.lines().count(), 6);
    let everything = format!(
        "{printed}{journal}{}{}",
        gateway.child.output(),
        gateway.folder.read("records.log")
    );
    for key in keys {
        assert!(
            !everything.contains(key.splitn(3, '-').nth(2).unwrap()),
            "a key is written down"
        );
    }
}

#[tokio::test]
async fn limits_change_while_calls_run() {
    let endpoint = endpoint().await;
    let gateway = gateway(&config(&endpoint, ""), Folder::new()).await;
    done(
        &gateway,
        &[
            "limits",
            "set",
            "tight",
            "--tenant",
            "tenant-2",
            "--tokens-per-day",
            "1",
        ],
    )
    .await;
    assert_eq!(
        (
            call(gateway.address, &key(2).0).await,
            call(gateway.address, &key(3).0).await
        ),
        (429, 200)
    );
    let listed = done(&gateway, &["limits", "list"]).await;
    assert!(listed.contains("tight") && listed.contains("tenant-2"), "{listed}");
    done(&gateway, &["limits", "remove", "tight"]).await;
    assert_eq!(call(gateway.address, &key(2).0).await, 200);
    let (is_done, printed) = run(&gateway, Role::KeyAdmin, &["limits", "set", "none"]).await;
    assert!(!is_done && printed.contains("amount"), "{printed}");
}

#[tokio::test]
async fn a_limit_that_is_added_begins_with_what_was_used() {
    let endpoint = endpoint().await;
    let yaml = config(&endpoint, crate::ledger::LEDGER);
    let folder = Folder::new();
    folder.write("maitred.yaml", &yaml);
    let migrate = maitred(["store", "migrate"]).folder(folder.path()).run().await;
    assert!(migrate.success().contains("the tables are made"));
    let gateway = gateway(&yaml, folder).await;
    let body = json!({ "model": MODEL, "max_tokens": 10, "messages": [] }).to_string();
    let ask = async || {
        let call = Request::post(CHAT, body.clone()).bearer(&key(2).0);
        let answer = call.send(gateway.address).await;
        let left = answer.header("x-ratelimit-remaining-tokens");
        let used = answer.json()["usage"]["total_tokens"].as_u64().unwrap();
        (used, left.map(|left| left.parse::<u64>().unwrap()))
    };
    let mut used = 0;
    for _ in 0..5 {
        let (tokens, left) = ask().await;
        assert_eq!(left, None);
        used += tokens;
    }
    let set = ["limits", "set", "daily", "--tenant", "tenant-2"];
    done(&gateway, &[set.as_slice(), &["--tokens-per-day", "10000"]].concat()).await;
    // Besides what was used, the call itself stands reserved: a little, and never five times what it uses.
    let left = eventually("the limit to know what was used", async || {
        let before = used;
        let (tokens, left) = ask().await;
        used += tokens;
        let reserved = (10_000 - before).checked_sub(left.unwrap())?;
        (reserved < tokens * 5).then_some(left)
    });
    left.await;
}

/// Whoever may change keys may look at what would come back; to bring it back needs the role of those who may do everything.
async fn only_an_admin_restores(one: &Gateway) {
    let listed = done(one, &["changes", "list"]).await;
    assert!(
        listed.contains("put limit") && listed.contains("the-key-admin"),
        "{listed}"
    );
    assert_eq!(listed.lines().count(), 6, "{listed}");
    let checked = done(one, &["changes", "restore", "2", "--check"]).await;
    assert!(
        checked.contains("tight") && checked.contains("Nothing is changed yet"),
        "{checked}"
    );
    assert!(!checked.contains("\"hash\""), "{checked}");
    let (is_done, printed) = run(one, Role::KeyAdmin, &["changes", "restore", "2"]).await;
    assert!(!is_done && printed.contains("needs the role `admin`"), "{printed}");
    let (is_done, printed) = run(one, Role::Admin, &["changes", "restore", "9"]).await;
    assert!(!is_done && printed.contains("no earlier version"), "{printed}");
}

/// What was changed is taken back by its version, on all gateways of a group, and is taken back still after a kill.
#[tokio::test]
async fn an_earlier_version_is_restored_everywhere_but_for_what_was_revoked() {
    let redis = Redis::start().await;
    let endpoint = endpoint().await;
    let yaml = config(&endpoint, "sharing: { redis: { env: REDIS } }");
    let start = async |folder: Folder| {
        let start = Start::new("gateway", MAITRED).env("REDIS", redis.url());
        let gateway = Gateway::start_as(start, folder, &yaml, &[]).await;
        until_serving(&gateway).await;
        gateway
    };
    let (mut one, two) = (start(Folder::new()).await, start(Folder::new()).await);
    let make = async || {
        word(
            &done(&one, &["keys", "create", "--tenant", "tenant-1", "--shared"]).await,
            "key:",
        )
    };
    let (kept, stolen) = (make().await, make().await);
    let tight = [
        "limits",
        "set",
        "tight",
        "--tenant",
        "tenant-2",
        "--tokens-per-day",
        "1",
    ];
    done(&one, &tight).await;
    let later = make().await;
    let id = stolen.split('-').nth(1).unwrap();
    done(&one, &["keys", "revoke", id]).await;
    let statuses = async |gateway: &Gateway| {
        let mut statuses = Vec::new();
        for key in [&kept, &stolen, &later, &key(2).0] {
            statuses.push(call(gateway.address, key).await);
        }
        statuses
    };
    assert_eq!(statuses(&one).await, [200, 401, 200, 429]);

    only_an_admin_restores(&one).await;
    let (is_done, printed) = run(&one, Role::Admin, &["changes", "restore", "2"]).await;
    assert!(is_done && printed.contains("(version 6)"), "{printed}");
    let back = [200, 401, 401, 200];
    assert_eq!(statuses(&one).await, back);
    eventually("the other to follow", async || {
        (statuses(&two).await == back).then_some(())
    })
    .await;
    one.child.kill().await;
    one = start(one.folder).await;
    assert_eq!(statuses(&one).await, back);

    // That is a change like others: it is in the audit, and what it took away comes back with the version before it.
    let (is_done, printed) = run(&two, Role::Admin, &["changes", "restore", "5"]).await;
    assert!(is_done && printed.contains("(version 7)"), "{printed}");
    let forth = [200, 401, 200, 429];
    eventually("the first to follow", async || {
        (statuses(&one).await == forth).then_some(())
    })
    .await;
    audit_says_what_was_restored(&one).await;
}

async fn audit_says_what_was_restored(gateway: &Gateway) {
    let printed = maitred(["audit", "export", "--folder"])
        .args([gateway.folder.path().join("audit")])
        .run()
        .await
        .success();
    let entries = printed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let restored: Vec<Value> = entries.filter(|entry| entry["action"] == "restore").collect();
    let said = |entry: &Value| (entry["target"].clone(), entry["version"].clone(), entry["by"].clone());
    assert_eq!(
        restored.iter().map(said).collect::<Vec<_>>(),
        [
            (json!("version 2"), json!(6), json!("the-admin")),
            (json!("version 5"), json!(7), json!("the-admin"))
        ]
    );
    assert_eq!(restored[0]["diff"]["before"]["limits"]["tight"]["tokens_per_day"], 1);
}

#[tokio::test]
async fn without_a_place_for_changes_nothing_is_changed() {
    let endpoint = endpoint().await;
    let yaml = config(&endpoint, "").replace("changes: changes.jsonl, ", "");
    let gateway = gateway(&yaml, Folder::new()).await;
    let (is_done, printed) = run(&gateway, Role::Admin, &["tenants", "create", "acme"]).await;
    assert!(!is_done && printed.contains("`admin.changes`"), "{printed}");
}

/// A gateway that is killed again and again while keys are made loses none that it has shown.
#[tokio::test]
async fn no_confirmed_key_is_lost_when_the_gateway_is_killed() {
    let endpoint = endpoint().await;
    let yaml = config(&endpoint, "");
    let mut gateway = gateway(&yaml, Folder::new()).await;
    let mut shown = Vec::new();
    for _ in 0..3 {
        let before = changes(&gateway);
        let killing = async {
            eventually("some keys", async || (changes(&gateway) > before + 4).then_some(())).await;
            gateway.child.signal(Signal::Kill);
        };
        let (keys, ()) = tokio::join!(keys_until_death(&gateway), killing);
        shown.extend(keys);
        gateway.child.exit().await;
        gateway = self::gateway(&yaml, gateway.folder).await;
        for key in &shown {
            assert_eq!(call(gateway.address, key).await, 200);
        }
    }
    assert!(shown.len() >= 12, "{}", shown.len());
}

/// How many changes are in a gateway's journal.
fn changes(gateway: &Gateway) -> usize {
    let journal = std::fs::read_to_string(gateway.folder.path().join("changes.jsonl"));
    journal.unwrap_or_default().lines().count()
}

/// Makes keys as long as there is a gateway.
async fn keys_until_death(gateway: &Gateway) -> Vec<String> {
    let mut keys = Vec::new();
    loop {
        let (is_done, printed) = run(
            gateway,
            Role::Admin,
            &["keys", "create", "--tenant", "tenant-1", "--shared"],
        )
        .await;
        if !is_done {
            return keys;
        }
        keys.push(word(&printed, "key:"));
    }
}

/// Two gateways of a group: what one changes holds on the other within a second, and the file of neither is needed.
#[tokio::test]
async fn a_revocation_reaches_the_other_gateway_within_a_second() {
    let mut redis = Redis::start().await;
    let endpoint = endpoint().await;
    let yaml = config(&endpoint, "sharing: { redis: { env: REDIS } }");
    let start = async |redis: &Redis| {
        let start = Start::new("gateway", MAITRED).env("REDIS", redis.url());
        let gateway = Gateway::start_as(start, Folder::new(), &yaml, &[]).await;
        until_serving(&gateway).await;
        gateway
    };
    let (one, two) = (start(&redis).await, start(&redis).await);
    let made = ask(
        &one,
        "POST",
        "/admin/v1/keys",
        json!({ "tenant": "tenant-1", "shared": true }),
    )
    .await;
    let (shown, id) = (made["key"].as_str().unwrap(), made["id"].as_str().unwrap());
    eventually("the key on the other", async || {
        (call(two.address, shown).await == 200).then_some(())
    })
    .await;
    let slowest = slowest_revocation(&one, &two).await;
    println!("refused on the other gateway after {slowest:?} at most");
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    both_change_at_once(&one, &two).await;
    // A server that has lost its memory is told again; a gateway that comes then knows all.
    redis.stop(Signal::Kill).await;
    let answer = Request::new("DELETE", &format!("/admin/v1/keys/{id}"))
        .bearer(&token_of(Role::Admin))
        .send(one.admin)
        .await;
    assert_eq!(answer.status(), 202, "the others do not know yet: {}", answer.text());
    assert_eq!(
        (call(one.address, shown).await, call(two.address, shown).await),
        (401, 200)
    );
    let (is_done, printed) = run(&one, Role::Admin, &["tenants", "create", "later"]).await;
    assert!(
        !is_done,
        "what the others would not hear of is not confirmed: {printed}"
    );
    redis.restart().await;
    let three = start(&redis).await;
    for gateway in [&one, &two, &three] {
        eventually("the key to be refused", async || {
            (call(gateway.address, shown).await == 401).then_some(())
        })
        .await;
    }
}

/// The longest that a key was good on one gateway after the other had confirmed that it is revoked.
async fn slowest_revocation(one: &Gateway, two: &Gateway) -> Duration {
    let mut slowest = Duration::ZERO;
    for _ in 0..5 {
        let made = ask(
            one,
            "POST",
            "/admin/v1/keys",
            json!({ "tenant": "tenant-1", "shared": true }),
        )
        .await;
        let key = made["key"].as_str().unwrap();
        eventually("the key on the other", async || {
            (call(two.address, key).await == 200).then_some(())
        })
        .await;
        ask(
            one,
            "DELETE",
            &format!("/admin/v1/keys/{}", made["id"].as_str().unwrap()),
            Value::Null,
        )
        .await;
        let since = clock();
        assert_eq!(
            call(one.address, key).await,
            401,
            "here it is refused when that is confirmed"
        );
        eventually("the key to be refused on the other", async || {
            (call(two.address, key).await == 401).then_some(())
        })
        .await;
        slowest = slowest.max(since.elapsed().unwrap());
    }
    slowest
}

/// Both change something at once, and both changes hold on both.
async fn both_change_at_once(one: &Gateway, two: &Gateway) {
    let body = || json!({ "tenant": "tenant-2", "shared": true });
    let (first, second) = tokio::join!(
        ask(one, "POST", "/admin/v1/keys", body()),
        ask(two, "POST", "/admin/v1/keys", body())
    );
    assert_ne!(first["version"], second["version"]);
    for made in [&first, &second] {
        for gateway in [one, two] {
            let key = made["key"].as_str().unwrap();
            eventually("both keys on both", async || {
                (call(gateway.address, key).await == 200).then_some(())
            })
            .await;
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "how long a real gateway takes")]
fn clock() -> std::time::SystemTime {
    std::time::SystemTime::now()
}
