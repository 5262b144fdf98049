//! OpenAI's chat and completions: events with choices.

use smallvec::SmallVec;

use super::{EventVerdict, FinishReason, StreamJudge};
use crate::fault::{ErrorForm, UpstreamErrorBody};
use crate::json::{Cursor, as_string, is_void};

/// What the choices of one event say, taken together.
#[derive(Debug, Default)]
pub(super) struct Choices {
    /// There is an array of choices, be it empty.
    pub(super) present: bool,
    /// The indexes, and whether each has a finish reason. Noted by the judge only once the whole event has been read.
    seen: SmallVec<[(u32, bool); 2]>,
    output: bool,
    finish: Option<FinishReason>,
    aborted: bool,
    failed: bool,
}

/// What a `finish_reason` means.
enum Reason {
    Finish(FinishReason),
    Aborted,
    Failed,
}

impl Choices {
    /// Reads the array at the cursor; a value of another kind is passed over.
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        if cursor.peek()? != b'[' {
            return cursor.value().map(|_| ());
        }
        self.present = true;
        cursor.array(|cursor| match cursor.peek()? {
            b'{' => self.add(cursor),
            _ => cursor.value().map(|_| ()),
        })
    }

    fn add(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        let mut index = 0;
        let mut reason = None;
        cursor.object(|key, cursor| {
            match key {
                b"index" => index = whole(cursor.value()?),
                b"delta" => self.output |= delta_says_something(cursor)?,
                b"text" | b"logprobs" | b"token_ids" => self.output |= !is_void(cursor.value()?),
                b"finish_reason" => reason = as_string(cursor.value()?),
                _ => {
                    cursor.value()?;
                }
            }
            Some(())
        })?;
        self.seen.push((index, reason.is_some()));
        match reason.map(read_reason) {
            None => {}
            Some(Reason::Finish(reason)) => self.finish = Some(reason),
            Some(Reason::Aborted) => self.aborted = true,
            Some(Reason::Failed) => self.failed = true,
        }
        Some(())
    }
}

impl StreamJudge {
    pub(super) fn judge_choices(&mut self, choices: &Choices, has_usage: bool) -> EventVerdict {
        for &(index, finished) in &choices.seen {
            self.started.insert(index);
            if finished {
                self.finished.insert(index);
            }
        }
        if choices.failed {
            self.errored = true;
            return EventVerdict::Error(Box::new(UpstreamErrorBody {
                form: ErrorForm::OpenAi,
                message: "the engine ended a choice with the reason `error`".to_owned(),
                kind: None,
                param: None,
                code: None,
            }));
        }
        if choices.aborted {
            self.aborted = true;
            return EventVerdict::Aborted;
        }
        match choices.finish {
            Some(reason) => EventVerdict::Finish {
                reason,
                with_output: choices.output,
            },
            None if choices.output => EventVerdict::Output,
            None if choices.seen.is_empty() && has_usage => EventVerdict::UsageOnly,
            None => EventVerdict::Preamble,
        }
    }
}

/// Whether the delta at the cursor holds more than a role.
fn delta_says_something(cursor: &mut Cursor<'_>) -> Option<bool> {
    if cursor.peek()? != b'{' {
        return Some(!is_void(cursor.value()?));
    }
    let mut says = false;
    cursor.object(|key, cursor| {
        says |= !is_void(cursor.value()?) && key != b"role";
        Some(())
    })?;
    Some(says)
}

/// A whole number; one that does not fit, or is none, is out of any range.
fn whole(raw: &[u8]) -> u32 {
    std::str::from_utf8(raw)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(u32::MAX)
}

fn read_reason(reason: &[u8]) -> Reason {
    Reason::Finish(match reason {
        b"stop" => FinishReason::Stop,
        b"length" => FinishReason::Length,
        b"tool_calls" | b"function_call" => FinishReason::ToolCalls,
        b"content_filter" => FinishReason::ContentFilter,
        b"abort" => return Reason::Aborted,
        b"error" => return Reason::Failed,
        _ => FinishReason::Other,
    })
}
