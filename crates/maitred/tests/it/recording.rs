//! The recording of the traffic: what a laboratory needs, and nothing that was said.

use std::collections::BTreeSet;

use maitred_test::eventually;
use serde_json::{Value, json};

use crate::table::{Config, Engine, Gateway, MODEL};

/// The recording's lines, once there are so many.
async fn lines(gateway: &Gateway, count: usize) -> (String, Vec<Value>) {
    let path = gateway.folder.path().join("trace.jsonl");
    eventually(&format!("{count} recorded calls"), async || {
        let text = std::fs::read_to_string(&path).ok()?;
        let lines: Vec<Value> = text
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect();
        (lines.len() == count).then_some((text, lines))
    })
    .await
}

fn ids(line: &Value) -> Vec<u64> {
    let ids = line["hash_ids"].as_array().unwrap();
    ids.iter().map(|id| id.as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_recording_has_lengths_times_and_what_is_shared_but_no_text() {
    let engines = Engine::start_several(2, &["--time-scale", "50", "--output-tokens", "40"]).await;
    let config = Config::engines(&engines).file("recording: { path: trace.jsonl, max_size: 1MiB }");
    let gateway = Gateway::ready(&config).await;
    let shared = "The marmalade of Seville is made of bitter oranges. ".repeat(40);
    let ask = async |question: &str, is_stream: bool| {
        let body = json!({"model": MODEL, "stream": is_stream, "messages": [
            {"role": "system", "content": shared}, {"role": "user", "content": question}]});
        let call = gateway.chat(body).header("x-session-id", "armadillo");
        assert_eq!(call.send(gateway.address).await.status(), 200);
        gateway.until_idle().await;
    };
    ask("Which rind is best?", false).await;
    ask(&"How long is it to be cooked? ".repeat(30), true).await;
    ask(&"And of what else? ".repeat(60), true).await;
    let (text, lines) = lines(&gateway, 3).await;
    for secret in [
        "marmalade",
        "rind",
        "cooked",
        "armadillo",
        "tenant-1",
        MODEL,
        "role",
        "system",
    ] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
    for line in &lines {
        let input = line["input_length"].as_u64().unwrap();
        assert!(input > 400, "{line}");
        assert!(line["output_length"].as_u64().unwrap() > 0, "{line}");
        assert_eq!(ids(line).len() as u64, input / 64, "{line}");
        assert!(line["cached_length"].is_u64(), "{line}");
    }
    let times: Vec<u64> = lines.iter().map(|line| line["timestamp"].as_u64().unwrap()).collect();
    assert!(times.is_sorted(), "{times:?}");
    // Some 2,080 bytes are shared, which are 7 blocks of 256 bytes and more.
    assert_eq!(ids(&lines[0])[..7], ids(&lines[1])[..7]);
    assert_eq!(ids(&lines[0])[..7], ids(&lines[2])[..7]);
    let all: BTreeSet<u64> = lines.iter().flat_map(ids).collect();
    let longest = lines.iter().map(|line| ids(line).len()).max().unwrap();
    assert!(all.len() > longest, "what is not shared has names of its own");
    for name in ["tenant", "session", "model"] {
        assert!(lines[0][name].is_u64(), "{name}");
        assert_eq!(lines[0][name], lines[1][name], "{name}");
    }
    assert_eq!(gateway.metric("maitred_recording_dropped_total", &[]).await, 0.0);
}

#[tokio::test]
async fn a_file_that_is_there_is_left_alone() {
    let engines = Engine::start_several(1, &["--time-scale", "50"]).await;
    let config = Config::engines(&engines).file("recording: { path: trace.jsonl }");
    let folder = maitred_test::Folder::new();
    folder.write("trace.jsonl", "of yesterday\n");
    let gateway = Gateway::start_in(folder, &config.to_yaml(), &[]).await;
    gateway.until_ready(1).await;
    let body = json!({"model": MODEL, "messages": [{"role": "user", "content": "hello"}]});
    assert_eq!(gateway.ask(body).await.status(), 200);
    gateway.until_idle().await;
    let text = std::fs::read_to_string(gateway.folder.path().join("trace.jsonl")).unwrap();
    assert_eq!(text, "of yesterday\n");
}
