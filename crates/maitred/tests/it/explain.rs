//! Why a call went where it went: the records that are kept, the page that shows them and the command that tells them.

use maitred_test::{Finished, eventually};
use serde_json::Value;

use crate::table::{Config, Engine, Gateway, MODEL, POOL, maitred};

fn hello() -> String {
    format!(r#"{{"model":"{MODEL}","max_tokens":3,"messages":[{{"role":"user","content":"hello there"}}]}}"#)
}

async fn explain(gateway: &Gateway, id: &str, flags: &[&str]) -> Finished {
    let admin = format!("http://{}", gateway.admin);
    let own = ["explain", id, "--admin", &admin];
    maitred([&own, flags].concat()).run().await
}

/// The record of a call, once it has ended.
async fn decision(gateway: &Gateway, id: &str) -> Value {
    let page = format!("/admin/v1/decisions/{id}");
    eventually(&format!("the decision record of {id}"), async || {
        let answer = gateway.page(&page).await;
        (answer.status() == 200).then(|| answer.json())
    })
    .await
}

async fn list(gateway: &Gateway) -> Value {
    gateway.page("/admin/v1/decisions").await.json()
}

/// The text with everything that differs from run to run replaced by its kind.
fn redacted(text: &str, names: &[(String, &str)]) -> String {
    let mut text = text.to_owned();
    for (name, kind) in names {
        text = text.replace(name, kind);
    }
    let words: Vec<String> = text.split_inclusive([' ', '\n']).map(redacted_word).collect();
    words.concat()
}

fn redacted_word(word: &str) -> String {
    let bare = word.trim_end_matches([' ', '\n', ',', ';', '.', ':', ')']);
    let rest = word.strip_prefix(bare).unwrap_or_default();
    let is_number = bare.contains('.') && bare.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_number {
        return format!("N{rest}");
    }
    if bare.len() == 24 && bare.ends_with('Z') {
        return format!("TIME{rest}");
    }
    word.to_owned()
}

#[tokio::test]
async fn a_call_is_explained_by_its_request_id() {
    let engine = Engine::start(&["--time-scale", "10"]).await;
    let config = Config::engines(std::slice::from_ref(&engine)).pool("profile: least-request");
    let gateway = Gateway::ready(&config).await;
    let answer = gateway.ask(hello()).await;
    assert_eq!(answer.status(), 200, "{}", answer.text());
    let id = answer.header("x-request-id").unwrap().to_owned();
    let record = decision(&gateway, &id).await;
    let attempt = &record["attempts"][0];
    assert_eq!(attempt["endpoint"], engine.address.to_string());
    assert_eq!(attempt["end"]["result"], "success");
    assert_eq!(record["tenant"], "tenant-1");
    let usage = &answer.json()["usage"];
    assert_eq!(attempt["end"]["input_tokens"], usage["prompt_tokens"]);
    let text = explain(&gateway, &id, &[]).await.success();
    let names = [
        (id.clone(), "ID"),
        (engine.address.to_string(), "ENDPOINT"),
        (record["key"].as_str().unwrap().to_owned(), "KEY"),
    ];
    insta::assert_snapshot!(redacted(&text, &names), @"
    Call ID for model sim-8b, pool main, of tenant-1, with key KEY, came at TIME and was answered after N s.

    Attempt 1, N s after the call came, with about 11 prompt tokens:
      1 endpoint; chosen ENDPOINT (only-one) at N: least-request N
      then answered after N s, 0 of 11 prompt tokens cached, 3 output tokens
    ");
    let json: Value = serde_json::from_str(&explain(&gateway, &id, &["--json"]).await.success()).unwrap();
    assert_eq!(json, record);
}

#[tokio::test]
async fn attempts_stand_in_order_with_what_became_of_each() {
    let engines = Engine::start_several(2, &["--time-scale", "10"]).await;
    let config = Config::engines(&engines).pool("profile: round-robin");
    let gateway = Gateway::ready(&config).await;
    engines[0].fault(r#"{"fail":1}"#).await;
    // In turn, so one of two calls begins on the one that fails.
    let mut tried_twice = None;
    for id in ["first", "second"] {
        let answer = gateway
            .chat(hello())
            .header("x-request-id", id)
            .send(gateway.address)
            .await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        let record = decision(&gateway, id).await;
        if record["attempts"].as_array().unwrap().len() == 2 {
            tried_twice = Some(record);
        }
    }
    let record = tried_twice.expect("a call that was tried twice");
    let attempts = &record["attempts"];
    assert_eq!(attempts[0]["endpoint"], engines[0].address.to_string());
    assert_eq!(attempts[0]["end"]["result"], "failure");
    assert_eq!(attempts[0]["end"]["fault"], "upstream_error");
    assert_eq!(attempts[1]["endpoint"], engines[1].address.to_string());
    assert_eq!(attempts[1]["end"]["result"], "success");
    assert_eq!(attempts[1]["removed"][0]["filter"], "not-excluded");
    let removed = &attempts[1]["removed"][0]["which"][0];
    assert_eq!(removed["endpoint"], engines[0].address.to_string());
    let text = explain(&gateway, record["request_id"].as_str().unwrap(), &[])
        .await
        .success();
    let places: Vec<_> = ["Attempt 1", "then failed", "Attempt 2", "then answered"]
        .iter()
        .map(|part| text.find(part).unwrap_or_else(|| panic!("no `{part}` in: {text}")))
        .collect();
    assert!(places.is_sorted(), "{text}");
}

#[tokio::test]
async fn a_refusal_is_explained_too() {
    let gateway = Gateway::start(&Config::of(["127.0.0.1:1".parse().unwrap()])).await;
    let answer = gateway
        .chat(hello())
        .header("x-request-id", "refused")
        .send(gateway.address)
        .await;
    assert_eq!(answer.status(), 503, "{}", answer.text());
    let record = decision(&gateway, "refused").await;
    assert_eq!(record["attempts"][0]["reason"], "not_ready");
    assert_eq!(record["fault"], "no_endpoint");
    let text = explain(&gateway, "refused", &[]).await.success();
    assert!(
        text.contains("1 endpoint; 1 removed by ready; none chosen (not_ready)"),
        "{text}"
    );
}

#[tokio::test]
async fn what_is_not_known_is_said_clearly() {
    let gateway = Gateway::start(&Config::of(["127.0.0.1:1".parse().unwrap()])).await;
    let unknown = explain(&gateway, "nobody/knows?it", &[]).await;
    assert_eq!(unknown.code, Some(1));
    assert!(
        unknown
            .stderr
            .contains("call nobody/knows?it: no decision record of such a call"),
        "{}",
        unknown.stderr
    );
    let nobody = maitred(["explain", "x", "--admin", "http://127.0.0.1:1"]).run().await;
    assert_eq!(nobody.code, Some(1));
    assert!(
        nobody.stderr.contains("cannot reach the gateway at 127.0.0.1:1"),
        "{}",
        nobody.stderr
    );
    let from_a_page = gateway.page("/admin/v1/decisions/x");
    assert_eq!(from_a_page.await.status(), 404);
}

#[tokio::test]
async fn the_records_stay_within_their_bounds() {
    let engine = Engine::start(&["--time-scale", "10"]).await;
    let config = Config::engines(std::slice::from_ref(&engine)).file("decisions: { keep: 4 }");
    let gateway = Gateway::ready(&config).await;
    for number in 0..12 {
        let answer = gateway
            .chat(hello())
            .header("x-request-id", &format!("call-{number}"))
            .send(gateway.address)
            .await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        let list = list(&gateway).await;
        assert!(list["kept"].as_u64().unwrap() <= 4, "{list}");
        assert!(list["bytes"].as_u64() <= list["max_bytes"].as_u64(), "{list}");
    }
    assert_eq!(decision(&gateway, "call-11").await["outcome"], "answered");
    assert_eq!(gateway.page("/admin/v1/decisions/call-0").await.status(), 404);
    gateway.rewrite(&Config::engines(std::slice::from_ref(&engine)).file("decisions: { keep: 0 }"));
    eventually("nothing to be kept", async || {
        (list(&gateway).await["kept"] == 0).then_some(())
    })
    .await;
}

#[tokio::test]
async fn shadow_profiles_say_how_often_they_agree() {
    let engines = Engine::start_several(3, &["--time-scale", "10"]).await;
    let config = Config::engines(&engines)
        .pool("profile: round-robin")
        .pool("shadow: { profiles: [round-robin-too, default], share: 100% }")
        .file("profiles: [{ name: round-robin-too, picker: round-robin }]");
    let gateway = Gateway::ready(&config).await;
    for number in 0..9 {
        let id = format!("call-{number}");
        let answer = gateway
            .chat(hello())
            .header("x-request-id", &id)
            .send(gateway.address)
            .await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        let record = decision(&gateway, &id).await;
        let shadows = &record["attempts"][0]["shadows"];
        // Its turns are its own, and it is asked as often as the live one.
        assert_eq!(shadows[0]["profile"], "round-robin-too");
        assert_eq!(shadows[0]["agrees"], true, "{record:#}");
        assert_eq!(shadows[1]["profile"], "default");
    }
    let metric = "maitred_shadow_decisions_total";
    let agreed = [("pool", POOL), ("profile", "round-robin-too"), ("agrees", "true")];
    assert_eq!(gateway.metric(metric, &agreed).await, 9.0);
    let other = [("profile", "default")];
    assert_eq!(gateway.metric(metric, &other).await, 9.0);
    assert_eq!(
        gateway.metric("maitred_picks_total", &[]).await,
        9.0,
        "shadows book nothing"
    );
}

const ARCHIVE: &str = "audit: { folder: audit }\ndecisions: { keep: 2, archive: { folder: decisions } }";

#[tokio::test]
async fn a_call_is_explained_after_restarts_and_kills() {
    let engine = Engine::start(&["--time-scale", "10"]).await;
    let config = Config::engines(std::slice::from_ref(&engine)).file(ARCHIVE);
    let mut gateway = Gateway::ready(&config).await;
    let mut records = Vec::new();
    for round in 0..3 {
        for number in 0..5 {
            let id = format!("call-{round}-{number}");
            let asked = gateway.chat(hello()).header("x-request-id", &id);
            assert_eq!(asked.send(gateway.address).await.status(), 200);
            records.push((id.clone(), decision(&gateway, &id).await));
        }
        // Memory keeps two of them; all are on disk soon.
        eventually("the archive to have them", async || {
            let archived = gateway.metric("maitred_decisions_archived_total", &[]).await;
            (archived >= 5.0).then_some(())
        })
        .await;
        let Gateway { mut child, folder, .. } = gateway;
        if round == 1 {
            child.signal(maitred_test::Signal::Terminate);
            assert!(child.exit().await.success());
        } else {
            child.kill().await;
        }
        gateway = Gateway::start_in(folder, &config.to_yaml(), &[]).await;
        gateway.until_ready(1).await;
        for (id, record) in &records {
            assert_eq!(decision(&gateway, id).await, *record);
        }
    }
    assert_eq!(gateway.metric("maitred_decisions_dropped_total", &[]).await, 0.0);
    assert!(gateway.metric("maitred_decision_archive_bytes", &[]).await > 0.0);
    let text = explain(&gateway, "call-0-0", &[]).await.success();
    assert!(
        text.starts_with("Call call-0-0 for model sim-8b, pool main, of tenant-1"),
        "{text}"
    );
    assert_eq!(explain(&gateway, "call-9-9", &[]).await.code, Some(1));
    changed_records_are_noticed(&gateway).await;
}

async fn changed_records_are_noticed(gateway: &Gateway) {
    let verify = async || {
        let run = maitred(["audit", "verify", "--config"]).args([gateway.folder.path().join("maitred.yaml")]);
        let run = run.run().await;
        (run.code, run.stdout)
    };
    let (code, printed) = verify().await;
    assert!(printed.contains("decisions: 15 records of 4 starts"), "{printed}");
    assert_eq!(code, Some(0), "{printed}");
    let mut files: Vec<_> = std::fs::read_dir(gateway.folder.path().join("decisions"))
        .unwrap()
        .map(|item| item.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "records"))
        .collect();
    files.sort();
    let mut bytes = std::fs::read(&files[0]).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(&files[0], &bytes).unwrap();
    let (code, printed) = verify().await;
    assert!(
        code == Some(1) && printed.contains(&format!("BROKEN at {}, record", files[0].display())),
        "{printed}"
    );
    bytes[at] ^= 1;
    std::fs::write(&files[0], &bytes).unwrap();
    assert_eq!(verify().await.0, Some(0));
    // The second gateway has ended in order, so the audit knows how its file ends.
    std::fs::remove_file(&files[1]).unwrap();
    let (code, printed) = verify().await;
    assert!(code == Some(1) && printed.contains("MISSING: "), "{printed}");
}

#[tokio::test]
async fn what_a_call_took_of_its_quota_is_in_its_record() {
    let engine = Engine::start(&["--time-scale", "10"]).await;
    let config = Config::engines(std::slice::from_ref(&engine))
        .file("quotas: [{ name: small, per: [tenant], tokens_per_day: 40 }]");
    let gateway = Gateway::ready(&config).await;
    let asked = async |id: &str| {
        let call = gateway.chat(hello()).header("x-request-id", id);
        call.send(gateway.address).await
    };
    assert_eq!(asked("fits").await.status(), 200);
    let record = decision(&gateway, "fits").await;
    let (quota, end) = (&record["quota"], &record["attempts"][0]["end"]);
    let used = end["input_tokens"].as_u64().unwrap() + end["output_tokens"].as_u64().unwrap();
    assert_eq!(quota["used_tokens"], used);
    assert_eq!(quota["tokens"]["before"], 40);
    assert_eq!(quota["tokens"]["after"], 40 - used);
    while asked("too-much").await.status() == 200 {}
    let refused = eventually("the refusal's record", async || {
        let record = decision(&gateway, "too-much").await;
        (record["outcome"] == "failed").then_some(record)
    })
    .await;
    assert_eq!(
        (&refused["fault"], &refused["model"]),
        (&"quota_exceeded".into(), &MODEL.into())
    );
    assert!(refused["attempts"].as_array().unwrap().is_empty());
    let text = explain(&gateway, "too-much", &[]).await.success();
    assert!(text.contains("the quota `small` allows 40 tokens per day"), "{text}");
    // Strangers leave none.
    let stranger = maitred_test::Request::post(crate::table::CHAT, hello()).bearer("nobody");
    let stranger = stranger.header("x-request-id", "stranger").send(gateway.address).await;
    assert_eq!(stranger.status(), 401);
    assert_eq!(gateway.page("/admin/v1/decisions/stranger").await.status(), 404);
}
