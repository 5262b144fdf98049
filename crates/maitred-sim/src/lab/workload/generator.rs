//! Calls from parameters: kinds of clients, what their prompts share, and how their conversations go on.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::convert::Infallible;
use std::time::Duration;

use fastrand::Rng;
use maitred_types::{Time, TokenCount};

use super::arrivals::{Arrivals, Shape};
use super::mix;
use super::sizes::LengthPlan;
use crate::lab::{LabCall, adapter_name};
use crate::lora::AdapterIndex;
use crate::prefix::Prompt;

/// Most conversations that are open at one time; beyond it a turn is the last of its conversation.
pub const MAX_SESSIONS: usize = 1 << 20;

/// Choosing among `count` things, the first ones more often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// How many things.
    pub count: u32,
    /// The exponent of Zipf's law: the `n`th thing is chosen in proportion to `n` to the power of minus this. Zero chooses evenly.
    pub skew: f64,
}

impl Spread {
    /// Always the one thing there is.
    pub const ONE: Self = Self { count: 1, skew: 0.0 };
}

/// Text that many prompts begin with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedText {
    /// How many such texts there are, and how unevenly they are used.
    pub texts: Spread,
    /// How long they are. Each text has one length.
    pub tokens: LengthPlan,
    /// The part of conversations that begin with one of them: 0 to 1.
    pub share: f64,
}

/// How conversations go on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turns {
    /// Mean number of turns, distributed geometrically; 1 is a single call.
    pub mean: f64,
    /// Most turns.
    pub max: u32,
    /// What each later turn adds to the conversation besides the answer before it.
    pub added: LengthPlan,
    /// Mean time from the end of an answer to the next turn, distributed exponentially.
    pub pause: Duration,
    /// How long an answer is taken to need for each of its tokens. Turns do not wait for the real answer, so that every
    /// policy meets the same calls at the same times.
    pub per_token: Duration,
}

impl Turns {
    /// No second turn.
    #[must_use]
    pub fn single() -> Self {
        Self {
            mean: 1.0,
            max: 1,
            added: LengthPlan::new(1, 0.0),
            pause: Duration::ZERO,
            per_token: Duration::ZERO,
        }
    }
}

/// One kind of conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// How many of all conversations are of this kind, relative to the weights of the others.
    pub weight: f64,
    /// What prompts begin with, if they share anything.
    pub shared: Option<SharedText>,
    /// The first turn's own text.
    pub own: LengthPlan,
    /// Answers.
    pub output: LengthPlan,
    /// Further turns.
    pub turns: Turns,
    /// Whether clients name their conversation.
    pub sessions: bool,
    /// Adapters to choose from; no adapter when there is none.
    pub adapters: Option<Spread>,
    /// Tenants to choose from.
    pub tenants: Spread,
    /// The number of the first tenant of this kind.
    pub first_tenant: u32,
    /// The class of its calls.
    pub class: u8,
    /// The limit that clients set on answers, if they set one. An answer is never longer.
    pub max_output: Option<u32>,
}

impl Kind {
    /// Single calls that share nothing.
    #[must_use]
    pub fn new(own: LengthPlan, output: LengthPlan) -> Self {
        Self {
            weight: 1.0,
            shared: None,
            own,
            output,
            turns: Turns::single(),
            sessions: false,
            adapters: None,
            tenants: Spread::ONE,
            first_tenant: 0,
            class: 1,
            max_output: None,
        }
    }

    fn mean_turns(&self) -> f64 {
        let (mean, most) = (self.turns.mean.max(1.0), f64::from(self.turns.max.max(1)));
        // The mean of a geometric number that is cut at `most`.
        let going_on = 1.0 - 1.0 / mean;
        (1.0 - going_on.powf(most)) * mean
    }
}

/// Draws places by weight.
#[derive(Clone, Debug)]
struct Lottery {
    /// Running sums of the weights.
    sums: Vec<f64>,
}

impl Lottery {
    fn new(weights: impl Iterator<Item = f64>) -> Self {
        let mut sum = 0.0;
        let sums = weights.map(|weight| {
            sum += weight.max(0.0);
            sum
        });
        Self { sums: sums.collect() }
    }

    fn zipf(spread: Spread) -> Self {
        Self::new((1..=spread.count.max(1)).map(|rank| f64::from(rank).powf(-spread.skew)))
    }

    fn draw(&self, rng: &mut Rng) -> usize {
        let drawn = rng.f64() * self.sums.last().copied().unwrap_or_default();
        let place = self.sums.partition_point(|sum| *sum <= drawn);
        place.min(self.sums.len().saturating_sub(1))
    }
}

/// A kind with its lotteries.
#[derive(Clone, Debug)]
struct Prepared {
    kind: Kind,
    texts: Lottery,
    tenants: Lottery,
    adapters: Lottery,
}

/// A conversation that has a next turn.
#[derive(Clone, Debug)]
struct Open {
    kind: usize,
    /// Everything said so far, the last answer included.
    prompt: Prompt,
    session: u64,
    tenant: u32,
    adapter: Option<AdapterIndex>,
    turn: u32,
}

/// A next turn, by its time.
#[derive(Clone, Debug)]
struct Next {
    at: Time,
    open: Open,
}

impl PartialEq for Next {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Next {}

impl PartialOrd for Next {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Next {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.open.session).cmp(&(other.at, other.open.session))
    }
}

