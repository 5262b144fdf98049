//! What a gateway asks of the store that several share, and what it is told.

use super::{Limit, Measure};

/// How long a lease lasts without a word of its gateway, in milliseconds by the store's clock.
pub const LEASE_MILLIS: u64 = 3_000;
/// How long it is remembered after that, so that a gateway that comes back too late is not charged twice.
pub const FORGET_MILLIS: u64 = 600_000;

/// Parts of a call in which rates are counted, so that what a millisecond gives back is a whole number.
pub(super) const CALL_PARTS: u64 = 1_000_000;

/// How a shared limit counts, as the store needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How it forgets; one of the constants.
    pub kind: u64,
    /// How much there may be: tokens, billionths of money, calls at once, or millionths of a call.
    pub amount: u64,
    /// How much of it is forgotten in a millisecond; for rates.
    pub leak: u64,
}

impl Terms {
    /// Places, which are given back.
    pub const PLACES: u64 = 0;
    /// Calls, at a rate.
    pub const RATE: u64 = 1;
    /// A minute, which slides.
    pub const MINUTE: u64 = 2;
    /// A civil day.
    pub const DAY: u64 = 3;
    /// A civil month.
    pub const MONTH: u64 = 4;
    /// A task's life.
    pub const LIFE: u64 = 5;

    pub(super) fn of(limit: &Limit) -> Self {
        let (kind, amount, leak) = match limit.measure {
            Measure::ConcurrentCalls => (Self::PLACES, limit.amount, 0),
            Measure::Calls { period, burst } => {
                let millis = u64::try_from(period.as_millis()).unwrap_or(u64::MAX).max(1);
                let leak = limit.amount.saturating_mul(CALL_PARTS) / millis;
                (Self::RATE, u64::from(burst.max(1)).saturating_mul(CALL_PARTS), leak)
            }
            Measure::TokensPerMinute => (Self::MINUTE, limit.amount, 0),
            Measure::TokensPerDay => (Self::DAY, limit.amount, 0),
            Measure::MoneyPerMonth => (Self::MONTH, limit.amount, 0),
            Measure::TokensPerTask => (Self::LIFE, limit.amount, 0),
        };
        Self { kind, amount, leak }
    }
}

/// What was known of a counter when the store last spoke of it. With it a store that has lost everything learns it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// Which life of the counter in the store; 0 if nothing was ever heard.
    pub epoch: u64,
    /// What all gateways had spent.
    pub spent: u64,
    /// The number of the day or month.
    pub period: u64,
}

/// A gateway's word on one counter: what it has spent, and what it would like to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// How the limit counts.
    pub terms: Terms,
    /// Rises with every ask. The store passes over one that comes late.
    pub number: u64,
    /// What this gateway has spent since it met the counter.
    pub spent: u64,
    /// How much of it the store is known to have heard of.
    pub told: u64,
    /// What calls under way have reserved.
    pub reserved: u64,
    /// What it holds beyond that and goes on using meanwhile.
    pub keep: u64,
    /// What it would like to hold beyond that.
    pub want: u64,
    /// What a call needs that had to be refused.
    pub need: u64,
    /// What it knew before.
    pub known: Known,
}

impl Ask {
    /// How many numbers an ask is.
    pub const LEN: usize = 13;

    /// The ask as numbers, in the order in which the store's script reads them.
    #[must_use]
    pub const fn numbers(&self) -> [u64; Self::LEN] {
        let (terms, known) = (self.terms, self.known);
        [
            terms.kind,
            terms.amount,
            terms.leak,
            self.number,
            self.spent,
            self.told,
            self.reserved,
            self.keep,
            self.want,
            self.need,
            known.epoch,
            known.spent,
            known.period,
        ]
    }
}

/// The store's answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// What the gateway holds now, with what its calls have reserved.
    pub held: u64,
    /// What nobody holds.
    pub free: u64,
    /// What all gateways have spent.
    pub spent: u64,
    /// Which life of the counter in the store.
    pub epoch: u64,
    /// The number of the day or month.
    pub period: u64,
    /// How many gateways there are.
    pub gateways: u64,
}

impl Word {
    /// The answer from its numbers; `None` if there are not as many as there should be, as for an ask that came late.
    #[must_use]
    pub const fn read(numbers: &[u64]) -> Option<Self> {
        match *numbers {
            [held, free, spent, epoch, period, gateways] => Some(Self {
                held,
                free,
                spent,
                epoch,
                period,
                gateways,
            }),
            _ => None,
        }
    }
}
