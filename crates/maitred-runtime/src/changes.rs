//! Changes at run time: made one at a time by one task, entered in the audit before they are done, durable before they are
//! confirmed, and told to the other gateways.
//!
//! A change is, in this order: checked; entered in the audit; published, if gateways share their changes, under the next number,
//! which the server gives to one gateway only; written to this gateway's journal; in force; confirmed. A gateway that dies in between
//! finds it in its journal, or in the server's stream, when it starts again.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use aws_lc_rs::rand::{SecureRandom as _, SystemRandom};
use maitred_config::{Change, ChangeRefusal, Roster, Settings};
use maitred_obs::rfc3339;
use maitred_store::LogError;
use maitred_store::chain::ChainError;
use maitred_store::journal::{Journal, Published, SharedJournal};
use maitred_tenant::{Actor, KeyHash, NEW_KEY_RANDOM_BYTES, NewKey, Role};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::acts::Deed;
use crate::runtime::Runtime;

/// Changes that wait for their turn.
const WAITING_MAX: usize = 64;
/// How often a change that came second is tried again.
const TRIES: usize = 5;
/// How long to wait before the server is asked again.
const RETRY: Duration = Duration::from_millis(200);

/// Where changes are kept.
#[derive(Clone, Debug)]
pub struct ChangeOptions {
    /// The journal's file.
    pub journal: PathBuf,
    /// The server by which gateways share them, and the name of the stream there.
    pub shared: Option<(maitred_config::Secret, String)>,
}

/// A change that is in force.
#[derive(Clone, Debug)]
pub struct Changed {
    /// Its number.
    pub version: u64,
    /// What was before and is now.
    pub diff: Value,
}

/// Why a change was not made.
#[derive(Debug)]
pub enum NotChanged {
    /// It makes no sense.
    Refused(ChangeRefusal),
    /// Nothing can be changed at run time here.
    Unsupported,
    /// The audit, the journal or the server cannot be written. The text says which.
    Unavailable(String),
}

/// Makes a change where `Roster` and `Settings` are in force; asked again if another gateway was first.
type Make = Box<dyn Fn(&Roster, &Settings) -> Result<Change, ChangeRefusal> + Send + Sync>;

struct Proposal {
    actor: Actor,
    make: Make,
    told: oneshot::Sender<Result<Changed, NotChanged>>,
}

/// The way to the task that makes changes.
#[derive(Debug)]
pub(crate) struct Changes(mpsc::Sender<Proposal>);

/// A line of the journal, besides its place in the chain.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    at: String,
    by: String,
    role: String,
    change: Change,
    diff: Value,
}

impl Runtime {
    /// From now on tenants, keys and limits can be changed at run time. What was changed before is in force when this returns. Must be
    /// called on the runtime that runs the background tasks, once, after the audit is kept.
    ///
    /// # Errors
    /// The journal cannot be read, or something in it was changed; or the server's address is none.
    pub fn keep_changes(self: &Arc<Self>, options: ChangeOptions) -> Result<(), KeepError> {
        let journal = Journal::open(&options.journal).map_err(KeepError::Journal)?;
        let shared = options
            .shared
            .map(|(url, key)| SharedJournal::new(url.expose(), key))
            .transpose();
        let shared = shared.map_err(KeepError::Server)?;
        let mut roster = Roster::default();
        for line in journal.lines() {
            let line: Line =
                serde_json::from_slice(line).map_err(|error| KeepError::Newer(options.journal.clone(), error))?;
            roster.apply(&line.change);
        }
        self.set_roster(Arc::new(roster.clone()));
        self.meters().changes_version(journal.head().number);
        let (sender, proposals) = mpsc::channel(WAITING_MAX);
        let maker = Maker {
            runtime: Arc::downgrade(self),
            roster,
            journal,
            shared,
        };
        self.tasks().spawn_until_stop(maker.work(proposals));
        self.set_changes(Changes(sender));
        Ok(())
    }

    /// A key from the system's randomness; `None` if it gives none.
    #[must_use]
    pub fn new_key(&self) -> Option<NewKey> {
        let mut random = [0; NEW_KEY_RANDOM_BYTES];
        SystemRandom::new().fill(&mut random).ok()?;
        Some(NewKey::make(&random))
    }

    /// What is kept instead of `key`.
    #[must_use]
    pub fn hash_of(&self, key: &NewKey) -> KeyHash {
        key.hash(self.base().auth.keys.hasher())
    }

