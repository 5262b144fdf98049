//! A row of the scheduling core, as metrics and the admin page show it.

use std::collections::BTreeMap;

use maitred_obs::{CacheSample, EndpointSample, EndpointState, PrefixSample};
use maitred_sched::{CacheRow, EndpointRow, PrefixFigures};
use maitred_types::PoolName;

pub(crate) fn of(pool: &PoolName, row: &EndpointRow<'_>, custom: BTreeMap<String, f64>) -> EndpointSample {
    EndpointSample {
        pool: pool.to_string(),
        endpoint: row.address.to_string(),
        slot: row.endpoint.slot.index(),
        incarnation: row.endpoint.incarnation.get(),
        state: match row.state {
            maitred_sched::EndpointState::Loading => EndpointState::Loading,
            maitred_sched::EndpointState::Ready => EndpointState::Ready,
            maitred_sched::EndpointState::Ejected { .. } => EndpointState::Ejected,
            maitred_sched::EndpointState::Draining { .. } => EndpointState::Draining,
        },
        share: row.share,
        picks: row.tally.picks,
        errors: row.tally.failures,
        in_flight: u64::from(row.in_flight),
        waiting: row.reported.map(|signals| f64::from(signals.queued)),
        running: row.reported.map(|signals| f64::from(signals.running)),
        kv_used: row.reported.and_then(|signals| signals.kv_used),
        kv_estimate: row.estimate.kv_used,
        queue_seconds: row.queue_seconds,
        age: row.age.map(|age| age.as_secs_f64()),
        cache: cache(&row.cache),
        custom,
    }
}

fn cache(row: &CacheRow) -> CacheSample {
    CacheSample {
        held_tokens: row.held_tokens,
        capacity_tokens: row.capacity_tokens,
        scale: f64::from(row.scale),
        predicted: row.calibration.predicted,
        reported: row.calibration.reported,
        error: row.calibration.error,
    }
}

/// The prefix index of a pool, as metrics show it.
pub(crate) fn of_prefixes(pool: &PoolName, figures: &PrefixFigures) -> PrefixSample {
    PrefixSample {
        pool: pool.to_string(),
        is_on: figures.is_on,
        bytes: figures.bytes as u64,
        blocks: figures.blocks,
        evicted: figures.evicted_blocks,
        lost: figures.lost_blocks,
        looked_up: figures.looked_up,
        skipped: figures.skipped,
        untracked: figures.untracked,
        asked: figures.prompt_tokens,
        best: figures.best_tokens,
        random: figures.random_tokens,
        chosen: figures.chosen_tokens,
        predicted: figures.calibration.predicted,
        reported: figures.calibration.reported,
        error: figures.calibration.error,
        shortfalls: figures.shortfalls,
        surpluses: figures.surpluses,
    }
}
