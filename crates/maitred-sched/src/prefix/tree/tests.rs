//! The tree against a naive book of blocks, by random sequences, with everything looked at after every step.
//!
//! Replay: `MAITRED_SIM_SEED=n` runs one seed.

use std::collections::HashMap;

use fastrand::Rng;

use super::*;

const UNIT: NonZeroU32 = NonZeroU32::new(4_096).unwrap();
const SLOTS: u32 = 4;

/// A block of one endpoint in the naive book.
#[derive(Clone, Copy, Debug)]
struct Block {
    /// Grows with every use; a deeper block of the same use has a smaller one.
    used: u64,
    ready: bool,
    before: Option<u64>,
}

/// One map of blocks per endpoint.
#[derive(Default)]
struct Naive {
    held: Vec<HashMap<u64, Block>>,
    used: u64,
}

impl Naive {
    fn insert(&mut self, slot: u32, hashes: &[u64], ready: bool) {
        for (place, hash) in hashes.iter().enumerate().rev() {
            self.used += 1;
            let before = place.checked_sub(1).map(|place| hashes[place]);
            let block = self.held[slot as usize]
                .entry(*hash)
                .or_insert(Block { used: 0, ready, before });
            block.used = self.used;
            block.ready |= ready;
        }
    }

    fn depth(&self, slot: u32, hashes: &[u64]) -> (u32, u32) {
        let held = &self.held[slot as usize];
        let count = hashes.iter().take_while(|hash| held.contains_key(hash)).count();
        let ready = hashes
            .iter()
            .take_while(|hash| held.get(hash).is_some_and(|block| block.ready));
        (blocks(count), blocks(ready.count()))
    }

    fn evict(&mut self, slot: u32, count: u32) {
        let held = &mut self.held[slot as usize];
        for _ in 0..count {
            let oldest = held.iter().min_by_key(|(_, block)| block.used).map(|(hash, _)| *hash);
            oldest.and_then(|hash| held.remove(&hash));
        }
    }

    /// Removes a block and all that stand on it.
    fn fell(&mut self, slot: u32, hash: u64) {
        let held = &mut self.held[slot as usize];
        let mut felled = vec![hash];
        while let Some(hash) = felled.pop() {
            held.remove(&hash);
            felled.extend(
                held.iter()
                    .filter(|(_, block)| block.before == Some(hash))
                    .map(|(hash, _)| *hash),
            );
        }
    }

    fn retreat(&mut self, slot: u32, hashes: &[u64]) {
        let (held, ready) = self.depth(slot, hashes);
        if ready < held {
            self.fell(slot, hashes[ready as usize]);
        }
    }

    fn prune(&mut self, slot: u32, hashes: &[u64], keep: u32) {
        let (held, _) = self.depth(slot, hashes);
        let chain = &hashes[..held as usize];
        // What hangs on a block that was lost is gone, and so is whatever follows one that is the chain's last.
        for on in keep + 1..=held {
            let on = chain[on as usize - 1];
            let book = &self.held[slot as usize];
            let below = book
                .iter()
                .filter(|(hash, block)| block.before == Some(on) && !chain.contains(hash));
            let below: Vec<_> = below.map(|(hash, _)| *hash).collect();
            below.into_iter().for_each(|hash| self.fell(slot, hash));
        }
    }

    fn distinct(&self) -> u64 {
        let mut all: Vec<_> = self.held.iter().flat_map(|held| held.keys()).collect();
        all.sort_unstable();
        all.dedup();
        all.len() as u64
    }
}

/// Prompts that share beginnings of all lengths: each new one branches off an older one or goes on with it.
struct Prompts {
    chains: Vec<Vec<u64>>,
    rng: Rng,
}

