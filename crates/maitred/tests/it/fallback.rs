//! Fallback: a call goes on to another model when the one asked for does not answer, and every surface says so.

use maitred_test::{Answer, Folder, Play, Request, ScriptedEndpoint, eventually};
use serde_json::{Value, json};

use crate::ledger::{LEDGER, usage};
use crate::table::{CHAT, Config, Gateway, key, maitred, sum};

mod outcomes;

const BIG: &str = "big-70b";
const SMALL: &str = "small-8b";

/// What hosted APIs say when the caller has had what it may have.
const SPENT: &str = r#"{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}"#;

/// Two pools of one endpoint each, and a route from one to the other.
struct Table {
    gateway: Gateway,
    big: ScriptedEndpoint,
    small: ScriptedEndpoint,
}

impl Table {
    /// With lines of the file, and the fallback.
    async fn laid(lines: &[&str], fallback: &str) -> Self {
        Self::with_target(lines, &format!("{{ pool: main, model: {BIG} }}"), fallback).await
    }

    async fn with_target(lines: &[&str], target: &str, fallback: &str) -> Self {
        let (big, small) = (ScriptedEndpoint::start(BIG).await, ScriptedEndpoint::start(SMALL).await);
        let route = format!("routes: [{{ model: assistant, targets: [{target}], fallback: [{fallback}] }}]");
        let keys = |number, more: &str| {
            format!(
                "{{ hash: \"{}\", tenant: tenant-{number}, shared: true{more} }}",
                key(number).1
            )
        };
        let auth = format!(
            "{{ keys: [{}, {}, {}] }}",
            keys(1, ""),
            keys(2, &format!(", models: [assistant, {BIG}]")),
            keys(3, "")
        );
        let mut config = Config::of([big.address()])
            .auth(&auth)
            .file(&route)
            .models(&format!("[{{ name: {BIG} }}]"))
            .pool("ejection: { failures: 1000 }");
        for line in lines {
            config = config.file(line);
        }
        let small_pool = format!(
            "  - name: small\n    models: [{{ name: {SMALL} }}]\n    staleness: {{ after: 10s, frozen_after: 1m }}\n    ejection: {{ failures: 1000 }}\n    endpoints: [{{ address: {} }}]\n",
            small.address()
        );
        let yaml = config.to_yaml() + &small_pool;
        let folder = Folder::new();
        folder.write("maitred.yaml", &yaml);
        if lines.iter().any(|line| line.starts_with("ledger:")) {
            let made = maitred(["store", "migrate"]).folder(folder.path()).run().await;
            assert!(made.success().contains("tables"));
        }
        let gateway = Gateway::start_in(folder, &yaml, &[]).await;
        gateway.until_ready(2).await;
        Self { gateway, big, small }
    }

    async fn usual(lines: &[&str]) -> Self {
        let objective = ["degradation: { objective: {} }"];
        Self::laid(
            &[&objective, lines].concat(),
            &format!("{{ pool: small, model: {SMALL} }}"),
        )
        .await
    }

    fn call(&self, stream: bool) -> Request {
        let body = json!({
            "model": "assistant", "max_tokens": 5, "stream": stream,
            "messages": [{ "role": "user", "content": "hello" }],
        });
        Request::post(CHAT, body.to_string()).bearer(&self.gateway.key)
    }

    async fn decision(&self, id: &str) -> Value {
        eventually("the decision record", async || {
            let page = self.gateway.page(&format!("/admin/v1/decisions/{id}")).await;
            (page.status() == 200).then(|| page.json())
        })
        .await
    }

    async fn ask(&self, request: Request) -> Answer {
        request.send(self.gateway.address).await
    }
}

/// The models that the body names: of an answer, or of each event of a stream.
fn models(answer: &Answer, stream: bool) -> Vec<String> {
    let of = |json: &Value| json["model"].as_str().unwrap_or_default().to_owned();
    if !stream {
        return vec![of(&answer.json())];
    }
    let events = answer.events();
    let mut models: Vec<_> = events
        .iter()
        .filter(|event| !event.is_done())
        .map(|event| of(&event.json()))
        .collect();
    models.dedup();
    models
}

