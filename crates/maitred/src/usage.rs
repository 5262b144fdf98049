//! `maitred usage`: sums over the ledger, for people, spreadsheets and programs.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use maitred_store::ledger::{Access, By, Database, Question, Sums};
use maitred_tenant::Money;
use maitred_types::UnixMillis;

use crate::ledger::{blocking, now, place_of};

const DAY_MS: u64 = 86_400_000;

/// Options of `maitred usage`.
#[derive(Args, Debug)]
pub(crate) struct UsageArgs {
    /// The configuration file that names the ledger.
    #[arg(short, long, value_name = "FILE", default_value = "maitred.yaml")]
    config: PathBuf,
    /// By what to sum, in that order: tenant, user, key, task, model, served_model, pool, endpoint, dialect, outcome, source, price, day,
    /// month.
    #[arg(long, value_name = "WHAT", value_delimiter = ',', default_value = "tenant,model", value_parser = by)]
    by: Vec<By>,
    /// Calls that arrived from then on: a time ago such as `30d` or `12h`, or a date.
    #[arg(long, value_name = "WHEN", default_value = "30d")]
    since: String,
    /// Calls that arrived before then; until now if not given.
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// How the report looks.
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
}

/// `--format`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// For spreadsheets (RFC 4180).
    Csv,
    /// For programs: one object with a list of lines.
    Json,
}

fn by(word: &str) -> Result<By, String> {
    let found = By::ALL.iter().copied().find(|by| by.name() == word);
    found.ok_or_else(|| {
        let names: Vec<_> = By::ALL.iter().map(|by| by.name()).collect();
        format!("one of {}", names.join(", "))
    })
}

/// Reads the ledger and prints.
pub(crate) fn run(args: &UsageArgs) -> anyhow::Result<ExitCode> {
    let now = now();
    let question = Question {
        by: args.by.clone(),
        since: moment(&args.since, now)?,
        until: match &args.until {
            Some(until) => moment(until, now)?,
            // What arrives in this millisecond is meant too.
            None => UnixMillis::new(now.get() + 1),
        },
    };
    let place = place_of(&args.config)?;
    crate::tls::install_provider();
    let lines = blocking(async {
        let mut database = Database::open(&place, Access::Read).await?;
        let lines = database.usage(&question).await?;
        database.close().await;
        Ok(lines)
    })?;
    let report = match args.format {
        Format::Table => table(&args.by, &lines),
        Format::Csv => csv(&args.by, &lines),
        Format::Json => format!("{}\n", json(&question, &lines)),
    };
    print!("{report}");
    Ok(ExitCode::SUCCESS)
}

/// A point of time: so long ago, or a date.
pub(crate) fn moment(text: &str, now: UnixMillis) -> anyhow::Result<UnixMillis> {
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
    let date = maitred_config::moment(text)
        .map_err(|error| anyhow::anyhow!("`{text}` is neither a time ago such as `30d` nor a date: {error}"))?;
    Ok(date)
}

type Lines = [(Vec<String>, Sums)];

/// The columns after the values: name, and the figure.
const COLUMNS: [&str; 13] = [
    "calls",
    "failed",
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

fn figures(sums: &Sums) -> [String; 13] {
    let counts = [
        sums.calls,
        sums.failed,
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
    let mut figures: [String; 13] = Default::default();
    for (figure, count) in figures.iter_mut().zip(counts) {
        *figure = count.to_string();
    }
    figures[12] = money(sums.money);
    figures
}

fn money(billionths: i64) -> String {
    Money(u64::try_from(billionths).unwrap_or(0)).to_string()
}

fn table(by: &[By], lines: &Lines) -> String {
    let mut rows: Vec<Vec<String>> = Vec::with_capacity(lines.len() + 1);
    rows.push(
        by.iter()
            .map(|by| by.name())
            .chain(COLUMNS)
            .map(str::to_owned)
            .collect(),
    );
    for (values, sums) in lines {
        let values = values.iter().map(|value| {
            if value.is_empty() {
                "-".to_owned()
            } else {
                value.clone()
            }
        });
        rows.push(values.chain(figures(sums)).collect());
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

fn csv(by: &[By], lines: &Lines) -> String {
    let mut out = by
        .iter()
        .map(|by| by.name())
        .chain(COLUMNS)
        .collect::<Vec<_>>()
        .join(",");
    out.push_str("\r\n");
    for (values, sums) in lines {
        let cells: Vec<String> = values.iter().map(|value| quoted(value)).chain(figures(sums)).collect();
        let _never = write!(out, "{}\r\n", cells.join(","));
    }
    out
}

/// A cell. One that a spreadsheet would take for a formula is not let through as such.
pub(crate) fn quoted(value: &str) -> String {
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

fn json(question: &Question, lines: &Lines) -> serde_json::Value {
    let line = |(values, sums): &(Vec<String>, Sums)| {
        let mut line = serde_json::Map::new();
        for (by, value) in question.by.iter().zip(values) {
            line.insert(by.name().to_owned(), value.as_str().into());
        }
        for (name, figure) in COLUMNS.iter().zip(figures(sums)) {
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
