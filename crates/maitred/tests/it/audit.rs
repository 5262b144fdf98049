//! The audit of a whole gateway: what it says, that it survives, and that changing it shows.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use maitred_obs::Meters;
use maitred_store::audit::{Audit, AuditOptions, OnFailure, Retention, segments};
use maitred_tenant::Role;
use maitred_test::{Folder, Program, Request, Signal, Start, eventually};
use maitred_types::UnixMillis;
use serde_json::Value;

use crate::roles::{token_of, with_access};
use crate::table::{CHAT, Config, Engine, Gateway, MAITRED, MODEL, key, maitred};

const AUDIT: &str = "audit: { folder: audit }";

fn chat() -> String {
    format!(r#"{{"model":"{MODEL}","max_tokens":2,"messages":[{{"role":"user","content":"the-secret-prompt"}}]}}"#)
}

fn folder(gateway: &Gateway) -> PathBuf {
    gateway.folder.path().join("audit")
}

async fn verify(folder: &Path, more: &[&str]) -> (Option<i32>, String) {
    let run = maitred(["audit", "verify", "--folder"])
        .args([folder])
        .args(more)
        .run()
        .await;
    (run.code, run.stdout)
}

async fn export(folder: &Path) -> Vec<Value> {
    let printed = maitred(["audit", "export", "--folder"])
        .args([folder])
        .run()
        .await
        .success();
    printed
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The entries of one kind, once there are so many.
async fn entries(gateway: &Gateway, kind: &str, count: usize) -> Vec<Value> {
    let folder = folder(gateway);
    eventually(&format!("{count} entries of {kind}"), async || {
        let found: Vec<_> = export(&folder)
            .await
            .into_iter()
            .filter(|entry| entry["kind"] == kind)
            .collect();
        (found.len() >= count).then_some(found)
    })
    .await
}

#[tokio::test]
async fn a_call_leaves_who_called_what_and_what_answered() {
    let engines = Engine::start_several(1, &[]).await;
    let auth = format!(
        "{{ keys: [{{ hash: \"{}\", tenant: acme, user: ada }}, {{ hash: \"{}\", tenant: acme, shared: true }}] }}",
        key(1).1,
        key(2).1
    );
    let gateway = Gateway::ready(&Config::engines(&engines).file(AUDIT).auth(&auth)).await;
    assert_eq!(gateway.ask(chat()).await.status(), 200);
    let with = async |key: &str, body: String| {
        Request::post(CHAT, body)
            .bearer(key)
            .send(gateway.address)
            .await
            .status()
    };
    assert_eq!(with(&key(2).0, chat()).await, 200);
    assert_eq!(with(&key(2).0, chat().replace(MODEL, "nothing")).await, 404);
    assert_eq!(with(&key(3).0, chat()).await, 401);
    let calls = entries(&gateway, "call", 3).await;
    assert_eq!(calls.len(), 3, "of who is not let in there are only counts: {calls:#?}");
    let refused = entries(&gateway, "refused", 1).await.remove(0);
    assert_eq!(
        (&refused["fault"], &refused["calls"], &refused["tenant"]),
        (&"invalid_key".into(), &1.into(), &Value::Null)
    );
    let first = &calls[0];
    let said =
        ["tenant", "user", "model", "served", "pool", "outcome"].map(|name| first[name].as_str().unwrap_or_default());
    assert_eq!(said, ["acme", "ada", MODEL, MODEL, "main", "answered"]);
    assert_eq!(first["endpoint"], engines[0].address.to_string());
    assert_eq!((&first["status"], &first["attempts"]), (&200.into(), &1.into()));
    assert_eq!(first["shared_key"], Value::Null);
    assert_eq!(calls[1]["shared_key"], true, "nobody can say who it was");
    assert_eq!(
        (&calls[2]["fault"], &calls[2]["status"]),
        (&"model_not_found".into(), &404.into())
    );
    let everything = std::fs::read_dir(folder(&gateway))
        .unwrap()
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap());
    let everything: String = everything.collect();
    for secret in ["the-secret-prompt", &key(1).0, &key(2).0, &key(3).0] {
        assert!(!everything.contains(secret), "{secret}");
    }
    let csv = maitred(["audit", "export", "--format", "csv", "--since", "1h", "--config"])
        .args([gateway.folder.path().join("maitred.yaml")])
        .run()
        .await
        .success();
    assert!(
        csv.starts_with("n,at,kind,request_id,tenant,user,") && csv.lines().count() == 7,
        "{csv}"
    );
}

#[tokio::test]
async fn a_gateway_that_is_killed_leaves_a_chain_that_goes_on() {
    let engines = Engine::start_several(1, &["--time-scale", "10"]).await;
    let config = Config::engines(&engines).file(AUDIT);
    let mut gateway = Gateway::ready(&config).await;
    let mut kept = String::new();
    for round in 0..3 {
        for _ in 0..20 {
            assert_eq!(gateway.ask(chat()).await.status(), 200);
        }
        entries(&gateway, "call", round * 20 + 1).await;
        gateway.child.signal(Signal::Kill);
        gateway.child.exit().await;
        let folder = folder(&gateway);
        let (code, printed) = verify(&folder, &[]).await;
        assert_eq!(code, Some(0), "{printed}");
        if !kept.is_empty() {
            let (code, printed) = verify(&folder, &["--head", &kept]).await;
            assert_eq!(code, Some(0), "{printed}");
        }
        kept = printed
            .lines()
            .find_map(|line| line.strip_prefix("head "))
            .unwrap()
            .to_owned();
        gateway = Gateway::start_in(gateway.folder, &config.to_yaml(), &[]).await;
        gateway.until_ready(1).await;
    }
    gateway.child.signal(Signal::Terminate);
    assert_eq!(gateway.child.exit().await.code(), Some(0));
    let all = export(&folder(&gateway)).await;
    assert_eq!(all.iter().filter(|entry| entry["kind"] == "start").count(), 4);
    assert_eq!(all.last().unwrap()["kind"], "end");
    one_byte_is_noticed(&folder(&gateway)).await;
}

async fn one_byte_is_noticed(folder: &Path) {
    let file = folder.join("audit-0000000000000001.jsonl");
    let mut bytes = std::fs::read(&file).unwrap();
    let at = bytes.len() / 2;
    let line = bytes[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
    bytes[at] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    let (code, printed) = verify(folder, &[]).await;
    assert_eq!(code, Some(1));
    assert!(
        printed.contains(&format!("{}, line {line}:", file.display())),
        "{printed}"
    );
    let refused = Program::new(MAITRED)
        .args(["audit", "export", "--folder"])
        .args([folder])
        .run()
        .await;
    assert!(
        refused.code == Some(1) && refused.stderr.contains("BROKEN"),
        "{refused:?}"
    );
}

/// However often somebody is refused, the audit grows by a few entries a second, which say how often that was.
#[tokio::test]
async fn who_is_refused_over_and_over_does_not_fill_the_audit() {
    let engines = Engine::start_several(1, &["--time-scale", "10"]).await;
    let gateway = Gateway::ready(&Config::engines(&engines).file(AUDIT)).await;
    let ask = async |key: String, model: &str| {
        let body = chat().replace(MODEL, model);
        Request::post(CHAT, body)
            .bearer(&key)
            .send(gateway.address)
            .await
            .status()
    };
    for _ in 0..100 {
        assert_eq!(ask(key(1).0, "nothing").await, 404);
        assert_eq!(ask(key(200).0, MODEL).await, 401);
    }
    for _ in 0..10 {
        assert_eq!(ask(key(1).0, MODEL).await, 200);
    }
    let mut gateway = gateway;
    gateway.child.signal(Signal::Terminate);
    assert_eq!(gateway.child.exit().await.code(), Some(0));
    let all = export(&folder(&gateway)).await;
    assert_eq!(all.last().unwrap()["kind"], "end");
    let of = |kind: &str, fault: Value| {
        all.iter()
            .filter(move |entry| entry["kind"] == kind && entry["fault"] == fault)
            .collect::<Vec<_>>()
    };
    let counted = |fault: &str| {
        of("refused", fault.into())
            .iter()
            .map(|entry| entry["calls"].as_u64().unwrap())
            .sum::<u64>()
    };
    let own = of("call", "model_not_found".into()).len() as u64;
    assert_eq!((own + counted("model_not_found"), counted("invalid_key")), (100, 100));
    assert!(own < 50, "{own} of 100 have entries of their own");
    assert_eq!(
        of("call", Value::Null).len(),
        10,
        "what was served has entries of its own"
    );
}

const LONG_AGO: UnixMillis = UnixMillis::new(1_700_000_000_000);

/// A folder with several files of entries, as an earlier gateway would have left it, long ago.
async fn left(folder: &Path) {
    let options = AuditOptions {
        folder: folder.to_owned(),
        on_failure: OnFailure::Refuse,
        sync: false,
        segment: 1000,
        retention: Retention::default(),
        now: || LONG_AGO,
    };
    let audit = Audit::open(&options, Meters::new("0").audit()).unwrap();
    for call in 0..30 {
        let entry = serde_json::json!({ "kind": "call", "call": call });
        audit.enter_durably(&entry, Duration::from_secs(60)).await.unwrap();
    }
    assert!(audit.close(Duration::from_secs(60)));
    let files = segments(folder).unwrap();
    for file in &files[..files.len() - 1] {
        let file = std::fs::File::open(file).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_millis(LONG_AGO.get()))
            .unwrap();
    }
}

#[tokio::test]
async fn what_is_older_than_it_is_kept_leaves_and_the_chain_says_so() {
    let engines = Engine::start_several(1, &[]).await;
    let config = Config::engines(&engines).file("audit: { folder: audit, keep: 2160h }");
    let place = Folder::new();
    let audit = place.path().join("audit");
    left(&audit).await;
    let before = segments(&audit).unwrap();
    assert!(before.len() > 3, "{before:?}");
    let old = &before[..before.len() - 1];
    let gateway = Gateway::start_in(place, &config.to_yaml(), &[]).await;
    let removed = entries(&gateway, "removed", 1).await.remove(0);
    assert_eq!(
        (&removed["first"], &removed["aged_files"]),
        (&1.into(), &old.len().into())
    );
    eventually("the files to leave", async || {
        let left = segments(&audit).unwrap();
        (!old.iter().any(|file| left.contains(file))).then_some(())
    })
    .await;
    let (code, printed) = verify(&audit, &[]).await;
    let said = format!(
        "were removed by `audit.keep` or `audit.max_size`, as entry {} says",
        removed["n"]
    );
    assert!(code == Some(0) && printed.contains(&said), "{printed}");
}

/// The audit's disk takes no more: no call begins, or calls go on, as the policy says.
#[tokio::test]
async fn a_disk_that_is_full_stops_calls_or_does_not() {
    for policy in ["refuse", "continue"] {
        let engines = Engine::start_several(1, &["--time-scale", "10"]).await;
        let config = Config::engines(&engines).file(&format!("audit: {{ folder: audit, on_failure: {policy} }}"));
        // Files may have 16 KiB, and who writes more is told so.
        let limited =
            Start::new("gateway", "bash").args(["-c", "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\"", MAITRED]);
        let gateway = Gateway::start_as(limited, Folder::new(), &config.to_yaml(), &[]).await;
        gateway.until_ready(1).await;
        let mut statuses = Vec::new();
        eventually("the disk to be full", async || {
            statuses.push(gateway.ask(chat()).await.status());
            (gateway.metric("maitred_audit_errors_total", &[]).await > 0.0).then_some(())
        })
        .await;
        let answer = gateway.ask(chat()).await;
        if policy == "refuse" {
            assert_eq!(
                (answer.status(), &answer.json()["error"]["code"]),
                (503, &"audit_unavailable".into())
            );
        } else {
            assert_eq!(answer.status(), 200);
        }
        let (code, printed) = verify(&folder(&gateway), &[]).await;
        assert_eq!(code, Some(0), "{printed}");
    }
}

#[tokio::test]
async fn acts_are_entered_with_who_did_what() {
    let engines = Engine::start_several(2, &[]).await;
    let config = with_access(&Config::engines(&engines).file(AUDIT), "127.0.0.1:0");
    let gateway = Gateway::start_in(Folder::new(), &config, &[]).await;
    let drain = format!("/pools/main/endpoints/{}/drain", engines[0].address);
    let ask = async |role| {
        Request::post(&drain, "")
            .bearer(&token_of(role))
            .send(gateway.admin)
            .await
            .status()
    };
    assert_eq!(ask(Role::Viewer).await, 403);
    assert_eq!(ask(Role::Operator).await, 202);
    gateway.folder.write(
        "maitred.yaml",
        &config.replace(
            "audit: { folder: audit }",
            "audit: { folder: audit }\ntenants: [{ name: tenant-1, weight: 2 }]",
        ),
    );
    let changes = entries(&gateway, "change", 3).await;
    let said = |entry: &Value| {
        ["by", "role", "action", "target"].map(|name| entry[name].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(said(&changes[0])[2], "load");
    let target = format!("main/{}", engines[0].address);
    assert_eq!(
        said(&changes[1]),
        ["the-operator", "operator", "drain endpoint", target.as_str()]
    );
    assert_eq!(said(&changes[2])[..3], ["configuration", "admin", "reload"]);
    assert_eq!(
        changes[2]["diff"]["after"][0],
        "tenants: [{ name: tenant-1, weight: 2 }]"
    );
    let denied = entries(&gateway, "denied", 1).await;
    assert_eq!(
        said(&denied[0]),
        ["the-viewer", "viewer", "ask", &format!("POST {drain}")]
    );
}