fn marks(answer: &Answer) -> [Option<&str>; 3] {
    ["x-degraded", "x-served-by", "x-degrade-reason"].map(|name| answer.header(name))
}

/// Calls of a bad day.
const CALLS: u32 = 100;

/// Asks so often, whole answers and streams in turn; 27 of a hundred are refused by the model that they ask for. Gives the ids, and how many
/// answers say in their headers and in their bodies that another model made them.
async fn ask_all(table: &Table) -> (Vec<String>, [u32; 2]) {
    let (mut in_headers, mut in_bodies, mut ids) = (0, 0, Vec::new());
    for number in 0..CALLS {
        let stream = number % 2 == 0;
        // 27 of a hundred, whole answers and streams alike.
        let is_refused = number * 27 / CALLS != (number + 1) * 27 / CALLS;
        let texts = ["well", " done"];
        if is_refused {
            table.big.once(CHAT, Play::json(429, SPENT));
        } else if stream {
            table.big.once(CHAT, Play::chat_stream(BIG, &texts));
        }
        if is_refused && stream {
            table.small.once(CHAT, Play::chat_stream(SMALL, &texts));
        }
        let answer = table.ask(table.call(stream)).await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        let model = if is_refused { SMALL } else { BIG };
        assert_eq!(models(&answer, stream), [model]);
        in_bodies += u32::from(models(&answer, stream) == [SMALL]);
        let wanted = is_refused.then_some(["model", "small/small-8b", "quota"]);
        assert_eq!(marks(&answer), wanted.map_or([None; 3], |marks| marks.map(Some)));
        in_headers += u32::from(is_refused);
        ids.push(answer.header("x-request-id").unwrap().to_owned());
    }
    (ids, [in_headers, in_bodies])
}

#[tokio::test]
async fn on_a_bad_day_all_surfaces_count_the_same() {
    let table = Table::usual(&[LEDGER]).await;
    let (ids, [in_headers, in_bodies]) = ask_all(&table).await;
    table.gateway.until_idle().await;
    let mut in_decisions = 0;
    for id in &ids {
        let record = table.decision(id).await;
        let degraded = &record["degraded"];
        in_decisions += u32::from(degraded == &json!({ "kind": "model", "reason": "quota" }));
        assert_eq!(record["model"], "assistant");
    }
    let admin = format!("http://{}", table.gateway.admin);
    // The first that is refused is the fourth.
    let text = maitred(["explain", ids[3].as_str(), "--admin", admin.as_str()])
        .run()
        .await
        .success();
    for words in [
        "Degraded (model): Another model answered. Why (quota): The target's own operator refuses",
        "Left main/big-70b after 1 attempt: quota.",
    ] {
        assert!(text.contains(words), "{text}");
    }
    let records = table.gateway.until_records(ids.len()).await;
    let in_records = records.iter().filter(|record| record["degraded"] == "model").count();
    let page = table.gateway.page("/metrics").await.text();
    let counted = |name: &str, labels: &[(&str, &str)]| sum(&page, name, labels);
    let labels = [
        ("kind", "model"),
        ("reason", "quota"),
        ("model", "assistant"),
        ("tenant", "tenant-1"),
    ];
    let in_metrics = counted("maitred_degraded_answers_total", &labels);
    let of_service = |result| {
        counted(
            "maitred_service_calls_total",
            &[("model", "assistant"), ("tenant", "tenant-1"), ("result", result)],
        )
    };
    assert_eq!(
        [of_service("full"), of_service("degraded"), of_service("failed")],
        [73.0, 27.0, 0.0]
    );
    let lines = eventually("the rows to be in the database", async || {
        let lines = usage(&table.gateway.folder, "asked,degrade_kind,degrade_reason,model").await;
        let calls: u64 = lines.iter().filter_map(|line| line["calls"].as_u64()).sum();
        (calls == u64::from(CALLS)).then_some(lines)
    })
    .await;
    let in_ledger: Vec<_> = lines.iter().filter(|line| line["degrade_kind"] == "model").collect();
    assert_eq!(in_ledger.len(), 1, "{lines:?}");
    assert_eq!(
        [
            &in_ledger[0]["asked"],
            &in_ledger[0]["degrade_reason"],
            &in_ledger[0]["model"]
        ],
        ["assistant", "quota", SMALL]
    );
    let in_ledger = in_ledger[0]["degraded"].as_u64().unwrap();
    println!(
        "headers {in_headers}, bodies {in_bodies}, ledger {in_ledger}, decisions {in_decisions}, metrics {in_metrics}"
    );
    assert_eq!([in_headers, in_bodies, in_decisions], [27; 3]);
    assert_eq!((in_ledger, in_records, in_metrics), (27, 27, 27.0));
}

