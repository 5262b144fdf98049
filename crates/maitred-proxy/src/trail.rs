//! What a call leaves behind: its entry in the audit, its access record, its decision record, its line in the recording.

use std::cell::RefCell;
use std::time::Duration;

use maitred_obs::{AccessRecord, CallEnd, RecordedCall, Service, rfc3339};
use maitred_runtime::{CallEnded, Caller, Decision, Principal, QuotaUse, Refusal};
use maitred_types::{FaultKind, KeyId, ModelName, OutcomeStatus, Time, TokenCount};

use crate::account::Account;

impl Account {
    /// Counts how well the call was served, as its caller sees it. Calls that were refused before it was known what they are for are
    /// not among them.
    pub(crate) fn count_service(&self, status: OutcomeStatus, now: Time) {
        let (Some(model), Some(principal)) = (&self.way.asked, &self.principal) else {
            return;
        };
        let degradation = self.way.degradation();
        let service = Service::of(status, self.status, degradation);
        self.gate.service.ended(model, &principal.tenant, service);
        if let Some(degradation) = degradation {
            self.gate.service.degraded(model, &principal.tenant, degradation);
        }
        self.way.ended(service, now);
    }

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
        let degradation = self.way.degradation();
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
            path: &self.path,
            model: self.way.asked.as_ref().map(ModelName::as_str),
            target: self.other_target(),
            degraded: degradation.map(|degradation| degradation.kind.label()),
            degrade_reason: degradation.map(|degradation| degradation.reason.label()),
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

    /// The model that the call went to, where that is another than the one asked for.
    fn other_target(&self) -> Option<&str> {
        let (target, asked) = (self.target.as_ref()?, self.way.asked.as_ref()?);
        (target.model != *asked).then(|| target.model.as_str())
    }

    /// Leaves why the call went where it went. Of calls without a valid key nothing is left: strangers would push out the others.
    pub(crate) fn keep_decision(&mut self, end: &CallEnd, quota: Option<QuotaUse>) {
        let Some(principal) = self.principal.take() else {
            return;
        };
        self.gate.decisions.keep(Decision {
            request_id: self.request_id.clone(),
            arrived: self.arrived,
            arrived_unix: self.arrived_unix,
            principal,
            task: self.task.take(),
            asked: self.way.asked.take(),
            evidence: std::mem::take(&mut self.way.evidence),
            target: self.target.as_deref().map(Into::into),
            left: std::mem::take(&mut self.way.left),
            degradation: self.way.degradation(),
            quota,
            choices: std::mem::take(&mut self.choices),
            status: end.status,
            detail: self.detail.as_deref().map(Decision::cut),
            first_token: end.first_token,
            duration: end.duration,
        });
    }

    /// Puts the call into the recording of the traffic, however it ended: it was there to be served.
    pub(crate) fn record(&self) {
        let (Some(recording), Some(target)) = (&self.gate.recording, &self.target) else {
            return;
        };
        let usage = self.usage.as_ref();
        let input = usage.map_or(self.prompt.tokens, |usage| usage.input);
        if input > TokenCount::ZERO {
            recording.append(RecordedCall {
                arrived: self.arrived,
                model: target.served_as.clone(),
                tenant: self.principal.as_ref().map(|principal| principal.tenant.clone()),
                session: self.session,
                input,
                cached: usage.and_then(|usage| usage.cached_input),
                output: usage.map_or(TokenCount::ZERO, |usage| usage.output),
                chain: self.prompt.chain.clone(),
            });
        }
    }

    pub(crate) fn write_record(&self, status: OutcomeStatus, end: &CallEnd) {
        let mut record = AccessRecord::new(self.arrived_unix, &self.request_id, status);
        record.client = &self.client.address;
        record.method = self.method.as_str();
        record.path = &self.path;
        record.status = self.status_shown();
        record.detail = self.detail.as_deref();
        record.stream = self.is_stream;
        record.attempts = self.attempts;
        record.request_bytes = self.request_bytes;
        record.response_bytes = self.response_bytes;
        record.duration_ms = millis(end.duration);
        record.first_token_ms = end.first_token.map(millis);
        if self.waited > Duration::ZERO {
            record.queue_ms = Some(millis(self.waited));
            record.class = self.class.as_deref();
        }
        record.blind_quota = self.is_blind;
        if let Some(principal) = &self.principal {
            record.tenant = Some(principal.tenant.as_str());
            record.key = principal.key.as_ref().map(KeyId::as_str);
            record.user = principal.user();
            record.issuer = principal.issuer();
            record.shared_key = principal.is_shared();
        }
        record.model = self.way.asked.as_ref().map(ModelName::as_str);
        record.target = self.other_target();
        if let Some(degradation) = self.way.degradation() {
            record.degraded = Some(degradation.kind.label());
            record.degrade_reason = Some(degradation.reason.label());
        }
        if let Some(target) = &self.target {
            record.pool = Some(target.pool.name().as_str());
        }
        if let Some((address, reason)) = &self.endpoint {
            record.endpoint = Some(address.as_str());
            record.pick = Some(reason);
        }
        if let Some(usage) = &self.usage {
            record.set_usage(usage);
        }
        LINE.with_borrow_mut(|line| {
            line.clear();
            record.write(self.gate.record_format, line);
            self.gate.records.append(line);
        });
    }
}

thread_local! {
    /// Where a record is put together before it is handed over, so that the hand-over is a single copy.
    static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Milliseconds to three places, as people read them in records.
fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
