//! The waiting room of a pool: asks that wait until an endpoint has room for them.
//!
//! # Order
//!
//! Classes go by strict priority, with ageing: a class ahead is worth [`WaitingOptions::class_age`] of waiting. When the oldest call of
//! a lower class has waited so much longer than the oldest of the highest class that waits, it goes first, it alone. Inside a class
//! tenants take turns by uncached tokens, and inside a tenant calls go shortest first with ageing: see `line`.
//!
//! # Bounds
//!
//! Calls and bytes. A newcomer that does not fit takes the place of a call that is shed before it: of sheddable classes first, of lower
//! ones before higher ones, and inside its own class of the tenant that takes most of the room, if that is more than its own tenant
//! would take. If there is none it is shed itself. So nobody can fill the room to keep others out.
//!
//! Every set here is ordered and holds each waiting call once; each step costs the logarithm of their number.

pub(crate) mod busy;
pub(crate) mod call;
mod line;
mod pace;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use maitred_types::Time;
use smallvec::SmallVec;

use crate::ask::{Ask, Refusal};
use crate::waiting::{ClassReport, MAX_CLASSES, RoomReport, ShedCause, TicketId, WaitingOptions};
use call::{Kept, Waiter};
use line::{Line, Seat};
use pace::Pace;

/// The whole room, in the parts that a tenant's share is counted in.
const WHOLE: u64 = 1 << 20;
const INDEX_BITS: u32 = 20;
/// The most calls that a room can be told to hold.
pub(crate) const MAX_WAITING: u32 = 1 << INDEX_BITS;
/// Longest wait that anybody is told.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

#[derive(Debug)]
struct Entry {
    generation: u64,
    waiter: Option<Waiter>,
}

/// A wait that ended without a place and that nobody has fetched.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) ticket: TicketId,
    pub(crate) waited: Duration,
    pub(crate) refusal: Refusal,
}

/// What the room is told of a newcomer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Newcomer {
    /// Its uncached prompt tokens.
    pub(crate) tokens: u64,
    /// How long the fastest endpoint needs for it.
    pub(crate) service: Duration,
    /// Prompt tokens a second that the endpoints are believed to compute together, until it is measured.
    pub(crate) pace: f64,
    pub(crate) now: Time,
    /// Drawn from 0 to 1, for what is shed by chance.
    pub(crate) chance: f64,
}

/// The calls that wait.
#[derive(Debug)]
pub(crate) struct Room {
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// By class, highest first.
    lines: Vec<Line>,
    /// By the end of their time.
    due: BTreeSet<(Time, TicketId)>,
    ended: VecDeque<Ended>,
    /// Waits that ended without a place, in all.
    shed: u64,
    bytes: u64,
    pace: Pace,
    /// Calls above the cap that a lowered cap left behind; never grows.
    ceiling: usize,
    /// Whether something happened since it was last found that nobody can go.
    pub(crate) may_go: bool,
}

impl Room {
    pub(crate) fn new(options: &WaitingOptions) -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            lines: lines(options),
            due: BTreeSet::new(),
            ended: VecDeque::new(),
            shed: 0,
            bytes: 0,
            pace: Pace::default(),
            ceiling: 0,
            may_go: false,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.due.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// Whether there is nothing to release and nothing to say.
    pub(crate) fn is_quiet(&self) -> bool {
        self.due.is_empty() && self.ended.is_empty()
    }

    /// Waits that ended without a place, in all.
    pub(crate) const fn shed(&self) -> u64 {
        self.shed
    }

    /// When the time of the next call is over.
    pub(crate) fn next_due(&self) -> Option<Time> {
        self.due.first().map(|(until, _)| *until)
    }

    /// The place of a class among the options' classes.
    fn class(name: Option<&str>, options: &WaitingOptions) -> usize {
        let known = options.classes.iter().take(MAX_CLASSES);
        let last = known.len().saturating_sub(1);
        let named = name.and_then(|name| known.clone().position(|class| &*class.name == name));
        named.unwrap_or(options.default_class).min(last)
    }

