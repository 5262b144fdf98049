//! The way from the spool to the database: one thread that follows the segments, and settles what dead gateways have left.
//!
//! A row goes to the database when its call is over. Writing it a second time changes nothing, so whatever breaks between a
//! commit and the end of a segment is made good by reading the segment again.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use maitred_types::UnixMillis;

use super::LedgerOptions;
use super::database::{Access, Database, DatabaseError};
use super::entry::Entry;
use super::frame;
use super::hours::Hours;
use super::queue::{Shared, Written};
use super::row::{Assembler, Row};
use super::schema::{month_after, month_of, months_before};
use super::spool::{Orphan, SegmentReader, Spool, orphans};

/// How long rows gather before they are committed together.
const GATHER: Duration = Duration::from_millis(50);
/// Rows from which on none more are read before those are committed.
const ROWS: usize = 1024;
/// How long a commit may take before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(20);
/// The shortest and the longest wait after a failure.
const AGAIN: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];
/// Every how often the feeder looks for the dead, for the disk and for the calendar.
const ROUND: Duration = Duration::from_millis(ROUND_MS);
const ROUND_MS: u64 = 1000;
/// How many rounds lie between two looks for the dead and for months to forget.
const ROUNDS: u32 = 30;

/// Follows one gateway's segments.
pub(super) struct Feeder {
    shared: Arc<Shared>,
    spool: Arc<Spool>,
    options: LedgerOptions,
    database: Option<Database>,
    assembler: Assembler,
    /// When everything that was written was in the database.
    current: UnixMillis,
    /// When the disk confirmed what was written, and how much that was.
    synced: (UnixMillis, Written),
    /// The segment that is read, and its number.
    reader: Option<SegmentReader>,
    segment: u64,
    /// Segments that have been read to their end and are not removed.
    done: BTreeSet<u64>,
    rows: Vec<Row>,
    hours: Hours,
    failures: u32,
}

impl Feeder {
    pub(super) fn new(shared: Arc<Shared>, spool: Arc<Spool>, options: LedgerOptions) -> Self {
        let now = (options.now)();
        Self {
            shared,
            assembler: Assembler::new(spool.start()),
            spool,
            options,
            database: None,
            current: now,
            synced: (now, Written::default()),
            reader: None,
            segment: 0,
            done: BTreeSet::new(),
            rows: Vec::new(),
            hours: Hours::default(),
            failures: 0,
        }
    }

    /// Feeds until the writer has ended and everything it wrote is in the database, or `give_up` says that it is enough. What
    /// is not in the database by then, the next start finds in the spool.
    pub(super) async fn feed(mut self) {
        self.settle_orphans().await;
        self.turn_the_calendar().await;
        for round in 1_u32.. {
            let written = self.shared.written();
            let is_behind = match self.read(written) {
                Ok(is_behind) => is_behind,
                Err(error) => {
                    self.shared.meters.error("spool");
                    tracing::error!(%error, "the ledger's spool cannot be read; trying again");
                    tokio::time::sleep(AGAIN[1]).await;
                    continue;
                }
            };
            self.tell(written);
            if self.has_more() {
                self.commit().await;
            }
            self.retire(written);
            self.sync(written);
            if is_behind || self.has_more() {
                continue;
            }
            self.shared.fed.send_replace(written.through);
            if written.is_complete && written == self.shared.written() {
                break;
            }
            if tokio::time::timeout(ROUND, self.shared.more.notified()).await.is_ok() {
                tokio::time::sleep(GATHER).await;
            }
            if round.is_multiple_of(ROUNDS) {
                self.settle_orphans().await;
                self.turn_the_calendar().await;
            }
        }
        self.leave().await;
    }

    /// Whether something waits for the database.
    fn has_more(&self) -> bool {
        !self.rows.is_empty() || !self.hours.is_empty()
    }

    /// Reads what is written, up to a batch of rows. Says whether there is more to read.
    fn read(&mut self, written: Written) -> io::Result<bool> {
        while self.rows.len() + self.hours.len() < ROWS {
            let reader = match &mut self.reader {
                Some(reader) => reader,
                None => {
                    let reader = SegmentReader::open(self.spool.folder(), self.spool.start(), self.segment)?;
                    self.reader.insert(reader)
                }
            };
            let is_last = self.segment >= written.segment;
            let end = if is_last { written.length } else { u64::MAX };
            let (assembler, segment) = (&mut self.assembler, self.segment);
            let (rows, hours) = (&mut self.rows, &mut self.hours);
            let has_read = reader.read(end, |payload| take(assembler, payload, segment, (rows, hours)))?;
            if has_read {
                continue;
            }
            if reader.is_damaged() {
                self.shared.meters.error("damaged");
                tracing::error!(
                    segment,
                    "a segment of the ledger's spool is damaged; what follows in it is not read"
                );
            }
            if is_last {
                return Ok(false);
            }
            self.done.insert(self.segment);
            self.segment += 1;
            self.reader = None;
        }
        Ok(true)
    }

