//! A program that runs to its end.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::Command;

use crate::within;

/// A program and its arguments.
#[derive(Clone, Debug)]
pub struct Program {
    program: OsString,
    arguments: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    folder: Option<PathBuf>,
}

/// How a program ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Its exit code; nothing when a signal ended it.
    pub code: Option<i32>,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl Finished {
    /// Standard output of a program that must have succeeded.
    #[must_use]
    pub fn success(self) -> String {
        assert_eq!(self.code, Some(0), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self.stdout
    }
}

impl Program {
    /// `program` without arguments. Its standard input is empty.
    #[must_use]
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            arguments: Vec::new(),
            variables: Vec::new(),
            folder: None,
        }
    }

    /// A line for the shell, such as one of the README's.
    #[must_use]
    pub fn shell(line: &str) -> Self {
        Self::new("bash").args(["-euo", "pipefail", "-c", line])
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.arguments
            .extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets a variable of the environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Sets the folder it starts in.
    #[must_use]
    pub fn folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    /// Runs it to its end.
    pub async fn run(&self) -> Finished {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).stdin(Stdio::null()).kill_on_drop(true);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        let name = self.program.to_string_lossy();
        match within(&name, command.output()).await {
            Ok(output) => Finished {
                code: output.status.code(),
                stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
                stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            },
            Err(error) => panic!("{name} does not start: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn output_and_code_are_seen() {
        let finished = Program::shell("echo $WORD; echo two >&2; exit 4")
            .env("WORD", "one")
            .run()
            .await;
        assert_eq!(
            (finished.code, finished.stdout.as_str(), finished.stderr.as_str()),
            (Some(4), "one\n", "two\n")
        );
    }

    #[tokio::test]
    #[should_panic(expected = "stderr:\nbroken")]
    async fn a_failure_shows_what_was_printed() {
        drop(Program::shell("echo broken >&2; false").run().await.success());
    }
}
