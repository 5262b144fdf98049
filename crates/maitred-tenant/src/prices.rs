//! Prices: what tokens cost, exactly, in integers.
//!
//! Money is in billionths of the currency's unit; which currency that is, maitred need not know. A price holds from a date
//! on, until a later one of the same pattern takes its place. Of several patterns that fit a model the closest wins: the name
//! itself, otherwise the longest beginning.

use std::cmp::Reverse;
use std::fmt;
use std::sync::Arc;

use maitred_types::{TokenCount, UnixMillis, Usage};

use crate::ModelPattern;

/// Billionths in a unit.
pub const BILLIONTHS: u64 = 1_000_000_000;

/// What the tokens of some models cost from a date on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    /// The models, as clients name them.
    pub models: ModelPattern,
    /// The first instant at which it holds.
    pub from: UnixMillis,
    /// What [`Price::per`] tokens cost.
    pub rates: Rates,
    /// How many tokens the rates are for; not zero.
    pub per: u64,
    /// The price in words. It goes to the ledger with each row, so that a row can be checked without the configuration.
    pub version: Arc<str>,
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
    /// What a usage costs, in billionths, rounded half up once. What does not fit is the largest amount.
    #[must_use]
    pub fn of(&self, usage: &Usage) -> u64 {
        let cached = usage.cached_input.unwrap_or_default().min(usage.input);
        let fresh = usage.input.saturating_sub(cached);
        let cost = |tokens: TokenCount, rate: u64| u128::from(tokens.get()) * u128::from(rate);
        let rates = self.rates;
        let sum = cost(fresh, rates.input) + cost(cached, rates.cached_input) + cost(usage.output, rates.output);
        self.rounded(sum)
    }

    /// The most that so many tokens can cost: none of the prompt is cached, or caching is dearer.
    #[must_use]
    pub fn at_most(&self, input: TokenCount, output: TokenCount) -> u64 {
        let rate = self.rates.input.max(self.rates.cached_input);
        let cost = |tokens: TokenCount, rate: u64| u128::from(tokens.get()) * u128::from(rate);
        self.rounded(cost(input, rate) + cost(output, self.rates.output))
    }

    fn rounded(&self, sum: u128) -> u64 {
        let per = u128::from(self.per.max(1));
        u64::try_from((sum + per / 2) / per).unwrap_or(u64::MAX)
    }
}

/// All prices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// The closest pattern first, and of one pattern the latest date first.
    prices: Vec<Arc<Price>>,
}

impl Prices {
    /// Orders the prices.
    #[must_use]
    pub fn new(prices: impl IntoIterator<Item = Price>) -> Self {
        let mut prices: Vec<Arc<Price>> = prices.into_iter().map(Arc::new).collect();
        prices.sort_by_key(|price| (Reverse(price.models.closeness()), Reverse(price.from)));
        Self { prices }
    }

    /// The price that holds for a model at a time.
    #[must_use]
    pub fn of(&self, model: &str, at: UnixMillis) -> Option<&Arc<Price>> {
        self.prices
            .iter()
            .find(|price| price.from <= at && price.models.matches(model))
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
