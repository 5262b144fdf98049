//! What a call is charged and what the ledger is told of it.
//!
//! A call is charged for the attempt that answered it, that its client left, or in which its time was up. What failed attempts used stands on their own rows:
//! it was used, but it is not the caller's fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use maitred_runtime::{CallFacts, Ended, Expected, Kept, Price, Unavailable};
use maitred_types::{FaultKind, LeaseEnd, ModelName, OutcomeStatus, Time, TokenCount, Usage, UsageSource};

use crate::account::Account;
use crate::fault::Fault;

/// Output that is assumed where nobody saw it, of each choice: about what one sequence gets of a busy server.
const TOKENS_PER_SECOND: u128 = 100;

/// What is known of a call's costs.
#[derive(Debug, Default)]
pub(crate) struct Billing {
    /// Calls are in the ledger from their admission on.
    is_admitted: bool,
    price: Option<Arc<Price>>,
    /// What one attempt is expected to use; `None` if no model is to work.
    expected: Option<Expected>,
    /// What an attempt can generate.
    bound: OutputBound,
    /// When the attempt that is under way was sent to its endpoint, in nanoseconds of the gateway's clock; 0 before that.
    sent: AtomicU64,
    /// The share of its endpoint's time that the attempt had which has ended last.
    pub(crate) share: Duration,
    /// Whether the endpoint has said of this attempt that it answers.
    is_begun: AtomicBool,
    kept: Option<Kept>,
}

/// What a call can generate at most.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OutputBound {
    /// Output tokens of all choices together.
    pub(crate) tokens: TokenCount,
    /// Choices, which are generated side by side.
    pub(crate) choices: u64,
}

impl OutputBound {
    /// Output that an endpoint may have made in so much time.
    fn after(self, time: Duration) -> TokenCount {
        let of_one = u64::try_from(time.as_millis() / (1000 / TOKENS_PER_SECOND)).unwrap_or(u64::MAX);
        self.tokens
            .min(TokenCount::saturating_from(of_one.saturating_mul(self.choices)))
    }
}

impl Billing {
    /// The call is admitted to a target: it will be charged and entered. What has been entered of it stays so.
    pub(crate) fn admit(
        &mut self,
        price: Option<Arc<Price>>,
        expected: Option<(TokenCount, TokenCount)>,
        bound: OutputBound,
    ) {
        self.expected = expected.map(|(input, output)| Expected {
            input,
            output,
            money: price.as_ref().map_or(0, |price| price.at_most(input, output)),
        });
        self.is_admitted = true;
        self.price = price;
        self.bound = bound;
        self.share = Duration::ZERO;
        self.sent.store(0, Ordering::Relaxed);
        self.is_begun.store(false, Ordering::Relaxed);
    }

    /// From now on the endpoint may be at work.
    pub(crate) fn sent(&self, now: Time) {
        self.is_begun.store(false, Ordering::Relaxed);
        self.sent.store(now.as_nanos().max(1), Ordering::Relaxed);
    }

    /// The endpoint has accepted the call and answers: whatever it says from here on, it has worked.
    pub(crate) fn begun(&self) {
        self.is_begun.store(true, Ordering::Relaxed);
    }

    /// What the attempt cost that has ended last, and used so much.
    fn spent(&self, usage: Option<&Usage>) -> u64 {
        self.price.as_ref().map_or(0, |price| price.of(usage, self.share))
    }

    /// What the call is charged whose last attempt used so much: nothing, if no model worked for it.
    pub(crate) fn money(&self, usage: Option<&Usage>) -> u64 {
        if usage.is_some() { self.spent(usage) } else { 0 }
    }

    /// What an attempt that came to nothing used: what is known, otherwise an estimate if the model may have been at work (rule U4: never
    /// nothing where something was used; an endpoint's refusal used nothing).
    pub(crate) fn burned(
        &self,
        known: Option<Usage>,
        cause: Option<FaultKind>,
        (is_stream, now): (bool, Time),
    ) -> Option<Usage> {
        let sent = self.sent.load(Ordering::Relaxed);
        let (None, Some(expected), true) = (known, self.expected, sent > 0) else {
            return known;
        };
        let may_have_worked = match cause {
            Some(
                FaultKind::ClientClosed
                | FaultKind::CallTimeout
                | FaultKind::Draining
                | FaultKind::FirstTokenTimeout
                | FaultKind::IdleTimeout
                | FaultKind::UpstreamBroken
                | FaultKind::UpstreamAborted
                | FaultKind::UpstreamMalformed,
            ) => true,
            Some(FaultKind::UpstreamError | FaultKind::UpstreamOverloaded | FaultKind::UpstreamQuota) => {
                self.is_begun.load(Ordering::Relaxed)
            }
            _ => false,
        };
        may_have_worked.then(|| Usage {
            input: expected.input,
            cached_input: None,
            // Of an answer that comes all at once nobody saw how far it was; of a stream there was nothing to see.
            output: if is_stream {
                TokenCount::ZERO
            } else {
                self.bound.after(now - Time::from_nanos(sent))
            },
            reasoning: None,
            source: UsageSource::Estimated,
        })
    }
}

