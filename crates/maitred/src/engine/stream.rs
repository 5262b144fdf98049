//! A streamed answer: the body that turns progress into events.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame};
use maitred_engines::Engine;
use maitred_sim::FinishReason;

use super::call_log::Logged;
use super::core::Ticket;
use super::faults::Break;
use super::progress::{AnswerProgress, Progress};
use super::script::Choice;
use super::shape::{Ending, Piece, Shape, Totals};

/// Events of one write stay below this, so that a reader which fell behind costs no more memory than this.
const WRITE_BYTES: usize = 64 * 1024;

/// The connection is to be cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut;

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the simulated endpoint cuts the connection")
    }
}

impl std::error::Error for Cut {}

/// A call that the engine computes.
#[derive(Debug)]
pub(super) struct Call {
    /// The form of its answer.
    pub(super) shape: Shape,
    /// Its choices.
    pub(super) choices: Vec<Choice>,
    /// Choices per prompt.
    pub(super) n: usize,
    /// Tokens of all prompts.
    pub(super) prompt_tokens: u32,
    /// Whether usage tells of cached tokens.
    pub(super) tells_cached: bool,
    /// Whether every event tells usage.
    pub(super) continuous_usage: bool,
    /// How it breaks off, if it does: after so many tokens.
    pub(super) breaks: Option<(u32, Break)>,
    /// How far it is.
    pub(super) progress: Arc<Progress>,
    /// Its place in the engine.
    #[expect(dead_code, reason = "held so that dropping the call cancels it")]
    pub(super) ticket: Ticket,
    /// Its line in the log of calls, which is ended after its place is given up.
    #[expect(dead_code, reason = "held so that dropping the call writes its end")]
    pub(super) logged: Option<Logged>,
}

impl Call {
    /// What it has used.
    pub(super) fn totals(&self, answer: &AnswerProgress) -> Totals {
        let first_answers = answer.choices.iter().step_by(self.n.max(1));
        let cached = first_answers.map(|choice| choice.usage.cached.get()).sum();
        Totals {
            prompt: self.prompt_tokens,
            cached: self.tells_cached.then_some(cached),
            output: answer.choices.iter().map(|choice| choice.tokens).sum(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    tokens: u32,
    opened: bool,
    ended: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Events come as tokens do.
    Open,
    /// Nothing comes any more, and the connection stays.
    Silent,
    /// What was written is still to be flushed, then the connection is cut.
    Flushing,
    /// The connection is cut.
    Cutting,
    /// All is said.
    Closed,
}

/// The body.
#[derive(Debug)]
pub(super) struct EventStream {
    call: Call,
    answer: AnswerProgress,
    seen: u64,
    sent: Vec<Sent>,
    /// Tokens sent over all choices.
    delivered: u32,
    /// Whether more is known than has been written.
    is_behind: bool,
    stage: Stage,
}

impl EventStream {
    pub(super) fn new(call: Call) -> Self {
        let sent = vec![Sent::default(); call.choices.len()];
        Self {
            call,
            answer: AnswerProgress::default(),
            seen: 0,
            sent,
            delivered: 0,
            is_behind: false,
            stage: Stage::Open,
        }
    }

    /// Writes what is due.
    fn write(&mut self) -> String {
        let mut out = String::new();
        self.is_behind = false;
        for index in 0..self.sent.len() {
            self.write_choice(index, &mut out);
        }
        if let Some((_, how)) = self.call.breaks.filter(|_| self.is_broken()) {
            self.break_off(how, &mut out);
        } else if self.is_behind {
            // The rest comes with the next write.
        } else if self.answer.engine_died {
            let how = if self.call.shape.engine == Engine::Sglang {
                Break::Cut
            } else {
                Break::Error
            };
            self.break_off(how, &mut out);
        } else if self.sent.iter().all(|sent| sent.ended) {
            let last = self.answer.choices.first().and_then(|choice| choice.end);
            if let (Some(reason), Some(choice)) = (last, self.call.choices.first()) {
                let totals = self.call.totals(&self.answer);
                self.call.shape.closing(&mut out, totals, &Ending { reason, choice });
            }
            self.stage = Stage::Closed;
        }
        out
    }

    fn break_off(&mut self, how: Break, out: &mut String) {
        self.stage = match how {
            Break::Hang => Stage::Silent,
            Break::Cut => Stage::Flushing,
            Break::Error => {
                self.call.shape.failure(out);
                Stage::Closed
            }
        };
    }

    fn write_choice(&mut self, index: usize, out: &mut String) {
        let progress = self.answer.choices[index];
        let ends_empty = progress.end.is_some() && progress.tokens == 0;
        if (progress.tokens > 0 || ends_empty) && !self.sent[index].opened && !self.is_broken() {
            self.sent[index].opened = true;
            let so_far = self.so_far(0);
            self.call.shape.opening(out, index, so_far, self.call.prompt_tokens);
        }
        if ends_empty && !self.sent[index].ended {
            self.sent[index].ended = true;
            self.write_piece(index, "", progress.end, out);
        }
        while self.sent[index].tokens < progress.tokens && !self.is_broken() {
            if out.len() >= WRITE_BYTES {
                self.is_behind = true;
                return;
            }
            let token = self.sent[index].tokens;
            self.sent[index].tokens += 1;
            self.delivered += 1;
            let end = progress.end.filter(|_| token + 1 == progress.tokens);
            self.sent[index].ended |= end.is_some();
            let text = self.call.choices[index].script.piece(token).into_owned();
            self.write_piece(index, &text, end, out);
        }
        // The end may come to light after the last token was sent: an abort does.
        if progress.end.is_some() && !self.sent[index].ended && !self.is_broken() {
            self.sent[index].ended = true;
            self.write_piece(index, "", progress.end, out);
        }
    }

    fn is_broken(&self) -> bool {
        self.call.breaks.is_some_and(|(after, _)| self.delivered >= after)
    }

    fn write_piece(&self, index: usize, text: &str, end: Option<FinishReason>, out: &mut String) {
        let sent = self.sent[index].tokens;
        let piece = Piece {
            index,
            text,
            choice: &self.call.choices[index],
            is_first: sent <= 1,
            end,
            so_far: self.so_far(sent),
        };
        self.call.shape.piece(out, &piece);
    }

    fn so_far(&self, output: u32) -> Option<Totals> {
        let prompt = self.call.prompt_tokens;
        self.call.continuous_usage.then_some(Totals {
            prompt,
            cached: None,
            output,
        })
    }
}

impl Body for EventStream {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let this = self.get_mut();
        loop {
            match this.stage {
                Stage::Open => {}
                Stage::Silent => return Poll::Pending,
                Stage::Flushing => {
                    // The server flushes when it finds nothing to write.
                    this.stage = Stage::Cutting;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Stage::Cutting => return Poll::Ready(Some(Err(Cut))),
                Stage::Closed => return Poll::Ready(None),
            }
            if !this.is_behind
                && this
                    .call
                    .progress
                    .poll(&mut this.seen, &mut this.answer, cx)
                    .is_pending()
            {
                return Poll::Pending;
            }
            let out = this.write();
            if !out.is_empty() {
                return Poll::Ready(Some(Ok(Frame::data(Bytes::from(out)))));
            }
        }
    }
}
