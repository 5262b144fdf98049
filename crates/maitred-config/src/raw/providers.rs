//! `providers`.

use maitred_sched::PoolOptions;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Model, SecretRef};
use crate::forms::{BaseUrl, FilePath, Name};

/// A hosted API that speaks OpenAI's dialect, called as its customer. It has no metrics page and is not probed: whether it works is
/// learnt from its answers. Calls go there as far as they are inference; paths by which an account is managed do not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Provider {
    /// The provider's name in routes, metrics, logs and messages. Pools and providers share one set of names.
    pub(crate) name: Name,
    /// Where the API begins. What stands after `/v1` in a call's path is added to its path; a query, such as `?api-version=…`, is
    /// kept. Redirects are not followed.
    pub(crate) url: BaseUrl,
    /// The key of the account, sent as `Authorization: Bearer`. The caller's key is never sent on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) api_key: Option<SecretRef>,
    /// The models that are called there. A model belongs to one pool or provider.
    #[schemars(length(min = 1))]
    pub(crate) models: Vec<Model>,
    /// A file with the certificates in PEM of those who may vouch for the server; those of the system if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<FilePath>,
    /// Connects also if the name resolves to a private or loopback address. Link-local addresses, where clouds hand out the machine's
    /// own credentials, are never connected to. A loopback address that stands in `url` needs no permission.
    #[serde(default)]
    pub(crate) allow_private: bool,
    /// Lets `url` begin with `http://` where it leads to another machine: the key and all prompts can be read on the way.
    #[serde(default)]
    pub(crate) clear_text: bool,
    /// Most calls at one time.
    #[serde(default = "max_in_flight")]
    #[schemars(range(min = 1, max = 65_536))]
    pub(crate) max_in_flight: u32,
}

fn max_in_flight() -> u32 {
    PoolOptions::default().max_in_flight
}
