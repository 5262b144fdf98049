//! Which series of a page a figure is read from, and how.
//!
//! Three forms of text, each a superset of the one before:
//!
//! | text | reads |
//! |---|---|
//! | `family{label=value,other=value}` | the value of the matching series |
//! | `family{…}@label` | a label of the matching series, as a number |
//! | `sum(family{…})` | the sum of the values of all matching series |

use std::fmt;
use std::str::FromStr;

/// Longest text a figure may have, in bytes.
const MAX_TEXT: usize = 1024;

/// A selection of series: a family, and labels that a series must carry with just these values.
///
/// Among the series that match, the one with the largest explicit timestamp counts; without timestamps, the first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MetricSpec {
    /// The metric's name, such as `vllm:num_requests_waiting`.
    pub family: String,
    /// Label names and the values they must have, unescaped.
    pub labels: Vec<(String, String)>,
}

/// What is read from a series.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Read {
    /// Its value.
    Value,
    /// The label of this name, taken as a number. Info-style gauges keep their figures so.
    Label(String),
}

/// What becomes of several matching series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fold {
    /// One of them counts: the one with the largest explicit timestamp, else the first.
    One,
    /// Their finite values are added.
    Sum,
}

/// One way to read a figure from a page.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Figure {
    /// Which series.
    pub spec: MetricSpec,
    /// What of a series.
    pub read: Read,
    /// What of several series.
    pub fold: Fold,
}

/// Why the text of a figure cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FigureError {
    /// Where, counted in characters from 1.
    pub column: usize,
    /// What should stand there.
    pub expected: &'static str,
}

impl fmt::Display for FigureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "column {}: expected {}", self.column, self.expected)
    }
}

impl std::error::Error for FigureError {}

impl MetricSpec {
    /// Reads `family` or `family{label=value,label2=value2}`. A value may stand in double quotes, with the escapes of the
    /// Prometheus text format; it must, if it holds a comma, a closing brace or a blank.
    ///
    /// # Errors
    /// When the text is anything else; the error says where and what was expected.
    pub fn parse(text: &str) -> Result<Self, FigureError> {
        let mut reader = Reader::new(text)?;
        let spec = reader.spec()?;
        reader.end("the end, or `{`, or `,`")?;
        Ok(spec)
    }
}

impl Figure {
    /// Reads `family{…}`, `family{…}@label` or `sum(family{…})`.
    ///
    /// # Errors
    /// When the text is anything else; the error says where and what was expected.
    pub fn parse(text: &str) -> Result<Self, FigureError> {
        let mut reader = Reader::new(text)?;
        let fold = if reader.take("sum(") { Fold::Sum } else { Fold::One };
        let spec = reader.spec()?;
        let read = match fold {
            Fold::Sum => {
                reader.expect(')', "`)` after the summed family")?;
                Read::Value
            }
            Fold::One if reader.take("@") => Read::Label(reader.name("a label name", is_label_char)?),
            Fold::One => Read::Value,
        };
        reader.end("the end")?;
        Ok(Self { spec, read, fold })
    }
}

impl FromStr for MetricSpec {
    type Err = FigureError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl FromStr for Figure {
    type Err = FigureError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text)
    }
}

impl fmt::Display for MetricSpec {
    /// In the form that [`MetricSpec::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.family)?;
        for (at, (name, value)) in self.labels.iter().enumerate() {
            f.write_str(if at == 0 { "{" } else { "," })?;
            if !value.is_empty() && value.chars().all(is_bare_char) {
                write!(f, "{name}={value}")?;
            } else {
                let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
                write!(f, "{name}=\"{value}\"")?;
            }
        }
        f.write_str(if self.labels.is_empty() { "" } else { "}" })
    }
}

impl fmt::Display for Figure {
    /// In the form that [`Figure::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.fold, &self.read) {
            (Fold::Sum, _) => write!(f, "sum({})", self.spec),
            (Fold::One, Read::Label(label)) => write!(f, "{}@{label}", self.spec),
            (Fold::One, Read::Value) => self.spec.fmt(f),
        }
    }
}

