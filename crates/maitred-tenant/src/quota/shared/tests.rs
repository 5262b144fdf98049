//! Many gateways, one bank, and everything that can happen to messages, gateways and the store, in virtual time.

use std::collections::{BTreeMap, VecDeque};

use maitred_types::UnixMillis;

use super::*;
use crate::quota::{Bank, Dimensions, LimitMatch, Measure};

mod outage;

const SUBJECT: Subject<'static> = Subject {
    tenant: "t",
    user: None,
    key: None,
    model: "m",
    task: Some("task"),
};
/// An evening, UTC: nine seconds before midnight.
const EVENING: u64 = 1_796_083_200_000 - MIDNIGHT;
const MIDNIGHT: u64 = 9_000;

fn limit(measure: Measure, amount: u64) -> Limit {
    Limit {
        name: "shared".to_owned(),
        only: LimitMatch::default(),
        per: Dimensions::TENANT,
        measure,
        amount,
        is_default: false,
    }
}

const fn tokens(tokens: u64) -> Amount {
    Amount { tokens, money: 0 }
}

fn at(millis: u64) -> Moment {
    Moment {
        now: Time::ZERO + Duration::from_millis(millis + 10),
        unix: UnixMillis::new(EVENING + millis),
    }
}

fn options(without_store: WithoutStore) -> SharedOptions {
    SharedOptions {
        counters: 100,
        gateways: 4,
        without_store,
    }
}

/// What may go wrong in a run.
#[derive(Clone, Copy, Debug, Default)]
struct Mishaps {
    /// Messages that are lost, of a hundred, and how late others are at most.
    lost: u64,
    late: u64,
    /// Gateways that die and come back, of ten thousand steps.
    deaths: u64,
    /// Times when the store cannot be reached, of ten thousand steps, and whether it forgets everything then.
    outages: u64,
    forgets: bool,
    /// Whether a gateway that starts while the store is gone asks a ledger, which knows what had ended so long ago.
    ledger: Option<u64>,
}

/// A negative control: something that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    /// The store tells gateways that they hold more than they do.
    Generous,
    /// The store does not hear what was spent.
    Deaf,
}

struct Gateway {
    id: u64,
    quota: SharedQuota,
    calls: Vec<(Reservation, u64, u64)>,
}

impl Gateway {
    fn new(id: u64, limit: &Limit) -> Self {
        Self {
            id,
            quota: SharedQuota::new(vec![limit.clone()], options(WithoutStore::LocalShare)),
            calls: Vec::new(),
        }
    }

    fn purse(&mut self) -> Option<&mut Purse> {
        let limit = self.quota.limits().to_vec().remove(0);
        let place = self.quota.table.look((0, &limit), &SUBJECT)?;
        self.quota.table.get_mut(place)
    }
}

enum Message {
    Asked(Question),
    Answered(Question, Option<Word>),
}

struct World {
    random: fastrand::Rng,
    limit: Limit,
    mishaps: Mishaps,
    broken: Option<Broken>,
    now: u64,
    next_id: u64,
    bank: Bank,
    gateways: Vec<Gateway>,
    /// By when they arrive, and the gateway's id.
    messages: BTreeMap<(u64, u64), (u64, Message)>,
    sent: u64,
    news_at: u64,
    outage_until: u64,
    /// When what was used: for what is counted by time.
    used: VecDeque<(u64, u64)>,
    /// What may pass the limit by the rules of the handbook.
    slack: u64,
    admitted: u64,
    refused: u64,
    largest: u64,
}

