//! Who holds which blocks: a path-compressed radix tree over block hashes, stored once for all endpoints.
//!
//! A **node** is a run of blocks that nothing branches off from; its **holders** say which endpoints hold how many of them from its
//! first on. Since a block's hash contains the hash of the block before it, a hash at a node's first place names the whole path to
//! it: nodes are found in one table by that hash, and two runs that agree at some place agree everywhere before it, so the common
//! length is found by doubling and bisection. A look-up costs the depth times the logarithm of the runs, and gives the length for
//! all endpoints at once.
//!
//! What holds after every step (see `invariants`):
//!
//! * an endpoint that holds a block holds every block before it (**contiguity**);
//! * the tree holds no block that no endpoint holds;
//! * in an endpoint's list from the least to the most recently used holding, a holding comes before those above it, so that
//!   taking from the old end takes the deepest blocks first, as engines free a sequence from its tail.
//!
//! Nodes and holdings are entries of slabs, named by number. Every byte is accounted for.

mod holdings;
mod invariants;
#[cfg(test)]
mod tests;

use std::num::NonZeroU32;

use smallvec::SmallVec;

use crate::hash::mix;
use crate::prefix::slab::{NONE, Slab};

/// What the allocator adds to an allocation, for the accounts.
const ALLOCATION: usize = 16;

/// A run of blocks.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) run: Vec<u64>,
    /// By slot.
    pub(super) holders: SmallVec<[Holder; 1]>,
    pub(super) parent: u32,
    /// The next node in the same bucket of the table.
    next: u32,
    /// Blocks before it.
    pub(super) start: u32,
    pub(super) children: u32,
    /// The size of a block, in [`super::UNIT`]ths of a token.
    pub(super) unit: NonZeroU32,
}

/// An endpoint that holds blocks of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) slot: u32,
    /// Blocks from the node's first on, those included that are about to come.
    pub(super) held: u32,
    /// Of these, blocks that have come.
    pub(super) ready: u32,
    pub(super) holding: u32,
}

/// A holder's place in the order of use, and in the tree of its endpoint's own holdings.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holding {
    pub(super) node: u32,
    pub(super) slot: u32,
    older: u32,
    newer: u32,
    pub(super) stamp: u32,
    first_child: u32,
    next_sibling: u32,
    prev_sibling: u32,
}

/// What one endpoint holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shelf {
    oldest: u32,
    newest: u32,
    /// In [`super::UNIT`]ths of a token.
    pub(super) held: u64,
    pub(super) blocks: u64,
}

impl Shelf {
    const EMPTY: Self = Self {
        oldest: NONE,
        newest: NONE,
        held: 0,
        blocks: 0,
    };
}

/// One node of a path, and how many of its blocks the chain shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) node: u32,
    pub(super) common: u32,
}

/// Whether blocks have come or are about to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Certainty {
    Pending,
    Ready,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Tree {
    nodes: Slab<Node>,
    holdings: Slab<Holding>,
    /// Buckets of nodes by the hash of their first block. Made with the first insert, of a size that never changes.
    table: Vec<u32>,
    buckets: usize,
    seed: u64,
    shelves: Vec<Shelf>,
    /// The stamp of each endpoint's least recently used holding; `u32::MAX` without any. Apart, since it is searched.
    oldest: Vec<u32>,
    /// Bytes of runs and of lists of holders.
    heap: usize,
    blocks: u64,
    path: Vec<Step>,
}

impl Tree {
    /// An empty tree whose table suits a bound of `max_bytes`. The seed keeps callers from choosing who shares a bucket.
    pub(super) fn new(max_bytes: usize, seed: u64) -> Self {
        Self {
            nodes: Slab::new(),
            holdings: Slab::new(),
            table: Vec::new(),
            buckets: (max_bytes / 256).clamp(64, 1 << 24).next_power_of_two(),
            seed,
            shelves: Vec::new(),
            oldest: Vec::new(),
            heap: 0,
            blocks: 0,
            path: Vec::new(),
        }
    }

    /// Makes room for an endpoint at `slot`.
    pub(super) fn reserve(&mut self, slot: usize) {
        if self.shelves.len() <= slot {
            self.shelves.resize(slot + 1, Shelf::EMPTY);
            self.oldest.resize(slot + 1, u32::MAX);
        }
    }

    pub(super) fn shelf(&self, slot: u32) -> Shelf {
        self.shelves.get(slot as usize).copied().unwrap_or(Shelf::EMPTY)
    }

    /// Blocks, each counted once however many endpoints hold it.
    pub(super) const fn blocks(&self) -> u64 {
        self.blocks
    }

    pub(super) const fn nodes(&self) -> usize {
        self.nodes.live()
    }

    /// Bytes in all.
    pub(super) const fn bytes(&self) -> usize {
        let shelves = self.shelves.capacity() * (size_of::<Shelf>() + size_of::<u32>());
        self.nodes.bytes() + self.holdings.bytes() + self.table.capacity() * size_of::<u32>() + self.heap + shelves
    }

