//! What a call leaves in the audit.

use maitred_obs::rfc3339;
use maitred_runtime::CallEnded;
use maitred_types::{FaultKind, KeyId, OutcomeStatus};

use crate::account::Account;

impl Account {
    /// Enters who called what, and what came of it. A call of somebody who was not let in leaves only its access record: strangers
    /// could fill the audit.
    pub(crate) fn enter_audit(&self, status: OutcomeStatus) {
        let (Some(audit), Some(principal)) = (self.gate.runtime.audit(), &self.principal) else {
            return;
        };
        let target = self.target.as_ref();
        let entry = CallEnded {
            kind: "call",
            at: rfc3339(self.arrived_unix),
            request_id: self.request_id.as_str(),
            tenant: principal.tenant.as_str(),
            user: principal.user(),
            key: principal.key.as_ref().map(KeyId::as_str),
            issuer: principal.issuer(),
            shared_key: principal.key.is_some() && principal.user().is_none(),
            client: &self.client.address,
            path: self.path(),
            model: target.map(|target| target.model.as_str()),
            served: target.map(|target| target.served_as.as_str()),
            pool: target.map(|target| target.pool.name().as_str()),
            endpoint: self.endpoint_address(),
            attempts: self.attempts(),
            outcome: status.label(),
            fault: status.fault().map(FaultKind::label),
            status: self.status_shown(),
            cut: false,
        };
        audit.enter(&entry.fitted());
    }
}