impl World {
    fn new(seed: u64, limit: Limit, mishaps: Mishaps) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            gateways: (1..=4).map(|id| Gateway::new(id, &limit)).collect(),
            largest: if matches!(limit.measure, Measure::Calls { .. } | Measure::ConcurrentCalls) {
                1
            } else {
                limit.amount / 20
            },
            limit,
            mishaps,
            broken: None,
            now: 0,
            next_id: 100,
            bank: Bank::default(),
            messages: BTreeMap::new(),
            sent: 0,
            news_at: 0,
            outage_until: 0,
            used: VecDeque::new(),
            slack: 0,
            admitted: 0,
            refused: 0,
        }
    }

    fn chance(&mut self, of_ten_thousand: u64) -> bool {
        self.random.u64(0..10_000) < of_ten_thousand
    }

    fn step(&mut self) {
        self.now += self.random.u64(1..20);
        let (deaths, outages) = (self.mishaps.deaths, self.mishaps.outages);
        if self.chance(deaths) {
            self.kill();
        }
        if self.chance(outages) {
            self.outage_until = self.now + self.random.u64(100..8_000);
            if self.mishaps.forgets && self.random.bool() {
                self.forget();
            }
        }
        self.deliver();
        self.talk();
        for index in 0..self.gateways.len() {
            self.end_calls(index);
            if self.random.u8(0..4) == 0 {
                self.call(index);
            }
        }
    }

    fn call(&mut self, index: usize) {
        let wanted = self.random.u64(1..=self.largest);
        let length = self.random.u64(1..600);
        let (now, gateway) = (self.now, &mut self.gateways[index]);
        match gateway.quota.reserve(&SUBJECT, tokens(wanted), at(now)) {
            Ok(reservation) => {
                self.admitted += 1;
                gateway.calls.push((reservation, wanted, now + length));
                if matches!(self.limit.measure, Measure::Calls { .. }) {
                    self.used.push_back((now, wanted));
                }
            }
            Err(_) => self.refused += 1,
        }
    }

    fn end_calls(&mut self, index: usize) {
        let gateway = &mut self.gateways[index];
        let (over, running) = gateway.calls.drain(..).partition(|(_, _, end)| *end <= self.now);
        gateway.calls = running;
        let over: Vec<(Reservation, u64, u64)> = over;
        for (reservation, wanted, _) in over {
            let spent = self.random.u64(0..=wanted);
            gateway.quota.settle(reservation, tokens(spent));
            if !matches!(self.limit.measure, Measure::Calls { .. } | Measure::ConcurrentCalls) {
                self.used.push_back((self.now, spent));
            }
        }
    }

    /// A gateway dies, and what its calls had reserved is used all the same. Another one comes in its place.
    fn kill(&mut self) {
        let index = self.random.usize(0..self.gateways.len());
        self.next_id += 1;
        let mut dead = std::mem::replace(&mut self.gateways[index], Gateway::new(self.next_id, &self.limit));
        self.slack += dead.purse().map_or(0, |purse| purse.unheard());
        if !matches!(self.limit.measure, Measure::Calls { .. } | Measure::ConcurrentCalls) {
            self.used
                .extend(dead.calls.iter().map(|(_, wanted, _)| (self.now, *wanted)));
        }
        if self.now < self.outage_until {
            self.slack += match self.mishaps.ledger {
                Some(lag) => outage::ask_ledger(self, index, lag),
                None => self.part(),
            };
        }
        // As at the start of a gateway: it asks what there is before it serves.
        for name in self.bank.news(0) {
            self.gateways[index].quota.hear_of(&name, at(self.now));
        }
    }

    /// What one gateway may take without knowing: its part, or a lone call.
    fn part(&self) -> u64 {
        (self.limit.amount / 4).max(self.largest)
    }

    fn forget(&mut self) {
        self.bank = Bank::default();
        // Whatever some have not been told, and what they believe to hold.
        self.slack += self.limit.amount;
    }

    /// Gateways speak, and hear of what others use.
    fn talk(&mut self) {
        let is_out = self.now < self.outage_until;
        for index in 0..self.gateways.len() {
            if !is_out && self.now >= self.news_at {
                for name in self.bank.news(self.news_at.saturating_sub(1000) + EVENING) {
                    self.gateways[index].quota.hear_of(&name, at(self.now));
                }
                self.gateways[index].quota.hear_from(4, at(self.now).now);
            }
            for question in self.gateways[index].quota.asks(100, at(self.now)) {
                let id = self.gateways[index].id;
                self.send(id, Message::Asked(question));
            }
        }
        if self.now >= self.news_at {
            self.news_at = self.now + 100;
        }
    }

    /// Sends a message; one that is lost is known to be lost after a while.
    fn send(&mut self, gateway: u64, message: Message) {
        self.sent += 1;
        let is_lost = self.random.u64(0..100) < self.mishaps.lost || self.now < self.outage_until;
        let mut arrives = self.now + self.random.u64(0..=self.mishaps.late);
        let message = match message {
            Message::Asked(question) | Message::Answered(question, _) if is_lost => {
                arrives = self.now + 300;
                Message::Answered(question, None)
            }
            Message::Asked(question) if self.random.u64(0..100) < self.mishaps.lost => {
                // It is taken for lost, and arrives much later.
                let lost = (gateway, Message::Answered(question.clone(), None));
                self.messages.insert((self.now + 300, self.sent), lost);
                self.sent += 1;
                arrives = self.now + 1_000;
                Message::Asked(question)
            }
            other => other,
        };
        self.messages.insert((arrives, self.sent), (gateway, message));
    }

    fn deliver(&mut self) {
        while let Some(entry) = self.messages.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (gateway, message) = entry.remove();
            match message {
                Message::Asked(mut question) => {
                    if self.broken == Some(Broken::Deaf) {
                        (question.ask.spent, question.ask.told) = (0, 0);
                    }
                    let mut word = self.bank.ask(gateway, &question.key, &question.ask, EVENING + self.now);
                    if let (Some(word), Some(Broken::Generous)) = (&mut word, self.broken) {
                        word.held += self.limit.amount / 4;
                    }
                    self.send(gateway, Message::Answered(question, word));
                }
                Message::Answered(question, word) => {
                    let now = at(self.now).now;
                    let Some(gateway) = self.gateways.iter_mut().find(|other| other.id == gateway) else {
                        continue;
                    };
                    // What it spent while the store had lost sight of it.
                    if word.is_some()
                        && let Some(purse) = gateway.purse()
                        && !purse.is_held(now)
                        && purse.is_known()
                    {
                        self.slack += purse.unheard();
                    }
                    gateway.quota.hear(&question, word, now);
                }
            }
        }
    }

    /// What is used in truth, by the limit's own measure.
    fn truth(&mut self) -> u64 {
        let reserved: u64 = self
            .gateways
            .iter()
            .flat_map(|gateway| &gateway.calls)
            .map(|(_, wanted, _)| wanted)
            .sum();
        let begin = match self.limit.measure {
            Measure::TokensPerMinute => self.now.saturating_sub(60_000),
            Measure::TokensPerDay if self.now >= MIDNIGHT => MIDNIGHT,
            _ => 0,
        };
        while self.used.front().is_some_and(|(when, _)| *when < begin) {
            self.used.pop_front();
        }
        match self.limit.measure {
            Measure::Calls { burst, .. } => {
                // How far ahead of an even stream.
                let mut level = 0.0_f64;
                let mut last = 0;
                for (when, _) in &self.used {
                    let gone = u32::try_from(when - last).unwrap();
                    level = (level - f64::from(gone) * f64::from(u32::try_from(self.limit.amount).unwrap()) / 1000.0)
                        .max(0.0)
                        + 1.0;
                    last = *when;
                }
                self.used.drain(..self.used.len().saturating_sub(2000));
                let over = level - f64::from(burst);
                if over <= 0.0 {
                    0
                } else {
                    format!("{:.0}", over.ceil()).parse::<u64>().unwrap() + self.limit.amount
                }
            }
            Measure::ConcurrentCalls => self.gateways.iter().map(|gateway| gateway.calls.len() as u64).sum(),
            _ => reserved + self.used.iter().map(|(_, amount)| amount).sum::<u64>(),
        }
    }

    fn check(&mut self) -> Result<(), String> {
        let (truth, allowed) = (self.truth(), self.limit.amount + 3 * self.part() + self.slack);
        if truth > allowed {
            return Err(format!(
                "{truth} are used of {} and {} of slack at {}",
                self.limit.amount, self.slack, self.now
            ));
        }
        Ok(())
    }

    fn run(&mut self, steps: u32) -> Result<(), String> {
        for _ in 0..steps {
            self.step();
            self.check()?;
        }
        Ok(())
    }

    /// Everybody is left in peace until everything has been said.
    fn calm(&mut self) {
        self.mishaps = Mishaps::default();
        self.outage_until = 0;
        for _ in 0..600 {
            self.now += 20;
            self.deliver();
            (0..self.gateways.len()).for_each(|index| self.end_calls(index));
            self.talk();
        }
    }

    /// Somebody asks, and so the store sees which leases are over.
    fn look(&mut self) {
        let limit = self.limit.clone();
        let mut looker = Gateway::new(9_998, &limit);
        looker.quota.hear_of(&self.key(), at(self.now));
        for question in looker.quota.asks(10, at(self.now)) {
            self.bank
                .ask(looker.id, &question.key, &question.ask, EVENING + self.now);
        }
    }

    fn key(&self) -> String {
        format!(
            "{} shared 1.t{}",
            self.limit.measure.name(),
            if self.limit.measure == Measure::TokensPerTask {
                "4.task"
            } else {
                ""
            }
        )
    }
}

