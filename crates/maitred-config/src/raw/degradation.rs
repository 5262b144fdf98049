//! `degradation`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::forms::{Name, Share, TimeSpan};

/// How many answers may come from something else than what was asked for, and who refuses them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Degradation {
    /// How many such answers are too many. Needed as soon as a route can lead to another model than the one asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) objective: Option<Objective>,
    /// What holds for single tenants.
    #[serde(default)]
    pub(crate) tenants: Vec<TenantPolicy>,
}

/// How many degraded answers are too many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Objective {
    /// The share of a route's answers that may be degraded.
    pub(crate) ratio: Share,
    /// Over how long the share is taken.
    pub(crate) window: TimeSpan,
    /// What happens when it is more.
    pub(crate) on_breach: OnBreach,
}

impl Default for Objective {
    fn default() -> Self {
        Self {
            ratio: Share::percent(5),
            window: TimeSpan::secs(180),
            on_breach: OnBreach::default(),
        }
    }
}

/// What happens when more answers are degraded than may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnBreach {
    /// The log and the metrics say so.
    #[default]
    Alert,
    /// They say so, and calls do not go on to other targets any more: callers get the error, until the share is in order again.
    Stop,
}

/// What holds for a tenant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TenantPolicy {
    /// The tenant, as `auth` names it.
    pub(crate) tenant: Name,
    /// Whether its calls may be degraded.
    pub(crate) policy: DegradePolicy,
}

/// Whether calls may be degraded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum DegradePolicy {
    /// They may, unless the call's header `x-maitred-degrade` says `refuse`.
    Allow,
    /// They get the error instead.
    Refuse,
}
