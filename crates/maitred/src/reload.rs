//! Loading the configuration anew, on SIGHUP and when the file has changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use maitred_obs::Meters;
use maitred_runtime::{Actor, Deed, Role, Runtime};
use maitred_store::chain::ChainHash;
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use crate::config_file;
use crate::tls::Certificates;

/// How often the file is looked at. Looking at its content finds every way to change it, also a mounted volume whose
/// links are swapped, which file notifications miss.
/// A key that is taken out of it must be refused within a second.
const LOOK: Duration = Duration::from_millis(500);
/// Every how many looks the certificates are read again too.
const CERTIFICATES: u32 = 20;

/// Lines of a difference that the audit shows, and how much of each.
const DIFF_LINES: usize = 100;
const DIFF_WIDTH: usize = 200;

/// Watches one file.
#[derive(Debug)]
pub(crate) struct Reloader {
    path: PathBuf,
    text: String,
    certificates: Certificates,
    runtime: Arc<Runtime>,
    meters: Arc<Meters>,
}

impl Reloader {
    /// A watcher of the file at `path`, which held `text` when the settings that run were made, and of certificates.
    pub(crate) fn new(
        path: PathBuf,
        text: String,
        certificates: Certificates,
        (runtime, meters): (Arc<Runtime>, Arc<Meters>),
    ) -> Self {
        Self {
            path,
            text,
            certificates,
            runtime,
            meters,
        }
    }

    /// Watches for ever.
    pub(crate) async fn watch(mut self) {
        let mut hangup = match signal(SignalKind::hangup()) {
            Ok(hangup) => Some(hangup),
            Err(error) => {
                tracing::warn!(%error, "SIGHUP is not listened to");
                None
            }
        };
        for look in 1_u32.. {
            let is_asked = tokio::select! {
                () = asked(&mut hangup) => true,
                () = tokio::time::sleep(LOOK) => false,
            };
            if is_asked || self.has_changed().await {
                self.reload();
            }
            if is_asked || look.is_multiple_of(CERTIFICATES) {
                self.certificates.refresh();
            }
        }
    }

    /// Whether the file is there and holds something else than before. A file that is being replaced is looked at again.
    async fn has_changed(&self) -> bool {
        match tokio::fs::read_to_string(&self.path).await {
            Ok(text) => text != self.text,
            Err(_) => false,
        }
    }

    /// Puts the file's settings in place if they are valid; otherwise says what is wrong and leaves all as it is.
    fn reload(&mut self) {
        let (text, loaded) = match config_file::read(&self.path) {
            Ok(read) => read,
            Err(error) => {
                // The same bad file is complained about once, not at every look.
                if let Ok(text) = std::fs::read_to_string(&self.path) {
                    self.text = text;
                }
                self.meters.reloaded("rejected");
                tracing::error!("the new configuration is not valid, the old one stays in force: {error:#}");
                return;
            }
        };
        let old = std::mem::replace(&mut self.text, text);
        let before = self.runtime.base();
        let settings = loaded.settings;
        if settings == *before {
            // Put in place all the same: endpoints that an operator sent away come back with it.
            self.runtime.apply(settings);
            self.meters.reloaded("unchanged");
            tracing::info!("the configuration says what it said before");
            return;
        }
        for warning in &loaded.warnings {
            tracing::warn!(line = warning.line, column = warning.column, "{}", warning.message);
        }
        for option in settings.needs_restart(&before) {
            tracing::warn!(option, "this change takes effect only when maitred is started anew");
        }
        for (pool, change) in settings.changed_pools(&before) {
            tracing::info!(%pool, change = ?change, "the pool's settings change");
        }
        self.runtime.apply(settings);
        self.meters.reloaded("applied");
        note_file(&self.runtime, "reload", &self.path, diff(&old, &self.text));
        tracing::info!("the new configuration is in force");
    }
}

/// Enters in the audit what the file of this path has brought.
pub(crate) fn note_file(runtime: &Runtime, action: &str, path: &Path, diff: Value) {
    let actor = Actor {
        name: "configuration".into(),
        role: Role::Admin,
    };
    let target = path.display().to_string();
    let deed = Deed {
        action,
        target: &target,
        diff,
        version: None,
    };
    runtime.note_act("change", &actor, deed);
}

/// The hash of a file, so that what it said can be proven where a copy of it is kept.
pub(crate) fn hash_of(text: &str) -> Value {
    json!({ "sha256": ChainHash::of(text.as_bytes()).to_string() })
}

/// From the first to the last line that differ: what stood there, and what stands there now.
fn diff(old: &str, new: &str) -> Value {
    let (old_lines, new_lines): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let same = |(one, two): &(&&str, &&str)| one == two;
    let before = old_lines.iter().zip(&new_lines).take_while(same).count();
    let room = old_lines.len().min(new_lines.len()) - before;
    let behind = old_lines
        .iter()
        .rev()
        .zip(new_lines.iter().rev())
        .take(room)
        .take_while(same)
        .count();
    let cut = |lines: &[&str]| {
        let differ = lines.get(before..lines.len() - behind).unwrap_or_default();
        let shown = differ
            .iter()
            .take(DIFF_LINES)
            .map(|line| line.chars().take(DIFF_WIDTH).collect::<String>());
        shown.collect::<Vec<_>>()
    };
    let differ = (old_lines.len() - before - behind).max(new_lines.len() - before - behind);
    let mut diff = hash_of(new);
    diff["line"] = (before + 1).into();
    diff["before"] = cut(&old_lines).into();
    diff["after"] = cut(&new_lines).into();
    if differ > DIFF_LINES {
        diff["lines_not_shown"] = (differ - DIFF_LINES).into();
    }
    diff
}

async fn asked(hangup: &mut Option<tokio::signal::unix::Signal>) {
    match hangup {
        Some(hangup) => {
            hangup.recv().await;
        }
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_from_the_first_to_the_last_line_that_differ() {
        let check = |old: &str, new: &str, line: u64, before: &[&str], after: &[&str]| {
            let found = diff(old, new);
            assert_eq!(
                (&found["line"], &found["before"], &found["after"]),
                (&json!(line), &json!(before), &json!(after))
            );
        };
        check("a\nb\nc", "a\nB\nc", 2, &["b"], &["B"]);
        check("a\nc", "a\nb\nc", 2, &[], &["b"]);
        check("a\na", "a", 2, &["a"], &[]);
        check("a", "a", 2, &[], &[]);
        check("", "x", 1, &[], &["x"]);
        let long = "x\n".repeat(DIFF_LINES + 3);
        assert_eq!(diff("", &long)["lines_not_shown"], 3);
        assert!(diff("", &"y".repeat(1000))["after"][0].as_str().unwrap().len() == DIFF_WIDTH);
    }
}
