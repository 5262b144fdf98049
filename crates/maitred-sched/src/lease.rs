//! Leases: a slab of booked places, and two lists per endpoint from the oldest booking to the newest: of all of its leases, and
//! of those that wait for their first token.
//!
//! A lease id is the entry's index and its generation. The generation grows when the entry is freed, so an id is never
//! valid twice and a second finish is told from a first one.

use maitred_types::{EndpointId, LeaseId, Time, TokenCount};

use crate::ask::Delivery;
use crate::pace::Work;
use crate::room::Charge;

const INDEX_BITS: u32 = 20;
const INDEX_MASK: u64 = (1 << INDEX_BITS) - 1;
const NONE: u32 = u32::MAX;

/// The most leases a pool can be told to hold.
pub(crate) const MAX_LEASES: u32 = 1 << INDEX_BITS;

/// One booked place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    pub(crate) endpoint: EndpointId,
    pub(crate) booked_at: Time,
    pub(crate) delivery: Delivery,
    /// When its first output was seen.
    pub(crate) first_token_at: Option<Time>,
    /// Since when it is taken to decode: seen, or assumed where the output is seen at its end only.
    pub(crate) decoding_since: Option<Time>,
    /// Prompt tokens, as estimated by the asker.
    pub(crate) input: TokenCount,
    /// Prompt tokens in whole KV blocks.
    pub(crate) kv_tokens: f64,
    /// Tokens of context while it decodes, on average.
    pub(crate) context: f64,
    /// KV blocks that prompt and expected output will hold.
    pub(crate) expected_blocks: u32,
    /// What its prompt has to be computed, as predicted.
    pub(crate) work: Work,
    /// Prompt tokens that were predicted to be cached.
    pub(crate) cached: TokenCount,
    /// Own work that stood before it when it was booked.
    pub(crate) ahead: Work,
    /// When its turn to be computed came, as far as that was seen; known from its first token on.
    pub(crate) turn: Option<Time>,
    /// Seconds from its booking after which its first token was reckoned to come.
    pub(crate) reckoned: f64,
    /// The batch that it began to decode in: sequences and tokens of context.
    pub(crate) batch: (f64, f64),
    /// What calls of like output length have in common.
    pub(crate) length_key: Option<u64>,
    /// KV tokens that it will hold beside what the prefix index counts.
    pub(crate) beside: u32,
    /// Output tokens seen so far; zero when nobody counts them.
    pub(crate) output: TokenCount,
    pub(crate) adapter: Option<u64>,
    /// Whether the endpoint's newest sample is taken to include it.
    pub(crate) in_sample: bool,
    /// Whether it is the one call that an endpoint on probation gets.
    pub(crate) trial: bool,
    /// Whether it is a second attempt and holds a place in the retry budget.
    pub(crate) retry: bool,
    /// Whose account it was charged to when it was released from the waiting room.
    pub(crate) charge: Option<Charge>,
    /// Where its endpoint's shared time stood when it was booked; once it is fenced, its share, in nanoseconds.
    pub(crate) time: u64,
    /// Whether its endpoint has gone: it counts nowhere and waits only to be finished.
    pub(crate) fenced: bool,
    older: u32,
    newer: u32,
    /// The same among those that wait for their first token.
    before: u32,
    behind: u32,
    waits: bool,
}

impl Lease {
    pub(crate) const fn new(endpoint: EndpointId, booked_at: Time, input: TokenCount) -> Self {
        Self {
            endpoint,
            booked_at,
            delivery: Delivery::Streamed,
            first_token_at: None,
            decoding_since: None,
            input,
            kv_tokens: 0.0,
            context: 0.0,
            expected_blocks: 0,
            work: Work::NONE,
            cached: TokenCount::ZERO,
            ahead: Work::NONE,
            turn: None,
            reckoned: 0.0,
            batch: (0.0, 0.0),
            length_key: None,
            beside: 0,
            output: TokenCount::ZERO,
            adapter: None,
            in_sample: false,
            trial: false,
            retry: false,
            charge: None,
            time: 0,
            fenced: false,
            older: NONE,
            newer: NONE,
            before: NONE,
            behind: NONE,
            waits: false,
        }
    }
}

/// The live leases of one endpoint, in booking order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseList {
    newest: u32,
    oldest: u32,
    /// The newest and the oldest of those that wait for their first token.
    last: u32,
    first: u32,
}

impl LeaseList {
    pub(crate) const EMPTY: Self = Self {
        newest: NONE,
        oldest: NONE,
        last: NONE,
        first: NONE,
    };
}

