//! How long prompts were, model by model, and where a line could be drawn between short ones and long ones.

use std::collections::BTreeMap;

use sqlx::{AssertSqlSafe, Row as _};

use super::database::{Database, signed};
use super::schema::{month_of, table};
use super::usage::UsageError;
use maitred_types::UnixMillis;

/// Steps in which lengths are counted, in each doubling: a step is nine parts in a hundred wide.
const STEPS: u32 = 8;
/// The first step ends here, and all shorter prompts are in it.
const FIRST: f64 = 16.0;
/// Doublings up to the last step, which begins at two million tokens.
const DOUBLINGS: u32 = 17;
/// The least part of all spread that a line must explain to be one between two kinds of calls. A single bell-shaped heap that is cut at
/// its mean reaches 0.64, and an even spread 0.75.
const PARTED: f64 = 0.78;
/// The least number of calls that say anything.
const CALLS_MIN: u64 = 100;

/// How long the prompts of one model were.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// Calls and their prompt tokens, by step.
    steps: BTreeMap<usize, (u64, u64)>,
    /// The longest prompt.
    pub longest: u64,
}

/// A line between short and long prompts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Prompts of at least so many tokens are long.
    pub at_least: u64,
    /// The share of calls that are long, 0 to 1.
    pub calls: f64,
    /// The share of all prompt tokens that long ones have.
    pub tokens: f64,
}

impl Lengths {
    fn add(&mut self, step: usize, (calls, tokens, longest): (u64, u64, u64)) {
        let sums = self.steps.entry(step).or_default();
        *sums = (sums.0.saturating_add(calls), sums.1.saturating_add(tokens));
        self.longest = self.longest.max(longest);
    }

    /// How many calls there were.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.steps.values().map(|(calls, _)| calls).sum()
    }

    /// The length that this share of the prompts does not exceed, up to the width of a step.
    #[must_use]
    pub fn quantile(&self, share: f64) -> u64 {
        let wanted = share * as_float(self.calls());
        let mut seen = 0;
        for (step, (calls, _)) in &self.steps {
            seen += calls;
            if as_float(seen) >= wanted {
                return end_of(*step).min(self.longest);
            }
        }
        self.longest
    }

    /// What a line parts that lies at so many tokens, or a little above: between the next two steps.
    #[must_use]
    pub fn line(&self, at_least: u64) -> Line {
        let last = (STEPS * DOUBLINGS) as usize;
        let first_long = (0..last).find(|step| begin_of(*step) >= at_least).unwrap_or(last);
        let mut long = (0, 0);
        for (calls, tokens) in self.steps.range(first_long..).map(|(_, sums)| sums) {
            long = (long.0 + calls, long.1 + tokens);
        }
        let tokens: u64 = self.steps.values().map(|(_, tokens)| tokens).sum();
        let share = |part: u64, whole: u64| as_float(part) / as_float(whole.max(1));
        Line {
            at_least: begin_of(first_long),
            calls: share(long.0, self.calls()),
            tokens: share(long.1, tokens),
        }
    }

    /// The line that best parts two kinds of prompts, if there are two: where the spread of the logarithms within both sides is least
    /// (Otsu, "A threshold selection method from gray-level histograms", 1979).
    #[must_use]
    pub fn gap(&self) -> Option<Line> {
        if self.calls() < CALLS_MIN {
            return None;
        }
        let points: Vec<(f64, f64)> = self
            .steps
            .iter()
            .map(|(step, (calls, _))| (as_float(*step as u64), as_float(*calls)))
            .collect();
        let weight: f64 = points.iter().map(|(_, calls)| calls).sum();
        let mean = points.iter().map(|(step, calls)| step * calls).sum::<f64>() / weight;
        let spread: f64 = points.iter().map(|(step, calls)| calls * (step - mean).powi(2)).sum();
        let (mut below, mut below_sum) = (0.0, 0.0);
        let mut best: Option<(f64, usize)> = None;
        for (place, (step, calls)) in points.iter().enumerate().take(points.len().saturating_sub(1)) {
            below += calls;
            below_sum += step * calls;
            let above = weight - below;
            let apart = below_sum / below - (mean * weight - below_sum) / above;
            let explained = below * above / weight * apart * apart / spread.max(f64::MIN_POSITIVE);
            if best.is_none_or(|(most, _)| explained > most) {
                best = Some((explained, place));
            }
        }
        let (_, place) = best.filter(|(explained, _)| *explained >= PARTED)?;
        // In the middle of what lies between the two sides, so that neither is cut when it grows a little.
        let mut steps = self.steps.keys().skip(place);
        let (last_short, first_long) = (steps.next()?, steps.next()?);
        Some(self.line(begin_of(last_short + (first_long - last_short).div_ceil(2))))
    }
}

/// The step of each length begins where the one before ends.
fn begin_of(step: usize) -> u64 {
    step.checked_sub(1).map_or(0, end_of)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most two million, and not below zero"
)]
fn end_of(step: usize) -> u64 {
    if step >= (STEPS * DOUBLINGS) as usize {
        return u64::MAX;
    }
    (FIRST * (as_float(step as u64) / f64::from(STEPS)).exp2()).round() as u64
}

#[expect(clippy::cast_precision_loss, reason = "shares need no more than six digits")]
const fn as_float(number: u64) -> f64 {
    number as f64
}

/// The step of a row's prompt, in SQL.
fn step_in_sql() -> String {
    let steps =
        (0..(STEPS * DOUBLINGS) as usize).map(|step| format!("WHEN input_tokens < {} THEN {step}", end_of(step)));
    let steps: Vec<String> = steps.collect();
    format!("CASE {} ELSE {} END", steps.join(" "), STEPS * DOUBLINGS)
}

impl Database {
    /// How long the prompts were of calls that arrived from `since` on and before `until`, by model, as far as endpoints have counted
    /// them.
    ///
    /// # Errors
    /// The database refuses.
    pub async fn lengths(
        &mut self,
        (since, until): (UnixMillis, UnixMillis),
    ) -> Result<BTreeMap<String, Lengths>, UsageError> {
        let (first, last) = (month_of(since), month_of(until));
        let step = step_in_sql();
        let months: Vec<i64> = self.months().to_vec();
        let mut lengths: BTreeMap<String, Lengths> = BTreeMap::new();
        for month in months.into_iter().filter(|month| (first..=last).contains(month)) {
            let statement = format!(
                "SELECT model, CAST({step} AS BIGINT), COUNT(*), CAST(SUM(input_tokens) AS BIGINT), MAX(input_tokens) FROM {} \
                 WHERE arrived_ms >= $1 AND arrived_ms < $2 AND attempt = 0 AND source = 'reported' AND input_tokens > 0 \
                 GROUP BY 1, 2",
                table(month)
            );
            let rows = sqlx::query(AssertSqlSafe(statement))
                .bind(signed(since.get()))
                .bind(signed(until.get()))
                .fetch_all(&mut self.connection)
                .await?;
            for row in &rows {
                let figure = |index: usize| {
                    row.try_get::<i64, _>(index)
                        .map(|figure| u64::try_from(figure).unwrap_or(0))
                };
                let step = usize::try_from(figure(1)?).unwrap_or(usize::MAX);
                let of_model = lengths.entry(row.try_get(0)?).or_default();
                of_model.add(step, (figure(2)?, figure(3)?, figure(4)?));
            }
        }
        Ok(lengths)
    }
}

#[cfg(test)]
mod tests;
