//! Steady traffic of streamed calls, and what came of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use maitred_test::load::{Ending, Load, Streamed};
use maitred_test::{BodyEnd, Connection, Event, Request};

use crate::table::{CHAT, Gateway, MODEL, sum};

/// A streamed chat call for just so many tokens, with a prompt of as many that nobody sent before.
pub(crate) fn streamed(number: usize, prompt: usize, tokens: u32) -> String {
    let words: String = (0..prompt)
        .map(|word| format!("{:03} ", (number * 7 + word * 13) % 1000))
        .collect();
    format!(
        r#"{{"model":"{MODEL}","stream":true,"max_tokens":{tokens},"ignore_eos":true,"messages":[{{"role":"user","content":"{number} {words}"}}]}}"#
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

/// An answer that has begun.
pub(crate) struct Running {
    pub(crate) connection: Connection,
    /// The endpoint that gives it.
    pub(crate) endpoint: SocketAddr,
}

impl Running {
    /// A streamed answer of so many tokens, of which the first has come.
    pub(crate) async fn begin(gateway: &Gateway, number: usize, tokens: u32) -> Self {
        let mut connection = Connection::open(gateway.address).await;
        let request = gateway
            .chat(streamed(number, 5, tokens))
            .header("x-maitred-endpoint", "1");
        let head = connection.start(&request).await;
        assert_eq!(head.status(), 200);
        let endpoint = head.header("x-maitred-endpoint").unwrap().parse().unwrap();
        assert!(connection.event().await.is_some());
        Self { connection, endpoint }
    }

    /// One on that endpoint; others are left alone.
    pub(crate) async fn begin_on(gateway: &Gateway, endpoint: SocketAddr, tokens: u32) -> Self {
        for number in 0..50 {
            let running = Self::begin(gateway, number, tokens).await;
            if running.endpoint == endpoint {
                return running;
            }
        }
        panic!("{endpoint} never gets a call");
    }

    /// Reads on to the end, and gives the last event.
    async fn last(&mut self) -> Option<Event> {
        let mut last = None;
        while let Some(event) = self.connection.event().await {
            last = Some(event);
        }
        last
    }

    /// Reads on to an error event and a connection that is cut, and gives the error's code.
    pub(crate) async fn broken(mut self) -> String {
        let last = self.last().await;
        assert_eq!(self.connection.body_end(), BodyEnd::Cut, "{last:?}");
        let error = last.expect("an error event").json();
        error["error"]["code"].as_str().expect("an error event").to_owned()
    }

    /// Reads on to the end, which must be a proper one.
    pub(crate) async fn finish(mut self) {
        let last = self.last().await;
        assert_eq!(self.connection.body_end(), BodyEnd::Complete, "{last:?}");
        assert!(last.as_ref().is_some_and(Event::is_done), "{last:?}");
    }
}