/// Reads a figure's text from left to right and knows the column.
struct Reader<'a> {
    rest: &'a str,
    column: usize,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Result<Self, FigureError> {
        let reader = Self { rest: text, column: 1 };
        if text.len() > MAX_TEXT {
            return Err(reader.wanted("at most 1024 bytes"));
        }
        Ok(reader)
    }

    const fn wanted(&self, expected: &'static str) -> FigureError {
        FigureError {
            column: self.column,
            expected,
        }
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let found = chars.next()?;
        self.rest = chars.as_str();
        self.column += 1;
        Some(found)
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self, token: &str) -> bool {
        let Some(rest) = self.rest.strip_prefix(token) else {
            return false;
        };
        self.rest = rest;
        self.column += token.chars().count();
        true
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|found| found == ' ' || found == '\t') {
            self.next();
        }
    }

    fn expect(&mut self, wanted: char, expected: &'static str) -> Result<(), FigureError> {
        if self.peek() != Some(wanted) {
            return Err(self.wanted(expected));
        }
        self.next();
        Ok(())
    }

    fn end(&self, expected: &'static str) -> Result<(), FigureError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(self.wanted(expected))
        }
    }

    fn name(&mut self, expected: &'static str, allowed: fn(char) -> bool) -> Result<String, FigureError> {
        let mut name = String::new();
        while let Some(found) = self.peek() {
            let fits = allowed(found) && !(name.is_empty() && found.is_ascii_digit());
            if !fits {
                break;
            }
            name.push(found);
            self.next();
        }
        if name.is_empty() {
            return Err(self.wanted(expected));
        }
        Ok(name)
    }

    fn spec(&mut self) -> Result<MetricSpec, FigureError> {
        let family = self.name(
            "a metric name: a letter, `_` or `:` first, then digits too",
            is_family_char,
        )?;
        let mut labels = Vec::new();
        if !self.take("{") {
            return Ok(MetricSpec { family, labels });
        }
        loop {
            self.blanks();
            let name = self.name("a label name: a letter or `_` first, then digits too", is_label_char)?;
            self.blanks();
            self.expect('=', "`=` after the label name")?;
            self.blanks();
            labels.push((name, self.label_value()?));
            self.blanks();
            match self.peek() {
                Some(',') => self.next(),
                Some('}') => {
                    self.next();
                    return Ok(MetricSpec { family, labels });
                }
                _ => return Err(self.wanted("`,` or `}` after the label value")),
            };
        }
    }

    fn label_value(&mut self) -> Result<String, FigureError> {
        if self.take("\"") {
            return self.quoted();
        }
        let mut value = String::new();
        while let Some(found) = self.peek().filter(|found| is_bare_char(*found)) {
            value.push(found);
            self.next();
        }
        if value.is_empty() {
            return Err(self.wanted("a label value, in double quotes if it is empty or holds blanks, `,` or `}`"));
        }
        Ok(value)
    }

    fn quoted(&mut self) -> Result<String, FigureError> {
        let mut value = String::new();
        loop {
            let before = self.wanted("`\\\\`, `\\\"` or `\\n` after a backslash");
            match self.next() {
                None => return Err(self.wanted("a closing `\"`")),
                Some('"') => return Ok(value),
                Some('\\') => match self.next() {
                    Some('n') => value.push('\n'),
                    Some(escaped @ ('\\' | '"')) => value.push(escaped),
                    _ => return Err(before),
                },
                Some(plain) => value.push(plain),
            }
        }
    }
}

const fn is_family_char(found: char) -> bool {
    found.is_ascii_alphanumeric() || matches!(found, '_' | ':')
}

const fn is_label_char(found: char) -> bool {
    found.is_ascii_alphanumeric() || found == '_'
}

const fn is_bare_char(found: char) -> bool {
    !matches!(found, ',' | '}' | '"' | ' ' | '\t' | '\n' | '\r')
}

#[cfg(test)]
mod tests;
