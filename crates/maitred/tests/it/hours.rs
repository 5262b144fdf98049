//! Prices of a pool's hours: calls cost the time that they had of the endpoints, whoever shared it with them.

use std::time::{Duration, SystemTime};

use maitred_test::{Connection, Folder, Signal};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::ledger::{LEDGER, call, laid, served, usage};
use crate::table::{Config, Engine, Gateway, POOL, maitred};

/// Two units a second for each endpoint.
fn hourly() -> String {
    format!("prices: [{{ pool: {POOL}, per_gpu_hour: \"3600\", gpus: 2 }}]")
}

fn money(line: &Value) -> f64 {
    line["money"].as_str().unwrap().parse().unwrap()
}

#[expect(
    clippy::disallowed_methods,
    reason = "what the gateway measured is compared with what its clients saw"
)]
fn now() -> SystemTime {
    SystemTime::now()
}

/// So many streams at once. The endpoint was busy with them for so long at least, and at most.
async fn streams(gateway: &Gateway, name: &str, count: usize) -> [Duration; 2] {
    let address = gateway.address;
    let begin = now();
    let mut clients = JoinSet::new();
    for number in 0..count {
        let call = call(&format!("{name}-{number}"), true, 40);
        clients.spawn(async move {
            let mut connection = Connection::open(address).await;
            assert_eq!(connection.start(&call).await.status(), 200);
            assert!(connection.event().await.is_some());
            let first = now();
            while connection.event().await.is_some() {}
            first.elapsed().unwrap()
        });
    }
    let least = clients.join_all().await.into_iter().max().unwrap();
    gateway.until_idle().await;
    [least, begin.elapsed().unwrap()]
}

#[tokio::test]
async fn a_pools_hours_are_charged_once_however_many_share_them() {
    let engine = Engine::start(&[]).await;
    // The price of tokens is not for a pool whose hours have one.
    let prices = hourly().replace("}]", "}, { model: \"*\", input: \"1000000\", output: \"1000000\" }]");
    let config = Config::engines(std::slice::from_ref(&engine))
        .file(LEDGER)
        .file(&prices);
    let gateway = served(laid(&config).await, &config, 1).await;
    let alone = streams(&gateway, "alone", 1).await;
    // Nobody is charged for what lies between.
    for _ in 0..3 {
        usage(&gateway.folder, "task").await;
    }
    let together = streams(&gateway, "together", 6).await;
    let Gateway { mut child, folder, .. } = gateway;
    child.signal(Signal::Terminate);
    assert!(child.exit().await.success());

    what_nobody_used_is_the_rest_of_what_the_hours_cost(&folder).await;
    let mut lines = usage(&folder, "task,price").await;
    lines.retain(|line| line["line"] == "calls");
    assert_eq!(lines.len(), 7, "{lines:?}");
    let price = format!("pool {POOL}@always 2 x 3600 per GPU hour");
    assert!(
        lines
            .iter()
            .all(|line| line["price"] == price.as_str() && line["calls"] == 1)
    );
    let of = |name: &str| {
        let lines = lines
            .iter()
            .filter(|line| line["task"].as_str().unwrap().starts_with(name));
        let money: Vec<f64> = lines.map(money).collect();
        println!("{name}: {money:?}");
        money
    };
    for (name, [least, most]) in [("alone", alone), ("together", together)] {
        let sum: f64 = of(name).iter().sum();
        let (least, most) = (2.0 * least.as_secs_f64(), 2.0 * most.as_secs_f64());
        assert!(least <= sum && sum <= most, "{name}: {least} {sum} {most}");
    }
    // They came and went together, so each has about a sixth.
    let parts = of("together");
    let (sum, most) = (
        parts.iter().sum::<f64>(),
        parts.iter().fold(0.0_f64, |most, part| most.max(*part)),
    );
    assert!(most < sum / 3.0, "{parts:?}");
    let all = usage(&folder, "tenant").await;
    let all: f64 = all.iter().filter(|line| line["line"] == "calls").map(money).sum();
    let sum: f64 = lines.iter().map(money).sum();
    assert!((all - sum).abs() < 1e-6, "{all} {sum}");
}

/// Whatever it is summed by, the lines add up to what the minutes cost in which the endpoint was ready.
async fn what_nobody_used_is_the_rest_of_what_the_hours_cost(folder: &Folder) {
    for (by, whose) in [
        ("tenant,model", "tenant"),
        ("pool", ""),
        ("endpoint,day", ""),
        ("task,month", "task"),
    ] {
        let lines = usage(folder, by).await;
        let idle: Vec<&Value> = lines.iter().filter(|line| line["line"] == "idle").collect();
        assert_eq!(idle.len(), 1, "{lines:?}");
        assert!(whose.is_empty() || idle[0][whose].is_null(), "{idle:?}");
        let minutes = idle[0]["endpoint_minutes"].as_f64().unwrap();
        let hours: f64 = idle[0]["hours_money"].as_str().unwrap().parse().unwrap();
        assert!(minutes >= 1.0 && (hours - minutes * 120.0).abs() < 1e-6, "{idle:?}");
        let sum: f64 = lines.iter().map(money).sum();
        assert!(
            money(idle[0]) > 0.0 && (sum - hours).abs() < 1e-6,
            "{sum} of {hours}: {lines:?}"
        );
    }
    let table = maitred(["usage", "--by", "pool"])
        .folder(folder.path())
        .run()
        .await
        .success();
    assert!(table.contains(&format!("{POOL} (idle)")), "{table}");
}

#[tokio::test]
async fn who_leaves_is_charged_for_what_was_had_and_a_death_by_an_estimate() {
    let engine = Engine::start(&[]).await;
    let config = Config::engines(std::slice::from_ref(&engine))
        .file(LEDGER)
        .file(&hourly());
    let gateway = served(laid(&config).await, &config, 1).await;
    let begin = now();
    let mut connection = Connection::open(gateway.address).await;
    assert_eq!(connection.start(&call("left", true, 5000)).await.status(), 200);
    assert!(connection.event().await.is_some());
    let first = now();
    for _ in 0..20 {
        assert!(connection.event().await.is_some());
    }
    let least = first.elapsed().unwrap().as_secs_f64();
    drop(connection);
    gateway.until_idle().await;
    let most = begin.elapsed().unwrap().as_secs_f64();
    let mut connection = Connection::open(gateway.address).await;
    assert_eq!(connection.start(&call("cut", true, 5000)).await.status(), 200);
    let Gateway { mut child, folder, .. } = gateway;
    child.kill().await;
    // The next one settles what the dead one left.
    let gateway = served(folder, &config, 1).await;
    let Gateway { mut child, folder, .. } = gateway;
    child.signal(Signal::Terminate);
    assert!(child.exit().await.success());
    let lines = usage(&folder, "task").await;
    let of = |name: &str| lines.iter().find(|line| line["task"] == name).unwrap();
    let left = money(of("left"));
    assert!(2.0 * least <= left && left <= 2.0 * most, "{least} {left} {most}");
    let cut = of("cut");
    assert_eq!((&cut["interrupted"], &cut["estimated"]), (&1.into(), &1.into()));
    let tokens = |what: &str| cut[what].as_f64().unwrap();
    let seconds = tokens("input_tokens") / 10_000.0 + tokens("output_tokens") / 100.0;
    assert!(seconds > 0.0 && (money(cut) - 2.0 * seconds).abs() < 1e-6, "{cut}");
}
