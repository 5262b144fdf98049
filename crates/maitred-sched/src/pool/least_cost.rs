//! The choice by cost: queues first, since their mean is part of the price of own work, then the whole sum, then the lowest.

use crate::cost::{CostTerms, Prices, Standing};
use crate::picker;
use crate::pool::Pool;
use crate::pool::choose::Choice;
use crate::scorer::{Scene, Subject};
use crate::why::PickReason;

/// The costs of all candidates of one pick. A buffer that every pick uses again.
#[derive(Debug, Default)]
pub(super) struct Costs {
    /// How the candidates stand, by their places.
    standings: Vec<Standing>,
    /// Costs in seconds, in the same order.
    pub(super) totals: Vec<f64>,
    /// What own work and stalls are charged.
    pub(super) prices: Prices,
}

impl Costs {
    pub(super) fn reserve(&mut self, endpoints: usize) {
        self.standings.reserve(endpoints.saturating_sub(self.standings.len()));
        self.totals.reserve(endpoints.saturating_sub(self.totals.len()));
    }
}

/// The place of the lowest, and it.
fn minimum(totals: &[f64]) -> (usize, f64) {
    let pairs = totals.iter().copied().enumerate();
    pairs.fold(
        (0, f64::INFINITY),
        |best, (at, total)| {
            if total < best.1 { (at, total) } else { best }
        },
    )
}

impl Pool {
    /// Fills the costs of all candidates.
    pub(super) fn cost_all(&mut self, subject: Subject) {
        let (candidates, costs) = (&self.scratch.candidates, &mut self.scratch.costs);
        let scene = Scene {
            columns: &self.columns,
            subject,
        };
        let options = &self.options.cost;
        costs.standings.clear();
        costs
            .standings
            .extend(candidates.iter().map(|slot| scene.standing(*slot as usize, options)));
        let count = candidates.len().max(1) as f64;
        let sums = costs.standings.iter().fold((0.0, 0.0), |(wait, running), standing| {
            (wait + standing.wait, running + f64::from(standing.estimate.running))
        });
        let held = candidates.iter().map(|slot| scene.cached(*slot as usize)).sum::<f64>();
        let rate = self.fleet.rate(self.now) / count;
        costs.prices = options.prices(sums.0 / count, rate, sums.1 / count, held / count);
        let standings = candidates.iter().zip(&costs.standings);
        let prices = costs.prices;
        let totals = standings.map(|(slot, standing)| scene.cost(*slot as usize, standing, &prices, options).total);
        costs.totals.clear();
        costs.totals.extend(totals);
    }

    /// The candidate with the lowest cost; among equals the home of the session, then the one with the least work, then any.
    ///
    /// The older the signals of the cheapest are and the more of its requests are not ours, the more costs count as equal: up to as
    /// much as recent first tokens there were off. Among those, two are drawn and the one with fewer own leases is taken, so that gateways that all see the same old
    /// figures do not herd.
    pub(super) fn cheapest(&mut self, subject: Subject) -> Choice {
        self.cost_all(subject);
        let (candidates, totals) = (&self.scratch.candidates, &self.scratch.costs.totals);
        let (first, lowest) = minimum(totals);
        let at = candidates[first] as usize;
        let gate = &self.columns.gates[at];
        let distrust = 1.0 - gate.trust(&subject.freshness);
        let others = self.columns.loads[at].foreign_share(gate.in_flight, self.now);
        let doubt = distrust * others * self.columns.backlogs[at].doubt();
        let limit = lowest + self.options.cost.tie(lowest) + doubt;
        let home = subject
            .home
            .and_then(|slot| candidates.iter().position(|candidate| *candidate as usize == slot));
        let at = match home.filter(|place| totals[*place] <= limit) {
            Some(place) => place,
            None if doubt > 0.0 => {
                let gates = &self.columns.gates;
                let own = |place: usize| gates[candidates[place] as usize].in_flight;
                picker::lower_of_two(totals, limit, own, &mut self.rng)
            }
            None => {
                let work = &self.columns.work;
                let effort = |place: usize| work[candidates[place] as usize];
                picker::lowest(totals, limit, effort, &mut self.rng)
            }
        };
        Choice::by_total(at, PickReason::Cheapest)
    }

    /// The terms of the candidate at `place`, once all have been costed.
    pub(super) fn terms(&self, place: usize, subject: Subject) -> CostTerms {
        let scene = Scene {
            columns: &self.columns,
            subject,
        };
        let at = self.scratch.candidates[place] as usize;
        let options = &self.options.cost;
        scene.cost(at, &scene.standing(at, options), &self.scratch.costs.prices, options)
    }
}
