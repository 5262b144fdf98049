//! Why one call went where it went, as it is kept: facts, not words. Words are made when somebody asks.

use std::sync::Arc;
use std::time::Duration;

use maitred_route::Unfit;
use maitred_sched::{Picked, Pool, Refusal, Why};
use maitred_store::archive::Record;
use maitred_tenant::{Principal, Standing};
use maitred_types::{
    Address, Degradation, DegradeReason, EndpointId, FaultKind, HopSkip, LeaseEnd, ModelName, OutcomeStatus, PoolName,
    RequestId, Time, TokenCount, UnixMillis, Usage,
};

use crate::booking::Ask;
use crate::target::Target;

mod record;

/// The decision record of one call that has ended.
#[derive(Clone, Debug)]
pub struct Decision {
    /// Whose id an operator asks for.
    pub request_id: RequestId,
    /// When the call arrived.
    pub arrived: Time,
    /// The same on the wall clock.
    pub arrived_unix: UnixMillis,
    /// Whose call it was.
    pub principal: Principal,
    /// The task it belongs to.
    pub task: Option<Box<str>>,
    /// The name that was asked for, if it leads anywhere.
    pub asked: Option<ModelName>,
    /// Which rule its plan followed from.
    pub evidence: maitred_route::Evidence,
    /// Where it went in the end, if anywhere.
    pub target: Option<TargetNames>,
    /// The targets of its route that did not give the answer: first those that its plan left out.
    pub left: Vec<LeftHop>,
    /// What the answer is called, if it is not what was asked for.
    pub degradation: Option<Degradation>,
    /// What it took of its quotas.
    pub quota: Option<QuotaUse>,
    /// Every time that the pool was asked, in order.
    pub choices: Vec<Box<Choice>>,
    /// How the call ended.
    pub status: OutcomeStatus,
    /// What went wrong, in words; cut where it is long.
    pub detail: Option<Box<str>>,
    /// From arrival to the first output.
    pub first_token: Option<Duration>,
    /// From arrival to the end.
    pub duration: Duration,
}

/// Where a call went: the names alone, for a record outlives pools.
#[derive(Clone, Debug)]
pub struct TargetNames {
    /// The model, by its name in the pool.
    pub model: ModelName,
    /// The model as endpoints call it.
    pub served: ModelName,
    /// The pool.
    pub pool: PoolName,
}

impl From<&Target> for TargetNames {
    fn from(target: &Target) -> Self {
        Self {
            model: target.model.clone(),
            served: target.served_as.clone(),
            pool: target.pool.name().clone(),
        }
    }
}

/// A target of a call's plan that did not give the answer.
#[derive(Clone, Debug)]
pub struct LeftHop {
    /// Which.
    pub target: TargetNames,
    /// How many attempts were made there.
    pub attempts: u32,
    /// Why it was not the one.
    pub end: HopEnd,
}

/// Why a target did not give the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopEnd {
    /// It was asked in vain.
    Left(DegradeReason),
    /// It was not in the plan: the call may not go there, or it cannot take it.
    Unfit(Unfit),
    /// It was in the plan and was not asked.
    Skipped(HopSkip),
}

/// What a call took of its quotas.
#[derive(Clone, Copy, Debug)]
pub struct QuotaUse {
    /// Tokens that were reserved for it.
    pub reserved: u64,
    /// Tokens that it was charged.
    pub used: u64,
    /// How the tightest limit on tokens stood with the reservation.
    pub tokens: Option<Standing>,
    /// How the tightest limit on calls stood with it.
    pub calls: Option<Standing>,
}

/// One ask of a pool: what it chose, or why it refused, and what came of it.
#[derive(Clone, Debug)]
pub struct Choice {
    evidence: Evidence,
    found: Found,
    end: Option<AttemptEnd>,
}

/// What is written down of an ask while the pool is locked; the rest follows from its answer.
#[derive(Clone, Debug)]
pub(crate) struct Evidence {
    pub(crate) at: Time,
    pub(crate) input: TokenCount,
    pub(crate) output: TokenCount,
    /// Endpoints that the call had tried before.
    pub(crate) tried: usize,
    /// Where the endpoints listen that are spoken of.
    pub(crate) names: Vec<(EndpointId, Address)>,
    pub(crate) shadows: Vec<ShadowChoice>,
    /// How long it was waited for a place.
    pub(crate) waited: Duration,
}

impl Evidence {
    /// After so long a wait for a place.
    pub(crate) const fn after(mut self, waited: Duration) -> Self {
        self.waited = waited;
        self
    }

