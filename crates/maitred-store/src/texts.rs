//! Texts: what calls of tenants that want it asked, and what they were answered, word for word.
//!
//! Nothing is kept of a tenant that has not said so. Each has a folder of its own, whose files only the gateway's user may read; they
//! leave by age and by size, and all at once when they are to be forgotten. A call never waits: texts go through a bounded queue to one
//! thread, and what the queue or the disk does not take is lost and counted.

mod shelf;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use maitred_obs::{TextMeters, rfc3339};
use maitred_types::UnixMillis;
use parking_lot::{Condvar, Mutex};
use serde::Serialize;

pub use shelf::{Kept, forget, kept};

use shelf::Shelf;

/// Texts that may wait for the thread, and bytes of all of them together.
const QUEUE: usize = 4_096;
const WAITING_MAX: usize = 16 << 20;
/// Every how often the thread looks what is over its time when nothing comes.
const ROUND: Duration = Duration::from_secs(60);

/// How long a tenant's texts are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long each; whole hours leave, so it may be an hour longer.
    pub keep: Duration,
    /// Most bytes of all of them.
    pub max_size: u64,
}

/// Whose texts are kept, and how long: whoever is not in it has none.
pub type TermsByTenant = BTreeMap<String, Terms>;

/// One side of a call: what was asked, or what was answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    bytes: Vec<u8>,
    /// How many bytes it had in truth.
    length: u64,
    most: usize,
}

impl Said {
    /// Nothing yet, of which at most so many bytes will be kept.
    #[must_use]
    pub const fn up_to(most: usize) -> Self {
        Self {
            bytes: Vec::new(),
            length: 0,
            most,
        }
    }

    /// Takes the next bytes, as far as they fit.
    pub fn hear(&mut self, bytes: &[u8]) {
        self.length = self.length.saturating_add(bytes.len() as u64);
        let room = self.most.saturating_sub(self.bytes.len()).min(bytes.len());
        self.bytes.extend_from_slice(bytes.get(..room).unwrap_or_default());
    }

    fn is_cut(&self) -> bool {
        self.length > self.bytes.len() as u64
    }

    /// What is kept, if it is text. A character that was cut in two is left out.
    fn text(&self) -> Option<&str> {
        match std::str::from_utf8(&self.bytes) {
            Ok(text) => Some(text),
            Err(error) if error.error_len().is_none() && self.is_cut() => self
                .bytes
                .get(..error.valid_up_to())
                .and_then(|bytes| std::str::from_utf8(bytes).ok()),
            Err(_) => None,
        }
    }
}

/// What is kept of a call.
#[derive(Clone, Debug)]
pub struct Text {
    /// The call's id, which client, records and audit know.
    pub request_id: String,
    /// When it arrived.
    pub arrived: UnixMillis,
    /// Whose it was.
    pub tenant: String,
    /// On whose behalf.
    pub user: Option<String>,
    /// With which key: its public id.
    pub key: Option<String>,
    /// What was called.
    pub path: String,
    /// The answer's status.
    pub status: u16,
    /// The body that the client sent.
    pub request: Said,
    /// The body that the client got.
    pub answer: Said,
}

/// A line of a file.
#[derive(Serialize)]
struct Line<'a> {
    at: String,
    request_id: &'a str,
    tenant: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    path: &'a str,
    status: u16,
    request: Side<'a>,
    answer: Side<'a>,
}

#[derive(Serialize)]
struct Side<'a> {
    /// Missing where it is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    bytes: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

impl Text {
    fn len(&self) -> usize {
        self.request.bytes.len() + self.answer.bytes.len()
    }

    fn line(&self) -> Option<Vec<u8>> {
        let side = |said: &'_ Said| -> (u64, bool) { (said.length, said.is_cut()) };
        let [(request_bytes, request_cut), (answer_bytes, answer_cut)] = [side(&self.request), side(&self.answer)];
        let mut line = serde_json::to_vec(&Line {
            at: rfc3339(self.arrived),
            request_id: &self.request_id,
            tenant: &self.tenant,
            user: self.user.as_deref(),
            key: self.key.as_deref(),
            path: &self.path,
            status: self.status,
            request: Side {
                text: self.request.text(),
                bytes: request_bytes,
                cut: request_cut,
            },
            answer: Side {
                text: self.answer.text(),
                bytes: answer_bytes,
                cut: answer_cut,
            },
        })
        .ok()?;
        line.push(b'\n');
        Some(line)
    }
}

/// Where texts are.
#[derive(Clone, Debug)]
pub struct TextOptions {
    /// The folder, in which each tenant has one.
    pub folder: PathBuf,
    /// A number that no other start of a gateway has.
    pub start: u64,
    /// The civil clock.
    pub now: fn() -> UnixMillis,
}

/// Texts, as a gateway keeps them.
#[derive(Debug)]
pub struct Texts {
    /// `None` once it is closed.
    queue: Mutex<Option<SyncSender<Text>>>,
    waiting: Arc<AtomicUsize>,
    terms: Arc<Mutex<TermsByTenant>>,
    meters: TextMeters,
    ended: Arc<(Mutex<bool>, Condvar)>,
}