    /// Makes a change, and completes when it is durable and in force.
    ///
    /// # Errors
    /// It was not made, or, if something is unavailable, it is not known whether it was.
    pub async fn change(
        &self,
        actor: &Actor,
        make: impl Fn(&Roster, &Settings) -> Result<Change, ChangeRefusal> + Send + Sync + 'static,
    ) -> Result<Changed, NotChanged> {
        let Some(Changes(sender)) = self.changes() else {
            return Err(NotChanged::Unsupported);
        };
        let (told, hears) = oneshot::channel();
        let proposal = Proposal {
            actor: actor.clone(),
            make: Box::new(make),
            told,
        };
        let ended = |()| NotChanged::Unavailable("the gateway is busy with other changes, or is ending".to_owned());
        sender.try_send(proposal).map_err(|_| ended(()))?;
        hears.await.map_err(|_| ended(()))?
    }
}

/// Why changes cannot be kept.
#[derive(Debug)]
pub enum KeepError {
    /// The journal is of no use.
    Journal(ChainError),
    /// A line of the journal has a change that this maitred does not know.
    Newer(PathBuf, serde_json::Error),
    /// The server's address has not the form of one.
    Server(LogError),
}

impl std::fmt::Display for KeepError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Journal(error) => write!(f, "the journal of changes: {error}"),
            Self::Newer(path, error) => write!(
                f,
                "{} has a change that this maitred does not know: {error}",
                path.display()
            ),
            Self::Server(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for KeepError {}

/// Makes the changes.
struct Maker {
    runtime: Weak<Runtime>,
    roster: Roster,
    journal: Journal,
    shared: Option<SharedJournal>,
}

impl Maker {
    async fn work(mut self, mut proposals: mpsc::Receiver<Proposal>) {
        let (sender, mut lines) = mpsc::channel(WAITING_MAX);
        if let (Some(shared), Some(runtime)) = (self.shared.clone(), self.runtime.upgrade()) {
            let listener = Listener {
                shared,
                after: self.journal.head().number,
                own: self.journal.lines().to_vec(),
            };
            runtime.tasks().spawn_until_stop(listener.listen(sender));
        }
        loop {
            tokio::select! {
                biased;
                // With no server nobody sends, and the channel is closed.
                Some(line) = lines.recv() => self.absorb(&line),
                proposal = proposals.recv() => {
                    let Some(proposal) = proposal else { return };
                    let made = self.make(&proposal, &mut lines).await;
                    // Who has left hears nothing.
                    let _gone = proposal.told.send(made);
                }
            }
        }
    }

    async fn make(&mut self, proposal: &Proposal, lines: &mut mpsc::Receiver<Vec<u8>>) -> Result<Changed, NotChanged> {
        let Some(runtime) = self.runtime.upgrade() else {
            return Err(NotChanged::Unavailable("the gateway is ending".to_owned()));
        };
        for _ in 0..TRIES {
            let base = runtime.base();
            let change = (proposal.make)(&self.roster, &base).map_err(NotChanged::Refused)?;
            self.roster.check(&change, &base).map_err(NotChanged::Refused)?;
            let diff = self.roster.clone().apply(&change);
            let version = self.journal.head().number + 1;
            let deed = Deed {
                action: change.action(),
                target: change.target(),
                diff: diff.clone(),
                version: Some(version),
            };
            let entered = runtime.enter_act(&proposal.actor, deed.clone()).await;
            entered.map_err(|error| NotChanged::Unavailable(error.to_string()))?;
            match self.write(&runtime, &proposal.actor, &change, &diff).await {
                Ok(true) => return Ok(Changed { version, diff }),
                Ok(false) => {
                    // Another gateway was first with this number; what it did comes next.
                    runtime.note_act("undone", &proposal.actor, deed);
                    let next = tokio::time::timeout(RETRY * 10, lines.recv()).await;
                    if let Ok(Some(line)) = next {
                        self.absorb(&line);
                    }
                }
                Err(why) => {
                    runtime.note_act("undone", &proposal.actor, deed);
                    return Err(NotChanged::Unavailable(why));
                }
            }
        }
        Err(NotChanged::Unavailable(
            "other gateways were always first; try again".to_owned(),
        ))
    }

    /// Publishes and writes a change; `false` if another gateway has taken its number.
    async fn write(&mut self, runtime: &Runtime, actor: &Actor, change: &Change, diff: &Value) -> Result<bool, String> {
        let line = Line {
            at: rfc3339(runtime.clock().unix_now()),
            by: (*actor.name).to_owned(),
            role: actor.role.name().to_owned(),
            change: change.clone(),
            diff: diff.clone(),
        };
        let json = serde_json::to_vec(&line).map_err(|error| error.to_string())?;
        let members = json.get(1..json.len() - 1).unwrap_or_default();
        let sealed = self.journal.seal(members);
        if let Some(shared) = &self.shared {
            let published = publish(shared, &self.journal, &sealed).await;
            match published.map_err(|error| format!("no other gateway would hear of it: {error}"))? {
                Published::Yes => {}
                Published::Taken => return Ok(false),
                Published::Behind(_) => return Err("the server forgets what it is told".to_owned()),
            }
        }
        self.keep(&sealed)?;
        self.roster.apply(change);
        self.put_in_force(runtime);
        Ok(true)
    }

    /// Writes a line to the journal. One write and one wait for the disk, some milliseconds, a few times a day.
    fn keep(&mut self, line: &[u8]) -> Result<(), String> {
        let kept = tokio::task::block_in_place(|| self.journal.append(line));
        kept.map(drop)
            .map_err(|error| format!("the journal of changes cannot be written: {error}"))
    }

    fn put_in_force(&self, runtime: &Runtime) {
        runtime.set_roster(Arc::new(self.roster.clone()));
        runtime.meters().changes_version(self.journal.head().number);
    }

    /// Takes over what another gateway has changed.
    fn absorb(&mut self, line: &[u8]) {
        let Some(runtime) = self.runtime.upgrade() else { return };
        // One's own come back too.
        if self.journal.lines().iter().rev().any(|own| own == line) {
            return;
        }
        let parsed = serde_json::from_slice::<Line>(line).map_err(|error| error.to_string());
        let read = parsed.and_then(|parsed| {
            self.journal.fits(line).map_err(|flaw| flaw.to_string())?;
            Ok(parsed)
        });
        let change = match read {
            Ok(change) => change,
            Err(error) => {
                tracing::error!(
                    error,
                    "a change of another gateway does not follow those of this one; it is not taken over"
                );
                return;
            }
        };
        if let Err(error) = self.keep(line) {
            runtime.meters().change_failed();
            // It is in force all the same, and read from the server again after a restart.
            tracing::error!(error, "a change of another gateway is in force and not in the journal");
        }
        self.roster.apply(&change.change);
        self.put_in_force(&runtime);
        let role = Role::ALL.iter().find(|role| role.name() == change.role);
        let actor = Actor {
            name: change.by.as_str().into(),
            role: role.copied().unwrap_or(Role::Viewer),
        };
        let deed = Deed {
            action: change.change.action(),
            target: change.change.target(),
            diff: change.diff,
            version: Some(self.journal.head().number),
        };
        runtime.note_act("change", &actor, deed);
    }
}

/// Publishes the line after the journal's, and before it what the server has forgotten.
async fn publish(shared: &SharedJournal, journal: &Journal, line: &[u8]) -> Result<Published, LogError> {
    let number = journal.head().number + 1;
    let published = shared.publish(number, line).await?;
    if !matches!(published, Published::Behind(_)) {
        return Ok(published);
    }
    shared.give_back(journal.lines()).await?;
    shared.publish(number, line).await
}

/// Reads what other gateways change.
struct Listener {
    shared: SharedJournal,
    after: u64,
    own: Vec<Vec<u8>>,
}

impl Listener {
    async fn listen(mut self, lines: mpsc::Sender<Vec<u8>>) {
        loop {
            let Err(error) = self.listen_until_error(&lines).await else {
                return;
            };
            tracing::warn!(%error, "changes of other gateways cannot be read; going on with those that are known");
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn listen_until_error(&mut self, lines: &mpsc::Sender<Vec<u8>>) -> Result<(), LogError> {
        // A server that has lost its memory gets back what is known here. Others do the same; it takes each number once.
        self.shared.give_back(&self.own).await?;
        let mut reader = self.shared.reader(self.after).await?;
        loop {
            for line in reader.next().await? {
                self.after += 1;
                self.own.push(line.clone());
                if lines.send(line).await.is_err() {
                    return Ok(());
                }
            }
        }
    }
}
