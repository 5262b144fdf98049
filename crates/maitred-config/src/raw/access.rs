//! `auth`.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::forms::{FilePath, KeyHashText, ModelPatternText, Moment, Name};

/// Who may call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Auth {
    /// The keys that are accepted, as hashes. Several keys of one tenant may be valid at one time, so a key is replaced
    /// by adding the new one, moving the callers over and removing the old one.
    pub(crate) keys: Vec<Key>,
    /// A secret of at least 16 bytes that the hashes are keyed with, so that the file alone does not tell which keys are
    /// right. `maitred keys new` must be given the same one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pepper: Option<SecretRef>,
    /// Accepts calls without a key. Only for listeners on loopback addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) anonymous: Option<Anonymous>,
}

/// One key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Key {
    /// The hash that `maitred keys new` prints beside the key. The key itself never stands in this file.
    #[schemars(extend("x-secret" = true))]
    pub(crate) hash: KeyHashText,
    /// Who owns the key.
    pub(crate) tenant: Name,
    /// The user of the tenant on whose behalf the key is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<Name>,
    /// The models that the key may use, as clients name them. A `*` at the end stands for any ending.
    #[serde(default = "all_models")]
    #[schemars(length(min = 1))]
    pub(crate) models: Vec<ModelPatternText>,
    /// The class of its calls, and the highest that their header `x-maitred-class` may name; the default class if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) class: Option<Name>,
    /// When the key begins to be valid: a date (its first instant in UTC) or a time with an offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) not_before: Option<Moment>,
    /// When the key ceases to be valid: a date (its first instant in UTC) or a time with an offset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) expires: Option<Moment>,
}

fn all_models() -> Vec<ModelPatternText> {
    vec![ModelPatternText::all()]
}

/// Calls without a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Anonymous {
    /// Who such calls are accounted to.
    pub(crate) tenant: Name,
}

/// Where a secret is kept. The secret itself never stands in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SecretRef {
    /// The environment variable that holds the secret.
    Env(#[schemars(extend("x-secret" = true))] Name),
    /// The file that holds the secret; white space at its end is ignored.
    File(#[schemars(extend("x-secret" = true))] FilePath),
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Env(name) => write!(f, "the environment variable `{name}`"),
            Self::File(path) => write!(f, "the file `{path}`"),
        }
    }
}
