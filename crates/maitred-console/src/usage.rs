//! What was used: reports over the ledger, for people, spreadsheets and programs. The page and the command give the same.

use std::fmt::Write as _;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use maitred_runtime::usage::{By, Idle, Money, Question, Report, Sums, UnixMillis, civil_moment};

use crate::{Console, problem};

const DAY_MS: u64 = 86_400_000;

/// How a report looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Table,
    /// For spreadsheets (RFC 4180).
    Csv,
    /// For programs: one object with a list of lines.
    Json,
}

impl Format {
    const fn content_type(self) -> &'static str {
        match self {
            Self::Table => "text/plain; charset=utf-8",
            Self::Csv => "text/csv; charset=utf-8",
            Self::Json => "application/json",
        }
    }
}

/// The page: `?by=tenant,model&since=30d&until=2026-12-01&format=json`, each of which may be left out.
pub(crate) async fn page(State(console): State<Console>, RawQuery(query): RawQuery) -> Response {
    let now = console.runtime.clock().unix_now();
    let (format, question) = match asked(query.as_deref().unwrap_or_default(), now) {
        Ok(asked) => asked,
        Err(why) => return (StatusCode::BAD_REQUEST, problem(&why)).into_response(),
    };
    let Some(ledger) = console.runtime.ledger() else {
        let why = problem("there is no ledger; see `ledger` in the configuration");
        return (StatusCode::NOT_FOUND, why).into_response();
    };
    match ledger.report(&question).await {
        Ok(told) => {
            let content_type = [(CONTENT_TYPE, format.content_type())];
            (content_type, report(format, &question, &told)).into_response()
        }
        Err(error) => {
            // What a database says may name more than a viewer should see.
            tracing::warn!(%error, "usage cannot be told");
            let why =
                problem("the ledger's database does not answer, or the report is too long: ask for a shorter time");
            (StatusCode::SERVICE_UNAVAILABLE, why).into_response()
        }
    }
}

fn asked(query: &str, now: UnixMillis) -> Result<(Format, Question), String> {
    let (mut format, mut since, mut until) = (Format::Json, "30d", None);
    let mut sums = vec![By::Tenant, By::Model];
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=').unwrap_or((pair, "")) {
            ("by", words) => sums = words.split([',']).map(by).collect::<Result<_, _>>()?,
            ("since", when) => since = when,
            ("until", when) => until = Some(when),
            ("format", "table") => format = Format::Table,
            ("format", "csv") => format = Format::Csv,
            ("format", "json") => format = Format::Json,
            ("format", _) => return Err("`format` is one of table, csv, json".to_owned()),
            (name, _) => return Err(format!("`{name}` is not one of by, since, until, format")),
        }
    }
    Ok((format, question(sums, (since, until), now)?))
}

/// The word for what is summed by.
///
/// # Errors
/// Says which words there are.
pub fn by(word: &str) -> Result<By, String> {
    let found = By::ALL.iter().copied().find(|by| by.name() == word);
    found.ok_or_else(|| {
        let names: Vec<_> = By::ALL.iter().map(|by| by.name()).collect();
        format!("`by` is one or more of {}", names.join(", "))
    })
}

/// What is asked of the ledger: by what, and from when until when; until now if nothing is said.
///
/// # Errors
/// Says which time is none.
pub fn question(by: Vec<By>, (since, until): (&str, Option<&str>), now: UnixMillis) -> Result<Question, String> {
    Ok(Question {
        by,
        since: moment(since, now)?,
        until: match until {
            Some(until) => moment(until, now)?,
            // What arrives in this millisecond is meant too.
            None => UnixMillis::new(now.get() + 1),
        },
    })
}

/// The report.
#[must_use]
pub fn report(format: Format, question: &Question, report: &Report) -> String {
    let lines: Vec<Line<'_>> = lines(report).collect();
    match format {
        Format::Table => table(&question.by, &lines),
        Format::Csv => csv(&question.by, &lines),
        Format::Json => format!("{}\n", json(question, &lines)),
    }
}

/// A point of time: so long ago, or a date.
///
/// # Errors
/// Says that it is neither.
pub fn moment(text: &str, now: UnixMillis) -> Result<UnixMillis, String> {
    let units = [
        ('d', DAY_MS),
        ('h', DAY_MS / 24),
        ('m', DAY_MS / 1440),
        ('w', DAY_MS * 7),
    ];
    for (unit, millis) in units {
        if let Some(Ok(count)) = text.strip_suffix(unit).map(str::parse::<u64>) {
            return Ok(UnixMillis::new(now.get().saturating_sub(count.saturating_mul(millis))));
        }
    }
    civil_moment(text).map_err(|error| format!("`{text}` is neither a time ago such as `30d` nor a date: {error}"))
}

/// What lines of idle hours are called: in tables where a value would be, elsewhere in the column `line`.
const IDLE: &str = "idle";

/// A line of a report: the values that it is of, its sums, and of which idle hours it is if it is not of calls.
struct Line<'a> {
    values: Vec<Option<&'a str>>,
    sums: Sums,
    idle: Option<&'a Idle>,
}

