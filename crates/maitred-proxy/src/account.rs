//! The account of one call: what its record, its metrics and its lease need to know, closed exactly once.
//!
//! A call is closed by whoever brings it to its end. The one way it can be dropped open is that the client has gone: hyper
//! drops the call's future, or the answer's body, when the connection closes. So a dropped account closes itself as such.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use maitred_llm::{Reply, dialect_of, error_body};
use maitred_obs::CallEnd;
use maitred_runtime::{AttemptEnd, Booking, Choice, NoPlace, Principal, QuotaUse, Reserved, Standing, Target};
use maitred_types::{
    Address, Dialect, EndpointId, FaultKind, LeaseEnd, OutcomeStatus, RequestId, Time, TokenCount, UnixMillis, Usage,
};

use crate::billing::Billing;
use crate::blank::Blank;
use crate::body::ClientBody;
use crate::fault::{Fault, retry_after_seconds};
use crate::gate::{Client, Gate};
use crate::headers;
use crate::kept::Keeping;
use crate::prompt::Prompt;
use crate::quota;
use crate::text::Talk;
use crate::way::Way;

/// Status that the record shows for a call whose client went away before its answer began (nginx's convention).
const CLIENT_CLOSED: u16 = 499;

/// One call's account.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) gate: Arc<Gate>,
    pub(crate) client: Arc<Client>,
    pub(crate) arrived: Time,
    pub(crate) arrived_unix: UnixMillis,
    pub(crate) request_id: RequestId,
    pub(crate) method: Method,
    /// Copied out of the request, whose buffer would otherwise live as long as the answer.
    pub(crate) path: Box<str>,
    pub(crate) dialect: Dialect,
    pub(crate) principal: Option<Principal>,
    /// Where it goes at present.
    pub(crate) target: Option<Arc<Target>>,
    /// How far it has come along its plan.
    pub(crate) way: Way,
    /// Where the answer is to be kept, until it begins.
    pub(crate) keeping: Option<Box<Keeping>>,
    pub(crate) is_stream: bool,
    pub(crate) tells_endpoint: bool,
    pub(crate) request_bytes: u64,
    pub(crate) response_bytes: u64,
    pub(crate) attempts: u32,
    /// Why the call went where it went so far.
    #[expect(clippy::vec_box, reason = "a choice is large, is moved on, and mostly the only one")]
    pub(crate) choices: Vec<Box<Choice>>,
    booking: Option<Booking>,
    /// The task it says it belongs to.
    pub(crate) task: Option<Box<str>>,
    /// What the call has reserved of its quotas.
    pub(crate) reserved: Option<Reserved>,
    /// How the tightest limits stand, or those that refuse it: on calls and on tokens.
    pub(crate) standings: [Option<Standing>; 2],
    /// Whether it was let go without knowing what other gateways had left of them.
    pub(crate) is_blind: bool,
    /// What it costs, and its entry in the ledger.
    pub(crate) billing: Billing,
    pub(crate) endpoint: Option<(Address, &'static str)>,
    pub(crate) first_token: Option<Time>,
    /// The class by which it waits where there is no room.
    pub(crate) class: Option<Arc<str>>,
    /// Since when it may be waiting.
    asked: Option<Time>,
    /// How long it has waited in the gateway.
    pub(crate) waited: Duration,
    pub(crate) status: u16,
    pub(crate) usage: Option<Usage>,
    pub(crate) prompt: Prompt,
    pub(crate) session: Option<u64>,
    pub(crate) detail: Option<String>,
    /// What it says and is told, if its tenant wants that kept.
    pub(crate) talk: Option<Box<Talk>>,
    is_closed: bool,
}

impl Account {
    /// Opens the account of a call that has just arrived.
    pub(crate) fn open<B>(gate: Arc<Gate>, client: Arc<Client>, request: &Request<B>) -> Box<Self> {
        gate.meters.active_calls.inc();
        let (arrived, arrived_unix) = (gate.clock.now(), gate.clock.unix_now());
        let request_id = headers::kept_request_id(request.headers()).unwrap_or_else(|| gate.request_id());
        Box::new(Self {
            gate,
            client,
            arrived,
            arrived_unix,
            request_id,
            method: request.method().clone(),
            path: request.uri().path().into(),
            // Errors are told in the dialect of the path, even if nothing is served there.
            dialect: dialect_of(request.uri().path()),
            principal: None,
            target: None,
            way: Way::default(),
            keeping: None,
            is_stream: false,
            tells_endpoint: request.headers().contains_key(headers::ENDPOINT),
            request_bytes: 0,
            response_bytes: 0,
            attempts: 0,
            choices: Vec::new(),
            booking: None,
            task: None,
            reserved: None,
            standings: [None; 2],
            is_blind: false,
            billing: Billing::default(),
            endpoint: None,
            first_token: None,
            class: None,
            asked: None,
            waited: Duration::ZERO,
            status: 0,
            usage: None,
            prompt: Prompt::default(),
            session: None,
            detail: None,
            talk: None,
            is_closed: false,
        })
    }

