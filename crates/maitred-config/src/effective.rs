//! The configuration with every default filled in, printed as YAML.

use std::fmt::Write as _;

use serde_json::Value;

use crate::raw;

/// The whole of `raw` as YAML that reads back to the same.
pub(crate) fn print(raw: &raw::File) -> String {
    let mut out = String::new();
    match serde_json::to_value(raw) {
        Ok(value) => block(&mut out, &value, 0),
        Err(error) => _ = write!(out, "# cannot be printed: {error}"),
    }
    out
}

/// Prints a list or group, one line for each simple element, below the current line.
fn block(out: &mut String, value: &Value, indent: usize) {
    let margin = " ".repeat(indent);
    match value {
        Value::Object(options) => {
            for (name, value) in options {
                out.push_str(&margin);
                out.push_str(name);
                out.push(':');
                below(out, value, indent + 2);
            }
        }
        Value::Array(items) => {
            for item in items {
                let mut element = String::new();
                match is_block(item) {
                    true => block(&mut element, item, indent + 2),
                    false => _ = writeln!(element, "{margin}  {}", inline(item)),
                }
                // The mark of an element takes the place of the two blanks before its first line.
                out.push_str(&margin);
                out.push_str("- ");
                out.extend(element.chars().skip(indent + 2));
            }
        }
        simple => _ = writeln!(out, "{margin}{}", inline(simple)),
    }
}

/// Prints the value of an option: on its line if simple, otherwise below it.
fn below(out: &mut String, value: &Value, indent: usize) {
    if is_block(value) {
        out.push('\n');
        block(out, value, indent);
    } else {
        _ = writeln!(out, " {}", inline(value));
    }
}

fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(options) => !options.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::String(text) if is_plain(text) => text.clone(),
        // The quoted strings of JSON are quoted strings of YAML.
        simple => simple.to_string(),
    }
}

/// Whether `text` can stand without quotes and still be text. Narrower than YAML allows.
fn is_plain(text: &str) -> bool {
    let first = text.bytes().next();
    let first_fits = first.is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'/');
    let rest_fits = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"/_.-".contains(&byte));
    let has_units = first.is_some_and(|byte| byte.is_ascii_digit())
        && text
            .bytes()
            .any(|byte| byte.is_ascii_alphabetic() && !b"eEx".contains(&byte))
        && rest_fits;
    let is_word = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word));
    (first_fits && rest_fits && !is_word) || has_units || is_address(text)
}

/// An address: a colon that no blank follows is an ordinary character.
fn is_address(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty()
            && !port.is_empty()
            && host.contains('.')
            && host
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte))
            && port.bytes().all(|byte| byte.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests;