impl Prompts {
    fn next(&mut self) -> Vec<u64> {
        let mut chain = match self.rng.choice(&self.chains) {
            Some(chain) if self.rng.u32(..10) > 0 => {
                let keep = if self.rng.bool() {
                    chain.len()
                } else {
                    self.rng.usize(..=chain.len())
                };
                chain[..keep].to_vec()
            }
            _ => Vec::new(),
        };
        let more = if self.rng.u32(..4) == 0 {
            0
        } else {
            self.rng.usize(1..20)
        };
        for _ in 0..more {
            let last = chain.last().copied().unwrap_or(7);
            chain.push(mix(last ^ self.rng.u64(..3)));
        }
        if self.chains.len() < 24 {
            self.chains.push(chain.clone());
        } else if let Some(old) = (!chain.is_empty()).then(|| self.rng.usize(..24)) {
            self.chains[old].clone_from(&chain);
        }
        chain
    }
}

struct Pair {
    tree: Tree,
    naive: Naive,
    prompts: Prompts,
    rng: Rng,
    stamp: u32,
}

impl Pair {
    fn new(seed: u64) -> Self {
        let mut tree = Tree::new(1 << 16, seed);
        tree.reserve(SLOTS as usize - 1);
        Self {
            tree,
            naive: Naive {
                held: vec![HashMap::new(); SLOTS as usize],
                used: 0,
            },
            prompts: Prompts {
                chains: Vec::new(),
                rng: Rng::with_seed(mix(seed)),
            },
            rng: Rng::with_seed(seed),
            stamp: 0,
        }
    }

    fn step(&mut self) {
        let (slot, chain) = (self.rng.u32(..SLOTS), self.prompts.next());
        self.stamp += self.rng.u32(..3);
        match self.rng.u32(..20) {
            0..6 => self.insert(slot, &chain, Certainty::Pending),
            6..13 => self.insert(slot, &chain, Certainty::Ready),
            13..15 => {
                self.tree.retreat(slot, &chain);
                self.naive.retreat(slot, &chain);
            }
            15..17 => {
                let keep = self.rng.u32(..=blocks(chain.len()));
                self.tree.prune(slot, &chain, keep);
                self.naive.prune(slot, &chain, keep);
            }
            17..19 => {
                let units = self.rng.u64(..30) * u64::from(UNIT.get()) / 2;
                let taken = self.tree.take_oldest(slot, units);
                self.naive.evict(slot, taken);
            }
            _ if self.rng.u32(..8) == 0 => {
                self.tree.clear(slot);
                self.naive.held[slot as usize].clear();
            }
            _ => {}
        }
    }

    fn insert(&mut self, slot: u32, chain: &[u64], certainty: Certainty) {
        self.tree.insert(slot, chain, UNIT, (certainty, self.stamp));
        self.naive.insert(slot, chain, certainty == Certainty::Ready);
    }