    /// Writes the rows that are gathered. On failure they stay, and the next attempt comes after a while.
    async fn commit(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        if self.write(&rows).await {
            self.rows = rows;
            self.rows.clear();
        } else {
            self.rows = rows;
            let longest = AGAIN[1];
            let wait = AGAIN[0].saturating_mul(1 << self.failures.min(10)).min(longest);
            tokio::time::sleep(wait).await;
        }
    }

    async fn write(&mut self, rows: &[Row]) -> bool {
        match tokio::time::timeout(PATIENCE, self.try_write(rows)).await {
            Ok(Ok(())) => {
                if self.failures > 0 {
                    tracing::info!("the ledger's database takes rows again");
                }
                self.failures = 0;
                self.shared.is_refused.store(false, Ordering::Relaxed);
                self.shared.meters.rows.inc_by(rows.len() as u64);
                true
            }
            Ok(Err(error)) => self.failed(&error),
            Err(_elapsed) => self.failed(&DatabaseError::Timeout),
        }
    }

    async fn try_write(&mut self, rows: &[Row]) -> Result<(), DatabaseError> {
        let mut database = self.connection().await?;
        // A connection that failed is not used again.
        database.write(rows).await?;
        database.write_hours(&self.hours).await?;
        self.hours.clear();
        self.database = Some(database);
        Ok(())
    }

    fn failed(&mut self, error: &DatabaseError) -> bool {
        self.database = None;
        self.failures = self.failures.saturating_add(1);
        self.shared.is_refused.store(true, Ordering::Relaxed);
        self.shared.meters.error(error.kind());
        if self.failures == 1 {
            tracing::error!(%error, "the ledger's database takes no rows; they wait in the spool");
        }
        false
    }

    /// Removes the segments of which everything is in the database.
    fn retire(&mut self, written: Written) {
        if self.has_more() {
            return;
        }
        let needed = self.assembler.oldest_segment().unwrap_or(u64::MAX);
        while let Some(number) = self.done.first().copied().filter(|number| *number < needed) {
            match self.spool.remove(number) {
                Ok(length) => {
                    self.shared.held.fetch_sub(length, Ordering::Relaxed);
                }
                Err(error) => tracing::warn!(%error, "a segment of the ledger's spool cannot be removed"),
            }
            self.done.remove(&number);
        }
        self.tell(written);
    }

    fn tell(&mut self, written: Written) {
        let meters = &self.shared.meters;
        meters.spool_bytes(self.shared.held.load(Ordering::Relaxed));
        meters.open_calls(self.assembler.open_calls());
        let position = self.reader.as_ref().map_or(0, SegmentReader::position);
        let is_current = !self.has_more() && self.segment == written.segment && position == written.length;
        let now = (self.options.now)();
        if is_current {
            self.current = now;
        }
        meters.behind_ms(now.get().saturating_sub(self.current.get()));
    }

    /// Lets the disk confirm what is in the segment, once in a while: the writer does not wait for that unless it is told to.
    fn sync(&mut self, written: Written) {
        let now = (self.options.now)();
        let (last, confirmed) = self.synced;
        let Some(reader) = &self.reader else { return };
        if confirmed == written || now.get().saturating_sub(last.get()) < ROUND_MS {
            return;
        }
        if let Err(error) = reader.sync() {
            self.shared.meters.error("spool");
            tracing::error!(%error, "the disk does not confirm the ledger's spool");
        }
        self.synced = (now, written);
    }

    /// Drops months that are older than they are to be kept, and makes the tables of this month and the next.
    async fn turn_the_calendar(&mut self) {
        match tokio::time::timeout(PATIENCE, self.try_turn()).await {
            Ok(Ok(gone)) => gone
                .iter()
                .for_each(|month| tracing::info!(month, "the ledger has dropped a month that is over its time")),
            Ok(Err(error)) => {
                self.failed(&error);
            }
            Err(_elapsed) => {
                self.failed(&DatabaseError::Timeout);
            }
        }
    }

