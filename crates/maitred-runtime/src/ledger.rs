//! The ledger, as the data path writes it: a call's beginning before its endpoint is asked, and its end once.

use std::sync::Arc;
use std::time::Duration;

use maitred_store::ledger::{
    AttemptHead, Begun, CallHead, Degrades, Ending, Entry, Expected, Ledger, TargetHead, Unavailable,
};
use maitred_tenant::{Price, Principal};
use maitred_types::{Address, Degradation, Dialect, FaultKind, RequestId, Time, UnixMillis, Usage};

use crate::target::Target;

/// What of a call is entered when it begins.
#[derive(Clone, Copy, Debug)]
pub struct CallFacts<'a> {
    /// Its id.
    pub request_id: &'a RequestId,
    /// When it arrived.
    pub arrived: Time,
    /// The same in civil time.
    pub arrived_unix: UnixMillis,
    /// Whose it is.
    pub principal: &'a Principal,
    /// The task it belongs to.
    pub task: Option<&'a str>,
    /// The name that was asked for.
    pub asked: &'a str,
    /// Where it goes.
    pub target: &'a Target,
    /// The place of that in the call's plan.
    pub hop: usize,
    /// What an answer from there is called, if it is not what was asked for.
    pub degrades: Option<Degradation>,
    /// What its client speaks.
    pub dialect: Dialect,
    /// What it costs.
    pub price: Option<&'a Price>,
    /// What it is expected to use.
    pub expected: Expected,
}

/// How an attempt or a call ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// What it used; `None` if no model worked for it.
    pub usage: Option<Usage>,
    /// When its first output came.
    pub first_token: Option<Time>,
    /// In one word.
    pub outcome: &'static str,
    /// What went wrong, if anything did.
    pub fault: Option<FaultKind>,
    /// What it costs, in billionths of the currency's unit.
    pub money: u64,
    /// When.
    pub at: Time,
}

impl Ended {
    fn since(&self, beginning: Time) -> Ending<&'static str> {
        Ending {
            usage: self.usage,
            first_token_us: self.first_token.map(|first| micros(first - beginning)),
            total_us: micros(self.at - beginning),
            outcome: self.outcome,
            fault: self.fault.map(FaultKind::label),
            money: self.money,
        }
    }
}

/// A call that is in the ledger. End it with [`Kept::end`]: an entry without an end is open until the gateway dies.
#[derive(Debug)]
pub struct Kept {
    ledger: Arc<Ledger>,
    call: u64,
    arrived: Time,
    attempts: u32,
    /// The place in the plan of the target that was entered last.
    hop: Option<usize>,
    /// When the attempt that is under way began.
    attempt: Option<Time>,
}

impl Kept {
    /// A call that is about to be entered.
    #[must_use]
    pub fn new(ledger: &Arc<Ledger>, arrived: Time) -> Self {
        Self {
            ledger: Arc::clone(ledger),
            call: ledger.number(),
            arrived,
            attempts: 0,
            hop: None,
            attempt: None,
        }
    }

    /// Enters that an attempt at `endpoint` begins, and with the first one the call. What is returned completes when that is durable; from
    /// now on the attempt has to end, whether it is waited for or not.
    ///
    /// # Errors
    /// The call must not go on, and the attempt has not begun.
    pub fn begin(&mut self, facts: &CallFacts<'_>, endpoint: &Address, now: Time) -> Result<Begun, Unavailable> {
        let number = self.attempts + 1;
        let attempt = Entry::Attempt {
            call: self.call,
            number,
            head: AttemptHead {
                endpoint: endpoint.as_str(),
                began_us: micros(now - self.arrived),
            },
        };
        let call = (self.attempts == 0).then(|| self.head(facts));
        let begun = match (call, self.target(facts)) {
            (None, None) => self.ledger.begin(&[attempt]),
            (Some(call), None) => self.ledger.begin(&[call, attempt]),
            (None, Some(target)) => self.ledger.begin(&[target, attempt]),
            (Some(call), Some(target)) => self.ledger.begin(&[call, target, attempt]),
        }?;
        self.hop = Some(facts.hop);
        self.attempts = number;
        self.attempt = Some(now);
        Ok(begun)
    }

    /// The attempt that is under way has ended, and another may follow.
    pub fn end_attempt(&mut self, ended: &Ended) {
        if let Some(entry) = self.attempt_end(ended) {
            self.ledger.end(&[entry]);
        }
    }

    /// Whether the call is in the ledger.
    #[must_use]
    pub const fn is_entered(&self) -> bool {
        self.attempts > 0
    }

    /// The call has ended, and with it the attempt that is under way, if one is: then it ended as `attempt` says. A call for which no
    /// attempt was made is entered with its end.
    pub fn end(mut self, facts: &CallFacts<'_>, attempt: &Ended, call: &Ended, is_degraded: bool) {
        let end = Entry::CallEnd {
            call: self.call,
            ending: call.since(self.arrived),
            is_degraded,
        };
        if self.attempts == 0 {
            match self.target(facts) {
                None => self.ledger.enter(&[self.head(facts), end]),
                Some(target) => self.ledger.enter(&[self.head(facts), target, end]),
            }
            return;
        }
        match self.attempt_end(attempt) {
            Some(attempt) => self.ledger.end(&[attempt, end]),
            None => self.ledger.end(&[end]),
        }
    }

    fn attempt_end(&mut self, ended: &Ended) -> Option<Entry<&'static str>> {
        let began = self.attempt.take()?;
        Some(Entry::AttemptEnd {
            call: self.call,
            number: self.attempts,
            ending: ended.since(began),
        })
    }

    /// The target, if it says more than what is entered.
    fn target<'a>(&self, facts: &CallFacts<'a>) -> Option<Entry<&'a str>> {
        let target = facts.target;
        let is_known = match self.hop {
            Some(hop) => hop == facts.hop,
            None => facts.asked == target.model.as_str() && facts.degrades.is_none(),
        };
        let head = || TargetHead {
            asked: facts.asked,
            model: target.model.as_str(),
            served: target.served_as.as_str(),
            pool: target.pool.name().as_str(),
            price: facts.price.map(|price| &*price.version),
            expected: facts.expected,
            degrades: facts.degrades.map(|degradation| Degrades {
                kind: degradation.kind.label(),
                reason: degradation.reason.label(),
            }),
        };
        (!is_known).then(|| Entry::Target {
            call: self.call,
            head: head(),
        })
    }

    fn head<'a>(&self, facts: &CallFacts<'a>) -> Entry<&'a str> {
        let CallFacts { principal, target, .. } = *facts;
        let head = CallHead {
            request_id: facts.request_id.as_str(),
            arrived: facts.arrived_unix,
            tenant: principal.tenant.as_str(),
            user: principal.user(),
            key: principal.key.as_ref().map(maitred_types::KeyId::as_str),
            task: facts.task,
            model: target.model.as_str(),
            served: target.served_as.as_str(),
            pool: target.pool.name().as_str(),
            dialect: match facts.dialect {
                Dialect::OpenAi => "openai",
                Dialect::Anthropic => "anthropic",
            },
            price: facts.price.map(|price| &*price.version),
            expected: facts.expected,
        };
        Entry::Call { call: self.call, head }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
