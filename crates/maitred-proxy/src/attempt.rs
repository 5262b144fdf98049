//! Trying a call on one endpoint after another, until one answers well or there is no way left.
//!
//! Nothing reaches the client before an endpoint has shown a good beginning: for a stream its first output, otherwise the
//! whole answer. Until then a failure of the endpoint is another endpoint's chance, never the same one's again.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Method, StatusCode};
use maitred_config::{Balance, Timeouts};
use maitred_engines::{BodyVerdict, HeadVerdict, ResponseHead, judge_body, judge_head};
use maitred_llm::{AnswerTap, CallKind, Reply, UsageAsk, answer_usage};
use maitred_runtime::{Ask, Delivery, NoPlace, PoolHost, Provider, Target};
use maitred_types::{Address, EndpointId, FaultKind, LeaseEnd, Time, TokenCount, Usage};
use smallvec::SmallVec;

use crate::account::Account;
use crate::alarm::AnswerLimits;
use crate::answer::{AnswerHead, Asked};
use crate::blank::Blank;
use crate::events::{EventStream, Failure};
use crate::fault::{Fault, nameable};
use crate::headers;
use crate::link::{Link, Outgoing, Segments};
use crate::refused::{Refused, refusal};
use crate::through::{Reading, WHOLE_MAX, read};
use crate::{outside, wire};

/// A call that is ready to be sent to a target.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) kind: CallKind,
    pub(crate) head: &'a http::request::Parts,
    pub(crate) target: Arc<Target>,
    pub(crate) body: Segments,
    pub(crate) usage_ask: UsageAsk,
    pub(crate) is_stream: bool,
    pub(crate) input: TokenCount,
    pub(crate) output: TokenCount,
    pub(crate) output_limit: Option<TokenCount>,
    pub(crate) length_key: u64,
    /// Where the answer goes on after the prompt, if the scheduler cares.
    pub(crate) reply: Option<Reply>,
    pub(crate) session: Option<u64>,
    /// The hash of its tenant, and the weight that this tenant has.
    pub(crate) tenant: (u64, u32),
    /// Most attempts, the first included.
    pub(crate) attempts: u32,
    pub(crate) balance: Balance,
    pub(crate) timeouts: Timeouts,
    pub(crate) event_max: usize,
    /// When an answer must have begun here, or be there if it is no stream; no later than `deadline`.
    pub(crate) until: Time,
    /// When the whole call must be over.
    pub(crate) deadline: Time,
}

/// A good beginning.
#[derive(Debug)]
pub(crate) enum Answer {
    /// All of it.
    Whole(StatusCode, HeaderMap, Bytes),
    /// Events, the first output among them.
    Stream(StatusCode, HeaderMap, Box<EventStream>),
    /// The first part of something large.
    Through(StatusCode, HeaderMap, Box<(Link, Bytes)>),
    /// No good one, but one that the client is to read.
    Refused(Box<Refused>),
}

/// No attempt at a target had a good beginning.
#[derive(Debug)]
pub(crate) struct Stopped {
    pub(crate) fault: Fault,
    /// When the endpoint has asked to be asked again.
    pub(crate) retry_after: Option<Duration>,
    /// Whether another target may be asked: no attempt can have changed anything, and the call's time is not up.
    pub(crate) may_go_on: bool,
}

impl Stopped {
    /// Whatever target is asked, the call ends so.
    pub(crate) const fn final_by(fault: Fault) -> Self {
        Self {
            fault,
            retry_after: None,
            may_go_on: false,
        }
    }

    /// No endpoint of `pool` is left to ask. Who is refused because there is too much to do, or nobody to do it, is told when to come back,
    /// also where the endpoint did not say.
    fn at(pool: &PoolHost, mut fault: Fault, may_go_on: bool) -> Self {
        let passes = matches!(
            fault.kind,
            FaultKind::UpstreamOverloaded | FaultKind::UpstreamQuota | FaultKind::NoEndpoint
        );
        let retry_after = fault.retry_after;
        if passes && retry_after.is_none() {
            fault.retry_after = Some(pool.settings().options.retry_after);
        }
        Self {
            fault,
            retry_after,
            may_go_on,
        }
    }
}

/// Why an attempt came to nothing.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) failure: Failure,
    /// Whether another endpoint might do better.
    pub(crate) may_move: bool,
    /// Whether another target might do better.
    may_go_on: bool,
    /// Whether the endpoint has surely not acted on the call: it was not sent, or refused for want of room.
    is_undone: bool,
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self {
            // What is no fault of the endpoint would be the same elsewhere.
            may_move: failure.end != LeaseEnd::Cancelled,
            may_go_on: failure.end != LeaseEnd::Cancelled,
            failure,
            is_undone: false,
        }
    }
}

