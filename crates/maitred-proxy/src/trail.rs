//! What a call leaves in the audit.

use maitred_obs::rfc3339;
use maitred_runtime::{CallEnded, Caller, Principal, Refusal};
use maitred_types::{FaultKind, KeyId, OutcomeStatus};

use crate::account::Account;

impl Account {
    /// Enters who called what, and what came of it. Calls that never came to an endpoint are entered so that nobody can fill the disk
    /// with them; those of somebody who was not let in are only counted.
    pub(crate) fn enter_audit(&self, status: OutcomeStatus) {
        let Some(audit) = self.gate.runtime.audit() else { return };
        let entry = self.principal.as_ref().map(|principal| self.entry(principal, status));
        match (status.fault(), entry) {
            (Some(fault), entry) if self.attempts() == 0 => audit.enter_refusal(self.refusal(fault), entry.as_ref()),
            (_, Some(entry)) => audit.enter(&entry),
            // Whoever was not let in was refused.
            (_, None) => {}
        }
    }

    fn refusal(&self, fault: FaultKind) -> Refusal<'_> {
        let caller = self.principal.as_ref().map(|principal| {
            let key = principal.key.as_ref().map(KeyId::as_str);
            // A key's calls are counted together, whomever it makes them for.
            let user = principal.user().filter(|_| key.is_none());
            Caller {
                tenant: Some(principal.tenant.as_str().into()),
                user: user.map(Into::into),
                key: key.map(Into::into),
                issuer: principal.issuer().filter(|_| key.is_none()).map(Into::into),
                by: None,
            }
        });
        Refusal {
            caller: caller.unwrap_or_default(),
            fault: fault.label(),
            request_id: self.request_id.as_str(),
        }
    }

    fn entry<'a>(&'a self, principal: &'a Principal, status: OutcomeStatus) -> CallEnded<'a> {
        let target = self.target.as_ref();
        let entry = CallEnded {
            kind: "call",
            at: rfc3339(self.arrived_unix),
            request_id: self.request_id.as_str(),
            tenant: principal.tenant.as_str(),
            user: principal.user(),
            key: principal.key.as_ref().map(KeyId::as_str),
            issuer: principal.issuer(),
            shared_key: principal.is_shared(),
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
        entry.fitted()
    }
}
