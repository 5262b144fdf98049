//! One pass over an event's top level.

use super::choices::Choices;
use crate::json::{Cursor, as_string, is_void};

/// The members of an event that matter to some protocol. Spans are raw JSON.
#[derive(Debug, Default)]
pub(super) struct Event<'a> {
    /// `type`.
    pub(super) kind: Option<&'a [u8]>,
    /// `object` is `error`: SGLang's flat form.
    flat_error: bool,
    /// `error` holds something.
    has_error: bool,
    /// What the choices say.
    pub(super) choices: Choices,
    /// `usage` holds something.
    pub(super) has_usage: bool,
    /// `delta`.
    pub(super) delta: Option<&'a [u8]>,
    /// `content_block`.
    pub(super) content_block: Option<&'a [u8]>,
    /// `response`.
    pub(super) response: Option<&'a [u8]>,
}

impl<'a> Event<'a> {
    /// Reads an event; `None` when it is no JSON object.
    pub(super) fn parse(data: &'a [u8]) -> Option<Self> {
        let mut event = Self::default();
        Cursor::new(data).object(|key, cursor| {
            match key {
                b"choices" => event.choices.read(cursor)?,
                b"type" => event.kind = as_string(cursor.value()?),
                b"object" => event.flat_error = cursor.value()? == b"\"error\"",
                b"error" => event.has_error = !is_void(cursor.value()?),
                b"usage" => event.has_usage = !is_void(cursor.value()?),
                b"delta" => event.delta = Some(cursor.value()?),
                b"content_block" => event.content_block = Some(cursor.value()?),
                b"response" => event.response = Some(cursor.value()?),
                _ => {
                    cursor.value()?;
                }
            }
            Some(())
        })?;
        Some(event)
    }

    /// Whether the event is an error object of any dialect.
    pub(super) fn is_error(&self) -> bool {
        self.has_error || self.flat_error || self.kind == Some(b"error")
    }
}

/// Whether an object has a member that holds something, not counting the members named in `quiet`.
pub(super) fn says_something(raw: &[u8], quiet: &[&[u8]]) -> bool {
    let mut says = false;
    let whole = Cursor::new(raw).object(|key, cursor| {
        says |= !is_void(cursor.value()?) && !quiet.contains(&key);
        Some(())
    });
    says && whole.is_some()
}

/// The raw value of a member of an object.
pub(super) fn member<'a>(raw: &'a [u8], wanted: &[u8]) -> Option<&'a [u8]> {
    let mut found = None;
    Cursor::new(raw).object(|key, cursor| {
        let value = cursor.value()?;
        if key == wanted {
            found = Some(value);
        }
        Some(())
    })?;
    found
}