impl Account {
    /// Enters the attempt that begins in the ledger, and with the first one the call.
    ///
    /// # Errors
    /// The endpoint must not be asked.
    pub(crate) async fn enter(&mut self) -> Result<(), Fault> {
        self.billing.sent.store(0, Ordering::Relaxed);
        let runtime = Arc::clone(&self.gate.runtime);
        let Some(ledger) = runtime.ledger() else { return Ok(()) };
        let kept = self.billing.kept.take();
        let mut kept = kept.unwrap_or_else(|| Kept::new(ledger, self.arrived));
        let (now, address) = (self.now(), self.booking().map(|booking| booking.address().clone()));
        let begun = match (self.facts(), address) {
            (Some(facts), Some(address)) => kept.begin(&facts, &address, now),
            _ => return Ok(()),
        };
        if begun.is_err() && !kept.is_entered() {
            self.billing.is_admitted = false;
        } else {
            // Before anything is waited for: the client may leave meanwhile, and then this attempt has to end.
            self.billing.kept = Some(kept);
        }
        begun.map_err(unavailable)?.durable().await.map_err(unavailable)
    }

    fn facts(&self) -> Option<CallFacts<'_>> {
        let (Some(principal), Some(target)) = (&self.principal, &self.target) else {
            return None;
        };
        Some(CallFacts {
            request_id: &self.request_id,
            arrived: self.arrived,
            arrived_unix: self.arrived_unix,
            principal,
            task: self.task.as_deref(),
            asked: self.way.asked.as_ref().map_or("", ModelName::as_str),
            target,
            hop: self.way.hop,
            degrades: self.way.degrades,
            dialect: self.dialect,
            price: self.billing.price.as_deref(),
            expected: self.billing.expected.unwrap_or_default(),
        })
    }

    /// Enters how an attempt failed, after which the call may go on.
    pub(crate) fn enter_failure(&mut self, end: LeaseEnd, cause: FaultKind, now: Time) {
        // What the attempt used is not the call's.
        let usage = self
            .billing
            .burned(self.usage.take(), Some(cause), (self.is_stream, now));
        let money = self.billing.spent(usage.as_ref());
        if let Some(kept) = &mut self.billing.kept {
            kept.end_attempt(&Ended {
                usage,
                first_token: None,
                outcome: end.label(),
                fault: Some(cause),
                money,
                at: now,
            });
        }
    }

    /// Enters how the call ended, and with it its last attempt.
    pub(crate) fn enter_end(&mut self, status: OutcomeStatus, end: LeaseEnd, now: Time) {
        if !self.billing.is_admitted {
            return;
        }
        let runtime = Arc::clone(&self.gate.runtime);
        let Some(ledger) = runtime.ledger() else { return };
        let kept = self.billing.kept.take();
        let kept = kept.unwrap_or_else(|| Kept::new(ledger, self.arrived));
        let call = Ended {
            usage: self.usage,
            first_token: self.first_token,
            outcome: status.label(),
            fault: status.fault(),
            money: self.billing.money(self.usage.as_ref()),
            at: now,
        };
        let attempt = Ended {
            outcome: end.label(),
            money: self.billing.spent(self.usage.as_ref()),
            ..call
        };
        if let Some(facts) = self.facts() {
            kept.end(&facts, &attempt, &call, self.way.degradation().is_some());
        }
    }
}

fn unavailable(reason: Unavailable) -> Fault {
    Fault::new(
        FaultKind::LedgerUnavailable,
        "the gateway cannot account for the call and does not let it through unaccounted; try again later",
    )
    .with_detail(format!("the ledger: {}", reason.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_used_is_estimated_and_nothing_else() {
        let (input, output) = (TokenCount::new(100), TokenCount::new(20));
        let bound = OutputBound {
            tokens: TokenCount::new(2100),
            choices: 2,
        };
        let mut billing = Billing::default();
        billing.admit(None, Some((input, output)), bound);
        let tokens = |cause, is_stream| {
            let usage = billing.burned(None, Some(cause), (is_stream, Time::from_millis(11_000)))?;
            assert_eq!(usage.source, UsageSource::Estimated);
            Some((usage.input.get(), usage.output.get()))
        };
        // Nothing was sent yet.
        assert_eq!(tokens(FaultKind::ClientClosed, false), None);
        billing.sent(Time::from_millis(1000));
        // Ten seconds: a thousand tokens of each choice, however few were expected.
        assert_eq!(tokens(FaultKind::ClientClosed, false), Some((100, 2000)));
        assert_eq!(tokens(FaultKind::CallTimeout, false), Some((100, 2000)));
        assert_eq!(tokens(FaultKind::UpstreamBroken, false), Some((100, 2000)));
        assert_eq!(tokens(FaultKind::ClientClosed, true), Some((100, 0)));
        // The endpoint refused, so it did not work.
        assert_eq!(tokens(FaultKind::UpstreamOverloaded, true), None);
        assert_eq!(tokens(FaultKind::UpstreamError, true), None);
        // It began to answer, so it did.
        billing.begun();
        assert_eq!(tokens(FaultKind::UpstreamOverloaded, true), Some((100, 0)));
        assert_eq!(tokens(FaultKind::UpstreamError, false), Some((100, 2000)));
        // No more than the call allows.
        billing.sent(Time::from_millis(1));
        assert_eq!(tokens(FaultKind::ClientClosed, false), Some((100, 2100)));
        let mut none = Billing::default();
        none.admit(None, Some((input, output)), OutputBound::default());
        none.sent(Time::from_millis(1));
        let usage = none.burned(None, Some(FaultKind::ClientClosed), (false, Time::from_millis(60_000)));
        assert_eq!(usage.unwrap().output, TokenCount::ZERO);
        // What is known is not estimated over, were it zero.
        let known = Usage {
            input: TokenCount::ZERO,
            cached_input: None,
            output: TokenCount::ZERO,
            reasoning: None,
            source: UsageSource::Reported,
        };
        assert_eq!(
            billing.burned(Some(known), Some(FaultKind::ClientClosed), (true, Time::MAX)),
            Some(known)
        );
    }
}