    /// Takes a call in, or says why not; then somebody else may have to go instead, which [`Room::poll_ended`] says.
    pub(crate) fn enter(
        &mut self,
        ask: &Ask<'_>,
        new: &Newcomer,
        options: &WaitingOptions,
    ) -> Result<TicketId, Refusal> {
        let now = new.now;
        let class = Self::class(ask.class, options);
        let kind = options.classes.get(class);
        let longest = kind.and_then(|kind| kind.max_wait).unwrap_or(options.max_wait);
        let arrived = ask.arrived.unwrap_or(now).min(now);
        let by_deadline = ask.deadline.map(|deadline| deadline.saturating_sub(new.service));
        let is_late_then = by_deadline.is_some_and(|late| late < now + longest);
        let until = by_deadline.map_or(now + longest, |late| late.min(now + longest));
        let weight = ask.weight.max(1);
        let tokens = new.tokens.max(1);
        self.pace.assume(new.pace);
        self.pace.count(now);
        let wait = self.wait(class, ask.tenant, weight, tokens);
        let shed = |cause| {
            Err(Refusal::Shed {
                cause,
                retry_after: honest(wait),
            })
        };
        if until <= now {
            return shed(if is_late_then {
                ShedCause::TooLate
            } else {
                ShedCause::WaitedOut
            });
        }
        if kind.is_some_and(|kind| kind.sheddable) && new.chance < shed_chance(wait, longest) {
            return shed(ShedCause::Sheddable);
        }
        // Its own part of the wait is left out, so that an empty room always takes a call: else a pace once measured low would stay.
        if self.pace.is_learnt() && wait.saturating_sub(self.pace.time_for(tokens)) > until.since(now) {
            return shed(ShedCause::NoHope);
        }
        let bulk = bulk(ask.bytes, options);
        let seat = Seat {
            tenant: ask.tenant,
            weight,
            arrived,
            tokens,
            bulk,
            place: line::place(arrived, tokens, options.size_age),
        };
        let waiter = Waiter {
            kept: Kept::of(ask),
            seat,
            class,
            bytes: ask.bytes,
            since: now,
            until,
            is_late_then,
        };
        if !self.make_room(&waiter, options) {
            return shed(ShedCause::RoomFull);
        }
        self.pace.begin(now);
        Ok(self.insert(waiter))
    }

