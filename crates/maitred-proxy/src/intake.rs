//! Taking a call in: who calls, what for, and the body, each checked before the next costs anything.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Request};
use http_body::Body;
use hyper::body::Incoming;
use maitred_config::Limits;
use maitred_llm::{CallKind, CallPath};
use maitred_runtime::{CertificateNames, Clock, Presented, Principal, Runtime, Snapshot};
use maitred_types::{ByteSize, FaultKind, Time, TokenCount, UnixMillis};

use crate::alarm::{Alarm, AnswerLimits};
use crate::fault::Fault;
use crate::headers::{CLASS, GATEWAYS, USER_TOKEN, is_encoded, presented_key};

/// When to come back with a token that cannot be checked.
const ISSUER_RETRY: Duration = Duration::from_secs(5);

/// Most gateways that a call may come through, this one included.
const GATEWAYS_MAX: u8 = 4;

/// Finds out who is calling, and for whom.
pub(crate) fn authenticate(
    snapshot: &Snapshot,
    headers: &HeaderMap,
    certificate: Option<&CertificateNames>,
    now: UnixMillis,
) -> Result<Principal, Fault> {
    let several = |_| {
        Fault::new(
            FaultKind::InvalidKey,
            "the call presents more than one key; send exactly one",
        )
    };
    let user_header = snapshot.settings().auth.user_header.as_str();
    let presented = Presented {
        credential: presented_key(headers).map_err(several)?,
        user: only(headers, user_header)?,
        user_token: only(headers, USER_TOKEN.as_str())?,
        certificate,
    };
    snapshot.authenticate(&presented, now).map_err(|refused| Fault {
        detail: refused.detail.map(str::to_owned),
        retry_after: (refused.fault == FaultKind::IssuerUnavailable).then_some(ISSUER_RETRY),
        ..Fault::new(refused.fault, refused.message)
    })
}

/// The value of a header that says who or what a call is for. Of two nobody could say which counts.
pub(crate) fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Fault> {
    let mut values = headers.get_all(name).into_iter();
    let first = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some(first), None) => std::str::from_utf8(first.as_bytes()).ok(),
        (Some(_), Some(_)) => None,
    };
    first.map(Some).ok_or_else(|| {
        let message = format!("the header `{name}` must occur once, in UTF-8");
        Fault::new(FaultKind::InvalidField, message)
    })
}

/// The class by which the call waits where there is no room.
pub(crate) fn class(snapshot: &Snapshot, principal: &Principal, headers: &HeaderMap) -> Result<Arc<str>, Fault> {
    let asked = match headers.get(CLASS).map(HeaderValue::to_str) {
        None => None,
        Some(Ok(name)) => Some(name),
        Some(Err(_)) => Some(""),
    };
    snapshot.class(principal, asked).map_err(|known| {
        Fault::new(
            FaultKind::Malformed,
            format!("the header `{CLASS}` names no class; there are: {}", known.join(", ")),
        )
    })
}

/// How many gateways the call has come through, this one included.
///
/// # Errors
/// When they are too many, or the header that counts them does not say.
pub(crate) fn gateways(headers: &HeaderMap) -> Result<u8, Fault> {
    let Some(before) = only(headers, GATEWAYS.as_str())? else {
        return Ok(1);
    };
    let before: u8 = before.parse().map_err(|_| {
        let message = format!("the header `{GATEWAYS}` is set by gateways, and counts them");
        Fault::new(FaultKind::InvalidField, message)
    })?;
    if before < GATEWAYS_MAX {
        return Ok(before + 1);
    }
    Err(Fault::new(
        FaultKind::LoopDetected,
        format!(
            "the call has come through {before} gateways and most likely goes in a circle; the operator must look at it"
        ),
    ))
}

/// Reads the path, and checks that it has the method.
pub(crate) fn path<'a, B>(request: &'a Request<B>) -> Result<CallPath<'a>, Fault> {
    let path = CallPath::parse(request.uri().path())
        .map_err(|error| Fault::new(error.fault(), format!("nothing is served here: {error}")))?;
    if path.kind.allows(request.method().as_str()) {
        return Ok(path);
    }
    let allowed = path.kind.methods();
    let message = format!("{} is not allowed here; use {}", request.method(), allowed.join(" or "));
    Err(Fault {
        allow: Some(allowed),
        ..Fault::new(FaultKind::MethodNotAllowed, message)
    })
}

/// Whether calls are taken. While the gateway drains they are: what still comes over an open connection was sent before its
/// client could know better.
pub(crate) fn open_to_calls(runtime: &Runtime) -> Result<(), Fault> {
    if runtime.audit().is_some_and(|audit| !audit.takes_calls()) {
        return Err(Fault::new(
            FaultKind::AuditUnavailable,
            "the gateway cannot record who calls and does not let calls go unrecorded; try again later",
        ));
    }
    Ok(())
}