fn measures() -> Vec<Limit> {
    let rate = Measure::Calls {
        period: Duration::from_secs(1),
        burst: 20,
    };
    vec![
        limit(rate, 20),
        limit(Measure::ConcurrentCalls, 10),
        limit(Measure::TokensPerMinute, 60_000),
        limit(Measure::TokensPerDay, 200_000),
        limit(Measure::TokensPerTask, 60_000),
    ]
}

const SEEDS: u64 = 60;
const STEPS: u32 = 1_500;

fn simulate(mishaps: Mishaps, check_end: impl Fn(&mut World)) {
    for limit in measures() {
        let (mut admitted, mut refused) = (0, 0);
        for seed in 0..SEEDS {
            let mut world = World::new(seed, limit.clone(), mishaps);
            if let Err(violation) = world.run(STEPS) {
                panic!("{:?}, seed {seed}: {violation}", limit.measure);
            }
            (admitted, refused) = (admitted + world.admitted, refused + world.refused);
            check_end(&mut world);
        }
        assert!(admitted > 0 && refused > 0, "{:?}: {admitted} {refused}", limit.measure);
    }
}

#[test]
fn a_limit_holds_over_gateways_that_live() {
    simulate(
        Mishaps {
            lost: 5,
            late: 100,
            ..Mishaps::default()
        },
        |world| {
            world.calm();
            let (spent, held) = world.bank.stands(&world.key());
            assert_eq!(held, 0, "{:?}", world.limit.measure);
            if world.limit.measure == Measure::TokensPerTask {
                let truth = world.truth();
                assert_eq!(spent, truth, "what was spent is what the store knows");
            }
        },
    );
}

