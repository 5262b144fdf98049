//! What a limit is held against, and what it measures.

use std::time::Duration;

use maitred_types::{KeyId, TenantId};

use super::{Amount, Subject};
use crate::{ModelPattern, UserId};

/// Which of a call's owners a limit is counted by: one counter for each combination of them that occurs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Dimensions(u8);

impl Dimensions {
    /// One counter for all.
    pub const NONE: Self = Self(0);
    /// One for each tenant.
    pub const TENANT: Self = Self(1);
    /// One for each user of a tenant.
    pub const USER: Self = Self(1 << 1);
    /// One for each key.
    pub const KEY: Self = Self(1 << 2);
    /// One for each model.
    pub const MODEL: Self = Self(1 << 3);
    /// One for each task of a tenant.
    pub const TASK: Self = Self(1 << 4);

    /// The product of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether `other` is part of the product.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The dimension of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "tenant" => Self::TENANT,
            "user" => Self::USER,
            "key" => Self::KEY,
            "model" => Self::MODEL,
            "task" => Self::TASK,
            _ => return None,
        })
    }

    /// Every name that [`Dimensions::parse`] knows.
    pub const NAMES: &'static [&'static str] = &["tenant", "user", "key", "model", "task"];
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Calls in each `period`, spread evenly, of which `burst` may come at once.
    Calls {
        /// The time in which the limit's amount may come.
        period: Duration,
        /// How many may come at once; at least one.
        burst: u32,
    },
    /// Calls at the same time.
    ConcurrentCalls,
    /// Tokens in any sixty seconds.
    TokensPerMinute,
    /// Tokens in a civil day, UTC.
    TokensPerDay,
    /// Tokens in the life of a task, which ends a day after its last call.
    TokensPerTask,
    /// Money in a civil month, UTC, in billionths of the currency's unit.
    MoneyPerMonth,
}

impl Measure {
    /// What of an amount it counts.
    pub(super) const fn of(self, amount: Amount) -> u64 {
        match self {
            Self::Calls { .. } | Self::ConcurrentCalls => 1,
            Self::TokensPerMinute | Self::TokensPerDay | Self::TokensPerTask => amount.tokens,
            Self::MoneyPerMonth => amount.money,
        }
    }

    /// Whether tokens are what it counts.
    #[must_use]
    pub const fn counts_tokens(self) -> bool {
        matches!(self, Self::TokensPerMinute | Self::TokensPerDay | Self::TokensPerTask)
    }

    /// Whether it counts what calls used, and not the calls.
    pub(super) const fn is_of_usage(self) -> bool {
        self.counts_tokens() || matches!(self, Self::MoneyPerMonth)
    }

    /// The word in the configuration, in errors and in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Calls { .. } => "calls",
            Self::ConcurrentCalls => "concurrent_calls",
            Self::TokensPerMinute => "tokens_per_minute",
            Self::TokensPerDay => "tokens_per_day",
            Self::TokensPerTask => "tokens_per_task",
            Self::MoneyPerMonth => "money_per_month",
        }
    }
}

/// Which calls a limit is for; what is `None` is not asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitMatch {
    /// Those of this tenant.
    pub tenant: Option<TenantId>,
    /// Those of this user.
    pub user: Option<UserId>,
    /// Those with this key.
    pub key: Option<KeyId>,
    /// Those for models of this name.
    pub model: Option<ModelPattern>,
}

impl LimitMatch {
    /// What calls have to be told apart by, to know which it is for.
    pub(super) fn dimensions(&self) -> Dimensions {
        [
            (self.tenant.is_some(), Dimensions::TENANT),
            (self.user.is_some(), Dimensions::USER),
            (self.key.is_some(), Dimensions::KEY),
            (self.model.is_some(), Dimensions::MODEL),
        ]
        .into_iter()
        .filter(|(is_asked, _)| *is_asked)
        .fold(Dimensions::NONE, |all, (_, one)| all.and(one))
    }
}

/// One limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Its name in the configuration, in errors and in metrics.
    pub name: String,
    /// Which calls it is for.
    pub only: LimitMatch,
    /// What it is counted by.
    pub per: Dimensions,
    /// What is counted.
    pub measure: Measure,
    /// How much there may be.
    pub amount: u64,
    /// Whether it holds only where no other limit of its measure is for the call.
    pub is_default: bool,
}

impl Limit {
    /// Whether it is for this subject.
    pub(super) fn applies(&self, subject: &Subject<'_>) -> bool {
        let only = &self.only;
        let is_of = |wanted: Option<&str>, has: Option<&str>| wanted.is_none_or(|wanted| has == Some(wanted));
        let needs_task = self.per.has(Dimensions::TASK) || self.measure == Measure::TokensPerTask;
        is_of(only.tenant.as_ref().map(TenantId::as_str), Some(subject.tenant))
            && is_of(only.user.as_ref().map(UserId::as_str), subject.user)
            && is_of(only.key.as_ref().map(KeyId::as_str), subject.key)
            && only.model.as_ref().is_none_or(|pattern| pattern.matches(subject.model))
            && (!needs_task || subject.task.is_some())
    }

    /// What makes it what it is: what was counted for one that says the same counts for this limit.
    pub(super) fn counts_as(&self) -> (String, Dimensions, &'static str) {
        (self.name.clone(), self.per, self.measure.name())
    }

    /// What it is counted by. A task's tokens are counted by task, whatever else is asked; users and tasks are those of a tenant.
    pub(super) fn dimensions(&self) -> Dimensions {
        let mut per = self.per;
        if self.measure == Measure::TokensPerTask {
            per = per.and(Dimensions::TASK);
        }
        if per.has(Dimensions::USER) || per.has(Dimensions::TASK) {
            per = per.and(Dimensions::TENANT);
        }
        per
    }
}