#[derive(Debug)]
struct Entry {
    generation: u64,
    lease: Option<Lease>,
}

/// Every lease of a pool that has not been finished.
#[derive(Debug, Default)]
pub(crate) struct LeaseTable {
    entries: Vec<Entry>,
    free: Vec<u32>,
    fenced: u32,
}

impl LeaseTable {
    /// Leases not yet finished, fenced ones included.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// The most leases that there have been at one time.
    pub(crate) const fn places(&self) -> usize {
        self.entries.len()
    }

    /// Leases whose endpoint has gone and that wait to be finished.
    pub(crate) const fn fenced(&self) -> u32 {
        self.fenced
    }

    /// Books `lease` at the new end of `list`. `None` when the table cannot grow any more.
    pub(crate) fn insert(&mut self, mut lease: Lease, list: &mut LeaseList) -> Option<LeaseId> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.grow()?,
        };
        lease.older = list.newest;
        lease.newer = NONE;
        lease.before = list.last;
        lease.behind = NONE;
        lease.waits = true;
        match self.at_mut(list.newest) {
            Some(older) => older.newer = index,
            None => list.oldest = index,
        }
        match self.at_mut(list.last) {
            Some(before) => before.behind = index,
            None => list.first = index,
        }
        list.newest = index;
        list.last = index;
        let entry = &mut self.entries[index as usize];
        entry.lease = Some(lease);
        Some(id(index, entry.generation))
    }

    fn grow(&mut self) -> Option<u32> {
        let index = u32::try_from(self.entries.len()).ok().filter(|at| *at < MAX_LEASES)?;
        self.entries.push(Entry {
            generation: 0,
            lease: None,
        });
        Some(index)
    }

    pub(crate) fn get(&self, lease: LeaseId) -> Option<&Lease> {
        let entry = self.entries.get(index(lease) as usize)?;
        entry
            .lease
            .as_ref()
            .filter(|_| id(index(lease), entry.generation) == lease)
    }

    pub(crate) fn get_mut(&mut self, lease: LeaseId) -> Option<&mut Lease> {
        self.get(lease)?;
        self.at_mut(index(lease))
    }

    /// Takes a lease out of those that wait for their first token. Says the oldest that is left.
    pub(crate) fn leave_queue(&mut self, lease: LeaseId, list: &mut LeaseList) -> Option<&Lease> {
        if let Some(taken) = self.get(lease).copied().filter(|lease| lease.waits) {
            self.unlink_waiting(&taken, list);
            if let Some(left) = self.at_mut(index(lease)) {
                left.waits = false;
            }
        }
        self.entries.get(list.first as usize)?.lease.as_ref()
    }

    fn unlink_waiting(&mut self, lease: &Lease, list: &mut LeaseList) {
        match self.at_mut(lease.before) {
            Some(before) => before.behind = lease.behind,
            None => list.first = lease.behind,
        }
        match self.at_mut(lease.behind) {
            Some(behind) => behind.before = lease.before,
            None => list.last = lease.before,
        }
    }

    /// Takes a lease out for good. `list` is its endpoint's; a fenced lease is in none.
    pub(crate) fn remove(&mut self, lease: LeaseId, list: Option<&mut LeaseList>) -> Option<Lease> {
        let taken = *self.get(lease)?;
        if let Some(list) = list {
            self.unlink(&taken, list);
            if taken.waits {
                self.unlink_waiting(&taken, list);
            }
        }
        let at = index(lease);
        let entry = &mut self.entries[at as usize];
        entry.lease = None;
        entry.generation += 1;
        self.free.push(at);
        self.fenced -= u32::from(taken.fenced);
        Some(taken)
    }

    fn unlink(&mut self, lease: &Lease, list: &mut LeaseList) {
        match self.at_mut(lease.older) {
            Some(older) => older.newer = lease.newer,
            None => list.oldest = lease.newer,
        }
        match self.at_mut(lease.newer) {
            Some(newer) => newer.older = lease.older,
            None => list.newest = lease.older,
        }
    }

    /// Cuts every lease of `list` off its endpoint, whose shared time stands at `time`, and says which they were, oldest first.
    pub(crate) fn fence(&mut self, list: &mut LeaseList, time: u64) -> Vec<LeaseId> {
        let mut cut = Vec::new();
        let mut at = list.oldest;
        while let Some(entry) = self.entries.get_mut(at as usize) {
            let Some(lease) = entry.lease.as_mut() else { break };
            cut.push(id(at, entry.generation));
            at = lease.newer;
            lease.fenced = true;
            lease.time = time.saturating_sub(lease.time);
            lease.older = NONE;
            lease.newer = NONE;
            lease.waits = false;
            self.fenced += 1;
        }
        *list = LeaseList::EMPTY;
        cut
    }

    /// Visits the leases of `list` from the newest to the oldest for as long as `visit` returns true.
    pub(crate) fn visit_newest_first(&mut self, list: LeaseList, mut visit: impl FnMut(&mut Lease) -> bool) {
        let mut at = list.newest;
        while let Some(lease) = self.at_mut(at) {
            at = lease.older;
            if !visit(lease) {
                return;
            }
        }
    }

    /// Every lease not yet finished, in the order of their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Lease> {
        self.entries.iter().filter_map(|entry| entry.lease.as_ref())
    }

    fn at_mut(&mut self, index: u32) -> Option<&mut Lease> {
        self.entries.get_mut(index as usize)?.lease.as_mut()
    }
}

