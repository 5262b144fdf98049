//! A call's way through the gateway: one function, in the order in which things happen, with the reasons for the order.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use maitred_config::{PoolSettings, Settings};
use maitred_llm::{BodyError, BodyView, CallKind, Edits, ModelsPage, Reply, UsageAsk, model_entry, scan};
use maitred_runtime::{Principal, Snapshot, Target, length_key, session_hash};
use maitred_types::{FaultKind, TokenCount};

use crate::account::Account;
use crate::alarm::AnswerLimits;
use crate::attempt::{Answer, Call, run};
use crate::billing::{Billing, OutputBound};
use crate::body::ClientBody;
use crate::fault::Fault;
use crate::gate::{Client, Gate};
use crate::headers;
use crate::intake::{self, BodyLimits};
use crate::link::Segments;
use crate::prompt::Prompt;
use crate::quota::{self, Output};
use crate::relay::StreamRelay;
use crate::through::Through;

/// Output tokens that are expected of a call that does not limit them.
const EXPECTED_OUTPUT: u64 = 256;

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
    // Reading the body says which model is meant; only then is it known where the call can go.
    let view = view(kind, is_json, &body)?;
    let named = named(kind, view.as_ref(), &head.headers);
    if !body.is_empty() && named.is_beside_body() {
        allow_unread(&principal)?;
    }
    let target = route(&snapshot, &principal, named)?;
    account.target = Some(Arc::clone(&target));
    let lengths = length_key(target.served_as.as_str(), principal.tenant.as_str(), kind as u64);
    let mut edited = edit(account, (kind, &target), view.as_ref(), body, settings.limits.output);
    account.prompt = std::mem::take(&mut edited.prompt);
    account.is_stream = edited.is_stream;
    account.class = Some(intake::class(&snapshot, &principal, &head.headers)?);
    account.task = quota::task(&head.headers, &settings.quotas.task_header, principal.task())?;
    admit(account, settings, (kind, &target), &mut edited)?;
    let pool = target.pool.settings();
    let call = Call {
        kind,
        session: session(&head.headers, &pool),
        tenant: snapshot.share_of(&principal),
        attempts: pool.attempts,
        balance: pool.balance,
        head,
        target,
        body: edited.body.into_segments(),
        usage_ask: edited.usage_ask,
        is_stream: edited.is_stream,
        input: edited.input,
        output: edited.output,
        output_limit: edited.output_limit,
        length_key: lengths,
        reply: edited.reply,
        timeouts: settings.timeouts,
        event_max: settings.limits.event.as_usize(),
        deadline,
    };
    let answer = run(account, &call).await?;
    Ok(Handled::Answered(answer, call.limits()))
}

/// Reserves what the call may use, and limits what nothing limits to what is reserved. From here on it is charged for what it uses, and is in the ledger.
fn admit(
    account: &mut Account,
    settings: &Settings,
    (kind, target): (CallKind, &Target),
    edited: &mut Edited<'_>,
) -> Result<(), Fault> {
    let prices = &settings.prices;
    let price = prices
        .of(target.pool.name(), target.model.as_str(), account.arrived_unix)
        .cloned();
    let limited = quota::reserve(account, edited.input, edited.most, price.as_deref())?;
    if let (Some(each), Body::Edited(edits, answers)) = (limited, &mut edited.body) {
        edits.limit_output(kind, each);
        let told = TokenCount::saturating_from(each.saturating_mul(*answers));
        edited.output_limit = Some(told);
        // The endpoint is told so, so nothing that nobody saw is taken to be more: neither if the client leaves nor if the gateway dies.
        edited.bound.tokens = edited.bound.tokens.min(told);
        edited.output = edited.output.min(told);
    }
    let expected = kind.is_inference().then_some((edited.input, edited.output));
    account.billing = Billing::admitted(price, expected, edited.bound);
    Ok(())
}