    /// Whether something must go so that the tree fits into `max_bytes`. Entries get half of it at most: their pages are never given
    /// back, and must leave room for runs whatever the traffic was.
    pub(super) const fn is_over(&self, max_bytes: usize) -> bool {
        let entries = self.nodes.live_bytes() + self.holdings.live_bytes();
        self.bytes() > max_bytes || entries > max_bytes / 2
    }

    /// Follows a chain as far as anybody holds it; leaves the steps in `path`.
    fn walk(&mut self, hashes: &[u64]) -> usize {
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        let (mut place, mut parent) = (0, NONE);
        while let Some(first) = hashes.get(place) {
            let Some(node) = self.find(*first, parent) else { break };
            let run = &self.nodes.get(node).run;
            let common = common_length(run, &hashes[place..]);
            path.push(Step {
                node,
                common: blocks(common),
            });
            place += common;
            if common < run.len() {
                break;
            }
            parent = node;
        }
        self.path = path;
        place
    }

    /// For every slot the blocks of the chain that its endpoint holds. Returns the most of them.
    pub(super) fn matches(&mut self, hashes: &[u64], held: &mut [u32]) -> u32 {
        held.fill(0);
        self.walk(hashes);
        let mut below = 0;
        for step in self.path.iter().rev() {
            let node = self.nodes.get(step.node);
            // Who holds a node holds those above it in full, so as many holders as below are the same ones.
            if node.holders.len() == below {
                continue;
            }
            for holder in &node.holders {
                if let Some(held) = held.get_mut(holder.slot as usize) {
                    *held = (*held).max(node.start + holder.held.min(step.common));
                }
            }
            below = node.holders.len();
        }
        held.iter().copied().max().unwrap_or(0)
    }

    /// Blocks of the chain that the endpoint at `slot` holds, and how many of them have come.
    pub(super) fn depth(&mut self, slot: u32, hashes: &[u64]) -> (u32, u32) {
        self.walk(hashes);
        let (mut held, mut ready) = (0, 0);
        for step in &self.path {
            let node = self.nodes.get(step.node);
            let Some(holder) = node.holder(slot) else { break };
            held = node.start + holder.held.min(step.common);
            if ready == node.start {
                ready += holder.ready.min(step.common);
            }
        }
        (held, ready)
    }

    /// Notes that the endpoint at `slot` holds the whole chain, used at `stamp`.
    pub(super) fn insert(&mut self, slot: u32, hashes: &[u64], unit: NonZeroU32, how: (Certainty, u32)) {
        if hashes.is_empty() {
            return;
        }
        self.reserve(slot as usize);
        if self.table.is_empty() {
            self.table = vec![NONE; self.buckets];
        }
        let known = self.walk(hashes);
        let mut path = std::mem::take(&mut self.path);
        if known < hashes.len() {
            self.lengthen(&mut path, known, hashes, unit);
        } else if let Some(last) = path.last_mut() {
            // What the endpoint holds beyond the chain is not used with it, and is to grow older by itself.
            let node = self.nodes.get(last.node);
            if node.holder(slot).is_some_and(|holder| holder.held > last.common) {
                last.node = self.split(last.node, last.common);
            }
        }
        let mut above = NONE;
        for step in &path {
            above = self.hold(slot, *step, how.0, above);
        }
        for step in path.iter().rev() {
            if let Some(holder) = self.nodes.get(step.node).holder(slot) {
                self.touch(holder.holding, how.1);
            }
        }
        self.path = path;
    }

    /// Adds to the tree what it lacks of a chain, of which `known` blocks are there.
    fn lengthen(&mut self, path: &mut Vec<Step>, known: usize, hashes: &[u64], unit: NonZeroU32) {
        let rest = &hashes[known..];
        let parent = match path.last_mut() {
            None => NONE,
            Some(last) => {
                let node = self.nodes.get(last.node);
                let is_whole = node.run.len() == last.common as usize;
                if is_whole && node.children == 0 && is_alike(node.unit, unit) {
                    self.append(last.node, rest);
                    last.common += blocks(rest.len());
                    return;
                }
                if !is_whole {
                    last.node = self.split(last.node, last.common);
                }
                last.node
            }
        };
        let node = self.add(parent, blocks(known), rest, unit);
        path.push(Step {
            node,
            common: blocks(rest.len()),
        });
    }

    fn append(&mut self, node: u32, rest: &[u64]) {
        self.blocks += rest.len() as u64;
        self.with(node, |node| {
            node.run.reserve_exact(rest.len());
            node.run.extend_from_slice(rest);
        });
    }

    fn add(&mut self, parent: u32, start: u32, run: &[u64], unit: NonZeroU32) -> u32 {
        self.blocks += run.len() as u64;
        let node = Node {
            run: run.to_vec(),
            holders: SmallVec::new(),
            parent,
            next: NONE,
            start,
            children: 0,
            unit,
        };
        self.heap += node.heap();
        let at = self.nodes.insert(node);
        if parent != NONE {
            self.nodes.get_mut(parent).children += 1;
        }
        self.enlist(at);
        at
    }

