//! The ledger: what every call used, durable before its endpoint is asked, and exactly once.
//!
//! There is one way in. A call's beginning is appended to the spool, a local file, and the call goes on when it is there.
//! Its end is appended too, and nobody waits for that. A feeder takes what is over to the database, where a row is named by the
//! gateway's start, the call's number there and the attempt's number in the call; writing a row twice leaves one. So a database that is
//! gone is no special case: the spool grows, and is emptied later. What a gateway that died has left is settled by the next one.

mod database;
mod entry;
mod feed;
mod frame;
mod history;
mod hours;
mod lengths;
mod queue;
mod row;
mod schema;
mod spool;
mod starts;
mod usage;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use maitred_obs::LedgerMeters;
use maitred_types::UnixMillis;
use parking_lot::{Condvar, Mutex};
use tokio::sync::Semaphore;

pub use database::{Access, Database, DatabaseError, Place, SCHEMA_VERSION, month_of, months_before};
pub use entry::{AttemptHead, CallHead, Degrades, Ending, Entry, Expected, TargetHead};
pub use history::{Past, STRETCHES_MAX, Stretch, Whose};
pub use hours::{Idle, Ready, Report};
pub use lengths::{Lengths, Line};
pub use queue::Durability;
pub use row::{INTERRUPTED, Row};
pub use usage::{By, LINES_MAX, Question, Sums, UsageError};

use feed::Feeder;
use queue::{Shared, write_until_closed};
use spool::Spool;

/// How long the database may take to answer at the start.
const OPENING: Duration = Duration::from_secs(10);
/// How many reports are made at one time; further ones wait.
const REPORTS: usize = 2;
/// How long a report may take.
const REPORT: Duration = Duration::from_secs(20);

/// What a call does when the ledger cannot be written as it should.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// It goes on; its entries wait. Only when nothing more can wait, it is refused.
    #[default]
    Spool,
    /// It is refused.
    Reject,
}

/// Where the ledger is, and how it is kept.
#[derive(Clone)]
pub struct LedgerOptions {
    /// The database.
    pub place: Place,
    /// The spool's folder, on a disk that outlives the gateway.
    pub spool: PathBuf,
    /// Most bytes in the spool; with more no call begins.
    pub spool_max: u64,
    /// What happens when the ledger cannot be written.
    pub policy: Policy,
    /// The longest that a call waits for its beginning to be durable.
    pub wait: Duration,
    /// What survives what.
    pub durability: Durability,
    /// How many whole months are kept besides the present one; all, if nothing is said.
    pub keep_months: Option<u32>,
    /// A number that no other start of a gateway has.
    pub start: u64,
    /// The civil clock.
    pub now: fn() -> UnixMillis,
}

impl std::fmt::Debug for LedgerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LedgerOptions")
            .field("place", &self.place)
            .field("spool", &self.spool)
            .finish_non_exhaustive()
    }
}

/// Why there is no ledger to write to.
#[derive(Debug)]
pub enum LedgerError {
    /// The database is of no use.
    Database(DatabaseError),
    /// The spool cannot be written.
    Spool(PathBuf, io::Error),
}

impl std::fmt::Display for LedgerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Database(error) => error.fmt(f),
            Self::Spool(folder, error) => {
                write!(
                    f,
                    "the ledger's spool in {} cannot be written: {error}",
                    folder.display()
                )
            }
        }
    }
}

impl std::error::Error for LedgerError {}

/// Why a call may not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// The spool is as large as it may be.
    SpoolFull,
    /// More is waiting for the disk than may.
    Overrun,
    /// The disk is slower than calls wait, and the policy is to refuse.
    Late,
    /// The database takes no rows, and the policy is to refuse.
    DatabaseDown,
}

impl Unavailable {
    /// One word for metrics.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::SpoolFull => "spool_full",
            Self::Overrun => "overrun",
            Self::Late => "late",
            Self::DatabaseDown => "database_down",
        }
    }
}

/// The ledger, as a gateway writes it. One per process.
#[derive(Debug)]
pub struct Ledger {
    shared: Arc<Shared>,
    policy: Policy,
    wait: Duration,
    spool_max: u64,
    calls: AtomicU64,
    place: Place,
    /// Starts of this gateway before this one, and this one.
    earlier: Vec<u64>,
    start: u64,
    /// Reports that may be made at one time.
    reports: Semaphore,
    ended: Arc<Ended>,
}

