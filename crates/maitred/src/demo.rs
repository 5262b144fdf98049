//! `maitred demo`: three simulated endpoints and a gateway in front of them, each a process of its own.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use maitred_tenant::KeyHasher;
use tokio::signal::unix::{SignalKind, signal};

use crate::keys;
use crate::process::{self, Process, make_ledger};

/// The model that the simulated endpoints serve.
const MODEL: &str = "llama-3.1-8b";
/// The card and the size of the model.
const PROFILE: &str = "h100-8b";
/// How long the gateway may take to find every endpoint ready.
const READY: Duration = Duration::from_secs(60);

/// Options of `maitred demo`.
#[derive(Args, Clone, Debug)]
pub(crate) struct DemoArgs {
    /// Port of the gateway; a free one if 0.
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Port of its administrative listener; a free one if 0.
    #[arg(long, default_value_t = 9091)]
    admin_port: u16,
    /// How many simulated endpoints there are.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=16))]
    endpoints: u16,
}

/// Runs until Ctrl-C.
pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<ExitCode> {
    // It outlives whatever is still being laid when the signal comes, and is removed with all that is in it.
    let folder = tempfile::Builder::new()
        .prefix("maitred-demo-")
        .tempdir()
        .context("cannot make a folder")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let code = tokio::select! {
            _ = interrupt.recv() => ExitCode::SUCCESS,
            _ = terminate.recv() => ExitCode::SUCCESS,
            code = lay_and_watch(args.clone(), folder.path().to_owned()) => code?,
        };
        println!("\nclosing");
        Ok(code)
    });
    // A table that is still being laid is left as it is: its processes end with this one.
    runtime.shutdown_background();
    code
}

async fn lay_and_watch(args: DemoArgs, folder: PathBuf) -> anyhow::Result<ExitCode> {
    // Waiting for processes to come up blocks, and Ctrl-C must not wait for that.
    let table = tokio::task::spawn_blocking(move || Table::lay(&args, &folder)).await??;
    table.watch().await
}

/// The processes, ended when dropped.
struct Table {
    endpoints: Vec<Process>,
    gateway: Process,
}

impl Table {
    fn lay(args: &DemoArgs, folder: &Path) -> anyhow::Result<Self> {
        let program = process::program()?;
        println!("starting {} simulated vLLM endpoints (H100, {MODEL})", args.endpoints);
        let endpoints: Vec<_> = (0..args.endpoints)
            .map(|seed| Process::endpoint(&program, MODEL, &["--profile", PROFILE, "--seed", &seed.to_string()]))
            .collect::<anyhow::Result<_>>()?;
        for endpoint in &endpoints {
            println!("  endpoint  http://{}", endpoint.address);
        }
        let key = keys::make()?;
        let hash = key.hash(&KeyHasher::new(None)).to_string();
        let config = folder.join("maitred.yaml");
        let token = keys::make()?;
        let hashes = [hash, token.hash(&KeyHasher::new(None)).to_string()];
        let text = configuration(args, &endpoints, &hashes);
        std::fs::write(&config, text).with_context(|| format!("cannot write {}", config.display()))?;
        make_ledger(&program, &config)?;
        // What the gateway says goes where the demo's own words go.
        let gateway = Process::gateway(&program, &config, None, |line| eprintln!("{line}"))?;
        let admin = gateway.admin.clone();
        println!("  gateway   http://{}", gateway.address);
        println!("  admin     http://{admin}");
        println!("  config    {}", config.display());
        wait_until_ready(&admin, token.expose(), endpoints.len())?;
        println!("ready\n");
        print_lines(&gateway.address, key.expose());
        println!("See what was used:\n\nmaitred usage --config {}\n", config.display());
        println!("Make tenants and keys of your own, as the README shows, in a shell that knows the demo:\n");
        println!(
            "export MAITRED_ADMIN_TOKEN={} MAITRED_KEY={} MAITRED_DEMO={}\n",
            token.expose(),
            key.expose(),
            folder.display()
        );
        println!("Make things go wrong, and see that the gateway keeps its promises, in that shell:\n");
        println!(
            "maitred drill --config $MAITRED_DEMO/maitred.yaml --gateway http://{} --admin http://{admin}\n",
            gateway.address
        );
        println!("See how the endpoints are, in that shell:\n");
        println!("curl -H \"Authorization: Bearer $MAITRED_ADMIN_TOKEN\" http://{admin}/endpoints\n");
        println!(
            "The endpoints are simulated: their words are nonsense by design. Access records follow; Ctrl-C ends.\n"
        );
        Ok(Self { endpoints, gateway })
    }

