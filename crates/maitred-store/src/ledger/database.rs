//! The ledger's database: SQLite in one file, or PostgreSQL. The same tables and the same statements in both.
//!
//! Rows lie in one table per civil month (UTC) of the call's arrival. So the past leaves by dropping a table, which is
//! instant in both, whereas deleting by rows rewrites what stays, and holds SQLite's one lock while it does. A report reads
//! the months that it is about. In PostgreSQL they are partitions of one table, for whoever else reads it.

use std::fmt::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use maitred_types::UsageSource;
use sqlx::any::AnyArguments;
use sqlx::query::Query;
use sqlx::{Any, AnyConnection, AssertSqlSafe, Connection, Row as _, Transaction};

use super::hours::{self, Hours};
use super::row::Row;
use super::schema::{COLUMNS, LOCK, begin_of, migrations, month_tables, table};

pub use super::schema::{SCHEMA_VERSION, month_of, months_before};

/// Rows in one statement, and in the statement for what is left over. Few different statements are prepared once each.
const CHUNKS: [usize; 3] = [64, 8, 1];
/// How long a statement waits for another process that writes to the same file.
const BUSY: Duration = Duration::from_secs(5);

/// Where the ledger is.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    /// A file of SQLite.
    Sqlite(PathBuf),
    /// A database of PostgreSQL: its URL, which may hold a password and is never printed.
    Postgres(String),
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "SQLite in {}", path.display()),
            Self::Postgres(_) => f.write_str("PostgreSQL"),
        }
    }
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only.
    Read,
    /// Reading and writing. A file must be there.
    Write,
    /// The same; a file that is not there is made.
    Create,
}

/// Why the database is of no use.
#[derive(Debug)]
pub enum DatabaseError {
    /// It cannot be reached, or refuses.
    Refused(sqlx::Error),
    /// It does not answer in time.
    Timeout,
    /// Its tables are not there, or of an older version.
    Outdated {
        /// The version found; `None` without tables.
        found: Option<i64>,
    },
    /// Its tables are of a newer version than this program knows.
    Newer {
        /// The version found.
        found: i64,
    },
    /// The answer has more lines than are read.
    TooMany,
}

impl DatabaseError {
    /// One word for metrics.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Refused(sqlx::Error::Io(_)) => "unreachable",
            Self::Refused(_) => "refused",
            Self::Timeout => "timeout",
            Self::Outdated { .. } | Self::Newer { .. } => "schema",
            Self::TooMany => "too_many",
        }
    }
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => write!(f, "the ledger's database: {error}"),
            Self::Timeout => f.write_str("the ledger's database does not answer in time"),
            Self::TooMany => f.write_str("the ledger's database has more to say than is read at once"),
            Self::Outdated { found: None } => {
                f.write_str("the ledger has no tables yet; make them with `maitred store migrate`")
            }
            Self::Outdated { found: Some(found) } => write!(
                f,
                "the ledger's tables are of version {found}, and this maitred needs {SCHEMA_VERSION}; bring them there with \
                 `maitred store migrate`"
            ),
            Self::Newer { found } => write!(
                f,
                "the ledger's tables are of version {found}, and this maitred knows {SCHEMA_VERSION} at most; run a newer maitred"
            ),
        }
    }
}

impl std::error::Error for DatabaseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Refused(error) => Some(error),
            _ => None,
        }
    }
}

impl From<sqlx::Error> for DatabaseError {
    fn from(error: sqlx::Error) -> Self {
        Self::Refused(error)
    }
}

/// A connection to the ledger's database.
pub struct Database {
    pub(super) connection: AnyConnection,
    is_postgres: bool,
    /// Months that are known to have a table.
    months: Vec<i64>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("months", &self.months)
            .finish_non_exhaustive()
    }
}

