//! An endpoint whose port is open and whose model is not loaded: nothing may be sent there.

use std::collections::BTreeSet;

use serde_json::json;

use super::findings::{Findings, Ran};
use super::fleet::{Fleet, until};
use super::load::{Load, figures};

/// How long the model takes to load.
const LOADING: &str = "2s";
/// Calls that have ended before the restart.
const SOME: usize = 10;

pub(super) async fn run(fleet: &Fleet, found: &mut Findings) -> anyhow::Result<Ran> {
    let gateway = fleet.gateway();
    let [victim, _, ..] = fleet.mates()[..] else {
        return Ok(Ran::LeftOut(
            "the pool has one endpoint; the drill needs another that serves meanwhile".into(),
        ));
    };
    let before = gateway.life(&victim.address).await?;
    let load = Load::begin(&gateway.caller);
    until("some calls", async || Ok((load.ended() >= SOME).then_some(()))).await?;
    let grace = fleet.grace();
    let how = json!({ "load_time": LOADING, "load_mode": "open-port", "drain": true, "grace": grace });
    victim.restart(how).await?;
    found.did(format!(
        "restarted {} under six clients; its port is open, its model loads for {LOADING}",
        victim.address
    ));
    let is = async |life: &str| {
        let what = format!("{} to be {life}", victim.address);
        until(
            &what,
            async || Ok((victim.state().await?["life"] == life).then_some(())),
        )
        .await
    };
    is("loading").await?;
    let while_it_loads = load.ended();
    is("serving").await?;
    let while_it_loads = load.ended() - while_it_loads;
    let after = gateway.until_ready_anew(&before).await?;
    until("calls on the endpoint that has loaded", async || {
        let life = gateway.life(&victim.address).await?;
        Ok((life.number == after.number && life.picks > 0).then_some(()))
    })
    .await?;
    let answers = load.end().await;

    // Two witnesses: what the endpoint counted, and what the gateway says of each call.
    let refused = victim.failed_chats().await?;
    let mut failed = BTreeSet::new();
    for answered in &answers {
        let Some(decision) = gateway.decision(&answered.id).await? else {
            continue;
        };
        let mut attempts = decision.attempts.iter();
        let on_it = |endpoint: &Option<String>| endpoint.as_deref() == Some(victim.address.as_str());
        if attempts
            .any(|attempt| on_it(&attempt.endpoint) && attempt.end.as_ref().is_some_and(|end| end.fault.is_some()))
        {
            failed.insert(answered.id.as_str());
        }
    }
    let seen = json!({
        "calls_meanwhile": while_it_loads,
        "refused_by_it": refused,
        "failed_on_it": failed.len(),
    });
    found.saw(
        "no call came before the model was loaded",
        refused == 0 && failed.is_empty(),
        seen,
    );
    found.saw(
        "calls went on meanwhile",
        while_it_loads > 0,
        json!({ "calls": while_it_loads }),
    );
    let bad = answers.iter().filter(|answered| !answered.is_complete()).count();
    found.saw("no client saw anything of it", bad == 0, figures(&answers));
    found.saw("once loaded it gets calls", true, json!({}));
    Ok(Ran::Through)
}
