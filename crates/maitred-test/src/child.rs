//! A program that runs beside the test.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{ExitStatus, Stdio};

use rustix::process::{Pid, kill_process};
use tokio::process::Command;

use crate::output::Output;
use crate::{Background, DEADLINE, background, within};

/// What a child can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM: end in order.
    Terminate,
    /// SIGINT: as Ctrl-C.
    Interrupt,
    /// SIGHUP: read the configuration again.
    HangUp,
    /// SIGKILL: gone at once.
    Kill,
    /// SIGSTOP: freeze.
    Stop,
    /// SIGCONT: go on.
    Continue,
}

impl From<Signal> for rustix::process::Signal {
    fn from(signal: Signal) -> Self {
        match signal {
            Signal::Terminate => Self::TERM,
            Signal::Interrupt => Self::INT,
            Signal::HangUp => Self::HUP,
            Signal::Kill => Self::KILL,
            Signal::Stop => Self::STOP,
            Signal::Continue => Self::CONT,
        }
    }
}

/// How to start a child.
#[derive(Debug)]
pub struct Start {
    name: String,
    command: Command,
}

impl Start {
    /// `program`, called `name` in messages. Its standard input is empty.
    #[must_use]
    pub fn new(name: &str, program: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(program);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        Self {
            name: name.to_owned(),
            command,
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets the folder it starts in.
    #[must_use]
    pub fn folder(mut self, folder: &Path) -> Self {
        self.command.current_dir(folder);
        self
    }

    /// Sets who it runs as. Only root may.
    #[must_use]
    pub fn user(mut self, user: u32, group: u32) -> Self {
        self.command.uid(user).gid(group);
        self
    }

    /// Starts it. Must be called within a Tokio runtime.
    #[must_use]
    pub fn spawn(mut self) -> Child {
        let mut process = match self.command.spawn() {
            Ok(process) => process,
            Err(error) => panic!("{} does not start: {error}", self.name),
        };
        let output = Output::new();
        let stdout = process.stdout.take().expect("standard output is piped");
        let stderr = process.stderr.take().expect("standard error is piped");
        let readers = [
            background(output.clone().drain(stdout)),
            background(output.clone().drain(stderr)),
        ];
        Child {
            name: self.name,
            process,
            output,
            next_line: 0,
            readers,
        }
    }
}

/// A running program; killed when this is dropped.
#[derive(Debug)]
pub struct Child {
    name: String,
    process: tokio::process::Child,
    output: Output,
    /// The number of the line at which the next wait begins.
    next_line: u64,
    readers: [Background<()>; 2],
}

impl Child {
    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id().expect("a child that was not waited for")
    }

    /// The next line of either output stream that contains `wanted`. Lines before it are passed over for good.
    pub async fn line(&mut self, wanted: &str) -> String {
        self.line_where(wanted, |line| line.contains(wanted)).await
    }

    /// What follows `prefix` on the next line that contains it, up to white space; such as an address after `listening on `.
    pub async fn word_after(&mut self, prefix: &str) -> String {
        let line = self.line(prefix).await;
        let rest = line.split_once(prefix).map_or("", |(_, rest)| rest);
        rest.split_whitespace().next().unwrap_or_default().to_owned()
    }

    async fn line_where(&mut self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let found = tokio::select! {
            found = tokio::time::timeout(DEADLINE, self.output.line(self.next_line, &wanted)) => found.ok(),
            status = ended(&mut self.process, &mut self.readers) => self.last_words(status, &wanted),
        };
        let Some((line, next)) = found else {
            panic!(
                "{}: no line with `{what}`; it printed:\n{}",
                self.name,
                self.output.text()
            );
        };
        self.next_line = next;
        line
    }

    /// A wanted line among those that came just before the end.
    fn last_words(&self, status: ExitStatus, wanted: impl Fn(&str) -> bool) -> Option<(String, u64)> {
        use std::task::{Context, Poll, Waker};
        let waiting = std::pin::pin!(self.output.line(self.next_line, wanted));
        match waiting.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(found) => Some(found),
            Poll::Pending => panic!("{} ended with {status}; it printed:\n{}", self.name, self.output.text()),
        }
    }

    /// All that it printed so far, within the bounds of what is kept.
    #[must_use]
    pub fn output(&self) -> String {
        self.output.text()
    }

    /// Tells it something. A child that has already ended hears nothing, which is no fault.
    pub fn signal(&self, signal: Signal) {
        let id = self
            .process
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw);
        if let Some(id) = id {
            kill_process(id, signal.into()).ok();
        }
    }

    /// Waits for its end.
    pub async fn exit(&mut self) -> ExitStatus {
        let what = format!("the end of {}", self.name);
        within(&what, ended(&mut self.process, &mut self.readers)).await
    }

    /// Ends it at once, as the kernel does when memory runs out, and waits until it is gone.
    pub async fn kill(&mut self) {
        self.signal(Signal::Kill);
        self.exit().await;
    }
}

/// The end of the process, after which all its output has been read.
async fn ended(process: &mut tokio::process::Child, readers: &mut [Background<()>; 2]) -> ExitStatus {
    let status = process.wait().await.expect("waiting for an own child");
    for reader in readers {
        reader.finished().await;
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Child {
        Start::new("shell", "sh").args(["-c", script]).spawn()
    }

    #[tokio::test]
    async fn lines_are_waited_for_in_order() {
        let mut child =
            shell("echo starting; echo 'listening on 127.0.0.1:1 now' >&2; echo listening on 127.0.0.1:2; cat");
        child.line("starting").await;
        let first = child.word_after("listening on ").await;
        assert!(first.starts_with("127.0.0.1:"), "{first}");
        assert_eq!(child.exit().await.code(), Some(0));
    }

    #[tokio::test]
    async fn a_signal_ends_it_and_the_code_is_seen() {
        // A shell looks for signals between two commands; one that comes just before it waits would be lost.
        let mut child = shell("trap 'echo bye; exit 7' TERM; echo ready; while :; do :; done");
        child.line("ready").await;
        child.signal(Signal::Terminate);
        assert_eq!(child.exit().await.code(), Some(7));
        assert!(child.output().contains("bye"));
    }

    #[tokio::test]
    #[should_panic(expected = "ended with exit status: 3; it printed:\nno such thing")]
    async fn an_early_end_fails_with_what_it_printed() {
        shell("echo no such thing; exit 3").line("ready").await;
    }

    #[tokio::test]
    async fn a_dropped_child_is_killed() {
        let mut child = shell("echo ready; exec tail -f /dev/null");
        child.line("ready").await;
        let id = child.id();
        drop(child);
        crate::eventually("the end of the child", async || {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            (stat.is_empty() || stat.contains(") Z ")).then_some(())
        })
        .await;
    }
}
