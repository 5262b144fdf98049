//! A rolling release: one endpoint after the other leaves, ends, and comes back with the next release.

use serde_json::json;

use super::findings::{Findings, Ran};
use super::fleet::{Fleet, until};
use super::load::{Load, figures};

/// Calls that have ended before the release begins.
const SOME: usize = 5;

pub(super) async fn run(fleet: &Fleet, found: &mut Findings) -> anyhow::Result<Ran> {
    let gateway = fleet.gateway();
    let mates = fleet.mates();
    if mates.len() < 2 {
        return Ok(Ran::LeftOut(
            "the pool has one endpoint; a release that rolls needs two".into(),
        ));
    }
    let load = Load::begin(&gateway.caller);
    until("some calls", async || Ok((load.ended() >= SOME).then_some(()))).await?;
    let grace = fleet.grace();
    let mut news = Vec::new();
    for endpoint in &mates {
        let before = gateway.life(&endpoint.address).await?;
        let how = json!({ "load_time": "500ms", "load_mode": "open-port", "drain": true, "grace": grace });
        endpoint.restart(how).await?;
        news.push(gateway.until_ready_anew(&before).await?);
    }
    let mut picks = 0;
    for new in &news {
        picks += gateway.life(&new.endpoint).await?.picks;
    }
    let answers = load.end().await;
    found.did(format!(
        "replaced {} endpoints one after the other under six clients; each said that it leaves for {grace}, ended and loaded anew",
        mates.len()
    ));
    let served = json!({ "endpoints": news.len(), "calls": picks });
    found.saw("the new endpoints serve", picks > 0, served);
    let failed = answers.iter().filter(|answered| answered.is_5xx()).count();
    found.saw(
        "no call got a 5xx",
        failed == 0,
        json!({ "calls": answers.len(), "status_5xx": failed }),
    );
    let bad = answers.iter().filter(|answered| !answered.is_complete()).count();
    found.saw("no answer broke off", bad == 0, figures(&answers));
    Ok(Ran::Through)
}
