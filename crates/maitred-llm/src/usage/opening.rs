//! Telling the chunk that opens a chat stream from one with output.

use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Debug, Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    choices: Vec<Choice<'a>>,
}

#[derive(Debug, Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    delta: Delta<'a>,
    #[serde(borrow)]
    finish_reason: Option<&'a RawValue>,
}

/// The members of a delta that carry output, under the names that engines give them.
#[derive(Debug, Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<&'a RawValue>,
    #[serde(borrow)]
    function_call: Option<&'a RawValue>,
}

impl Delta<'_> {
    fn is_empty(&self) -> bool {
        let members = [
            self.content,
            self.reasoning,
            self.reasoning_content,
            self.refusal,
            self.tool_calls,
            self.function_call,
        ];
        members.into_iter().flatten().all(is_nothing)
    }
}

/// Whether a chat chunk has choices, but nothing in them: most engines begin with one that only names the role, some put the first
/// words into it.
pub(super) fn is_opening(data: &[u8]) -> bool {
    let Ok(chunk) = serde_json::from_slice::<Chunk<'_>>(data) else {
        return false;
    };
    let opens = |choice: &Choice<'_>| choice.delta.is_empty() && choice.finish_reason.is_none_or(is_nothing);
    !chunk.choices.is_empty() && chunk.choices.iter().all(opens)
}

fn is_nothing(value: &RawValue) -> bool {
    matches!(value.get(), "null" | "\"\"" | "[]" | "{}")
}
