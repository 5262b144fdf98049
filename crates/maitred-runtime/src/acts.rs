//! Acts of administration, as they are entered in the audit.

use std::time::Duration;

use maitred_obs::rfc3339;
use maitred_store::audit::{Act, Caller, NotEntered, Refusal};
use maitred_tenant::Actor;
use serde_json::Value;

use crate::runtime::Runtime;

/// How long the audit's disk may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is done.
#[derive(Clone, Debug)]
pub struct Deed<'a> {
    /// In a word.
    pub action: &'a str,
    /// To what.
    pub target: &'a str,
    /// What was before and is now.
    pub diff: Value,
    /// The version of the run-time changes that this is, if it is one.
    pub version: Option<u64>,
}

impl Runtime {
    /// Enters what `actor` does. Completes when it is on the disk; at once if there is no audit.
    ///
    /// # Errors
    /// It is not known to be there, so it must not be done.
    pub async fn enter_act(&self, actor: &Actor, deed: Deed<'_>) -> Result<(), NotEntered> {
        let Some(audit) = self.audit() else { return Ok(()) };
        audit.enter_durably(&self.act("change", actor, deed), PATIENCE).await
    }

    /// Enters what `actor` was not allowed to do. Nobody waits for it.
    pub fn note_denied(&self, actor: &Actor, deed: Deed<'_>) {
        let Some(audit) = self.audit() else { return };
        let refusal = Refusal {
            caller: Caller {
                by: Some(actor.name.as_ref().into()),
                ..Caller::default()
            },
            fault: "denied",
            request_id: "",
        };
        audit.enter_refusal(refusal, Some(&self.act("denied", actor, deed)));
    }

    /// Enters what was done already. Nobody waits for it.
    pub fn note_act(&self, kind: &'static str, actor: &Actor, deed: Deed<'_>) {
        if let Some(audit) = self.audit() {
            audit.enter(&self.act(kind, actor, deed));
        }
    }

    /// Enters up to which version changes are in force, so that a journal that has lost some is found out. Nobody waits for it.
    pub(crate) fn note_changes_in_force(&self, version: u64) {
        if let Some(audit) = self.audit() {
            audit.enter_changes_in_force(version);
        }
    }

    fn act<'a>(&self, kind: &'static str, actor: &'a Actor, deed: Deed<'a>) -> Act<'a> {
        Act {
            kind,
            at: rfc3339(self.clock().unix_now()),
            by: &actor.name,
            role: actor.role.name(),
            action: deed.action,
            target: deed.target,
            diff: deed.diff,
            version: deed.version,
        }
    }
}
