//! Changes at run time: made one at a time by one task, entered in the audit before they are done, durable before they are
//! confirmed, and told to the other gateways.
//!
//! A change is, in this order: checked; entered in the audit; published, if gateways share their changes, under the next number,
//! which the server gives to one gateway only; written to this gateway's journal; in force; confirmed. A gateway that dies in between
//! finds it in its journal, or in the server's stream, when it starts again.
//!
//! Only a revocation does not wait for the others: when they cannot be told it holds here at once, is kept [beside the
//! journal](pending), and is published later.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use aws_lc_rs::rand::{SecureRandom as _, SystemRandom};
use maitred_config::{Change, ChangeRefusal, Roster, Settings};
use maitred_obs::rfc3339;
use maitred_store::LogError;
use maitred_store::chain::ChainError;
use maitred_store::journal::{Journal, Published, SharedJournal};
use maitred_tenant::{Actor, KeyHash, NEW_KEY_RANDOM_BYTES, NewKey, Role};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::acts::Deed;
use crate::runtime::Runtime;
use listener::{Listener, News};
use past::Past;
use pending::{Pending, Revocation};

mod keep_error;
mod listener;
mod past;
mod pending;

pub use keep_error::KeepError;
pub use past::Made;

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
    /// It is in force here, and the other gateways do not know of it yet. `version` is the newest that they do.
    pub is_pending: bool,
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