impl Database {
    /// Connects, without looking at the tables.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn connect(place: &Place, access: Access) -> Result<Self, DatabaseError> {
        sqlx::any::install_default_drivers();
        let connection = match place {
            Place::Sqlite(path) => {
                let mode = match access {
                    Access::Read => "ro",
                    Access::Write => "rw",
                    Access::Create => "rwc",
                };
                let url = format!("sqlite:{}?mode={mode}", escaped(path));
                let mut connection = AnyConnection::connect(&url).await?;
                let busy = BUSY.as_millis();
                let mut pragmas = format!("PRAGMA busy_timeout = {busy};");
                if access != Access::Read {
                    pragmas.push_str("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;");
                }
                sqlx::raw_sql(AssertSqlSafe(pragmas)).execute(&mut connection).await?;
                connection
            }
            Place::Postgres(url) => AnyConnection::connect(url).await?,
        };
        Ok(Self {
            connection,
            is_postgres: matches!(place, Place::Postgres(_)),
            months: Vec::new(),
        })
    }

    /// Connects and sees that the tables are as this program needs them.
    ///
    /// # Errors
    /// The database cannot be reached, or its tables are of another version.
    pub async fn open(place: &Place, access: Access) -> Result<Self, DatabaseError> {
        let mut database = Self::connect(place, access)
            .await
            .map_err(|error| match (place, error) {
                // A file that is not there yet has no tables.
                (Place::Sqlite(path), DatabaseError::Refused(sqlx::Error::Database(_)))
                    if std::fs::metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) =>
                {
                    DatabaseError::Outdated { found: None }
                }
                (_, error) => error,
            })?;
        match database.version().await? {
            Some(SCHEMA_VERSION) => {
                database.months = database.stored_months().await?;
                Ok(database)
            }
            Some(found) if found > SCHEMA_VERSION => Err(DatabaseError::Newer { found }),
            found => Err(DatabaseError::Outdated { found }),
        }
    }

    /// The version of the tables; `None` without tables.
    ///
    /// # Errors
    /// The database refuses.
    pub async fn version(&mut self) -> Result<Option<i64>, DatabaseError> {
        match sqlx::query("SELECT version FROM maitred_schema")
            .fetch_optional(&mut self.connection)
            .await
        {
            Ok(row) => Ok(row.map(|row| row.try_get(0)).transpose()?),
            Err(sqlx::Error::Database(error)) if is_missing_table(error.as_ref()) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Brings the tables to the version that this program needs, all or nothing. Says which version they had.
    ///
    /// # Errors
    /// The database refuses, or its tables are newer.
    pub async fn migrate(&mut self) -> Result<Option<i64>, DatabaseError> {
        let found = self.version().await?;
        match found {
            Some(found) if found > SCHEMA_VERSION => return Err(DatabaseError::Newer { found }),
            Some(SCHEMA_VERSION) => return Ok(found),
            _ => {}
        }
        let months = match found {
            Some(_) => self.stored_months().await?,
            None => Vec::new(),
        };
        let mut transaction = begin(&mut self.connection, self.is_postgres).await?;
        if self.is_postgres {
            sqlx::query(LOCK).execute(&mut *transaction).await?;
        }
        for statement in migrations(found, self.is_postgres, &months) {
            sqlx::query(AssertSqlSafe(statement)).execute(&mut *transaction).await?;
        }
        transaction.commit().await?;
        Ok(found)
    }

    /// Sees to it that these months (as year × 100 + month) have a table, so that nobody has to make one in a hurry.
    ///
    /// # Errors
    /// The database refuses.
    pub async fn prepare(&mut self, months: &[i64]) -> Result<(), DatabaseError> {
        let missing = |month: &&i64| !self.months.contains(month);
        let missing: Vec<i64> = months.iter().filter(missing).copied().collect();
        if missing.is_empty() {
            return Ok(());
        }
        let mut transaction = begin(&mut self.connection, self.is_postgres).await?;
        make_months(&mut transaction, &missing, self.is_postgres).await?;
        transaction.commit().await?;
        self.months.extend(missing);
        Ok(())
    }

    /// Writes rows, all or nothing. Those that are there already stay as they are.
    ///
    /// # Errors
    /// The database refuses; then nothing was written, or it is not known, and the same rows are to be written again.
    pub async fn write(&mut self, rows: &[Row]) -> Result<(), DatabaseError> {
        // Tables are made before rows are written, in a transaction of their own: others wait for its lock.
        let mut months: Vec<i64> = rows.iter().map(|row| month_of(row.head.arrived)).collect();
        months.sort_unstable();
        months.dedup();
        self.prepare(&months).await?;
        let mut transaction = begin(&mut self.connection, self.is_postgres).await?;
        let mut rest = rows;
        while let Some(first) = rest.first() {
            let month = month_of(first.head.arrived);
            let is_same = |row: &&Row| month_of(row.head.arrived) == month;
            let (mut left, others) = rest.split_at(rest.iter().take_while(is_same).count());
            rest = others;
            for size in CHUNKS {
                while let Some((chunk, others)) = left.split_at_checked(size) {
                    left = others;
                    insert(month, chunk, self.is_postgres)
                        .execute(&mut *transaction)
                        .await?;
                }
            }
        }
        transaction.commit().await?;
        Ok(())
    }

    /// Writes minutes in which endpoints were ready, all or nothing.
    ///
    /// # Errors
    /// The database refuses; then nothing was written, or it is not known, and the same is to be written again.
    pub(super) async fn write_hours(&mut self, hours: &Hours) -> Result<(), DatabaseError> {
        hours::write(&mut self.connection, self.is_postgres, hours).await
    }

    /// Drops the months before `oldest` (as year × 100 + month). Says which.
    ///
    /// # Errors
    /// The database refuses.
    pub async fn forget_before(&mut self, oldest: i64) -> Result<Vec<i64>, DatabaseError> {
        let gone: Vec<i64> = self.months.iter().copied().filter(|month| *month < oldest).collect();
        for month in &gone {
            let mut transaction = begin(&mut self.connection, self.is_postgres).await?;
            if self.is_postgres {
                sqlx::query(LOCK).execute(&mut *transaction).await?;
            }
            let drop = format!("DROP TABLE IF EXISTS {}", table(*month));
            sqlx::query(AssertSqlSafe(drop)).execute(&mut *transaction).await?;
            sqlx::query("DELETE FROM maitred_months WHERE month = $1")
                .bind(*month)
                .execute(&mut *transaction)
                .await?;
            transaction.commit().await?;
            self.months.retain(|other| other != month);
        }
        if let Some(begin) = begin_of(oldest).filter(|_| !gone.is_empty()) {
            let statement = AssertSqlSafe(hours::forgetting(begin));
            sqlx::query(statement).execute(&mut self.connection).await?;
        }
        Ok(gone)
    }

    /// The months that have rows, as year × 100 + month, oldest first.
    #[must_use]
    pub fn months(&self) -> &[i64] {
        &self.months
    }

    async fn stored_months(&mut self) -> Result<Vec<i64>, DatabaseError> {
        let rows = sqlx::query("SELECT month FROM maitred_months ORDER BY month")
            .fetch_all(&mut self.connection)
            .await?;
        rows.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    /// Ends the connection in order.
    pub async fn close(self) {
        if let Err(error) = self.connection.close().await {
            tracing::debug!(%error, "closing the ledger's database");
        }
    }
}

/// Begins to write. In SQLite a transaction that first reads and then writes fails at once, without waiting its turn, where another
/// process wrote in between; one that says so at its beginning waits.
pub(super) async fn begin(
    connection: &mut AnyConnection,
    is_postgres: bool,
) -> Result<Transaction<'_, Any>, sqlx::Error> {
    let how = if is_postgres { "BEGIN" } else { "BEGIN IMMEDIATE" };
    connection.begin_with(how).await
}

/// Makes the tables of months. Several gateways may come upon the same month at once.
async fn make_months(connection: &mut AnyConnection, months: &[i64], is_postgres: bool) -> Result<(), sqlx::Error> {
    if is_postgres {
        sqlx::query(LOCK).execute(&mut *connection).await?;
    }
    for statement in months.iter().flat_map(|month| month_tables(*month, is_postgres)) {
        sqlx::query(AssertSqlSafe(statement)).execute(&mut *connection).await?;
    }
    Ok(())
}

/// Places in SQLite have no numbers: it would look for each of them by name, among all of the statement.
fn insert(month: i64, rows: &[Row], is_postgres: bool) -> Query<'static, Any, AnyArguments> {
    let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    let mut statement = format!("INSERT INTO {} ({}) VALUES ", table(month), names.join(", "));
    let mut place = 0;
    for index in 0..rows.len() {
        statement.push_str(if index == 0 { "(" } else { ", (" });
        for column in 0..COLUMNS.len() {
            place += 1;
            let comma = if column == 0 { "" } else { ", " };
            let written = if is_postgres {
                write!(statement, "{comma}${place}")
            } else {
                write!(statement, "{comma}?")
            };
            written.ok();
        }
        statement.push(')');
    }
    statement.push_str(" ON CONFLICT DO NOTHING");
    rows.iter().fold(sqlx::query(AssertSqlSafe(statement)), bind)
}