/// An endless workload.
#[derive(Clone, Debug)]
pub struct Generator {
    kinds: Vec<Prepared>,
    lottery: Lottery,
    arrivals: Arrivals,
    /// When the next conversation begins.
    begins: Option<Time>,
    later: BinaryHeap<Reverse<Next>>,
    rng: Rng,
    seed: u64,
    block_size: u32,
    /// Most tokens of a prompt with its answer; a conversation that reaches it ends.
    context: u32,
}

impl Generator {
    /// Calls of these kinds, `rate` a second on average over all, in blocks of `block_size` tokens. No prompt with its answer
    /// is longer than `context` tokens.
    #[must_use]
    pub fn new(kinds: Vec<Kind>, (rate, shape): (f64, Shape), (block_size, context): (u32, u32), seed: u64) -> Self {
        let weights = kinds.iter().map(|kind| kind.weight.max(0.0));
        let (mut total, mut calls) = (0.0, 0.0);
        for kind in &kinds {
            total += kind.weight.max(0.0);
            calls += kind.weight.max(0.0) * kind.mean_turns();
        }
        let lottery = Lottery::new(weights);
        let mut arrivals = Arrivals::new(rate * total / calls, shape, mix(seed, 1));
        let prepared = kinds.into_iter().map(|kind| Prepared {
            texts: Lottery::zipf(kind.shared.map_or(Spread::ONE, |shared| shared.texts)),
            tenants: Lottery::zipf(kind.tenants),
            adapters: Lottery::zipf(kind.adapters.unwrap_or(Spread::ONE)),
            kind,
        });
        Self {
            kinds: prepared.collect(),
            lottery,
            begins: arrivals.next(),
            arrivals,
            later: BinaryHeap::new(),
            rng: Rng::with_seed(mix(seed, 2)),
            seed,
            block_size,
            context,
        }
    }

    /// A conversation's beginning.
    fn open(&mut self) -> Option<Open> {
        let at = self.lottery.draw(&mut self.rng);
        let Prepared {
            kind,
            texts,
            tenants,
            adapters,
        } = self.kinds.get(at)?;
        let session = self.rng.u64(..);
        let tenant = kind.first_tenant + u32::try_from(tenants.draw(&mut self.rng)).unwrap_or(u32::MAX);
        let adapter = kind
            .adapters
            .and_then(|_| AdapterIndex::new(adapters.draw(&mut self.rng)));
        let name = adapter.map(|adapter| adapter_name(adapter.get()));
        let mut prompt = Prompt::of_passages(name.as_ref().map(maitred_types::ModelName::as_str));
        if let Some(shared) = kind.shared.filter(|shared| self.rng.f64() < shared.share) {
            let text = mix(mix(self.seed, at as u64), 1 << 32 | texts.draw(&mut self.rng) as u64);
            let tokens = shared.tokens.draw(&mut Rng::with_seed(text));
            prompt.append(text, tokens, self.block_size);
        }
        let own = kind.own.draw(&mut self.rng);
        let room = self.context.saturating_sub(prompt.tokens()).max(2) - 1;
        prompt.append(session, own.min(room), self.block_size);
        Some(Open {
            kind: at,
            prompt,
            session,
            tenant,
            adapter,
            turn: 1,
        })
    }

    /// The call of a conversation's turn; its next turn is planned.
    fn call(&mut self, at: Time, mut open: Open) -> Option<LabCall> {
        let kind = &self.kinds.get(open.kind)?.kind;
        let most = kind.max_output.unwrap_or(u32::MAX);
        let left = self.context.saturating_sub(open.prompt.tokens()).max(1);
        let output = kind.output.draw(&mut self.rng).min(most).min(left);
        let mut call = LabCall::new(&open.prompt, self.block_size, TokenCount::new(output));
        call.arrived = at;
        call.session = kind.sessions.then_some(open.session);
        (call.tenant, call.class, call.adapter) = (open.tenant, kind.class, open.adapter);
        call.max_output = kind.max_output.map(TokenCount::new);
        // Of what an answer says nothing else knows.
        call.answer_seed = mix(open.session, u64::from(open.turn));
        let turns = kind.turns;
        let goes_on = self.rng.f64() >= 1.0 / turns.mean.max(1.0);
        if goes_on && open.turn < turns.max && self.later.len() < MAX_SESSIONS {
            let pause = -(1.0 - self.rng.f64()).ln() * turns.pause.as_secs_f64();
            let pause = Duration::try_from_secs_f64(pause).unwrap_or(Duration::ZERO);
            let next = at + turns.per_token * output + pause;
            let added = turns.added.draw(&mut self.rng);
            open.prompt.append(call.answer_seed, output, self.block_size);
            open.turn += 1;
            open.prompt.append(mix(call.answer_seed, 3), added, self.block_size);
            if open.prompt.tokens() < self.context {
                self.later.push(Reverse(Next { at: next, open }));
            }
        }
        Some(call)
    }
}

impl Iterator for Generator {
    type Item = Result<LabCall, Infallible>;

    fn next(&mut self) -> Option<Self::Item> {
        let later = self.later.peek().map(|next| next.0.at);
        let call = match (self.begins, later) {
            (Some(begins), later) if later.is_none_or(|later| begins <= later) => {
                self.begins = self.arrivals.next();
                let open = self.open()?;
                self.call(begins, open)
            }
            _ => {
                let Reverse(next) = self.later.pop()?;
                self.call(next.at, next.open)
            }
        };
        call.map(Ok)
    }
}

#[cfg(test)]
mod tests;
