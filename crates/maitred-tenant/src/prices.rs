//! Prices: what tokens, or hours of a pool's GPUs, cost, exactly, in integers.
//!
//! Money is in billionths of the currency's unit; which currency that is, maitred need not know. A price holds from a date
//! on, until a later one for the same takes its place. Where a pool's hours have a price, its calls cost time and not tokens. Of several
//! patterns that fit a model the closest wins: the name itself, otherwise the longest beginning.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use maitred_types::{PoolName, TokenCount, UnixMillis, Usage};

use crate::ModelPattern;

/// Billionths in a unit.
pub const BILLIONTHS: u64 = 1_000_000_000;

const HOUR: Duration = Duration::from_secs(3600);
/// What one sequence gets of a busy server in a second, about, in generated tokens and in prompt tokens. Good for reserving and for what a
/// gateway's death left open, never for what was measured.
const TOKENS_A_SECOND: [u64; 2] = [100, 10_000];

/// What some calls cost from a date on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    /// The first instant at which it holds.
    pub from: UnixMillis,
    /// For what it is.
    pub charge: Charge,
    /// The price in words. It goes to the ledger with each row, so that a row can be checked without the configuration.
    pub version: Arc<str>,
}

/// What a call is charged for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Charge {
    /// Its tokens.
    Tokens {
        /// The models, as clients name them.
        models: ModelPattern,
        /// What `per` tokens cost.
        rates: Rates,
        /// How many tokens the rates are for; not zero.
        per: u64,
    },
    /// Its share of the time of its pool's endpoints.
    Hours {
        /// The pool.
        pool: PoolName,
        /// What an hour of one endpoint costs, in billionths of the unit.
        per_hour: u64,
    },
}

/// What tokens cost, in billionths of the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Prompt tokens that were computed.
    pub input: u64,
    /// Prompt tokens that were read from a cache.
    pub cached_input: u64,
    /// Generated tokens, reasoning among them.
    pub output: u64,
}

impl Price {
    /// What an attempt costs that used so much, and had this share of its endpoint's time: in billionths, rounded half up once. What does
    /// not fit is the largest amount.
    #[must_use]
    pub fn of(&self, usage: Option<&Usage>, share: Duration) -> u64 {
        match &self.charge {
            Charge::Tokens { rates, per, .. } => {
                let Some(usage) = usage else { return 0 };
                let cached = usage.cached_input.unwrap_or_default().min(usage.input);
                let fresh = usage.input.saturating_sub(cached);
                let sum =
                    cost(fresh, rates.input) + cost(cached, rates.cached_input) + cost(usage.output, rates.output);
                rounded(sum, u128::from(*per))
            }
            Charge::Hours { per_hour, .. } => of_time(share, *per_hour),
        }
    }

    /// What is reserved for so many tokens. Of a price for tokens that is the most they can cost: none of the prompt is cached, or caching is
    /// dearer. Of one for hours it is a rough guess: nobody knows how long a call will take.
    #[must_use]
    pub fn at_most(&self, input: TokenCount, output: TokenCount) -> u64 {
        match &self.charge {
            Charge::Tokens { rates, per, .. } => {
                let rate = rates.input.max(rates.cached_input);
                rounded(cost(input, rate) + cost(output, rates.output), u128::from(*per))
            }
            Charge::Hours { per_hour, .. } => {
                let [output_rate, input_rate] = TOKENS_A_SECOND;
                let nanos = u64::from(output.get()).saturating_mul(BILLIONTHS / output_rate)
                    + u64::from(input.get()).saturating_mul(BILLIONTHS / input_rate);
                of_time(Duration::from_nanos(nanos), *per_hour)
            }
        }
    }

    /// In which order prices are looked at: hours first, then the closest pattern, and of one the latest date first.
    fn rank(&self) -> impl Ord + use<> {
        let closeness = match &self.charge {
            Charge::Tokens { models, .. } => Some(Reverse(models.closeness())),
            Charge::Hours { .. } => None,
        };
        (closeness, Reverse(self.from))
    }

    fn is_for(&self, pool: &PoolName, model: &str) -> bool {
        match &self.charge {
            Charge::Tokens { models, .. } => models.matches(model),
            Charge::Hours { pool: priced, .. } => priced == pool,
        }
    }
}

fn cost(tokens: TokenCount, rate: u64) -> u128 {
    u128::from(tokens.get()) * u128::from(rate)
}

fn of_time(share: Duration, per_hour: u64) -> u64 {
    rounded(share.as_nanos().saturating_mul(u128::from(per_hour)), HOUR.as_nanos())
}

fn rounded(sum: u128, per: u128) -> u64 {
    let per = per.max(1);
    u64::try_from(sum.saturating_add(per / 2) / per).unwrap_or(u64::MAX)
}

/// All prices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// In the order in which they are looked at.
    prices: Vec<Arc<Price>>,
}

impl Prices {
    /// Orders the prices.
    #[must_use]
    pub fn new(prices: impl IntoIterator<Item = Price>) -> Self {
        let mut prices: Vec<Arc<Price>> = prices.into_iter().map(Arc::new).collect();
        prices.sort_by_key(|price| price.rank());
        Self { prices }
    }

    /// The price that holds at a time for calls of a model that go to a pool.
    #[must_use]
    pub fn of(&self, pool: &PoolName, model: &str, at: UnixMillis) -> Option<&Arc<Price>> {
        self.prices
            .iter()
            .find(|price| price.from <= at && price.is_for(pool, model))
    }

    /// The price that holds at a time for the hours of a pool, and what an hour of one endpoint costs.
    #[must_use]
    pub fn of_hours(&self, pool: &PoolName, at: UnixMillis) -> Option<(&Arc<Price>, u64)> {
        let mut held = self.prices.iter().filter(|price| price.from <= at);
        held.find_map(|price| match &price.charge {
            Charge::Hours { pool: priced, per_hour } if priced == pool => Some((price, *per_hour)),
            _ => None,
        })
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.prices.is_empty()
    }
}

/// An amount of money in billionths of the unit, printed as a decimal without needless zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Money(pub u64);

impl Money {
    /// Reads a decimal such as `0.15`: digits, at most nine of them after the point.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_digits(whole) || !is_digits(part) || part.len() > 9 {
            return None;
        }
        let part: u64 = format!("{part:0<9}").parse().ok()?;
        let whole: u64 = whole.parse().ok()?;
        whole.checked_mul(BILLIONTHS)?.checked_add(part).map(Self)
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / BILLIONTHS, self.0 % BILLIONTHS);
        if part == 0 {
            return whole.fmt(f);
        }
        let digits = format!("{part:09}");
        write!(f, "{whole}.{}", digits.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests;
