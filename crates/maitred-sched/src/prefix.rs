//! The prefix index: which endpoint holds how much of a prompt in its KV cache, guessed from what was sent where and corrected by
//! what answers report.
//!
//! A prompt is a chain of block hashes ([`maitred_types::PromptChain`]). The `tree` holds which endpoint has which blocks; this module
//! says when they come and go:
//!
//! * **at dispatch** the whole prompt is noted as *pending* at the endpoint. Pending blocks count in full for the next call: an engine
//!   admits in order and keeps the blocks of what it has admitted, so a call that follows finds them there. What it waits for is the
//!   prefill of the call before it, which the endpoint's prefill queue shows. So the next call with the same beginning sees a hit and
//!   a queue, not a discount.
//! * **at the first token** they are *ready*. If the call ends before it, what is not ready is taken back.
//! * **at the end** the prompt counts as used once more, since engines put a sequence's blocks in their order of eviction when it
//!   ends; and the caller may say by [`PrefixIndex::extend`] what the chain is with the answer appended.
//! * **an answer that reports cached tokens** is compared with the prediction. Less than what was ready: the engine had let go of the
//!   rest, and of whatever hung on it; that is taken out (the prompt itself has been computed anew and is there), and the capacity
//!   shrinks. More than predicted: the capacity grows.
//! * **when the incarnation ends** everything goes.
//!
//! Each endpoint's blocks are bounded by its capacity (`stock`), all together by a number of bytes; beyond either, the least
//! recently used go, the deepest first. Where traffic shares nothing the work is switched off (`benefit`).
//!
//! Where an endpoint publishes KV events, [`PrefixIndex::stored`] and its like take what can be known from them without a tokenizer.
//! The engine's block hashes are made of token ids, so an event cannot be told to be about this or that prompt; but it says how many
//! blocks came and went, and when all did. Then blocks leave the index when the engine says that it lets go of as many, in place of
//! the guess when it might, and in the engine's order of eviction as it is assumed here; which ones remains an assumption.

mod benefit;
mod file;
mod slab;
mod snapshot;
mod stock;
mod tree;

use maitred_types::{LeaseId, PromptChain, Time, Usage};

use crate::lease;
use crate::options::PrefixOptions;
use crate::prefix::benefit::Benefit;
use crate::prefix::stock::{Stock, unit};
use crate::prefix::tree::{Certainty, Tree};

pub(crate) use benefit::{Seen, Switch};
pub use file::SnapshotFile;
pub use snapshot::{PrefixSnapshot, SnapshotError};
pub(crate) use snapshot::{Writer as SnapshotWriter, seal};
pub use stock::Calibration;

/// Parts of a token that sizes are counted in, so that sums are exact where blocks hold a fraction of a token.
const UNIT: u32 = 256;
/// Most blocks of a prompt that are heeded.
const MAX_BLOCKS: usize = 65_536;
/// Most blocks that are written into the index from one snapshot, each beginning counted as often as something goes on from it.
const MAX_READ: usize = 1 << 22;
/// The part of the bytes that chains of live leases may take up.
const CLAIM_SHARE: usize = 4;
/// Of a prediction, the part by which an answer may differ without being a surprise: blocks cut from text hold a varying number of
/// tokens.
const TOLERANCE: f32 = 1.0 / 16.0;

/// What a live lease says about its prompt.
#[derive(Debug)]
struct Claim {
    lease: LeaseId,
    chain: PromptChain,
    /// Prompt tokens.
    prompt: f32,
    /// Of these, tokens that the endpoint was taken to hold.
    predicted: f32,
    /// Of these, tokens that had come for certain.
    ready: f32,
}

/// A prompt as the index is asked for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prompt<'a> {
    pub(crate) chain: &'a PromptChain,
    /// Its tokens, as estimated.
    pub(crate) tokens: f32,
}

/// What the index counts about itself.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    evicted: u64,
    lost: u64,
    untracked: u64,
    shortfalls: u64,
    surpluses: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct PrefixIndex {
    options: PrefixOptions,
    tree: Tree,
    stocks: Vec<Stock>,
    /// By the lease's place in the lease table.
    claims: Vec<Option<Claim>>,
    claim_bytes: usize,
    benefit: Benefit,
    calibration: Calibration,
    counts: Counts,
    /// Blocks matched, by slot.
    held: Vec<u32>,
    /// Whether the ask at hand was looked up, so that a booking for it is to be noted.
    is_asked: bool,
    /// Whether a look-up wrote something into the column of matched tokens.
    is_written: bool,
}

