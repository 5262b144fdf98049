//! The choice by cost: queues first, since their mean is part of the price of own work, then the whole sum, then the lowest.

use crate::cost::{CostTerms, Prices};
use crate::picker;
use crate::pool::Pool;
use crate::pool::choose::Choice;
use crate::scorer::{Scene, Subject};
use crate::why::PickReason;

/// The costs of all candidates of one pick. A buffer that every pick uses again.
#[derive(Debug, Default)]
pub(super) struct Costs {
    /// Seconds of work before a new call, by the candidates' places.
    queues: Vec<f64>,
    /// Costs in seconds, in the same order.
    pub(super) totals: Vec<f64>,
    /// What own work and stalls are charged.
    pub(super) prices: Prices,
}

impl Costs {
    pub(super) fn reserve(&mut self, endpoints: usize) {
        for column in [&mut self.queues, &mut self.totals] {
            column.reserve(endpoints.saturating_sub(column.len()));
        }
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
        costs.queues.clear();
        costs
            .queues
            .extend(candidates.iter().map(|slot| scene.wait(*slot as usize, options)));
        let count = candidates.len().max(1) as f64;
        let mean = costs.queues.iter().sum::<f64>() / count;
        let sums = candidates.iter().fold((0.0, 0.0), |(running, held), slot| {
            let at = *slot as usize;
            (
                running + f64::from(self.columns.loads[at].decoding),
                held + scene.cached(at),
            )
        });
        let rate = self.fleet.rate(self.now) / count;
        costs.prices = options.prices(mean, rate, sums.0 / count, sums.1 / count);
        let queues = candidates.iter().zip(&costs.queues);
        let prices = costs.prices;
        let totals = queues.map(|(slot, queue)| scene.cost(*slot as usize, *queue, &prices, options).total);
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
        let others = self.columns.loads[at].foreign_share(gate.in_flight);
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
        scene.cost(
            at,
            scene.wait(at, &self.options.cost),
            &self.scratch.costs.prices,
            &self.options.cost,
        )
    }
}
