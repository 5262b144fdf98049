//! A call's way along the targets of its plan: the first, and where that does not answer those that are there for the reason.
//!
//! Each target is asked as if the call had come for it: it must be granted to the caller, the body is edited anew from its own
//! bytes, and quota is reserved at the target's prices after what was reserved at the one before has been given back. The
//! client has nothing of the answer before one of them has begun well. The error at the end is the first one: it says why
//! what was asked for did not answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http::request::Parts;
use maitred_config::{PoolSettings, Settings};
use maitred_llm::{BodyView, CallKind};
use maitred_runtime::{
    Admission, CallEnd, Degrade, Hop, HopEnd, Pass, Plan, Principal, Snapshot, Target, length_key, session_hash,
};
use maitred_types::{DegradeReason, FaultKind, HopSkip, LeaseEnd, Time, TokenCount};

use crate::account::Account;
use crate::alarm::AnswerLimits;
use crate::attempt::{self, Answer, Call, Stopped};
use crate::edited::{Body, Edited, edit};
use crate::fault::Fault;
use crate::kept;
use crate::quota;
use crate::refused::Refused;

/// What of a call is the same at every target.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) kind: CallKind,
    pub(crate) head: &'a Parts,
    pub(crate) view: Option<&'a BodyView>,
    /// As it came.
    pub(crate) body: &'a Bytes,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) principal: &'a Principal,
    /// Whether the client takes a degraded answer.
    pub(crate) degrade: Degrade,
    pub(crate) deadline: Time,
}

/// A target that did not answer, or was not asked.
enum Missed {
    /// It has failed; whether the call may go on.
    Failed(Stopped),
    /// It refuses the call, which the client is to read if the call goes nowhere else.
    Refused(Box<Refused>),
    /// It was passed over.
    Skipped(HopSkip),
    /// Its breaker leaves it alone, for this reason, for so long.
    Closed(DegradeReason, Duration),
}

impl Missed {
    const fn fault(&self) -> Option<&Fault> {
        match self {
            Self::Failed(stopped) => Some(&stopped.fault),
            Self::Refused(refused) => Some(&refused.fault),
            Self::Skipped(_) | Self::Closed(..) => None,
        }
    }

    /// For what another target must be there to be asked next. At a target to which the call has gone on for a reason already, that
    /// reason goes on to hold where this one gives none of its own. `None` ends the call.
    fn leads_on(&self, before: Option<DegradeReason>) -> Option<DegradeReason> {
        match self {
            Self::Failed(stopped) if !stopped.may_go_on => None,
            Self::Failed(stopped) => stopped.fault.kind.degrade_reason(),
            Self::Refused(refused) if refused.fault.kind == FaultKind::ContextTooLong => {
                Some(DegradeReason::ContextLength)
            }
            Self::Closed(reason, _) => Some(*reason),
            Self::Refused(_) | Self::Skipped(_) => before,
        }
    }
}

/// Goes along the plan until there is a good beginning, or the client's own fault. `entry` is why the plan begins with a fallback, if it
/// does.
pub(crate) async fn run(
    account: &mut Account,
    asked: &Asked<'_>,
    (plan, entry): (&Plan, Option<DegradeReason>),
) -> Result<(Answer, AnswerLimits), Fault> {
    let mut at = 0;
    let mut first: Option<Missed> = None;
    // Why the call has left the target that it asked for, and the one before the present one.
    let (mut why, mut before) = (entry, None);
    while let Some(hop) = plan.hops.get(at) {
        account.way.begin(at, hop, why);
        let tried = match guard(account, asked, (plan, at)) {
            Ok(pass) => one(account, asked, (hop, before), pass).await,
            Err(missed) => Err(missed),
        };
        let missed = match tried {
            Ok((answer, limits)) => {
                account.way.is_answered = !matches!(answer, Answer::Refused(_));
                return Ok((answer, limits));
            }
            Err(missed) => missed,
        };
        let leads_on = missed.leads_on(before).filter(|_| account.now() < asked.deadline);
        let next = leads_on.and_then(|reason| Some((plan.next(at, reason)?, reason)));
        if let Some((next, reason)) = next {
            leave(account, asked, (hop, &missed), Some(reason));
            why = why.or(Some(reason));
            (at, before) = (next, Some(reason));
            first.get_or_insert(missed);
            continue;
        }
        if first.is_some() {
            leave(account, asked, (hop, &missed), leads_on.or(before));
        }
        return end(asked, first, missed);
    }
    Err(Fault::new(FaultKind::Internal, "the plan of the call has no target"))
}

/// Ends the call without an answer: with the error that came first, since it says why what was asked for did not answer. What ends
/// the call whatever is tried is told as it is.
fn end(asked: &Asked<'_>, first: Option<Missed>, last: Missed) -> Result<(Answer, AnswerLimits), Fault> {
    let told = match (first, last) {
        (first, Missed::Failed(last)) if last.fault.kind.degrade_reason().is_none() => {
            let earlier = first.as_ref().and_then(Missed::fault);
            return Err(last.fault.after(earlier));
        }
        (first, last) => first.unwrap_or(last),
    };
    match told {
        Missed::Failed(stopped) => Err(stopped.fault),
        Missed::Refused(refused) => Ok((Answer::Refused(refused), limits(asked))),
        Missed::Skipped(skip) => Err(unused(skip)),
        Missed::Closed(reason, wait) => Err(left_alone(reason, wait)),
    }
}

