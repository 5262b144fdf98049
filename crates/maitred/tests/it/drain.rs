//! Leaving in order: endpoints and the gateway finish what they have begun.

use std::net::SocketAddr;

use maitred_test::load::Ending;
use maitred_test::{BodyEnd, Connection, Request, Signal, eventually};

use crate::table::{Config, Engine, Gateway, POOL};
use crate::traffic::{all_clean, counted, endings, steady, streamed};

mod endpoint;
mod gateway;
mod reload;
mod rolling;

/// An answer that has begun.
struct Running {
    connection: Connection,
    /// The endpoint that gives it.
    endpoint: SocketAddr,
}

impl Running {
    /// A streamed answer of so many tokens, of which the first has come.
    async fn begin(gateway: &Gateway, number: usize, tokens: u32) -> Self {
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
    async fn begin_on(gateway: &Gateway, endpoint: SocketAddr, tokens: u32) -> Self {
        for number in 0..50 {
            let running = Self::begin(gateway, number, tokens).await;
            if running.endpoint == endpoint {
                return running;
            }
        }
        panic!("{endpoint} never gets a call");
    }

    /// Reads on to the end, which must be a proper one.
    async fn finish(mut self) {
        let mut last = None;
        while let Some(event) = self.connection.event().await {
            last = Some(event);
        }
        assert_eq!(self.connection.body_end(), BodyEnd::Complete, "{last:?}");
        assert!(last.as_ref().is_some_and(maitred_test::Event::is_done), "{last:?}");
    }
}

/// Waits until the gateway does not know the endpoint any more.
async fn until_gone(gateway: &Gateway, endpoint: SocketAddr) {
    eventually(&format!("{endpoint} to be gone"), async || {
        gateway.endpoint(endpoint).await.is_none().then_some(())
    })
    .await;
}

/// Sends an endpoint away by the administrative listener, and gives the status of its answer.
async fn send_away(gateway: &Gateway, endpoint: SocketAddr) -> u16 {
    let path = format!("/pools/{POOL}/endpoints/{endpoint}/drain");
    let request = Request::post(&path, "").header("host", &gateway.admin.to_string());
    request.send(gateway.admin).await.status()
}

/// Asks so many times, and no answer may come from `endpoint`.
async fn none_from(gateway: &Gateway, endpoint: SocketAddr, times: usize) {
    for number in 0..times {
        let request = gateway.chat(streamed(number, 5, 2)).header("x-maitred-endpoint", "1");
        let answer = request.send(gateway.address).await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        assert_ne!(answer.header("x-maitred-endpoint"), Some(endpoint.to_string().as_str()));
    }
}