impl Line<'_> {
    const fn kind(&self) -> &'static str {
        if self.idle.is_some() { IDLE } else { "calls" }
    }
}

/// Calls first, and then what nobody used.
fn lines(report: &Report) -> impl Iterator<Item = Line<'_>> {
    let calls = report.lines.iter().map(|(values, sums)| Line {
        values: values.iter().map(|value| Some(value.as_str())).collect(),
        sums: *sums,
        idle: None,
    });
    calls.chain(report.idle.iter().map(|idle| Line {
        values: idle.values.iter().map(Option::as_deref).collect(),
        sums: Sums {
            money: idle.money,
            ..Sums::default()
        },
        idle: Some(idle),
    }))
}

/// The columns after the values: name, and the figure.
const COLUMNS: [&str; 14] = [
    "calls",
    "failed",
    "degraded",
    "client_closed",
    "interrupted",
    "estimated",
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "estimated_tokens",
    "interrupted_tokens",
    "lost_tokens",
    "money",
];

fn figures(sums: &Sums) -> [String; 14] {
    let counts = [
        sums.calls,
        sums.failed,
        sums.degraded,
        sums.client_closed,
        sums.interrupted,
        sums.estimated,
        sums.input,
        sums.cached_input,
        sums.output,
        sums.reasoning,
        sums.estimated_tokens,
        sums.interrupted_tokens,
        sums.lost_tokens,
    ];
    let mut figures: [String; 14] = Default::default();
    for (figure, count) in figures.iter_mut().zip(counts) {
        *figure = count.to_string();
    }
    figures[13] = money(sums.money);
    figures
}

fn money(billionths: i64) -> String {
    Money(u64::try_from(billionths).unwrap_or(0)).to_string()
}

/// A line's values for people. One of idle hours says so, in the first place that has nothing else to say.
fn shown(line: &Line<'_>) -> Vec<String> {
    let mut mark = line.idle.map(|_| format!("({IDLE})"));
    let shown = line.values.iter().map(|value| match value {
        None => mark.take().unwrap_or_else(|| "-".to_owned()),
        Some("") => "-".to_owned(),
        Some(value) => (*value).to_owned(),
    });
    let mut shown: Vec<String> = shown.collect();
    if let (Some(mark), Some(last)) = (mark, shown.last_mut()) {
        last.push(' ');
        last.push_str(&mark);
    }
    shown
}

fn table(by: &[By], lines: &[Line<'_>]) -> String {
    let mut rows: Vec<Vec<String>> = Vec::with_capacity(lines.len() + 1);
    rows.push(
        by.iter()
            .map(|by| by.name())
            .chain(COLUMNS)
            .map(str::to_owned)
            .collect(),
    );
    for line in lines {
        rows.push(shown(line).into_iter().chain(figures(&line.sums)).collect());
    }
    let columns = by.len() + COLUMNS.len();
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Values to the left, figures to the right.
            let padding = " ".repeat(width - cell.chars().count());
            let (before, after) = if column < by.len() {
                ("", padding.as_str())
            } else {
                (padding.as_str(), "")
            };
            let gap = if column == 0 { "" } else { "  " };
            line.push_str(&format!("{gap}{before}{cell}{after}"));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn csv(by: &[By], lines: &[Line<'_>]) -> String {
    let mut out = by
        .iter()
        .map(|by| by.name())
        .chain(COLUMNS)
        .chain(["line"])
        .collect::<Vec<_>>()
        .join(",");
    out.push_str("\r\n");
    for line in lines {
        let values = line.values.iter().map(|value| quoted(value.unwrap_or_default()));
        let cells = values.chain(figures(&line.sums)).chain([line.kind().to_owned()]);
        let cells: Vec<String> = cells.collect();
        let _never = write!(out, "{}\r\n", cells.join(","));
    }
    out
}

/// A cell. One that a spreadsheet would take for a formula is not let through as such.
#[must_use]
pub fn quoted(value: &str) -> String {
    let value = if value.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{value}")
    } else {
        value.to_owned()
    };
    if value.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", value.replace('"', "\"\""))
    } else {
        value
    }
}

fn json(question: &Question, lines: &[Line<'_>]) -> serde_json::Value {
    let line = |told: &Line<'_>| {
        let mut line = serde_json::Map::new();
        line.insert("line".to_owned(), told.kind().into());
        for (by, value) in question.by.iter().zip(&told.values) {
            line.insert(by.name().to_owned(), (*value).into());
        }
        if let Some(idle) = told.idle {
            // What the money below is a part of.
            line.insert("endpoint_minutes".to_owned(), idle.minutes.into());
            line.insert("hours_money".to_owned(), money(idle.cost).into());
        }
        for (name, figure) in COLUMNS.iter().zip(figures(&told.sums)) {
            // Money stays text: a number of JSON would be rounded by many readers.
            let value = match figure.parse::<i64>() {
                Ok(count) if *name != "money" => count.into(),
                _ => figure.into(),
            };
            line.insert((*name).to_owned(), value);
        }
        serde_json::Value::Object(line)
    };
    serde_json::json!({
        "since_ms": question.since.get(),
        "until_ms": question.until.get(),
        "lines": lines.iter().map(line).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
