//! What pools remember of prompts, kept in files over a restart of the gateway.
//!
//! Each pool that has a file writes it on a timer and when the gateway ends, and reads it when it begins. What the file says of an
//! endpoint is taken in once the endpoint's page says when its process was started, and only if it is the same process: another one's
//! cache is empty. Until then it is kept as it was read, and written again, so that a gateway that lives for a moment only loses
//! nothing. Everything that touches the disk or walks through a whole index runs on a thread of its own, never on a call's way; a disk that
//! fails costs the memory and nothing else.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use maitred_config::PoolSettings;
use maitred_sched::{PrefixSnapshot, SnapshotFile};
use maitred_types::Time;
use parking_lot::Mutex;

use crate::clock::Clock;
use crate::host::PoolHost;

/// How often it is looked whether the settings have a file by now.
const IDLE: Duration = Duration::from_secs(10);
/// How long what was read waits for its endpoint. After that the endpoint's cache will have changed too much.
const PATIENCE: Duration = Duration::from_secs(600);
/// Bytes of a file beside its snapshots' own.
const FILE_SLACK: usize = 64 << 10;

/// What was read and not yet taken in, by address.
#[derive(Debug, Default)]
pub(crate) struct Remembered {
    waiting: Mutex<BTreeMap<String, Bytes>>,
    /// Held while a file is written, so that two writers do not share one.
    pen: Mutex<()>,
}

/// Reads the pool's file, and from then on writes it whenever its time has come, until the pool is over.
pub(crate) async fn keep(host: Arc<PoolHost>, clock: Clock) {
    let reader = Arc::clone(&host);
    on_a_thread(move || reader.remember_file()).await;
    host.recall(clock.now());
    let forget = clock.now() + PATIENCE;
    while !host.is_over() {
        let pause = host.settings().prefix_file.as_ref().map_or(IDLE, |file| file.every);
        tokio::time::sleep(pause).await;
        if clock.now() >= forget {
            host.remembered.waiting.lock().clear();
        }
        write(&host).await;
    }
}

/// Writes the pool's file, if it has one.
pub(crate) async fn write(host: &Arc<PoolHost>) {
    let host = Arc::clone(host);
    on_a_thread(move || host.write_file()).await;
}

pub(crate) async fn on_a_thread(work: impl FnOnce() + Send + 'static) {
    // A panic is printed by the panic hook, and costs the file and nothing else.
    drop(tokio::task::spawn_blocking(work).await);
}

impl PoolHost {
    /// Takes in what was read about endpoints whose process is known by now.
    pub(crate) fn recall(&self, now: Time) {
        if self.remembered.waiting.lock().is_empty() {
            return;
        }
        for (address, id, mark) in self.marked() {
            let Some(bytes) = self.remembered.waiting.lock().remove(address.as_str()) else {
                continue;
            };
            let taken =
                PrefixSnapshot::parse(&bytes).and_then(|snapshot| self.import_prefixes(id, mark, &snapshot, now));
            let (pool, endpoint) = (self.name(), &address);
            match taken {
                Ok(blocks) => {
                    self.meters().prefix_snapshot("taken");
                    tracing::info!(%pool, %endpoint, blocks, "what the endpoint holds of earlier prompts is known again");
                }
                Err(error) => {
                    self.meters().prefix_snapshot("refused");
                    tracing::info!(%pool, %endpoint, %error, "what is remembered of the endpoint is not used");
                }
            }
        }
    }

    fn remember_file(&self) {
        let settings = self.settings();
        let Some(file) = &settings.prefix_file else { return };
        match read(&settings, Path::new(&file.path)) {
            Ok(waiting) => *self.remembered.waiting.lock() = waiting,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                tracing::info!(pool = %self.name(), file = file.path, "there is no snapshot of prefixes yet");
            }
            Err(error) => {
                self.meters().prefix_snapshot("unreadable");
                tracing::warn!(
                    pool = %self.name(), file = file.path, %error,
                    "the snapshot of prefixes cannot be used, and will be replaced; the gateway begins without it"
                );
            }
        }
    }

    fn write_file(&self) {
        let settings = self.settings();
        let Some(file) = &settings.prefix_file else { return };
        let pen = self.remembered.pen.lock();
        let written = self.replace_file(&settings, Path::new(&file.path));
        drop(pen);
        match written {
            Ok(()) => self.meters().prefix_snapshot("written"),
            Err(error) => {
                self.meters().prefix_snapshot("failed");
                tracing::warn!(
                    pool = %self.name(), file = file.path, %error,
                    "the snapshot of prefixes cannot be written; the gateway goes on without it"
                );
            }
        }
    }

    /// Writes beside the file and puts the new one in its place, so that there is a whole one at any moment.
    fn replace_file(&self, settings: &PoolSettings, path: &Path) -> io::Result<()> {
        let beside = beside(path);
        let mut writer = BufWriter::new(File::create(&beside)?);
        self.write_to(&mut writer, settings)?;
        writer
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?
            .sync_all()?;
        fs::rename(&beside, path)?;
        // The new name is safe once the folder is.
        File::open(folder(path))?.sync_all()
    }

    /// One endpoint after the other, so that one's bytes at a time are in memory. Together they take no more than the index may.
    fn write_to(&self, writer: &mut impl Write, settings: &PoolSettings) -> io::Result<()> {
        writer.write_all(&SnapshotFile::head(settings.prefix_block))?;
        let mut left = settings.options.prefix.max_bytes;
        let waiting = self.remembered.waiting.lock().clone();
        for part in waiting.values() {
            // The file that was read was within the same bound, unless that has been lowered since.
            if part.len() > left {
                continue;
            }
            left -= part.len();
            put(writer, part)?;
        }
        let marked = self.marked();
        for (done, (address, id, mark)) in marked.iter().enumerate() {
            if waiting.contains_key(address.as_str()) {
                continue;
            }
            let budget = left / (marked.len() - done);
            if let Some(part) = self.export_prefixes(*id, *mark, budget) {
                left = left.saturating_sub(part.len());
                put(writer, &part)?;
            }
        }
        writer.write_all(&SnapshotFile::before(0))
    }
}

fn put(writer: &mut impl Write, part: &[u8]) -> io::Result<()> {
    writer.write_all(&SnapshotFile::before(part.len()))?;
    writer.write_all(part)
}

fn read(settings: &PoolSettings, path: &Path) -> io::Result<BTreeMap<String, Bytes>> {
    let cap = settings.options.prefix.max_bytes.saturating_add(FILE_SLACK);
    let mut bytes = Vec::new();
    File::open(path)?.take(cap as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > cap {
        return Err(io::Error::other("it is larger than `prefix.max_bytes`"));
    }
    let bytes = Bytes::from(bytes);
    let file = SnapshotFile::parse(&bytes, settings.prefix_block).map_err(io::Error::other)?;
    let mut waiting = BTreeMap::new();
    for part in file.parts {
        // All are looked at now: a file is used as a whole or not at all.
        let snapshot = PrefixSnapshot::parse(part).map_err(io::Error::other)?;
        waiting.insert(snapshot.address().to_owned(), bytes.slice_ref(part));
    }
    Ok(waiting)
}

/// Where the file is written before it takes its place.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

pub(crate) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    }
}

#[cfg(test)]
mod tests;