#[tokio::test]
async fn who_may_not_use_the_fallback_or_does_not_want_it_gets_the_error() {
    let table = Table::usual(&[]).await;
    table.big.on(CHAT, Play::json(429, SPENT));
    let answer = table.ask(table.call(false)).await;
    assert_eq!((answer.status(), marks(&answer)[0]), (200, Some("model")));
    let check = |answer: &Answer| {
        assert_eq!(answer.status(), 429, "{}", answer.text());
        assert_eq!(answer.json()["error"]["code"], "upstream_quota_spent");
        assert!(answer.header("retry-after").is_some());
        assert_eq!(marks(answer), [None; 3]);
    };
    let other_key = Request::post(CHAT, r#"{"model":"assistant","messages":[]}"#);
    check(&table.ask(other_key.bearer(&key(2).0)).await);
    check(&table.ask(table.call(false).header("x-maitred-degrade", "refuse")).await);
    check(&table.ask(table.call(true).header("x-maitred-degrade", "refuse")).await);
    let wrong = table.ask(table.call(false).header("x-maitred-degrade", "maybe")).await;
    assert_eq!(wrong.status(), 400, "{}", wrong.text());
    assert_eq!(table.small.received_on(CHAT).len(), 1);
}

#[tokio::test]
async fn a_breach_closes_fallback_if_the_objective_says_so_and_is_told() {
    let objective = "degradation: { objective: { ratio: 10%, window: 10s, on_breach: stop } }";
    let fallback = format!("{{ pool: small, model: {SMALL} }}");
    let mut table = Table::laid(&[objective], &fallback).await;
    table.big.on(CHAT, Play::json(429, SPENT));
    let mut statuses = Vec::new();
    // 20 calls are the least that a share is taken of.
    for _ in 0..24 {
        let answer = table.ask(table.call(false)).await;
        statuses.push(answer.status());
        assert_eq!(marks(&answer)[0].is_some(), answer.status() == 200);
    }
    assert_eq!(statuses, [[200; 20].as_slice(), &[429; 4]].concat());
    let page = table.gateway.page("/admin/v1/degradation").await.json();
    let route = &page["routes"][0];
    assert_eq!(
        [&route["model"], &route["state"], &route["fallback"]],
        ["assistant", "breach", "closed"],
        "{page}"
    );
    assert_eq!(route["degraded"], 24);
    table
        .gateway
        .child
        .line("more answers are degraded than the objective allows")
        .await;
    eventually("the metrics to say so", async || {
        let labels = [("model", "assistant"), ("state", "breach")];
        (table.gateway.metric("maitred_degradation_state", &labels).await == 1.0).then_some(())
    })
    .await;
    let records = table.gateway.until_records(24).await;
    let id = records[23]["request_id"].as_str().unwrap();
    let decision = table.gateway.page(&format!("/admin/v1/decisions/{id}")).await.json();
    assert_eq!(decision["left"][1]["skipped"], "stopped", "{decision}");
}
