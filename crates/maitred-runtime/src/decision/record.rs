//! A kept decision in words.

use std::sync::Arc;
use std::time::Duration;

use maitred_obs::{
    AttemptRecord, ComparedRecord, DecisionRecord, DegradedRecord, EndRecord, LeftRecord, LimitRecord, QuotaRecord,
    RemovedEndpoint, RemovedRecord, RuleMissed, ScoreRecord, ShadowRecord, TermRecord, rfc3339,
};
use maitred_sched::{CostTerms, Ranked, Removed, Why};
use maitred_tenant::Standing;
use maitred_types::{EndpointId, Time};

use super::{AttemptEnd, Choice, Decision, Found, HopEnd, LeftHop, QuotaUse, ShadowChoice};

impl Decision {
    /// The record as pages show it.
    #[must_use]
    pub fn to_record(&self) -> DecisionRecord {
        let target = self.target.as_ref();
        DecisionRecord {
            request_id: self.request_id.to_string(),
            time: rfc3339(self.arrived_unix),
            tenant: Some(self.principal.tenant.to_string()),
            user: self.principal.user().map(str::to_owned),
            key: self.principal.key.as_ref().map(ToString::to_string),
            task: self.task.as_deref().map(str::to_owned),
            model: self
                .asked
                .as_ref()
                .or(target.map(|target| &target.model))
                .map_or_else(String::new, ToString::to_string),
            target: target
                .filter(|target| self.asked.as_ref().is_some_and(|asked| *asked != target.model))
                .map(|target| target.model.to_string()),
            served: target
                .filter(|target| target.served != target.model)
                .map(|target| target.served.to_string()),
            pool: target.map_or_else(String::new, |target| target.pool.to_string()),
            degraded: self.degradation.map(|degradation| DegradedRecord {
                kind: degradation.kind.label().to_owned(),
                reason: degradation.reason.label().to_owned(),
            }),
            rule: self.evidence.rule.as_deref().map(str::to_owned),
            rules_missed: self.evidence.missed.iter().map(missed).collect(),
            left: self.left.iter().map(left).collect(),
            quota: self.quota.as_ref().map(quota),
            attempts: self
                .choices
                .iter()
                .map(|choice| choice.to_record(self.arrived))
                .collect(),
            outcome: self.status.label().to_owned(),
            fault: self.status.fault().map(|fault| fault.label().to_owned()),
            detail: self.detail.as_deref().map(str::to_owned),
            first_token_ms: self.first_token.map(millis),
            duration_ms: millis(self.duration),
        }
    }
}

