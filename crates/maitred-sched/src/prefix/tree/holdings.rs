//! What endpoints hold: the order of use, and taking blocks away.

use std::collections::HashMap;

use smallvec::SmallVec;

use crate::prefix::slab::NONE;
use crate::prefix::snapshot::Writer;
use crate::prefix::tree::{Certainty, Holder, Holding, Node, Step, Tree};

/// Lists of holders this much larger than their content are made smaller.
const SLACK: usize = 4;

impl Tree {
    /// Notes that an endpoint holds the first blocks of a node. Returns the holding; `above` is the one above it.
    pub(super) fn hold(&mut self, slot: u32, step: Step, certainty: Certainty, above: u32) -> u32 {
        let node = self.nodes.get(step.node);
        let ready = if certainty == Certainty::Ready { step.common } else { 0 };
        if let Ok(place) = node.place(slot) {
            let holder = &mut self.nodes.get_mut(step.node).holders[place];
            let (more, holding) = (step.common.saturating_sub(holder.held), holder.holding);
            holder.held += more;
            holder.ready = holder.ready.max(ready);
            self.give(slot, step.node, more);
            return holding;
        }
        let holding = self.holdings.insert(Holding {
            node: step.node,
            slot,
            older: NONE,
            newer: NONE,
            stamp: 0,
            first_child: NONE,
            next_sibling: NONE,
            prev_sibling: NONE,
        });
        let holder = Holder {
            slot,
            held: step.common,
            ready,
            holding,
        };
        self.with(step.node, |node| node.put(holder));
        self.give(slot, step.node, step.common);
        self.adopt(above, holding);
        self.push_newest(holding);
        holding
    }

    /// Divides a node's holders among its parts after it was cut before its block `at`.
    pub(super) fn share_out(&mut self, holders: SmallVec<[Holder; 1]>, parts: (u32, u32), at: u32) {
        let (upper, lower) = parts;
        let mut above: SmallVec<[Holder; 1]> = SmallVec::with_capacity(holders.len());
        let mut below: SmallVec<[Holder; 1]> = SmallVec::new();
        for holder in holders {
            if holder.held <= at {
                self.holdings.get_mut(holder.holding).node = upper;
                above.push(holder);
                continue;
            }
            above.push(Holder {
                held: at,
                ready: holder.ready.min(at),
                holding: self.insert_above(holder.holding, upper),
                ..holder
            });
            below.push(Holder {
                held: holder.held - at,
                ready: holder.ready.saturating_sub(at),
                ..holder
            });
        }
        below.shrink_to_fit();
        self.with(upper, |node| node.holders = above);
        self.with(lower, |node| node.holders = below);
    }

    /// Makes a holding of `node` that takes the place of `below` under what is above it, and is used right after it.
    fn insert_above(&mut self, below: u32, node: u32) -> u32 {
        let lower = *self.holdings.get(below);
        let upper = self.holdings.insert(Holding {
            node,
            first_child: below,
            older: below,
            ..lower
        });
        let parent = self.above(node, lower.slot);
        if lower.prev_sibling != NONE {
            self.holdings.get_mut(lower.prev_sibling).next_sibling = upper;
        } else if parent != NONE {
            self.holdings.get_mut(parent).first_child = upper;
        }
        if lower.next_sibling != NONE {
            self.holdings.get_mut(lower.next_sibling).prev_sibling = upper;
        }
        if lower.newer == NONE {
            self.shelves[lower.slot as usize].newest = upper;
        } else {
            self.holdings.get_mut(lower.newer).older = upper;
        }
        let lower = self.holdings.get_mut(below);
        lower.newer = upper;
        lower.next_sibling = NONE;
        lower.prev_sibling = NONE;
        upper
    }

    /// The endpoint's holding of the node above `node`.
    fn above(&self, node: u32, slot: u32) -> u32 {
        match self.nodes.get(node).parent {
            NONE => NONE,
            parent => self
                .nodes
                .get(parent)
                .holder(slot)
                .map_or(NONE, |holder| holder.holding),
        }
    }

    fn adopt(&mut self, above: u32, holding: u32) {
        if above == NONE {
            return;
        }
        let next = std::mem::replace(&mut self.holdings.get_mut(above).first_child, holding);
        self.holdings.get_mut(holding).next_sibling = next;
        if next != NONE {
            self.holdings.get_mut(next).prev_sibling = holding;
        }
    }

