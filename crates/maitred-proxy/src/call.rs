//! A call's way through the gateway: one function, in the order in which things happen, with the reasons for the order.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use maitred_llm::{BodyError, BodyView, CallKind, ModelsPage, model_entry, scan};
use maitred_runtime::{Principal, Snapshot};
use maitred_types::FaultKind;

use crate::account::Account;
use crate::alarm::AnswerLimits;
use crate::attempt::Answer;
use crate::body::ClientBody;
use crate::fault::Fault;
use crate::gate::{Client, Gate};
use crate::headers;
use crate::hop::{self, Asked};
use crate::intake::{self, BodyLimits};
use crate::named::{self, Named, Seen};
use crate::quota;
use crate::relay::StreamRelay;
use crate::through::Through;
use crate::way;

/// Serves one call. There is always an answer, be it an error.
pub(crate) async fn serve(
    gate: Arc<Gate>,
    client: Arc<Client>,
    request: Request<Incoming>,
) -> Result<Response<ClientBody>, Infallible> {
    let mut account = Account::open(gate, client, &request);
    let cutoff = Arc::clone(&account.gate.cutoff);
    let version = request.version();
    let mut response = match cutoff.guard(handle(&mut account, request)).await {
        Ok(Handled::Own(headers, body)) => account.answer(StatusCode::OK, headers, body),
        Ok(Handled::Answered(answer, limits)) => begin(account, answer, limits),
        Err(fault) => account.refuse(fault),
    };
    if cutoff.is_near() && version < Version::HTTP_2 {
        // HTTP/2 says it with a frame of its own.
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

/// What came of a call.
enum Handled {
    /// The gateway answers by itself.
    Own(HeaderMap, Bytes),
    /// An endpoint has begun a good answer.
    Answered(Answer, AnswerLimits),
}

async fn handle(account: &mut Account, request: Request<Incoming>) -> Result<Handled, Fault> {
    // One set of settings from here to the end, whatever is reloaded meanwhile.
    let runtime = Arc::clone(&account.gate.runtime);
    let snapshot = runtime.snapshot();
    intake::open_to_calls(&runtime)?;
    intake::head_size(&request, &snapshot.settings().limits)?;
    let path = intake::path(&request)?;
    let kind = path.kind;
    // The key comes before the body: a stranger's bytes are not read.
    let certificate = account.client.certificate.as_ref();
    let principal = intake::authenticate(&snapshot, request.headers(), certificate, runtime.clock().unix_now())?;
    account.principal = Some(principal.clone());
    intake::gateways(request.headers())?;
    if kind == CallKind::Models {
        return models(&snapshot, &principal, path.model.as_deref(), account);
    }
    let is_json = intake::is_json(kind, request.headers())?;
    intake::unpacked(request.headers())?;
    let settings = snapshot.settings();
    let deadline = account.arrived + settings.timeouts.total;
    let (head, body) = request.into_parts();
    let limits = BodyLimits {
        size: settings.limits.body,
        deadline,
        idle: settings.timeouts.idle,
    };
    let body = intake::read_body(&head.headers, body, limits, runtime.clock()).await?;
    account.request_bytes = body.len() as u64;
    account.hear_request(settings, &body);
    // Reading the body says which model is meant; only then is it known where the call can go.
    let view = view(kind, is_json, &body)?;
    let named = Named::of(kind, view.as_ref(), &head.headers);
    if !body.is_empty() && named.is_beside_body() {
        named::allow_unread(&principal)?;
    }
    let class = intake::class(&snapshot, &principal, &head.headers)?;
    let degrade = way::degrade(&head.headers, settings, &principal)?;
    let seen = Seen {
        kind,
        view: view.as_ref(),
        headers: &head.headers,
        class: &class,
        degrade,
    };
    let planned = named::plan(account, (&snapshot, &principal), named, &seen)?;
    let entry = planned.evidence.entry;
    account.way.plan(planned.asked, planned.evidence, &snapshot);
    account.class = Some(class);
    account.task = quota::task(&head.headers, &settings.quotas.task_header, principal.task())?;
    let asked = Asked {
        kind,
        head: &head,
        view: view.as_ref(),
        body: &body,
        snapshot: &snapshot,
        principal: &principal,
        degrade,
        deadline,
    };
    let (answer, limits) = hop::run(account, &asked, (&planned.plan, entry)).await?;
    Ok(Handled::Answered(answer, limits))
}

/// Hands a good beginning to the client's connection. From here on the account belongs to the answer's body.
fn begin(mut account: Box<Account>, answer: Answer, limits: AnswerLimits) -> Response<ClientBody> {
    let (status, mut headers, body) = match answer {
        Answer::Whole(status, headers, body) => return account.answer(status, headers, body),
        Answer::Refused(refused) => return account.answer(refused.status, refused.headers, refused.body),
        Answer::Stream(status, mut headers, events) => {
            // Proxies on the way must neither hold the stream back nor keep it.
            headers.insert(headers::ACCEL_BUFFERING, HeaderValue::from_static("no"));
            headers
                .entry(CACHE_CONTROL)
                .or_insert(HeaderValue::from_static("no-cache"));
            let answer = account.gather(status, &headers);
            account.stamp(&mut headers);
            account.status = status.as_u16();
            (
                status,
                headers,
                ClientBody::Stream(Box::new(StreamRelay::new(events, (account, answer), limits))),
            )
        }
        Answer::Through(status, mut headers, exchange) => {
            account.stamp(&mut headers);
            account.status = status.as_u16();
            let through = Through::new(*exchange, account, limits);
            (status, headers, ClientBody::Through(Box::new(through)))
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    std::mem::swap(response.headers_mut(), &mut headers);
    response
}

fn unreadable(error: &BodyError) -> Fault {
    Fault::new(error.fault(), error.to_string())
}

/// What is known of a body in JSON. Of an empty one there is nothing to know where none is needed: SDKs send the content type
/// along with a `DELETE`, or a `POST` that says all in its path.
fn view(kind: CallKind, is_json: bool, body: &Bytes) -> Result<Option<BodyView>, Fault> {
    if !is_json || (kind == CallKind::Other && body.is_empty()) {
        return Ok(None);
    }
    scan(body).map(Some).map_err(|error| unreadable(&error))
}

/// `GET /v1/models`: what this key may use, whatever endpoints call it.
fn models(snapshot: &Snapshot, principal: &Principal, id: Option<&str>, account: &Account) -> Result<Handled, Fault> {
    let created = account.gate.runtime.clock().unix_now();
    let body = match id {
        None => ModelsPage::new(snapshot.models(principal), created).to_body(),
        Some(id) if snapshot.models(principal).any(|name| name == id) => model_entry(id, created),
        Some(_) => {
            return Err(Fault::new(
                FaultKind::UnknownModel,
                "no such model; GET /v1/models lists those this key may use",
            ));
        }
    };
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]);
    Ok(Handled::Own(headers, body))
}
