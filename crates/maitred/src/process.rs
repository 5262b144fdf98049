//! Further processes of this very program, such as the endpoints and the gateway of the demo.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, bail};

/// This program.
pub(crate) fn program() -> anyhow::Result<PathBuf> {
    std::env::current_exe().context("cannot find this program")
}

/// A child that listens somewhere; ended when dropped, and by itself when this process is gone.
pub(crate) struct Process {
    /// What it is called in messages.
    pub(crate) name: String,
    child: parking_lot::Mutex<Child>,
    /// Where it serves.
    pub(crate) address: String,
    /// Where it is administered.
    pub(crate) admin: String,
}

impl Process {
    /// A simulated vLLM that serves `model`, with further flags of `maitred engine`.
    pub(crate) fn endpoint(program: &Path, model: &str, flags: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.args([
            "engine",
            "--with-parent",
            "--listen",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
        ]);
        command.args(["--model", model]).args(flags);
        let mut child = command
            .stdout(Stdio::piped())
            .stdin(Stdio::piped())
            .spawn()
            .context("cannot start an endpoint")?;
        let mut lines = output(child.stdout.take())?;
        let address = find(&mut lines, |line| line.strip_prefix("listening on ").map(str::to_owned))?;
        let admin = find(&mut lines, |line| line.strip_prefix("admin on ").map(str::to_owned))?;
        Ok(Self {
            name: format!("endpoint {address}"),
            child: parking_lot::Mutex::new(child),
            address,
            admin,
        })
    }

    /// A gateway with this configuration. `records` takes its access records, or they go where this process writes. `tell` gets what
    /// it says once it listens.
    pub(crate) fn gateway(
        program: &Path,
        config: &Path,
        records: Option<&Path>,
        mut tell: impl FnMut(String) + Send + 'static,
    ) -> anyhow::Result<Self> {
        let mut command = Command::new(program);
        command.args(["serve", "--with-parent", "--log-format", "json", "--config"]);
        command.arg(config);
        if let Some(records) = records {
            command.arg("--access-log").arg(records);
        }
        let mut child = command
            .stderr(Stdio::piped())
            .stdin(Stdio::piped())
            .spawn()
            .context("cannot start the gateway")?;
        let mut lines = output(child.stderr.take())?;
        let address = find(&mut lines, |line| logged(line, "listening"))?;
        let admin = find(&mut lines, |line| logged(line, "administration"))?;
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(&mut tell));
        Ok(Self {
            name: "the gateway".into(),
            child: parking_lot::Mutex::new(child),
            address,
            admin,
        })
    }

    /// How it has ended, if it has.
    pub(crate) fn ended(&self) -> std::io::Result<Option<ExitStatus>> {
        self.child.lock().try_wait()
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

/// Makes the tables of a configuration's ledger. Only for what this program has made itself: what is somebody's ledger is never made so.
pub(crate) fn make_ledger(program: &Path, config: &Path) -> anyhow::Result<()> {
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
}