    pub(crate) fn now(&self) -> Time {
        self.gate.clock.now()
    }

    /// The request id as a header's value. It is printable, so it always is one.
    pub(crate) fn request_id_value(&self) -> HeaderValue {
        HeaderValue::from_str(self.request_id.as_str()).unwrap_or(HeaderValue::from_static("invalid"))
    }

    /// A place is asked for, which may take a while.
    pub(crate) fn ask(&mut self) -> Time {
        let now = self.now();
        self.asked = Some(now);
        now
    }

    /// The wait for a place is over.
    const fn waited(&mut self, waited: Duration) {
        self.asked = None;
        self.waited = self.waited.saturating_add(waited);
    }

    /// An attempt begins.
    pub(crate) fn begin_attempt(&mut self, mut booking: Booking) {
        self.waited(booking.waited());
        self.attempts += 1;
        self.choices.extend(booking.take_choice());
        self.endpoint = Some((booking.address().clone(), booking.reason()));
        self.booking = Some(booking);
    }

    pub(crate) const fn booking(&self) -> Option<&Booking> {
        self.booking.as_ref()
    }

    pub(crate) const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The endpoint of the attempt that is under way.
    pub(crate) fn endpoint_id(&self) -> Option<EndpointId> {
        self.booking.as_ref().map(Booking::endpoint)
    }

    /// There was no place for an attempt.
    pub(crate) fn no_place(&mut self, no_place: &mut NoPlace) {
        self.waited(no_place.waited);
        self.choices.extend(no_place.choice.take());
    }

    /// An attempt has failed; the call may go on.
    pub(crate) fn end_attempt(&mut self, end: LeaseEnd, fault: &Fault) {
        let now = self.now();
        let Some(booking) = self.booking.take() else { return };
        if let Some(choice) = self.choices.last_mut() {
            choice.end(AttemptEnd {
                result: end,
                fault: Some(fault.kind),
                first_token: None,
                usage: None,
                at: now,
            });
        }
        self.billing.share = match (end, fault.retry_after) {
            (LeaseEnd::Overload, Some(wait)) => booking.finish_overloaded(wait, now),
            (end, _) => booking.finish(end, None, now),
        };
        self.way.attempted(Some(fault.kind), now);
        self.enter_failure(end, fault.kind, now);
    }

    /// The first output has come.
    pub(crate) fn first_output(&mut self) {
        if self.first_token.is_none() {
            let now = self.now();
            self.first_token = Some(now);
            if let Some(booking) = &self.booking {
                booking.first_token(now);
            }
        }
    }

    pub(crate) fn progress(&self, output: TokenCount) {
        if let Some(booking) = &self.booking {
            booking.progress(output, self.now());
        }
    }

    /// The answer is there in full.
    pub(crate) fn replied(&self, reply: Reply) {
        if let Some(booking) = &self.booking
            && let Some(chain) = self.prompt.with(reply)
        {
            booking.extended(&chain, self.now());
        }
    }

    /// Headers that every answer carries.
    pub(crate) fn stamp(&self, headers: &mut HeaderMap) {
        headers.insert(headers::REQUEST_ID, self.request_id_value());
        self.way.stamp(headers, self.target.as_deref());
        quota::stamp(headers, self.standings, self.dialect, self.gate.clock.unix_now());
        if self.tells_endpoint
            && let Some((address, _)) = &self.endpoint
            && let Ok(value) = HeaderValue::from_str(address.as_str())
        {
            headers.insert(headers::ENDPOINT, value);
        }
    }

