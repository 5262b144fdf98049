//! The hours of pools that are paid for by the hour: in which minutes an endpoint was ready, and what of their price nobody was charged.
//!
//! Several gateways see the same endpoints. So what they write is not a sum but a set of minutes, and two that write the same leave
//! it once, as does one that writes it twice.

use std::collections::BTreeMap;

use maitred_types::UnixMillis;
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, AssertSqlSafe, Row as _};

use super::database::{Database, DatabaseError, begin, clean, signed};
use super::usage::{By, Question, Sums, UsageError, day};

const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;
/// Every minute of an hour.
const WHOLE_HOUR: u64 = (1 << 60) - 1;

/// The table. Its rows are small: one for each endpoint and hour.
pub(super) const TABLE: &str = "CREATE TABLE maitred_hours (pool TEXT NOT NULL, endpoint TEXT NOT NULL, price TEXT NOT NULL, \
     hour BIGINT NOT NULL, per_hour BIGINT NOT NULL, minutes BIGINT NOT NULL, PRIMARY KEY (hour, pool, endpoint, price))";

/// Minutes of one hour in which an endpoint was ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready<S> {
    /// The hour, counted from the first one of 1970, UTC.
    pub hour: u64,
    /// Its minutes: the lowest bit is the first one.
    pub minutes: u64,
    /// What an hour of the endpoint costs, in billionths of the currency's unit.
    pub per_hour: u64,
    /// The endpoint's pool.
    pub pool: S,
    /// The endpoint.
    pub endpoint: S,
    /// The price in words, as rows of calls have it.
    pub price: S,
}

impl<S> Ready<S> {
    /// The minute of a moment.
    pub fn at(moment: UnixMillis, (pool, endpoint): (S, S), (price, per_hour): (S, u64)) -> Self {
        Self {
            hour: moment.get() / HOUR_MS,
            minutes: 1 << (moment.get() % HOUR_MS / MINUTE_MS),
            per_hour,
            pool,
            endpoint,
            price,
        }
    }
}

/// What an endpoint's hour is told apart by: the hour, pool, endpoint and price.
type Name = (u64, String, String, String);

/// Minutes that are on their way to the database: what an hour costs, and which minutes of it.
#[derive(Debug, Default)]
pub(super) struct Hours(BTreeMap<Name, (u64, u64)>);

impl Hours {
    pub(super) fn add(&mut self, ready: Ready<String>) {
        let Ready {
            hour,
            minutes,
            per_hour,
            pool,
            endpoint,
            price,
        } = ready;
        let (_, sum) = self.0.entry((hour, pool, endpoint, price)).or_insert((per_hour, 0));
        *sum |= minutes & WHOLE_HOUR;
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

/// What of the price of some hours nobody was charged: of time without calls, and of attempts that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idle {
    /// The values that it is of, in the order asked for. Whose or what for it was nobody can say: those are `None`.
    pub values: Vec<Option<String>>,
    /// The minutes for which endpoints were ready.
    pub minutes: i64,
    /// What these cost, in billionths of the currency's unit.
    pub cost: i64,
    /// What of it nobody was charged; never below nothing.
    pub money: i64,
}

/// What was used, and what was paid for and not used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The values of each line, in the order asked for, and its sums.
    pub lines: Vec<(Vec<String>, Sums)>,
    /// What is left of hours that have a price.
    pub idle: Vec<Idle>,
}

impl Database {
    /// Sums up what was used, and what was not of hours that are paid for.
    ///
    /// # Errors
    /// The database refuses, or there are too many lines.
    pub async fn report(&mut self, question: &Question) -> Result<Report, UsageError> {
        Ok(Report {
            lines: self.usage(question).await?,
            idle: self.idle(question).await?,
        })
    }

    async fn idle(&mut self, question: &Question) -> Result<Vec<Idle>, UsageError> {
        let by: Vec<By> = question.by.iter().copied().filter(|by| TOLD.contains(by)).collect();
        let ready = self.ready(&by, question).await?;
        if ready.is_empty() {
            return Ok(Vec::new());
        }
        let of_pools = Question {
            by: [&[By::Pool, By::Price], by.as_slice()].concat(),
            ..question.clone()
        };
        let mut charged: BTreeMap<(String, String, Vec<String>), i64> = BTreeMap::new();
        for (values, sums) in self.usage(&of_pools).await? {
            let mut values = values.into_iter();
            let owner = (values.next().unwrap_or_default(), values.next().unwrap_or_default());
            charged.insert((owner.0, owner.1, values.collect()), sums.money);
        }
        let mut idle: BTreeMap<Vec<String>, Idle> = BTreeMap::new();
        for ((pool, price, values), (minutes, cost)) in ready {
            let paid = charged.get(&(pool, price, values.clone())).copied().unwrap_or(0);
            let line = idle.entry(values).or_insert_with_key(|values| Idle {
                values: shown(&question.by, values),
                minutes: 0,
                cost: 0,
                money: 0,
            });
            line.minutes += minutes;
            line.cost = line.cost.saturating_add(cost);
            line.money = line.money.saturating_add(cost.saturating_sub(paid).max(0));
        }
        Ok(idle.into_values().collect())
    }

