//! All endpoints of all pools are down: callers get a clear error with a time to come again, and service returns by itself.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;

use super::calls::{Answered, Ask, Ending};
use super::findings::{Findings, Ran};
use super::fleet::{Fleet, until};

/// How long an error may take.
const SOON: Duration = Duration::from_secs(3);

pub(super) async fn run(fleet: &Fleet, found: &mut Findings) -> anyhow::Result<Ran> {
    let gateway = fleet.gateway();
    let caller = &gateway.caller;
    // Long enough for the gateway to be sure.
    let away = format!("{}ms", fleet.surely_gone().as_millis());
    let how = json!({ "load_time": away, "load_mode": "closed-port" });
    for endpoint in &fleet.endpoints {
        endpoint.restart(how.clone()).await?;
    }
    until("the gateway to know that all are gone", async || {
        // To those that are merely ejected it sends calls if there is nobody else.
        let is_gone = |state: &str| state == "loading" || state == "draining";
        let lives = gateway.lives().await?;
        Ok(lives.iter().all(|life| is_gone(&life.state)).then_some(()))
    })
    .await?;
    let mut refused = Vec::new();
    for stream in [false, true] {
        refused.push(caller.ask(Ask { stream, tokens: 5 }).await);
    }
    let (ready, _) = gateway.page("/readyz").await?;
    found.did(format!("killed all {} endpoints and called", fleet.endpoints.len()));
    let words: Vec<_> = refused.iter().map(Answered::words).collect();
    found.saw(
        "the error is a 503 that says what is wrong, in the caller's dialect, to streams too",
        refused.iter().all(is_clear),
        json!({ "answers": words, "message": refused[0].json()["error"]["message"] }),
    );
    let after: Vec<_> = refused.iter().map(Answered::retry_after).collect();
    let has_time = after.iter().all(|after| after.is_some_and(|after| after > 0));
    found.saw("it says when to come again", has_time, json!({ "retry_after": after }));
    let slowest = refused.iter().map(|answered| answered.took).max().unwrap_or_default();
    found.saw(
        "it comes soon",
        slowest < SOON,
        json!({ "seconds": slowest.as_secs_f64() }),
    );
    found.saw(
        "/readyz says so",
        ready == StatusCode::SERVICE_UNAVAILABLE,
        json!({ "status": ready.as_u16() }),
    );
    recovery(fleet, found).await?;
    Ok(Ran::Through)
}

fn is_clear(answered: &Answered) -> bool {
    let error = &answered.json()["error"];
    let has_words = error["message"].as_str().is_some_and(|words| !words.is_empty());
    let has_code = matches!(&answered.ending, Ending::Refused(code) if code == "no_endpoint");
    answered.status == Some(StatusCode::SERVICE_UNAVAILABLE) && has_words && has_code
}

async fn recovery(fleet: &Fleet, found: &mut Findings) -> anyhow::Result<()> {
    let gateway = fleet.gateway();
    let caller = &gateway.caller;
    until("an endpoint to have loaded", async || {
        for endpoint in fleet.mates() {
            if endpoint.state().await?["life"] == "serving" {
                return Ok(Some(()));
            }
        }
        Ok(None)
    })
    .await?;
    let loaded = caller.clock.now();
    let mut refused = 0;
    until("a call to be answered", async || {
        let answered = caller
            .ask(Ask {
                stream: false,
                tokens: 5,
            })
            .await;
        refused += u32::from(!answered.is_complete());
        Ok(answered.is_complete().then_some(()))
    })
    .await?;
    let seconds = caller.clock.now().since(loaded).as_secs_f64();
    found.saw(
        "once endpoints have loaded calls are answered, with nobody's help",
        true,
        json!({ "seconds_after_loading": (seconds * 100.0).round() / 100.0, "refused_meanwhile": refused }),
    );
    Ok(())
}
