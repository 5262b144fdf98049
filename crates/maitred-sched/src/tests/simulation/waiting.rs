//! The waiting calls of the random lives, and the book that the world keeps of them.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use maitred_types::{EndpointId, Time};

use super::{Before, Checked, World, ensure};
use crate::{
    Answer, Ask, AttemptKind, ClassOptions, PickReason, Picked, Pool, Refusal, Released, TicketId, WaitingOptions,
};

const CLASSES: [&str; 4] = ["gold", "silver", "tin", "scrap"];

/// A waiting call, as its caller remembers it.
#[derive(Debug)]
pub(super) struct Queued {
    class: Arc<str>,
    tenant: u64,
    arrived: Time,
    /// Least and most tokens that are not cached anywhere.
    tokens: (u32, u32),
    excluded: Vec<EndpointId>,
    attempt: AttemptKind,
    /// When its wait is over at the latest.
    until: Time,
}

impl Queued {
    fn is_choosy(&self) -> bool {
        !self.excluded.is_empty() || self.attempt == AttemptKind::Retry
    }

    fn rank(&self, options: &WaitingOptions) -> u32 {
        let at = options.classes.iter().position(|class| class.name == self.class);
        u32::try_from(at.unwrap()).unwrap()
    }

    /// How much longer this one may wait than one of `other`'s size until it goes first.
    fn patience(&self, other: &Self, options: &WaitingOptions) -> Duration {
        let size = |tokens: u32| f64::from(tokens.max(256)).log2();
        let doublings = (size(self.tokens.1) - size(other.tokens.0)).max(0.0);
        options.size_age.mul_f64(doublings) + Duration::from_micros(1)
    }
}

impl World {
    /// A call that may wait.
    pub(super) fn ask(&mut self, ask: &Ask<'_>) -> Checked {
        let ask = Ask {
            class: (self.rng.u32(..5) > 0).then(|| self.rng.choice(CLASSES)).flatten(),
            tenant: self.rng.u64(..3),
            weight: self.rng.u32(..3),
            bytes: self.rng.u64(..2_000),
            deadline: (self.rng.u32(..4) == 0).then(|| self.now + Duration::from_millis(self.rng.u64(..4_000))),
            arrived: (self.rng.u32(..4) == 0)
                .then(|| self.now.saturating_sub(Duration::from_millis(self.rng.u64(..900)))),
            ..*ask
        };
        self.drain()?;
        let before = Before::of(&self.pool, self.now);
        let waiting = self.pool.room(self.now).calls;
        self.asks += 1;
        match self.pool.ask(&ask, self.now) {
            Answer::Go(picked) => {
                before.allows(&ask, &picked)?;
                if self.pool.options().waiting.calls > 0 {
                    before.has_space(&picked)?;
                    ensure(waiting == 0, "S5", || format!("{ask:?} overtook {waiting}"))?;
                }
                self.saw("went at once");
                self.live.push((picked.lease, picked.endpoint));
            }
            Answer::Wait(ticket) => {
                ensure(waiting > 0 || !before.could_go(&ask), "S5", || {
                    format!("{ask:?} waits for nothing")
                })?;
                self.saw("waits");
                self.note(ticket.get());
                self.remember(ticket, &ask);
            }
            Answer::Shed(refusal) => {
                self.refused += 1;
                self.saw(refusal.label());
                if !matches!(refusal, Refusal::Shed { .. }) {
                    before.allows_refusal(&ask, &refusal)?;
                }
            }
        }
        Ok(())
    }

    fn remember(&mut self, ticket: TicketId, ask: &Ask<'_>) {
        let options = &self.pool.options().waiting;
        let limits = options
            .classes
            .iter()
            .map(|class| class.max_wait.unwrap_or(options.max_wait));
        let longest = limits.max().unwrap();
        let arrived = ask.arrived.unwrap_or(self.latest).min(self.latest);
        let input = ask.input_tokens.get();
        let queued = Queued {
            class: class(options, ask.class),
            tenant: ask.tenant,
            arrived,
            tokens: (if ask.chain.is_some() { 0 } else { input }, input),
            excluded: ask.excluded.to_vec(),
            attempt: ask.attempt,
            until: ask.deadline.unwrap_or(Time::MAX).min(self.latest + longest),
        };
        self.waiting.insert(ticket, queued);
    }

    /// Fetches every wait that has ended.
    pub(super) fn drain(&mut self) -> Checked {
        loop {
            self.pool.advance(self.now);
            let before = (!self.waiting.is_empty()).then(|| Before::of(&self.pool, self.now));
            let Some(Released { ticket, outcome, .. }) = self.pool.released(self.now) else {
                break;
            };
            let queued = self.waiting.remove(&ticket);
            let Some((queued, before)) = queued.zip(before) else {
                return Err(("S1", format!("{ticket:?} does not wait")));
            };
            match outcome {
                Ok(picked) => {
                    let ask = Ask {
                        excluded: &queued.excluded,
                        attempt: queued.attempt,
                        // Of the endpoint that a connection is bound to nothing is remembered here.
                        pinned: Some(picked.endpoint),
                        ..Ask::default()
                    };
                    before.allows(&ask, &picked)?;
                    before.has_space(&picked)?;
                    self.in_order(&queued)?;
                    self.saw("released");
                    self.note(picked.lease.get());
                    self.live.push((picked.lease, picked.endpoint));
                }
                Err(refusal) => {
                    self.refused += 1;
                    self.saw(refusal.label());
                    self.note(refusal.label().len() as u64);
                }
            }
        }
        self.nobody_could_go()?;
        let late = self.waiting.iter().find(|(_, queued)| queued.until <= self.latest);
        ensure(late.is_none(), "S1", || format!("{late:?} waits beyond its time"))?;
        let calls = self.pool.room(self.now).calls;
        ensure(calls == self.waiting.len(), "S1", || {
            format!("{calls} calls wait, {} expected", self.waiting.len())
        })
    }

