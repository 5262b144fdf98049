//! Checks of `degradation`.

use std::time::Duration;

use maitred_types::TenantId;

use super::{Checker, access};
use crate::diagnostic::near_miss;
use crate::path::Path;
use crate::raw::{self, DegradePolicy};
use crate::settings::{DegradationSettings, ObjectiveSettings};

/// The windows that a share can be taken over: in a shorter one a single answer is too much, and a longer one says nothing of now.
const WINDOWS: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(3_600));

impl Checker<'_> {
    pub(super) fn degradation(&mut self, file: &raw::File) -> DegradationSettings {
        let top = Path::top("degradation");
        let degradation = &file.degradation;
        self.refusing(file, &top.key("tenants"));
        let refuses = |tenant: &&raw::TenantPolicy| tenant.policy == DegradePolicy::Refuse;
        let refusing = degradation.tenants.iter().filter(refuses);
        DegradationSettings {
            objective: degradation
                .objective
                .as_ref()
                .map(|objective| self.objective(objective, &top.key("objective"))),
            refusing: refusing.map(|tenant| TenantId::from(tenant.tenant.as_str())).collect(),
        }
    }

    fn objective(&mut self, objective: &raw::Objective, path: &Path) -> ObjectiveSettings {
        let window = objective.window.get();
        if window < WINDOWS.0 || window > WINDOWS.1 {
            self.error(
                &path.key("window"),
                format!("a share of answers cannot be taken over {}", objective.window),
                "say from `10s` to `1h`",
            );
        }
        ObjectiveSettings {
            ratio: objective.ratio.fraction(),
            window,
            on_breach: objective.on_breach,
        }
    }

    /// What is said of a tenant that does not exist holds for nobody; most likely the name is mistyped.
    fn refusing(&mut self, file: &raw::File, path: &Path) {
        let tenants = || file.degradation.tenants.iter().enumerate();
        self.unique(
            "tenant",
            tenants().map(|(index, tenant)| (tenant.tenant.as_str(), path.index(index).key("tenant"))),
        );
        let Some(known) = access::tenants(file) else { return };
        for (index, tenant) in tenants().filter(|(_, tenant)| !known.contains(&tenant.tenant.as_str())) {
            let help = match near_miss(tenant.tenant.as_str(), known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "name a tenant of `auth`".to_owned(),
            };
            self.error(
                &path.index(index).key("tenant"),
                format!("nobody is of the tenant `{}`, so this holds for nobody", tenant.tenant),
                help,
            );
        }
    }
}