pub(crate) fn failed(fault: Fault, end: LeaseEnd) -> Failed {
    Failed::from(Failure { fault, end })
}

impl Failed {
    /// Says whether the endpoint has surely not acted on the call.
    pub(crate) fn undone(self, is_undone: bool) -> Self {
        Self { is_undone, ..self }
    }
}

/// Tries at the endpoints of a target until there is a good beginning. The fault returned is the first one: it explains the most.
pub(crate) async fn run(account: &mut Account, call: &Call<'_>) -> Result<Answer, Stopped> {
    let pool = &call.target.pool;
    account.session = call.session;
    let is_pinned = call.balance == Balance::Connection;
    let mut tried: SmallVec<[EndpointId; 4]> = SmallVec::new();
    let mut first: Option<Fault> = None;
    let mut latest: Option<FaultKind> = None;
    loop {
        let pinned = if is_pinned {
            account.client.pins.get(pool.name())
        } else {
            None
        };
        let now = account.ask();
        let ask = to_ask(account, call, (&tried, pinned));
        let booking = match pool.ask(&ask, now).await {
            Ok(booking) => booking,
            Err(mut no_place) => {
                account.no_place(&mut no_place);
                return Err(Stopped::at(pool, no_way_left(first, &no_place), true));
            }
        };
        if let Some(reason) = latest {
            pool.retried(reason);
        }
        if is_pinned {
            account.client.pins.set(pool.name(), booking.endpoint());
        }
        tried.push(booking.endpoint());
        account.begin_attempt(booking);
        // Before the endpoint hears of the call, the ledger has it.
        if let Err(fault) = account.enter().await {
            account.end_attempt(LeaseEnd::Cancelled, &fault);
            return Err(Stopped::final_by(fault));
        }
        let Failed {
            failure: Failure { mut fault, end },
            may_move,
            may_go_on,
            is_undone,
        } = match attempt(account, call).await {
            Ok(answer) => return Ok(answer),
            // The endpoint was at work for as long as the call may take: it is charged as if its client had left.
            Err(failed) if failed.failure.fault.kind == FaultKind::CallTimeout => {
                return Err(Stopped::final_by(failed.failure.fault.after(first.as_ref())));
            }
            Err(failed) => failed,
        };
        fault.detail = fault.detail.map(|detail| Blank::of(account.booking()).text(detail));
        account.end_attempt(end, &fault);
        tracing::debug!(
            fault = fault.kind.label(),
            detail = fault.detail.as_deref(),
            "an attempt failed"
        );
        latest = Some(fault.kind);
        let first = first.get_or_insert(fault);
        let may_be_sent_anew = is_undone || !acts(call.kind, &call.head.method);
        let is_last = tried.len() >= call.attempts as usize || account.now() >= call.until;
        if !may_move || !may_be_sent_anew || is_last {
            return Err(Stopped::at(pool, first.clone(), may_go_on && may_be_sent_anew));
        }
    }
}

/// Whether a call may change something, so that it must not be run twice. What the gateway knows as inference does not.
fn acts(kind: CallKind, method: &Method) -> bool {
    kind == CallKind::Other && !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// What the pool is asked for the next attempt.
fn to_ask<'a>(
    account: &'a Account,
    call: &'a Call<'a>,
    (tried, pinned): (&'a [EndpointId], Option<EndpointId>),
) -> Ask<'a> {
    Ask {
        model: call.target.served_as.as_str(),
        adapter: call.target.adapter(),
        session: call.session,
        input_tokens: call.input,
        output_tokens: call.output,
        output_limit: call.output_limit,
        length_key: Some(call.length_key),
        chain: account.prompt.chain.as_ref(),
        excluded: tried,
        pinned,
        delivery: if call.is_stream {
            Delivery::Streamed
        } else {
            Delivery::Whole
        },
        class: account.class.as_deref(),
        tenant: call.tenant.0,
        weight: call.tenant.1,
        bytes: account.request_bytes,
        deadline: Some(call.until),
        arrived: Some(account.arrived),
    }
}

fn no_way_left(first: Option<Fault>, no_place: &NoPlace) -> Fault {
    let Some(mut first) = first else {
        let message = match no_place.fault {
            FaultKind::Saturated => "every model server of this pool is full; try again later",
            _ => "no model server of this pool can take calls now",
        };
        let fault = Fault::new(no_place.fault, message).with_detail(no_place.to_string());
        return Fault {
            retry_after: no_place.retry_after,
            ..fault
        };
    };
    let detail = first.detail.take().unwrap_or_else(|| first.kind.label().to_owned());
    first.detail = Some(format!("{detail}; no further attempt: {no_place}"));
    if no_place.fault == FaultKind::RetryBudget
        && !matches!(first.kind, FaultKind::UpstreamOverloaded | FaultKind::UpstreamQuota)
    {
        // Another endpoint might have answered, so trying again soon is worth the client's while.
        first.kind = FaultKind::RetryBudget;
        first.message = "a model server failed, and too many calls are being tried again; try again later".into();
        first.retry_after = no_place.retry_after;
    }
    first
}

