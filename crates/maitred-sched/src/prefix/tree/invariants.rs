//! What must hold of a tree after every step. Costs a walk over everything.

use crate::prefix::slab::NONE;
use crate::prefix::tree::{Holder, Node, Shelf, Tree, blocks};

/// What a walk over all nodes adds up to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sums {
    nodes: usize,
    holdings: usize,
    blocks: u64,
    heap: usize,
}

impl Tree {
    /// Looks at everything; says what does not hold.
    pub(in crate::prefix) fn check(&self) -> Result<(), String> {
        let mut sums = Sums::default();
        for bucket in &self.table {
            let mut at = *bucket;
            while at != NONE {
                let node = self.nodes.get(at);
                self.check_node(at, node)?;
                sums.nodes += 1;
                sums.holdings += node.holders.len();
                sums.blocks += node.run.len() as u64;
                sums.heap += node.heap();
                at = node.next;
            }
        }
        let counted = Sums {
            nodes: self.nodes.live(),
            holdings: self.holdings.live(),
            blocks: self.blocks,
            heap: self.heap,
        };
        if sums != counted {
            return Err(format!("{counted:?} are counted, {sums:?} are there"));
        }
        (0..blocks(self.shelves.len())).try_for_each(|slot| self.check_shelf(slot))
    }

    fn check_node(&self, at: u32, node: &Node) -> Result<(), String> {
        let length = blocks(node.run.len());
        let longest = node.holders.iter().map(|holder| holder.held).max();
        if longest != Some(length) {
            return Err(format!("node {at} has {length} blocks, of which {longest:?} are held"));
        }
        if node
            .run
            .first()
            .is_some_and(|first| self.find(*first, node.parent) != Some(at))
        {
            return Err(format!("node {at} is not found"));
        }
        if !node.holders.is_sorted_by_key(|holder| holder.slot) {
            return Err(format!("the holders of node {at} are not in order"));
        }
        node.holders
            .iter()
            .try_for_each(|holder| self.check_holder(at, node, *holder))
    }

    /// Contiguity: who holds a block holds all before it, and what has come stands on what has come.
    fn check_holder(&self, at: u32, node: &Node, holder: Holder) -> Result<(), String> {
        let holding = self.holdings.get(holder.holding);
        if holding.node != at || holding.slot != holder.slot || holder.held == 0 || holder.ready > holder.held {
            return Err(format!("{holder:?} of node {at} against {holding:?}"));
        }
        if node.parent == NONE {
            return Ok(());
        }
        let parent = self.nodes.get(node.parent);
        let whole = blocks(parent.run.len());
        match parent.holder(holder.slot) {
            Some(above) if above.held == whole && (holder.ready == 0 || above.ready == whole) => Ok(()),
            above => Err(format!(
                "{holder:?} of node {at} stands on {above:?}, where {whole} blocks are needed"
            )),
        }
    }

    fn check_shelf(&self, slot: u32) -> Result<(), String> {
        let shelf = self.shelf(slot);
        let (mut held, mut blocks, mut newest, mut at) = (0_u64, 0_u64, NONE, shelf.oldest);
        let mut stamp = 0;
        while at != NONE {
            let holding = self.holdings.get(at);
            let node = self.nodes.get(holding.node);
            let Some(holder) = node.holder(slot) else {
                return Err(format!(
                    "slot {slot} lists node {}, which it does not hold",
                    holding.node
                ));
            };
            self.check_below(at)?;
            if holding.older != newest || holding.stamp < stamp {
                return Err(format!("the list of slot {slot} is out of order at {holding:?}"));
            }
            held += u64::from(holder.held) * u64::from(node.unit.get());
            blocks += u64::from(holder.held);
            (newest, stamp, at) = (at, holding.stamp, holding.newer);
        }
        let found = Shelf {
            newest,
            held,
            blocks,
            ..shelf
        };
        let first = if shelf.oldest == NONE {
            u32::MAX
        } else {
            self.holdings.get(shelf.oldest).stamp
        };
        if found != shelf || first != self.oldest[slot as usize] {
            return Err(format!("slot {slot} counts {shelf:?}, its list gives {found:?}"));
        }
        Ok(())
    }

    /// What hangs below a holding knows it, and is used no later.
    fn check_below(&self, above: u32) -> Result<(), String> {
        let holding = self.holdings.get(above);
        let (mut at, mut prev) = (holding.first_child, NONE);
        let mut count = 0;
        while at != NONE {
            let below = self.holdings.get(at);
            let parent = self.nodes.get(below.node).parent;
            if below.slot != holding.slot || parent != holding.node || below.prev_sibling != prev {
                return Err(format!("{below:?} hangs below {holding:?}"));
            }
            if !self.comes_before(at, above) {
                return Err(format!("{below:?} is used after {holding:?}"));
            }
            count += 1;
            (prev, at) = (at, below.next_sibling);
        }
        if count > self.nodes.get(holding.node).children {
            return Err(format!("{count} hang below {holding:?}"));
        }
        Ok(())
    }

    fn comes_before(&self, earlier: u32, later: u32) -> bool {
        let mut at = self.holdings.get(earlier).newer;
        while at != NONE && at != later {
            at = self.holdings.get(at).newer;
        }
        at == later
    }
}
