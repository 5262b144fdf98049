//! A row of the scheduling core, as metrics and the admin page show it.

use std::collections::BTreeMap;

use maitred_obs::{EndpointSample, EndpointState};
use maitred_sched::EndpointRow;
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
        custom,
    }
}