    /// Answers with an error of the gateway's own, in the caller's dialect, and closes.
    pub(crate) fn refuse(mut self: Box<Self>, fault: Fault) -> Response<ClientBody> {
        let body = error_body(self.dialect, fault.kind, &fault.message, self.request_id.as_str());
        let status = StatusCode::from_u16(fault.kind.row().status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = Response::new(ClientBody::whole(body.clone()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(after) = fault.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(retry_after_seconds(after)));
        }
        match fault.kind {
            FaultKind::MissingKey | FaultKind::InvalidKey | FaultKind::ExpiredKey => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            FaultKind::MethodNotAllowed => {
                if let Some(allowed) = fault
                    .allow
                    .and_then(|allowed| HeaderValue::from_str(&allowed.join(", ")).ok())
                {
                    headers.insert(ALLOW, allowed);
                }
            }
            _ => {}
        }
        self.stamp(headers);
        self.status = status.as_u16();
        self.passed(&body);
        self.detail = fault.detail.or_else(|| Some(fault.message.into_owned()));
        // An attempt that is still under way was left, which says nothing of its endpoint.
        let end = if self.booking.is_some() {
            LeaseEnd::Cancelled
        } else {
            LeaseEnd::Failure
        };
        self.close(OutcomeStatus::Failed(fault.kind), end);
        response
    }

    /// Answers with bytes that are known in full, and closes.
    pub(crate) fn answer(
        mut self: Box<Self>,
        status: StatusCode,
        mut headers: HeaderMap,
        body: Bytes,
    ) -> Response<ClientBody> {
        self.stamp(&mut headers);
        self.status = status.as_u16();
        self.passed(&body);
        let mut response = Response::new(ClientBody::whole(body));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        self.close(OutcomeStatus::Answered, LeaseEnd::Success);
        response
    }

    /// The endpoint of the last attempt.
    pub(crate) fn endpoint_address(&self) -> Option<&str> {
        self.endpoint.as_ref().map(|(address, _)| address.as_str())
    }

    /// The answer's status, as records show it.
    pub(crate) const fn status_shown(&self) -> u16 {
        if self.status == 0 { CLIENT_CLOSED } else { self.status }
    }

    pub(crate) fn set_detail(&mut self, detail: String) {
        self.detail = Some(Blank::of(self.booking()).text(detail));
    }

    /// Closes the account: ends the lease, counts the call, writes the record. Later calls change nothing.
    pub(crate) fn close(&mut self, status: OutcomeStatus, lease_end: LeaseEnd) {
        if std::mem::replace(&mut self.is_closed, true) {
            return;
        }
        let now = self.now();
        if let Some(asked) = self.asked {
            // It was left while it waited.
            self.waited(now - asked);
        }
        if let Some(booking) = self.booking.take() {
            self.billing.share = booking.finish(lease_end, self.usage.as_ref(), now);
            self.end_choice(lease_end, status, now);
            self.way.attempted(status.fault(), now);
            self.usage = self.billing.burned(self.usage, status.fault(), (self.is_stream, now));
        }
        // The ledger first: what is settled when limits are added has to be in it by then.
        self.enter_end(status, lease_end, now);
        let quota = self.settle();
        let end = CallEnd {
            status,
            duration: now - self.arrived,
            first_token: self.first_token.map(|first| first - self.arrived),
            usage: self.usage,
        };
        match (&self.target, status.fault()) {
            (Some(target), _) => {
                target.meters.call_ended(&end);
                if let Some(usage) = &self.usage {
                    self.prompt.counted(target, usage);
                }
            }
            (None, Some(fault)) => self.gate.meters.call_refused(fault),
            (None, None) => {}
        }
        self.gate.meters.active_calls.dec();
        self.count_service(status, now);
        self.record();
        self.write_record(status, &end);
        self.enter_audit(status);
        self.leave_text();
        self.keep_decision(&end, quota);
    }

    /// Settles with the quotas what the call used. Says what came of it, if any was for the call.
    fn settle(&mut self) -> Option<QuotaUse> {
        let reserved = self.reserved.take()?;
        let used = quota::used(self.usage.as_ref(), &self.billing);
        let quota = reserved.is_limited.then_some(QuotaUse {
            reserved: reserved.most().tokens,
            used: used.tokens,
            tokens: reserved.tokens,
            calls: reserved.calls,
        });
        if let Some(subject) = quota::subject(self) {
            reserved.settle(used, &subject);
        }
        quota
    }

    /// Writes the truth beside the last choice.
    fn end_choice(&mut self, result: LeaseEnd, status: OutcomeStatus, now: Time) {
        if let Some(choice) = self.choices.last_mut() {
            choice.end(AttemptEnd {
                result,
                fault: status.fault(),
                first_token: self.first_token,
                usage: self.usage,
                at: now,
            });
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.close(OutcomeStatus::ClientClosed, LeaseEnd::Cancelled);
    }
}