/// An answer that is whole is held to nothing any more.
fn limits(asked: &Asked<'_>) -> AnswerLimits {
    AnswerLimits {
        idle: asked.snapshot.settings().timeouts.idle,
        deadline: asked.deadline,
        input: TokenCount::ZERO,
        output: None,
    }
}

/// The target that was asked for cannot be asked.
fn unused(skip: HopSkip) -> Fault {
    Fault::new(
        FaultKind::NoEndpoint,
        "what this model's name leads to cannot take the call now",
    )
    .with_detail(skip.label())
}

/// The breaker of what was asked for leaves it alone, and nothing follows.
fn left_alone(reason: DegradeReason, wait: Duration) -> Fault {
    let (kind, message) = match reason {
        DegradeReason::Quota => (
            FaultKind::UpstreamQuota,
            "what this gateway may use of the model is spent for now",
        ),
        DegradeReason::Overload => (
            FaultKind::UpstreamOverloaded,
            "the model has too much to do; try again later",
        ),
        _ => (
            FaultKind::NoEndpoint,
            "the model did not answer, and is left alone for a while; try again later",
        ),
    };
    Fault {
        retry_after: Some(wait),
        ..Fault::new(kind, message).with_detail("the target's breaker is open")
    }
}

/// Asks the breaker of a target. A pool that is alone has ejection, and something that may answer is better than a certain refusal: so it is
/// left alone only if something follows.
fn guard(account: &Account, asked: &Asked<'_>, (plan, at): (&Plan, usize)) -> Result<Option<Pass>, Missed> {
    let hop = plan.hops.get(at);
    let Some(target) = hop.and_then(|hop| asked.snapshot.target(hop.target)) else {
        return Ok(None);
    };
    if plan.hops.len() == 1 && !target.is_hosted {
        return Ok(None);
    }
    let now = account.now();
    match target.breaker.ask(now) {
        Admission::Open(pass) => Ok(Some(pass)),
        Admission::Closed { reason, until } if target.is_hosted || plan.next(at, reason).is_some() => {
            Err(Missed::Closed(reason, until.since(now)))
        }
        Admission::Closed { .. } => Ok(None),
    }
}

/// What an attempt at a target says of it.
fn said(tried: &Result<Answer, Stopped>) -> CallEnd {
    let stopped = match tried {
        Ok(Answer::Refused(_)) => return CallEnd::Silent,
        Ok(_) => return CallEnd::Good,
        Err(stopped) => stopped,
    };
    match stopped.fault.kind.degrade_reason() {
        None | Some(DegradeReason::ContextLength | DegradeReason::Cache) => CallEnd::Silent,
        Some(reason @ (DegradeReason::Quota | DegradeReason::Overload)) => CallEnd::Busy {
            reason,
            retry_after: stopped.retry_after,
        },
        Some(DegradeReason::Timeout | DegradeReason::Error | DegradeReason::Unavailable) => CallEnd::Failed,
    }
}

/// Leaves a target, for the next one or for good. An endpoint that refuses a call has done its work.
fn leave(account: &mut Account, asked: &Asked<'_>, (hop, missed): (&Hop, &Missed), reason: Option<DegradeReason>) {
    let end = match missed {
        Missed::Skipped(skip) => Some(HopEnd::Skipped(*skip)),
        Missed::Closed(..) => Some(HopEnd::Skipped(HopSkip::Breaker)),
        Missed::Refused(refused) => {
            account.end_attempt(LeaseEnd::Success, &refused.fault);
            reason.map(HopEnd::Left)
        }
        Missed::Failed(_) => reason.map(HopEnd::Left),
    };
    if let (Some(target), Some(end)) = (asked.snapshot.target(hop.target), end) {
        let attempts = account.attempts();
        account.way.leave(target, end, attempts);
    }
}

/// One target.
async fn one(
    account: &mut Account,
    asked: &Asked<'_>,
    (hop, before): (&Hop, Option<DegradeReason>),
    pass: Option<Pass>,
) -> Result<(Answer, AnswerLimits), Missed> {
    // Only what the first target answers is kept.
    account.keeping = None;
    let target = usable(account, asked, hop).map_err(Missed::Skipped)?;
    let call = prepare(account, asked, (hop, target), before.is_some())?;
    let kept = if hop.degrades.is_none() && before.is_none() {
        kept::answer(account, asked, &call.target)
    } else {
        None
    };
    if let Some(answer) = kept {
        if let Some(pass) = pass {
            // It was not asked.
            call.target.breaker.end(pass, CallEnd::Silent, account.now());
        }
        return Ok((answer, call.limits()));
    }
    let tried = attempt::run(account, &call).await;
    if let Some(pass) = pass {
        call.target.breaker.end(pass, said(&tried), account.now());
    }
    match tried {
        // What the target that was asked for says of the call is the client's to read; what another one says of it is not.
        Ok(Answer::Refused(refused)) if before.is_some() || refused.fault.kind == FaultKind::ContextTooLong => {
            Err(Missed::Refused(refused))
        }
        Ok(answer) => {
            if let Answer::Whole(status, headers, body) = &answer {
                account.keep_whole(*status, headers, body);
            }
            Ok((answer, call.limits()))
        }
        Err(stopped) => Err(Missed::Failed(stopped)),
    }
}