/// How the index fares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrefixFigures {
    /// Whether every call is looked up and noted; otherwise one in eight.
    pub is_on: bool,
    /// Times that it was switched on or off.
    pub switches: u64,
    /// Bytes in use. Not above [`PrefixOptions::max_bytes`].
    pub bytes: usize,
    /// Blocks known, each counted once.
    pub blocks: u64,
    /// The same, counted once per endpoint that holds it.
    pub held_blocks: u64,
    /// Runs of blocks.
    pub runs: usize,
    /// Blocks that left because their endpoint holds no more, per endpoint.
    pub evicted_blocks: u64,
    /// Blocks that were forgotten because the bytes did not suffice, per endpoint.
    pub lost_blocks: u64,
    /// Calls looked up.
    pub looked_up: u64,
    /// Calls with a chain that were not, since it was off.
    pub skipped: u64,
    /// Calls looked up and not noted, since the prompts of live calls took up their part of the bytes.
    pub untracked: u64,
    /// Prompt tokens of calls looked up.
    pub prompt_tokens: f64,
    /// Of these, what the candidate that held most held.
    pub best_tokens: f64,
    /// What a candidate drawn at random would have held.
    pub random_tokens: f64,
    /// What the chosen one held. The difference to `random_tokens` is what the placement gained.
    pub chosen_tokens: f64,
    /// Answers that read less from the cache than was certain.
    pub shortfalls: u64,
    /// Answers that read more than was predicted.
    pub surpluses: u64,
    /// Predicted against reported hits.
    pub calibration: Calibration,
}

/// What the index knows of one endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CacheRow {
    /// Prompt tokens that it is taken to hold.
    pub held_tokens: u64,
    /// Prompt tokens that it can hold, as far as is guessed; `None` where its own events say when something goes.
    pub capacity_tokens: Option<u64>,
    /// The learnt part of that guess: 1 is the endpoint's own number.
    pub scale: f32,
    /// Predicted against reported hits.
    pub calibration: Calibration,
}

impl PrefixIndex {
    pub(crate) fn new(options: PrefixOptions, seed: u64) -> Self {
        Self {
            tree: Tree::new(options.max_bytes, seed),
            options,
            stocks: Vec::new(),
            claims: Vec::new(),
            claim_bytes: 0,
            benefit: Benefit::new(seed),
            calibration: Calibration::default(),
            counts: Counts::default(),
            held: Vec::new(),
            is_asked: false,
            is_written: false,
        }
    }

    pub(crate) fn reconfigure(&mut self, options: PrefixOptions) {
        self.options = options;
        self.bound();
    }

    /// A new life at `slot`: nothing of an older one is left.
    pub(crate) fn begin_life(&mut self, slot: usize) {
        self.tree.reserve(slot);
        self.clear(number(slot));
        if self.stocks.len() <= slot {
            self.stocks.resize(slot + 1, Stock::NEW);
            self.held.resize(slot + 1, 0);
            self.bound();
        }
        self.stocks[slot] = Stock::NEW;
    }

    pub(crate) fn end_life(&mut self, slot: usize) {
        self.clear(number(slot));
        self.stocks[slot] = Stock::NEW;
    }

    /// Takes the sizes of an endpoint's KV cache.
    pub(crate) fn size(&mut self, slot: usize, block_size: Option<u32>, blocks: Option<u32>) {
        self.stocks[slot].size(block_size, blocks);
        self.fit(number(slot));
    }

    pub(crate) const fn is_on(&self) -> bool {
        self.benefit.is_on()
    }

    /// Whether an ask is to be looked up. To be asked once per ask, those without a chain included, and before the look-up.
    pub(crate) fn wants(&mut self, has_chain: bool) -> bool {
        self.is_asked = self.benefit.wants(has_chain) && self.options.max_bytes > 0;
        self.is_asked
    }

    /// The same for an ask that is to change nothing.
    pub(crate) const fn would_want(&self) -> bool {
        self.benefit.is_on() && self.options.max_bytes > 0
    }

    /// Writes into the column of prompt tokens that each endpoint holds.
    pub(crate) fn look_up(&mut self, prompt: Option<Prompt<'_>>, matched: &mut [f32]) {
        let Some(prompt) = prompt else {
            if std::mem::take(&mut self.is_written) {
                matched.fill(0.0);
            }
            return;
        };
        let most = self.tree.matches(clipped(prompt.chain), &mut self.held);
        if most > 0 || self.is_written {
            let (per_block, limit) = (prompt.chain.tokens_per_block(), prompt.tokens - 1.0);
            let known = self.stocks.iter().zip(&self.held);
            for (matched, (stock, held)) in matched.iter_mut().zip(known) {
                *matched = stock.whole_blocks(*held as f32 * per_block, limit);
            }
        }
        self.is_written = most > 0;
    }

