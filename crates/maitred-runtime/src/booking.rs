//! A booked place on an endpoint, as the data path holds it.

use std::sync::Arc;
use std::time::Duration;

use maitred_engines::Engine;
use maitred_sched::{AttemptKind, Delivery, Explain, Refusal};
use maitred_types::{Address, EndpointId, FaultKind, LeaseEnd, LeaseId, PromptChain, Time, TokenCount, Usage};

use crate::decision::Choice;
use crate::host::PoolHost;
use crate::upstream::Upstream;

/// What the data path asks of a pool: what the core wants to know, less what this crate knows better than the data path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ask<'a> {
    /// The model as endpoints call it.
    pub model: &'a str,
    /// The adapter as endpoints call it, if the model is one.
    pub adapter: Option<&'a str>,
    /// What binds the calls of one conversation together, if anything does.
    pub session: Option<u64>,
    /// Prompt tokens, as estimated.
    pub input_tokens: TokenCount,
    /// Output tokens, as expected.
    pub output_tokens: TokenCount,
    /// The most output tokens that the client allows, if it says.
    pub output_limit: Option<TokenCount>,
    /// What calls with answers of like length have in common.
    pub length_key: Option<u64>,
    /// The prompt's blocks, if they are known.
    pub chain: Option<&'a PromptChain>,
    /// Endpoints this call has tried.
    pub excluded: &'a [EndpointId],
    /// The endpoint the client's connection is bound to.
    pub pinned: Option<EndpointId>,
    /// How the output will be seen: whoever will call [`Booking::first_token`] when it begins says so.
    pub delivery: Delivery,
    /// The class, by name; the default one if `None`.
    pub class: Option<&'a str>,
    /// Whose call it is, as a hash; see [`crate::session_hash`].
    pub tenant: u64,
    /// The weight of that tenant among others.
    pub weight: u32,
    /// Bytes that are held while it waits.
    pub bytes: u64,
    /// When its output is of no use any more.
    pub deadline: Option<Time>,
    /// When the call came.
    pub arrived: Option<Time>,
}

impl<'a> Ask<'a> {
    pub(crate) fn to_core(self, explain: Explain) -> maitred_sched::Ask<'a> {
        maitred_sched::Ask {
            model: self.model,
            adapter: self.adapter,
            session: self.session,
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            output_limit: self.output_limit,
            length_key: self.length_key,
            chain: self.chain,
            excluded: self.excluded,
            pinned: self.pinned,
            delivery: self.delivery,
            attempt: if self.excluded.is_empty() {
                AttemptKind::First
            } else {
                AttemptKind::Retry
            },
            explain,
            class: self.class,
            tenant: self.tenant,
            weight: self.weight,
            bytes: self.bytes,
            deadline: self.deadline,
            arrived: self.arrived,
        }
    }
}

/// Why there is no place.
#[derive(Debug)]
pub struct NoPlace {
    /// What this is called.
    pub fault: FaultKind,
    /// When to try again, where waiting helps.
    pub retry_after: Option<Duration>,
    /// What is remembered of it, if decisions are kept.
    pub choice: Option<Box<Choice>>,
    /// How long it was waited for.
    pub waited: Duration,
    refusal: Refusal,
}

impl NoPlace {
    pub(crate) const fn new(refusal: Refusal, choice: Option<Box<Choice>>, waited: Duration) -> Self {
        Self {
            fault: refusal.fault(),
            retry_after: refusal.retry_after(),
            choice,
            waited,
            refusal,
        }
    }
}

impl std::fmt::Display for NoPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.refusal.fmt(f)
    }
}

/// A booked place. Finish it; one that is dropped is counted as abandoned.
#[derive(Debug)]
pub struct Booking {
    host: Arc<PoolHost>,
    upstream: Arc<Upstream>,
    lease: LeaseId,
    endpoint: EndpointId,
    address: Address,
    engine: Engine,
    reason: &'static str,
    choice: Option<Box<Choice>>,
    waited: Duration,
    is_finished: bool,
}

impl Booking {
    pub(crate) fn new(
        host: Arc<PoolHost>,
        (lease, endpoint): (LeaseId, EndpointId),
        address: Address,
        engine: Engine,
        (reason, choice): (&'static str, Option<Box<Choice>>),
    ) -> Self {
        Self {
            upstream: host.upstream(),
            host,
            lease,
            endpoint,
            address,
            engine,
            reason,
            choice,
            waited: Duration::ZERO,
            is_finished: false,
        }
    }

    pub(crate) const fn after(mut self, waited: Duration) -> Self {
        self.waited = waited;
        self
    }

    /// How long it was waited for.
    #[must_use]
    pub const fn waited(&self) -> Duration {
        self.waited
    }

    /// Which endpoint, and which life of it.
    #[must_use]
    pub const fn endpoint(&self) -> EndpointId {
        self.endpoint
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> &Address {
        &self.address
    }

    /// What runs there.
    #[must_use]
    pub const fn engine(&self) -> Engine {
        self.engine
    }

    /// Why this endpoint, in one word.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        self.reason
    }

    /// What is remembered of the choice, if decisions are kept. It is there once.
    pub fn take_choice(&mut self) -> Option<Box<Choice>> {
        self.choice.take()
    }

    /// What to send there besides the call, and how to reach it.
    #[must_use]
    pub const fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }

    /// The first output has come.
    pub fn first_token(&self, now: Time) {
        self.host.first_token(self.lease, now);
    }

    /// So much output has come in all.
    pub fn progress(&self, output: TokenCount, now: Time) {
        self.host.progress(self.lease, output, now);
    }

    /// The answer is there in full: the conversation's next turn will begin with `chain`, the prompt and the answer.
    pub fn extended(&self, chain: &PromptChain, now: Time) {
        self.host.extend(self.lease, chain, now);
    }

    /// The endpoint has too much to do and wants to be spared for `wait`. The attempt's share of the endpoint's time is told.
    pub fn finish_overloaded(mut self, wait: Duration, now: Time) -> Duration {
        self.is_finished = true;
        self.host.spare(self.endpoint, wait, now);
        self.host.finish(self.lease, LeaseEnd::Overload, None, now)
    }

    /// The attempt is over. Its share of the endpoint's time is told, which at each moment is split evenly among the calls that are there.
    pub fn finish(mut self, end: LeaseEnd, usage: Option<&Usage>, now: Time) -> Duration {
        self.is_finished = true;
        self.host.finish(self.lease, end, usage, now)
    }
}

impl Drop for Booking {
    fn drop(&mut self) {
        if !self.is_finished {
            // Time stands still for the dropped one: the core takes any moment not before the booking.
            self.host.finish(self.lease, LeaseEnd::Abandoned, None, Time::ZERO);
        }
    }
}
