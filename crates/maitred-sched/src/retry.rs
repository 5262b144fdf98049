//! The retry budget: how many second attempts may be under way at one time.
//!
//! A share of the active leases with a floor, as Envoy's circuit breakers count it. A second attempt takes its place
//! together with its lease and gives it back when the lease ends, so a place cannot be held by nobody.

use crate::RetryOptions;

#[derive(Debug, Default)]
pub(crate) struct RetryBudget {
    held: u32,
}

impl RetryBudget {
    /// Second attempts under way.
    pub(crate) const fn held(&self) -> u32 {
        self.held
    }

    /// Whether one more is allowed while `active` leases are live.
    pub(crate) fn allows(&self, active: usize, options: &RetryOptions) -> bool {
        f64::from(self.held) < limit(active, options)
    }

    pub(crate) const fn take(&mut self) {
        self.held += 1;
    }

    pub(crate) const fn give_back(&mut self) {
        self.held = self.held.saturating_sub(1);
    }
}

/// `max(min, ⌊share · active⌋)`
fn limit(active: usize, options: &RetryOptions) -> f64 {
    let active = f64::from(u32::try_from(active).unwrap_or(u32::MAX));
    (options.share * active).floor().max(f64::from(options.min))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_the_active_leases_but_at_least_three() {
        let check = |active: usize, held: u32, allowed: bool| {
            let budget = RetryBudget { held };
            assert_eq!(
                budget.allows(active, &RetryOptions::default()),
                allowed,
                "{held} of {active}"
            );
        };
        check(0, 0, true);
        check(0, 2, true);
        check(0, 3, false);
        check(15, 3, false);
        check(19, 3, false);
        check(20, 3, true);
        check(20, 4, false);
        check(100, 19, true);
        check(100, 20, false);
    }

    #[test]
    fn an_odd_share_falls_back_to_the_floor() {
        let options = RetryOptions {
            share: f64::NAN,
            min: 2,
        };
        assert!(RetryBudget { held: 1 }.allows(100, &options));
        assert!(!RetryBudget { held: 2 }.allows(100, &options));
    }
}
