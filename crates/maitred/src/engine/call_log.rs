//! What a simulated endpoint has worked on, call by call, in a file that outlives it: what a gateway's accounts are held against.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;

use super::progress::Progress;

/// The file. A line is one write, so it is there whole, whatever ends the process.
#[derive(Debug)]
pub(super) struct CallLog(Mutex<File>);

impl CallLog {
    /// Opens the file at `path`, or makes it; lines are added to what is there.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self(Mutex::new(file)))
    }

    fn write(&self, line: &serde_json::Value) {
        // A simulated endpoint has nobody to complain to; who reads the file misses the line.
        drop(self.0.lock().write_all(format!("{line}\n").as_bytes()));
    }
}

/// A call that is in the file; its end is written when it is dropped.
#[derive(Debug)]
pub(super) struct Logged {
    log: Arc<CallLog>,
    id: String,
    progress: Arc<Progress>,
}

impl Logged {
    /// Writes that a call begins.
    pub(super) fn begin(log: &Arc<CallLog>, id: &str, prompt_tokens: u32, progress: &Arc<Progress>) -> Self {
        log.write(&json!({ "begin": id, "prompt_tokens": prompt_tokens }));
        Self {
            log: Arc::clone(log),
            id: id.to_owned(),
            progress: Arc::clone(progress),
        }
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        let tokens = self.progress.generated();
        self.log.write(&json!({ "end": self.id, "generated_tokens": tokens }));
    }
}
