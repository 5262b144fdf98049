//! What was used: sums over the ledger, by whatever is asked for.

use std::collections::BTreeMap;

use maitred_types::UnixMillis;
use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row as _};

use super::database::{Database, DatabaseError};
use super::schema::{month_of, table};

/// Most lines of a report. With more the question was most likely another one.
pub const LINES_MAX: usize = 100_000;

/// By what usage is summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Tenants.
    Tenant,
    /// Users.
    User,
    /// Keys, by public id.
    Key,
    /// Tasks.
    Task,
    /// Models, by their names in the pools.
    Model,
    /// Names that clients asked for.
    Asked,
    /// Models, as endpoints name them.
    ServedModel,
    /// Pools.
    Pool,
    /// Endpoints; a call counts for that of its last attempt.
    Endpoint,
    /// What clients speak.
    Dialect,
    /// In what answers were less than what was asked for; empty for full ones.
    Degraded,
    /// Why they were.
    DegradeReason,
    /// How calls ended.
    Outcome,
    /// What the figures rest on.
    Source,
    /// Prices.
    Price,
    /// Civil days, UTC.
    Day,
    /// Civil months, UTC.
    Month,
}

impl By {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Tenant,
        Self::User,
        Self::Key,
        Self::Task,
        Self::Model,
        Self::Asked,
        Self::ServedModel,
        Self::Pool,
        Self::Endpoint,
        Self::Dialect,
        Self::Degraded,
        Self::DegradeReason,
        Self::Outcome,
        Self::Source,
        Self::Price,
        Self::Day,
        Self::Month,
    ];

    /// Its word on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::User => "user",
            Self::Key => "key",
            Self::Task => "task",
            Self::Model => "model",
            Self::Asked => "asked",
            Self::ServedModel => "served_model",
            Self::Pool => "pool",
            Self::Endpoint => "endpoint",
            Self::Dialect => "dialect",
            Self::Degraded => "degrade_kind",
            Self::DegradeReason => "degrade_reason",
            Self::Outcome => "outcome",
            Self::Source => "source",
            Self::Price => "price",
            Self::Day => "day",
            Self::Month => "month",
        }
    }

    pub(super) fn expression(self, month: i64) -> String {
        match self {
            Self::User => "COALESCE(user_id, '')".to_owned(),
            Self::Key => "COALESCE(key_id, '')".to_owned(),
            Self::Asked => "COALESCE(asked_model, model)".to_owned(),
            Self::Degraded => "COALESCE(degraded, '')".to_owned(),
            Self::Task | Self::Endpoint | Self::Price | Self::DegradeReason => {
                format!("COALESCE({}, '')", self.name())
            }
            Self::Day => "CAST(arrived_ms / 86400000 AS TEXT)".to_owned(),
            Self::Month => format!("'{:04}-{:02}'", month / 100, month % 100),
            _ => self.name().to_owned(),
        }
    }

    fn shown(self, value: String) -> String {
        match self {
            Self::Day => value.parse().ok().and_then(day).unwrap_or(value),
            _ => value,
        }
    }
}

/// A civil day, by its number since 1970.
pub(super) fn day(days: i64) -> Option<String> {
    let moment = jiff::Timestamp::from_second(days.checked_mul(86_400)?).ok()?;
    Some(moment.strftime("%Y-%m-%d").to_string())
}

/// Sums over calls. Tokens of a call are those of the attempt that answered it; what failed attempts used stands apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Calls.
    pub calls: i64,
    /// Calls that got no whole answer, for whatever reason but the client's leaving.
    pub failed: i64,
    /// Calls whose answer, or what there was of it, was not what was asked for.
    pub degraded: i64,
    /// Calls whose client left.
    pub client_closed: i64,
    /// Calls that a gateway's death cut short. Their tokens are what was expected of them.
    pub interrupted: i64,
    /// Calls whose tokens are estimated, the interrupted ones among them.
    pub estimated: i64,
    /// Prompt tokens.
    pub input: i64,
    /// Those of them read from a cache.
    pub cached_input: i64,
    /// Generated tokens.
    pub output: i64,
    /// Those of them that were reasoning.
    pub reasoning: i64,
    /// Prompt and generated tokens that are estimated: a part of those above.
    pub estimated_tokens: i64,
    /// Prompt and generated tokens of calls that were cut short: a part of the estimated ones.
    pub interrupted_tokens: i64,
    /// Prompt and generated tokens that failed attempts used, not among those above. The call is not charged for them. Not told by
    /// outcome or source.
    pub lost_tokens: i64,
    /// What it costs, in billionths of the currency's unit.
    pub money: i64,
}

impl Sums {
    const COLUMNS: usize = 14;

    fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.calls, other.calls),
            (&mut self.failed, other.failed),
            (&mut self.degraded, other.degraded),
            (&mut self.client_closed, other.client_closed),
            (&mut self.interrupted, other.interrupted),
            (&mut self.estimated, other.estimated),
            (&mut self.input, other.input),
            (&mut self.cached_input, other.cached_input),
            (&mut self.output, other.output),
            (&mut self.reasoning, other.reasoning),
            (&mut self.estimated_tokens, other.estimated_tokens),
            (&mut self.interrupted_tokens, other.interrupted_tokens),
            (&mut self.lost_tokens, other.lost_tokens),
            (&mut self.money, other.money),
        ];
        for (sum, more) in pairs {
            *sum = sum.saturating_add(more);
        }
    }

    fn read(row: &AnyRow, first: usize) -> Result<Self, sqlx::Error> {
        let get = |offset: usize| row.try_get::<i64, _>(first + offset);
        Ok(Self {
            calls: get(0)?,
            failed: get(1)?,
            degraded: get(2)?,
            client_closed: get(3)?,
            interrupted: get(4)?,
            estimated: get(5)?,
            input: get(6)?,
            cached_input: get(7)?,
            output: get(8)?,
            reasoning: get(9)?,
            estimated_tokens: get(10)?,
            interrupted_tokens: get(11)?,
            lost_tokens: get(12)?,
            money: get(13)?,
        })
    }
}