    /// Makes a holding the most recently used one.
    pub(super) fn touch(&mut self, at: u32, stamp: u32) {
        self.unlink(at);
        self.holdings.get_mut(at).stamp = stamp;
        self.push_newest(at);
    }

    fn push_newest(&mut self, at: u32) {
        let holding = *self.holdings.get(at);
        let shelf = &mut self.shelves[holding.slot as usize];
        let older = std::mem::replace(&mut shelf.newest, at);
        if older == NONE {
            shelf.oldest = at;
            self.oldest[holding.slot as usize] = holding.stamp;
        } else {
            self.holdings.get_mut(older).newer = at;
        }
        let holding = self.holdings.get_mut(at);
        holding.older = older;
        holding.newer = NONE;
    }

    fn unlink(&mut self, at: u32) {
        let holding = *self.holdings.get(at);
        let slot = holding.slot as usize;
        if holding.newer == NONE {
            self.shelves[slot].newest = holding.older;
        } else {
            self.holdings.get_mut(holding.newer).older = holding.older;
        }
        if holding.older != NONE {
            self.holdings.get_mut(holding.older).newer = holding.newer;
            return;
        }
        self.shelves[slot].oldest = holding.newer;
        self.oldest[slot] = match holding.newer {
            NONE => u32::MAX,
            newer => self.holdings.get(newer).stamp,
        };
    }

    fn give(&mut self, slot: u32, node: u32, blocks: u32) {
        let unit = u64::from(self.nodes.get(node).unit.get());
        let shelf = &mut self.shelves[slot as usize];
        shelf.held += u64::from(blocks) * unit;
        shelf.blocks += u64::from(blocks);
    }

    /// The endpoint with the least recently used holding of all.
    pub(in crate::prefix) fn stalest(&self) -> Option<u32> {
        let stamps = (0_u32..).zip(&self.oldest);
        let held = stamps.filter(|(slot, _)| self.shelves[*slot as usize].oldest != NONE);
        held.min_by_key(|(_, stamp)| **stamp).map(|(slot, _)| slot)
    }

    /// Takes blocks of about `units` from the old end of an endpoint's holdings, at most one holding and at least one block. Returns how
    /// many blocks.
    pub(in crate::prefix) fn take_oldest(&mut self, slot: u32, units: u64) -> u32 {
        let at = self.shelf(slot).oldest;
        if at == NONE {
            return 0;
        }
        let unit = u64::from(self.nodes.get(self.holdings.get(at).node).unit.get());
        let blocks = u32::try_from(units.div_ceil(unit)).unwrap_or(u32::MAX);
        self.shorten(at, blocks.max(1))
    }

    /// Takes everything from an endpoint.
    pub(in crate::prefix) fn clear(&mut self, slot: u32) {
        while self.take_oldest(slot, u64::MAX) > 0 {}
    }

    /// Takes up to `blocks` from the end of a holding below which there is none. Returns how many.
    fn shorten(&mut self, at: u32, blocks: u32) -> u32 {
        let Holding { node, slot, .. } = *self.holdings.get(at);
        let Ok(place) = self.nodes.get(node).place(slot) else {
            return 0;
        };
        let holder = &mut self.nodes.get_mut(node).holders[place];
        let taken = blocks.min(holder.held);
        holder.held -= taken;
        holder.ready = holder.ready.min(holder.held);
        let is_empty = holder.held == 0;
        let unit = u64::from(self.nodes.get(node).unit.get());
        let shelf = &mut self.shelves[slot as usize];
        shelf.held -= u64::from(taken) * unit;
        shelf.blocks -= u64::from(taken);
        if is_empty {
            self.orphan(at);
            self.unlink(at);
            self.holdings.free(at);
            self.with(node, |node| node.drop_holder(place));
        }
        self.trim(node);
        taken
    }

    /// Takes a holding out of the list of those below the same one.
    fn orphan(&mut self, at: u32) {
        let holding = *self.holdings.get(at);
        let (prev, next) = (holding.prev_sibling, holding.next_sibling);
        if next != NONE {
            self.holdings.get_mut(next).prev_sibling = prev;
        }
        if prev != NONE {
            self.holdings.get_mut(prev).next_sibling = next;
            return;
        }
        let above = self.above(holding.node, holding.slot);
        if above != NONE {
            self.holdings.get_mut(above).first_child = next;
        }
    }