    async fn try_turn(&mut self) -> Result<Vec<i64>, DatabaseError> {
        let present = month_of((self.options.now)());
        let mut database = self.connection().await?;
        database.prepare(&[present, month_after(present)]).await?;
        let gone = match self.options.keep_months {
            Some(keep) => database.forget_before(months_before(present, keep)).await?,
            None => Vec::new(),
        };
        self.database = Some(database);
        Ok(gone)
    }

    /// The connection, to be put back if it has done its work.
    async fn connection(&mut self) -> Result<Database, DatabaseError> {
        match self.database.take() {
            Some(database) => Ok(database),
            None => Database::open(&self.options.place, Access::Write).await,
        }
    }

    /// Settles what dead starts have left. Whatever cannot be settled now stays for the next look.
    async fn settle_orphans(&mut self) {
        let orphans = match orphans(self.spool.folder(), self.spool.start()) {
            Ok(orphans) => orphans,
            Err(error) => {
                self.shared.meters.error("spool");
                tracing::error!(%error, "the ledger's spool cannot be read");
                return;
            }
        };
        let mut is_all = true;
        for orphan in orphans {
            let start = orphan.start;
            match self.settle(orphan).await {
                Ok(0) => tracing::debug!(start, "an earlier start of the gateway left nothing open"),
                Ok(interrupted) => {
                    tracing::warn!(interrupted, "calls of an earlier start were settled as interrupted");
                }
                Err(error) => {
                    is_all = false;
                    self.shared.meters.error("spool");
                    tracing::error!(%error, "what an earlier start left in the ledger's spool is not settled yet");
                }
            }
        }
        if is_all {
            self.shared.settled.send_replace(true);
        }
    }

    /// Settles one dead start. Says how many of its calls were under way.
    async fn settle(&mut self, orphan: Orphan) -> io::Result<usize> {
        let mut assembler = Assembler::new(orphan.start);
        let mut rows = Vec::new();
        let segments = orphan.segments()?;
        let mut damaged = BTreeSet::new();
        for number in &segments {
            let mut reader = orphan.read(*number)?;
            while reader.read(u64::MAX, |payload| {
                take(&mut assembler, payload, *number, (&mut rows, &mut self.hours));
            })? {
                if rows.len() + self.hours.len() >= ROWS {
                    self.put(&mut rows).await?;
                }
            }
            if reader.is_damaged() {
                self.shared.meters.error("damaged");
                damaged.insert(*number);
            }
        }
        let interrupted = assembler.open_calls();
        assembler.interrupt(&mut rows);
        self.put(&mut rows).await?;
        for number in segments {
            orphan.remove(number, damaged.contains(&number))?;
        }
        orphan.forget()?;
        self.shared.meters.interrupted.inc_by(interrupted as u64);
        Ok(interrupted)
    }

    async fn put(&mut self, rows: &mut Vec<Row>) -> io::Result<()> {
        let refused = || io::Error::other("the ledger's database takes no rows");
        for chunk in rows.chunks(ROWS) {
            if !self.write(chunk).await {
                return Err(refused());
            }
        }
        // There may be hours without calls.
        if !self.hours.is_empty() && !self.write(&[]).await {
            return Err(refused());
        }
        rows.clear();
        Ok(())
    }

    /// The gateway ends in order: nothing of it stays in the spool, unless a call has no end.
    async fn leave(mut self) {
        if self.assembler.open_calls() == 0 {
            self.done.extend(0..=self.segment);
            for number in std::mem::take(&mut self.done) {
                match self.spool.remove(number) {
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => tracing::warn!(%error, "a segment of the ledger's spool cannot be removed"),
                }
            }
            if let Err(error) = self.spool.leave() {
                tracing::warn!(%error, "the ledger's spool cannot be left");
            }
        }
        if let Some(database) = self.database.take() {
            database.close().await;
        }
    }
}

fn take(assembler: &mut Assembler, payload: &[u8], segment: u64, (rows, hours): (&mut Vec<Row>, &mut Hours)) {
    match frame::entries(payload) {
        Some(entries) => entries.into_iter().for_each(|entry| match entry {
            Entry::Ready(ready) => hours.add(ready),
            other => assembler.take(other, segment, rows),
        }),
        // The hash is right, so a gateway wrote it: one of another version.
        None => tracing::error!(
            segment,
            "the ledger's spool holds an entry that this maitred cannot read"
        ),
    }
}