    fn insert(&mut self, waiter: Waiter) -> TicketId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Entry {
                generation: 0,
                waiter: None,
            });
            u32::try_from(self.entries.len() - 1).unwrap_or(MAX_WAITING)
        });
        let entry = &mut self.entries[index as usize];
        let ticket = TicketId(entry.generation << INDEX_BITS | u64::from(index));
        self.bytes += waiter.bytes;
        self.due.insert((waiter.until, ticket));
        self.lines[waiter.class].join(ticket, &waiter.seat);
        entry.waiter = Some(waiter);
        ticket
    }

    /// Sheds others so that a newcomer fits; false if it is the newcomer who has to go, and then nobody else has to.
    fn make_room(&mut self, new: &Waiter, options: &WaitingOptions) -> bool {
        let cap = options.calls.min(MAX_WAITING) as usize;
        // What a lowered cap left behind stays, and what nobody fetches must not grow either.
        if self.len() > cap || self.bytes > options.bytes || self.ended.len() > cap {
            return false;
        }
        let mut victims: SmallVec<[(TicketId, Waiter); 1]> = SmallVec::new();
        let mut held = self.bytes;
        let fits = loop {
            if self.len() - victims.len() < cap && held + new.bytes <= options.bytes {
                break true;
            }
            let victim = self.victim(&new.seat, new.class, options);
            let Some((ticket, waiter)) = victim.and_then(|ticket| Some((ticket, self.step_aside(ticket)?))) else {
                break false;
            };
            held -= waiter.bytes;
            victims.push((ticket, waiter));
        };
        for (ticket, waiter) in victims {
            self.step_back(ticket, waiter);
            if fits {
                self.end(ticket, ShedCause::Displaced, new.since);
            }
        }
        fits
    }

    /// Who is shed for a newcomer; `None` if nobody is worth less than it.
    fn victim(&self, seat: &Seat, class: usize, options: &WaitingOptions) -> Option<TicketId> {
        let is_sheddable = |at: &usize| options.classes.get(*at).is_some_and(|kind| kind.sheddable);
        let upwards = || (0..self.lines.len()).rev();
        let first = upwards().filter(is_sheddable);
        let after = upwards().filter(|at| !is_sheddable(at));
        for at in first.chain(after) {
            let last = self.lines[at].last();
            if at == class {
                let own = self.lines[at].bulk_of(seat.tenant) + seat.bulk;
                return last.filter(|(bulk, _)| *bulk > own).map(|(_, ticket)| ticket);
            }
            if let Some((_, ticket)) = last {
                return Some(ticket);
            }
        }
        None
    }

    /// Tokens that go before a newcomer's, its own included, as time.
    fn wait(&self, class: usize, tenant: u64, weight: u32, tokens: u64) -> Duration {
        let higher: u64 = self.lines[..class].iter().map(Line::total_tokens).sum();
        let before = higher + self.lines[class].before(tenant, weight, tokens) + tokens;
        self.pace.time_for(before)
    }

    fn get(&self, ticket: TicketId) -> Option<&Waiter> {
        let entry = self.entries.get(index(ticket))?;
        let is_same = ticket.0 >> INDEX_BITS == entry.generation;
        entry.waiter.as_ref().filter(|_| is_same)
    }

    /// Takes a call out, whatever the reason.
    pub(crate) fn take(&mut self, ticket: TicketId, now: Time) -> Option<Waiter> {
        self.get(ticket)?;
        let at = index(ticket);
        let entry = &mut self.entries[at];
        let waiter = entry.waiter.take()?;
        entry.generation += 1;
        self.free.push(u32::try_from(at).unwrap_or(MAX_WAITING));
        self.bytes -= waiter.bytes;
        self.due.remove(&(waiter.until, ticket));
        self.lines[waiter.class].part(ticket, &waiter.seat);
        self.lines[waiter.class].forget_idle();
        self.ceiling = self.ceiling.min(self.len());
        if self.is_empty() {
            self.pace.end(now);
            self.may_go = false;
        }
        Some(waiter)
    }

    /// Ends a wait without a place.
    fn end(&mut self, ticket: TicketId, cause: ShedCause, now: Time) {
        let Some(waiter) = self.take(ticket, now) else { return };
        let Seat {
            tenant, weight, tokens, ..
        } = waiter.seat;
        let wait = self.wait(waiter.class, tenant, weight, tokens);
        self.shed += 1;
        self.ended.push_back(Ended {
            ticket,
            waited: now.since(waiter.since),
            refusal: Refusal::Shed {
                cause,
                retry_after: honest(wait),
            },
        });
    }

    /// Ends the waits whose time is over.
    pub(crate) fn end_due(&mut self, now: Time) {
        while let Some((until, ticket)) = self.due.first().copied() {
            if until > now {
                break;
            }
            let is_late = self.get(ticket).is_some_and(|waiter| waiter.is_late_then);
            let cause = if is_late {
                ShedCause::TooLate
            } else {
                ShedCause::WaitedOut
            };
            self.end(ticket, cause, now);
        }
    }

    /// Ends every wait.
    pub(crate) fn dismiss(&mut self, now: Time) {
        while let Some((_, ticket)) = self.due.first().copied() {
            self.end(ticket, ShedCause::WaitedOut, now);
        }
    }

    /// A wait that ended without a place.
    pub(crate) fn poll_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    /// Who would go last of the highest class.
    pub(crate) fn least(&self) -> Option<TicketId> {
        self.lines.iter().find_map(Line::last).map(|(_, ticket)| ticket)
    }

    /// Who goes next.
    pub(crate) fn next(&self, options: &WaitingOptions) -> Option<TicketId> {
        let oldest = |at: usize| self.lines[at].oldest();
        let (first, line) = self.lines.iter().enumerate().find(|(_, line)| !line.is_empty())?;
        let mut best = (line.oldest()?.0, line.next()?);
        for at in first + 1..self.lines.len() {
            let ahead = u32::try_from(at - first).unwrap_or(u32::MAX);
            if let Some((since, ticket)) = oldest(at)
                && since + options.class_age.saturating_mul(ahead) < best.0
            {
                best = (since + options.class_age.saturating_mul(ahead), ticket);
            }
        }
        Some(best.1)
    }

    /// Steps aside for a moment, so that [`Room::next`] names somebody else. [`Room::step_back`] must follow.
    pub(crate) fn step_aside(&mut self, ticket: TicketId) -> Option<Waiter> {
        let entry = self.entries.get_mut(index(ticket))?;
        let waiter = entry.waiter.take()?;
        self.lines[waiter.class].part(ticket, &waiter.seat);
        Some(waiter)
    }

    /// Takes its place again.
    pub(crate) fn step_back(&mut self, ticket: TicketId, waiter: Waiter) {
        self.lines[waiter.class].join_again(ticket, &waiter.seat);
        if let Some(entry) = self.entries.get_mut(index(ticket)) {
            entry.waiter = Some(waiter);
        }
    }

    /// A call goes, and so many tokens of it have to be computed: charges its tenant, and says how long it waited.
    pub(crate) fn go(&mut self, ticket: TicketId, tokens: u32, now: Time) -> Option<(Charge, Duration)> {
        let waiter = self.take(ticket, now)?;
        let tenant = waiter.seat.tenant;
        let class = u8::try_from(waiter.class).unwrap_or(u8::MAX);
        self.lines[waiter.class].charge(tenant, u64::from(tokens));
        self.pace.released(waiter.seat.tokens, now);
        Some((Charge { class, tenant }, now.since(waiter.since)))
    }
}

/// Whose account a released call was charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    class: u8,
    tenant: u64,
}

impl Room {
    /// Gives back tokens that were charged and then read from a cache.
    pub(crate) fn give_back(&mut self, charge: Charge, tokens: u64) {
        if let Some(line) = self.lines.get_mut(usize::from(charge.class)) {
            line.give_back(charge.tenant, tokens);
        }
    }

