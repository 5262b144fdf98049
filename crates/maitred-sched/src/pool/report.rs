//! What a pool shows: one row per endpoint, and its counters.

use maitred_types::Time;

use crate::columns::{Freshness, Phase, Trial};
use crate::counters::PoolCounters;
use crate::event::DrainCause;
use crate::pool::Pool;
use crate::prefix::PrefixFigures;
use crate::row::{EndpointRow, EndpointState};

impl Pool {
    /// Every endpoint of the pool as of `now`, in the order of their slots.
    pub fn rows(&self, now: Time) -> impl Iterator<Item = EndpointRow<'_>> {
        let freshness = Freshness::new(&self.options.staleness, now.max(self.now));
        let present = (0..self.columns.len()).filter(|at| self.columns.gates[*at].phase != Phase::Gone);
        let picks: f64 = present
            .clone()
            .map(|at| self.columns.endpoints[at].recent.value(freshness.now))
            .sum();
        present.map(move |at| self.row(at, &freshness, picks))
    }

    fn row(&self, at: usize, freshness: &Freshness, picks: f64) -> EndpointRow<'_> {
        let (gate, load) = (&self.columns.gates[at], &self.columns.loads[at]);
        let endpoint = &self.columns.endpoints[at];
        let is_fresh = gate.is_fresh(freshness);
        let recent = endpoint.recent.value(freshness.now);
        EndpointRow {
            endpoint: self.columns.id(at),
            address: &endpoint.address,
            state: self.state(at, freshness.now),
            on_probation: gate.trial != Trial::None,
            spared_for: gate.cool_until.since(freshness.now),
            proofs: endpoint.readiness.proofs(),
            failed_probes: endpoint.readiness.failed(),
            failed_calls: endpoint.outlier.failed(),
            ejection_level: endpoint.outlier.level(),
            in_flight: gate.in_flight,
            cap: gate.cap,
            decoding: load.decoding,
            prefill_tokens: load.prefill_tokens,
            uncached_tokens: self.columns.backlogs[at].pending().tokens,
            expected_blocks: load.expected_blocks,
            reported: endpoint.reported.as_ref(),
            age: gate.sampled_at.map(|sampled| freshness.now.since(sampled)),
            is_fresh,
            is_frozen: gate.frozen,
            estimate: load.trusted(gate.in_flight, gate.trust(freshness), freshness.now),
            decode_rate: load.rate(),
            pace: self.columns.paces[at],
            slowness: endpoint.speed.slowness(),
            speed_samples: endpoint.speed.samples(),
            queue_seconds: self.columns.backlogs[at].seconds(
                &self.columns.paces[at],
                &self.columns.heard[at],
                freshness.now,
            ),
            share: if picks > 0.0 { recent / picks } else { 0.0 },
            cache: self.prefixes.row(at),
            tally: endpoint.tally,
        }
    }

    pub(super) fn state(&self, at: usize, now: Time) -> EndpointState {
        let gate = &self.columns.gates[at];
        match (gate.phase, gate.ejected_until) {
            (Phase::Draining, _) => EndpointState::Draining {
                cause: self.columns.endpoints[at].cause.unwrap_or(DrainCause::Operator),
            },
            (Phase::Ready, Some(until)) if now < until => EndpointState::Ejected { until },
            (Phase::Ready, _) => EndpointState::Ready,
            (Phase::Loading | Phase::Gone, _) => EndpointState::Loading,
        }
    }

    /// What has been counted since the pool was made.
    #[must_use]
    pub fn counters(&self) -> PoolCounters {
        let marks = self.columns.endpoints.iter().map(|endpoint| endpoint.marks.dropped());
        PoolCounters {
            refused: self.counters.refused + self.room.shed(),
            dropped_events: self.events.dropped(),
            dropped_marks: marks.sum(),
            ..self.counters
        }
    }

    /// How the prefix index fares.
    #[must_use]
    pub fn prefix_figures(&self) -> PrefixFigures {
        self.prefixes.figures()
    }

    /// Whether every prompt is looked up in the prefix index, and not only a sample.
    #[must_use]
    pub const fn looks_up_all(&self) -> bool {
        self.prefixes.is_on()
    }

    /// Leases that have not been finished, those included whose endpoint has gone.
    #[must_use]
    pub fn live_leases(&self) -> usize {
        self.leases.len()
    }

    /// Second attempts under way.
    #[must_use]
    pub const fn live_retries(&self) -> u32 {
        self.retries.held()
    }
}
