//! Another configuration while calls run.

use super::*;

#[tokio::test]
async fn an_invalid_file_changes_nothing_and_is_complained_about() {
    let engines = Engine::start_several(1, &["--profile", "l40s-8b"]).await;
    let config = Config::engines(&engines);
    let mut gateway = Gateway::ready(&config).await;
    let running = Running::begin(&gateway, 0, 60).await;
    gateway
        .folder
        .write("maitred.yaml", &config.clone().pool("profle: default").to_yaml());
    gateway.child.signal(Signal::HangUp);
    let complaint = gateway.child.line("the old one stays in force").await;
    assert!(
        complaint.contains("profle") && complaint.contains("profile"),
        "{complaint}"
    );
    let reloads = async |result: &str| {
        gateway
            .metric("maitred_config_reloads_total", &[("result", result)])
            .await
    };
    assert!(reloads("rejected").await >= 1.0);
    assert_eq!(reloads("applied").await, 0.0);
    assert_eq!(gateway.ask(streamed(1, 5, 2)).await.status(), 200);
    // A good one after it is taken.
    gateway.rewrite(&config.pool("profile: round-robin"));
    eventually("the good one", async || (reloads("applied").await == 1.0).then_some(())).await;
    assert_eq!(gateway.ask(streamed(2, 5, 2)).await.status(), 200);
    running.finish().await;
}

/// Every call runs to its end under the settings that it began with, and endpoints that stay keep their figures.
#[tokio::test]
async fn no_reload_loses_a_call() {
    let engines = Engine::start_several(3, &["--profile", "l40s-8b"]).await;
    let config = Config::engines(&engines);
    let gateway = Gateway::ready(&config).await;
    let reloads = async {
        let applied = async |count: f64| {
            eventually("the reload", async || {
                let applied = gateway
                    .metric("maitred_config_reloads_total", &[("result", "applied")])
                    .await;
                (applied >= count).then_some(())
            })
            .await;
        };
        let picks = async || gateway.metric("maitred_picks_total", &[]).await;
        let mut count = 0.0;
        for round in 0..2 {
            let variants = [
                Config::engines(&engines[1..]),
                Config::engines(&engines).pool("profile: round-robin"),
                Config::engines(&engines[..2]).pool(&format!("max_in_flight: {}", 100 + round)),
                Config::engines(&engines).file("timeouts: { idle: 20s }"),
            ];
            for variant in variants {
                gateway.rewrite(&variant);
                gateway.child.signal(Signal::HangUp);
                count += 1.0;
                applied(count).await;
                let before = picks().await;
                eventually("calls under it", async || (picks().await > before + 5.0).then_some(())).await;
            }
        }
    };
    let (calls, ()) = steady(&gateway, 30.0)
        .during(|number| streamed(number, 50, 20), reloads)
        .await;
    println!(
        "{} calls ended {:?} while the settings changed eight times",
        calls.len(),
        endings(&calls)
    );
    all_clean(&calls);
    assert!(counted(&gateway, engines[1].address, "picks").await > 0);
    gateway.until_idle().await;
    assert_eq!(gateway.metric("maitred_leases_abandoned_total", &[]).await, 0.0);
}
