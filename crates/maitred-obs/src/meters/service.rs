//! How well calls were served, by the name that they asked for and by tenant.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use maitred_types::{Degradation, FaultKind, ModelName, Origin, OutcomeStatus, TenantId};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

use super::{Counters, register};
use crate::metric;

/// Most pairs of a model and a tenant that are told apart. Tokens can name any number of tenants.
const PAIRS_MAX: usize = 10_000;
/// What further ones are counted as. No tenant is called so.
const OTHERS: &str = "(others)";

/// How well a call was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// What was asked for has answered.
    Full,
    /// Something else has answered.
    Degraded,
    /// There was no whole answer, for no fault of the caller's.
    Failed,
    /// The call was the caller's fault, or beyond its limits.
    Refused,
    /// The client went away.
    Left,
}

impl Service {
    const ALL: [Self; 5] = [Self::Full, Self::Degraded, Self::Failed, Self::Refused, Self::Left];

    const fn label(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::Left => "left",
        }
    }

    /// That of a call which has ended so, with this status of HTTP.
    #[must_use]
    pub fn of(status: OutcomeStatus, http: u16, degradation: Option<Degradation>) -> Self {
        match status {
            OutcomeStatus::Answered if !(200..400).contains(&http) => Self::Refused,
            OutcomeStatus::Answered if degradation.is_some() => Self::Degraded,
            OutcomeStatus::Answered => Self::Full,
            OutcomeStatus::ClientClosed => Self::Left,
            OutcomeStatus::Broken(_) => Self::Failed,
            OutcomeStatus::Failed(FaultKind::QuotaExceeded) => Self::Refused,
            OutcomeStatus::Failed(kind) if kind.row().origin == Origin::Client => Self::Refused,
            OutcomeStatus::Failed(_) => Self::Failed,
        }
    }
}

/// The families, and which pairs are told apart.
#[derive(Clone)]
pub(super) struct ServiceFamilies {
    calls: Counters,
    degraded: Counters,
    pairs: Arc<Mutex<HashSet<(ModelName, TenantId)>>>,
}

impl ServiceFamilies {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            calls: register(registry, &metric::SERVICE_CALLS, Counters::default()),
            degraded: register(registry, &metric::DEGRADED_ANSWERS, Counters::default()),
            pairs: Arc::default(),
        }
    }

    pub(super) fn handle(&self) -> ServiceMeters {
        ServiceMeters {
            families: self.clone(),
            known: Mutex::default(),
        }
    }

    /// The tenant as it is counted.
    fn counted(&self, model: &ModelName, tenant: &TenantId) -> String {
        let mut pairs = self.pairs.lock();
        let pair = (model.clone(), tenant.clone());
        if pairs.contains(&pair) || pairs.len() < PAIRS_MAX {
            pairs.insert(pair);
            return tenant.to_string();
        }
        OTHERS.to_owned()
    }
}

/// The counters of a tenant's calls for a model.
type OfPair = [Counter; Service::ALL.len()];

/// Counts how well calls were served. Each thread has one of its own, whose look-ups wait for nobody.
pub struct ServiceMeters {
    families: ServiceFamilies,
    /// Found once: a look-up in the family itself allocates.
    known: Mutex<HashMap<ModelName, HashMap<TenantId, OfPair>>>,
}

impl std::fmt::Debug for ServiceMeters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceMeters").finish_non_exhaustive()
    }
}

impl ServiceMeters {
    /// Counts a call that has ended.
    pub fn ended(&self, model: &ModelName, tenant: &TenantId, service: Service) {
        let mut known = self.known.lock();
        if let Some(counters) = known.get(model).and_then(|tenants| tenants.get(tenant)) {
            counters[service as usize].inc();
            return;
        }
        let counters = self.of_pair(model, tenant);
        counters[service as usize].inc();
        let pairs: usize = known.values().map(HashMap::len).sum();
        if pairs < PAIRS_MAX {
            known.entry(model.clone()).or_default().insert(tenant.clone(), counters);
        }
    }

    /// Counts an answer that was said to be degraded.
    pub fn degraded(&self, model: &ModelName, tenant: &TenantId, degradation: Degradation) {
        let labels = vec![
            ("kind", degradation.kind.label().to_owned()),
            ("reason", degradation.reason.label().to_owned()),
            ("model", model.to_string()),
            ("tenant", self.families.counted(model, tenant)),
        ];
        self.families.degraded.get_or_create(&labels).inc();
    }

    fn of_pair(&self, model: &ModelName, tenant: &TenantId) -> OfPair {
        let tenant = self.families.counted(model, tenant);
        Service::ALL.map(|service| {
            let labels = vec![
                ("model", model.to_string()),
                ("tenant", tenant.clone()),
                ("result", service.label().to_owned()),
            ];
            self.families.calls.get_or_create_owned(&labels)
        })
    }
}

#[cfg(test)]
mod tests {
    use maitred_types::{DegradeKind, DegradeReason};

    use super::*;

    const DEGRADATION: Degradation = Degradation {
        kind: DegradeKind::Model,
        reason: DegradeReason::Quota,
    };

    #[test]
    fn what_is_the_callers_own_fault_is_no_failure() {
        let check = |status, http, degradation, wanted| {
            assert_eq!(Service::of(status, http, degradation), wanted, "{status:?} {http}");
        };
        check(OutcomeStatus::Answered, 200, None, Service::Full);
        check(OutcomeStatus::Answered, 200, Some(DEGRADATION), Service::Degraded);
        check(OutcomeStatus::Answered, 400, None, Service::Refused);
        check(OutcomeStatus::ClientClosed, 200, Some(DEGRADATION), Service::Left);
        check(
            OutcomeStatus::Broken(FaultKind::UpstreamBroken),
            200,
            Some(DEGRADATION),
            Service::Failed,
        );
        for (kind, wanted) in [
            (FaultKind::QuotaExceeded, Service::Refused),
            (FaultKind::InvalidField, Service::Refused),
            (FaultKind::UpstreamQuota, Service::Failed),
            (FaultKind::Saturated, Service::Failed),
        ] {
            check(OutcomeStatus::Failed(kind), kind.row().status, None, wanted);
        }
    }

    #[test]
    fn tenants_without_end_are_counted_together() {
        let families = ServiceFamilies::register(&mut Registry::default());
        let (one, other) = (families.handle(), families.handle());
        let model = ModelName::from("m");
        for number in 0..PAIRS_MAX + 3 {
            let tenant = TenantId::from(format!("t{number}").as_str());
            one.ended(&model, &tenant, Service::Full);
            other.ended(&model, &tenant, Service::Full);
            other.degraded(&model, &tenant, DEGRADATION);
        }
        assert_eq!(families.pairs.lock().len(), PAIRS_MAX);
        let labels = |tenant: &str| {
            vec![
                ("model", "m".to_owned()),
                ("tenant", tenant.to_owned()),
                ("result", "full".to_owned()),
            ]
        };
        assert_eq!(families.calls.get_or_create(&labels(OTHERS)).get(), 6);
        assert_eq!(families.calls.get_or_create(&labels("t0")).get(), 2);
    }
}
