//! Answers with a form: calls of tools, and JSON that fits a schema.

use serde_json::{Map, Value, json};

use super::Form;
use super::fields::Fields;
use crate::engine::problem::Problem;

/// How deep a schema is followed.
const MAX_DEPTH: u32 = 8;

/// The form that a chat asks for.
///
/// With `tool_choice: auto` the first tool is called, unless the conversation ends with a tool's result: then the answer is
/// text, so that an agent's loop ends.
pub(super) fn form(fields: &mut Fields<'_>) -> Result<Form, Problem> {
    let tools = fields
        .get("tools")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let choice = fields.get("tool_choice");
    let wanted = match choice {
        Some(Value::String(choice)) => match choice.as_str() {
            "required" if tools.is_empty() => return Err(Problem::ToolChoice),
            "required" => tools.first(),
            "none" => None,
            _ => tools.first().filter(|_| !ends_with_tool(fields)),
        },
        Some(choice) => {
            let name = choice.pointer("/function/name");
            if tools.is_empty() {
                return Err(Problem::ToolChoice);
            }
            tools.iter().find(|tool| tool.pointer("/function/name") == name)
        }
        None => tools.first().filter(|_| !ends_with_tool(fields)),
    };
    if let Some(tool) = wanted {
        let name = tool
            .pointer("/function/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let schema = tool.pointer("/function/parameters").unwrap_or(&Value::Null);
        return Ok(Form::Tool {
            name: name.to_owned(),
            arguments: object(schema).to_string(),
        });
    }
    Ok(json_form(fields))
}

fn ends_with_tool(fields: &Fields<'_>) -> bool {
    let last = fields
        .get("messages")
        .and_then(Value::as_array)
        .and_then(|messages| messages.last());
    last.and_then(|message| message.get("role")).and_then(Value::as_str) == Some("tool")
}

fn json_form(fields: &Fields<'_>) -> Form {
    let Some(format) = fields.object("response_format") else {
        return Form::Words;
    };
    match format.get("type").and_then(Value::as_str) {
        Some("json_schema") => {
            let schema = format.get("json_schema").and_then(|wrapper| wrapper.get("schema"));
            Form::Json(fitting(schema.unwrap_or(&Value::Null), 0).to_string())
        }
        Some("json_object") => Form::Json(json!({"answer": "simulated"}).to_string()),
        _ => Form::Words,
    }
}

/// A value that fits an object's schema; an empty object if it is none.
fn object(schema: &Value) -> Value {
    match fitting(schema, 0) {
        Value::Object(object) => Value::Object(object),
        _ => Value::Object(Map::new()),
    }
}

/// A value that fits `schema`, as far as the common keywords go.
fn fitting(schema: &Value, depth: u32) -> Value {
    if depth > MAX_DEPTH {
        return Value::Null;
    }
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    if let Some(value) = schema
        .get("enum")
        .and_then(Value::as_array)
        .and_then(|values| values.first())
    {
        return value.clone();
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema
            .get(keyword)
            .and_then(Value::as_array)
            .and_then(|schemas| schemas.first())
        {
            return fitting(first, depth + 1);
        }
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
        kind => kind.and_then(Value::as_str),
    };
    match kind {
        Some("string") => Value::from("simulated"),
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| Value::from(1)),
        Some("boolean") => Value::from(true),
        Some("null") => Value::Null,
        Some("array") => {
            let item = schema.get("items").map(|items| fitting(items, depth + 1));
            Value::Array(item.into_iter().collect())
        }
        _ => {
            let properties = schema.get("properties").and_then(Value::as_object);
            let fields = properties.into_iter().flatten();
            Value::Object(
                fields
                    .map(|(name, schema)| (name.clone(), fitting(schema, depth + 1)))
                    .collect(),
            )
        }
    }
}
