//! Traces: calls that really came, by their times, lengths and shared blocks.
//!
//! Two formats are read. JSON lines as the Mooncake release has them (FAST '25): `timestamp` in milliseconds, `input_length`
//! and `output_length` in tokens, and `hash_ids`, one for each block of the prompt, equal ids meaning equal text from the first
//! block on. Recordings of one's own traffic have the same form, with `block_tokens` where a block is not of 512 tokens, and
//! `tenant`, `class` and `session` where they are known. And the CSV of the Azure traces (2023), which knows no shared text.

mod calls;
mod csv;
mod jsonl;

use std::fmt;

pub use calls::{MAX_REORDERED, TraceCalls, TracePlan, TraceSummary};

/// Longest line of a trace, in bytes.
pub const MAX_LINE: usize = 1 << 20;

/// Most tokens of a prompt or an answer in a trace.
pub const MAX_TRACE_TOKENS: u32 = 1 << 24;

/// Lines from somewhere.
pub trait LineSource: fmt::Debug {
    /// Puts the next line into `line`, without its end, and says whether there was one. A line may be cut at
    /// [`MAX_LINE`] + 1 bytes, which is found to be too long.
    ///
    /// # Errors
    /// Words for a person: why nothing can be read.
    fn next_line(&mut self, line: &mut Vec<u8>) -> Result<bool, String>;

    /// Goes back to the first line.
    ///
    /// # Errors
    /// Words for a person: why this cannot be.
    fn rewind(&mut self) -> Result<(), String>;
}

impl LineSource for Box<dyn LineSource> {
    fn next_line(&mut self, line: &mut Vec<u8>) -> Result<bool, String> {
        (**self).next_line(line)
    }

    fn rewind(&mut self) -> Result<(), String> {
        (**self).rewind()
    }
}

/// Lines of a text in memory.
#[derive(Clone, Debug)]
pub struct TextLines<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> TextLines<'a> {
    /// The lines of `text`.
    #[must_use]
    pub const fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }
}

impl LineSource for TextLines<'_> {
    fn next_line(&mut self, line: &mut Vec<u8>) -> Result<bool, String> {
        line.clear();
        let rest = self.text.get(self.at..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(false);
        }
        let end = rest.iter().position(|byte| *byte == b'\n');
        let taken = &rest[..end.unwrap_or(rest.len())];
        self.at += taken.len() + 1;
        line.extend_from_slice(&taken[..taken.len().min(MAX_LINE + 1)]);
        Ok(true)
    }

    fn rewind(&mut self) -> Result<(), String> {
        self.at = 0;
        Ok(())
    }
}

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// JSON lines, as Mooncake's and our own recordings.
    JsonLines,
    /// Azure's CSV.
    AzureCsv,
}

impl TraceFormat {
    /// One line as a row; `None` for a line that holds no call, such as a heading.
    ///
    /// # Errors
    /// Names the line, counted from 1, and the field.
    pub fn row(self, line: &[u8], number: u64) -> Result<Option<TraceRow>, TraceFault> {
        if line.len() > MAX_LINE {
            return Err(TraceFault::new(
                number,
                None,
                format!("is longer than {MAX_LINE} bytes"),
            ));
        }
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(None);
        }
        let row = match self {
            Self::JsonLines => jsonl::row(line).map(Some),
            Self::AzureCsv => csv::row(line, number),
        };
        row.map_err(|(field, reason)| TraceFault::new(number, field, reason))
    }
}

/// One call of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRow {
    /// When it came, in nanoseconds of the trace's own clock.
    pub nanos: u64,
    /// Tokens of its prompt; at least one.
    pub input: u32,
    /// Tokens of its answer.
    pub output: u32,
    /// An id for each block of its prompt, the partial last one included; none where shared text is not known.
    pub ids: Vec<u64>,
    /// Tokens of one block.
    pub block_tokens: u32,
    /// Who it was for.
    pub tenant: u32,
    /// Its class.
    pub class: u8,
    /// Its conversation.
    pub session: Option<u64>,
}

/// What is wrong with a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceFault {
    /// In which line, from 1.
    pub line: u64,
    /// In which field, if it is one field's fault.
    pub field: Option<&'static str>,
    /// What is wrong, to be read after the field's name.
    pub reason: String,
}

impl TraceFault {
    fn new(line: u64, field: Option<&'static str>, reason: impl Into<String>) -> Self {
        Self {
            line,
            field,
            reason: reason.into(),
        }
    }
}

impl fmt::Display for TraceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field {
            Some(field) => write!(f, "line {}: `{field}` {}", self.line, self.reason),
            None => write!(f, "line {}: {}", self.line, self.reason),
        }
    }
}

impl std::error::Error for TraceFault {}

/// A fault of one line, before its number is known.
type LineFault = (Option<&'static str>, String);

#[cfg(test)]
mod tests;