    /// Takes other settings. Every call keeps waiting; who waits in a class that there is no more is moved to the default class.
    pub(crate) fn reconfigure(&mut self, before: &WaitingOptions, options: &WaitingOptions, now: Time) {
        if before == options {
            return;
        }
        let mut moved = Vec::with_capacity(self.len());
        for (_, ticket) in std::mem::take(&mut self.due) {
            let waiter = self.step_aside(ticket);
            moved.extend(waiter.map(|waiter| (ticket, waiter)));
        }
        let is_same_order = before
            .classes
            .iter()
            .map(|class| &class.name)
            .eq(options.classes.iter().map(|class| &class.name));
        if !is_same_order {
            self.lines.clear();
        }
        self.lines.resize_with(count(options), Line::default);
        for (ticket, mut waiter) in moved {
            let name = before.classes.get(waiter.class).map(|class| &*class.name);
            if !is_same_order {
                waiter.class = Self::class(name, options);
            }
            waiter.seat.bulk = bulk(waiter.bytes, options);
            waiter.seat.place = line::place(waiter.seat.arrived, waiter.seat.tokens, options.size_age);
            self.due.insert((waiter.until, ticket));
            self.step_back(ticket, waiter);
        }
        self.ceiling = self.len();
        self.pace.count(now);
        self.may_go = !self.is_empty();
    }

    pub(crate) fn report(&self, options: &WaitingOptions, now: Time) -> RoomReport {
        let classes = options
            .classes
            .iter()
            .zip(&self.lines)
            .map(|(class, line)| ClassReport {
                name: class.name.clone(),
                calls: line.len(),
                tokens: line.total_tokens(),
                oldest: line.oldest().map(|(since, _)| now.since(since)),
            });
        RoomReport {
            calls: self.len(),
            bytes: self.bytes,
            pace: self.pace.tokens_per_second(),
            classes: classes.collect(),
        }
    }

    /// What does not add up, with the invariant's number.
    pub(crate) fn fault(&self, options: &WaitingOptions) -> Option<(&'static str, String)> {
        let waiting = self.entries.iter().filter(|entry| entry.waiter.is_some()).count();
        if waiting != self.len() {
            return Some(("S1", format!("{waiting} calls wait, {} have a time limit", self.len())));
        }
        let mut seats = vec![BTreeMap::new(); self.lines.len()];
        let mut bytes = 0;
        for (until, ticket) in &self.due {
            let Some(waiter) = self.get(*ticket).filter(|waiter| waiter.until == *until) else {
                return Some(("S1", format!("{ticket:?} has a time limit and does not wait")));
            };
            bytes += waiter.bytes;
            seats[waiter.class].insert(*ticket, waiter.seat);
        }
        let lines = self.lines.iter().zip(&seats);
        if let Some(fault) = lines.filter_map(|(line, seats)| line.fault(seats)).next() {
            return Some(("S1", fault.to_owned()));
        }
        if bytes != self.bytes {
            return Some(("S1", format!("{bytes} bytes wait, {} counted", self.bytes)));
        }
        let most = (options.calls.min(MAX_WAITING) as usize).max(self.ceiling);
        if self.len() > most {
            return Some(("S4", format!("{} calls wait, of {most}", self.len())));
        }
        if self.ceiling < self.len() && self.bytes > options.bytes {
            return Some(("S4", format!("{} bytes wait, of {}", self.bytes, options.bytes)));
        }
        None
    }
}

fn lines(options: &WaitingOptions) -> Vec<Line> {
    (0..count(options)).map(|_| Line::default()).collect()
}

fn count(options: &WaitingOptions) -> usize {
    options.classes.len().clamp(1, MAX_CLASSES)
}

fn bulk(bytes: u64, options: &WaitingOptions) -> u64 {
    WHOLE / u64::from(options.calls.max(1)) + bytes.saturating_mul(WHOLE) / options.bytes.max(1)
}

/// The chance with which a sheddable call is shed: 300 s⁵, where s is the wait before it as a part of the longest it may have. So
/// nothing is shed while waits are short, and all of it from a third of the longest wait on.
fn shed_chance(wait: Duration, longest: Duration) -> f64 {
    let s = wait.as_secs_f64() / longest.as_secs_f64().max(f64::MIN_POSITIVE);
    300.0 * s.powi(5)
}

/// What may be said as a time to try again.
fn honest(wait: Duration) -> Duration {
    wait.min(MAX_RETRY_AFTER)
}

const fn index(ticket: TicketId) -> usize {
    (ticket.0 & ((1 << INDEX_BITS) - 1)) as usize
}