#[test]
fn a_limit_holds_within_its_bound_when_gateways_die_and_the_store_goes() {
    let mishaps = Mishaps {
        lost: 5,
        late: 200,
        deaths: 20,
        outages: 20,
        ..Mishaps::default()
    };
    simulate(mishaps, |world| {
        world.calm();
        world.look();
        let (spent, held) = world.bank.stands(&world.key());
        assert_eq!(held, 0, "a lease is lost for ever: {:?}", world.limit.measure);
        if world.limit.measure == Measure::TokensPerTask {
            assert!(spent + world.slack >= world.truth());
            // What is left of it is there for whoever comes.
            let left = world.limit.amount.saturating_sub(spent);
            let mut last = Gateway::new(9_999, &world.limit.clone());
            last.quota.hear_of(&world.key(), at(world.now));
            for question in last.quota.asks(10, at(world.now)) {
                let word = world.bank.ask(9_999, &question.key, &question.ask, EVENING + world.now);
                last.quota.hear(&question, word, at(world.now).now);
            }
            assert!(last.quota.reserve(&SUBJECT, tokens(left), at(world.now)).is_ok());
            assert!(last.quota.reserve(&SUBJECT, tokens(1), at(world.now)).is_err());
        }
    });
}

#[test]
fn a_store_that_forgets_is_told_again() {
    let mishaps = Mishaps {
        lost: 2,
        late: 50,
        outages: 20,
        forgets: true,
        ..Mishaps::default()
    };
    simulate(mishaps, |world| {
        world.calm();
        world.look();
        let (spent, held) = world.bank.stands(&world.key());
        assert_eq!(held, 0);
        if world.limit.measure == Measure::TokensPerTask {
            assert!(
                spent <= world.truth() + world.slack && spent + world.slack >= world.truth(),
                "{spent} {}",
                world.truth()
            );
        }
    });
}

