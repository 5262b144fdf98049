//! What is counted of the calls of one model of one pool.

use std::time::Duration;

use maitred_types::{OutcomeStatus, PoolName, Usage, UsageSource};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;

use super::{Counters, Families, Labels};

/// How a call ended, as far as metrics are concerned.
#[derive(Clone, Copy, Debug)]
pub struct CallEnd {
    /// The outcome.
    pub status: OutcomeStatus,
    /// From arrival to end.
    pub duration: Duration,
    /// From arrival to the first output, if there was any.
    pub first_token: Option<Duration>,
    /// What it used, if it got as far as using anything.
    pub usage: Option<Usage>,
}

/// What concerns one model of one pool.
#[derive(Debug)]
pub struct ModelMeters {
    duration: Histogram,
    first_token: Histogram,
    per_token: Histogram,
    input: Counter,
    cached_input: Counter,
    output: Counter,
    estimated: Counter,
    answered: Counter,
    calls: Counters,
    labels: Labels,
}

impl ModelMeters {
    pub(super) fn new(families: &Families, pool: &PoolName, model: &str) -> Self {
        let labels: Labels = vec![("pool", pool.to_string()), ("gen_ai_request_model", model.to_owned())];
        let tokens = |kind: &str| {
            let mut labels = labels.clone();
            labels.push(("gen_ai_token_type", kind.to_owned()));
            families.tokens.get_or_create_owned(&labels)
        };
        Self {
            duration: families.duration.get_or_create_owned(&labels),
            first_token: families.first_token.get_or_create_owned(&labels),
            per_token: families.per_token.get_or_create_owned(&labels),
            input: tokens("input"),
            cached_input: tokens("cached_input"),
            output: tokens("output"),
            estimated: families.usage_estimated.get_or_create_owned(&labels),
            answered: families
                .calls
                .get_or_create_owned(&outcome_labels(&labels, OutcomeStatus::Answered)),
            calls: families.calls.clone(),
            labels,
        }
    }

    /// Counts a call that has ended.
    pub fn call_ended(&self, end: &CallEnd) {
        match end.status {
            OutcomeStatus::Answered => {
                self.answered.inc();
            }
            status => {
                self.calls.get_or_create(&outcome_labels(&self.labels, status)).inc();
            }
        }
        self.duration.observe(end.duration.as_secs_f64());
        if let Some(first_token) = end.first_token {
            self.first_token.observe(first_token.as_secs_f64());
        }
        let Some(usage) = end.usage else { return };
        self.input.inc_by(u64::from(usage.input.get()));
        self.output.inc_by(u64::from(usage.output.get()));
        if let Some(cached) = usage.cached_input {
            self.cached_input.inc_by(u64::from(cached.get()));
        }
        if usage.source == UsageSource::Estimated {
            self.estimated.inc();
        }
        if let (Some(first_token), 2..) = (end.first_token, usage.output.get()) {
            let decode = end.duration.saturating_sub(first_token).as_secs_f64();
            self.per_token.observe(decode / f64::from(usage.output.get() - 1));
        }
    }
}

fn outcome_labels(labels: &Labels, status: OutcomeStatus) -> Labels {
    let mut labels = labels.clone();
    labels.push(("outcome", status.label().to_owned()));
    labels.push((
        "fault",
        status.fault().map_or(String::new(), |fault| fault.label().to_owned()),
    ));
    labels
}
