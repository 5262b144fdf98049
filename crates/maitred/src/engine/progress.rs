//! How far one call's answer has come: written by whoever drives the engine, read by whoever serves the call.
//!
//! It is a latest-value cell, so a slow reader holds no queue: tokens that came in the meantime are read at once.

use std::task::{Context, Poll, Waker};

use maitred_sim::{FinishReason, SimUsage};
use parking_lot::Mutex;

/// One choice of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ChoiceProgress {
    /// Tokens that are there.
    pub(super) tokens: u32,
    /// Why it ended, if it has.
    pub(super) end: Option<FinishReason>,
    /// What it used, as far as known.
    pub(super) usage: SimUsage,
}

/// The whole answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AnswerProgress {
    /// Its choices.
    pub(super) choices: Vec<ChoiceProgress>,
    /// Whether the engine died under it.
    pub(super) engine_died: bool,
}

impl AnswerProgress {
    /// Whether nothing more will come.
    pub(super) fn is_over(&self) -> bool {
        self.engine_died || self.choices.iter().all(|choice| choice.end.is_some())
    }
}

#[derive(Debug)]
struct State {
    answer: AnswerProgress,
    changes: u64,
    reader: Option<Waker>,
}

/// The cell.
#[derive(Debug)]
pub(super) struct Progress {
    state: Mutex<State>,
}

impl Progress {
    /// A cell for an answer of `choices` choices.
    pub(super) fn new(choices: usize) -> Self {
        let answer = AnswerProgress {
            choices: vec![ChoiceProgress::default(); choices],
            engine_died: false,
        };
        Self {
            state: Mutex::new(State {
                answer,
                changes: 1,
                reader: None,
            }),
        }
    }

    /// Tokens of all choices that are there.
    pub(super) fn generated(&self) -> u64 {
        let state = self.state.lock();
        state.answer.choices.iter().map(|choice| u64::from(choice.tokens)).sum()
    }

    /// Changes the answer and wakes the reader.
    pub(super) fn update(&self, change: impl FnOnce(&mut AnswerProgress)) {
        let mut state = self.state.lock();
        change(&mut state.answer);
        state.changes += 1;
        let reader = state.reader.take();
        drop(state);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Copies the answer into `answer` when it has changed since `seen`; registers the reader otherwise.
    pub(super) fn poll(&self, seen: &mut u64, answer: &mut AnswerProgress, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.changes == *seen {
            state.reader = Some(cx.waker().clone());
            return Poll::Pending;
        }
        *seen = state.changes;
        answer.clone_from(&state.answer);
        Poll::Ready(())
    }

    /// Waits until the answer is over.
    pub(super) async fn over(&self) -> AnswerProgress {
        let (mut seen, mut answer) = (0, AnswerProgress::default());
        std::future::poll_fn(|cx| {
            while self.poll(&mut seen, &mut answer, cx).is_ready() {
                if answer.is_over() {
                    return Poll::Ready(());
                }
            }
            Poll::Pending
        })
        .await;
        answer
    }
}