#[test]
fn what_is_broken_is_seen() {
    let task = limit(Measure::TokensPerTask, 60_000);
    for broken in [Broken::Generous, Broken::Deaf] {
        let mut world = World::new(1, task.clone(), Mishaps::default());
        world.broken = Some(broken);
        assert!(world.run(STEPS).is_err(), "{broken:?}");
    }
}

/// One gateway of two, and the store.
struct Pair {
    bank: Bank,
    quota: SharedQuota,
}

impl Pair {
    fn new(limit: Limit, without_store: WithoutStore) -> Self {
        let options = SharedOptions {
            gateways: 2,
            ..options(without_store)
        };
        Self {
            bank: Bank::default(),
            quota: SharedQuota::new(vec![limit], options),
        }
    }

    /// Everything that is to be asked is asked and answered at once.
    fn sync(&mut self, millis: u64) {
        for question in self.quota.asks(10, at(millis)) {
            let word = self.bank.ask(1, &question.key, &question.ask, EVENING + millis);
            self.quota.hear(&question, word, at(millis).now);
        }
    }

    fn reserve(&mut self, amount: u64, millis: u64) -> Result<Reservation, QuotaRefusal> {
        self.quota.reserve(&SUBJECT, tokens(amount), at(millis))
    }
}

#[test]
fn a_first_call_is_not_refused_and_is_told_at_once() {
    let mut pair = Pair::new(limit(Measure::TokensPerTask, 100), WithoutStore::LocalShare);
    // A lone call may be larger than this gateway's part; a second one may not.
    let first = pair.reserve(80, 0).unwrap();
    assert!(first.is_blind);
    assert_eq!(
        first.tokens.map(|standing| (standing.limit, standing.remaining)),
        Some((100, 0))
    );
    assert!(pair.quota.take_hunger());
    pair.reserve(10, 0).unwrap_err();
    pair.sync(5);
    assert_eq!(pair.bank.stands("tokens_per_task shared 1.t4.task"), (0, 90));
    let second = pair.reserve(10, 10).unwrap();
    assert!(!second.is_blind, "what was refused before is held now");
    pair.quota.settle(first, tokens(30));
    pair.quota.settle(second, tokens(10));
    for question in pair.quota.last_asks(at(100)) {
        pair.bank.ask(1, &question.key, &question.ask, EVENING + 100);
    }
    assert_eq!(pair.bank.stands("tokens_per_task shared 1.t4.task"), (40, 0));
}

