//! The face as a client sees it, in this process, over loopback.

mod errors;
mod faults;
mod life;
mod pages;
mod shapes;

use std::net::SocketAddr;

use clap::Parser;
use maitred_runtime::Clock;
use maitred_test::{Answer, Background, Request, background, eventually};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::admin::Command;
use super::{Ending, Endpoint, EngineArgs};

#[derive(Parser, Debug)]
struct Line {
    #[command(flatten)]
    args: EngineArgs,
}

/// A running endpoint.
struct Stage {
    address: SocketAddr,
    admin: SocketAddr,
    commands: mpsc::Sender<Command>,
    life: Background<Ending>,
}

impl Stage {
    /// Starts an endpoint that serves `tiny` with a context of 2,048 tokens, a hundred times faster than real ones.
    fn begin(arguments: &str) -> Self {
        let line = format!(
            "engine --model tiny --max-model-len 2048 --time-scale 100 --admin 127.0.0.1:0 --no-cached-tokens {arguments}"
        );
        // The last value given counts, so that a test can change what stands above.
        let mut words: Vec<&str> = line.split_whitespace().collect();
        for option in ["--time-scale", "--max-model-len"] {
            let places: Vec<usize> = (0..words.len()).filter(|index| words[*index] == option).collect();
            if let [first, _, ..] = places[..] {
                words.drain(first..first + 2);
            }
        }
        let args = Line::try_parse_from(words).unwrap().args;
        let endpoint = Endpoint::start(args, Clock::start()).unwrap();
        let (address, admin) = (endpoint.address, endpoint.admin.unwrap());
        let commands = endpoint.commands.clone();
        Self {
            address,
            admin,
            commands,
            life: background(endpoint.live()),
        }
    }

    /// Starts one and waits until it serves.
    async fn serving(arguments: &str) -> Self {
        let stage = Self::begin(arguments);
        stage.state("life", |life| life == "serving").await;
        stage
    }

    async fn get(&self, path: &str) -> Answer {
        Request::get(path).send(self.address).await
    }

    async fn post(&self, path: &str, body: &Value) -> Answer {
        Request::post(path, body.to_string()).send(self.address).await
    }

    /// Waits until a field of the admin state is as wanted.
    async fn state(&self, field: &str, mut wanted: impl FnMut(&Value) -> bool) {
        eventually(field, async || {
            let state = Request::get("/sim/state").send(self.admin).await.json();
            wanted(&state[field]).then_some(())
        })
        .await;
    }

    async fn faults(&self, faults: &Value) {
        let answer = Request::post("/sim/faults", faults.to_string()).send(self.admin).await;
        assert_eq!(answer.status(), 200, "{}", answer.text());
    }

    async fn command(&self, command: Command) {
        self.commands.send(command).await.unwrap();
    }
}

/// A chat.
fn chat(fields: &Value) -> Value {
    let mut body = json!({"model": "tiny", "messages": [{"role": "user", "content": "Hello there, how are you?"}]});
    body.as_object_mut()
        .unwrap()
        .extend(fields.as_object().unwrap().clone());
    body
}

/// A captured body.
fn fixture(engine: &str, name: &str) -> String {
    let path = format!("{}/fixtures/engine/{engine}/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

const VLLM: (&str, &str) = ("vllm-0.32.0", "--flavor vllm");
const SGLANG: (&str, &str) = ("sglang-0.5.23", "--flavor sglang");
