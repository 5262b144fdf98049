//! The metrics page has the families and labels of real ones, and the gateway's scanner reads both alike.

use std::collections::{BTreeMap, BTreeSet};

use maitred_engines::{Engine, PageSignals, Scanner};
use maitred_test::Connection;

use super::*;

/// The label names of each family's series; `le` values are kept, since buckets are part of a family's shape.
fn families(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut families: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let (series, _) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        let names = labels
            .trim_end_matches('}')
            .split("\",")
            .filter(|label| !label.is_empty());
        let names: Vec<&str> = names.map(|label| label.split('=').next().unwrap()).collect();
        families.entry(name.to_owned()).or_default().insert(names.join(","));
    }
    families
}

fn kinds(page: &str) -> BTreeMap<&str, &str> {
    page.lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .collect()
}

fn scan(engine: Engine, page: &str) -> PageSignals {
    Scanner::new(&engine.mapping()).scan(page.as_bytes()).unwrap()
}

/// Starts `count` long calls and waits until the engine has them all.
async fn busy(stage: &Stage, model: &str, count: usize) -> Vec<Connection> {
    let body = chat(&json!({"model": model, "stream": true, "max_tokens": 1500, "ignore_eos": true})).to_string();
    let mut connections = Vec::new();
    for _ in 0..count {
        let mut connection = Connection::open(stage.address).await;
        connection
            .start(&Request::post("/v1/chat/completions", body.clone()))
            .await;
        connections.push(connection);
    }
    connections
}

#[tokio::test]
async fn pages_have_the_families_and_labels_of_real_ones() {
    for (engine, flavor) in [VLLM, SGLANG] {
        let stage = Stage::serving(&format!("{flavor} --lora-modules lora-a,lora-b --max-loras 2")).await;
        stage
            .post(
                "/v1/chat/completions",
                &chat(&json!({"model": "lora-a", "max_tokens": 4})),
            )
            .await;
        let (page, real) = (stage.get("/metrics").await.text(), fixture(engine, "metrics"));
        let (real_families, real_kinds) = (families(&real), kinds(&real));
        for (family, labels) in families(&page) {
            if family.ends_with("_created") {
                continue;
            }
            let real_labels = real_families
                .get(&family)
                .unwrap_or_else(|| panic!("{engine} has no {family}"));
            if family == "vllm:cache_config_info" {
                let real: BTreeSet<&str> = real_labels.iter().flat_map(|labels| labels.split(',')).collect();
                let found = labels
                    .iter()
                    .flat_map(|labels| labels.split(','))
                    .filter(|label| !real.contains(label));
                assert_eq!(found.count(), 0, "{labels:?}");
                continue;
            }
            assert_eq!(&labels, real_labels, "{engine} {family}");
        }
        for (family, kind) in kinds(&page) {
            if !family.ends_with("_created") {
                assert_eq!(real_kinds.get(family), Some(&kind), "{engine} {family}");
            }
        }
    }
}

#[tokio::test]
async fn time_histograms_have_the_buckets_of_real_ones() {
    let bounds = |page: &str| -> BTreeSet<String> {
        let lines = page.lines().filter(|line| line.contains("_seconds_bucket{"));
        lines.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
    };
    let stage = Stage::serving("").await;
    let page = stage.get("/metrics").await.text();
    assert_eq!(bounds(&page), bounds(&fixture("vllm-0.32.0", "metrics")));
}