/// The way to the task that makes changes, and what it has made.
#[derive(Debug)]
pub(crate) struct Changes {
    sender: mpsc::Sender<Proposal>,
    past: Arc<Mutex<Past>>,
}

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
    /// From now on tenants, keys and limits can be changed at run time. What was changed before is in force when this returns, on other
    /// gateways too if their server answers. Must be called on the runtime that runs the background tasks, once, after the audit is
    /// kept.
    ///
    /// # Errors
    /// The journal cannot be read, something in it was changed, or its end was cut off; the other gateways' changes are others; or
    /// the server's address is none.
    pub async fn keep_changes(self: &Arc<Self>, options: ChangeOptions) -> Result<(), KeepError> {
        let journal = Journal::open(&options.journal).map_err(KeepError::Journal)?;
        let shared = options
            .shared
            .map(|(url, key)| SharedJournal::new(url.expose(), key))
            .transpose();
        let shared = shared.map_err(KeepError::Server)?;
        let mut past = Past::default();
        for line in journal.lines() {
            let line = serde_json::from_slice(line);
            past.push(&line.map_err(|error| KeepError::Newer(options.journal.clone(), error))?);
        }
        let past = Arc::new(Mutex::new(past));
        let pending = Pending::open(&options.journal)
            .map_err(|error| KeepError::Journal(ChainError::File(options.journal.clone(), error)))?;
        let (sender, proposals) = mpsc::channel(WAITING_MAX);
        let mut maker = Maker {
            runtime: Arc::downgrade(self),
            past: Arc::clone(&past),
            journal,
            shared,
            pending,
            is_complete: false,
        };
        let audited = self.audit().map(|audit| audit.changes_in_force()).transpose();
        let audited = audited.map_err(KeepError::Journal)?.flatten();
        maker.meet_others(&options.journal).await?;
        let head = maker.journal.head().number;
        if let Some(audited) = audited.filter(|audited| *audited > head) {
            let journal = options.journal;
            return Err(KeepError::Cut { journal, head, audited });
        }
        maker.is_complete = true;
        maker.put_in_force(self);
        past.lock().tell_unmarked();
        self.tasks().spawn_until_stop(maker.work(proposals));
        self.set_changes(Changes { sender, past });
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
        let Some(Changes { sender, .. }) = self.changes() else {
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

/// Makes the changes.
struct Maker {
    runtime: Weak<Runtime>,
    past: Arc<Mutex<Past>>,
    journal: Journal,
    shared: Option<SharedJournal>,
    pending: Pending,
    /// Whether the journal has all that the audit says was in force; only then the audit is told what is now.
    is_complete: bool,
}

impl Maker {
    /// Takes over what the others have changed meanwhile, before anything is served. A server that does not answer is no reason not to.
    async fn meet_others(&mut self, journal: &Path) -> Result<(), KeepError> {
        let Some(shared) = self.shared.clone() else {
            return Ok(());
        };
        match self.catch_up(&shared).await {
            Ok(None) => Ok(()),
            Ok(Some(version)) => Err(KeepError::Differs {
                journal: journal.to_owned(),
                version,
            }),
            Err(error) => {
                tracing::warn!(%error, "changes of other gateways cannot be read; starting with those that are known");
                Ok(())
            }
        }
    }

    /// Reads what the server has after this journal; the number of a line that differs if it has another journal.
    async fn catch_up(&mut self, shared: &SharedJournal) -> Result<Option<u64>, LogError> {
        let differs = shared.difference(self.journal.lines()).await?;
        if differs.is_some() {
            return Ok(differs);
        }
        let newest = shared.newest().await?;
        let mut reader = shared.reader(self.journal.head().number).await?;
        let mut before = None;
        // A line that does not fit ends it: the listener finds it again and says so.
        while self.journal.head().number < newest && before != Some(self.journal.head().number) {
            before = Some(self.journal.head().number);
            for line in reader.next().await? {
                self.absorb(&line);
            }
        }
        Ok(None)
    }

    async fn work(mut self, mut proposals: mpsc::Receiver<Proposal>) {
        let (sender, mut news) = mpsc::channel(WAITING_MAX);
        if let (Some(shared), Some(runtime)) = (self.shared.clone(), self.runtime.upgrade()) {
            let listener = Listener {
                shared,
                own: self.journal.lines().to_vec(),
            };
            runtime.tasks().spawn_until_stop(listener.listen(sender));
        }
        if self.shared.is_none() {
            // Those of a time in which there was one.
            self.settle(&mut news).await;
        }
        loop {
            tokio::select! {
                biased;
                // With no server nobody sends, and the channel is closed.
                Some(heard) = news.recv() => {
                    if self.hear(heard) {
                        self.settle(&mut news).await;
                    }
                }
                proposal = proposals.recv() => {
                    let Some(proposal) = proposal else { return };
                    let made = self.make(&proposal, &mut news).await;
                    // Who has left hears nothing.
                    let _gone = proposal.told.send(made);
                }
            }
        }
    }

    async fn make(&mut self, proposal: &Proposal, news: &mut mpsc::Receiver<News>) -> Result<Changed, NotChanged> {
        let Some(runtime) = self.runtime.upgrade() else {
            return Err(NotChanged::Unavailable("the gateway is ending".to_owned()));
        };
        for _ in 0..TRIES {
            let base = runtime.base();
            let (change, diff) = self.weigh(proposal, &base).map_err(NotChanged::Refused)?;
            let target = change.target();
            let version = self.journal.head().number + 1;
            let deed = Deed {
                action: change.action(),
                target: &target,
                diff: diff.clone(),
                version: Some(version),
            };
            let entered = runtime.enter_act(&proposal.actor, deed.clone()).await;
            entered.map_err(|error| NotChanged::Unavailable(error.to_string()))?;
            match self.write(&runtime, &proposal.actor, &change, &diff).await {
                Ok(true) => {
                    return Ok(Changed {
                        version,
                        diff,
                        is_pending: false,
                    });
                }
                Ok(false) => {
                    // Another gateway was first with this number; what it did comes next.
                    runtime.note_act("undone", &proposal.actor, deed);
                    let next = tokio::time::timeout(RETRY * 10, news.recv()).await;
                    if let Ok(Some(heard)) = next {
                        self.hear(heard);
                    }
                }
                Err(why) => {
                    runtime.note_act("undone", &proposal.actor, deed);
                    return match change.revoked() {
                        Some(id) if self.shared.is_some() => {
                            self.refuse_here(&runtime, &proposal.actor, id, &why).await
                        }
                        Some(_) | None => Err(NotChanged::Unavailable(why)),
                    };
                }
            }
        }
        Err(NotChanged::Unavailable(
            "other gateways were always first; try again".to_owned(),
        ))
    }

    /// A key is no longer let in here, although the others cannot be told.
    async fn refuse_here(
        &mut self,
        runtime: &Runtime,
        actor: &Actor,
        id: &str,
        why: &str,
    ) -> Result<Changed, NotChanged> {
        let was_new = !self.pending.has(id);
        let diff = json!({ "before": { "revoked": !was_new }, "after": { "revoked": true, "pending": true } });
        if was_new {
            tracing::warn!(
                key = id,
                why,
                "a key is revoked here, and the other gateways will be told later"
            );
            let deed = Deed {
                action: "revoke key",
                target: id,
                diff: diff.clone(),
                version: None,
            };
            let entered = runtime.enter_act(actor, deed).await;
            entered.map_err(|error| NotChanged::Unavailable(error.to_string()))?;
            let kept = self.keep_pending(runtime, actor, id);
            kept.map_err(|error| NotChanged::Unavailable(format!("refused here until a restart only: {error}")))?;
        }
        Ok(Changed {
            version: self.journal.head().number,
            diff,
            is_pending: true,
        })
    }

    fn keep_pending(&mut self, runtime: &Runtime, actor: &Actor, id: &str) -> std::io::Result<()> {
        let revocation = Revocation {
            id: id.to_owned(),
            at: rfc3339(runtime.clock().unix_now()),
            by: (*actor.name).to_owned(),
            role: actor.role.name().to_owned(),
        };
        let kept = tokio::task::block_in_place(|| self.pending.add(revocation));
        self.put_in_force(runtime);
        kept
    }

    /// Makes the changes that were waiting for the server.
    async fn settle(&mut self, news: &mut mpsc::Receiver<News>) {
        for revocation in self.pending.all().to_vec() {
            let id = revocation.id.clone();
            let proposal = Proposal {
                actor: revocation.actor(),
                make: Box::new(move |_, _| Change::revoke_key(&id)),
                told: oneshot::channel().0,
            };
            match self.make(&proposal, news).await {
                Ok(made) if made.is_pending => return,
                // One of a key that only others know stays refused here.
                Ok(_) | Err(NotChanged::Refused(_)) => {}
                Err(_) => return,
            }
        }
    }

    /// The change that is proposed, if it may be made where things stand now, and what it changes.
    fn weigh(&self, proposal: &Proposal, base: &Settings) -> Result<(Change, Value), ChangeRefusal> {
        let past = self.past.lock();
        let change = (proposal.make)(past.roster(), base)?;
        let diff = past.weigh(&change, base)?;
        let target = change.target();
        if change.revoked().is_none() && self.pending.has(&target) {
            return Err(ChangeRefusal::Conflict(format!("the key `{target}` is revoked")));
        }
        drop(target);
        Ok((change, diff))
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
                Published::Foreign => {
                    return Err("the gateways of the group have made other changes than this one".to_owned());
                }
            }
        }
        self.keep(&sealed)?;
        self.past.lock().push(&line);
        self.is_journalled(runtime, change);
        Ok(true)
    }

    /// Writes a line to the journal. One write and one wait for the disk, some milliseconds, a few times a day.
    fn keep(&mut self, line: &[u8]) -> Result<(), String> {
        let kept = tokio::task::block_in_place(|| self.journal.append(line));
        kept.map(drop)
            .map_err(|error| format!("the journal of changes cannot be written: {error}"))
    }

    fn put_in_force(&self, runtime: &Runtime) {
        let roster = self.past.lock().roster().clone();
        runtime.set_roster(Arc::new(roster.refusing(self.pending.ids())));
        let version = self.journal.head().number;
        runtime.meters().changes_version(version);
        if self.is_complete {
            runtime.note_changes_in_force(version);
        }
    }

    fn is_journalled(&mut self, runtime: &Runtime, change: &Change) {
        let settled = change
            .revoked()
            .map(|id| tokio::task::block_in_place(|| self.pending.settle(id)));
        if let Some(Err(error)) = settled {
            tracing::warn!(%error, "a revocation that is in the journal stays among those that are not");
        }
        self.put_in_force(runtime);
    }

    /// Takes what is heard of other gateways; `true` if they can be told something now.
    fn hear(&mut self, heard: News) -> bool {
        match heard {
            News::Line(line) => self.absorb(&line),
            News::Differs(version) => {
                if let Some(runtime) = self.runtime.upgrade() {
                    runtime.meters().change_failed();
                }
                tracing::error!(
                    version,
                    "the gateways of the group have made other changes than this one; only their revocations are taken over until it joins \
                     them: move its journal aside and start it again"
                );
            }
            News::Reached => return !self.pending.all().is_empty(),
        }
        false
    }

    /// Holds a key for revoked that a gateway with another journal has revoked: that is safe whatever else differs.
    fn absorb_foreign(&mut self, runtime: &Runtime, line: &Line) {
        let Some(id) = line.change.revoked().filter(|id| !self.pending.has(id)) else {
            return;
        };
        let actor = actor_of(line);
        if let Err(error) = self.keep_pending(runtime, &actor, id) {
            tracing::error!(key = id, %error, "a key that another gateway has revoked is refused until a restart only");
        }
        let deed = Deed {
            action: line.change.action(),
            target: id,
            diff: json!({ "after": { "revoked": true, "pending": true } }),
            version: None,
        };
        runtime.note_act("change", &actor, deed);
    }

    /// Takes over what another gateway has changed.
    fn absorb(&mut self, line: &[u8]) {
        let Some(runtime) = self.runtime.upgrade() else { return };
        // One's own come back too.
        if self.journal.lines().iter().rev().any(|own| own == line) {
            return;
        }
        let parsed = serde_json::from_slice::<Line>(line);
        let flaw = self.journal.fits(line).err().map(|flaw| flaw.to_string());
        let change = match (parsed, flaw) {
            (Ok(change), None) => change,
            (parsed, flaw) => {
                runtime.meters().change_failed();
                let error = flaw.unwrap_or_else(|| "this maitred does not know it".to_owned());
                tracing::error!(
                    error,
                    "a change of another gateway does not follow those of this one; it is not taken over unless it is a revocation"
                );
                if let Ok(change) = parsed {
                    self.absorb_foreign(&runtime, &change);
                }
                return;
            }
        };
        if let Err(error) = self.keep(line) {
            runtime.meters().change_failed();
            // It is in force all the same, and read from the server again after a restart.
            tracing::error!(error, "a change of another gateway is in force and not in the journal");
        }
        self.past.lock().push(&change);
        self.is_journalled(&runtime, &change.change);
        let actor = actor_of(&change);
        let deed = Deed {
            action: change.change.action(),
            target: &change.change.target(),
            diff: change.diff.clone(),
            version: Some(self.journal.head().number),
        };
        runtime.note_act("change", &actor, deed);
    }
}

/// Publishes the line after the journal's, and before it what the server has forgotten.
async fn publish(shared: &SharedJournal, journal: &Journal, line: &[u8]) -> Result<Published, LogError> {
    let number = journal.head().number + 1;
    let before = journal.lines().last().map_or(&[][..], Vec::as_slice);
    let published = shared.publish(number, line, before).await?;
    match published {
        Published::Taken if shared.difference(journal.lines()).await?.is_some() => return Ok(Published::Foreign),
        Published::Behind(_) => {}
        Published::Yes | Published::Taken | Published::Foreign => return Ok(published),
    }
    if shared.give_back(journal.lines()).await?.is_some() {
        return Ok(Published::Foreign);
    }
    shared.publish(number, line, before).await
}

fn actor_of(line: &Line) -> Actor {
    let role = Role::ALL.iter().find(|role| role.name() == line.role);
    Actor {
        name: line.by.as_str().into(),
        role: role.copied().unwrap_or(Role::Viewer),
    }
}

#[cfg(test)]
mod tests;