    /// Nobody may be left waiting who could go. What only the passing of time opens, the next page of the endpoint tells.
    fn nobody_could_go(&self) -> Checked {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let before = Before::of(&self.pool, self.now);
        if before.rows.iter().any(|row| !row.is_fresh) {
            return Ok(());
        }
        let could = |(_, queued): &(&TicketId, &Queued)| !queued.is_choosy() && before.could_go(&Ask::default());
        let forgotten = self.waiting.iter().find(could);
        ensure(forgotten.is_none(), "S5", || {
            format!("{forgotten:?} waits though it could go")
        })
    }

    /// Whether a released call has overtaken nobody that had waited long enough to go first.
    fn in_order(&self, gone: &Queued) -> Checked {
        let options = &self.pool.options().waiting;
        let rank = gone.rank(options);
        for (ticket, other) in self.waiting.iter().filter(|(_, other)| !other.is_choosy()) {
            let head_start = match other.rank(options) {
                theirs if theirs == rank && other.tenant == gone.tenant => {
                    let may = gone.arrived <= other.arrived + other.patience(gone, options);
                    ensure(may, "S5", || format!("{ticket:?} {other:?} was overtaken by {gone:?}"))?;
                    continue;
                }
                theirs if theirs < rank => options.class_age * (rank - theirs),
                _ => continue,
            };
            ensure(gone.arrived + head_start <= other.arrived, "S5", || {
                format!("{ticket:?} {other:?} of a higher class was overtaken by {gone:?}")
            })?;
        }
        Ok(())
    }

    /// Other settings: who waits in a class that is no more waits in the default class from here on.
    pub(super) fn reconfigure(&mut self) {
        let options = super::options(&mut self.rng);
        for queued in self.waiting.values_mut() {
            queued.class = class(&options.waiting, Some(&queued.class));
        }
        self.pool.reconfigure(options, super::profile(&mut self.rng));
    }

    pub(super) fn leave(&mut self) -> Checked {
        let tickets: Vec<_> = self.waiting.keys().copied().collect();
        let Some(ticket) = self.rng.choice(tickets) else {
            return Ok(());
        };
        self.drain()?;
        if !self.waiting.contains_key(&ticket) {
            let again = self.pool.leave(ticket, self.now);
            return ensure(!again, "S1", || format!("{ticket:?} left, and had ended before"));
        }
        let left = self.pool.leave(ticket, self.now);
        self.waiting.remove(&ticket);
        self.saw("left");
        ensure(left, "S1", || format!("{ticket:?} was not there to leave"))
    }
}

impl Before {
    /// Whether some endpoint had room for a call that could wait. The one that is picked need not have: it may be worth queueing for.
    fn has_space(&self, picked: &Picked) -> Checked {
        let is_bound = picked.why.reason == PickReason::Pinned;
        ensure(is_bound || self.rows.iter().any(|row| row.has_space), "S3", || {
            format!("{picked:?}, but nobody had room: {:?}", self.rows)
        })
    }

    /// Whether an ask could surely have gone.
    fn could_go(&self, ask: &Ask<'_>) -> bool {
        let free = |row: &&super::Seen| row.has_space && !row.is_ejected && !row.on_probation && self.can_serve(row);
        self.live < self.max_leases && !self.has_hard_filters && self.untried(ask).any(|row| free(&row))
    }
}

/// The class of that name, or the default one.
fn class(options: &WaitingOptions, name: Option<&str>) -> Arc<str> {
    let named = options.classes.iter().find(|class| Some(&*class.name) == name);
    named.unwrap_or(&options.classes[options.default_class]).name.clone()
}

pub(super) fn has_space(pool: &Pool, row: &crate::EndpointRow<'_>) -> bool {
    let waiting = &pool.options().waiting;
    let limit = 1.0 + waiting.headroom;
    row.uncached_tokens < waiting.prefill_tokens as f64
        && row.spared_for == Duration::ZERO
        && (!row.is_fresh
            || f64::from(row.estimate.queued) < f64::from(waiting.queued) * limit
                && row.estimate.kv_used.is_none_or(|used| used < waiting.kv_used * limit))
}

pub(super) fn options(rng: &mut Rng) -> WaitingOptions {
    let mut classes: Vec<_> = CLASSES
        .into_iter()
        .filter(|_| rng.bool())
        .map(ClassOptions::new)
        .collect();
    classes.push(ClassOptions::new("other"));
    for class in &mut classes {
        class.sheddable = rng.u32(..4) == 0;
        class.max_wait = (rng.u32(..4) == 0).then(|| Duration::from_millis(rng.u64(..3_000)));
    }
    WaitingOptions {
        calls: rng.u32(..12),
        bytes: rng.u64(1_000..9_000),
        max_wait: Duration::from_millis(rng.u64(..6_000)),
        prefill_tokens: rng.u64(1..9_000),
        prefill_time: None,
        token_time: None,
        queued: rng.u32(1..9),
        kv_used: 0.5 + rng.f64(),
        headroom: rng.f64() * 0.2,
        size_age: Duration::from_millis(rng.u64(..2_000)),
        class_age: Duration::from_millis(rng.u64(..2_000)),
        default_class: rng.usize(..classes.len()),
        classes,
    }
}