/// Whether both threads have ended.
#[derive(Debug, Default)]
struct Ended {
    is_over: Mutex<bool>,
    told: Condvar,
}

/// A beginning that is in the ledger, and is to become durable.
#[derive(Debug)]
#[must_use = "a call goes on only when its beginning is durable"]
pub struct Begun {
    /// `None` if nobody waits any longer, since the disk is late.
    waiting: Option<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    durable: tokio::sync::oneshot::Receiver<()>,
    shared: Arc<Shared>,
    longest: Duration,
    policy: Policy,
}

impl Begun {
    /// Completes when the beginning is durable, or when the policy does not wait any longer.
    ///
    /// # Errors
    /// The call must not go on. Its end is to be written all the same.
    pub async fn durable(self) -> Result<(), Unavailable> {
        let Some(waiting) = self.waiting else { return Ok(()) };
        if let Ok(_durable) = tokio::time::timeout(waiting.longest, waiting.durable).await {
            return Ok(());
        }
        let shared = &waiting.shared;
        shared.is_late.store(true, Ordering::Relaxed);
        shared.meters.late.inc();
        match waiting.policy {
            Policy::Spool => Ok(()),
            Policy::Reject => {
                shared.meters.refused(Unavailable::Late.kind());
                Err(Unavailable::Late)
            }
        }
    }
}

impl Ledger {
    /// Opens the ledger: sees that the database has its tables, and makes a place in the spool. A database that cannot be reached is an
    /// error under [`Policy::Reject`] only; tables of another version always are.
    ///
    /// # Errors
    /// Says what is missing, and which command helps.
    pub async fn open(options: LedgerOptions, meters: LedgerMeters) -> Result<Self, LedgerError> {
        let is_strict = options.policy == Policy::Reject || matches!(options.place, Place::Sqlite(_));
        let seeing = async {
            Database::open(&options.place, Access::Write).await?.close().await;
            Ok(())
        };
        // A server that accepts and says nothing would hold up the start for ever.
        let seen = tokio::time::timeout(OPENING, seeing).await;
        match seen.unwrap_or(Err(DatabaseError::Timeout)) {
            Ok(()) => {}
            Err(error @ (DatabaseError::Refused(_) | DatabaseError::Timeout)) if !is_strict => {
                tracing::error!(%error, "the ledger's database cannot be reached; rows wait in the spool");
            }
            Err(error) => return Err(LedgerError::Database(error)),
        }
        let folder = options.spool.clone();
        let failed = |error| LedgerError::Spool(folder.clone(), error);
        let spool = Arc::new(Spool::open(&options.spool, options.start).map_err(failed)?);
        let first = spool.create(0).map_err(failed)?;
        let shared = Shared::new(meters);
        let ended = Arc::new(Ended::default());
        let ledger = Self {
            shared: Arc::clone(&shared),
            policy: options.policy,
            wait: options.wait,
            spool_max: options.spool_max,
            calls: AtomicU64::new(1),
            place: options.place.clone(),
            earlier: spool.earlier().to_vec(),
            start: options.start,
            reports: Semaphore::new(REPORTS),
            ended: Arc::clone(&ended),
        };
        let durability = options.durability;
        let (for_writer, spool_of_writer) = (Arc::clone(&shared), Arc::clone(&spool));
        let writer = std::thread::Builder::new().name("ledger-spool".into());
        writer
            .spawn(move || write_until_closed(&for_writer, &spool_of_writer, first, durability))
            .map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(failed)?;
        let feeder = std::thread::Builder::new().name("ledger-feed".into());
        feeder
            .spawn(move || {
                runtime.block_on(Feeder::new(shared, spool, options).feed());
                *ended.is_over.lock() = true;
                ended.told.notify_all();
            })
            .map_err(failed)?;
        Ok(ledger)
    }

    /// A number for a call that begins.
    pub fn number(&self) -> u64 {
        self.calls.fetch_add(1, Ordering::Relaxed)
    }

    /// Writes that something begins, if it may. What is returned completes when that is durable; the beginning is in the ledger already, so
    /// its end is to be written whether it is waited for or not.
    ///
    /// # Errors
    /// The call must not go on, and nothing was written.
    pub fn begin<S: AsRef<str>>(&self, entries: &[Entry<S>]) -> Result<Begun, Unavailable> {
        let begun = self.try_begin(entries);
        if let Err(unavailable) = begun {
            self.shared.meters.refused(unavailable.kind());
            return Err(unavailable);
        }
        begun
    }