/// One attempt, on the endpoint that is booked.
async fn attempt(account: &mut Account, call: &Call<'_>) -> Result<Answer, Failed> {
    // Only a stream shows soon that an endpoint is at work. Any other answer may come at the end, all at once, however long it is.
    let limit = if call.is_stream {
        call.until.min(account.now() + call.timeouts.first_token)
    } else {
        call.until
    };
    let at = account.gate.clock.instant(limit);
    match tokio::time::timeout_at(at, begin(account, call)).await {
        Ok(answer) => answer,
        // How long the caller had waited before, or wants a long answer to take, says nothing about the endpoint.
        Err(_elapsed) if limit == call.deadline => Err(failed(
            Fault::new(FaultKind::CallTimeout, "the call's time is up"),
            LeaseEnd::Cancelled,
        )),
        // The route wants another target to be asked by now, which is no judgement on this one either.
        Err(_elapsed) if limit == call.until => Err(Failed {
            may_go_on: true,
            ..failed(
                Fault::new(
                    FaultKind::FirstTokenTimeout,
                    "the model server gave no output in the time that the route gives it",
                ),
                LeaseEnd::Cancelled,
            )
        }),
        Err(_elapsed) => Err(failed(
            Fault::new(FaultKind::FirstTokenTimeout, "the model server gave no output in time"),
            LeaseEnd::Failure,
        )),
    }
}

async fn begin(account: &mut Account, call: &Call<'_>) -> Result<Answer, Failed> {
    let (link, mut head) = exchange(account, call).await?;
    Blank::of(account.booking()).headers(&mut head.headers);
    let plain = ResponseHead {
        status: head.status.as_u16(),
        content_type: text(&head.headers, CONTENT_TYPE),
        retry_after: text(&head.headers, RETRY_AFTER),
    };
    let engine = account
        .booking()
        .map(maitred_runtime::Booking::engine)
        .unwrap_or_default();
    let verdict = judge_head(&plain);
    if verdict == HeadVerdict::Relay {
        account.billing.begun();
    }
    match verdict {
        HeadVerdict::Relay if plain.is_event_stream() => {
            let stream = EventStream::new(link, engine, call.kind, call.usage_ask, call.event_max);
            let stream = Box::new(stream.into_chain(call.reply.clone()));
            let stream = first_output(account, call, stream).await?;
            Ok(Answer::Stream(head.status, for_client(account, head.headers), stream))
        }
        HeadVerdict::Relay => {
            let answer = whole_or_begun(account, call, link, plain.is_json()).await?;
            let headers = for_client(account, head.headers);
            Ok(match answer {
                Reading::Whole(link, body) => {
                    park(account, link);
                    Answer::Whole(head.status, headers, body)
                }
                Reading::Begun(link, begun) => Answer::Through(head.status, headers, Box::new((link, begun))),
            })
        }
        _ => refusal(account, link, (engine, &plain), &head).await,
    }
}

fn text(headers: &HeaderMap, name: http::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// What of an answer's headers the caller gets.
pub(crate) fn for_client(account: &Account, headers: HeaderMap) -> HeaderMap {
    let provider = account.booking().and_then(|booking| booking.upstream().provider());
    if provider.is_some() {
        outside::for_client(headers)
    } else {
        headers::for_client(headers)
    }
}

pub(crate) fn park(account: &Account, link: Link) {
    account.gate.shard.park(link, account.now());
}

/// Sends the request and waits for the head of the answer.
///
/// A link that was idle may have been closed by the endpoint just then. If the request was not written, it goes out over a fresh
/// link; once it was, the endpoint may have acted on it, and it is never sent there again.
async fn exchange(account: &Account, call: &Call<'_>) -> Result<(Link, AnswerHead), Failed> {
    let Some(booking) = account.booking() else {
        return Err(failed(
            Fault::new(FaultKind::Internal, "no endpoint is booked"),
            LeaseEnd::Failure,
        ));
    };
    let upstream = Arc::clone(booking.upstream());
    let address = upstream.provider().map_or(booking.address(), Provider::address);
    let head = wire::head(call.kind, call.head, &call.body, &upstream, booking.address());
    let head = head.map_err(|fault| failed(fault, LeaseEnd::Cancelled))?;
    let head = wire::with_id(head, &account.request_id);
    let request = Outgoing {
        head: &head,
        body: &call.body,
        asked: if call.head.method == Method::HEAD {
            Asked::Head
        } else {
            Asked::Whole
        },
    };
    let mut idle = account.gate.shard.take(address, account.now());
    loop {
        let mut link = match idle.take() {
            Some(link) => link,
            None => connect(address, upstream.provider(), call).await?,
        };
        account.billing.sent(account.now());
        match link.send(request).await {
            Ok(head) => return Ok((link, head)),
            Err(error) if link.is_reused && error.is_unsent => {}
            Err(error) => {
                let fault = Fault::new(FaultKind::UpstreamBroken, "the connection to the model server broke");
                let failed = failed(fault.with_detail(error.to_string()), LeaseEnd::Failure);
                return Err(failed.undone(error.is_unsent));
            }
        }
    }
}

async fn connect(address: &Address, provider: Option<&Provider>, call: &Call<'_>) -> Result<Link, Failed> {
    Link::open(address, provider, call.timeouts.connect)
        .await
        .map_err(|error| {
            let fault = Fault::new(FaultKind::ConnectFailed, "no connection to the model server");
            failed(fault.with_detail(error.to_string()), LeaseEnd::Failure).undone(true)
        })
}

impl Call<'_> {
    /// What an answer that has begun is held to.
    pub(crate) const fn limits(&self) -> AnswerLimits {
        AnswerLimits {
            idle: self.timeouts.idle,
            deadline: self.deadline,
            input: self.input,
            output: self.output_limit,
        }
    }
}

