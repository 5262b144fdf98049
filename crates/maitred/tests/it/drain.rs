//! Leaving in order: endpoints and the gateway finish what they have begun.

use std::net::SocketAddr;

use maitred_test::load::Ending;
use maitred_test::{BodyEnd, Connection, Request, Signal, eventually};

use crate::table::{Config, Engine, Gateway, MAITRED, POOL};
use crate::traffic::{Running, all_clean, counted, endings, steady, streamed};

mod endpoint;
mod gateway;
mod reload;
mod rolling;

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
