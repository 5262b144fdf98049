//! Which model a call is for, and the plan of the targets at which it is to be tried.

use std::sync::Arc;

use http::HeaderMap;
use maitred_llm::{BodyView, CallKind, prompt_size};
use maitred_runtime::{Degrade, Facts, NoRoute, Planned, Principal, Says, Shape, Snapshot, Target, session_hash};
use maitred_types::{FaultKind, TokenCount};

use crate::account::Account;
use crate::fault::Fault;
use crate::{headers, hop};

/// Where a call names its model, if it does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Named<'a> {
    /// In its body, where it must.
    InBody(Option<&'a str>),
    /// In a header beside a body in JSON that has no place for it.
    Beside(Option<&'a str>),
    /// In a header, beside no body or one that is not read.
    Unread(Option<&'a str>),
}

impl<'a> Named<'a> {
    /// Where the call of this kind does it.
    pub(crate) fn of(kind: CallKind, view: Option<&'a BodyView>, headers: &'a HeaderMap) -> Self {
        let beside = || headers.get(headers::MODEL).and_then(|model| model.to_str().ok());
        match view.map(BodyView::model) {
            None => Self::Unread(beside()),
            Some(None) if kind == CallKind::Other => Self::Beside(beside()),
            Some(in_body) => Self::InBody(in_body),
        }
    }

    pub(crate) const fn is_beside_body(self) -> bool {
        matches!(self, Self::Unread(_) | Self::Beside(Some(_)))
    }
}

/// What of a call its plan is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen<'a> {
    pub(crate) kind: CallKind,
    pub(crate) view: Option<&'a BodyView>,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) class: &'a str,
    pub(crate) degrade: Degrade,
}

impl Says for Seen<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn claim(&self, _: &str) -> &[Arc<str>] {
        &[]
    }
}

/// Where the call is to be tried, if the key may use what it names.
pub(crate) fn plan(
    account: &Account,
    (snapshot, principal): (&Snapshot, &Principal),
    named: Named<'_>,
    seen: &Seen<'_>,
) -> Result<Planned, Fault> {
    let (Named::InBody(name) | Named::Beside(name) | Named::Unread(name)) = named;
    let sole = || {
        let may_guess = matches!(named, Named::Unread(_));
        snapshot.sole_model(principal).filter(|_| may_guess)
    };
    let Some(name) = name.filter(|name| !name.is_empty()).or_else(sole) else {
        return Err(Fault::new(
            FaultKind::MissingModel,
            "the call names no model; add `model` to the body (or the header `x-maitred-model` where the body has no place for it)",
        ));
    };
    let plain = Facts {
        tenant: principal.tenant.as_str(),
        class: seen.class,
        now: account.arrived_unix,
        draw: session_hash(account.request_id.as_str().as_bytes()),
        degrade: seen.degrade,
        says: seen,
        ..Facts::default()
    };
    // Of the model of a pool there is nothing to find out.
    let target = snapshot.is_route(name).then(|| snapshot.usual_target(name)).flatten();
    let facts = match (target, seen.view) {
        (Some(target), Some(view)) => looked_at(plain, seen, (target, view)),
        _ => plain,
    };
    snapshot.plan(principal, name, &facts).map_err(|none| {
        let shown: String = name.chars().take(128).collect();
        match none {
            NoRoute::Unknown => Fault::new(
                FaultKind::UnknownModel,
                format!("no model `{shown}`; GET /v1/models lists those this key may use"),
            ),
            NoRoute::Version => Fault::new(
                FaultKind::UnknownModel,
                format!("no version of the model is called so: `{shown}`"),
            ),
            NoRoute::NotAllowed => Fault::new(
                FaultKind::ModelNotAllowed,
                format!("this key may not use the model `{shown}`"),
            ),
        }
    })
}

/// The facts with what the body shows.
fn looked_at<'a>(plain: Facts<'a>, seen: &Seen<'_>, (target, view): (&Target, &BodyView)) -> Facts<'a> {
    let pool = target.pool.settings();
    let output = view.output_limit(seen.kind);
    Facts {
        shape: Shape {
            tools: view.has_tools(),
            images: view.has_images(),
            json_schema: view.wants_json_schema(),
            stream: view.wants_stream(),
        },
        input: prompt_size(view).tokens(target.ratio.get()),
        output: output.map(TokenCount::saturating_from),
        session: hop::session(seen.headers, plain.tenant, &pool),
        ..plain
    }
}

/// Lets a body that is not read pass. A form names its model inside; a key that may use some models only must not reach others
/// so.
pub(crate) fn allow_unread(principal: &Principal) -> Result<(), Fault> {
    if principal.is_limited() {
        return Err(Fault::new(
            FaultKind::ModelNotAllowed,
            "this key may use some models only, so its calls must have a body in JSON that names one of them",
        ));
    }
    Ok(())
}