    /// Cuts a node before its block `at`. The upper part is a new node, which is returned; the lower one keeps its number.
    fn split(&mut self, lower: u32, at: u32) -> u32 {
        self.delist(lower);
        let (parent, start, unit) = {
            let node = self.nodes.get(lower);
            (node.parent, node.start, node.unit)
        };
        let (mut run, mut holders) = (Vec::new(), SmallVec::new());
        self.with(lower, |node| {
            let rest = node.run[at as usize..].to_vec();
            run = std::mem::replace(&mut node.run, rest);
            run.truncate(at as usize);
            run.shrink_to_fit();
            holders = std::mem::take(&mut node.holders);
            node.start += at;
        });
        let upper = Node {
            run,
            holders: SmallVec::new(),
            parent,
            next: NONE,
            start,
            children: 1,
            unit,
        };
        self.heap += upper.heap();
        let upper = self.nodes.insert(upper);
        self.nodes.get_mut(lower).parent = upper;
        self.share_out(holders, (upper, lower), at);
        self.enlist(upper);
        self.enlist(lower);
        upper
    }

    /// Takes a node out that nobody holds any more.
    fn remove(&mut self, at: u32) {
        self.delist(at);
        let (mut gone, mut parent) = (0, NONE);
        self.with(at, |node| {
            gone = node.run.len();
            parent = node.parent;
            node.run = Vec::new();
            node.holders = SmallVec::new();
        });
        self.blocks -= gone as u64;
        if parent != NONE {
            self.nodes.get_mut(parent).children -= 1;
        }
        self.nodes.free(at);
    }

    /// Changes a node and keeps the accounts.
    fn with(&mut self, at: u32, change: impl FnOnce(&mut Node)) {
        let node = self.nodes.get_mut(at);
        let before = node.heap();
        change(node);
        self.heap = self.heap + node.heap() - before;
    }

    fn bucket(&self, first: u64) -> usize {
        usize::try_from(mix(first ^ self.seed)).unwrap_or(0) & (self.buckets - 1)
    }

    fn find(&self, first: u64, parent: u32) -> Option<u32> {
        let mut at = *self.table.get(self.bucket(first))?;
        while at != NONE {
            let node = self.nodes.get(at);
            if node.run.first() == Some(&first) && node.parent == parent {
                return Some(at);
            }
            at = node.next;
        }
        None
    }

    fn enlist(&mut self, at: u32) {
        let bucket = self.bucket(self.nodes.get(at).run[0]);
        let first = std::mem::replace(&mut self.table[bucket], at);
        self.nodes.get_mut(at).next = first;
    }

    fn delist(&mut self, at: u32) {
        let (next, bucket) = {
            let node = self.nodes.get(at);
            (node.next, self.bucket(node.run[0]))
        };
        if self.table[bucket] == at {
            self.table[bucket] = next;
            return;
        }
        let mut before = self.table[bucket];
        while before != NONE {
            let node = self.nodes.get_mut(before);
            if node.next == at {
                node.next = next;
                return;
            }
            before = node.next;
        }
    }
}

impl Node {
    pub(super) fn holder(&self, slot: u32) -> Option<&Holder> {
        let at = self.place(slot).ok()?;
        self.holders.get(at)
    }

    fn place(&self, slot: u32) -> Result<usize, usize> {
        self.holders.binary_search_by_key(&slot, |holder| holder.slot)
    }

    fn heap(&self) -> usize {
        let run = match self.run.capacity() {
            0 => 0,
            blocks => blocks * size_of::<u64>() + ALLOCATION,
        };
        let holders = if self.holders.spilled() {
            self.holders.capacity() * size_of::<Holder>() + ALLOCATION
        } else {
            0
        };
        run + holders
    }
}

/// Whether blocks of two sizes may share a run. What a token is in bytes is learnt, so sizes drift.
fn is_alike(one: NonZeroU32, other: NonZeroU32) -> bool {
    one.get().abs_diff(other.get()) <= one.get() / 8
}

/// How many blocks two parts of chains share that begin with the same one: the last agreeing place is found by doubling, then
/// by bisection, since whatever agrees at a place agrees before it.
fn common_length(run: &[u64], chain: &[u64]) -> usize {
    let most = run.len().min(chain.len());
    if most == 0 || run[most - 1] == chain[most - 1] {
        return most;
    }
    let (mut agrees, mut reach) = (0, 1);
    while reach < most && run[reach] == chain[reach] {
        agrees = reach;
        reach *= 2;
    }
    let mut differs = reach.min(most - 1);
    while differs - agrees > 1 {
        let middle = agrees.midpoint(differs);
        if run[middle] == chain[middle] {
            agrees = middle;
        } else {
            differs = middle;
        }
    }
    agrees + 1
}

/// A number of blocks; chains are cut far below its range.
pub(super) fn blocks(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