    /// Counts what a look-up found among the candidates, and says whether that switches the index on or off.
    pub(crate) fn weigh(&mut self, seen: &Seen, now: Time) -> Option<Switch> {
        self.benefit.saw(seen, &self.options, now)
    }

    /// Notes the prompt of a lease just booked at `slot` as pending there. `predicted` is what the look-up said. Returns the tokens that
    /// the index counts for it from now on.
    pub(crate) fn claim(
        &mut self,
        (lease, slot): (LeaseId, usize),
        prompt: Prompt<'_>,
        predicted: f32,
        now: Time,
    ) -> f32 {
        if !std::mem::take(&mut self.is_asked) {
            return 0.0;
        }
        self.benefit.all.chosen += f64::from(predicted);
        let hashes = clipped(prompt.chain);
        let bytes = size_of_val(prompt.chain.hashes());
        if self.claim_bytes + bytes > self.options.max_bytes / CLAIM_SHARE {
            self.counts.untracked += 1;
            return 0.0;
        }
        let per_block = prompt.chain.tokens_per_block();
        let (_, ready) = self.tree.depth(number(slot), hashes);
        let ready = self.stocks[slot].whole_blocks(ready as f32 * per_block, prompt.tokens - 1.0);
        self.keep(Claim {
            lease,
            chain: prompt.chain.clone(),
            prompt: prompt.tokens,
            predicted,
            ready,
        });
        self.note(slot, prompt.chain, Certainty::Pending, now);
        hashes.len() as f32 * per_block
    }

    fn keep(&mut self, claim: Claim) {
        let at = lease::index(claim.lease) as usize;
        self.claim_bytes += size_of_val(claim.chain.hashes());
        if self.claims.len() <= at {
            self.claims.resize_with(at + 1, || None);
        }
        if let Some(old) = self.claims[at].replace(claim) {
            self.claim_bytes -= size_of_val(old.chain.hashes());
        }
    }

    fn take(&mut self, lease: LeaseId) -> Option<Claim> {
        let claim = self.claims.get_mut(lease::index(lease) as usize)?;
        let claim = claim.take_if(|claim| claim.lease == lease)?;
        self.claim_bytes -= size_of_val(claim.chain.hashes());
        Some(claim)
    }

    /// The prompt of a lease has come.
    pub(crate) fn confirm(&mut self, lease: LeaseId, slot: usize, now: Time) {
        let claim = self.claims.get(lease::index(lease) as usize).and_then(Option::as_ref);
        if let Some(claim) = claim.filter(|claim| claim.lease == lease) {
            let chain = claim.chain.clone();
            self.note(slot, &chain, Certainty::Ready, now);
        }
    }

    /// The prompt of a lease, with its answer appended, is `chain`.
    pub(crate) fn extend(&mut self, lease: LeaseId, slot: usize, chain: &PromptChain, now: Time) {
        let Some(mut claim) = self.take(lease) else { return };
        if self.claim_bytes + size_of_val(chain.hashes()) <= self.options.max_bytes / CLAIM_SHARE {
            claim.chain = chain.clone();
        }
        self.keep(claim);
        self.note(slot, chain, Certainty::Ready, now);
    }

    /// A lease is over whose endpoint's life is over too.
    pub(crate) fn drop_claim(&mut self, lease: LeaseId) {
        drop(self.take(lease));
    }

    /// A lease is over before its prompt was computed.
    pub(crate) fn abandon(&mut self, lease: LeaseId, slot: usize) {
        if let Some(claim) = self.take(lease) {
            self.tree.retreat(number(slot), clipped(&claim.chain));
            self.bound();
        }
    }

    /// A lease is over whose prompt was computed.
    pub(crate) fn settle(&mut self, lease: LeaseId, slot: usize, usage: Option<&Usage>, now: Time) {
        let Some(claim) = self.take(lease) else { return };
        if let Some(usage) = usage {
            self.correct(slot, &claim, usage);
        }
        self.note(slot, &claim.chain, Certainty::Ready, now);
    }

