//! A rollout at work: its core behind a lock, and the file that remembers it.
//!
//! What the core decides is acted upon when it is on disk, and not before: calls are assigned by the state that was last written. So a
//! gateway that is killed at any moment takes the rollout up where its calls last saw it. There is one exception: a rollback takes effect
//! even if the disk refuses it, since a candidate that is worse must not go on answering for that.
//!
//! The file is replaced as a whole: a new one is written beside it, made durable, and put in its place.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use maitred_route::release::Verification;
use maitred_route::rollout::{Assignment, Caller, Event, Observation, Rollout, Side, Stage, Terms};
use maitred_types::UnixMillis;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::remembered::{beside, folder, on_a_thread};

/// The form of the file.
const FORM: u32 = 1;
/// Largest file that is read. A state is some 50 KiB.
const FILE_MAX: u64 = 4 << 20;
/// From one writing to the next while nothing is decided: so much evidence a killed gateway loses at most.
const EVERY: Duration = Duration::from_secs(10);

/// Most events that wait for a disk that refuses; what comes after them is in the state, but not told.
const NEWS_MAX: usize = 64;

/// One rollout, and the file that it is kept in.
#[derive(Debug)]
pub struct RolloutHost {
    path: PathBuf,
    live: Mutex<Live>,
    /// What is on disk, by which calls are assigned.
    kept: ArcSwap<Rollout>,
    /// Rung when something was decided.
    bell: Notify,
    /// Held while the file is written, so that an older state never replaces a newer one.
    pen: Mutex<()>,
}

/// What has been taken in.
#[derive(Debug)]
struct Live {
    rollout: Rollout,
    /// What was decided since the file was last written.
    news: Vec<Event>,
}

/// The file as it is read.
#[derive(Deserialize)]
struct Written {
    form: u32,
    rollout: serde_json::Value,
}

/// The file as it is written.
#[derive(Serialize)]
struct Writing<'a> {
    form: u32,
    rollout: &'a Rollout,
}

/// Why the state of a rollout cannot be taken up. Nobody knows then who answered what, so nothing is guessed.
#[derive(Debug)]
pub struct RolloutUnreadable {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub error: io::Error,
}

impl std::fmt::Display for RolloutUnreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the state of a rollout in {} cannot be read: {}. Restore the file; or send everything to the baseline, see that its \
             endpoints run it, and remove the file",
            self.path.display(),
            self.error
        )
    }
}

impl std::error::Error for RolloutUnreadable {}

impl RolloutHost {
    /// Begins to keep a rollout that has just been started, with the events of its start.
    ///
    /// # Errors
    /// When the file cannot be written; the rollout has then not begun.
    pub fn begin(path: &Path, started: (Rollout, Vec<Event>)) -> io::Result<Arc<Self>> {
        let host = Self::holding(path, started);
        host.write()?;
        Ok(host)
    }