/// Hands a good beginning to the client's connection. From here on the account belongs to the answer's body.
fn begin(mut account: Box<Account>, answer: Answer, limits: AnswerLimits) -> Response<ClientBody> {
    let (status, mut headers, body) = match answer {
        Answer::Whole(status, headers, body) => return account.answer(status, headers, body),
        Answer::Stream(status, mut headers, events) => {
            // Proxies on the way must neither hold the stream back nor keep it.
            headers.insert(headers::ACCEL_BUFFERING, HeaderValue::from_static("no"));
            headers
                .entry(CACHE_CONTROL)
                .or_insert(HeaderValue::from_static("no-cache"));
            account.stamp(&mut headers);
            account.status = status.as_u16();
            (
                status,
                headers,
                ClientBody::Stream(Box::new(StreamRelay::new(events, account, limits))),
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

/// Where a call names its model, if it does.
#[derive(Clone, Copy, Debug)]
enum Named<'a> {
    /// In its body, where it must.
    InBody(Option<&'a str>),
    /// In a header beside a body in JSON that has no place for it.
    Beside(Option<&'a str>),
    /// In a header, beside no body or one that is not read.
    Unread(Option<&'a str>),
}

impl Named<'_> {
    const fn is_beside_body(self) -> bool {
        matches!(self, Self::Unread(_) | Self::Beside(Some(_)))
    }
}

fn named<'a>(kind: CallKind, view: Option<&'a BodyView>, headers: &'a HeaderMap) -> Named<'a> {
    let beside = || headers.get(headers::MODEL).and_then(|model| model.to_str().ok());
    match view.map(BodyView::model) {
        None => Named::Unread(beside()),
        Some(None) if kind == CallKind::Other => Named::Beside(beside()),
        Some(in_body) => Named::InBody(in_body),
    }
}

/// Where the call goes, if the key may go there.
fn route(snapshot: &Snapshot, principal: &Principal, named: Named<'_>) -> Result<Arc<Target>, Fault> {
    let (Named::InBody(name) | Named::Beside(name) | Named::Unread(name)) = named;
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        let may_guess = matches!(named, Named::Unread(_));
        return snapshot.sole_route(principal).filter(|_| may_guess).cloned().ok_or_else(|| {
            Fault::new(
                FaultKind::MissingModel,
                "the call names no model; add `model` to the body (or the header `x-maitred-model` where the body has no place for it)",
            )
        });
    };
    let unknown = || {
        let shown: String = name.chars().take(128).collect();
        Fault::new(
            FaultKind::UnknownModel,
            format!("no model `{shown}`; GET /v1/models lists those this key may use"),
        )
    };
    let target = snapshot.route(name).ok_or_else(unknown)?;
    if principal.may_use(name) {
        Ok(Arc::clone(target))
    } else {
        Err(Fault::new(
            FaultKind::ModelNotAllowed,
            format!("this key may not use the model `{name}`"),
        ))
    }
}

/// Lets a body that is not read pass. A form names its model inside; a key that may use some models only must not reach others
/// so.
fn allow_unread(principal: &Principal) -> Result<(), Fault> {
    if principal.is_limited() {
        return Err(Fault::new(
            FaultKind::ModelNotAllowed,
            "this key may use some models only, so its calls must have a body in JSON that names one of them",
        ));
    }
    Ok(())
}

/// What binds the call to others of its conversation, if the client says so.
fn session(headers: &HeaderMap, pool: &PoolSettings) -> Option<u64> {
    let session = headers.get(pool.session_header.as_str())?;
    Some(session_hash(session.as_bytes()))
}

/// A body ready to be sent, and what is known of it.
struct Edited<'a> {
    body: Body<'a>,
    usage_ask: UsageAsk,
    is_stream: bool,
    input: TokenCount,
    output: TokenCount,
    /// The most output that it may have.
    most: Output,
    /// What the client allows, if it says, or what the call is limited to.
    output_limit: Option<TokenCount>,
    bound: OutputBound,
    prompt: Prompt,
    reply: Option<Reply>,
}

/// What is sent, before it is cut into pieces.
enum Body<'a> {
    /// It is not read, and stays as it is.
    Unread(Bytes),
    /// It is read, and edited; how many answers it asks for.
    Edited(Edits<'a>, u64),
}

impl Body<'_> {
    fn into_segments(self) -> Segments {
        match self {
            Self::Unread(body) => Segments::from_iter([body]),
            Self::Edited(edits, _) => edits.apply().into_segments(),
        }
    }
}

/// Splices in the endpoint's name of the model and the wish for usage; every other byte stays as it came.
fn edit<'a>(
    account: &Account,
    (kind, target): (CallKind, &Target),
    view: Option<&'a BodyView>,
    body: Bytes,
    most: u32,
) -> Edited<'a> {
    let Some(view) = view else {
        let input = TokenCount::saturating_from(body.len() as u64 / 4);
        return Edited {
            body: Body::Unread(body),
            most: Output::Nothing,
            usage_ask: UsageAsk::Nobody,
            is_stream: false,
            input,
            output: TokenCount::ZERO,
            output_limit: None,
            bound: OutputBound::default(),
            prompt: Prompt::default(),
            reply: None,
        };
    };
    let mut edits = Edits::new(view);
    edits.set_model(target.served_as.as_str());
    let usage_ask = edits.ask_for_usage(kind);
    let limit = view
        .output_limit(kind)
        .map(|tokens| TokenCount::saturating_from(tokens.saturating_mul(view.choices())));
    let (prompt, reply) = Prompt::read(kind, target, view, account.gate.chain_use());
    let output = view
        .output_limit(kind)
        .unwrap_or(EXPECTED_OUTPUT)
        .min(EXPECTED_OUTPUT)
        .saturating_mul(view.choices());
    Edited {
        body: Body::Edited(edits, view.choices()),
        most: Output::of(kind, view, most),
        usage_ask,
        is_stream: view.wants_stream(),
        input: prompt.tokens,
        prompt,
        reply,
        output: if kind.generates() {
            TokenCount::saturating_from(output)
        } else {
            TokenCount::ZERO
        },
        output_limit: limit,
        bound: if kind.generates() {
            OutputBound {
                // Without a limit the model goes on for as long as its context is, which is longer than a call may take.
                tokens: limit.unwrap_or(TokenCount::new(u32::MAX)),
                choices: view.choices(),
            }
        } else {
            OutputBound::default()
        },
    }
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
