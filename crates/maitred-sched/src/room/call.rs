//! A waiting call: an ask that owns what it needs, so that it can be asked again when there is room.

use std::sync::Arc;

use maitred_types::{EndpointId, PromptChain, Time, TokenCount};
use smallvec::SmallVec;

use crate::ask::{Ask, AttemptKind, Delivery};
use crate::room::line::Seat;
use crate::why::Explain;

/// An ask, kept.
#[derive(Debug)]
pub(crate) struct Kept {
    model: Arc<str>,
    adapter: Option<Arc<str>>,
    session: Option<u64>,
    input_tokens: TokenCount,
    output_tokens: TokenCount,
    output_limit: Option<TokenCount>,
    length_key: Option<u64>,
    chain: Option<PromptChain>,
    excluded: SmallVec<[EndpointId; 4]>,
    pinned: Option<EndpointId>,
    delivery: Delivery,
    attempt: AttemptKind,
    explain: Explain,
    tenant: u64,
    weight: u32,
    bytes: u64,
    deadline: Option<Time>,
    arrived: Option<Time>,
}

impl Kept {
    pub(crate) fn of(ask: &Ask<'_>) -> Self {
        Self {
            model: Arc::from(ask.model),
            adapter: ask.adapter.map(Arc::from),
            session: ask.session,
            input_tokens: ask.input_tokens,
            output_tokens: ask.output_tokens,
            output_limit: ask.output_limit,
            length_key: ask.length_key,
            chain: ask.chain.cloned(),
            excluded: SmallVec::from_slice(ask.excluded),
            pinned: ask.pinned,
            delivery: ask.delivery,
            attempt: ask.attempt,
            explain: ask.explain,
            tenant: ask.tenant,
            weight: ask.weight,
            bytes: ask.bytes,
            deadline: ask.deadline,
            arrived: ask.arrived,
        }
    }

    /// The ask, as it was but for its class, which the room knows.
    pub(crate) fn ask(&self) -> Ask<'_> {
        Ask {
            model: &self.model,
            adapter: self.adapter.as_deref(),
            session: self.session,
            input_tokens: self.input_tokens,
            output_tokens: self.output_tokens,
            output_limit: self.output_limit,
            length_key: self.length_key,
            chain: self.chain.as_ref(),
            excluded: &self.excluded,
            pinned: self.pinned,
            delivery: self.delivery,
            attempt: self.attempt,
            explain: self.explain,
            class: None,
            tenant: self.tenant,
            weight: self.weight,
            bytes: self.bytes,
            deadline: self.deadline,
            arrived: self.arrived,
        }
    }

    /// Whether it can be refused a place that others would be given.
    pub(crate) fn is_choosy(&self) -> bool {
        !self.excluded.is_empty() || self.attempt == AttemptKind::Retry
    }
}

/// A waiting call and its place.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(super) kept: Kept,
    pub(super) seat: Seat,
    /// The place of its class.
    pub(super) class: usize,
    pub(super) bytes: u64,
    /// Since when it waits.
    pub(super) since: Time,
    /// Up to when.
    pub(super) until: Time,
    /// Whether it is its deadline that ends its wait.
    pub(super) is_late_then: bool,
}

impl Waiter {
    /// The ask itself.
    pub(crate) const fn kept(&self) -> &Kept {
        &self.kept
    }
}
