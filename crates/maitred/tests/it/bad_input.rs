//! Bad input: each gets a clear error in the dialect's form, the gateway goes on, and nothing is left behind.

use maitred_test::{Answer, Connection, Request, ScriptedEndpoint};

use crate::table::{CHAT, Config, Gateway, MODEL, key};

mod bodies;
mod caps;
mod requests;
mod sockets;

/// How much more memory the gateway may hold after a test's bad input. Far below what any of them sends or announces.
const GROWTH_MAX: u64 = 48 << 20;

/// A gateway that gets bad input, and what is true of it before.
struct Target {
    endpoint: ScriptedEndpoint,
    gateway: Gateway,
    memory: u64,
}

impl Target {
    async fn new() -> Self {
        Self::with(|config| config).await
    }

    async fn with(more: impl FnOnce(Config) -> Config) -> Self {
        let endpoint = ScriptedEndpoint::start(MODEL).await;
        let gateway = Gateway::ready(&more(Config::of([endpoint.address()]))).await;
        let memory = gateway.resident_bytes();
        Self {
            endpoint,
            gateway,
            memory,
        }
    }

    /// Sends a request and sees that it is refused in OpenAI's form.
    async fn check(&self, request: &Request, status: u16, code: &str) -> Answer {
        self.check_bytes(&request.to_bytes(), status, code).await
    }

    /// Sends bytes, whatever they are, and sees that they are refused in OpenAI's form.
    async fn check_bytes(&self, bytes: &[u8], status: u16, code: &str) -> Answer {
        let mut connection = Connection::open(self.gateway.address).await;
        connection.send(bytes).await;
        let head = connection.try_head().await;
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned();
        let Some(head) = head else {
            panic!("no answer to {shown:?}")
        };
        let answer = connection.rest(head).await;
        assert_eq!(answer.status(), status, "{shown:?}: {}", answer.text());
        check_openai(&answer, code, &shown);
        answer
    }

    /// Sees that the gateway still serves, holds nothing that it should have let go, and sent nothing on.
    async fn check_unharmed(mut self) {
        assert_eq!(
            self.endpoint.received_on(CHAT).len(),
            0,
            "bad input reached an endpoint"
        );
        let answer = self.gateway.ask(good()).await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        self.gateway.until_idle().await;
        assert_eq!(self.gateway.metric("maitred_leases_abandoned_total", &[]).await, 0.0);
        let grown = self.gateway.resident_bytes().saturating_sub(self.memory);
        assert!(grown < GROWTH_MAX, "grown by {grown} bytes");
        self.gateway.until_connections(0).await;
        self.gateway.child.signal(maitred_test::Signal::Terminate);
        let ended = self.gateway.child.exit().await;
        let output = self.gateway.child.output();
        assert!(ended.success() && !output.contains("panicked"), "{ended}: {output}");
    }
}

/// Sees that an answer is an error in OpenAI's form.
fn check_openai(answer: &Answer, code: &str, what: &str) {
    assert_eq!(answer.header("content-type"), Some("application/json"), "{what:?}");
    let body = answer.json();
    let error = body["error"].as_object().unwrap_or_else(|| panic!("{what:?}: {body}"));
    assert_eq!(error["code"], code, "{what:?}: {body}");
    assert!(
        error["type"].is_string() && error.contains_key("param"),
        "{what:?}: {body}"
    );
    assert!(
        error["message"].as_str().is_some_and(|message| message.len() > 10),
        "{what:?}: {body}"
    );
}

/// The body of a good call.
fn good() -> String {
    format!(r#"{{"model":"{MODEL}","messages":[]}}"#)
}

/// A good call with the key of that number.
fn call(number: u8) -> Request {
    Request::post(CHAT, good()).bearer(&key(number).0)
}
