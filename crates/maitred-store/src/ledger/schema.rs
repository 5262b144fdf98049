//! The ledger's tables, as statements, and the months that they are named after.

use maitred_types::UnixMillis;

use super::hours;

/// The version of the tables that this program reads and writes.
pub const SCHEMA_VERSION: i64 = 4;

/// Whoever makes or drops tables in PostgreSQL does it alone: two that make the same table at once would both fail.
pub(super) const LOCK: &str = "SELECT pg_advisory_xact_lock(7021790218)";

/// The columns of a month's table, in the order in which rows are bound.
pub(super) const COLUMNS: &[(&str, &str)] = &[
    ("gateway", "BIGINT NOT NULL"),
    ("call", "BIGINT NOT NULL"),
    ("attempt", "BIGINT NOT NULL"),
    ("request_id", "TEXT NOT NULL"),
    ("arrived_ms", "BIGINT NOT NULL"),
    ("tenant", "TEXT NOT NULL"),
    ("user_id", "TEXT"),
    ("key_id", "TEXT"),
    ("task", "TEXT"),
    ("model", "TEXT NOT NULL"),
    ("served_model", "TEXT NOT NULL"),
    ("pool", "TEXT NOT NULL"),
    ("endpoint", "TEXT"),
    ("dialect", "TEXT NOT NULL"),
    ("input_tokens", "BIGINT"),
    ("cached_input_tokens", "BIGINT"),
    ("output_tokens", "BIGINT"),
    ("reasoning_tokens", "BIGINT"),
    ("source", "TEXT NOT NULL"),
    ("queue_us", "BIGINT"),
    ("first_token_us", "BIGINT"),
    ("total_us", "BIGINT NOT NULL"),
    ("outcome", "TEXT NOT NULL"),
    ("fault", "TEXT"),
    ("money", "BIGINT NOT NULL"),
    ("price", "TEXT"),
    ("asked_model", "TEXT"),
    ("degraded", "TEXT"),
    ("degrade_reason", "TEXT"),
];

/// The columns that came with version 4: the name that was asked for, where that is another than the model's, and what the answer is
/// called that is not what was asked for.
const SINCE_4: [&str; 3] = ["asked_model", "degraded", "degrade_reason"];

/// What every row is named by.
const NAME: &str = "gateway, call, attempt";
/// The same, with what partitions are told apart by.
const NAME_IN_PARTITIONS: &str = "gateway, call, attempt, arrived_ms";

/// What brings tables of the version `found` to the present one. `months` have tables by then.
pub(super) fn migrations(found: Option<i64>, is_postgres: bool, months: &[i64]) -> Vec<String> {
    let mut statements = Vec::new();
    if found.is_none() {
        statements.push("CREATE TABLE maitred_schema (version BIGINT NOT NULL)".to_owned());
        statements.push("CREATE TABLE maitred_months (month BIGINT NOT NULL PRIMARY KEY)".to_owned());
        statements.push("INSERT INTO maitred_schema (version) VALUES (1)".to_owned());
    }
    let is_partitioned = is_postgres && found.is_some_and(|found| found >= 2);
    if found.is_some_and(|found| found < 4) {
        // What is added to a table is added to its partitions.
        let all = months.iter().map(|month| table(*month));
        let altered: Vec<String> = if is_partitioned {
            vec!["maitred_usage".to_owned()]
        } else {
            all.collect()
        };
        for table in altered {
            let add = |column: &str| format!("ALTER TABLE {table} ADD COLUMN {column} TEXT");
            statements.extend(SINCE_4.map(add));
        }
    }
    if is_postgres && !is_partitioned {
        statements.push(format!(
            "CREATE TABLE maitred_usage ({}, PRIMARY KEY ({NAME_IN_PARTITIONS})) PARTITION BY RANGE (arrived_ms)",
            columns()
        ));
        for month in months {
            let (table, bounds) = (table(*month), bounds(*month));
            statements.push(format!("ALTER TABLE {table} DROP CONSTRAINT {table}_pkey"));
            statements.push(format!("ALTER TABLE {table} ADD PRIMARY KEY ({NAME_IN_PARTITIONS})"));
            statements.push(format!(
                "ALTER TABLE maitred_usage ATTACH PARTITION {table} FOR VALUES {bounds}"
            ));
        }
    }
    if found.is_none_or(|found| found < 3) {
        statements.push(hours::TABLE.to_owned());
    }
    statements.push(format!("UPDATE maitred_schema SET version = {SCHEMA_VERSION}"));
    statements
}

/// What makes a month's table.
pub(super) fn month_tables(month: i64, is_postgres: bool) -> [String; 2] {
    let made = if is_postgres {
        let (table, bounds) = (table(month), bounds(month));
        format!("CREATE TABLE IF NOT EXISTS {table} PARTITION OF maitred_usage FOR VALUES {bounds}")
    } else {
        lone_table(month)
    };
    [
        made,
        format!("INSERT INTO maitred_months (month) VALUES ({month}) ON CONFLICT DO NOTHING"),
    ]
}

/// What makes a month's table that is part of no other.
pub(super) fn lone_table(month: i64) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {} ({}, PRIMARY KEY ({NAME}))",
        table(month),
        columns()
    )
}

fn columns() -> String {
    let columns: Vec<String> = COLUMNS.iter().map(|(name, kind)| format!("{name} {kind}")).collect();
    columns.join(", ")
}

/// The moments of a month, for a partition. What is beyond the calendar lies in the last month.
fn bounds(month: i64) -> String {
    let end = match begin_of(month_after(month)) {
        Some(end) => format!("({end})"),
        None => "(MAXVALUE)".to_owned(),
    };
    format!("FROM ({}) TO {end}", begin_of(month).unwrap_or(0))
}

/// When a month begins, in milliseconds of civil time; `None` beyond the calendar.
pub(super) fn begin_of(month: i64) -> Option<i64> {
    let (year, of_year) = (i16::try_from(month / 100).ok()?, i8::try_from(month % 100).ok()?);
    let date = jiff::civil::Date::new(year, of_year, 1).ok()?;
    let midnight = date.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    Some(midnight.timestamp().as_millisecond())
}

/// The table of a month.
pub(super) fn table(month: i64) -> String {
    format!("maitred_usage_{month:06}")
}

/// The civil month (UTC) of a moment, as year × 100 + month.
#[must_use]
pub fn month_of(moment: UnixMillis) -> i64 {
    let millis = i64::try_from(moment.get()).unwrap_or(i64::MAX);
    let date = jiff::Timestamp::from_millisecond(millis).unwrap_or(jiff::Timestamp::MAX);
    let date = date.to_zoned(jiff::tz::TimeZone::UTC);
    i64::from(date.year()) * 100 + i64::from(date.month())
}

/// The month that lies `back` months before `month`.
#[must_use]
pub const fn months_before(month: i64, back: u32) -> i64 {
    let months = (month / 100) * 12 + month % 100 - 1 - back as i64;
    months.div_euclid(12) * 100 + months.rem_euclid(12) + 1
}

/// The month that follows `month`.
pub(super) const fn month_after(month: i64) -> i64 {
    if month % 100 == 12 { month + 89 } else { month + 1 }
}