impl Texts {
    /// Starts the thread that writes. No folder is made before there is something to keep.
    ///
    /// # Errors
    /// The operating system refuses the thread.
    pub fn open(options: TextOptions, meters: TextMeters) -> io::Result<Self> {
        let (queue, offered) = sync_channel(QUEUE);
        let texts = Self {
            queue: Mutex::new(Some(queue)),
            waiting: Arc::default(),
            terms: Arc::default(),
            meters: meters.clone(),
            ended: Arc::default(),
        };
        let mut keeper = Keeper {
            options,
            terms: Arc::downgrade(&texts.terms),
            waiting: Arc::clone(&texts.waiting),
            meters,
            shelves: BTreeMap::new(),
            tidied: UnixMillis::new(0),
        };
        let ended = Arc::clone(&texts.ended);
        let thread = std::thread::Builder::new().name("texts".into());
        drop(thread.spawn(move || {
            keeper.keep(&offered);
            *ended.0.lock() = true;
            ended.1.notify_all();
        })?);
        Ok(texts)
    }

    /// From now on these tenants' texts are kept, for so long.
    pub fn set_terms(&self, terms: TermsByTenant) {
        *self.terms.lock() = terms;
    }

    /// Takes a text, unless too much waits: then it is lost, and counted. Never waits.
    pub fn offer(&self, text: Text) {
        let length = text.len();
        let is_taken = self.waiting.fetch_add(length, Ordering::Relaxed) + length <= WAITING_MAX
            && self
                .queue
                .lock()
                .as_ref()
                .is_some_and(|queue| queue.try_send(text).is_ok());
        if !is_taken {
            self.waiting.fetch_sub(length, Ordering::Relaxed);
            self.meters.lost.inc();
        }
    }

    /// Writes what was offered so far, within `limit`. Blocks for as long. Says whether it was done.
    pub fn close(&self, limit: Duration) -> bool {
        drop(self.queue.lock().take());
        let mut is_over = self.ended.0.lock();
        if !*is_over {
            let _timed_out = self.ended.1.wait_for(&mut is_over, limit);
        }
        *is_over
    }
}

/// The thread that writes.
struct Keeper {
    options: TextOptions,
    terms: Weak<Mutex<TermsByTenant>>,
    waiting: Arc<AtomicUsize>,
    meters: TextMeters,
    shelves: BTreeMap<String, Shelf>,
    tidied: UnixMillis,
}

impl Keeper {
    fn keep(&mut self, offered: &Receiver<Text>) {
        loop {
            match offered.recv_timeout(ROUND) {
                Ok(text) => {
                    self.waiting.fetch_sub(text.len(), Ordering::Relaxed);
                    self.put(&text);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.tidy();
        }
    }

    fn put(&mut self, text: &Text) {
        // Whoever does not want it any more has nothing kept, whatever was under way.
        let terms = self
            .terms
            .upgrade()
            .and_then(|terms| terms.lock().get(&text.tenant).copied());
        let Some((terms, line)) = terms.and_then(|terms| Some((terms, text.line()?))) else {
            return;
        };
        let (options, now) = (&self.options, (self.options.now)());
        let shelf = self
            .shelves
            .entry(text.tenant.clone())
            .or_insert_with(|| Shelf::new(options, &text.tenant));
        match shelf.put(&line, &terms, now) {
            Ok(()) => {
                self.meters.kept.inc();
            }
            Err(error) => {
                self.meters.lost.inc();
                tracing::error!(%error, tenant = text.tenant, "a text cannot be kept");
            }
        }
    }

    /// Nobody says how long texts are kept of tenants that want none any more, so they stay; but not in silence.
    fn name_the_unwanted(&self, terms: &TermsByTenant) {
        let folder = &self.options.folder;
        let wanted: Vec<PathBuf> = terms.keys().map(|tenant| folder_of(folder, tenant)).collect();
        let left = kept(folder).unwrap_or_default().into_iter();
        for left in left.filter(|left| !wanted.contains(&folder.join(&left.folder))) {
            tracing::warn!(
                tenant = left.folder,
                bytes = left.bytes,
                "there are texts of a tenant that wants none; `maitred audit text forget --tenant` removes them"
            );
        }
    }

    /// Removes what is over its time, once a round.
    fn tidy(&mut self) {
        let now = (self.options.now)();
        let round = u64::try_from(ROUND.as_millis()).unwrap_or(u64::MAX);
        if now.get() < self.tidied.get().saturating_add(round) {
            return;
        }
        let is_first = self.tidied.get() == 0;
        self.tidied = now;
        let terms = self
            .terms
            .upgrade()
            .map(|terms| terms.lock().clone())
            .unwrap_or_default();
        if is_first {
            self.name_the_unwanted(&terms);
        }
        for (tenant, terms) in &terms {
            if let Err(error) = Shelf::new(&self.options, tenant).tidy(terms, now) {
                tracing::error!(%error, tenant, "texts that are over their time cannot be removed");
            }
        }
    }
}

/// The folder of a tenant's texts.
fn folder_of(folder: &Path, tenant: &str) -> PathBuf {
    let mut name = String::new();
    for byte in tenant.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            other => name.push_str(&format!("%{other:02x}")),
        }
    }
    folder.join(name)
}

#[cfg(test)]
mod tests;