    fn compare(&mut self) -> Result<(), String> {
        self.tree.check()?;
        let chain = self.prompts.next();
        let mut held = [9; SLOTS as usize];
        let best = self.tree.matches(&chain, &mut held);
        for slot in 0..SLOTS {
            let (found, expected) = (self.tree.depth(slot, &chain), self.naive.depth(slot, &chain));
            if found != expected || held[slot as usize] != expected.0 {
                return Err(format!(
                    "slot {slot} holds {found:?} and {held:?}, not {expected:?} of {chain:?}"
                ));
            }
            let (shelf, book) = (self.tree.shelf(slot), self.naive.held[slot as usize].len() as u64);
            if shelf.blocks != book || shelf.held != book * u64::from(UNIT.get()) {
                return Err(format!("slot {slot} counts {shelf:?}, not {book}"));
            }
        }
        if Some(best) != held.iter().max().copied() || self.tree.blocks() != self.naive.distinct() {
            return Err(format!("{} blocks, not {}", self.tree.blocks(), self.naive.distinct()));
        }
        Ok(())
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a replay is steered from outside, and only here"
)]
fn seeds() -> std::ops::Range<u64> {
    let wanted = std::env::var("MAITRED_SIM_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    wanted.map_or(0..300, |seed: u64| seed..seed + 1)
}

fn replay(seed: u64, step: u32, found: &str) -> String {
    format!(
        "seed {seed} step {step}: {found}\nreplay: MAITRED_SIM_SEED={seed} cargo test -p maitred-sched prefix::tree"
    )
}

#[test]
fn a_tree_holds_what_a_naive_book_holds() {
    for seed in seeds() {
        let mut pair = Pair::new(seed);
        for step in 0..300 {
            pair.step();
            pair.compare()
                .unwrap_or_else(|found| panic!("{}", replay(seed, step, &found)));
        }
        for slot in 0..SLOTS {
            pair.tree.clear(slot);
        }
        pair.tree.check().unwrap();
        assert_eq!(
            (
                pair.tree.nodes(),
                pair.tree.holdings.live(),
                pair.tree.blocks(),
                pair.tree.heap
            ),
            (0, 0, 0, 0)
        );
    }
}

/// How many of some seeds end with a finding when `break_it` is done to the tree now and then.
fn fires(break_it: impl Fn(&mut Tree, &[u64])) -> usize {
    let broken = |seed: &u64| {
        let mut pair = Pair::new(*seed);
        (0..300).any(|step| {
            pair.step();
            if step % 50 == 49 {
                let chain = pair.prompts.next();
                break_it(&mut pair.tree, &chain);
            }
            pair.compare().is_err()
        })
    };
    (0..20).filter(broken).count()
}

#[test]
fn each_check_fires_when_the_tree_is_broken() {
    let first = |tree: &mut Tree, hashes: &[u64]| {
        tree.walk(hashes);
        tree.path.first().copied()
    };
    // Nothing: the control of the controls.
    assert_eq!(fires(|_, _| {}), 0);
    // A block of one endpoint is forgotten under others that stand on it.
    let gap = fires(|tree, hashes| {
        if let Some(step) = first(tree, hashes) {
            tree.nodes.get_mut(step.node).holders[0].held -= 1;
        }
    });
    // A block is held that was never given.
    let gift = fires(|tree, hashes| {
        if let Some(step) = first(tree, hashes) {
            tree.nodes.get_mut(step.node).run.push(1);
        }
    });
    let bytes = fires(|tree, _| tree.heap += 1);
    let order = fires(|tree, _| {
        if let Some(shelf) = tree.shelves.iter_mut().find(|shelf| shelf.oldest != shelf.newest) {
            std::mem::swap(&mut shelf.oldest, &mut shelf.newest);
        }
    });
    for (what, fired) in [("gap", gap), ("gift", gift), ("bytes", bytes), ("order", order)] {
        assert_eq!(fired, 20, "{what}");
    }
}

#[test]
fn common_lengths_are_found_whatever_they_are() {
    let chain: Vec<u64> = (0..70).collect();
    for common in 1..=70 {
        for length in common..=70 {
            let other: Vec<u64> = (0..length)
                .map(|at| if at < common { at } else { at + 1_000 })
                .collect();
            assert_eq!(common_length(&chain, &other) as u64, common, "{length}");
            assert_eq!(common_length(&other, &chain) as u64, common, "{length}");
        }
    }
    assert_eq!(common_length(&[], &chain), 0);
}

#[test]
fn blocks_of_other_sizes_count_as_such() {
    let mut tree = Tree::new(1 << 16, 1);
    let small = NonZeroU32::new(256).unwrap();
    tree.insert(0, &[1, 2, 3], small, (Certainty::Ready, 0));
    tree.insert(0, &[1, 2, 3, 4], UNIT, (Certainty::Ready, 1));
    assert_eq!(tree.shelf(0).held, 3 * 256 + 4_096);
    tree.check().unwrap();
    assert_eq!(tree.take_oldest(0, 1), 1);
    assert_eq!(tree.shelf(0).held, 3 * 256);
    assert_eq!(tree.take_oldest(0, 300), 2);
    tree.check().unwrap();
}