/// What each column of [`Sums`] counts, as SQL. `attempt = 0` is the call itself.
const SUMS: [(&str, &str); Sums::COLUMNS] = [
    ("attempt = 0", "1"),
    ("attempt = 0 AND outcome IN ('failed', 'broken')", "1"),
    ("attempt = 0 AND degraded IS NOT NULL", "1"),
    ("attempt = 0 AND outcome = 'client_closed'", "1"),
    ("attempt = 0 AND outcome = 'interrupted'", "1"),
    ("attempt = 0 AND source = 'estimated'", "1"),
    ("attempt = 0", "input_tokens"),
    ("attempt = 0", "cached_input_tokens"),
    ("attempt = 0", "output_tokens"),
    ("attempt = 0", "reasoning_tokens"),
    ("attempt = 0 AND source = 'estimated'", "(input_tokens + output_tokens)"),
    (
        "attempt = 0 AND outcome = 'interrupted'",
        "(input_tokens + output_tokens)",
    ),
    ("attempt > 0", "(input_tokens + output_tokens)"),
    ("attempt = 0", "money"),
];

/// Which rows, and by what they are summed.
#[derive(Clone, Debug)]
pub struct Question {
    /// By what.
    pub by: Vec<By>,
    /// Calls that arrived from then on.
    pub since: UnixMillis,
    /// Calls that arrived before then.
    pub until: UnixMillis,
}

/// Why there is no report.
#[derive(Debug)]
pub enum UsageError {
    /// The database does not answer.
    Database(DatabaseError),
    /// There are more than [`LINES_MAX`] lines.
    TooMany,
}

impl std::fmt::Display for UsageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Database(error) => error.fmt(f),
            Self::TooMany => write!(
                f,
                "the report has more than {LINES_MAX} lines; ask for a shorter time, or by less"
            ),
        }
    }
}

impl std::error::Error for UsageError {}

impl From<DatabaseError> for UsageError {
    fn from(error: DatabaseError) -> Self {
        Self::Database(error)
    }
}

impl From<sqlx::Error> for UsageError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(DatabaseError::Refused(error))
    }
}

impl Database {
    /// Sums up. Each line has the values it is of, in the order asked for, and its sums; lines are in the order of their values.
    ///
    /// # Errors
    /// The database refuses, or there are too many lines.
    pub async fn usage(&mut self, question: &Question) -> Result<Vec<(Vec<String>, Sums)>, UsageError> {
        let (first, last) = (month_of(question.since), month_of(question.until));
        let bounds = [question.since, question.until].map(|moment| i64::try_from(moment.get()).unwrap_or(i64::MAX));
        let months: Vec<i64> = self.months().to_vec();
        let mut lines: BTreeMap<Vec<String>, Sums> = BTreeMap::new();
        for month in months.into_iter().filter(|month| (first..=last).contains(month)) {
            let rows = sqlx::query(AssertSqlSafe(statement(&question.by, month)))
                .bind(bounds[0])
                .bind(bounds[1])
                .fetch_all(&mut self.connection)
                .await?;
            for row in &rows {
                let mut values = Vec::with_capacity(question.by.len());
                for (index, by) in question.by.iter().enumerate() {
                    values.push(by.shown(row.try_get(index)?));
                }
                let mut sums = Sums::read(row, question.by.len())?;
                if has_attempts(&question.by) {
                    // What attempts used beyond what calls did.
                    sums.lost_tokens -= sums.input.saturating_add(sums.output);
                }
                lines.entry(values).or_default().add(&sums);
            }
            if lines.len() > LINES_MAX {
                return Err(UsageError::TooMany);
            }
        }
        Ok(lines.into_iter().collect())
    }
}

/// Whether rows of attempts can be told by the same values as those of calls. How a call ended says nothing about its attempts.
fn has_attempts(by: &[By]) -> bool {
    let of_calls = [By::Outcome, By::Source, By::Degraded, By::DegradeReason];
    !by.iter().any(|by| of_calls.contains(by))
}

fn statement(by: &[By], month: i64) -> String {
    let mut columns: Vec<String> = by.iter().map(|by| by.expression(month)).collect();
    for (condition, what) in SUMS {
        columns.push(format!(
            "CAST(COALESCE(SUM(CASE WHEN {condition} THEN {what} END), 0) AS BIGINT)"
        ));
    }
    let mut statement = format!(
        "SELECT {} FROM {} WHERE arrived_ms >= $1 AND arrived_ms < $2",
        columns.join(", "),
        table(month)
    );
    if !has_attempts(by) {
        statement.push_str(" AND attempt = 0");
    }
    if !by.is_empty() {
        let groups: Vec<String> = (1..=by.len()).map(|place| place.to_string()).collect();
        statement.push_str(&format!(" GROUP BY {}", groups.join(", ")));
    }
    statement.push_str(&format!(" LIMIT {}", LINES_MAX + 1));
    statement
}
