//! From messages, texts and token lists to tokens.

use serde_json::Value;

use super::fields::Fields;
use crate::engine::problem::Problem;
use crate::engine::text::PromptTokens;

/// The prompt of an OpenAI chat.
pub(super) fn chat(fields: &mut Fields<'_>) -> Result<Vec<Vec<u32>>, Problem> {
    let mut prompt = PromptTokens::chat();
    if let Some(tools) = fields.get("tools") {
        prompt.open("tools");
        prompt.push(&tools.to_string());
        prompt.close();
    }
    for message in fields.list("messages").into_iter().flatten() {
        message_tokens(message, &mut prompt)?;
    }
    prompt.open("assistant");
    Ok(vec![prompt.finish()])
}

/// The prompt of an Anthropic conversation.
pub(super) fn messages(fields: &mut Fields<'_>) -> Result<Vec<Vec<u32>>, Problem> {
    let mut prompt = PromptTokens::chat();
    if let Some(system) = fields.get("system") {
        prompt.open("system");
        content_tokens(system, &mut prompt)?;
        prompt.close();
    }
    for message in fields.list("messages").into_iter().flatten() {
        message_tokens(message, &mut prompt)?;
    }
    prompt.open("assistant");
    Ok(vec![prompt.finish()])
}

fn message_tokens(message: &Value, prompt: &mut PromptTokens) -> Result<(), Problem> {
    prompt.open(message.get("role").and_then(Value::as_str).unwrap_or_default());
    content_tokens(message.get("content").unwrap_or(&Value::Null), prompt)?;
    if let Some(calls) = message.get("tool_calls").filter(|calls| !calls.is_null()) {
        prompt.push(&calls.to_string());
    }
    prompt.close();
    Ok(())
}

/// A content: a text, or parts of which only text is understood.
fn content_tokens(content: &Value, prompt: &mut PromptTokens) -> Result<(), Problem> {
    match content {
        Value::String(text) => prompt.push(text),
        Value::Array(parts) => {
            for part in parts {
                let kind = part.get("type").and_then(Value::as_str).unwrap_or("text");
                match (kind, part.get("text").and_then(Value::as_str)) {
                    ("image_url" | "input_audio" | "image" | "video_url", _) => return Err(Problem::NotMultimodal),
                    (_, Some(text)) => prompt.push(text),
                    (_, None) => prompt.push(&part.to_string()),
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// The prompts of a completion or the inputs of an embedding: a text, a token list, or a list of either.
pub(super) fn completion(fields: &mut Fields<'_>, name: &'static str) -> Result<Vec<Vec<u32>>, Problem> {
    let Some(value) = fields.get(name) else {
        fields.require(name);
        return Ok(Vec::new());
    };
    let one = |value: &Value| match value {
        Value::String(text) => Some(PromptTokens::text(text).finish()),
        Value::Array(tokens) => token_list(tokens),
        _ => None,
    };
    let prompts = match value {
        Value::Array(list) if list.iter().any(|item| !item.is_number()) => list.iter().map(one).collect(),
        other => one(other).map(|prompt| vec![prompt]),
    };
    match prompts {
        Some(prompts) if prompts.iter().all(|prompt: &Vec<u32>| !prompt.is_empty()) && !prompts.is_empty() => {
            Ok(prompts)
        }
        _ => Err(Problem::EmptyPrompt),
    }
}

fn token_list(tokens: &[Value]) -> Option<Vec<u32>> {
    let numbers = tokens
        .iter()
        .map(|token| token.as_u64().and_then(|token| u32::try_from(token).ok()));
    numbers
        .collect::<Option<_>>()
        .map(|tokens| PromptTokens::raw(tokens).finish())
}
