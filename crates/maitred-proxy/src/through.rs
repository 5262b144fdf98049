//! Answers that are no streams of events: read in full when they are small, relayed as they come when they are large.

use std::future::poll_fn;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::SizeHint;
use maitred_llm::AnswerTap;
use maitred_types::{FaultKind, LeaseEnd, OutcomeStatus, TokenCount};

use crate::account::Account;
use crate::alarm::{Alarm, AnswerLimits};
use crate::body::Broken;
use crate::events::Failure;
use crate::fault::Fault;
use crate::link::{Link, LinkError};

/// Answers up to this size are read in full before the client gets any of it, so that an endpoint that breaks off can be
/// replaced by another.
pub(crate) const WHOLE_MAX: usize = 1 << 20;

/// How much of an answer has been read.
#[derive(Debug)]
pub(crate) enum Reading {
    /// All of it.
    Whole(Link, Bytes),
    /// More than is held back.
    Begun(Link, Bytes),
}

/// Reads an answer until its end, or until it is too large to hold back.
///
/// # Errors
/// When the endpoint breaks off.
pub(crate) async fn read(mut link: Link, max: usize) -> Result<Reading, LinkError> {
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(chunk) = poll_fn(|cx| link.poll_chunk(cx)).await {
        let chunk = chunk?;
        if first.is_empty() {
            first = chunk;
        } else {
            if rest.is_empty() {
                rest.reserve(expected(&first, &link));
                rest.extend_from_slice(&first);
            }
            rest.extend_from_slice(&chunk);
        }
        // What has come to its end need not be gone through.
        if first.len().max(rest.len()) > max && link.remaining() != Some(0) {
            return Ok(Reading::Begun(link, join(first, rest)));
        }
    }
    Ok(Reading::Whole(link, join(first, rest)))
}

/// One chunk needs no copy; several have been gathered.
fn join(first: Bytes, rest: BytesMut) -> Bytes {
    if rest.is_empty() { first } else { rest.freeze() }
}

fn expected(first: &Bytes, link: &Link) -> usize {
    let remaining = link.remaining().unwrap_or(0).min(WHOLE_MAX as u64);
    first.len() + usize::try_from(remaining).unwrap_or(WHOLE_MAX)
}

/// A large answer on its way.
#[derive(Debug)]
pub(crate) struct Through {
    /// `None` once it has been given back or cut.
    link: Option<Link>,
    begun: Bytes,
    account: Box<Account>,
    tap: AnswerTap,
    alarm: Alarm,
    /// The prompt's tokens, in case the endpoint does not say.
    input: TokenCount,
    /// The most output that it can have, if that is known.
    output: Option<TokenCount>,
}

impl Through {
    pub(crate) fn new((link, begun): (Link, Bytes), account: Box<Account>, limits: AnswerLimits) -> Self {
        let alarm = Alarm::set(limits, account.gate.clock);
        Self {
            link: Some(link),
            begun,
            account,
            tap: AnswerTap::new(),
            alarm,
            input: limits.input,
            output: limits.output,
        }
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        let held = self.begun.len() as u64;
        match self.link.as_ref().and_then(Link::remaining) {
            Some(remaining) => SizeHint::with_exact(held + remaining),
            None => SizeHint::default(),
        }
    }

    pub(crate) fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Broken>>> {
        if !self.begun.is_empty() {
            let begun = std::mem::take(&mut self.begun);
            return Poll::Ready(Some(Ok(self.pass(begun))));
        }
        let Some(link) = self.link.as_mut() else {
            return Poll::Ready(None);
        };
        match link.poll_chunk(cx) {
            Poll::Pending => match self.account.gate.cutoff.failure() {
                Some(Failure { fault, end }) => Poll::Ready(Some(Err(self.break_off(fault, end)))),
                None => self
                    .alarm
                    .poll_ring(cx)
                    .map(|Failure { fault, end }| Some(Err(self.break_off(fault, end)))),
            },
            Poll::Ready(Some(Ok(chunk))) => {
                self.alarm.note_sign();
                Poll::Ready(Some(Ok(self.pass(chunk))))
            }
            Poll::Ready(Some(Err(error))) => {
                let fault = Fault::new(FaultKind::UpstreamBroken, "the answer of the model server broke off");
                Poll::Ready(Some(Err(
                    self.break_off(fault.with_detail(error.to_string()), LeaseEnd::Failure)
                )))
            }
            Poll::Ready(None) => {
                self.end_well();
                Poll::Ready(None)
            }
        }
    }

    /// Hands bytes to the client. With the last byte of a known length the answer is over: hyper does not ask for more then.
    fn pass(&mut self, chunk: Bytes) -> Bytes {
        self.tap.feed(&chunk);
        self.account.passed(&chunk);
        if self.link.as_ref().is_some_and(|link| link.remaining() == Some(0)) {
            self.end_well();
        }
        chunk
    }

    fn end_well(&mut self) {
        if let Some(link) = self.link.take() {
            self.account.gate.shard.park(link, self.account.now());
        }
        self.settle();
        self.account.close(OutcomeStatus::Answered, LeaseEnd::Success);
    }

    /// There is no place for an error in the middle of such an answer, so the missing end has to tell of it.
    fn break_off(&mut self, fault: Fault, end: LeaseEnd) -> Broken {
        self.link = None;
        self.settle();
        let kind = fault.kind;
        self.account
            .set_detail(fault.detail.unwrap_or_else(|| fault.message.into_owned()));
        self.account.close(OutcomeStatus::Broken(kind), end);
        Broken
    }

    fn settle(&mut self) {
        self.account.usage = Some(self.tap.usage(self.input, self.output));
    }
}

impl Drop for Through {
    fn drop(&mut self) {
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;
    use crate::answer::Asked;
    use crate::link::Outgoing;
    use crate::link::tests::linked;

    /// What is read of an answer of which no more comes than `bytes`.
    async fn begun(bytes: &str, max: usize) -> Reading {
        let (mut link, mut endpoint) = linked().await;
        endpoint.write_all(bytes.as_bytes()).await.unwrap();
        let request = Outgoing {
            head: b"POST / HTTP/1.1\r\nhost: a\r\n\r\n",
            body: &[],
            asked: Asked::Whole,
        };
        link.send(request).await.unwrap();
        read(link, max).await.unwrap()
    }

    #[tokio::test]
    async fn an_answer_that_flows_begins_with_its_first_piece() {
        const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n";
        let flowing = begun(CHUNKED, 0).await;
        assert!(matches!(flowing, Reading::Begun(_, first) if first == "first"));
        let ended = begun(&format!("{CHUNKED}0\r\n\r\n"), 0).await;
        assert!(matches!(ended, Reading::Whole(_, all) if all == "first"));
        let long = begun("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nfirst", 4).await;
        assert!(matches!(long, Reading::Begun(_, first) if first == "first"));
    }
}
