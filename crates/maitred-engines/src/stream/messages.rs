//! Anthropic's messages: `message_start`, blocks, `message_delta` with the reason, `message_stop`.

use super::event::{Event, member, says_something};
use super::{EventVerdict, FinishReason, StreamJudge};
use crate::json::as_string;

impl StreamJudge {
    pub(super) fn judge_message(&mut self, kind: &[u8], event: &Event<'_>) -> EventVerdict {
        let says = |part: Option<&[u8]>| part.is_some_and(|part| says_something(part, &[b"type"]));
        match kind {
            b"message_start" | b"content_block_stop" | b"ping" => EventVerdict::Preamble,
            b"content_block_start" if says(event.content_block) => EventVerdict::Output,
            b"content_block_delta" if says(event.delta) => EventVerdict::Output,
            b"content_block_start" | b"content_block_delta" => EventVerdict::Preamble,
            b"message_delta" => self.judge_message_delta(event.delta.unwrap_or_default()),
            b"message_stop" => {
                self.done = true;
                EventVerdict::Done
            }
            _ => EventVerdict::Unknown,
        }
    }

    /// vLLM has no word for "abort" in this dialect: it says `null` where a reason is due.
    fn judge_message_delta(&mut self, delta: &[u8]) -> EventVerdict {
        let Some(raw) = member(delta, b"stop_reason") else {
            return EventVerdict::Preamble;
        };
        let reason = match as_string(raw) {
            None | Some(b"abort") => {
                self.aborted = true;
                return EventVerdict::Aborted;
            }
            Some(b"end_turn" | b"stop_sequence" | b"pause_turn") => FinishReason::Stop,
            Some(b"max_tokens" | b"model_context_window_exceeded") => FinishReason::Length,
            Some(b"tool_use") => FinishReason::ToolCalls,
            Some(b"refusal") => FinishReason::ContentFilter,
            Some(_) => FinishReason::Other,
        };
        self.reasoned = true;
        EventVerdict::Finish {
            reason,
            with_output: false,
        }
    }
}