fn missed((rule, condition): &(Arc<str>, &'static str)) -> RuleMissed {
    RuleMissed {
        rule: rule.to_string(),
        condition: (*condition).to_owned(),
    }
}

fn left(hop: &LeftHop) -> LeftRecord {
    let (reason, skipped) = match hop.end {
        HopEnd::Left(reason) => (Some(reason.label().to_owned()), None),
        HopEnd::Skipped(skip) => (None, Some(skip.label().to_owned())),
        HopEnd::Unfit(unfit) => (None, Some(unfit.label().to_owned())),
    };
    LeftRecord {
        pool: hop.target.pool.to_string(),
        model: hop.target.model.to_string(),
        attempts: hop.attempts,
        reason,
        skipped,
    }
}

fn quota(quota: &QuotaUse) -> QuotaRecord {
    // What is left of a limit is told with the reservation taken off.
    let limit = |standing: &Standing, reserved: u64, used: u64| LimitRecord {
        limit: standing.limit,
        before: standing.remaining.saturating_add(reserved),
        after: standing.remaining.saturating_add(reserved).saturating_sub(used),
    };
    QuotaRecord {
        reserved_tokens: quota.reserved,
        used_tokens: quota.used,
        tokens: quota
            .tokens
            .map(|standing| limit(&standing, quota.reserved, quota.used)),
        calls: quota.calls.map(|standing| limit(&standing, 1, 1)),
    }
}

impl Choice {
    fn to_record(&self, arrived: Time) -> AttemptRecord {
        let mut record = AttemptRecord {
            after_ms: millis(self.evidence.at.since(arrived)),
            waited_ms: (!self.evidence.waited.is_zero()).then(|| millis(self.evidence.waited)),
            input_tokens: self.evidence.input.get(),
            output_tokens: self.evidence.output.get(),
            tried: u32::try_from(self.evidence.tried).unwrap_or(u32::MAX),
            shadows: self.evidence.shadows.iter().map(|shadow| self.shadow(shadow)).collect(),
            end: self.end.as_ref().map(|end| self.ended(end)),
            ..AttemptRecord::default()
        };
        match &self.found {
            Found::Endpoint(endpoint, why) => {
                record.endpoints = why.endpoints;
                record.candidates = why.candidates;
                record.removed = self.removed(&why.removed, why);
                record.picker = Some(why.picker.name().to_owned());
                why.reason.label().clone_into(&mut record.reason);
                record.endpoint = Some(self.name(*endpoint));
                let compared = why.ranked().iter();
                record.compared = compared.map(|ranked| self.compared(ranked, why)).collect();
            }
            Found::Nothing(refusal) => {
                let removed = refusal.removed();
                record.endpoints = removed.total();
                record.removed = counts(&removed);
                refusal.label().clone_into(&mut record.reason);
                record.retry_after_ms = refusal.retry_after().map(millis);
            }
        }
        record
    }

    fn name(&self, id: EndpointId) -> String {
        let named = self.evidence.names.iter().find(|(named, _)| *named == id);
        named.map_or_else(
            || format!("slot {}", id.slot.index()),
            |(_, address)| address.to_string(),
        )
    }

    fn removed(&self, removed: &Removed, why: &Why) -> Vec<RemovedRecord> {
        let mut records = counts(removed);
        for removal in &why.removals {
            if let Some(record) = records.iter_mut().find(|record| record.filter == removal.filter.name()) {
                record.which.push(RemovedEndpoint {
                    endpoint: self.name(removal.endpoint),
                    state: removal.state.label().to_owned(),
                });
            }
        }
        records
    }

    fn compared(&self, ranked: &Ranked, why: &Why) -> ComparedRecord {
        let weights = why.scorers().iter().map(|weighted| weighted.weight);
        let scores = why.values(ranked).zip(weights);
        ComparedRecord {
            endpoint: self.name(ranked.endpoint),
            total: (!why.scorers().is_empty()).then(|| rounded(ranked.total)),
            scores: scores
                .map(|((scorer, value), weight)| ScoreRecord {
                    scorer: scorer.name().to_owned(),
                    value: rounded(value),
                    weight: rounded(weight),
                })
                .collect(),
            cached_tokens: cached(ranked).map(whole),
            cost_seconds: ranked.cost.map(|cost| micros(cost.total)),
            terms: ranked.cost.map_or_else(Vec::new, |cost| terms(&cost)),
        }
    }

    fn shadow(&self, shadow: &ShadowChoice) -> ShadowRecord {
        ShadowRecord {
            profile: shadow.profile.to_string(),
            endpoint: shadow.chosen.map(|(endpoint, _)| self.name(endpoint)),
            reason: shadow.chosen.map(|(_, reason)| reason.to_owned()),
            agrees: shadow.agrees,
        }
    }

    fn ended(&self, end: &AttemptEnd) -> EndRecord {
        EndRecord {
            result: end.result.label().to_owned(),
            fault: end.fault.map(|fault| fault.label().to_owned()),
            first_token_ms: end.first_token.map(|first| millis(first.since(self.evidence.at))),
            held_ms: millis(end.at.since(self.evidence.at)),
            input_tokens: end.usage.map(|usage| usage.input.get()),
            cached_tokens: end
                .usage
                .and_then(|usage| usage.cached_input)
                .map(|cached| cached.get()),
            output_tokens: end.usage.map(|usage| usage.output.get()),
            usage_source: end.usage.map(|usage| usage.source.label().to_owned()),
        }
    }
}

/// Prompt tokens that the candidate was taken to hold, where that was looked up.
fn cached(ranked: &Ranked) -> Option<f64> {
    let held = (ranked.matched > 0.0).then(|| f64::from(ranked.matched));
    ranked.cost.map(|cost| cost.cached).or(held)
}

/// The parts of a cost that are not nothing; the own work with its price, where that is not 1.
fn terms(cost: &CostTerms) -> Vec<TermRecord> {
    let price = Some(cost.price).filter(|price| (price - 1.0).abs() > 1e-6);
    let all = [
        ("queue", cost.queue, None),
        ("own", cost.own, price.map(micros)),
        ("fixed", cost.fixed, None),
        ("decode", cost.decode, None),
        ("kv", cost.kv, None),
        ("adapter", cost.adapter, None),
    ];
    let some = all.into_iter().filter(|(_, seconds, _)| *seconds != 0.0);
    some.map(|(term, seconds, price)| TermRecord {
        term: term.to_owned(),
        seconds: micros(seconds),
        price,
    })
    .collect()
}

fn counts(removed: &Removed) -> Vec<RemovedRecord> {
    let filters = removed.iter();
    filters
        .map(|(filter, endpoints)| RemovedRecord {
            filter: filter.name().to_owned(),
            endpoints,
            which: Vec::new(),
        })
        .collect()
}

/// Milliseconds to three places, as people read them in records.
fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// A score to six places: what was computed with seven digits is not shown with sixteen.
fn rounded(value: f32) -> f64 {
    micros(f64::from(value))
}

/// A number to six places.
fn micros(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float cast saturates, which is what is wanted"
)]
fn whole(tokens: f64) -> u32 {
    tokens.round() as u32
}