#[test]
fn without_the_store_a_gateway_has_its_part_or_nothing() {
    let mut pair = Pair::new(limit(Measure::TokensPerTask, 100), WithoutStore::LocalShare);
    let first = pair.reserve(20, 0).unwrap();
    pair.sync(5);
    pair.quota.settle(first, tokens(20));
    pair.sync(500);
    // The lease runs out; 80 were free, with what it held, and half of that is its part.
    let blind = pair.reserve(40, 10_000).unwrap();
    assert!(blind.is_blind);
    assert_eq!(blind.tokens.map(|standing| standing.remaining), Some(0));
    assert!(matches!(pair.reserve(1, 10_000), Err(QuotaRefusal::Exceeded { .. })));

    let mut strict = Pair::new(limit(Measure::TokensPerTask, 100), WithoutStore::Refuse);
    assert_eq!(strict.reserve(1, 0), Err(QuotaRefusal::StoreGone));
    strict.quota.hear_from(2, at(1).now);
    let call = strict.reserve(1, 2).unwrap();
    strict.sync(10);
    assert!(strict.reserve(1, 20).is_ok());
    strict.quota.settle(call, tokens(1));
    assert_eq!(strict.reserve(1, 10_000), Err(QuotaRefusal::StoreGone));
}

#[test]
fn a_gateway_alone_is_given_back_what_time_gives_back() {
    let rate = Measure::Calls {
        period: Duration::from_secs(1),
        burst: 4,
    };
    let mut pair = Pair::new(limit(rate, 4), WithoutStore::LocalShare);
    let calls = |pair: &mut Pair, millis| (0..10).filter(|_| pair.reserve(1, millis).is_ok()).count();
    assert_eq!(calls(&mut pair, 0), 2, "half of the burst");
    assert_eq!(calls(&mut pair, 1_000), 2, "half of the rate");
    let mut minute = Pair::new(limit(Measure::TokensPerMinute, 100), WithoutStore::LocalShare);
    let first = minute.reserve(50, 0).unwrap();
    minute.quota.settle(first, tokens(50));
    minute.reserve(50, 30_000).unwrap_err();
    assert!(minute.reserve(50, 75_000).is_ok());
}

#[test]
fn an_ask_that_comes_late_changes_nothing() {
    let mut pair = Pair::new(limit(Measure::TokensPerTask, 100), WithoutStore::LocalShare);
    let call = pair.reserve(20, 0).unwrap();
    let late = pair.quota.asks(10, at(0)).remove(0);
    pair.quota.hear(&late, None, at(100).now);
    pair.quota.settle(call, tokens(5));
    pair.sync(200);
    let stands = pair.bank.stands(&late.key);
    assert_eq!(pair.bank.ask(1, &late.key, &late.ask, EVENING + 300), None);
    assert_eq!(pair.bank.stands(&late.key), stands);
}

#[test]
fn a_dead_gateways_lease_is_taken_back_once() {
    let mut pair = Pair::new(limit(Measure::TokensPerTask, 100), WithoutStore::LocalShare);
    let call = pair.reserve(20, 0).unwrap();
    pair.sync(5);
    // For the store it is dead: the call counts as spent, the rest is free.
    let mut other = SharedQuota::new(pair.quota.limits().to_vec(), options(WithoutStore::LocalShare));
    let key = "tokens_per_task shared 1.t4.task";
    let mut look = |bank: &mut Bank, millis| {
        other.hear_of(key, at(millis));
        for question in other.asks(10, at(millis)) {
            let word = bank.ask(2, &question.key, &question.ask, EVENING + millis);
            other.hear(&question, word, at(millis).now);
        }
    };
    look(&mut pair.bank, 6_000);
    assert_eq!(pair.bank.stands(key), (20, 0));
    // It was not. Its word is believed, and nothing is given twice.
    pair.quota.settle(call, tokens(12));
    pair.sync(7_000);
    assert_eq!(pair.bank.stands(key), (12, 0));
    look(&mut pair.bank, 20_000);
    assert_eq!(pair.bank.stands(key), (12, 0));
}