    /// Compares what an answer read from the cache with what was predicted. Both are set in relation to the prompt's real tokens, so that
    /// a wrong estimate of its length is none of the cache.
    fn correct(&mut self, slot: usize, claim: &Claim, usage: &Usage) {
        let Some(reported) = usage.cached_input else { return };
        let reported = reported.get() as f32;
        let input = usage.input.get() as f32;
        let ratio = if input > 0.0 { input / claim.prompt } else { 1.0 };
        let per_block = claim.chain.tokens_per_block() * ratio;
        let predicted = claim.predicted * ratio;
        let stock = &mut self.stocks[slot];
        stock.calibration.add(whole(predicted), whole(reported));
        self.calibration.add(whole(predicted), whole(reported));
        let slack = per_block.max(stock.block_size() as f32) + predicted * TOLERANCE;
        if reported + slack < claim.ready * ratio {
            stock.shrink();
            self.counts.shortfalls += 1;
            let keep = tree::blocks(usize::try_from(whole(reported / per_block)).unwrap_or(usize::MAX));
            self.tree.prune(number(slot), clipped(&claim.chain), keep);
        } else if reported > predicted + slack {
            stock.grow();
            self.counts.surpluses += 1;
        }
    }

    fn note(&mut self, slot: usize, chain: &PromptChain, certainty: Certainty, now: Time) {
        let unit = unit(chain.tokens_per_block());
        self.tree
            .insert(number(slot), clipped(chain), unit, (certainty, stamp(now)));
        self.fit(number(slot));
    }

    /// Another gateway has sent this prompt to `slot`.
    pub(crate) fn hear(&mut self, slot: usize, chain: &PromptChain, now: Time) {
        if self.would_want() {
            self.note(slot, chain, Certainty::Ready, now);
        }
    }

    /// Tokens that a live lease holds beside what the index counts come or go.
    pub(crate) fn beside(&mut self, slot: usize, more: u32, less: u32) {
        let beside = &mut self.stocks[slot].beside;
        *beside = (*beside + u64::from(more)).saturating_sub(u64::from(less));
    }

    /// The same as counted now.
    pub(crate) fn is_beside(&self, slot: usize) -> u64 {
        self.stocks.get(slot).map_or(0, |stock| stock.beside)
    }

    /// Takes from an endpoint what it has no room for, and from all what the bytes do not suffice for.
    fn fit(&mut self, slot: u32) {
        let capacity = self.stocks[slot as usize].capacity(self.options.default_tokens);
        let capacity = capacity.map_or(u64::MAX, |tokens| tokens.saturating_mul(u64::from(UNIT)));
        while self.tree.shelf(slot).held > capacity {
            let excess = self.tree.shelf(slot).held - capacity;
            self.counts.evicted += u64::from(self.tree.take_oldest(slot, excess));
        }
        self.bound();
    }

    /// Forgets what the bytes do not suffice for.
    fn bound(&mut self) {
        let limit = self.options.max_bytes.saturating_sub(self.beside_tree());
        while self.tree.is_over(limit) {
            let Some(slot) = self.tree.stalest() else { return };
            self.counts.lost += u64::from(self.tree.take_oldest(slot, u64::MAX));
        }
    }

    /// Bytes beside the tree's.
    const fn beside_tree(&self) -> usize {
        let rows = self.stocks.capacity() * size_of::<Stock>() + self.held.capacity() * size_of::<u32>();
        self.claim_bytes + self.claims.capacity() * size_of::<Option<Claim>>() + rows
    }

    /// The engine says that it has stored blocks.
    pub(crate) fn stored(&mut self, slot: usize, blocks: u32) {
        let held = self.tree.shelf(number(slot)).held;
        self.stocks[slot].stored(blocks, held);
    }

    /// The engine says that it has let go of blocks.
    pub(crate) fn removed(&mut self, slot: usize, blocks: u32) {
        let mut units = self.stocks[slot].removed(blocks, self.tree.shelf(number(slot)).held);
        while units > 0 {
            let before = self.tree.shelf(number(slot)).held;
            let taken = self.tree.take_oldest(number(slot), units);
            self.counts.evicted += u64::from(taken);
            units = units.saturating_sub(before - self.tree.shelf(number(slot)).held);
            if taken == 0 {
                break;
            }
        }
        self.bound();
    }

    /// The engine says that its cache is empty.
    pub(crate) fn cleared(&mut self, slot: usize) {
        self.clear(number(slot));
        self.stocks[slot].cleared();
    }

    /// The engine's events have a gap.
    pub(crate) fn lost_track(&mut self, slot: usize) {
        self.stocks[slot].lost_track();
        self.fit(number(slot));
    }