fn bind(query: Query<'static, Any, AnyArguments>, row: &Row) -> Query<'static, Any, AnyArguments> {
    let (head, ending) = (&row.head, &row.ending);
    let usage = ending.usage;
    let tokens = |of: Option<maitred_types::TokenCount>| of.map(|tokens| i64::from(tokens.get()));
    query
        // The same bits: the number is a name, nothing is counted with it.
        .bind(row.gateway.cast_signed())
        .bind(signed(row.call))
        .bind(i64::from(row.attempt))
        .bind(clean(&head.request_id))
        .bind(signed(head.arrived.get()))
        .bind(clean(&head.tenant))
        .bind(head.user.as_deref().map(clean))
        .bind(head.key.as_deref().map(clean))
        .bind(head.task.as_deref().map(clean))
        .bind(clean(&head.model))
        .bind(clean(&head.served))
        .bind(clean(&head.pool))
        .bind(row.endpoint.as_deref().map(clean))
        .bind(clean(&head.dialect))
        .bind(tokens(usage.map(|usage| usage.input)))
        .bind(tokens(usage.and_then(|usage| usage.cached_input)))
        .bind(tokens(usage.map(|usage| usage.output)))
        .bind(tokens(usage.and_then(|usage| usage.reasoning)))
        .bind(
            usage
                .map_or("none", |usage| UsageSource::label(usage.source))
                .to_owned(),
        )
        .bind(row.began_us.map(signed))
        .bind(ending.first_token_us.map(signed))
        .bind(signed(ending.total_us))
        .bind(clean(&ending.outcome))
        .bind(ending.fault.as_deref().map(clean))
        .bind(signed(ending.money))
        .bind(head.price.as_deref().map(clean))
        .bind(row.asked.as_deref().filter(|asked| *asked != head.model).map(clean))
        .bind(row.degraded.as_ref().map(|degraded| clean(&degraded.kind)))
        .bind(row.degraded.as_ref().map(|degraded| clean(&degraded.reason)))
}

/// Text that both databases take: PostgreSQL has no NUL.
pub(super) fn clean(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn is_missing_table(error: &dyn sqlx::error::DatabaseError) -> bool {
    // PostgreSQL's code for an undefined table; SQLite has no code of its own for it.
    error.code().is_some_and(|code| code == "42P01") || error.message().contains("no such table")
}

/// A path as part of a URL.
fn escaped(path: &std::path::Path) -> String {
    let mut escaped = String::new();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'/' => escaped.push(char::from(*byte)),
            other => escaped.push_str(&format!("%{other:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