    fn try_begin<S: AsRef<str>>(&self, entries: &[Entry<S>]) -> Result<Begun, Unavailable> {
        let shared = &self.shared;
        if shared.held.load(Ordering::Relaxed) >= self.spool_max {
            return Err(Unavailable::SpoolFull);
        }
        let is_late = shared.is_late.load(Ordering::Relaxed);
        if self.policy == Policy::Reject && shared.is_refused.load(Ordering::Relaxed) {
            return Err(Unavailable::DatabaseDown);
        }
        if is_late {
            // One call has waited in vain; the others need not.
            return match self.policy {
                Policy::Reject => Err(Unavailable::Late),
                Policy::Spool if shared.has_room() => {
                    shared.push(entries);
                    shared.meters.late.inc();
                    Ok(Begun { waiting: None })
                }
                Policy::Spool => Err(Unavailable::Overrun),
            };
        }
        let durable = shared.push_and_tell(entries).ok_or(Unavailable::Overrun)?;
        Ok(Begun {
            waiting: Some(Waiting {
                durable,
                shared: Arc::clone(shared),
                longest: self.wait,
                policy: self.policy,
            }),
        })
    }

    /// Writes what nobody waits for: that something is over.
    pub fn end<S: AsRef<str>>(&self, entries: &[Entry<S>]) {
        self.shared.push(entries);
    }

    /// Writes something that is over already, if there is room. Nobody waits for it.
    pub fn enter<S: AsRef<str>>(&self, entries: &[Entry<S>]) {
        if self.shared.held.load(Ordering::Relaxed) < self.spool_max && self.shared.has_room() {
            self.shared.push(entries);
        } else {
            self.shared.meters.refused("not_entered");
        }
    }

    /// Sums up what is in the database, over a connection of its own.
    ///
    /// # Errors
    /// The database does not answer in time, or there are too many lines.
    pub async fn report(&self, question: &Question) -> Result<Report, UsageError> {
        let _permit = self.reports.acquire().await;
        let summed = async {
            let mut database = Database::open(&self.place, Access::Read).await?;
            let report = database.report(question).await;
            database.close().await;
            report
        };
        let summed = tokio::time::timeout(REPORT, summed).await;
        summed.unwrap_or(Err(UsageError::Database(DatabaseError::Timeout)))
    }

    /// Completes when everything that earlier starts left in the spool is in the database. As long as that takes nothing, it does not.
    pub async fn settled(&self) {
        // The sender lives as long as this does.
        drop(self.shared.settled.subscribe().wait_for(|is_settled| *is_settled).await);
    }

    /// Completes when everything that was written until now is in the database, as far as calls are over.
    pub async fn flushed(&self) {
        let mark = self.shared.pushed();
        // The sender lives as long as this does.
        drop(self.shared.fed.subscribe().wait_for(|fed| *fed >= mark).await);
    }

    /// Whether several gateways may have the same database.
    #[must_use]
    pub const fn is_common(&self) -> bool {
        matches!(self.place, Place::Postgres(_))
    }

    /// What calls used, as far as it is in the database. Wait for [`Ledger::settled`] before, and for [`Ledger::flushed`] if calls of this
    /// start are asked for.
    ///
    /// # Errors
    /// The database does not answer in time, or has too much to say.
    pub async fn past(&self, past: &Past) -> Result<Vec<Stretch>, DatabaseError> {
        let mut starts = self.earlier.clone();
        if matches!(past.whose, Whose::Own(_)) {
            starts.push(self.start);
        }
        if starts.is_empty() && past.whose != Whose::Everybody {
            return Ok(Vec::new());
        }
        let added = async {
            let mut database = Database::open(&self.place, Access::Read).await?;
            let stretches = database.past(past, &starts).await;
            database.close().await;
            stretches
        };
        let added = tokio::time::timeout(REPORT, added).await;
        added.unwrap_or(Err(DatabaseError::Timeout))
    }

    /// Writes out what there is, if disk and database take it within `limit`; otherwise it stays in the spool for the next start. Blocks
    /// for as long. Says whether everything is in the database.
    pub fn close(&self, limit: Duration) -> bool {
        self.shared.close();
        let mut is_over = self.ended.is_over.lock();
        if !*is_over {
            let _timed_out = self.ended.told.wait_for(&mut is_over, limit);
        }
        *is_over
    }
}

#[cfg(test)]
mod tests;