/// Checks the size of a head that has been read. hyper has its own limits, which hold memory in bounds while it reads.
pub(crate) fn head_size<B>(request: &Request<B>, limits: &Limits) -> Result<(), Fault> {
    let headers = request.headers();
    let fields = headers.iter().map(|(name, value)| name.as_str().len() + value.len());
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    let size = request.method().as_str().len() + target + fields.sum::<usize>();
    let many = limits.header_count.get() as usize;
    let message = if size > limits.header_size.as_usize() {
        format!(
            "the headers and the path are larger than {}, which is the limit of this gateway",
            limits.header_size
        )
    } else if headers.len() > many {
        format!("there are more than {many} headers, which is the limit of this gateway")
    } else {
        return Ok(());
    };
    Err(Fault::new(FaultKind::HeadersTooLarge, message))
}

/// Whether the body is said to be JSON. Paths whose body must be JSON refuse anything else.
pub(crate) fn is_json(kind: CallKind, headers: &HeaderMap) -> Result<bool, Fault> {
    let content_type = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let media = content_type.split(';').next().unwrap_or_default().trim();
    if media.eq_ignore_ascii_case("application/json") {
        return Ok(true);
    }
    if kind == CallKind::Other {
        // Engines read such a body as JSON too, so its model must not go unseen.
        return Ok(media.len() > 5 && media.as_bytes()[media.len() - 5..].eq_ignore_ascii_case(b"+json"));
    }
    let found = if media.is_empty() {
        "there is none".into()
    } else {
        format!("it is `{}`", printable(media))
    };
    let message = format!("the content type must be `application/json`, but {found}");
    Err(Fault::new(FaultKind::UnsupportedMediaType, message))
}

/// Refuses a body that is packed: the gateway must read it.
pub(crate) fn unpacked(headers: &HeaderMap) -> Result<(), Fault> {
    if is_encoded(headers) {
        return Err(Fault::new(
            FaultKind::UnsupportedEncoding,
            "send the body without content-encoding",
        ));
    }
    Ok(())
}

/// How much of a body is read, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyLimits {
    /// All of it.
    pub(crate) size: ByteSize,
    /// When its end must have come.
    pub(crate) deadline: Time,
    /// Between two of its pieces.
    pub(crate) idle: Duration,
}

/// Reads the whole body.
pub(crate) async fn read_body(
    headers: &HeaderMap,
    body: Incoming,
    limits: BodyLimits,
    clock: Clock,
) -> Result<Bytes, Fault> {
    let cap = limits.size;
    let too_large = || {
        Fault::new(
            FaultKind::BodyTooLarge,
            format!("the body is larger than {cap}, which is the limit of this gateway"),
        )
    };
    let announced = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > cap.get()) {
        return Err(too_large());
    }
    let alarm = Alarm::set(
        AnswerLimits {
            idle: limits.idle,
            deadline: limits.deadline,
            input: TokenCount::ZERO,
            output: None,
        },
        clock,
    );
    match gather(body, cap.as_usize(), alarm).await {
        Ok(Some(body)) => Ok(body),
        Ok(None) => Err(too_large()),
        Err(Some(error)) => Err(
            Fault::new(FaultKind::IncompleteBody, "the body ended early, or is badly framed")
                .with_detail(error.to_string()),
        ),
        Err(None) => Err(Fault::new(
            FaultKind::IncompleteBody,
            "the body took too long to arrive",
        )),
    }
}

/// The body in one piece; `None` when it is larger than `cap`. The error is `None` when the alarm rang.
async fn gather(mut body: Incoming, cap: usize, mut alarm: Alarm) -> Result<Option<Bytes>, Option<hyper::Error>> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    loop {
        // One timer for all pieces, moved only when it rings: setting one for each costs more than the piece.
        let piece = poll_fn(|cx| match Pin::new(&mut body).poll_frame(cx) {
            Poll::Ready(piece) => Poll::Ready(Ok(piece)),
            Poll::Pending => alarm.poll_ring(cx).map(|_late| Err(None)),
        });
        let Some(frame) = piece.await? else {
            break;
        };
        alarm.note_sign();
        let Ok(data) = frame.map_err(Some)?.into_data() else {
            continue;
        };
        if first.len().max(rest.len()) + data.len() > cap {
            return Ok(None);
        }
        if first.is_empty() {
            first = data;
            continue;
        }
        if rest.is_empty() {
            // The length may be announced; then memory is taken once, and never more than the cap.
            let remaining = usize::try_from(body.size_hint().lower()).unwrap_or(cap).min(cap);
            rest.reserve(first.len() + data.len() + remaining);
            rest.extend_from_slice(&first);
        }
        rest.extend_from_slice(&data);
    }
    Ok(Some(if rest.is_empty() { first } else { rest.freeze() }))
}

/// The beginning of a header's value, fit to be shown.
fn printable(text: &str) -> String {
    text.chars()
        .filter(|character| character.is_ascii_graphic())
        .take(64)
        .collect()
}