    /// Completes when one of the processes has ended, which none should.
    async fn watch(&self) -> anyhow::Result<ExitCode> {
        let mut tick = tokio::time::interval(Duration::from_millis(200));
        loop {
            tick.tick().await;
            for process in self.endpoints.iter().chain([&self.gateway]) {
                if let Some(status) = process.ended()? {
                    eprintln!("{} has ended: {status}", process.name);
                    return Ok(ExitCode::FAILURE);
                }
            }
        }
    }
}

/// The demo's file; `hashes` are those of the key and of the administrative token.
fn configuration(args: &DemoArgs, endpoints: &[Process], [hash, token]: &[String; 2]) -> String {
    let mut text = format!(
        "# Written by `maitred demo`; change it while the demo runs, and the gateway follows.\n\
         version: 1\n\
         listeners:\n  - address: 127.0.0.1:{}\n\
         admin:\n  address: 127.0.0.1:{}\n  changes: changes.jsonl\n  access:\n    - name: demo\n      role: admin\n      hash: \"{token}\"\n\
         auth:\n  keys:\n    - hash: \"{hash}\"\n      tenant: demo\n      shared: true\n\
         ledger:\n  sqlite: ledger.db\n\
         audit:\n  folder: audit\n\
         prices:\n  - model: {MODEL}\n    input: \"0.15\"\n    cached_input: \"0.03\"\n    output: \"0.60\"\n\
         pools:\n  - name: demo\n    engine: vllm\n    startup: {{ interval: 500ms }}\n    readiness: {{ interval: 500ms }}\n    \
         models:\n      - name: {MODEL}\n    endpoints:\n",
        args.port, args.admin_port
    );
    for endpoint in endpoints {
        text.push_str(&format!("      - address: {}\n", endpoint.address));
    }
    text
}

fn print_lines(gateway: &str, key: &str) {
    println!("Ask with curl:\n");
    println!(
        "curl -N http://{gateway}/v1/chat/completions \\\n  -H 'Authorization: Bearer {key}' \\\n  \
         -H 'Content-Type: application/json' \\\n  \
         -d '{{\"model\":\"{MODEL}\",\"stream\":true,\"max_tokens\":40,\"messages\":[{{\"role\":\"user\",\"content\":\"What is on the menu?\"}}]}}'\n"
    );
    println!("Or with the official Python SDK (pip install openai):\n");
    println!(
        "python3 -c 'from openai import OpenAI; client = OpenAI(base_url=\"http://{gateway}/v1\", api_key=\"{key}\"); \
         [print(event.choices[0].delta.content or \"\", end=\"\", flush=True) for event in client.chat.completions.create(\
         model=\"{MODEL}\", messages=[{{\"role\": \"user\", \"content\": \"What is on the menu?\"}}], max_tokens=40, stream=True)]'\n"
    );
}

/// Asks the gateway until all endpoints are ready.
fn wait_until_ready(admin: &str, token: &str, endpoints: usize) -> anyhow::Result<()> {
    let tries = READY.as_millis() / 100;
    for _ in 0..tries {
        let page = get(admin, token, "/endpoints").unwrap_or_default();
        if page.matches("\"state\":\"ready\"").count() == endpoints {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    bail!("the endpoints did not become ready within {} s", READY.as_secs())
}

fn get(address: &str, token: &str, path: &str) -> std::io::Result<String> {
    let mut stream = std::net::TcpStream::connect(address)?;
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_written_configuration_is_valid() {
        let hashes = [(); 2].map(|()| keys::make().unwrap().hash(&KeyHasher::new(None)).to_string());
        let args = DemoArgs {
            port: 0,
            admin_port: 0,
            endpoints: 1,
        };
        let mut text = configuration(&args, &[], &hashes);
        text.push_str("      - address: 127.0.0.1:8001\n");
        let loaded = maitred_config::load("demo", &text, &|_| Err("no secrets".into()));
        assert!(loaded.is_ok(), "{loaded:?}\n{text}");
    }
}
