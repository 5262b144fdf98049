//! What the gateway calls ready. Breaks nothing, so it is for gateways that serve.

use std::collections::BTreeMap;

use http::StatusCode;
use serde_json::json;

use super::findings::{Findings, Ran};
use super::fleet::Fleet;

pub(super) async fn run(fleet: &Fleet, found: &mut Findings) -> anyhow::Result<Ran> {
    let gateway = fleet.gateway();
    let (status, _) = gateway.page("/readyz").await?;
    let lives = gateway.lives().await?;
    found.did("asked /readyz and /endpoints");
    found.saw(
        "the gateway is ready",
        status == StatusCode::OK,
        json!({ "status": status.as_u16() }),
    );
    let mut states: BTreeMap<&str, usize> = BTreeMap::new();
    for life in &lives {
        *states.entry(&life.state).or_default() += 1;
    }
    let is_ready = states.get("ready").is_some_and(|count| *count > 0);
    found.saw("it has endpoints that are ready", is_ready, json!(states));
    Ok(Ran::Through)
}
