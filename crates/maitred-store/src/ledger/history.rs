//! What calls used before, stretch by stretch: what quota is counted on from after a restart, and when limits are added.

use std::collections::BTreeMap;
use std::time::Duration;

use maitred_types::UnixMillis;
use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row as _};

use super::database::{Database, DatabaseError};
use super::schema::{month_of, table};
use super::usage::By;

/// Most stretches of an answer: more than there can be counters of quota, many times over.
pub const STRETCHES_MAX: usize = 1_000_000;
/// Earlier starts in one statement.
const STARTS: usize = 16_384;

/// Whose calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Those of this gateway's earlier starts.
    Earlier,
    /// Those of this gateway that had ended by then, to the millisecond, the present start's among them.
    Own(UnixMillis),
    /// Those of every gateway with the same database.
    Everybody,
}

/// Which calls, and by what they are added up.
#[derive(Clone, Debug)]
pub struct Past {
    /// Whose.
    pub whose: Whose,
    /// By what; [`By::Tenant`], [`By::User`], [`By::Key`], [`By::Model`] and [`By::Task`] have names of owners.
    pub by: Vec<By>,
    /// Calls that arrived from then on.
    pub since: UnixMillis,
    /// Calls that arrived within so long are added up; all of them, if there is none. A millisecond at least.
    pub grain: Option<Duration>,
}

/// What calls of one owner that arrived within one stretch used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stretch {
    /// The owner's names, in the order asked for; empty where calls have none.
    pub owners: Vec<String>,
    /// When the first of them arrived.
    pub first: UnixMillis,
    /// When the last of them arrived.
    pub last: UnixMillis,
    /// How many there were.
    pub calls: u64,
    /// Tokens in and out.
    pub tokens: u64,
    /// What they cost, in billionths of the currency's unit.
    pub money: u64,
}

impl Database {
    /// What calls used: of these starts of a gateway, or of all where none is given. Stretches of one owner come in the order of time.
    ///
    /// # Errors
    /// The database refuses, or there are more than [`STRETCHES_MAX`].
    pub(super) async fn past(&mut self, past: &Past, starts: &[u64]) -> Result<Vec<Stretch>, DatabaseError> {
        let first = month_of(past.since);
        let since = i64::try_from(past.since.get()).unwrap_or(i64::MAX);
        let ended_by = match past.whose {
            Whose::Own(moment) => i64::try_from(moment.get()).unwrap_or(i64::MAX),
            Whose::Earlier | Whose::Everybody => i64::MAX,
        };
        let starts: Vec<&[u64]> = match past.whose {
            Whose::Everybody => vec![&[]],
            _ => starts.chunks(STARTS).collect(),
        };
        let months: Vec<i64> = self.months().to_vec();
        // A stretch may lie in two months, and in two parts of the starts.
        let mut all: BTreeMap<(i64, Vec<String>), Stretch> = BTreeMap::new();
        for month in months.into_iter().filter(|month| *month >= first) {
            for starts in &starts {
                let rows = sqlx::query(AssertSqlSafe(statement(past, month, starts)))
                    .bind(since)
                    .bind(ended_by)
                    .fetch_all(&mut self.connection)
                    .await?;
                for row in &rows {
                    let (number, stretch) = read(row, past.by.len())?;
                    match all.get_mut(&(number, stretch.owners.clone())) {
                        Some(same) => same.add(&stretch),
                        None => drop(all.insert((number, stretch.owners.clone()), stretch)),
                    }
                }
                if all.len() > STRETCHES_MAX {
                    return Err(DatabaseError::TooMany);
                }
            }
        }
        Ok(all.into_values().collect())
    }
}

impl Stretch {
    fn add(&mut self, other: &Self) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.calls = self.calls.saturating_add(other.calls);
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.money = self.money.saturating_add(other.money);
    }
}

fn read(row: &AnyRow, owners: usize) -> Result<(i64, Stretch), sqlx::Error> {
    let names: Result<Vec<String>, _> = (0..owners).map(|index| row.try_get(index)).collect();
    let number = |offset: usize| row.try_get::<i64, _>(owners + offset);
    let counted = |offset: usize| Ok::<_, sqlx::Error>(u64::try_from(number(offset)?).unwrap_or(0));
    Ok((
        number(0)?,
        Stretch {
            owners: names?,
            first: UnixMillis::new(counted(1)?),
            last: UnixMillis::new(counted(2)?),
            calls: counted(3)?,
            tokens: counted(4)?,
            money: counted(5)?,
        },
    ))
}

fn statement(past: &Past, month: i64, starts: &[u64]) -> String {
    let mut columns: Vec<String> = past.by.iter().map(|by| by.expression(month)).collect();
    let stretch = past.grain.map_or("CAST(0 AS BIGINT)".to_owned(), |grain| {
        format!("CAST(arrived_ms / {} AS BIGINT)", grain.as_millis().max(1))
    });
    columns.push(stretch);
    let groups: Vec<String> = (1..=columns.len()).map(|place| place.to_string()).collect();
    let sums = [
        "MIN(arrived_ms)",
        "MAX(arrived_ms)",
        "COUNT(*)",
        "COALESCE(SUM(COALESCE(input_tokens, 0) + COALESCE(output_tokens, 0)), 0)",
        "COALESCE(SUM(money), 0)",
    ];
    columns.extend(sums.map(|sum| format!("CAST({sum} AS BIGINT)")));
    let starts: Vec<String> = starts.iter().map(|start| start.cast_signed().to_string()).collect();
    let of_whom = match past.whose {
        Whose::Everybody => String::new(),
        _ => format!(" AND gateway IN ({})", starts.join(", ")),
    };
    format!(
        "SELECT {} FROM {} WHERE attempt = 0 AND arrived_ms >= $1 AND arrived_ms + total_us / 1000 <= $2{of_whom} GROUP BY {} LIMIT {}",
        columns.join(", "),
        table(month),
        groups.join(", "),
        STRETCHES_MAX + 1,
    )
}