#[tokio::test]
async fn the_scanner_reads_the_real_page_and_the_simulated_one_alike() {
    // As captured: twenty calls for two adapters on four places; and twelve calls on four places.
    let cases = [
        (VLLM, Engine::Vllm, 20, "--lora-modules lora-a,lora-b --max-loras 2"),
        (SGLANG, Engine::Sglang, 12, "--blocks 600"),
    ];
    for ((name, flavor), engine, calls, more) in cases {
        let line = format!("{flavor} --max-num-seqs 4 --time-scale 1 --lora-load-time 1ms {more}");
        let stage = Stage::serving(&line).await;
        let model = if engine == Engine::Vllm { "lora-b" } else { "tiny" };
        let _calls = busy(&stage, model, calls).await;
        stage.state("waiting", |waiting| waiting == calls - 4).await;
        let (found, real) = (
            scan(engine, &stage.get("/metrics").await.text()),
            scan(engine, &fixture(name, "metrics")),
        );
        assert_eq!((found.missing(), real.missing()), (&[][..], &[][..]), "{name}");
        assert_eq!(
            (found.running, found.queued),
            (real.running, real.queued),
            "{name}: 4 running and the rest waiting"
        );
        let both = [&found, &real];
        assert!(
            both.iter()
                .all(|page| page.kv_used.is_some_and(|used| used > 0.0 && used < 1.0)),
            "{name}"
        );
        assert!(
            both.iter()
                .all(|page| page.block_size.is_some() && page.blocks.is_some()),
            "{name}"
        );
        assert!(
            both.iter()
                .all(|page| page.progress.is_some_and(|progress| progress > 0.0)),
            "{name}"
        );
        assert_eq!(found.started.is_some(), real.started.is_some(), "{name}");
        assert_eq!(found.lora, real.lora, "{name}");
    }
}

#[tokio::test]
async fn every_flavor_has_the_figures_of_its_mapping() {
    for &engine in Engine::ALL {
        let stage = Stage::serving(&format!("--flavor {engine} --max-num-seqs 1 --time-scale 1")).await;
        let _calls = busy(&stage, "tiny", 3).await;
        stage.state("waiting", |waiting| waiting == 2).await;
        let page = scan(engine, &stage.get(engine.metrics_path()).await.text());
        assert_eq!(page.missing(), [], "{engine}");
        assert_eq!(page.queued, Some(2.0), "{engine}");
        if engine != Engine::Triton {
            assert_eq!(page.running, Some(1.0), "{engine}");
            assert!(page.block_size.is_some() && page.blocks.is_some(), "{engine}");
        }
    }
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_place() {
    let stage = Stage::serving("--max-num-seqs 1 --time-scale 1").await;
    // One that is running, streamed; one that waits, streamed; and one that waits for a whole answer.
    let mut calls = busy(&stage, "tiny", 2).await;
    let mut whole = Connection::open(stage.address).await;
    let body = chat(&json!({"max_tokens": 1500, "ignore_eos": true})).to_string();
    whole
        .send(&Request::post("/v1/chat/completions", body).to_bytes())
        .await;
    stage.state("waiting", |waiting| waiting == 2).await;
    calls[0].event().await.unwrap();
    drop((calls, whole));
    eventually("an idle page", async || {
        let page = stage.get("/metrics").await.text();
        let signals = scan(Engine::Vllm, &page);
        let idle = (signals.running, signals.queued, signals.kv_used) == (Some(0.0), Some(0.0), Some(0.0));
        (idle && page.contains("finished_reason=\"abort\",model_name=\"tiny\"} 3.0")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_page_can_be_old_frozen_missing_or_useless() {
    let stage = Stage::serving("").await;
    let call = async || {
        stage
            .post("/v1/chat/completions", &chat(&json!({"max_tokens": 2})))
            .await
    };
    let tokens = |page: &str| scan(Engine::Vllm, page).progress;
    stage.faults(&json!({"metrics": "frozen"})).await;
    let before = stage.get("/metrics").await.text();
    call().await;
    assert_eq!(stage.get("/metrics").await.text(), before);
    stage.faults(&json!({"metrics": "none"})).await;
    assert!(tokens(&stage.get("/metrics").await.text()) > tokens(&before));
    stage.faults(&json!({"metrics": "missing"})).await;
    assert_eq!(stage.get("/metrics").await.status(), 404);
    stage.faults(&json!({"metrics": "partial"})).await;
    let page = stage.get("/metrics").await.text();
    assert_eq!(scan(Engine::Vllm, &page).missing().len(), 3);
    let old = Stage::serving("--metrics-interval 60s").await;
    let before = old.get("/metrics").await.text();
    old.post("/v1/chat/completions", &chat(&json!({"max_tokens": 2}))).await;
    assert_eq!(old.get("/metrics").await.text(), before);
}