/// The target of a hop, if the call can go there at all. Whether it may, and fits, was asked when it was planned.
fn usable(account: &Account, asked: &Asked<'_>, hop: &Hop) -> Result<Arc<Target>, HopSkip> {
    let target = asked.snapshot.target(hop.target).ok_or(HopSkip::Absent)?;
    match hop.degrades {
        Some(_) if asked.view.is_none() => Err(HopSkip::Unread),
        Some(_) if !account.way.may_degrade() => Err(HopSkip::Stopped),
        _ => Ok(Arc::clone(target)),
    }
}

/// Makes the call ready for a target. At the first one a quota that has no room refuses the call; a later one is passed over.
fn prepare<'a>(
    account: &mut Account,
    asked: &Asked<'a>,
    (hop, target): (&Hop, Arc<Target>),
    is_later: bool,
) -> Result<Call<'a>, Missed> {
    let settings = asked.snapshot.settings();
    let kind = asked.kind;
    let mut edited = edit(account, (kind, &target), asked.view, asked.body, settings.limits.output);
    admit(account, settings, (kind, &target), &mut edited).map_err(|fault| match is_later {
        true => Missed::Skipped(HopSkip::OwnQuota),
        false => Missed::Failed(Stopped::final_by(fault)),
    })?;
    account.prompt = std::mem::take(&mut edited.prompt);
    account.is_stream = edited.is_stream;
    let pool = target.pool.settings();
    let until = match hop.within {
        Some(within) => asked.deadline.min(account.now() + within),
        None => asked.deadline,
    };
    Ok(Call {
        kind,
        head: asked.head,
        session: session(&asked.head.headers, asked.principal.tenant.as_str(), &pool),
        tenant: asked.snapshot.share_of(asked.principal),
        attempts: pool.attempts,
        balance: pool.balance,
        length_key: length_key(target.served_as.as_str(), asked.principal.tenant.as_str(), kind as u64),
        target,
        body: edited.body.into_segments(),
        usage_ask: edited.usage_ask,
        is_stream: edited.is_stream,
        input: edited.input,
        output: edited.output,
        output_limit: edited.output_limit,
        reply: edited.reply,
        timeouts: settings.timeouts,
        event_max: settings.limits.event.as_usize(),
        until,
        deadline: asked.deadline,
    })
}

/// Reserves what the call may use at a target, and limits what nothing limits to what is reserved. From here on it is charged for what it
/// uses there, and is in the ledger. If it is refused, all stands as if the target had not been asked.
fn admit(
    account: &mut Account,
    settings: &Settings,
    (kind, target): (CallKind, &Arc<Target>),
    edited: &mut Edited<'_>,
) -> Result<(), Fault> {
    let price = settings
        .prices
        .of(target.pool.name(), target.model.as_str(), account.arrived_unix)
        .cloned();
    let before = account.target.replace(Arc::clone(target));
    let (is_first, standings) = (before.is_none(), account.standings);
    if let Some(reserved) = account.reserved.take() {
        reserved.give_back();
    }
    let limited = match quota::reserve(account, edited.input, edited.most, price.as_deref()) {
        Ok(limited) => limited,
        Err(fault) => {
            if !is_first {
                account.target = before;
                account.standings = standings;
            }
            return Err(fault);
        }
    };
    if let (Some(each), Body::Edited(edits, answers)) = (limited, &mut edited.body) {
        edits.limit_output(kind, each);
        let told = TokenCount::saturating_from(each.saturating_mul(*answers));
        edited.output_limit = Some(told);
        // The endpoint is told so, so nothing that nobody saw is taken to be more: neither if the client leaves nor if the gateway dies.
        edited.bound.tokens = edited.bound.tokens.min(told);
        edited.output = edited.output.min(told);
    }
    let expected = kind.is_inference().then_some((edited.input, edited.output));
    account.billing.admit(price, expected, edited.bound);
    Ok(())
}

/// What binds the call to others of its conversation, if the client says so. Two tenants whose sessions have the same name have two
/// sessions: neither finds out where the other's calls go.
pub(crate) fn session(headers: &HeaderMap, tenant: &str, pool: &PoolSettings) -> Option<u64> {
    let session = headers.get(pool.session_header.as_str())?;
    Some(session_hash(&[tenant.as_bytes(), b"\0", session.as_bytes()].concat()))
}
