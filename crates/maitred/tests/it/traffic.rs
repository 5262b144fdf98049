//! Steady traffic of streamed calls, and what came of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use maitred_test::Request;
use maitred_test::load::{Ending, Load, Streamed};

use crate::table::{CHAT, Gateway, MODEL, sum};

/// A streamed chat call for so many tokens, with a prompt of as many that nobody sent before.
pub(crate) fn streamed(number: usize, prompt: usize, tokens: u32) -> String {
    let words: String = (0..prompt)
        .map(|word| format!("{:03} ", (number * 7 + word * 13) % 1000))
        .collect();
    format!(
        r#"{{"model":"{MODEL}","stream":true,"max_tokens":{tokens},"messages":[{{"role":"user","content":"{number} {words}"}}]}}"#
    )
}

/// So many calls a second from eight clients alike.
pub(crate) fn steady(gateway: &Gateway, rate: f64) -> Load {
    Load {
        address: gateway.address,
        key: gateway.key.clone(),
        path: CHAT,
        rate,
        weights: vec![1.0; 8],
        seed: 3,
    }
}

/// How many calls ended how.
pub(crate) fn endings(calls: &[Streamed]) -> BTreeMap<Ending, usize> {
    let mut endings = BTreeMap::new();
    for call in calls {
        *endings.entry(call.ending).or_default() += 1;
    }
    endings
}

/// Fails with the first call that did not end well.
pub(crate) fn all_clean(calls: &[Streamed]) {
    let bad = calls.iter().find(|call| call.ending != Ending::Clean);
    assert!(bad.is_none(), "of {} calls {:?}: {bad:#?}", calls.len(), endings(calls));
}

/// How many answers of this class a vLLM says it has given to chat calls, such as `5xx`.
pub(crate) async fn chats(endpoint: SocketAddr, class: &str) -> u64 {
    let page = Request::get("/metrics").send(endpoint).await.text();
    whole(sum(
        &page,
        "http_requests_total",
        &[("handler", CHAT), ("status", class)],
    ))
}

/// What the gateway counted for an endpoint in its present life: `picks` or `errors`.
pub(crate) async fn counted(gateway: &Gateway, endpoint: SocketAddr, what: &str) -> u64 {
    let name = format!("maitred_endpoint_{what}_total");
    whole(gateway.metric(&name, &[("endpoint", &endpoint.to_string())]).await)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
fn whole(count: f64) -> u64 {
    count as u64
}