    /// Minutes and what they cost, by pool, price and what else is asked.
    async fn ready(
        &mut self,
        by: &[By],
        question: &Question,
    ) -> Result<BTreeMap<(String, String, Vec<String>), (i64, i64)>, UsageError> {
        let [since, until] = [question.since, question.until].map(|moment| moment.get().div_ceil(MINUTE_MS));
        // Hours of which only some minutes are meant are told apart.
        let edges = [since / 60, until / 60];
        let endpoint = if by.contains(&By::Endpoint) {
            "endpoint"
        } else {
            "CAST('' AS TEXT)"
        };
        let statement = format!(
            "SELECT pool, price, {endpoint}, hour / 24, CASE WHEN hour IN ($1, $2) THEN hour ELSE 0 END, per_hour, minutes, COUNT(*) \
             FROM maitred_hours WHERE hour >= $1 AND hour <= $2 GROUP BY 1, 2, 3, 4, 5, 6, 7"
        );
        let rows = sqlx::query(AssertSqlSafe(statement))
            .bind(signed(edges[0]))
            .bind(signed(edges[1]))
            .fetch_all(&mut self.connection)
            .await?;
        let mut all: BTreeMap<_, BTreeMap<i64, i64>> = BTreeMap::new();
        for row in &rows {
            let row = Line::read(row)?;
            let minutes = i64::from((row.minutes & within(row.edge, (since, until))).count_ones()) * row.hours;
            let values = by.iter().map(|by| row.value(*by)).collect();
            let key = (row.pool, row.price, values);
            // Rounded once for all of a price.
            *all.entry(key).or_default().entry(row.per_hour).or_default() += minutes;
        }
        let told = all.into_iter().map(|(key, prices)| {
            let minutes = prices.values().sum();
            let cost = prices.iter().map(|(per_hour, minutes)| cost(*minutes, *per_hour)).sum();
            (key, (minutes, cost))
        });
        Ok(told.filter(|(_, (minutes, _))| *minutes > 0).collect())
    }
}

/// What can be told of hours that nobody used.
const TOLD: [By; 5] = [By::Pool, By::Endpoint, By::Price, By::Day, By::Month];

fn shown(by: &[By], told: &[String]) -> Vec<Option<String>> {
    let mut told = told.iter();
    let value = |by: &By| {
        if TOLD.contains(by) { told.next().cloned() } else { None }
    };
    by.iter().map(value).collect()
}

/// The minutes of an hour that are meant: all of them, unless it is the first or the last one. Both are in minutes since 1970.
fn within(edge: u64, (since, until): (u64, u64)) -> u64 {
    let mut minutes = WHOLE_HOUR;
    if edge == since / 60 {
        minutes &= WHOLE_HOUR << (since % 60);
    }
    if edge == until / 60 {
        minutes &= (1 << (until % 60)) - 1;
    }
    minutes
}

fn cost(minutes: i64, per_hour: i64) -> i64 {
    let sum = i128::from(minutes) * i128::from(per_hour);
    i64::try_from((sum + 30) / 60).unwrap_or(i64::MAX)
}

struct Line {
    pool: String,
    price: String,
    endpoint: String,
    day: i64,
    edge: u64,
    per_hour: i64,
    minutes: u64,
    hours: i64,
}

impl Line {
    fn read(row: &AnyRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            pool: row.try_get(0)?,
            price: row.try_get(1)?,
            endpoint: row.try_get(2)?,
            day: row.try_get(3)?,
            edge: row.try_get::<i64, _>(4)?.cast_unsigned(),
            per_hour: row.try_get(5)?,
            minutes: row.try_get::<i64, _>(6)?.cast_unsigned(),
            hours: row.try_get(7)?,
        })
    }

    /// As lines of calls have it.
    fn value(&self, by: By) -> String {
        match by {
            By::Pool => self.pool.clone(),
            By::Price => self.price.clone(),
            By::Endpoint => self.endpoint.clone(),
            By::Month => day(self.day).map_or_else(String::new, |mut day| {
                day.truncate("2026-12".len());
                day
            }),
            _ => day(self.day).unwrap_or_default(),
        }
    }
}

/// Writes minutes, all or nothing. Those that are there already stay.
pub(super) async fn write(
    connection: &mut AnyConnection,
    is_postgres: bool,
    hours: &Hours,
) -> Result<(), DatabaseError> {
    if hours.is_empty() {
        return Ok(());
    }
    let mut transaction = begin(connection, is_postgres).await?;
    // In their order, so that gateways that write the same at once wait for each other in turn.
    for ((hour, pool, endpoint, price), (per_hour, minutes)) in &hours.0 {
        sqlx::query(
            "INSERT INTO maitred_hours (hour, pool, endpoint, price, per_hour, minutes) VALUES ($1, $2, $3, $4, $5, $6) \
             ON CONFLICT (hour, pool, endpoint, price) DO UPDATE SET minutes = maitred_hours.minutes | excluded.minutes",
        )
        .bind(signed(*hour))
        .bind(clean(pool))
        .bind(clean(endpoint))
        .bind(clean(price))
        .bind(signed(*per_hour))
        .bind(signed(*minutes))
        .execute(&mut *transaction)
        .await?;
    }
    transaction.commit().await?;
    Ok(())
}

/// What forgets the hours before a moment.
pub(super) fn forgetting(before: i64) -> String {
    let hour = before / i64::try_from(HOUR_MS).unwrap_or(i64::MAX);
    format!("DELETE FROM maitred_hours WHERE hour < {hour}")
}

#[cfg(test)]
mod tests;