    /// What is known when it is asked.
    pub(crate) fn of(ask: &Ask<'_>, now: Time) -> Self {
        Self {
            at: now,
            input: ask.input_tokens,
            output: ask.output_tokens,
            tried: ask.excluded.len(),
            names: Vec::new(),
            shadows: Vec::new(),
            waited: Duration::ZERO,
        }
    }

    /// With what was chosen.
    pub(crate) fn found(self, endpoint: EndpointId, why: Why) -> Box<Choice> {
        self.with(Found::Endpoint(endpoint, why))
    }

    /// With the refusal.
    pub(crate) fn refused(self, refusal: Refusal) -> Box<Choice> {
        self.with(Found::Nothing(refusal))
    }

    fn with(self, found: Found) -> Box<Choice> {
        Box::new(Choice {
            evidence: self,
            found,
            end: None,
        })
    }
}

/// The addresses of all endpoints that a choice speaks of.
pub(crate) fn named(pool: &Pool, picked: Option<&Picked>, shadows: &[ShadowChoice]) -> Vec<(EndpointId, Address)> {
    let why = picked.iter().map(|picked| &picked.why);
    let compared = why.clone().flat_map(|why| why.ranked()).map(|ranked| ranked.endpoint);
    let removed = why.flat_map(|why| &why.removals).map(|removal| removal.endpoint);
    let others = shadows.iter().filter(|shadow| !shadow.agrees);
    let others = others.filter_map(|shadow| shadow.chosen.map(|(endpoint, _)| endpoint));
    let all = compared.chain(removed).chain(others);
    all.filter_map(|id| Some((id, pool.address(id)?.clone()))).collect()
}

/// What a pool answered.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a refusal is the rare case, and the choice around it is boxed"
)]
enum Found {
    Endpoint(EndpointId, Why),
    Nothing(Refusal),
}

/// What a shadow profile would have chosen.
#[derive(Clone, Debug)]
pub(crate) struct ShadowChoice {
    pub(crate) profile: Arc<str>,
    /// Nothing when its filters left nobody.
    pub(crate) chosen: Option<(EndpointId, &'static str)>,
    pub(crate) agrees: bool,
}

/// What came of an attempt.
#[derive(Clone, Copy, Debug)]
pub struct AttemptEnd {
    /// How it ended, as far as the endpoint is concerned.
    pub result: LeaseEnd,
    /// What went wrong.
    pub fault: Option<FaultKind>,
    /// When the first output came.
    pub first_token: Option<Time>,
    /// What it used.
    pub usage: Option<Usage>,
    /// When it ended.
    pub at: Time,
}

impl Choice {
    /// Says what came of the attempt.
    pub const fn end(&mut self, end: AttemptEnd) {
        self.end = Some(end);
    }

    /// Memory that it takes, its own place included, in bytes.
    fn bytes(&self) -> usize {
        let removals = match &self.found {
            Found::Endpoint(_, why) if why.removals.spilled() => size_of_val(why.removals.as_slice()),
            Found::Endpoint(..) | Found::Nothing(_) => 0,
        };
        size_of::<Self>()
            + removals
            + self.evidence.names.capacity() * size_of::<(EndpointId, Address)>()
            + self.evidence.shadows.capacity() * size_of::<ShadowChoice>()
    }
}

impl Decision {
    /// Longest [`Decision::detail`] that is kept, in bytes.
    pub const DETAIL_MAX: usize = 256;

    /// Cuts a text to what is kept of it.
    #[must_use]
    pub fn cut(detail: &str) -> Box<str> {
        let end = detail.floor_char_boundary(Self::DETAIL_MAX);
        detail.get(..end).unwrap_or_default().into()
    }

    /// Memory that it takes, in bytes. Names that it shares with the settings count for nothing.
    pub(crate) fn bytes(&self) -> usize {
        let choices: usize = self.choices.iter().map(|choice| choice.bytes()).sum();
        size_of::<Self>()
            + self.request_id.as_str().len()
            + self.choices.capacity() * size_of::<Box<Choice>>()
            + self.left.capacity() * size_of::<LeftHop>()
            + choices
            + self.detail.as_ref().map_or(0, |detail| detail.len())
            + self.task.as_ref().map_or(0, |task| task.len())
    }
}

impl Record for Decision {
    fn id(&self) -> &str {
        self.request_id.as_str()
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.to_record().write(out);
    }
}