    /// What an endpoint holds, in the writer's budget.
    pub(crate) fn write(&self, slot: usize, mut writer: SnapshotWriter) -> Vec<u8> {
        self.tree.write(number(slot), &mut writer);
        writer.finish()
    }

    /// Takes what an endpoint held when a snapshot of it was written, in the order of its use. Returns how many blocks it holds now.
    pub(crate) fn read(&mut self, slot: usize, snapshot: &PrefixSnapshot, now: Time) -> u64 {
        let entries = &snapshot.entries;
        let mut goes_on = vec![false; entries.len()];
        for parent in entries.iter().filter_map(|entry| entry.parent) {
            goes_on[parent] = true;
        }
        let (mut chain, mut left) = (Vec::new(), MAX_READ);
        let ends = entries.iter().zip(goes_on).rev().filter(|(_, goes_on)| !goes_on);
        for (end, _) in ends {
            left = left.saturating_sub(end.end);
            if left == 0 {
                break;
            }
            chain.clear();
            chain.resize(end.end, 0);
            let mut at = Some(end);
            while let Some(entry) = at {
                chain[entry.end - entry.run.len()..entry.end].copy_from_slice(&entry.run);
                at = entry.parent.and_then(|parent| entries.get(parent));
            }
            let how = (Certainty::Ready, stamp(now));
            self.tree.insert(number(slot), &chain, end.unit, how);
            self.fit(number(slot));
        }
        self.tree.shelf(number(slot)).blocks
    }

    fn clear(&mut self, slot: u32) {
        self.tree.clear(slot);
        self.bound();
    }

    pub(crate) fn row(&self, slot: usize) -> CacheRow {
        let Some(stock) = self.stocks.get(slot) else {
            return CacheRow::default();
        };
        CacheRow {
            held_tokens: self.tree.shelf(number(slot)).held / u64::from(UNIT),
            capacity_tokens: stock.capacity(self.options.default_tokens),
            scale: stock.scale(),
            calibration: stock.calibration,
        }
    }

    pub(crate) fn figures(&self) -> PrefixFigures {
        let all = self.benefit.all;
        let slots = 0..tree::blocks(self.stocks.len());
        PrefixFigures {
            is_on: self.benefit.is_on(),
            switches: self.benefit.switches,
            bytes: self.tree.bytes() + self.beside_tree(),
            blocks: self.tree.blocks(),
            held_blocks: slots.map(|slot| self.tree.shelf(slot).blocks).sum(),
            runs: self.tree.nodes(),
            evicted_blocks: self.counts.evicted,
            lost_blocks: self.counts.lost,
            looked_up: all.calls,
            skipped: self.benefit.skipped,
            untracked: self.counts.untracked,
            prompt_tokens: all.prompt,
            best_tokens: all.best,
            random_tokens: all.random,
            chosen_tokens: all.chosen,
            shortfalls: self.counts.shortfalls,
            surpluses: self.counts.surpluses,
            calibration: self.calibration,
        }
    }

    /// What must hold after every step. Costs a walk over everything.
    pub(crate) fn check(&self, slots: usize) -> Result<(), String> {
        self.tree.check()?;
        let claimed: usize = self
            .claims
            .iter()
            .flatten()
            .map(|claim| size_of_val(claim.chain.hashes()))
            .sum();
        if claimed != self.claim_bytes {
            return Err(format!("{claimed} bytes are claimed, {} are counted", self.claim_bytes));
        }
        let limit = self.options.max_bytes.saturating_sub(self.beside_tree());
        if self.tree.is_over(limit) && self.tree.blocks() > 0 {
            return Err(format!("{} bytes of {limit}", self.tree.bytes()));
        }
        if self.stocks.len() < slots {
            return Err(format!("{} stocks for {slots} slots", self.stocks.len()));
        }
        Ok(())
    }
}

/// The part of a chain that is heeded.
fn clipped(chain: &PromptChain) -> &[u64] {
    let hashes = chain.hashes();
    &hashes[..hashes.len().min(MAX_BLOCKS)]
}

/// A slot's number; pools are far smaller than its range.
fn number(slot: usize) -> u32 {
    crate::columns::slot_number(slot)
}

/// When something was used, in steps of 67 ms, which last for nine years.
fn stamp(now: Time) -> u32 {
    u32::try_from(now.as_nanos() >> 26).unwrap_or(u32::MAX)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a conversion that saturates is what is wanted"
)]
const fn whole(tokens: f32) -> u64 {
    tokens as u64
}