/// Reads a stream up to its first output. What it says of its usage is the attempt's, also if nothing comes of it.
async fn first_output(
    account: &mut Account,
    call: &Call<'_>,
    mut stream: Box<EventStream>,
) -> Result<Box<EventStream>, Failed> {
    loop {
        if call.kind.is_inference() {
            account.usage = Some(stream.usage(call.input));
        }
        if stream.may_begin() {
            return Ok(stream);
        }
        if let Some(failure) = stream.take_failure() {
            return Err(Failed::from(*failure));
        }
        if stream.is_over() {
            return Ok(stream);
        }
        poll_fn(|cx| stream.poll_advance(cx)).await;
    }
}

/// Reads an answer that is no stream, and judges it if it is small enough to be read whole.
async fn whole_or_begun(account: &mut Account, call: &Call<'_>, link: Link, is_json: bool) -> Result<Reading, Failed> {
    // What may be a stream of some other form, such as sound, is of use from its first piece on.
    let is_flow = call.kind == CallKind::Other && (link.remaining().is_none() || !is_json);
    let reading = read(link, if is_flow { 0 } else { WHOLE_MAX }).await.map_err(|error| {
        let fault = Fault::new(FaultKind::UpstreamBroken, "the answer of the model server broke off");
        failed(fault.with_detail(error.to_string()), LeaseEnd::Failure)
    })?;
    if let Reading::Whole(_, body) = &reading {
        if call.kind.is_inference() {
            // A page of some proxy in between is no answer either.
            if let Err(failed) = judge_whole(if is_json { body.as_ref() } else { &[] }) {
                account.usage = answer_usage(body);
                return Err(failed);
            }
        }
        account.usage = usage(body, call);
        if let Some(mut reply) = call.reply.clone() {
            reply.whole(body);
            account.replied(reply);
        }
    }
    Ok(reading)
}

fn usage(body: &[u8], call: &Call<'_>) -> Option<Usage> {
    if let Some(usage) = answer_usage(body) {
        return Some(usage);
    }
    let mut tap = AnswerTap::new();
    tap.feed(body);
    if call.kind.is_inference() {
        Some(tap.usage(call.input, call.output_limit))
    } else {
        tap.reported()
    }
}

fn judge_whole(body: &[u8]) -> Result<(), Failed> {
    match judge_body(body) {
        BodyVerdict::Good => Ok(()),
        BodyVerdict::Aborted => Err(failed(
            Fault::new(FaultKind::UpstreamAborted, "the model server aborted the answer"),
            LeaseEnd::Draining,
        )),
        BodyVerdict::Empty | BodyVerdict::Malformed => Err(failed(
            Fault::new(FaultKind::UpstreamMalformed, "the model server's answer is no answer"),
            LeaseEnd::Failure,
        )),
        BodyVerdict::Error(error) => {
            let fault = Fault::new(FaultKind::UpstreamError, "the model server failed while answering");
            Err(failed(
                fault.with_detail(nameable("an error in place of an answer", &error)),
                LeaseEnd::Failure,
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_change_something_is_not_run_twice() {
        for method in [Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
            assert!(acts(CallKind::Other, &method), "{method}");
            assert!(!acts(CallKind::Chat, &method), "{method}");
        }
        assert!(!acts(CallKind::Other, &Method::GET));
    }
}
