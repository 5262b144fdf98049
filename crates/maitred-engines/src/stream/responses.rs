//! OpenAI's responses: `response.created`, deltas, and one of four last events.

use super::event::{Event, member};
use super::{EventVerdict, FinishReason, StreamJudge};
use crate::json::{as_string, is_void};

impl StreamJudge {
    /// `kind` is the event's type without `response.`.
    pub(super) fn judge_response(&mut self, kind: &[u8], event: &Event<'_>, data: &[u8]) -> EventVerdict {
        match kind {
            b"completed" | b"incomplete" | b"failed" | b"cancelled" => self.judge_last(kind, event, data),
            _ if kind.ends_with(b".delta") && event.delta.is_some_and(|delta| !is_void(delta)) => EventVerdict::Output,
            _ => EventVerdict::Preamble,
        }
    }

    /// vLLM ends every stream with `response.completed` and tells the truth in the response's `status`; SGLang names the
    /// event after it. The status counts where there is one.
    fn judge_last(&mut self, kind: &[u8], event: &Event<'_>, data: &[u8]) -> EventVerdict {
        self.done = true;
        let response = event.response.unwrap_or_default();
        let status = member(response, b"status").and_then(as_string).unwrap_or(kind);
        let reason = match status {
            b"failed" => return self.errored(member(response, b"error").map_or(data, |_| response)),
            b"cancelled" => {
                self.aborted = true;
                return EventVerdict::Aborted;
            }
            b"incomplete" => member(response, b"incomplete_details")
                .and_then(|details| member(details, b"reason"))
                .and_then(as_string)
                .map_or(FinishReason::Other, incomplete_reason),
            _ => FinishReason::Stop,
        };
        self.reasoned = true;
        EventVerdict::Finish {
            reason,
            with_output: false,
        }
    }
}

fn incomplete_reason(reason: &[u8]) -> FinishReason {
    match reason {
        b"max_output_tokens" | b"max_tokens" => FinishReason::Length,
        b"content_filter" => FinishReason::ContentFilter,
        _ => FinishReason::Other,
    }
}