    /// Lets go of the blocks of a node that nobody holds any more.
    fn trim(&mut self, at: u32) {
        let node = self.nodes.get(at);
        if node.holders.is_empty() {
            self.remove(at);
            return;
        }
        let longest = node.holders.iter().map(|holder| holder.held).max().unwrap_or(0) as usize;
        let gone = node.run.len() - longest;
        if gone == 0 {
            return;
        }
        self.blocks -= gone as u64;
        self.with(at, |node| {
            node.run.truncate(longest);
            if node.run.capacity() > 2 * longest {
                node.run.shrink_to_fit();
            }
        });
    }

    /// Takes from a holding everything below it, and its own blocks from `keep` on.
    fn cut(&mut self, at: u32, keep: u32) {
        let mut leaf = at;
        loop {
            let below = self.holdings.get(leaf).first_child;
            if below != NONE {
                leaf = below;
            } else if leaf == at {
                break;
            } else {
                let Holding { node, slot, .. } = *self.holdings.get(leaf);
                let above = self.above(node, slot);
                self.shorten(leaf, u32::MAX);
                leaf = above;
            }
        }
        let Holding { node, slot, .. } = *self.holdings.get(at);
        let held = self.nodes.get(node).holder(slot).map_or(0, |holder| holder.held);
        if held > keep {
            self.shorten(at, held - keep);
        }
    }

    /// Takes from an endpoint what has not come of a chain, and whatever it holds below that.
    pub(in crate::prefix) fn retreat(&mut self, slot: u32, hashes: &[u64]) {
        self.walk(hashes);
        let unsure = self.path.iter().find_map(|step| {
            let holder = self.nodes.get(step.node).holder(slot)?;
            (holder.ready < holder.held.min(step.common)).then_some(*holder)
        });
        if let Some(holder) = unsure {
            self.cut(holder.holding, holder.ready);
        }
    }

    /// Takes from an endpoint whatever it holds beyond the first `keep` blocks of a chain but for the chain itself: an engine that
    /// had lost the chain's blocks from there on had lost what hung on them before.
    pub(in crate::prefix) fn prune(&mut self, slot: u32, hashes: &[u64], keep: u32) {
        self.walk(hashes);
        let path = std::mem::take(&mut self.path);
        for (place, step) in path.iter().enumerate() {
            let node = self.nodes.get(step.node);
            if node.start + step.common <= keep {
                continue;
            }
            let Some(holder) = node.holder(slot).copied() else {
                break;
            };
            let next = path.get(place + 1).map(|step| self.nodes.get(step.node));
            let spared = next.and_then(|node| node.holder(slot)).map(|holder| holder.holding);
            self.cut_below(holder.holding, spared);
            // Only the last step of a path can have a tail that is not the chain's.
            if holder.held > step.common {
                self.cut(holder.holding, step.common);
            }
        }
        self.path = path;
    }

    /// Writes what has come of an endpoint's blocks, the most recently used first, as far as there is room.
    pub(in crate::prefix) fn write(&self, slot: u32, writer: &mut Writer) {
        let mut written = HashMap::new();
        let mut at = self.shelf(slot).newest;
        while at != NONE {
            let holding = self.holdings.get(at);
            let node = self.nodes.get(holding.node);
            let ready = node.holder(slot).map_or(0, |holder| holder.ready) as usize;
            let above = match self.above(holding.node, slot) {
                NONE => Some(None),
                above => written.get(&above).copied().map(Some),
            };
            if let Some(above) = above.filter(|_| ready > 0) {
                if !writer.add(above, node.unit, &node.run[..ready]) {
                    return;
                }
                written.insert(at, writer.count() - 1);
            }
            at = holding.older;
        }
    }

    fn cut_below(&mut self, at: u32, spared: Option<u32>) {
        let mut below = self.holdings.get(at).first_child;
        while below != NONE {
            let next = self.holdings.get(below).next_sibling;
            if Some(below) != spared {
                self.cut(below, 0);
            }
            below = next;
        }
    }
}

impl Node {
    fn put(&mut self, holder: Holder) {
        let place = self.place(holder.slot).unwrap_or_else(|place| place);
        self.holders.insert(place, holder);
    }

    fn drop_holder(&mut self, place: usize) {
        self.holders.remove(place);
        if self.holders.spilled() && self.holders.capacity() > SLACK * self.holders.len() {
            self.holders.shrink_to_fit();
        }
    }
}