    /// Takes up the rollout that the file has, if there is a file. `terms` are those of the configuration now.
    ///
    /// # Errors
    /// When there is a file and it cannot be read.
    pub fn resume(path: &Path, terms: Option<&Terms>, now: UnixMillis) -> Result<Option<Arc<Self>>, RolloutUnreadable> {
        let unreadable = |error| RolloutUnreadable {
            path: path.to_owned(),
            error,
        };
        let rollout = match read(path) {
            Ok(rollout) => rollout,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unreadable(error)),
        };
        let host = Self::holding(path, rollout.resume(terms, now));
        host.write().map_err(unreadable)?;
        Ok(Some(host))
    }

    fn holding(path: &Path, (rollout, news): (Rollout, Vec<Event>)) -> Arc<Self> {
        Arc::new(Self {
            path: path.to_owned(),
            kept: ArcSwap::from_pointee(rollout.clone()),
            live: Mutex::new(Live { rollout, news }),
            bell: Notify::new(),
            pen: Mutex::new(()),
        })
    }

    /// The side of a call, by what is on disk.
    #[must_use]
    pub fn assign(&self, caller: &Caller<'_>, now: UnixMillis) -> Assignment {
        self.kept.load().assign(caller, now)
    }

    /// Books a copy of a call for the shadow, if there is to be one.
    pub fn copy(&self, caller: &Caller<'_>) -> Option<Assignment> {
        self.live.lock().rollout.copy(caller)
    }

    /// Gives a copy back that was not sent, or whose end nobody saw.
    pub fn forget(&self, copy: &Assignment) {
        self.live.lock().rollout.forget(copy);
    }

    /// Takes in a call that is over.
    pub fn observe(&self, call: &Assignment, observed: &Observation, now: UnixMillis) {
        self.change(|rollout| rollout.observe(call, observed, now));
    }

    /// Takes in that a human took over from an answer.
    pub fn takeover(&self, call: &Assignment) {
        self.live.lock().rollout.takeover(call);
    }

    /// Takes in what the endpoints of a side say they run; `asked` is when the first was asked.
    pub fn verified(&self, side: Side, found: Verification, asked: UnixMillis, now: UnixMillis) {
        self.change(|rollout| rollout.verified(side, found, asked, now));
    }

    /// An operator promotes the candidate. Returns whether that changes anything.
    pub fn promote(&self, actor: &str, now: UnixMillis) -> bool {
        self.change(|rollout| rollout.promote(actor, now))
    }

    /// An operator rolls back. Returns whether that changes anything.
    pub fn abort(&self, actor: &str, now: UnixMillis) -> bool {
        self.change(|rollout| rollout.abort(actor, now))
    }

    /// Looks at the rollout, as far as it has come.
    pub fn look<T>(&self, look: impl FnOnce(&Rollout) -> T) -> T {
        look(&self.live.lock().rollout)
    }

    fn change(&self, change: impl FnOnce(&mut Rollout) -> Vec<Event>) -> bool {
        let mut live = self.live.lock();
        let events = change(&mut live.rollout);
        let is_news = !events.is_empty();
        live.news.extend(events);
        drop(live);
        if is_news {
            self.bell.notify_one();
        }
        is_news
    }

    /// Lets time pass and writes what has changed, until the task is stopped.
    pub async fn keep(self: Arc<Self>, clock: Clock) {
        loop {
            tokio::select! {
                () = self.bell.notified() => {}
                () = tokio::time::sleep(EVERY) => {}
            }
            self.change(|rollout| rollout.tick(clock.unix_now()));
            let host = Arc::clone(&self);
            on_a_thread(move || host.write_or_say()).await;
        }
    }

    fn write_or_say(&self) {
        if let Err(error) = self.write() {
            tracing::error!(
                file = %self.path.display(), %error,
                "the state of the rollout cannot be written; no step is widened until it can, and a restart would go on from an earlier state"
            );
        }
    }

    /// Writes the state, and from then on acts by it.
    fn write(&self) -> io::Result<()> {
        let pen = self.pen.lock();
        let (rollout, news) = {
            let mut live = self.live.lock();
            (live.rollout.clone(), std::mem::take(&mut live.news))
        };
        let written = replace(&self.path, &rollout);
        let goes_back = matches!(rollout.stage(), Stage::RollingBack);
        if written.is_ok() || goes_back {
            let name = &rollout.terms().name;
            for event in &news {
                tracing::info!(rollout = name, ?event, "the rollout goes on");
            }
            self.kept.store(Arc::new(rollout));
        } else {
            // To be told when it holds.
            let mut live = self.live.lock();
            live.news.splice(0..0, news);
            live.news.truncate(NEWS_MAX);
        }
        drop(pen);
        written
    }
}

fn read(path: &Path) -> io::Result<Rollout> {
    let mut text = Vec::new();
    File::open(path)?.take(FILE_MAX + 1).read_to_end(&mut text)?;
    if text.len() as u64 > FILE_MAX {
        return Err(io::Error::other("it is too large"));
    }
    let written: Written = serde_json::from_slice(&text)?;
    if written.form != FORM {
        let form = written.form;
        return Err(io::Error::other(format!(
            "it has form {form}, and this version of maitred knows {FORM}"
        )));
    }
    Ok(serde_json::from_value(written.rollout)?)
}

fn replace(path: &Path, rollout: &Rollout) -> io::Result<()> {
    let text = serde_json::to_vec(&Writing { form: FORM, rollout })?;
    let next = beside(path);
    let mut file = File::create(&next)?;
    file.write_all(&text)?;
    file.sync_all()?;
    fs::rename(&next, path)?;
    // The new name is safe once the folder is.
    File::open(folder(path))?.sync_all()
}

#[cfg(test)]
mod tests;
