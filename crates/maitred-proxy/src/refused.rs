//! Answers of endpoints that are not 2xx: what they mean for the call, and how they are passed on.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use maitred_engines::{Engine, ErrorForm, HeadVerdict, ResponseHead, UpstreamErrorBody, judge_refusal};
use maitred_llm::{UpstreamError, reshape_error};
use maitred_types::{Dialect, FaultKind, LeaseEnd};

use crate::account::Account;
use crate::answer::AnswerHead;
use crate::attempt::{Answer, Failed, failed, for_client, park};
use crate::blank::Blank;
use crate::fault::{Fault, nameable};
use crate::headers;
use crate::link::Link;
use crate::through::{Reading, read};

/// Bytes of a refusal that are read.
const REFUSAL_MAX: usize = 64 << 10;

/// What is said where the endpoint points elsewhere.
const REDIRECTED: &str = "the model server has nothing at this path and points elsewhere, where the gateway does not follow; \
                          check the path, above all for a slash at its end";

/// A refusal that is the client's to read, in its dialect.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// What it is called if the call goes on to another target instead.
    pub(crate) fault: Fault,
}

impl Refused {
    fn new(status: StatusCode, headers: HeaderMap, body: Bytes) -> Self {
        Self {
            status,
            headers,
            body,
            fault: Fault::new(FaultKind::UpstreamError, "the model server refuses the call"),
        }
    }

    fn into_answer(mut self, kind: FaultKind, detail: String) -> Answer {
        self.fault.kind = kind;
        self.fault.detail = Some(detail);
        Answer::Refused(Box::new(self))
    }
}

/// An answer that is not 2xx: the caller's own fault is passed on in its dialect, the endpoint's is not.
pub(crate) async fn refusal(
    account: &Account,
    link: Link,
    (engine, plain): (Engine, &ResponseHead<'_>),
    head: &AnswerHead,
) -> Result<Answer, Failed> {
    let body = match read(link, REFUSAL_MAX).await {
        Ok(Reading::Whole(link, body)) => {
            park(account, link);
            body
        }
        Ok(Reading::Begun(_, begun)) => begun,
        Err(_) => Bytes::new(),
    };
    let body = Blank::of(account.booking()).bytes(body);
    // What is packed cannot be read here, and is not passed on unread.
    let is_packed = headers::is_encoded(&head.headers);
    let error = UpstreamErrorBody::read(if is_packed { &[] } else { &body });
    let detail = nameable(format!("HTTP {}", plain.status), &error);
    let broken = |kind, message: &'static str, end| {
        // 429 and 503 say that the endpoint has not begun.
        failed(Fault::new(kind, message).with_detail(detail.clone()), end).undone(matches!(plain.status, 429 | 503))
    };
    let asked = account.target.as_ref().map_or("", |target| target.served_as.as_str());
    match judge_refusal(engine, plain, &error, asked) {
        HeadVerdict::ClientError | HeadVerdict::UnknownPath | HeadVerdict::Relay | HeadVerdict::NotFound => {
            Ok(in_dialect(account, body, head, &error).into_answer(FaultKind::UpstreamError, detail))
        }
        HeadVerdict::TooLong => {
            Ok(in_dialect(account, body, head, &error).into_answer(FaultKind::ContextTooLong, detail))
        }
        HeadVerdict::Redirect => Ok(pointed_elsewhere(account).into_answer(FaultKind::UpstreamError, detail)),
        HeadVerdict::QuotaSpent { retry_after } => {
            let mut failed = broken(
                FaultKind::UpstreamQuota,
                "what this gateway may use of the model is spent for now",
                LeaseEnd::Overload,
            );
            failed.failure.fault.retry_after = retry_after;
            Err(failed)
        }
        HeadVerdict::Overload { retry_after } => {
            let mut failed = broken(
                FaultKind::UpstreamOverloaded,
                "every model server tried has too much to do",
                LeaseEnd::Overload,
            );
            failed.failure.fault.retry_after = retry_after;
            Err(failed)
        }
        HeadVerdict::ModelGone => Err(broken(
            FaultKind::UpstreamError,
            "the model server does not serve the model it should",
            LeaseEnd::Failure,
        )),
        HeadVerdict::ServerError => Err(broken(
            FaultKind::UpstreamError,
            "the model server failed",
            LeaseEnd::Failure,
        )),
        HeadVerdict::RefusedCredential => {
            tracing::error!(endpoint = ?account.endpoint_id(), "the endpoint refuses the gateway's own credential");
            let mut failed = broken(
                FaultKind::UpstreamRefusedKey,
                "the model server refuses the gateway's credential; the operator must look at it",
                LeaseEnd::Failure,
            );
            // Other endpoints of the pool get the same credential.
            failed.may_move = false;
            Err(failed)
        }
    }
}

/// What a caller is told in the place of a redirection.
fn pointed_elsewhere(account: &Account) -> Refused {
    let status = StatusCode::NOT_FOUND;
    let error = UpstreamError {
        status: status.as_u16(),
        message: REDIRECTED,
        ..UpstreamError::default()
    };
    let body = reshape_error(account.dialect, &error, account.request_id.as_str());
    Refused::new(status, headers::for_own_body(HeaderMap::new()), body)
}

/// The endpoint's refusal in the caller's dialect: untouched if it is in it already, or has no body.
fn in_dialect(account: &Account, body: Bytes, head: &AnswerHead, error: &UpstreamErrorBody) -> Refused {
    let is_own = match error.form {
        ErrorForm::OpenAi => account.dialect == Dialect::OpenAi,
        ErrorForm::Anthropic => account.dialect == Dialect::Anthropic,
        ErrorForm::Flat
        | ErrorForm::Text
        | ErrorForm::Framework
        | ErrorForm::Html
        | ErrorForm::Plain
        | ErrorForm::Empty => false,
    };
    let headers = for_client(account, head.headers.clone());
    if is_own || head.status == StatusCode::NOT_MODIFIED {
        return Refused::new(head.status, headers, body);
    }
    let message = if error.message.is_empty() {
        head.status
            .canonical_reason()
            .unwrap_or("the model server refuses the call")
    } else {
        &error.message
    };
    let error = UpstreamError {
        status: head.status.as_u16(),
        message,
        kind: error.kind.as_deref(),
        param: error.param.as_deref(),
        code: error.code.as_deref(),
    };
    let body = reshape_error(account.dialect, &error, account.request_id.as_str());
    Refused::new(head.status, headers::for_own_body(headers), body)
}
