//! What crosses the gateway, byte by byte, and how it ends.

use std::net::SocketAddr;

use maitred_test::ScriptedEndpoint;

use crate::table::{Config, Gateway, MODEL};

mod connections;
mod headers;
mod messages;
mod passthrough;
mod records;
mod streams;
mod usage;

/// One scripted endpoint and a gateway in front of it.
async fn one() -> (ScriptedEndpoint, Gateway) {
    one_with(|config| config).await
}

/// The same, with more in the configuration.
async fn one_with(more: impl FnOnce(Config) -> Config) -> (ScriptedEndpoint, Gateway) {
    let endpoint = ScriptedEndpoint::start(MODEL).await;
    let gateway = Gateway::ready(&more(Config::of([endpoint.address()]))).await;
    (endpoint, gateway)
}

/// A chat call; `more` are further members of its body.
fn chat(more: &str) -> String {
    format!(r#"{{"model":"{MODEL}","messages":[{{"role":"user","content":"Hello"}}]{more}}}"#)
}

/// A streamed chat call.
fn streamed() -> String {
    chat(r#","stream":true"#)
}

/// An address as it stands in records and headers.
fn text(address: SocketAddr) -> String {
    address.to_string()
}
