//! The decision records that are kept: a ring per thread of the data path, bounded in count and in bytes.
//!
//! A thread writes to its own ring alone, so its lock is free unless somebody is looking a record up just then, which takes
//! microseconds. Each ring has its share of the bounds: however uneven the traffic is, all of them together stay within.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use maitred_config::{DecisionSettings, Detail};
use maitred_obs::{DecisionList, DecisionRecord};
use maitred_sched::Explain;
use maitred_store::archive::{Archive, Record};
use maitred_types::{RequestId, Time};
use parking_lot::Mutex;
use twox_hash::XxHash3_64;

use crate::decision::Decision;

/// Most request ids in a [`DecisionList`].
const LISTED: usize = 100;

/// All rings.
#[derive(Debug, Default)]
pub struct Decisions {
    keep: AtomicUsize,
    size: AtomicUsize,
    is_full: AtomicBool,
    rings: Mutex<Vec<Arc<DecisionRing>>>,
    archive: ArchivePlace,
}

/// Where the archive is, once it is open.
type ArchivePlace = Arc<OnceLock<Archive>>;

/// One thread's ring.
#[derive(Debug, Default)]
pub struct DecisionRing {
    /// What the ring may hold: records and bytes.
    max_kept: AtomicUsize,
    max_bytes: AtomicUsize,
    kept: Mutex<Kept>,
    archive: ArchivePlace,
}

#[derive(Debug, Default)]
struct Kept {
    /// Oldest first. The hash of the request id stands apart, so that a look-up walks a few bytes per record.
    records: VecDeque<(u64, Arc<Decision>)>,
    bytes: usize,
}

impl Decisions {
    /// Takes other bounds; what is beyond them goes with the next record.
    pub(crate) fn configure(&self, settings: &DecisionSettings) {
        self.keep.store(settings.keep as usize, Ordering::Relaxed);
        let size = usize::try_from(settings.size.get()).unwrap_or(usize::MAX);
        self.size.store(size, Ordering::Relaxed);
        self.is_full.store(settings.detail == Detail::Full, Ordering::Relaxed);
        self.share_out(&self.rings.lock());
    }

    /// How much a choice should say about itself; nothing when nothing is kept.
    pub(crate) fn detail(&self) -> Option<Explain> {
        if self.keep.load(Ordering::Relaxed) == 0 && self.archive.get().is_none() {
            return None;
        }
        Some(if self.is_full.load(Ordering::Relaxed) {
            Explain::Full
        } else {
            Explain::Short
        })
    }

    /// A ring for one more thread.
    #[must_use]
    pub fn add_ring(&self) -> Arc<DecisionRing> {
        let ring = Arc::new(DecisionRing {
            archive: Arc::clone(&self.archive),
            ..DecisionRing::default()
        });
        let mut rings = self.rings.lock();
        rings.push(Arc::clone(&ring));
        self.share_out(&rings);
        ring
    }

    fn share_out(&self, rings: &[Arc<DecisionRing>]) {
        let (keep, size) = (self.keep.load(Ordering::Relaxed), self.size.load(Ordering::Relaxed));
        for (index, ring) in rings.iter().enumerate() {
            let more = usize::from(index < keep % rings.len());
            ring.max_kept.store(keep / rings.len() + more, Ordering::Relaxed);
            ring.max_bytes.store(size / rings.len(), Ordering::Relaxed);
            ring.kept.lock().trim(ring.bounds());
        }
    }

    /// From now on records are kept in `archive` too. Only the first one counts.
    pub fn archive_in(&self, archive: Archive) {
        self.archive.get_or_init(|| archive);
    }

    /// Where records are kept on disk, if anywhere.
    #[must_use]
    pub fn archive(&self) -> Option<&Archive> {
        self.archive.get()
    }

    /// The record as the archive has it: that of the newest call with this id, also of an earlier start. Reads files, so not for
    /// threads that serve calls.
    #[must_use]
    pub fn find_archived(&self, request_id: &str) -> Option<DecisionRecord> {
        match self.archive.get()?.find(request_id) {
            Ok(json) => DecisionRecord::read(&json?),
            Err(error) => {
                tracing::error!(%error, "the archive of decision records cannot be read");
                None
            }
        }
    }

    /// The record of the newest call with this id that is in memory. It is there once the call has ended, until newer ones push it out.
    #[must_use]
    pub fn find(&self, request_id: &str) -> Option<Arc<Decision>> {
        let hash = hash(request_id);
        let rings = self.rings.lock().clone();
        let found = rings.iter().filter_map(|ring| ring.find(hash, request_id));
        found.max_by_key(|decision| decision.arrived)
    }

    /// How much is kept, and which of it is newest.
    #[must_use]
    pub fn list(&self) -> DecisionList {
        let rings = self.rings.lock().clone();
        let mut list = DecisionList {
            max_kept: self.keep.load(Ordering::Relaxed),
            max_bytes: self.size.load(Ordering::Relaxed),
            ..DecisionList::default()
        };
        let mut newest: Vec<(Time, RequestId)> = Vec::new();
        for ring in &rings {
            let kept = ring.kept.lock();
            list.kept += kept.records.len();
            list.bytes += kept.bytes;
            let last = kept.records.iter().rev().take(LISTED);
            newest.extend(last.map(|(_, decision)| (decision.arrived, decision.request_id.clone())));
        }
        newest.sort_by_key(|(arrived, _)| std::cmp::Reverse(*arrived));
        newest.truncate(LISTED);
        list.newest = newest.iter().map(|(_, id)| id.to_string()).collect();
        list
    }
}

impl DecisionRing {
    fn bounds(&self) -> (usize, usize) {
        let (kept, bytes) = (&self.max_kept, &self.max_bytes);
        (kept.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed))
    }

    /// Keeps a record; the oldest ones make room. One that is larger than the ring is not kept.
    pub fn keep(&self, decision: Decision) {
        let (hash, bytes) = (hash(decision.request_id.as_str()), decision.bytes());
        let decision = Arc::new(decision);
        if let Some(archive) = self.archive.get() {
            archive.offer(Arc::clone(&decision) as Arc<dyn Record>);
        }
        let mut kept = self.kept.lock();
        kept.bytes += bytes + Kept::PLACE;
        kept.records.push_back((hash, decision));
        kept.trim(self.bounds());
    }

    fn find(&self, hash: u64, request_id: &str) -> Option<Arc<Decision>> {
        let kept = self.kept.lock();
        let newest_first = kept.records.iter().rev();
        let mut same = newest_first.filter(|(known, _)| *known == hash);
        let found = same.find(|(_, decision)| decision.request_id.as_str() == request_id)?;
        Some(Arc::clone(&found.1))
    }
}

impl Kept {
    /// What a record takes in the ring itself, in bytes: its place, and the counters of its [`Arc`].
    const PLACE: usize = size_of::<(u64, Arc<Decision>)>() + 2 * size_of::<usize>();

    fn trim(&mut self, (max_kept, max_bytes): (usize, usize)) {
        while self.records.len() > max_kept || self.bytes > max_bytes {
            let Some((_, oldest)) = self.records.pop_front() else {
                return;
            };
            self.bytes = self.bytes.saturating_sub(oldest.bytes() + Self::PLACE);
        }
    }
}

fn hash(request_id: &str) -> u64 {
    XxHash3_64::oneshot(request_id.as_bytes())
}

#[cfg(test)]
mod tests;