const fn id(index: u32, generation: u64) -> LeaseId {
    LeaseId::new(generation << INDEX_BITS | index as u64)
}

/// A lease's place in the table.
pub(crate) const fn index(lease: LeaseId) -> u32 {
    (lease.get() & INDEX_MASK) as u32
}

#[cfg(test)]
mod tests {
    use maitred_types::{Incarnation, Slot};

    use super::*;

    fn lease(at: u64) -> Lease {
        let endpoint = EndpointId {
            slot: Slot::new(0),
            incarnation: Incarnation::FIRST,
        };
        Lease::new(endpoint, Time::from_millis(at), TokenCount::ZERO)
    }

    fn order(table: &mut LeaseTable, list: LeaseList) -> Vec<u64> {
        let mut seen = Vec::new();
        table.visit_newest_first(list, |lease| {
            seen.push(lease.booked_at.as_nanos() / 1_000_000);
            true
        });
        seen
    }

    #[test]
    fn an_id_is_valid_once() {
        let (mut table, mut list) = (LeaseTable::default(), LeaseList::EMPTY);
        let first = table.insert(lease(1), &mut list).unwrap();
        assert!(table.remove(first, Some(&mut list)).is_some());
        assert!(table.remove(first, Some(&mut list)).is_none());
        let second = table.insert(lease(2), &mut list).unwrap();
        assert_ne!(first, second);
        assert!(table.get(first).is_none());
        assert!(table.get(second).is_some());
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn who_waits_longest_is_known_whoever_leaves() {
        let (mut table, mut list) = (LeaseTable::default(), LeaseList::EMPTY);
        let ids: Vec<_> = (0..5).map(|at| table.insert(lease(at), &mut list).unwrap()).collect();
        let first = |left: Option<&Lease>| left.map(|lease| lease.booked_at.as_nanos() / 1_000_000);
        assert_eq!(first(table.leave_queue(ids[1], &mut list)), Some(0));
        assert_eq!(first(table.leave_queue(ids[0], &mut list)), Some(2));
        assert_eq!(first(table.leave_queue(ids[0], &mut list)), Some(2), "twice is once");
        table.remove(ids[2], Some(&mut list));
        table.remove(ids[1], Some(&mut list));
        assert_eq!(first(table.leave_queue(ids[4], &mut list)), Some(3));
        assert_eq!(first(table.leave_queue(ids[3], &mut list)), None);
        assert_eq!(order(&mut table, list), vec![4, 3, 0]);
    }

    #[test]
    fn lists_stay_in_order_when_the_middle_goes() {
        let (mut table, mut list) = (LeaseTable::default(), LeaseList::EMPTY);
        let ids: Vec<_> = (0..5).map(|at| table.insert(lease(at), &mut list).unwrap()).collect();
        for (gone, left) in [(2, vec![4, 3, 1, 0]), (4, vec![3, 1, 0]), (0, vec![3, 1])] {
            table.remove(ids[gone], Some(&mut list));
            assert_eq!(order(&mut table, list), left);
        }
        assert_eq!(table.fence(&mut list, 0), vec![ids[1], ids[3]]);
        assert_eq!(order(&mut table, list), Vec::<u64>::new());
        assert_eq!((table.len(), table.fenced()), (2, 2));
        assert!(table.remove(ids[1], None).is_some_and(|lease| lease.fenced));
        assert_eq!((table.len(), table.fenced()), (1, 1));
    }
}
