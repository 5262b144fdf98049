//! `maitred demo`: three simulated endpoints and a gateway in front of them, each a process of its own.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use maitred_tenant::KeyHasher;
use tokio::signal::unix::{SignalKind, signal};

use crate::keys;

/// The model that the simulated endpoints serve.
const MODEL: &str = "llama-3.1-8b";
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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let code = tokio::select! {
            _ = interrupt.recv() => ExitCode::SUCCESS,
            _ = terminate.recv() => ExitCode::SUCCESS,
            code = lay_and_watch(args.clone()) => code?,
        };
        println!("\nclosing");
        Ok(code)
    });
    // A table that is still being laid is left as it is: its processes end with this one.
    runtime.shutdown_background();
    code
}

async fn lay_and_watch(args: DemoArgs) -> anyhow::Result<ExitCode> {
    // Waiting for processes to come up blocks, and Ctrl-C must not wait for that.
    let table = tokio::task::spawn_blocking(move || Table::lay(&args)).await??;
    table.watch().await
}

/// The processes, ended when dropped, and the folder they use, removed when dropped.
struct Table {
    endpoints: Vec<Process>,
    gateway: Process,
    _folder: tempfile::TempDir,
}

impl Table {
    fn lay(args: &DemoArgs) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("maitred-demo-")
            .tempdir()
            .context("cannot make a folder")?;
        let program = std::env::current_exe().context("cannot find this program")?;
        println!("starting {} simulated vLLM endpoints (H100, {MODEL})", args.endpoints);
        let endpoints: Vec<_> = (0..args.endpoints)
            .map(|seed| Process::endpoint(&program, seed))
            .collect::<anyhow::Result<_>>()?;
        for endpoint in &endpoints {
            println!("  endpoint  http://{}", endpoint.address);
        }
        let key = keys::make()?;
        let hash = key.hash(&KeyHasher::new(None)).to_string();
        let config = folder.path().join("maitred.yaml");
        let token = keys::make()?;
        let hashes = [hash, token.hash(&KeyHasher::new(None)).to_string()];
        let text = configuration(args, &endpoints, &hashes);
        std::fs::write(&config, text).with_context(|| format!("cannot write {}", config.display()))?;
        make_ledger(&program, &config)?;
        let gateway = Process::gateway(&program, &config)?;
        let admin = gateway.admin.clone().unwrap_or_default();
        println!("  gateway   http://{}", gateway.address);
        println!("  admin     http://{admin}");
        println!("  config    {}", config.display());
        wait_until_ready(&admin, token.expose(), endpoints.len())?;
        println!("ready\n");
        print_lines(&gateway.address, key.expose());
        println!("See what was used:\n\nmaitred usage --config {}\n", config.display());
        println!("Make tenants and keys of your own, as the README shows, in a shell that knows the demo:\n");
        println!(
            "export MAITRED_ADMIN_TOKEN={} MAITRED_DEMO={}\n",
            token.expose(),
            folder.path().display()
        );
        println!("See how the endpoints are, in that shell:\n");
        println!("curl -H \"Authorization: Bearer $MAITRED_ADMIN_TOKEN\" http://{admin}/endpoints\n");
        println!(
            "The endpoints are simulated: their words are nonsense by design. Access records follow; Ctrl-C ends.\n"
        );
        Ok(Self {
            endpoints,
            gateway,
            _folder: folder,
        })
    }

    /// Completes when one of the processes has ended, which none should.
    async fn watch(&self) -> anyhow::Result<ExitCode> {
        let mut tick = tokio::time::interval(Duration::from_millis(200));
        loop {
            tick.tick().await;
            for process in self.endpoints.iter().chain([&self.gateway]) {
                if let Some(status) = process.child.lock().try_wait()? {
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
         pools:\n  - name: demo\n    engine: vllm\n    models:\n      - name: {MODEL}\n    endpoints:\n",
        args.port, args.admin_port
    );
    for endpoint in endpoints {
        text.push_str(&format!("      - address: {}\n", endpoint.address));
    }
    text
}

/// Makes the tables of the demo's own ledger. What is somebody's ledger is never made so.
fn make_ledger(program: &Path, config: &Path) -> anyhow::Result<()> {
    let made = Command::new(program)
        .args(["store", "migrate", "--config"])
        .arg(config)
        .output();
    let made = made.context("cannot make the ledger")?;
    if !made.status.success() {
        bail!("cannot make the ledger: {}", String::from_utf8_lossy(&made.stderr));
    }
    Ok(())
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

/// A child process that listens somewhere.
struct Process {
    name: String,
    child: parking_lot::Mutex<Child>,
    address: String,
    admin: Option<String>,
}

impl Process {
    fn endpoint(program: &Path, seed: u16) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.args([
            "engine",
            "--with-parent",
            "--listen",
            "127.0.0.1:0",
            "--model",
            MODEL,
            "--profile",
            "h100-8b",
        ]);
        command.args(["--seed", &seed.to_string()]);
        let mut child = command
            .stdout(Stdio::piped())
            .stdin(Stdio::piped())
            .spawn()
            .context("cannot start an endpoint")?;
        let mut lines = output(child.stdout.take())?;
        let address = find(&mut lines, |line| line.strip_prefix("listening on ").map(str::to_owned))?;
        Ok(Self {
            name: format!("endpoint {address}"),
            child: parking_lot::Mutex::new(child),
            address,
            admin: None,
        })
    }

    fn gateway(program: &Path, config: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command
            .arg("serve")
            .arg("--with-parent")
            .arg("--config")
            .arg(config)
            .args(["--log-format", "json"]);
        let mut child = command
            .stderr(Stdio::piped())
            .stdin(Stdio::piped())
            .spawn()
            .context("cannot start the gateway")?;
        let mut lines = output(child.stderr.take())?;
        let address = find(&mut lines, |line| logged(line, "listening"))?;
        let admin = find(&mut lines, |line| logged(line, "administration"))?;
        // What else the gateway says goes where the demo's own words go.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| eprintln!("{line}")));
        Ok(Self {
            name: "the gateway".into(),
            child: parking_lot::Mutex::new(child),
            address,
            admin: Some(admin),
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let child = self.child.get_mut();
        // Children get the terminal's Ctrl-C too and may be gone already.
        if child.kill().is_err() || child.wait().is_err() {
            eprintln!("{} could not be ended", self.name);
        }
    }
}

type Lines = std::io::Lines<BufReader<Box<dyn Read + Send>>>;

fn output<R: Read + Send + 'static>(pipe: Option<R>) -> anyhow::Result<Lines> {
    let pipe = pipe.context("the process has no output")?;
    let pipe: Box<dyn Read + Send> = Box::new(pipe);
    Ok(BufReader::new(pipe).lines())
}

/// Reads lines until one has what is wanted; shows the others should none have it.
fn find(lines: &mut Lines, wanted: impl Fn(&str) -> Option<String>) -> anyhow::Result<String> {
    let mut seen = String::new();
    for line in lines.by_ref() {
        let line = line?;
        if let Some(found) = wanted(&line) {
            return Ok(found);
        }
        seen.push_str(&line);
        seen.push('\n');
    }
    bail!("it ended before it was ready:\n{seen}")
}

/// The `address` of a log line with this message.
fn logged(line: &str, message: &str) -> Option<String> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    (line.get("message")?.as_str()? == message).then(|| line.get("address")?.as_str().map(str::to_owned))?
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
    fn addresses_are_read_from_the_gateways_log() {
        let line = r#"{"timestamp":"x","level":"INFO","message":"listening","address":"127.0.0.1:8080"}"#;
        assert_eq!(logged(line, "listening"), Some("127.0.0.1:8080".into()));
        assert_eq!(logged(line, "administration"), None);
        assert_eq!(logged("not JSON", "listening"), None);
    }

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
