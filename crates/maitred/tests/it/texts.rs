//! What calls say: kept of tenants that want it, where it is to be, and of nobody else, nowhere.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use maitred_test::{Answer, Connection, Gate, Play, Request, ScriptedEndpoint, Signal, vllm};
use serde_json::{Value, json};

use crate::ledger::{LEDGER, laid, served};
use crate::table::{CHAT, Config, Gateway, MODEL, key, maitred};

const ASKED: &str = "canary-asked";
const ANSWERED: &str = "canary-answered";

fn config(endpoint: &ScriptedEndpoint, audit: &str) -> Config {
    Config::of([endpoint.address()])
        .file(LEDGER)
        .file("decisions: { archive: { folder: decisions } }")
        .file("recording: { path: traffic.jsonl }")
        .file(&format!("audit: {{ folder: audit{audit} }}"))
}

/// A call of a tenant that says whose it is.
fn call(tenant: u8, more: &Value) -> Request {
    let prompt = format!("{ASKED}-{tenant} é");
    let mut body = json!({ "model": MODEL, "messages": [{ "role": "user", "content": prompt }] });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Request::post(CHAT, body.to_string()).bearer(&key(tenant).0)
}

async fn asked(gateway: &Gateway, tenant: u8, more: &Value) -> Answer {
    call(tenant, more).send(gateway.address).await
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for item in std::fs::read_dir(folder).unwrap() {
        let path = item.unwrap().path();
        match path.is_dir() {
            true => all.extend(files(&path)),
            false => all.push(path),
        }
    }
    all
}

/// The files in which one of the words is.
fn with_text(folder: &Path) -> Vec<PathBuf> {
    let mut found = files(folder);
    found.retain(|file| {
        let text = std::fs::read(file).unwrap();
        let text = String::from_utf8_lossy(&text);
        text.contains(ASKED) || text.contains(ANSWERED)
    });
    found
}

/// Calls of two tenants in every form that calls and answers have, the last of them left by its client.
async fn drive(endpoint: &ScriptedEndpoint, gateway: &Gateway) {
    for tenant in [1, 2] {
        endpoint.on(CHAT, Play::json(200, &vllm::chat(MODEL, ANSWERED)));
        assert_eq!(asked(gateway, tenant, &json!({})).await.status(), 200);
        endpoint.on(CHAT, Play::chat_stream(MODEL, &[ANSWERED, "more"]));
        let streamed = asked(gateway, tenant, &json!({ "stream": true })).await;
        assert!(streamed.text().contains(ANSWERED));
        endpoint.on(
            CHAT,
            Play::json(400, &format!(r#"{{"error":{{"message":"{ANSWERED}"}}}}"#)),
        );
        assert_eq!(asked(gateway, tenant, &json!({})).await.status(), 400);
        endpoint.on(CHAT, Play::json(200, &vllm::chat(MODEL, &ANSWERED.repeat(200_000))));
        assert_eq!(
            asked(gateway, tenant, &json!({ "x": "y".repeat(2_000) }))
                .await
                .status(),
            200
        );
        let gate = Gate::closed();
        let play = Play::stream().chunk(vllm::chat_event(MODEL, ANSWERED)).wait(&gate);
        endpoint.on(CHAT, play.end());
        let mut connection = Connection::open(gateway.address).await;
        let left = call(tenant, &json!({ "stream": true }));
        assert_eq!(connection.start(&left).await.status(), 200);
        assert!(connection.event().await.is_some());
        drop(connection);
        gateway.until_idle().await;
        gate.open();
    }
}

async fn ended(gateway: Gateway) -> maitred_test::Folder {
    let Gateway { mut child, folder, .. } = gateway;
    child.signal(Signal::Terminate);
    assert!(child.exit().await.success());
    let output = child.output();
    assert!(!output.contains(ASKED) && !output.contains(ANSWERED), "{output}");
    folder
}

#[tokio::test]
async fn nothing_that_is_said_is_kept_unless_a_tenant_wants_it() {
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    let config = config(&endpoint, "");
    let gateway = served(laid(&config).await, &config, 1).await;
    drive(&endpoint, &gateway).await;
    let folder = ended(gateway).await;
    assert_eq!(with_text(folder.path()), Vec::<PathBuf>::new());
    assert!(files(folder.path()).len() > 5, "there was something to look at");
}

#[tokio::test]
async fn of_a_tenant_that_wants_it_every_call_is_kept_up_to_a_size_until_it_is_forgotten() {
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    let wanted = ", text: [{ tenant: tenant-1, keep: 720h, max_size: 10MiB, max_call: 1KiB }]";
    let config = config(&endpoint, wanted);
    let gateway = served(laid(&config).await, &config, 1).await;
    drive(&endpoint, &gateway).await;
    let folder = ended(gateway).await;

    // In one place, and of one tenant.
    let kept = folder.path().join("audit-text").join("tenant-1");
    let found = with_text(folder.path());
    assert!(
        !found.is_empty() && found.iter().all(|file| file.starts_with(&kept)),
        "{found:?}"
    );
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert!(found.iter().all(|file| mode(file) == 0o600) && mode(&kept) == 0o700);
    let text: String = found
        .iter()
        .map(|file| std::fs::read_to_string(file).unwrap())
        .collect();
    assert!(!text.contains(&format!("{ASKED}-2")), "{text}");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 5, "{text}");
    let said = |index: usize, side: &str| lines[index][side]["text"].as_str().unwrap();
    for line in &lines {
        let said = |side: &str| line[side]["text"].as_str().unwrap();
        assert!(said("request").contains(&format!("{ASKED}-1 é")));
        assert!(said("answer").contains(ANSWERED), "{line}");
        assert!(line["request_id"].is_string() && line["tenant"] == "tenant-1");
    }
    // As it was said: bytes of the client, and of the stream that it got.
    assert!(said(1, "answer").contains("data: ") && said(1, "answer").contains("more"));
    assert_eq!(lines[2]["status"], 400);
    for side in ["request", "answer"] {
        assert_eq!((said(3, side).len(), &lines[3][side]["cut"]), (1_024, &json!(true)));
        assert!(lines[3][side]["bytes"].as_u64().unwrap() > 2_000);
        assert_eq!(lines[0][side].get("cut"), None);
    }

    let text = async |arguments: &[&str]| {
        let command = maitred([&["audit", "text"], arguments].concat());
        command.folder(folder.path()).run().await.success()
    };
    assert!(text(&["list"]).await.starts_with("tenant-1  1 files"));
    let forgotten = text(&["forget", "--tenant", "tenant-1"]).await;
    assert!(forgotten.contains("of `tenant-1` are gone"), "{forgotten}");
    assert_eq!(with_text(folder.path()), Vec::<PathBuf>::new());
    assert_eq!(text(&["list"]).await, "");
}
