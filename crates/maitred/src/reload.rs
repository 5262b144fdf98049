//! Loading the configuration anew, on SIGHUP and when the file has changed.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use maitred_obs::Meters;
use maitred_runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::config_file;
use crate::tls::Certificates;

/// How often the file is looked at. Looking at its content finds every way to change it, also a mounted volume whose
/// links are swapped, which file notifications miss.
/// A key that is taken out of it must be refused within a second.
const LOOK: Duration = Duration::from_millis(500);
/// Every how many looks the certificates are read again too.
const CERTIFICATES: u32 = 20;

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
        self.text = text;
        let before = self.runtime.snapshot();
        let settings = loaded.settings;
        if settings == *before.settings() {
            // Put in place all the same: endpoints that an operator sent away come back with it.
            self.runtime.apply(settings);
            self.meters.reloaded("unchanged");
            tracing::info!("the configuration says what it said before");
            return;
        }
        for warning in &loaded.warnings {
            tracing::warn!(line = warning.line, column = warning.column, "{}", warning.message);
        }
        for option in settings.needs_restart(before.settings()) {
            tracing::warn!(option, "this change takes effect only when maitred is started anew");
        }
        for (pool, change) in settings.changed_pools(before.settings()) {
            tracing::info!(%pool, change = ?change, "the pool's settings change");
        }
        self.runtime.apply(settings);
        self.meters.reloaded("applied");
        tracing::info!("the new configuration is in force");
    }
}

async fn asked(hangup: &mut Option<tokio::signal::unix::Signal>) {
    match hangup {
        Some(hangup) => {
            hangup.recv().await;
        }
        None => std::future::pending().await,
    }
}
